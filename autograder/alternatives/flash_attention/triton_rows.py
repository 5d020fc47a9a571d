"""Right answers of triton_rows in other styles."""

import torch

from helpers.kernels import tl, triton


@triton.jit
def row_by_row_kernel(x_ptr, factor_ptr, out_ptr, row_stride, column_stride, d, STEP: tl.constexpr):
    # One program a row; the columns in steps.
    row = tl.program_id(0)
    factor = tl.load(factor_ptr + row)
    for start in range(0, d, STEP):
        columns = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + row * row_stride + columns * column_stride, mask=columns < d)
        tl.store(out_ptr + row * d + columns, x * factor, mask=columns < d)


def rows_one_by_one(x, factor):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    row_by_row_kernel[(x.shape[0],)](x, factor.contiguous(), out, x.stride(0), x.stride(1), x.shape[1], STEP=8)
    return out


@triton.jit
def flat_kernel(x_ptr, factor_ptr, out_ptr, row_stride, column_stride, d, size, BLOCK: tl.constexpr):
    # The elements, counted through; row and column by division.
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = places // d, places % d
    x = tl.load(x_ptr + row * row_stride + column * column_stride, mask=places < size)
    tl.store(out_ptr + places, x * tl.load(factor_ptr + row, mask=places < size), mask=places < size)


def rows_flat(x, factor):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    flat_kernel[(triton.cdiv(x.numel(), 128),)](
        x, factor.contiguous(), out, *x.stride(), x.shape[1], x.numel(), BLOCK=128
    )
    return out


@triton.jit
def two_axes_kernel(
    x_ptr, factor_ptr, out_ptr, x_strides, out_strides, n, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    # A grid of tiles; what is out of reach is pointed back inside by a remainder, and only stores are masked.
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + (rows % n)[:, None] * x_strides[0] + (columns % d)[None, :] * x_strides[1])
    product = x * tl.load(factor_ptr + rows % n)[:, None]
    exists = (rows < n)[:, None] & (columns < d)[None, :]
    tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], product, mask=exists)


def rows_on_a_grid(x, factor):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]), triton.cdiv(x.shape[1], meta["COLUMNS"]))
    two_axes_kernel[grid](
        x, factor.contiguous(), out, x.stride(), out.stride(), x.shape[0], x.shape[1], ROWS=8, COLUMNS=16
    )
    return out


@triton.jit
def line_kernel(x_ptr, factor_ptr, out_ptr, x_strides, out_strides, n, d, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    # A loop over the rows of a program, with a number for the row's mask.
    columns = tl.arange(0, WIDTH)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        exists = row < n
        factor = tl.load(factor_ptr + row, mask=exists, other=0.0)
        inside = (columns < d) & exists
        line = tl.load(x_ptr + row * x_strides[0] + columns * x_strides[1], mask=inside, other=0.0)
        tl.store(out_ptr + row * out_strides[0] + columns * out_strides[1], line * factor, mask=inside)


def rows_in_a_loop(x, factor):
    out, width = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    line_kernel[(triton.cdiv(x.shape[0], 16),)](
        x, factor.contiguous(), out, x.stride(), out.stride(), *x.shape, ROWS=16, WIDTH=width
    )
    return out


triton_rows = {
    "a loop over rows, with a number for a mask": rows_in_a_loop,
    "one program a row": rows_one_by_one,
    "elements counted through": rows_flat,
    "a grid of tiles, remainders": rows_on_a_grid,
}
