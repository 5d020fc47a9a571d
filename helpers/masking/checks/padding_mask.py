"""The check of `padding_mask`: keys beyond a sequence's length are hidden from all its queries."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import masks

__all__ = ["padding_mask"]


def _real(lengths, n) -> Tensor:
    return torch.arange(n) < lengths[:, None]


def of_keys(visible: Callable) -> Callable[..., Tensor]:
    """The mask (b, 1, n, m) that hides other keys: `visible(lengths, m)` is (b, m)."""
    return lambda lengths, n, m: visible(lengths, m)[:, None, None, :].expand(-1, 1, n, -1)


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
        queries_masked=lambda lengths, n, m: _real(lengths, n)[:, None, :, None].expand(-1, 1, n, m),
        both_masked=lambda lengths, n, m: (_real(lengths, n)[:, :, None] & _real(lengths, m)[:, None, :])[:, None],
        upside_down=of_keys(lambda lengths, m: ~_real(lengths, m)),
        one_too_many=of_keys(lambda lengths, m: _real(lengths + 1, m)),
        on_the_left=of_keys(lambda lengths, m: ~_real(m - lengths, m)),
        no_head_axis=lambda lengths, n, m: _real(lengths, m)[:, None, :].expand(-1, n, m),
        one_row=lambda lengths, n, m: _real(lengths, m)[:, None, None, :],
        heads_before_batch=lambda lengths, n, m: _real(lengths, m)[None, :, None].expand(1, -1, n, m),
        longest_only=of_keys(lambda lengths, m: _real(lengths, int(lengths.max()))),
        full_one_hidden=padding_cut_from_the_end,
        empty_one_seen=lambda lengths, n, m: masks.padding_mask(lengths.clamp(min=1), n, m),
        numbers=lambda lengths, n, m: masks.padding_mask(lengths, n, m).float(),
    ),
)
