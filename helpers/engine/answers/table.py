"""Slips of the table of scores, queries by keys: how it is made, and which of its axes is which."""

import math

import torch

from ..wrong_answers import Slip


def _sum_without_axis(hidden, mask, scores):
    powers = torch.exp(hidden - hidden.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1)


def _later_hidden(hidden, mask, scores):
    visible = torch.ones(hidden.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(hidden.masked_fill(~visible, -math.inf), dim=-1)


class Table:
    """Rows are queries, columns are keys; each row is a softmax of its own, over all keys."""

    keys_reshaped = Slip(score=lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]))
    by_keys = Slip(scale=lambda products, sizes: products / math.sqrt(products.shape[-1]))
    one_softmax = Slip(
        normalise=lambda hidden, mask, scores: torch.softmax(hidden.flatten(-2), dim=-1).view(hidden.shape)
    )
    sum_without_axis = Slip(normalise=_sum_without_axis, raises="RuntimeError")
    later_hidden = Slip(normalise=_later_hidden)
    weights_returned = Slip(mix=lambda weights, v, sizes: weights)
