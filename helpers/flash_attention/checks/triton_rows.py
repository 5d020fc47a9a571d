"""The check of `triton_rows`."""

import torch
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.kernel_check import KernelCheck, no_kernel
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.kernels import tl, triton

from .. import flash_triton
from .flash_triton import _room

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
    if SLIP == "swapped":
        x = tl.load(x_ptr + rows[:, None] * x_strides[1] + columns[None, :] * x_strides[0], mask=reads, other=0.0)
    elif SLIP == "strides of the output":
        x = tl.load(x_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], mask=reads, other=0.0)
    elif SLIP == "columns side by side" or SLIP == "all columns side by side":
        x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :], mask=reads, other=0.0)
    elif SLIP == "contiguous":
        x = tl.load(x_ptr + rows[:, None] * d + columns[None, :], mask=reads, other=0.0)
    else:
        x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :] * x_strides[1], mask=reads, other=0.0)
    if SLIP == "first factor":
        factor = tl.load(factor_ptr + (tl.program_id(0) * BLOCK + rows * 0) * factor_stride, mask=rows < n, other=0.0)[
            :, None
        ]
    elif SLIP == "factor of the row in the tile":
        factor = tl.load(factor_ptr + tl.arange(0, BLOCK) * factor_stride, mask=tl.arange(0, BLOCK) < n, other=0.0)[
            :, None
        ]
    elif SLIP == "by columns":
        factor = tl.load(factor_ptr + columns * factor_stride, mask=columns < n, other=0.0)[None, :]
    elif SLIP == "factors side by side":
        factor = tl.load(factor_ptr + rows, mask=rows < n, other=0.0)[:, None]
    else:
        factor = tl.load(factor_ptr + rows * factor_stride, mask=rows < n, other=0.0)[:, None]
    writes = row_exists & column_exists
    if SLIP == "stores unmasked":
        writes = (rows[:, None] >= 0) & column_exists
    if SLIP == "output row after row":
        tl.store(out_ptr + rows[:, None] * d + columns[None, :], x * factor, mask=writes)
    elif SLIP == "all columns side by side":
        tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :], x * factor, mask=writes)
    else:
        tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], x * factor, mask=writes)


def _rows(x, factor, slip="", tail=True, out=None) -> Tensor:
    """out: where the result goes, if not into new memory with some room behind it."""
    (n, d), out = x.shape, _room(x.shape, x.dtype, x.device) if out is None else out
    programs = -(-n // 16) if tail else n // 16
    _rows_kernel[(programs,)](
        x,
        factor,
        out,
        x.stride(),
        factor.stride(0),
        out.stride(),
        n,
        d,
        SLIP=slip,
        BLOCK=16,
        WIDTH=triton.next_power_of_2(d),
    )
    return out


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
        tiles_read_without_mask=Wrong(lambda x, factor: _rows(x, factor, "rows unmasked"), raises="UnmaskedRead"),
        columns_beyond_width=Wrong(lambda x, factor: _rows(x, factor, "columns unmasked"), raises="UnmaskedRead"),
        tiles_written_without_mask=Wrong(lambda x, factor: _rows(x, factor, "stores unmasked"), raises="UnmaskedWrite"),
        strides_taken_granted=lambda x, factor: _rows(x, factor, "contiguous"),
        factors_read_as_if_contiguous=lambda x, factor: _rows(x, factor, "factors side by side"),
        columns_taken_lie_side_by_side=lambda x, factor: _rows(x, factor, "columns side by side"),
        columns_taken_lie_side_by_side_output=lambda x, factor: _rows(
            x, factor, "all columns side by side", out=torch.empty_like(x)
        ),
        output_taken_contiguous=lambda x, factor: _rows(x, factor, "output row after row", out=torch.empty_like(x)),
        x_read_with_strides_output=lambda x, factor: _rows(x, factor, "strides of the output", out=torch.empty_like(x)),
        strides_rows_columns_swapped=Wrong(lambda x, factor: _rows(x, factor, "swapped"), raises="UnmaskedRead"),
        every_program_takes_same_rows=lambda x, factor: _rows(x, factor, "all the same"),
        tiles_one_row_apart=lambda x, factor: _rows(x, factor, "no tile size"),
        last_tile_not_launched=lambda x, factor: _rows(x, factor, tail=False),
        one_factor_whole_tile=lambda x, factor: _rows(x, factor, "first factor"),
        first_factors_every_tile=lambda x, factor: _rows(x, factor, "factor of the row in the tile"),
        factors_along_columns=lambda x, factor: _rows(x, factor, "by columns"),
        no_kernel_at_all=Wrong(rows_without_kernel, cost=no_kernel),
    ),
)
