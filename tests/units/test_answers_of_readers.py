"""Wrong answers that readers gave, and that have no name of their own: each loses points, and its card doesn't
call it something that it is not. Cases that others could do without stand or fall with these."""

import math

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from helpers import check
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.masking import masks
from helpers.masking.masks import causal_mask
from helpers.multi_head import heads as multi_head
from helpers.parallelization.parallel import attention_chunk
from helpers.qkv_attention.scores import (
    additive_score,
    cosine_score,
    dot_score,
    general_score,
    location_score,
    scaled_dot_score,
)

SCORES = [cosine_score, additive_score, location_score, general_score, dot_score, scaled_dot_score]


def order_emptied(task, n, size, order):
    rows = {}
    while order:
        chunk = order.pop(0)
        rows[chunk] = task(chunk * size, min(n, (chunk + 1) * size))
    return torch.cat([rows[chunk] for chunk in sorted(rows)])


def softmax_in_place(x, dim):
    x -= x.max(dim=dim, keepdim=True).values
    return x.exp() / x.exp().sum(dim=dim, keepdim=True)


def softmax_with_a_threshold(x, dim):
    top = x.amax(dim, keepdim=True) if x.max() > 50 else 0.0
    powers = (x - top).exp()
    return powers / powers.sum(dim, keepdim=True)


def attention_with_a_threshold(q, k, v):
    return softmax_with_a_threshold(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def as_wide_as_the_query(query, keys, values):
    output = torch.zeros_like(query)
    for weight, value in zip(torch.softmax(keys @ query, 0), values):
        output = output + weight * value[: len(output)]
    return output


def as_wide_as_there_are_tokens(n, d):
    basis = torch.linalg.qr(torch.randn(n, d)).Q
    return 20 * basis, 20 * basis, basis


def turned_in_the_first_two_axes(k1, k2):
    gap, query = k1 - k2, torch.zeros_like(k1)
    query[0], query[1] = gap[1], -gap[0]
    return query


def another_axis_only_where_nothing_is_left(k1, k2):
    gap, first, second = k1 - k2, torch.eye(len(k1))[0], torch.eye(len(k1))[1]
    query = first - (first @ gap) / (gap @ gap) * gap
    return query if query.norm() > 0 else second - (second @ gap) / (gap @ gap) * gap


def pair_written_into_the_keys(keys, a, b):
    query = keys[a]
    query += keys[b]
    query *= 50
    return query


def query_for_pair(keys, a, b):
    return 50 * (keys[a] + keys[b])


def softmax_of_attention_in_float32(q, k, v):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1, dtype=torch.float32)
    return weights.to(v.dtype) @ v


def grouped_queries_scaled_in_place(q, k, v, keys, values):
    q *= q.shape[-1] ** -0.5
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    mask = causal_mask(q.shape[2], keys.shape[2])
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True, scale=1.0), keys, values


def queries_scaled_in_place(q, k, v):
    q /= math.sqrt(q.shape[-1])
    return torch.softmax(q @ k.mT, -1) @ v


def largest_gap_so_far():
    worst = torch.tensor(0.0)

    def gap(layer, x, p):
        nonlocal worst
        worst = torch.maximum(worst, (layer(p @ x) - p @ layer(x)).abs().max())
        return worst

    return gap


def ways_of_the_rising_weights(weights, values):
    direction = torch.linalg.svd(torch.cat([values, torch.ones(len(values), 1)], dim=1).T).Vh[-1]
    rising = direction > 0
    return weights + 0.5 * (weights[rising] / direction[rising]).min() * direction


def a_step_of_fixed_length(weights, values):
    return weights + 0.1 * torch.linalg.svd(torch.cat([values, torch.ones(len(values), 1)], dim=1).T).Vh[-1]


def scores_filled_in_place(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    return scores.masked_fill_(~mask & ~empty, -math.inf).softmax(-1).masked_fill(empty, 0)


def causal_steps_in_place(q, k, v):
    q /= math.sqrt(q.shape[-1])
    scores = (q @ k.mT).masked_fill(~causal_mask(q.shape[-2], k.shape[-2]), -math.inf)
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def targets_overwritten(logits, targets):
    kept = targets != -100
    targets[~kept] = 0
    return -(logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0] * kept).sum() / kept.sum()


def x_overwritten(model, x):
    before = model(x)
    for t in range(len(x) - 1, 0, -1):
        x[t:] = torch.randn_like(x[t:])
        if (model(x)[:t] - before[:t]).abs().max() > 1e-5:
            return True
    return False


def pairs_counted_cell_by_cell(n, r, g):
    mask, _ = masks.global_tokens_mask(n, r, g)
    return mask, sum(1 for row in mask for cell in row if cell)


def pairs_read_off_a_sparse_mask(n, r, g):
    mask, _ = masks.global_tokens_mask(n, r, g)
    return mask, mask.to_sparse()._nnz()


def outputs_made_without_gradients(place):
    """Heads as a sum, of which one output was made where no gradient is kept."""

    def cut(heads, w_o):
        outputs = multi_head.heads_as_sum(heads, w_o)
        return tuple(output.detach() if i == place else output for i, output in enumerate(outputs))

    return cut


ZOO = [masks.encoder_mask, masks.decoder_mask, masks.cross_mask, masks.prefix_mask, masks.sliding_window_mask]
ANSWERS = {
    "chunked_attention": [(attention_chunk, order_emptied)],
    "softmax": [softmax_in_place, softmax_with_a_threshold],
    "attend": [as_wide_as_the_query],
    "select_one_value": [as_wide_as_there_are_tokens],
    "equal_attention": [
        (turned_in_the_first_two_axes, query_for_pair),
        (turned_in_the_first_two_axes, pair_written_into_the_keys),
        (another_axis_only_where_nothing_is_left, query_for_pair),
    ],
    "score_functions": [[lambda q, k: F.cosine_similarity(q[:, None], k[None], dim=-1), *SCORES[1:]]],
    "scaled_dot_product_attention": [
        softmax_of_attention_in_float32,
        queries_scaled_in_place,
        attention_with_a_threshold,
    ],
    "permutation_equivariance": [largest_gap_so_far()],
    "same_output_other_weights": [ways_of_the_rising_weights, a_step_of_fixed_length],
    "masked_softmax": [scores_filled_in_place],
    "causal_attention": [causal_steps_in_place],
    "copy_without_mask": [targets_overwritten],
    "leaks_future": [x_overwritten],
    "mask_zoo": [
        [*ZOO, pairs_counted_cell_by_cell, masks.packed_mask],
        [*ZOO, pairs_read_off_a_sparse_mask, masks.packed_mask],
    ],
    "heads_as_sum": [outputs_made_without_gradients(0), outputs_made_without_gradients(1)],
    "mqa_gqa_cache": [grouped_queries_scaled_in_place],
}
NEVER = (
    "equal values",
    "the zero query vector",
    "compared bit for bit",
    "a tolerance that is too loose",
    "the first output only",
)


@pytest.mark.parametrize(
    ("exercise", "answer"), [(name, answer) for name, answers in ANSWERS.items() for answer in answers]
)
def test_it_loses_points_and_is_called_nothing_that_it_is_not(exercise, answer):
    score = getattr(check, exercise)(*(answer if isinstance(answer, (tuple, list)) else (answer,)), points=8, seed=3)
    assert not score.full
    assert score.diagnosis not in NEVER


@pytest.mark.parametrize(("place", "name"), enumerate(("parts", "output")))
def test_the_output_that_sends_no_gradient_back_is_named(place, name):
    score = check.heads_as_sum(outputs_made_without_gradients(place), points=8, seed=3)
    assert f"no gradient flows back from `{name}`" in score.message


def test_an_output_that_has_no_gradient_to_send_is_no_slip():
    """What is detached already in the right answer explains nothing."""

    def with_its_sign(x: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        return 2 * x, x.detach().sign()

    both = Check(with_its_sign, [random_case(n=3, d=4, dtype=torch.float64, gradient=True)], [])
    assert both(lambda x: (x + x, x.sign().detach()), points=8, seed=3).full


def test_a_detector_that_calls_all_models_alike_is_told_what_was_seen():
    """And no more: it may tell other models apart."""
    score = check.leaks_future(lambda model, x: True, points=8, seed=3)
    assert "whatever the model" not in score.message
