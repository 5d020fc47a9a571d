"""The check of `padding_mask`: keys beyond a sequence's length are hidden from all its queries."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import masks

__all__ = ["padding_mask"]


def _real(lengths, n) -> Tensor:
    return torch.arange(n) < lengths[:, None]


def over_keys(visible: Callable, lengths: Tensor, n: int, m: int) -> Tensor:
    return visible(lengths, m)[:, None, None, :].expand(-1, 1, n, -1)


def over_queries(visible: Callable, lengths: Tensor, n: int, m: int) -> Tensor:
    return visible(lengths, n)[:, None, :, None].expand(-1, 1, n, m)


@composable
def padding(
    visible: Callable = _real, counted: Callable = lambda lengths: lengths, over: Callable = over_keys
) -> Callable[..., Tensor]:
    """The mask (b, 1, n, m) by other lengths, or along other rows or columns: `visible(lengths, m)` is (b, m)."""
    return lambda lengths, n, m: over(visible, counted(lengths), n, m)


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
        queries_masked=padding(over=over_queries),
        both_masked=lambda lengths, n, m: (_real(lengths, n)[:, :, None] & _real(lengths, m)[:, None, :])[:, None],
        upside_down=padding(lambda lengths, m: ~_real(lengths, m)),
        one_too_many=padding(counted=lambda lengths: lengths + 1),
        on_the_left=padding(lambda lengths, m: ~_real(m - lengths, m)),
        no_head_axis=lambda lengths, n, m: _real(lengths, m)[:, None, :].expand(-1, n, m),
        one_row=lambda lengths, n, m: _real(lengths, m)[:, None, None, :],
        heads_before_batch=lambda lengths, n, m: _real(lengths, m)[None, :, None].expand(1, -1, n, m),
        longest_only=padding(lambda lengths, m: _real(lengths, int(lengths.max()))),
        full_one_hidden=padding_cut_from_the_end,
        empty_one_seen=lambda lengths, n, m: masks.padding_mask(lengths.clamp(min=1), n, m),
        numbers=lambda lengths, n, m: masks.padding_mask(lengths, n, m).float(),
    ),
)
