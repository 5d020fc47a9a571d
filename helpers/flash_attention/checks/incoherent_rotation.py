"""Checks of the Hadamard matrix and of the rotation of queries and keys.

Any Hadamard matrix will do, whatever the order of its rows, so properties decide. `rotate` is called twice: with signs, and
with the signs flipped beforehand and none left to flip. Both must give the same.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import rotation as reference

__all__ = ["incoherent_rotation"]

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def _hadamard(d) -> Tensor:
    h = torch.ones(1, 1)
    while len(h) < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h / math.sqrt(d)


def _square(h: Tensor, d: int) -> bool:
    return h.shape == (d, d) and h.is_floating_point()


def _orthonormal(h: Tensor, d: int) -> bool:
    h = h.double()
    return torch.allclose(h @ h.mT, torch.eye(d, dtype=h.dtype), **CLOSE)


def _flat(h: Tensor, d: int) -> bool:
    return torch.allclose(h.double().abs(), torch.full((d, d), d**-0.5, dtype=torch.float64), **CLOSE)


def _thrown(seen) -> bool:
    """Signs without a plan: rows are neither orthogonal nor equal, but something in between."""
    h, d = seen.output.double(), seen.args[0]
    among = (h @ h.mT - torch.eye(d, dtype=h.dtype)).abs()
    return d > 32 and _flat(h, d) and 0.5 / d < float(among.square().mean()) < 2 / d and float(among.max()) < 0.9


def no_minus(d) -> Tensor:
    return torch.ones(d, d) / math.sqrt(d)


def checkerboard(d) -> Tensor:
    i = torch.arange(d)
    return (-1.0) ** (i[:, None] + i) / math.sqrt(d)


def minus_twice(d) -> Tensor:
    h = torch.ones(1, 1)
    while len(h) < d:
        h = torch.cat([torch.cat([h, -h], 1), torch.cat([-h, h], 1)])
    return h / math.sqrt(d)


def minus_on_the_first_only(d) -> Tensor:
    h = torch.tensor([[1.0, 1.0], [1.0, -1.0]])[:d, :d]
    while len(h) < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, h], 1)])
    return h / math.sqrt(d)


def minus_below(d) -> Tensor:
    h = torch.ones(1, 1)
    while len(h) < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([-h, -h], 1)])
    return h / math.sqrt(d)


def starts_at_two(d) -> Tensor:
    return _hadamard(max(d, 2))


def _two_for_one(seen) -> bool:
    """Whether d = 1 gave a 2 × 2 matrix, by whatever it is divided."""
    return seen.args[0] == 1 and tuple(seen.output.shape) == (2, 2)


def diagonal_blocks(d) -> Tensor:
    h = torch.ones(1, 1)
    while len(h) < d:
        nothing = torch.zeros_like(h)
        h = torch.cat([torch.cat([h, nothing], 1), torch.cat([nothing, -h], 1)])
    return h


def random_rotation(d) -> Tensor:
    return torch.linalg.qr(torch.randn(d, d))[0]


hadamard = Check(
    reference=reference.hadamard,
    cases=[explicit_case(f"d = {d}", d) for d in (1, 2, 4, 8, 64)],
    compare=False,
    properties=[
        Property(
            "a d × d matrix of floating-point numbers", _square, "It is not a d × d matrix of floating-point numbers."
        ),
        Property("rows of length 1 that are orthogonal: H Hᵀ = 1", _orthonormal, "H Hᵀ is not the unit matrix."),
        Property("every entry is 1/√d or −1/√d", _flat, "Some entries are not ±1/√d."),
    ],
    misconceptions=wrong_answers(
        __file__,
        not_divided_by_root_d=lambda d: _hadamard(d) * math.sqrt(d),
        divided_by_d=lambda d: _hadamard(d) / math.sqrt(d),
        divided_by_root_2_once=lambda d: _hadamard(d) * math.sqrt(d) / math.sqrt(min(d, 2)),
        no_minus_sign=no_minus,
        two_blocks_with_minus=minus_twice,
        lower_blocks_both_negative=minus_below,
        with_2_2_d_1=Wrong(starts_at_two, recognise=_two_for_one),
        minus_at_first_doubling_only=minus_on_the_first_only,
        zeros_off_diagonal=diagonal_blocks,
        unit_matrix=lambda d: torch.eye(d),
        checkerboard_signs=checkerboard,
        one_doubling_too_many=lambda d: _hadamard(2 * d),
        one_doubling_too_few=lambda d: _hadamard(max(1, d // 2)),
        random_signs=Wrong(
            lambda d: (
                torch.randint(2, (d, d), generator=torch.Generator().manual_seed(d)) * 2.0 / math.sqrt(d)
                - 1 / math.sqrt(d)
            ),
            recognise=_thrown,
        ),
        random_rotation=Wrong(
            random_rotation,
            recognise=lambda seen: (
                _orthonormal(seen.output, seen.args[0])
                and not _flat(seen.output, seen.args[0])
                and bool((seen.output != 0).all())
            ),
        ),
    ),
)


def _twice(rotate, q, k, signs):
    # Made first: whoever changes q in place is told so, and nothing else.
    flipped = (q * signs).to(q), (k * signs).to(k), torch.ones_like(signs)
    return rotate(q, k, signs), rotate(*flipped)


def _shapes(output, q, k, signs) -> bool:
    return all(isinstance(pair, (tuple, list)) and [x.shape for x in pair] == [q.shape, k.shape] for pair in output)


def _same_dtype(output, q, k, signs) -> bool:
    return all([x.dtype for x in pair] == [q.dtype, k.dtype] for pair in output)


def _within(x: Tensor) -> float:
    """How far results for x may be off, as a share: 16 bits round to one part in 2,000."""
    return 1e-2 if x.dtype == torch.float16 else 1e-4


def _scores_stay(output, q, k, signs) -> bool:
    turned_q, turned_k = (x.double() for x in output[0])
    scores = q.double() @ k.double().mT
    return torch.allclose(
        turned_q @ turned_k.mT, scores, rtol=_within(q), atol=0.1 * _within(q) * float(scores.abs().max())
    )


def _shared_out(output, q, k, signs) -> bool:
    return all(_evenly(turned, x) for turned, x in zip(output[0], (q, k), strict=True))


def _evenly(turned: Tensor, x: Tensor) -> bool:
    """Where a token is zero but for one feature, the rotated token has the same size in all features."""
    alone = (x != 0).sum(dim=-1) == 1
    size = x[alone].double().abs().sum(dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    return torch.allclose(turned[alone].double().abs(), size.expand(-1, x.shape[-1]), rtol=_within(x))


def _signs_first(output, q, k, signs) -> bool:
    return all(
        torch.allclose(a.double(), b.double(), rtol=_within(q), atol=_within(q)) for a, b in zip(*output, strict=True)
    )


def _tokens(*shape: int, dtype: torch.dtype) -> RandomArg:
    """Ordinary tokens, but the first of each sequence is nothing but one outlier."""

    def make(generator) -> Tensor:
        x = torch.randn(shape, generator=generator)
        x[..., 0, :] = 0
        x[..., 0, int(torch.randint(shape[-1], (), generator=generator))] = 50
        return x.to(dtype)

    return RandomArg(make)


def _signs(d: int) -> RandomArg:
    """Half of them minus, in random order, and the first of both kinds known: never all equal."""

    def make(generator) -> Tensor:
        signs = torch.ones(d)
        signs[torch.randperm(d, generator=generator)[: d // 2]] = -1
        return signs

    return RandomArg(make)


def rotation_case(
    label: str, batch: tuple[int, ...], n: int, m: int, d: int, dtype: torch.dtype = torch.float32
) -> Case:
    """Queries and keys with outliers, and signs of both kinds."""
    return explicit_case(label, _tokens(*batch, n, d, dtype=dtype), _tokens(*batch, m, d, dtype=dtype), _signs(d))


def matrix_in_float32(q, k, signs) -> tuple[Tensor, Tensor]:
    return (q * signs.to(q)) @ _hadamard(len(signs)), (k * signs.to(k)) @ _hadamard(len(signs))


def float32_returned(q, k, signs) -> tuple[Tensor, Tensor]:
    return (q * signs.to(q)).float() @ _hadamard(len(signs)), (k * signs.to(k)).float() @ _hadamard(len(signs))


def _narrowed(seen) -> bool:
    """Whether float64 went in and float32 came out."""
    return seen.args[0].dtype == torch.float64 and all(x.dtype == torch.float32 for x in seen.output[0])


def lifted_by_the_signs(q, k, signs) -> tuple[Tensor, Tensor]:
    q, k = q * signs, k * signs
    return q @ _hadamard(len(signs)).to(q), k @ _hadamard(len(signs)).to(k)


def _hadamard_of(q, signs) -> Tensor:
    return _hadamard(len(signs)).to(q)


class _Kept:
    """Matrices that are made once, by their size. (On a class: a notebook's cell can have it beside the function.)"""

    made = {}


def signs_multiplied_in(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = _Kept.made.setdefault(len(signs), _hadamard(len(signs))).to(q)
    turn *= signs.to(q)[:, None]
    return q @ turn, k @ turn


def _signs_stay(seen) -> bool:
    """Whether the second call has the signs of the first in its matrix too. (Where signs aren't used at all, the first has none.)"""
    _, k, signs = (x.double() for x in seen.args)
    first, second = (pair[1].double() @ _hadamard(len(signs)).double().mT for pair in seen.output)
    close = lambda a, b: torch.allclose(a, b, rtol=_within(seen.args[0]), atol=_within(seen.args[0]))
    return close(second, first * signs) and not close(first, k)


def over_tokens(q, k, signs) -> tuple[Tensor, Tensor]:
    return _hadamard(q.shape[-2]).to(q) @ (q * signs.to(q)), _hadamard(k.shape[-2]).to(k) @ (k * signs.to(k))


def fresh_rotation(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = torch.linalg.qr(torch.randn(len(signs), len(signs)))[0].to(q)
    return (q * signs.to(q)) @ turn, (k * signs.to(k)) @ turn


def _another_rotation(seen) -> bool:
    """Whether scores stay and an outlier is shared out, but unequally: then no factor is amiss, but the matrix is another one."""
    turned = [x.double().abs() for x in seen.output[0]]
    alone = [x[(before != 0).sum(dim=-1) == 1] for x, before in zip(turned, seen.args, strict=False)]
    uneven = all(bool((x.amax(dim=-1) > 1.001 * x.amin(dim=-1)).all()) for x in alone)
    return _scores_stay(seen.output, *seen.args) and uneven and bool((turned[0] != 0).all())


def scaled_apart(of_queries: float, of_keys: float) -> Callable:
    """Rotated by H/√d with these powers of d as a factor more: where they add up to 0, scores stay."""

    def rotate(q, k, signs) -> tuple[Tensor, Tensor]:
        turn, d = _hadamard_of(q, signs), len(signs)
        return (q * signs.to(q)) @ turn * d**of_queries, (k * signs.to(k)) @ turn * d**of_keys

    return rotate


def scaled_down(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = _hadamard_of(q, signs) / math.sqrt(len(signs))
    return (q * signs.to(q)) @ turn, (k * signs.to(k)) @ turn


def not_scaled(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = _hadamard_of(q, signs) * math.sqrt(len(signs))
    return (q * signs.to(q)) @ turn, (k * signs.to(k)) @ turn


rotate = Check(
    reference=reference.rotate,
    cases=[
        rotation_case("n = 5, m = 7, d = 8", (), 5, 7, 8),
        rotation_case("two batch axes, d = 16", (2, 3), 6, 3, 16),
        rotation_case("n = 4, m = 8, d = 32", (), 4, 8, 32),
        rotation_case("one query, d = 64", (3,), 1, 9, 64),
        rotation_case("float64, d = 8", (), 3, 5, 8, torch.float64),
        rotation_case("float16, d = 16", (), 3, 5, 16, torch.float16),
    ],
    compare=False,
    drive=_twice,
    properties=[
        Property(
            "gives queries and keys back, in their shapes",
            _shapes,
            "It should return the queries and the keys, in their shapes.",
        ),
        Property("in the dtype of q and k", _same_dtype, "What comes back has another dtype than what went in."),
        Property("scores stay as they were: q' k'ᵀ = q kᵀ", _scores_stay, "The scores q kᵀ have changed."),
        Property(
            "an outlier is shared out equally",
            _shared_out,
            "A token with a single feature of 50 should come out with 50/√d, plus or minus, in every feature.",
        ),
        Property(
            "the signs are flipped before the rotation",
            _signs_first,
            "Flipping the features' signs by hand, and then rotating without signs, gives something else.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        only_queries_rotated=lambda q, k, signs: ((q * signs.to(q)) @ _hadamard_of(q, signs), k),
        only_keys_rotated=lambda q, k, signs: (q, (k * signs.to(k)) @ _hadamard_of(q, signs)),
        signs_queries_only=lambda q, k, signs: ((q * signs.to(q)) @ _hadamard_of(q, signs), k @ _hadamard_of(q, signs)),
        keys_rotated_other_way=lambda q, k, signs: (
            (q * signs.to(q)) @ _hadamard_of(q, signs),
            k @ _hadamard_of(q, signs) * signs.to(q),
        ),
        not_orthogonal_h_without_1_over_root_d=not_scaled,
        not_orthogonal_h_divided_by_d=scaled_down,
        with_1_over_d_keys_nothing_queries=scaled_apart(0.5, -0.5),
        with_1_over_d_queries_nothing_keys=scaled_apart(-0.5, 0.5),
        signs_after_rotation=lambda q, k, signs: (
            q @ _hadamard_of(q, signs) * signs.to(q),
            k @ _hadamard_of(q, signs) * signs.to(q),
        ),
        signs_that_stay_matrix=Wrong(signs_multiplied_in, recognise=_signs_stay),
        matrix_left_float32=Wrong(matrix_in_float32, raises="RuntimeError"),
        queries_keys_converted_float32=Wrong(float32_returned, recognise=_narrowed),
        signs_left_float32=Wrong(
            lambda q, k, signs: ((q * signs) @ _hadamard_of(q, signs), (k * signs) @ _hadamard_of(q, signs)),
            raises="RuntimeError",
        ),
        float16_queries_become_float32=lifted_by_the_signs,
        signs_not_used=lambda q, k, signs: (q @ _hadamard_of(q, signs), k @ _hadamard_of(q, signs)),
        signs_flipped_nothing_rotated=lambda q, k, signs: (q * signs.to(q), k * signs.to(k)),
        nothing_done=lambda q, k, signs: (q, k),
        tokens_mixed_instead_features=Wrong(over_tokens, raises="RuntimeError"),
        another_rotation_than_hadamards=Wrong(fresh_rotation, recognise=_another_rotation),
        keys_queries_wrong_order=lambda q, k, signs: (
            (k * signs.to(k)) @ _hadamard_of(q, signs),
            (q * signs.to(q)) @ _hadamard_of(q, signs),
        ),
        scores_returned=lambda q, k, signs: (
            (q * signs.to(q)) @ _hadamard_of(q, signs) @ ((k * signs.to(k)) @ _hadamard_of(q, signs)).mT
        ),
    ),
)

incoherent_rotation = CheckGroup("incoherent_rotation", hadamard, rotate)
