"""The check of `padding_mask`."""

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import masks

__all__ = ["padding_mask"]


def padded_queries(lengths, n, m) -> Tensor:
    real = torch.arange(n) < lengths[:, None]
    return real[:, None, :, None].expand(-1, 1, n, m)


def padded_on_both_sides(lengths, n, m) -> Tensor:
    queries, keys = torch.arange(n) < lengths[:, None], torch.arange(m) < lengths[:, None]
    return (queries[:, :, None] & keys[:, None, :])[:, None]


def _keys_as_mask(keys, n) -> Tensor:
    return keys[:, None, None, :].expand(-1, 1, n, -1)


def padding_cut_from_the_end(lengths, n, m) -> Tensor:
    mask = torch.ones(len(lengths), 1, n, m, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, ..., -(m - length) :] = False
    return mask


padding_mask = Check(
    reference=masks.padding_mask,
    cases=[
        explicit_case("lengths 3, 5, 1, n = 4, m = 6", torch.tensor([3, 5, 1]), 4, 6),
        explicit_case("one sequence without padding", torch.tensor([7, 2]), 5, 7),
        explicit_case("n = m = 4, lengths 4, 1, 3", torch.tensor([4, 1, 3]), 4, 4),
        explicit_case("lengths 6, 2, 4, n = 4, m = 6", torch.tensor([6, 2, 4]), 4, 6),
        explicit_case("an empty sequence beside a full one", torch.tensor([0, 6]), 3, 6),
        explicit_case("one sequence, n = 1", torch.tensor([2]), 1, 5),
        explicit_case("as many sequences as queries and keys", torch.tensor([3, 1, 2]), 3, 3),
    ],
    misconceptions=wrong_answers(
        __file__,
        queries_masked_instead_keys=padded_queries,
        queries_keys_masked=padded_on_both_sides,
        true_where_padding=lambda lengths, n, m: _keys_as_mask(torch.arange(m) >= lengths[:, None], n),
        one_key_too_many=lambda lengths, n, m: _keys_as_mask(torch.arange(m) <= lengths[:, None], n),
        padding_expected_on_left=lambda lengths, n, m: _keys_as_mask(torch.arange(m) >= m - lengths[:, None], n),
        no_axis_heads=lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[:, None, :].expand(-1, n, m),
        one_row_all_queries=lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[:, None, None, :],
        axis_heads_before_batch=lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[None, :, None].expand(
            1, -1, n, m
        ),
        as_many_columns_as_longest_sequence_has=lambda lengths, n, m: _keys_as_mask(
            torch.arange(int(lengths.max())) < lengths[:, None], n
        ),
        sequence_without_padding_hidden=padding_cut_from_the_end,
        empty_sequence_that_keeps_key=lambda lengths, n, m: masks.padding_mask(lengths.clamp(min=1), n, m),
        numbers_instead_true_false=lambda lengths, n, m: masks.padding_mask(lengths, n, m).float(),
    ),
)
