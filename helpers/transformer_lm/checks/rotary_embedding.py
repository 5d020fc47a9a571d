"""The check of `rotary_embedding`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import positions as reference

__all__ = ["rotary_embedding"]


def _turned(x, positions, base=10_000.0, exponent=None, mirrored=False):
    d = x.shape[-1]
    exponent = torch.arange(0, d, 2, dtype=torch.float64) / d if exponent is None else exponent
    angles = positions[..., None] * base**-exponent
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    sin = -sin if mirrored else sin
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _by_halves(x, positions, base):
    half = x.shape[-1] // 2
    order = torch.arange(x.shape[-1]).view(2, half).T.flatten()  # 0, half, 1, half + 1, …
    return _turned(x[..., order], positions, base)[..., order.argsort()]


def _halves_joined(x, positions, base):
    turned = _turned(x, positions, base)
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], dim=-1)


def _added(x, positions, base):
    angles = positions[..., None] * base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


def _both_signs_plus(x, positions, base):
    angles = positions[..., None] * base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos + odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _from_zero(x, positions, base):
    return _turned(x, torch.arange(x.shape[-2]), base)


def _from_the_first(x, positions, base):
    return _turned(x, positions[..., :1] + torch.arange(x.shape[-2]), base)


def _along_the_heads(x, positions, base):
    if x.dim() < 4:
        return _turned(x, positions, base)
    return _turned(x, torch.arange(x.shape[1])[:, None], base)


def _from_the_first_at_zero(x, positions, base):
    return _turned(x, positions - positions[..., :1], base)


def _second_from_the_turned_first(x, positions, base):
    turned, d = _turned(x, positions, base), x.shape[-1]
    angles = positions[..., None] * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    first = turned[..., 0::2]
    second = first * angles.sin().to(x.dtype) + x[..., 1::2] * angles.cos().to(x.dtype)
    return torch.stack([first, second], dim=-1).flatten(-2)


def _one_list_of_positions(x, positions, base):
    torch.outer(positions.double(), torch.ones(x.shape[-1] // 2))  # takes vectors alone
    return _turned(x, positions, base)


def _positions_of_the_first_sequence(x, positions, base):
    return _turned(x, positions.flatten()[: x.shape[-2]], base)


def _batch_axes_melted(x, positions, base):
    return _turned(x, positions.reshape(-1, positions.shape[-1]) if positions.dim() > 1 else positions, base)


def _a_list_or_one_for_each_row(x, positions, base):
    if positions.dim() > 1:
        torch.einsum("bn,d->bnd", positions.double(), torch.ones(x.shape[-1] // 2).double())
    return _turned(x, positions, base)


def _from_a_table(x, positions, base):
    torch.zeros(4096)[positions]  # its rows would be the cosines and sines
    return _turned(x, positions, base)


def _coarse_angles(x, positions, base):
    theta = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = positions[..., None].to(x.dtype) * theta.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack(turned, dim=-1).flatten(-2)


def _turned_by_rounded_angles(seen) -> bool:
    """In bfloat16: pairs that keep their lengths, and are turned by other angles than the right ones, but by no others
    than rounding leads to. Which ones depends on the step that was rounded; the exponent, the frequency, the position
    and their product together make 2 % at most."""
    x, positions, base = seen.args
    got, right = seen.output.float().unflatten(-1, (-1, 2)), _turned(x.float(), positions, base).unflatten(-1, (-1, 2))
    same_lengths = torch.allclose(got.norm(dim=-1), right.norm(dim=-1), rtol=0.05, atol=0.05)
    other = same_lengths and not torch.allclose(got, right, rtol=0.05, atol=0.05)
    between = torch.atan2(right[..., 0] * got[..., 1] - right[..., 1] * got[..., 0], (right * got).sum(dim=-1)).abs()
    angles = positions[..., None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return x.dtype == torch.bfloat16 and other and bool((between <= 0.02 * angles + 0.05).all())


def _unturned_row_rounded(seen) -> bool:
    """In float64: a row at position 0, which is not turned, comes back as float32 would have it."""
    x, positions, _ = seen.args
    unturned = (positions == 0).expand(x.shape[:-1])
    got, right = seen.output[unturned], x[unturned]
    rounded = torch.allclose(got, right, rtol=1e-6, atol=1e-7) and not _close_in_float64(got, right)
    return seen.output.dtype == x.dtype == torch.float64 and rounded


def _keeps_unturned_rows(output, x, positions, _base) -> bool:
    unturned = (positions == 0).expand(x.shape[:-1])
    return x.dtype != torch.float64 or _close_in_float64(output[unturned], x[unturned])


def _close_in_float64(got: Tensor, right: Tensor) -> bool:
    return torch.allclose(got.double(), right, rtol=1e-12, atol=1e-12)


def turned_rows(
    label: str, batch: tuple[int, ...], where: list | Tensor, d: int, base=10_000.0, dtype=torch.float32, **limits
) -> Case:
    where = torch.as_tensor(where)

    def draw(generator: Generator) -> Tensor:
        return torch.randn(*batch, where.shape[-1], d, generator=generator, dtype=torch.float64).to(dtype)

    return explicit_case(label, RandomArg(draw), where, base, **limits)


def rows_in_any_order(label: str, batch: tuple[int, ...], n: int, d: int) -> Case:
    """Random positions: a second call gets others, as many as before, and what the first has kept is wrong then."""
    x = RandomArg(lambda generator: torch.randn(*batch, n, d, generator=generator))
    return explicit_case(label, x, RandomArg(lambda generator: torch.randperm(40, generator=generator)[:n]), 10_000.0)


KEEPS_DTYPE = "the dtype of x is kept"

DTYPE_LOST = "The output has another dtype than x."

rotary_embedding = Check(
    reference=reference.rotary_embedding,
    cases=[
        rows_in_any_order("positions in any order", (3,), 4, 10),
        turned_rows("positions 0 … 4, d = 6, in float64", (), [0, 1, 2, 3, 4], 6, dtype=torch.float64),
        turned_rows("batch and heads, d = 4", (2, 3), [0, 1, 2, 3, 4], 4),
        turned_rows("positions 7, 8, 9: after a prompt", (2, 3), [7, 8, 9], 8),
        turned_rows("positions of their own for each row", (2,), [[0, 1, 2], [5, 6, 9]], 4),
        turned_rows(
            "one list of positions for all heads of a sequence", (3, 3), [[[0, 1, 2]], [[5, 6, 9]], [[2, 7, 4]]], 6
        ),
        turned_rows("positions 7, 8, 9, base 50", (2, 3), [7, 8, 9], 8, base=50.0),
        turned_rows("base 50", (2,), [1, 3, 6, 10, 15], 6, base=50.0),
        turned_rows("positions 1001, 1002, in bfloat16", (2,), [1001, 1002], 6, dtype=torch.bfloat16),
        turned_rows(
            "positions 40,001, 40,002, 40,003: a whole book, in bfloat16",
            (2,),
            [40_001, 40_002, 40_003],
            6,
            dtype=torch.bfloat16,
        ),
        turned_rows("gradients, in float64", (2,), [3, 4, 5], 4, dtype=torch.float64, gradient=True),
    ],
    # Angles in float32 are as good (rows at position 0 are asked for by a property); in bfloat16 two products of 8 bits are added, which may cancel.
    within={torch.float64: (1e-5, 1e-6), torch.bfloat16: (5e-2, 5e-2)},
    properties=[
        Property(KEEPS_DTYPE, lambda output, x, *_: output.dtype == x.dtype, DTYPE_LOST),
        Property(
            "rows at position 0 keep all their digits",
            _keeps_unturned_rows,
            "At position 0 nothing is turned: a float64 row should come back with all its digits.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        pairs_feature_i_i_d_over_2=_by_halves,
        even_odd_features_left_apart=_halves_joined,
        turned_other_way=lambda x, positions, base: _turned(x, positions, base, mirrored=True),
        both_signs_plus=_both_signs_plus,
        positions_always_from_0=_from_zero,
        positions_counted_on_from_first=_from_the_first,
        positions_counted_along_heads=_along_the_heads,
        added_instead_turned=_added,
        nothing_turned=lambda x, positions, base: x,
        one_frequency_all_pairs=lambda x, positions, base: _turned(x, positions, base, torch.zeros(x.shape[-1] // 2)),
        exponent_i_over_d_instead_2i_over_d=lambda x, positions, base: _turned(x, positions, base**0.5),
        frequencies_that_grow=lambda x, positions, base: _turned(x, positions, 1 / base),
        base_always_10_000=lambda x, positions, base: _turned(x, positions),
        angles_degrees=lambda x, positions, base: _turned(x, positions * (math.pi / 180), base),
        only_first_half_features_turned=lambda x, positions, base: torch.cat(
            [_turned(x, positions, base)[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]], dim=-1
        ),
        first_position_taken_off_all=_from_the_first_at_zero,
        second_feature_computed_from_turned=_second_from_the_turned_first,
        positions_taken_single_list=Wrong(_one_list_of_positions, raises="RuntimeError"),
        first_sequences_positions_all=_positions_of_the_first_sequence,
        positions_with_one_batch_axis_at_most=Wrong(_a_list_or_one_for_each_row, raises="RuntimeError"),
        positions_axis_size_1_lost=Wrong(_batch_axes_melted, raises="RuntimeError"),
        table_4_096_positions=Wrong(_from_a_table, raises="IndexError"),
        angles_dtype_x=Wrong(_coarse_angles, recognise=_turned_by_rounded_angles),
        features_rounded_float32=Wrong(
            lambda x, positions, base: _turned(x.float(), positions, base).to(x.dtype), recognise=_unturned_row_rounded
        ),
        always_float32=Wrong(
            lambda x, positions, base: _turned(x, positions, base).float(),
            recognise=lambda seen: seen.output.dtype == torch.float32 != seen.args[0].dtype,
        ),
    ),
)
