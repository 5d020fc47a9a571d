"""Checks of positions: digits, sines, the shift as a rotation, and rotary embeddings."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.drivers import choice

from .. import positions as reference

__all__ = ["binary_positions", "frequencies_fall", "rotary_embedding", "shift_is_rotation", "sinusoidal_positions"]

# ------------------------------------------------------------------------------------------------------------- digits


def _digits(n, d, order=1, start=0):
    table = (torch.arange(start, start + n)[:, None] >> torch.arange(d)) & 1
    return table.float().flip(1) if order < 0 else table.float()


def _as_long_as_it_takes(n, d):
    return torch.tensor([[float(digit) for digit in reversed(format(t, f"0{d}b"))] for t in range(n)])


def _leading_digits(n, d):
    return torch.tensor([[float(digit) for digit in reversed(format(t, f"0{d}b")[:d])] for t in range(n)])


binary_positions = Check(
    reference=reference.binary_positions,
    cases=[
        explicit_case("n = 8, d = 3: the positions 0 … 7", 8, 3),
        explicit_case("n = 5, d = 4", 5, 4),
        explicit_case("n = 11, d = 3: more positions than codes", 11, 3),
        explicit_case("n = 5, d = 7", 5, 7),
        explicit_case("n = 300, d = 9: more positions than a byte counts", 300, 9),
        explicit_case("n = 3, d = 60: powers beyond int32", 3, 60),
    ],
    misconceptions=[
        Misconception(
            "the highest digit first", lambda n, d: _digits(n, d, order=-1),
            "That is how we write numbers. Here column 0 is the digit that changes at every position, and column i changes every 2^i positions.",
        ),
        Misconception(
            "positions counted from 1", lambda n, d: _digits(n, d, start=1),
            "Row 0 is position 0, and its digits are all 0.",
        ),
        Misconception(
            "−1 and 1 instead of 0 and 1", lambda n, d: 2 * _digits(n, d) - 1,
            "Digits are 0 and 1 here. (Centred ones are a fine idea, and not what is asked.)",
        ),
        Misconception(
            "positions along the columns", lambda n, d: _digits(n, d).T,
            "A position is a row: the table is (n, d).",
        ),
        Misconception(
            "one-hot positions", lambda n, d: torch.eye(max(n, d))[:n, :d],
            "One column for each position would need n columns. With digits, d columns tell 2^d positions apart.",
        ),
        Misconception(
            "every column counts in decimals", lambda n, d: ((torch.arange(n)[:, None] // 10 ** torch.arange(d)) % 10).float(),
            "These are the digits in base 10. In base 2 they are the remainders of t // 2^i divided by 2.",
        ),
        Misconception(
            "t // 2^i without the remainder", lambda n, d: (torch.arange(n)[:, None] // 2 ** torch.arange(d)).float(),
            "t // 2^i is the number with i digits dropped. Of that you want the last digit: its remainder by 2.",
        ),
        Misconception(
            "t mod 2^i", lambda n, d: (torch.arange(n)[:, None] % 2 ** torch.arange(d)).float(),
            "t mod 2^i keeps the last i digits as a number. You want digit i alone: shift first, then take the remainder by 2.",
        ),
        Misconception(
            "a division that keeps its fraction", lambda n, d: (torch.arange(n)[:, None] / 2 ** torch.arange(d)) % 2,
            "3/2 is 1.5, and no digit. Drop the fraction before you take the remainder: `//`, not `/`.",
        ),
        Misconception(
            "digits that are not cut at d", _as_long_as_it_takes,
            "A position with more than d digits makes a longer row. Keep the last d digits of each.",
            raises="ValueError",
        ),
        Misconception(
            "the leading digits kept", _leading_digits,
            "Digits beyond column d − 1 are left out: the leading ones. Turn the string round first, and cut it at d then.",
        ),
        Misconception(
            "powers in int32", lambda n, d: (torch.arange(n)[:, None] // 2 ** torch.arange(d, dtype=torch.int32) % 2).float(),
            "In int32 2^31 is negative and 2^32 is 0. d may be 60: keep the powers in int64.",
            raises="RuntimeError",
        ),
        Misconception(
            "a counter of eight bits", lambda n, d: _digits(256, d).repeat(n // 256 + 1, 1)[:n],
            "uint8 counts to 255 and begins again at 0. A position may be larger than that: count in int64.",
        ),
    ],
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------------- sines


def _angles(n, d, base=10_000.0, exponent=None, start=0):
    exponent = torch.arange(0, d, 2) / d if exponent is None else exponent
    return torch.arange(start, start + n, dtype=torch.float64)[:, None] * base ** -exponent.double()


def _interleaved(angles, first=torch.sin, second=torch.cos):
    return torch.stack([first(angles), second(angles)], dim=-1).flatten(-2).float()


def _every_column(n, d, base):
    angles = _angles(n, d, base, torch.arange(d) / d)
    return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos()).float()


def _one_pair_too_fast(n, d, base):
    return _interleaved(_angles(n, d, base, torch.arange(0, d, 2) / (2 * d)))


sinusoidal_positions = Check(
    reference=reference.sinusoidal_positions,
    cases=[
        explicit_case("n = 6, d = 4", 6, 4, 10_000.0),
        explicit_case("n = 6, d = 10", 6, 10, 10_000.0),
        explicit_case("n = 6, d = 10, base 50", 6, 10, 50.0),
        explicit_case("n = 9, d = 6, base 50", 9, 6, 50.0),
        explicit_case("n = 300, d = 4: a long text", 300, 4, 10_000.0),
        explicit_case("n = 3, d = 2: a single clock", 3, 2, 10_000.0),
    ],
    within=(1e-4, 1e-4),
    misconceptions=[
        Misconception(
            "all sines, then all cosines",
            lambda n, d, base: torch.cat([_angles(n, d, base).sin(), _angles(n, d, base).cos()], dim=1).float(),
            "The numbers are right, and their columns are not. The paper interleaves: sin θ₀, cos θ₀, sin θ₁, cos θ₁, … A pair stands side by side.",
        ),
        Misconception(
            "cosine before sine", lambda n, d, base: _interleaved(_angles(n, d, base), torch.cos, torch.sin),
            "Even columns are sines, odd ones cosines. Row 0 begins with 0, 1, 0, 1.",
        ),
        Misconception(
            "an angle of its own for every column", _every_column,
            "A sine and the cosine beside it share one frequency: the exponent is 2i/d for the columns 2i *and* 2i + 1.",
        ),
        Misconception(
            "exponent i/d instead of 2i/d", _one_pair_too_fast,
            "Pair i has the frequency base^(−2i/d). With i/d the slowest one comes near 1/√base, not near 1/base.",
        ),
        Misconception(
            "exponent 4i/d instead of 2i/d", lambda n, d, base: _interleaved(_angles(n, d, base, 2 * torch.arange(0, d, 2) / d)),
            "`torch.arange(0, d, 2)` holds 2i already. Times 2 once more, the clocks slow down twice as fast.",
        ),
        Misconception(
            "frequencies that grow", lambda n, d, base: _interleaved(_angles(n, d, 1 / base)),
            "The exponent is negative: the first pair is the fastest (θ₀ = 1), and the last pair hardly moves.",
        ),
        Misconception(
            "the last frequency exactly 1/base", lambda n, d, base: _interleaved(_angles(n, d, base, torch.linspace(0, 1, d // 2))),
            "`linspace` with both ends gives exponents 0 … 1. The paper's are 0, 2/d, 4/d, …, and stop at 1 − 2/d.",
        ),
        Misconception(
            "the base is always 10,000", lambda n, d, base: _interleaved(_angles(n, d)),
            "The base is an argument of your function, and other models use others (Llama 3 uses 500,000).",
        ),
        Misconception(
            "positions counted from 1", lambda n, d, base: _interleaved(_angles(n, d, base, start=1)),
            "Row 0 is position 0: sin 0 = 0 and cos 0 = 1.",
        ),
        Misconception(
            "the angles themselves", lambda n, d, base: _angles(n, d, base).repeat_interleave(2, dim=1).float(),
            "An angle grows without end, and a row of a long text would drown its token. Take its sine and its cosine.",
        ),
        Misconception(
            "sines only", lambda n, d, base: _interleaved(_angles(n, d, base), torch.sin, torch.sin),
            "From a sine alone you can't tell whether the clock's hand goes up or down. Its cosine stands in the odd columns.",
        ),
        Misconception(
            "the table turned on its side", lambda n, d, base: _interleaved(_angles(n, d, base)).T,
            "A position is a row: (n, d).",
        ),
        Misconception(
            "position and pair swapped",
            lambda n, d, base: _interleaved(torch.arange(0, d, 2).double() * base ** -(torch.arange(n).double() / n)[:, None]),
            "The position multiplies the frequency, and the column sets the frequency. Yours has the row in the exponent.",
        ),
    ],
)  # fmt: skip

frequencies_fall = Check(
    exercise="frequencies_fall",
    reference=lambda: "b",
    quiz=True,
    cases=[explicit_case("the letter of one choice")],
    drive=choice,
    misconceptions=[
        Misconception(
            "the first pair tells far positions apart", lambda: "a",
            "The first pair comes round every 2π ≈ 6.3 positions, so positions 0 and 6 look nearly alike to it. It tells *neighbours* apart.",
        ),
        Misconception(
            "all pairs turn equally fast", lambda: "c",
            "Then all pairs would say the same, and positions 2π apart would be one. The frequency falls from pair to pair.",
        ),
        Misconception(
            "the last pair repeats first", lambda: "d",
            "The last pair turns by about 1/10,000 of a radian a token. It needs some 60,000 tokens to come round.",
        ),
        Misconception(
            "one pair is enough", lambda: "e",
            "One fast clock comes round too soon, and one slow clock can't tell neighbours apart after rounding. Several together do both, like the hands of a watch.",
        ),
    ],
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------- shift, rotation


def _blocks(k, d, base, entries):
    """entries: of (cos, sin), the 2×2 block row by row."""
    angles = k * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    return torch.block_diag(*torch.stack(entries(angles.cos(), angles.sin()), dim=-1).unflatten(-1, (2, 2))).float()


def _row_counted_from_the_end(k, d, base):
    """The block's angles from `sinusoidal_positions(abs(k) + 1, d, base)[k]`: of its |k| + 1 rows, number k is row 1 where k < 0."""
    return _blocks(k if k >= 0 else 1, d, base, lambda c, s: [c, -s, s, c])


def _halves(k, d, base):
    angles = k * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)]).float()


shift_is_rotation = Check(
    exercise="shift_is_rotation",
    reference=reference.shift_rotation,
    cases=[
        explicit_case("a shift by k = 1, d = 4", 1, 4, 10_000.0),
        explicit_case("k = 1, d = 4, base 100", 1, 4, 100.0),
        explicit_case("backwards, k = −3, d = 4", -3, 4, 10_000.0),
        explicit_case("k = 0: nothing moves", 0, 2, 10_000.0),
        explicit_case("k = 1, d = 6", 1, 6, 10_000.0),
        explicit_case("k = 40, d = 10", 40, 10, 1_000.0),
    ],
    within=(1e-4, 1e-5),
    misconceptions=[
        Misconception(
            "the matrix for columns, not for rows", lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, -s, c]),
            "Your M turns a column, M p. A position is a row here, and PE(t) stands on the left: p M. Transpose it. (Yours shifts by −k.)",
        ),
        Misconception(
            "both sines with a plus", lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, s, c]),
            "One of the two sines has a minus: cos(a + b) = cos a cos b − sin a sin b. Without it nothing is turned, and lengths change.",
        ),
        Misconception(
            "a reflection", lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, s, -c]),
            "Its determinant is −1: it mirrors. For k = 0 it should be the identity.",
        ),
        Misconception(
            "pairs taken as halves", _halves,
            "The pairs are neighbours, columns 2i and 2i + 1, so M has 2×2 blocks along its diagonal.",
        ),
        Misconception(
            "one angle for all pairs", lambda k, d, base: _blocks(k, d, 1.0, lambda c, s: [c, -s, s, c]),
            "Every pair has its own frequency, so it turns by its own angle k θ_i.",
        ),
        Misconception(
            "only the cosines", lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, 0 * s, 0 * s, c]),
            "A shift mixes sine and cosine of a pair: sin(a + b) = sin a cos b + cos a sin b. Both addition formulas are needed.",
        ),
        Misconception(
            "the base is always 10,000", lambda k, d, base: _blocks(k, d, 10_000.0, lambda c, s: [c, -s, s, c]),
            "The frequencies come from the argument `base`.",
        ),
        Misconception(
            "frequencies base^(−i/d)", lambda k, d, base: _blocks(k, d, base**0.5, lambda c, s: [c, -s, s, c]),
            "Pair i has the frequency base^(−2i/d), as in the table of positions.",
        ),
        Misconception(
            "steps back not taken", lambda k, d, base: _blocks(max(k, 0), d, base, lambda c, s: [c, -s, s, c]),
            "k may be negative, and `range(k)` is empty then. A shift by −3 turns every pair by −3 θ_i.",
        ),
        Misconception(
            "steps back taken forwards", lambda k, d, base: _blocks(abs(k), d, base, lambda c, s: [c, -s, s, c]),
            "The sign of k says which way to turn: M(−3) undoes M(3).",
        ),
        Misconception(
            "a negative k that counts rows from the end", _row_counted_from_the_end,
            "Row k of a table with |k| + 1 rows is position k as long as k ≥ 0. `table[-3]` is the last row but two: position 1. Compute the angles k θ_i themselves.",
        ),
        Misconception(
            "the last frequency exactly 1/base", lambda k, d, base: _blocks(k, d, base ** (d / max(d - 2, 1)), lambda c, s: [c, -s, s, c]),
            "The exponents are 0, 2/d, 4/d, …, and stop at 1 − 2/d: those of the table of positions.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- rotary


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
    """In bfloat16: pairs that keep their lengths, and are turned by other angles than the right ones, but by no others than rounding leads to.
    Which ones depends on the step that was rounded; the exponent, the frequency, the position and their product together make 2 % at most."""
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
    """RandomArg positions: a second call gets others, as many as before, and what the first has kept is wrong then."""
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
        turned_rows("one list of positions for all heads of a sequence", (3, 3), [[[0, 1, 2]], [[5, 6, 9]], [[2, 7, 4]]], 6),
        turned_rows("positions 7, 8, 9, base 50", (2, 3), [7, 8, 9], 8, base=50.0),
        turned_rows("base 50", (2,), [1, 3, 6, 10, 15], 6, base=50.0),
        turned_rows("positions 1001, 1002, in bfloat16", (2,), [1001, 1002], 6, dtype=torch.bfloat16),
        turned_rows("positions 40,001, 40,002, 40,003: a whole book, in bfloat16", (2,), [40_001, 40_002, 40_003], 6, dtype=torch.bfloat16),
        turned_rows("gradients, in float64", (2,), [3, 4, 5], 4, dtype=torch.float64, gradient=True),
    ],
    # Angles in float32 are as good (rows at position 0 are asked for by a property); in bfloat16 two products of 8 bits are added, which may cancel.
    within={torch.float64: (1e-5, 1e-6), torch.bfloat16: (5e-2, 5e-2)},
    properties=[
        Property(KEEPS_DTYPE, lambda output, x, *_: output.dtype == x.dtype, DTYPE_LOST),
        Property(
            "rows at position 0 keep all their digits", _keeps_unturned_rows,
            "At position 0 nothing is turned: a float64 row should come back with all its digits.",
        ),
    ],
    misconceptions=[
        Misconception(
            "pairs of feature i and i + d/2", _by_halves,
            "Some code bases pair features like this (GPT-NeoX, Hugging Face). Here neighbours (2i, 2i + 1) are a pair, as in the paper. Weights of one kind "
            "don't work in the other.",
        ),
        Misconception(
            "even and odd features left apart", _halves_joined,
            "The turned numbers are right, and not in their places: even ones fill the first half. Interleave them again: `stack(…, dim=-1)`, then `flatten(-2)`.",
        ),
        Misconception(
            "turned the other way", lambda x, positions, base: _turned(x, positions, base, mirrored=True),
            "Your rows turn by −tθ. (even, odd) becomes (even cos − odd sin, even sin + odd cos): the minus stands in the first.",
        ),
        Misconception(
            "both signs plus", _both_signs_plus,
            "A rotation has one minus: even cos − odd sin. With two plus signs the length of a row changes.",
        ),
        Misconception(
            "positions always from 0", _from_zero,
            "The first row stands at `positions[0]`, which isn't always 0: in unit 08 one new token comes after a whole prompt.",
        ),
        Misconception(
            "positions counted on from the first", _from_the_first,
            "Only the first entry of `positions` is used. They may have gaps, and each row of the batch may have its own.",
        ),
        Misconception(
            "positions counted along the heads", _along_the_heads,
            "With (b, h, n, d), tokens are the last axis but one. Yours turns each *head* by its number.",
        ),
        Misconception(
            "added instead of turned", _added,
            "That is the sinusoidal way: a vector is added. RoPE adds nothing, it turns what is there, and lengths stay.",
        ),
        Misconception(
            "nothing is turned", lambda x, positions, base: x,
            "Your output is your input. Then a score doesn't depend on how far apart two tokens stand.",
        ),
        Misconception(
            "one frequency for all pairs", lambda x, positions, base: _turned(x, positions, base, torch.zeros(x.shape[-1] // 2)),
            "Pair i turns by t θ_i with θ_i = base^(−2i/d). With one frequency, positions 2π apart are the same.",
        ),
        Misconception(
            "exponent i/d instead of 2i/d", lambda x, positions, base: _turned(x, positions, base**0.5),
            "θ_i = base^(−2i/d): the pairs are numbered 0 … d/2 − 1, so the exponent comes near 1.",
        ),
        Misconception(
            "frequencies that grow", lambda x, positions, base: _turned(x, positions, 1 / base),
            "The exponent is negative: the first pair is the fastest.",
        ),
        Misconception(
            "the base is always 10,000", lambda x, positions, base: _turned(x, positions),
            "The base is an argument. Models for long texts use larger ones.",
        ),
        Misconception(
            "angles in degrees", lambda x, positions, base: _turned(x, positions * (math.pi / 180), base),
            "sin and cos take radians, and so does the paper: position 1 turns the first pair by 1 radian, about 57 degrees.",
        ),
        Misconception(
            "only the first half of the features turned",
            lambda x, positions, base: torch.cat([_turned(x, positions, base)[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]], dim=-1),
            "All d/2 pairs turn, the last ones slowly.",
        ),
        Misconception(
            "the first position taken off all", _from_the_first_at_zero,
            "Distances stay right, so scores look fine. But a new token that comes alone is then never turned: its position is its distance from itself.",
        ),
        Misconception(
            "the second feature computed from the turned first", _second_from_the_turned_first,
            "Both features of a pair are computed from the *old* two. If you write the first one back before you compute the second, its old value is gone.",
        ),
        Misconception(
            "positions taken for a single list", _one_list_of_positions,
            "`torch.outer` takes two vectors. Positions may have batch axes, (…, n): multiply `positions[..., None]` by the frequencies.",
            raises="RuntimeError",
        ),
        Misconception(
            "the first sequence's positions for all", _positions_of_the_first_sequence,
            "Each sequence may have positions of its own, (…, n). Flattened, and cut at n, they are those of the first: multiply `positions[..., None]` by the frequencies.",
        ),
        Misconception(
            "positions with one batch axis at most", _a_list_or_one_for_each_row,
            "Positions may have as many batch axes as x, and an axis of size 1 where x has more: (b, 1, n) beside (b, h, n, d). `positions[..., None]` times the "
            "frequencies serves them all.",
            raises="RuntimeError",
        ),
        Misconception(
            "the positions' axis of size 1 lost", _batch_axes_melted,
            "Positions (b, 1, n) are one list for each sequence. Without their axis of size 1 (`squeeze()` drops it, `reshape(-1, n, 1)` melts it into b) they stand "
            "where the heads are, beside x (b, h, n, d). `positions[..., None]` leaves the batch axes as they are.",
            raises="RuntimeError",
        ),
        Misconception(
            "a table of 4,096 positions", _from_a_table,
            "Positions come as an argument, and nothing says how large they may be. Compute the angles of those that are asked for.",
            raises="IndexError",
        ),
        Misconception(
            "angles in the dtype of x", _coarse_angles,
            "In bfloat16 position 1001 is 1000, and its angle is off by a whole radian. Compute angles in float32, and bring the turned rows to the dtype of x.",
            _turned_by_rounded_angles,
        ),
        Misconception(
            "features rounded to float32", lambda x, positions, base: _turned(x.float(), positions, base).to(x.dtype),
            "float32 is enough for the angles, but not for x: `x.float()` (as in LLaMA's code) leaves seven digits of a float64 row. Bring cosines and sines to the dtype of x, "
            "not x to theirs.",
            _unturned_row_rounded,
        ),
        Misconception(
            "always float32", lambda x, positions, base: _turned(x, positions, base).float(),
            "`torch.zeros(shape)` makes float32 whatever x is, and so does a cosine in float32 times an x in half precision. `torch.empty_like(x)`, "
            "`dtype=x.dtype`, or `.to(x.dtype)` at the end keeps the dtype of x.",
            lambda seen: seen.output.dtype == torch.float32 != seen.args[0].dtype,
        ),
    ],
)  # fmt: skip
