"""The references of unit 03 against PyTorch's own operators, in float64, and what is special to the unit."""

import random

import pytest
import torch
import torch.nn.functional as F

from helpers import check
from helpers.engine.cases import DISTINCT
from helpers.masking import copying, leaks, masked_attention, masks, peekers, targets


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.parametrize("n, m", [(5, 5), (3, 7), (1, 4)])
def test_masked_softmax_is_that_of_sdpa(n, m):
    scores, mask = _drawn(2, n, m), torch.rand(2, n, m) < 0.5
    mask[..., 0] = True
    unit = torch.eye(m, dtype=torch.float64).expand(2, m, m)
    expected = F.scaled_dot_product_attention(scores, unit, unit, attn_mask=mask, scale=1.0)
    torch.testing.assert_close(masked_attention.masked_softmax(scores, mask), expected)


def test_masked_softmax_of_an_empty_row_is_zero_with_a_finite_gradient():
    scores, mask = _drawn(3, 4).requires_grad_(), torch.tensor([[True], [False], [True]]).expand(3, 4)
    weights = masked_attention.masked_softmax(scores, mask)
    (weights * _drawn(3, 4)).sum().backward()
    assert weights[1].eq(0).all() and scores.grad.isfinite().all() and scores.grad[1].eq(0).all()


@pytest.mark.parametrize("n, m", [(6, 6), (2, 5)])
def test_causal_attention_is_that_of_sdpa(n, m):
    q, k, v = _drawn(2, 3, n, 4), _drawn(2, 3, m, 4), _drawn(2, 3, m, 5)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=masks.causal_mask(n, m))
    torch.testing.assert_close(masked_attention.causal_attention(q, k, v)[2], expected)
    if n == m:
        torch.testing.assert_close(expected, F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_masking_after_and_renormalising_is_masking_before():
    scores, mask = _drawn(4, 6), masks.causal_mask(4, 6)
    weights, lost = masked_attention.mask_then_renormalise(scores, mask)
    torch.testing.assert_close(weights, masked_attention.masked_softmax(scores, mask))
    torch.testing.assert_close(lost, 1 - (scores.softmax(-1) * mask).sum(-1))


def test_the_loss_is_that_of_cross_entropy():
    logits, wanted = _drawn(3, 5, 7), torch.randint(7, (3, 5)).masked_fill(torch.rand(3, 5) < 0.4, -100)
    wanted[0, 0] = 3
    expected = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    torch.testing.assert_close(targets.next_token_loss(logits, wanted), expected)


@pytest.mark.parametrize("name", ["encoder", "decoder", "cross", "prefix", "sliding_window", "global_tokens"])
def test_the_formulas_of_the_zoo_count_their_masks(name):
    function = getattr(masks, f"{name}_mask")
    parameters = function.__code__.co_argcount
    for sizes in torch.cartesian_prod(*[torch.arange(1, 8)] * parameters).view(-1, parameters).tolist():
        if name in ("prefix", "global_tokens") and sizes[-1] > sizes[0]:
            continue
        mask, pairs = function(*sizes)
        assert mask.dtype == torch.bool and mask.sum() == pairs, sizes


@pytest.mark.parametrize("lengths", [(1,), (3, 2, 4), DISTINCT])
def test_the_formula_for_packed_documents_counts_its_mask(lengths):
    mask, pairs = masks.packed_mask(lengths)
    assert mask.sum() == pairs


def test_the_detector_is_right_about_the_nine_models():
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    assert all(leaks.leaks_future(model, x) == peeks for model, peeks in peekers.nine_models().values())


@pytest.mark.parametrize("answer", [True, False])
def test_a_detector_that_always_says_the_same_gets_nothing(answer):
    assert check.leaks_future(lambda model, x: answer, points=4) == 0


def test_rounding_noise_stays_far_below_what_counts_as_a_leak():
    model = peekers.rounding_sum(4, torch.Generator())
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        moved = peekers.influence(model, torch.randn(12, 4, generator=generator), size=2.0).triu(1)
        assert 0 < moved.max() < leaks.ROUNDING


def test_the_model_with_a_mask_learns_the_grammar_and_the_one_without_learns_to_copy():
    honest, copier = copying.train(causal=True), copying.train(causal=False)
    assert copying.entropy_per_token() * 0.95 < honest.losses[-1] < 1.5
    assert honest.losses[-1] > 200 * copier.losses[-1]  # the text says: hundreds of times smaller
    right = [
        sum(copying.is_sentence(copying.generate(run.model, seed)) for seed in range(40)) for run in (honest, copier)
    ]
    assert right[0] > 25 and right[1] < 15


def test_every_sentence_of_the_grammar_is_one():
    chance = random.Random(0)
    assert all(copying.is_sentence(copying.sentence(chance)) for _ in range(200))
    assert not copying.is_sentence("the cat sees".split())
