"""A kernel that multiplies each row of a matrix by its own factor."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.kernel_check import KernelCheck, no_kernel
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.kernels import tl, triton

from .. import flash_triton
from .flash_triton import room_like

__all__ = ["triton_rows"]


@triton.jit
def _rows_kernel(
    x_ptr,
    factor_ptr,
    out_ptr,
    x_strides,
    factor_stride,
    out_strides,
    n,
    d,
    SLIP: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SLIP == "all the same":
        rows = tl.arange(0, BLOCK)
    if SLIP == "no tile size":
        rows = tl.program_id(0) + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    row_exists, column_exists = rows[:, None] < n, columns[None, :] < d
    reads = row_exists & column_exists
    if SLIP == "rows unmasked":
        reads = column_exists & (rows[:, None] >= 0)
    if SLIP == "columns unmasked":
        reads = row_exists & (columns[None, :] >= 0)
    to_row, to_column = x_strides[0], x_strides[1]
    if SLIP == "swapped":
        to_row, to_column = x_strides[1], x_strides[0]
    if SLIP == "strides of the output":
        to_row, to_column = out_strides[0], out_strides[1]
    if SLIP == "columns side by side" or SLIP == "all columns side by side":
        to_column = 1
    if SLIP == "contiguous":
        to_row, to_column = d, 1
    x = tl.load(x_ptr + rows[:, None] * to_row + columns[None, :] * to_column, mask=reads, other=0.0)
    places, to_factor = rows, factor_stride
    if SLIP == "first factor":
        places = tl.program_id(0) * BLOCK + rows * 0
    if SLIP == "factor of the row in the tile":
        places = tl.arange(0, BLOCK)
    if SLIP == "factors side by side":
        to_factor = 1
    if SLIP == "by columns":
        factor = tl.load(factor_ptr + columns * factor_stride, mask=columns < n, other=0.0)[None, :]
    else:
        factor = tl.load(factor_ptr + places * to_factor, mask=places < n, other=0.0)[:, None]
    writes = row_exists & column_exists
    if SLIP == "stores unmasked":
        writes = (rows[:, None] >= 0) & column_exists
    to_row, to_column = out_strides[0], out_strides[1]
    if SLIP == "output row after row":
        to_row, to_column = d, 1
    if SLIP == "all columns side by side":
        to_column = 1
    tl.store(out_ptr + rows[:, None] * to_row + columns[None, :] * to_column, x * factor, mask=writes)


def rows(slip: str = "", tail: bool = True, like_x: bool = False) -> Callable:
    """A launcher whose kernel has this slip. like_x: the output lies in memory as x does."""

    def launch(x, factor) -> Tensor:
        (n, d), out = x.shape, torch.empty_like(x) if like_x else room_like(x)
        options = {"SLIP": slip, "BLOCK": 16, "WIDTH": triton.next_power_of_2(d)}
        programs = -(-n // 16) if tail else n // 16
        _rows_kernel[(programs,)](x, factor, out, x.stride(), factor.stride(0), out.stride(), n, d, **options)
        return out

    return launch


def rows_without_kernel(x, factor) -> Tensor:
    return x * factor[:, None]


triton_rows = KernelCheck(
    exercise="triton_rows",
    reference=flash_triton.scale_rows,
    oracle=rows_without_kernel,
    layouts=("columns", "gaps"),
    cases=[
        random_case(n=37, d=5),
        random_case(n=48, d=12, label="n = 48, d = 12: whole tiles of rows"),
        random_case(n=21, d=16, label="n = 21, d = 16: whole tiles of columns"),
        random_case(n=7, d=24, label="n = 7, d = 24: more columns than rows"),
        random_case(n=100, d=33),
        random_case(n=64, d=32, label="n = 64, d = 32: whole tiles"),
    ],
    misconceptions=wrong_answers(
        __file__,
        rows_unmasked=Wrong(rows("rows unmasked"), raises="UnmaskedRead"),
        columns_unmasked=Wrong(rows("columns unmasked"), raises="UnmaskedRead"),
        stores_unmasked=Wrong(rows("stores unmasked"), raises="UnmaskedWrite"),
        contiguous=rows("contiguous"),
        factors_side_by_side=rows("factors side by side"),
        columns_side_by_side=rows("columns side by side"),
        all_side_by_side=rows("all columns side by side", like_x=True),
        output_contiguous=rows("output row after row", like_x=True),
        strides_of_output=rows("strides of the output", like_x=True),
        strides_swapped=Wrong(rows("swapped"), raises="UnmaskedRead"),
        all_the_same=rows("all the same"),
        no_tile_size=rows("no tile size"),
        last_not_launched=rows(tail=False),
        first_factor=rows("first factor"),
        factor_of_row_in_tile=rows("factor of the row in the tile"),
        by_columns=rows("by columns"),
        no_kernel=Wrong(rows_without_kernel, cost=no_kernel),
    ),
)
