"""ALiBi's bias: what the paper says of it, and what follows for attention."""

import torch

from helpers.multi_head.alibi_bias import alibi_bias


def test_eight_heads_have_the_slopes_that_the_paper_prints():
    below_the_diagonal = alibi_bias(2, 8)[:, 1, 0]
    assert below_the_diagonal.tolist() == [-(2.0**-k) for k in range(1, 9)]


def test_sixteen_heads_have_the_geometric_means_between_them():
    slopes = -alibi_bias(2, 16)[:, 1, 0]
    torch.testing.assert_close(slopes[1::2], -alibi_bias(2, 8)[:, 1, 0])
    torch.testing.assert_close(slopes[2::2], (slopes[1:-1:2] * slopes[3::2]).sqrt())


def test_attention_with_it_depends_on_distances_alone():
    """Equal scores: the weights of a later query, cut to as many keys and renormalised, are an earlier one's."""
    weights = torch.softmax(alibi_bias(9, 4).double(), dim=-1)
    late = weights[:, 8, 4:] / weights[:, 8, 4:].sum(-1, keepdim=True)
    torch.testing.assert_close(weights[:, 4, :5], late, rtol=1e-6, atol=1e-6)
    assert weights.triu(1).eq(0).all()
