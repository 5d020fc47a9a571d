"""The references of unit 02 against PyTorch's own operators, in float64."""

import pytest
import torch
import torch.nn.functional as F

from helpers.qkv_attention import attention, constructions, scores, softmax

torch.manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1)])
def test_softmax(shape, dim):
    x = 300 * randn(*shape)
    torch.testing.assert_close(softmax.softmax(x, dim), torch.softmax(x, dim))


def test_softmax_jacobian():
    z = randn(7)
    torch.testing.assert_close(
        softmax.softmax_jacobian(z), torch.autograd.functional.jacobian(lambda t: t.softmax(0), z)
    )


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_scaled_dot_product_attention(batch):
    q, k, v = randn(*batch, 5, 4), randn(*batch, 7, 4), randn(*batch, 7, 3)
    torch.testing.assert_close(attention.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


def test_one_query_is_a_row_of_the_matrix_form():
    q, k, v = randn(1, 4), randn(6, 4), randn(6, 3)
    matrix = attention.scaled_dot_product_attention(2.0 * q, k, v)[0]  # scaled by 1/√4, so twice the query
    torch.testing.assert_close(attention.attend(q[0], k, v), matrix)


def test_cosine_score():
    q, k = randn(3, 5), randn(4, 5)
    torch.testing.assert_close(scores.cosine_score(q, k), F.cosine_similarity(q[:, None], k[None], dim=-1))


def test_general_score_is_a_bilinear_form():
    q, w, k = randn(3, 4), randn(4, 5), randn(6, 5)
    pairs = F.bilinear(q.repeat_interleave(6, 0), k.repeat(3, 1), w[None]).view(3, 6)
    torch.testing.assert_close(scores.general_score(q, w, k), pairs)


def test_score_variance_is_what_is_measured():
    q, k = 0.7 * randn(20_000, 16), 0.7 * randn(20_000, 16)
    measured = (q * k).sum(-1)
    mean, variance, scaled = scores.score_variance(16, 0.7)
    assert abs(measured.mean() - mean) < 0.05
    assert measured.var().item() == pytest.approx(variance, rel=0.05)
    assert (measured / 4).var().item() == pytest.approx(scaled, rel=0.05)


def test_parameter_counts_are_those_of_modules():
    n, d = 3, 4
    projections, dense = [torch.nn.Linear(d, d) for _ in range(3)], torch.nn.Linear(n * d, n * d)
    counted = (
        sum(p.weight.numel() for p in projections),
        sum(p.bias.numel() for p in projections),
        n * n,
        dense.weight.numel(),
        dense.bias.numel(),
    )
    assert attention.parameter_counts(n, d) == counted


def test_other_weights_are_valid_and_give_the_same_output():
    weights, values = randn(8).softmax(0), randn(8, 3)
    other = constructions.same_output_other_weights(weights, values)
    torch.testing.assert_close(other @ values, weights @ values)
    assert other.min() >= 0 and other.sum().item() == pytest.approx(1) and not torch.allclose(other, weights)
