"""The check of `heads_as_sum`."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import heads as multi_head
from .heads import AS_PRECISE, cut_off

__all__ = ["heads_as_sum"]


def parts_case(label: str, b: int, h: int, n: int, d_h: int, d: int, dtype=torch.float32, gradient=False) -> Case:
    return explicit_case(label, normal(b, h, n, d_h, dtype=dtype), normal(h * d_h, d, dtype=dtype), gradient=gradient)


def parts_by_columns(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.T.unflatten(0, (heads.shape[1], -1))
    return parts, parts.sum(dim=1)


def parts_of_the_transpose(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.T.reshape(heads.shape[1], heads.shape[-1], -1)
    return parts, parts.sum(dim=1)


def parts_by_every_hth_row(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (-1, heads.shape[1])).transpose(0, 1)
    return parts, parts.sum(dim=1)


def parts_averaged(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, parts.mean(dim=1)


def parts_with_the_first_block(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o[: heads.shape[-1]]
    return parts, parts.sum(dim=1)


def parts_of_an_even_share(heads, w_o) -> tuple[Tensor, Tensor]:
    output = heads.transpose(1, 2).flatten(2) @ w_o
    return (output / heads.shape[1]).unsqueeze(1).expand(-1, heads.shape[1], -1, -1), output


def parts_joined_by_a_view(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, heads.reshape(len(heads), heads.shape[2], -1) @ w_o


def parts_added_up_in_place(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    total = parts[:, 0]
    for i in range(1, heads.shape[1]):
        total += parts[:, i]
    return parts, total


def parts_as_running_totals(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts.cumsum(dim=1), parts.sum(dim=1)


def _totals_for_parts(seen: Observation) -> bool:
    """A mark: running totals where parts belong, or the last of them in every place, as if one tensor had been put there h times."""
    totals, total = parts_as_running_totals(*seen.args)
    wrong = (totals, total.unsqueeze(1).expand_as(totals))
    return any(agree(seen.output[0], one, tolerance(seen.args)) for one in wrong)


def parts_of_h_rows(heads, w_o) -> tuple[Tensor, Tensor]:
    blocks = w_o.split(heads.shape[1])
    parts = torch.stack([heads[:, i] @ blocks[i] for i in range(heads.shape[1])], dim=1)
    return parts, parts.sum(dim=1)


def parts_of_d_over_h_rows(heads, w_o) -> tuple[Tensor, Tensor]:
    rows = w_o.shape[1] // heads.shape[1]
    parts = [heads[:, i] @ w_o[i * rows : (i + 1) * rows] for i in range(heads.shape[1])]
    return torch.stack(parts, dim=1), sum(parts)


def parts_summed_over_tokens(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, parts.sum(dim=2)


def parts_in_reverse(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1)).flip(0)
    return parts, parts.sum(dim=1)


def sum_before_the_parts(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts.sum(dim=1), parts


def parts_squeezed(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = torch.stack(
        [(head @ block).squeeze() for head, block in zip(heads.unbind(1), w_o.chunk(heads.shape[1]))], 1
    )
    return parts, parts.sum(dim=1)


heads_as_sum = Check(
    reference=multi_head.heads_as_sum,
    names=("parts", "output"),
    cases=[
        parts_case("3 heads of width 4, d = 12", 2, 3, 5, 4, 12),
        parts_case("2 heads of width 5, d = 7", 3, 2, 4, 5, 7),
        parts_case("4 heads of width 4, d = 16, n = 4", 2, 4, 4, 4, 16),
        parts_case("one sequence", 1, 3, 4, 2, 5),
        parts_case("gradients, in float64", 2, 3, 4, 2, 5, torch.float64, gradient=True),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(multi_head.heads_as_sum),
        in_single_precision(multi_head.heads_as_sum),
        axes_size_1_squeezed_away=parts_squeezed,
        w_o_cut_into_columns=Wrong(parts_by_columns, raises="RuntimeError"),
        w_o_transposed_before_it_cut=parts_of_the_transpose,
        every_h_th_row_w_o=parts_by_every_hth_row,
        heads_averaged=parts_averaged,
        every_head_with_first_block_w_o=parts_with_the_first_block,
        output_shared_out_evenly=parts_of_an_even_share,
        output_from_view_heads=parts_joined_by_a_view,
        sum_collected_first_heads_part=parts_added_up_in_place,
        totals_place_parts=Wrong(parts_as_running_totals, recognise=_totals_for_parts),
        blocks_h_rows=Wrong(parts_of_h_rows, raises="RuntimeError"),
        blocks_d_over_h_rows=Wrong(parts_of_d_over_h_rows, raises="RuntimeError"),
        sum_over_tokens=parts_summed_over_tokens,
        blocks_reverse_order=parts_in_reverse,
        sum_before_parts=sum_before_the_parts,
    ),
)
