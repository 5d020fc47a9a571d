"""Checks of the Hadamard matrix and of the rotation of queries and keys.

Any Hadamard matrix will do, whatever the order of its rows, so properties decide. `rotate` is called twice: with signs,
and with the signs flipped beforehand and none left to flip. Both must give the same.
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


def doubled(signs: list[list[float]]) -> Callable:
    """Matrices that are made of ±1/√d by doubling: four blocks at a time, with these signs."""

    def hadamard(d: int) -> Tensor:
        h = torch.ones(1, 1)
        while len(h) < d:
            h = torch.kron(torch.tensor(signs), h)
        return h / math.sqrt(d)

    return hadamard


_hadamard = doubled([[1.0, 1.0], [1.0, -1.0]])


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


def checkerboard(d) -> Tensor:
    i = torch.arange(d)
    return (-1.0) ** (i[:, None] + i) / math.sqrt(d)


def _two_for_one(seen) -> bool:
    """Whether d = 1 gave a 2 × 2 matrix, by whatever it is divided."""
    return seen.args[0] == 1 and tuple(seen.output.shape) == (2, 2)


def random_signs(d) -> Tensor:
    return (torch.randint(2, (d, d), generator=torch.Generator().manual_seed(d)) * 2.0 - 1) / math.sqrt(d)


def _turned_anyhow(seen) -> bool:
    h, d = seen.output, seen.args[0]
    return _orthonormal(h, d) and not _flat(h, d) and bool((h != 0).all())


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
        not_divided=lambda d: _hadamard(d) * math.sqrt(d),
        divided_by_d=lambda d: _hadamard(d) / math.sqrt(d),
        divided_by_root_2_once=lambda d: _hadamard(d) * math.sqrt(d) / math.sqrt(min(d, 2)),
        no_minus=doubled([[1.0, 1.0], [1.0, 1.0]]),
        minus_twice=doubled([[1.0, -1.0], [-1.0, 1.0]]),
        minus_below=doubled([[1.0, 1.0], [-1.0, -1.0]]),
        starts_at_2=Wrong(lambda d: _hadamard(max(d, 2)), recognise=_two_for_one),
        minus_once=lambda d: torch.ones(d, d).kron(_hadamard(2))[:d, :d] * math.sqrt(2 / d),
        diagonal_blocks=lambda d: doubled([[1.0, 0.0], [0.0, -1.0]])(d) * math.sqrt(d),
        unit_matrix=lambda d: torch.eye(d),
        checkerboard=checkerboard,
        doubled_too_often=lambda d: _hadamard(2 * d),
        doubled_too_seldom=lambda d: _hadamard(max(1, d // 2)),
        random_signs=Wrong(random_signs, recognise=_thrown),
        random_rotation=Wrong(lambda d: torch.linalg.qr(torch.randn(d, d))[0], recognise=_turned_anyhow),
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


def _scores_stay(output, q, k, signs, slack: float = 1.0) -> bool:
    turned_q, turned_k = (x.double() for x in output[0])
    scores = q.double() @ k.double().mT
    within = slack * _within(q)
    return torch.allclose(turned_q @ turned_k.mT, scores, rtol=within, atol=0.1 * within * float(scores.abs().max()))


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


def turned(x, signs, h) -> Tensor:
    return (x * signs) @ h


def rotated(of_queries: Callable = turned, of_keys: Callable | None = None, cast: bool = True) -> Callable:
    """Both from (x, signs, H). of_keys: as of queries, unless told otherwise. cast: the signs to the dtype of x."""

    def rotate(q, k, signs) -> tuple[Tensor, Tensor]:
        h, signs = _hadamard(len(signs)).to(q), signs.to(q) if cast else signs
        return of_queries(q, signs, h), (of_keys or of_queries)(k, signs, h)

    return rotate


def _narrowed(seen) -> bool:
    """Whether float64 went in and float32 came out."""
    return seen.args[0].dtype == torch.float64 and all(x.dtype == torch.float32 for x in seen.output[0])


class _Kept:
    """Matrices that are made once, by their size. (On a class: a notebook's cell can have it beside the function.)"""

    made = {}


def signs_multiplied_in(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = _Kept.made.setdefault(len(signs), _hadamard(len(signs))).to(q)
    turn *= signs.to(q)[:, None]
    return q @ turn, k @ turn


def _signs_stay(seen) -> bool:
    """Whether the second call has the signs of the first in its matrix too. (Unused signs are not in the first.)"""
    _, k, signs = (x.double() for x in seen.args)
    first, second = (pair[1].double() @ _hadamard(len(signs)).double().mT for pair in seen.output)
    close = lambda a, b: torch.allclose(a, b, rtol=_within(seen.args[0]), atol=_within(seen.args[0]))
    return close(second, first * signs) and not close(first, k)


def fresh_rotation(q, k, signs) -> tuple[Tensor, Tensor]:
    turn = torch.linalg.qr(torch.randn(len(signs), len(signs)))[0].to(q)
    return (q * signs.to(q)) @ turn, (k * signs.to(k)) @ turn


def _another_rotation(seen) -> bool:
    """Whether scores stay and an outlier is shared out, but unequally: the matrix is another one, not a factor."""
    turned = [x.double().abs() for x in seen.output[0]]
    alone = [x[(before != 0).sum(dim=-1) == 1] for x, before in zip(turned, seen.args, strict=False)]
    uneven = all(bool((x.amax(dim=-1) > 1.001 * x.amin(dim=-1)).all()) for x in alone)
    stay = _scores_stay(seen.output, *seen.args, slack=5)  # a matrix rounded to 16 bits is no exact rotation
    return stay and uneven and bool((turned[0] != 0).all())


SHAPES = "It should return the queries and the keys, in their shapes."
OUTLIER = "A token with a single feature of 50 should come out with 50/√d, plus or minus, in every feature."
SIGNS = "Flipping the features' signs by hand, and then rotating without signs, gives something else."

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
        Property("gives queries and keys back, in their shapes", _shapes, SHAPES),
        Property("in the dtype of q and k", _same_dtype, "What comes back has another dtype than what went in."),
        Property("scores stay as they were: q' k'ᵀ = q kᵀ", _scores_stay, "The scores q kᵀ have changed."),
        Property("an outlier is shared out equally", _shared_out, OUTLIER),
        Property("the signs are flipped before the rotation", _signs_first, SIGNS),
    ],
    misconceptions=wrong_answers(
        __file__,
        only_queries=rotated(of_keys=lambda x, signs, h: x),
        only_keys=rotated(lambda x, signs, h: x, turned),
        signs_for_queries_only=rotated(of_keys=lambda x, signs, h: x @ h),
        keys_other_way=rotated(of_keys=lambda x, signs, h: x @ h * signs),
        h_not_divided=rotated(lambda x, signs, h: (x * signs) @ (h * math.sqrt(len(h)))),
        h_divided_by_d=rotated(lambda x, signs, h: (x * signs) @ (h / math.sqrt(len(h)))),
        keys_divided_by_d=rotated(
            lambda x, signs, h: (x * signs) @ h * len(h) ** 0.5, lambda x, signs, h: (x * signs) @ h * len(h) ** -0.5
        ),
        queries_divided_by_d=rotated(
            lambda x, signs, h: (x * signs) @ h * len(h) ** -0.5, lambda x, signs, h: (x * signs) @ h * len(h) ** 0.5
        ),
        signs_afterwards=rotated(lambda x, signs, h: x @ h * signs),
        signs_stay=Wrong(signs_multiplied_in, recognise=_signs_stay),
        matrix_in_float32=Wrong(rotated(lambda x, signs, h: (x * signs) @ h.float()), raises="RuntimeError"),
        all_in_float32=Wrong(rotated(lambda x, signs, h: (x * signs).float() @ h.float()), recognise=_narrowed),
        signs_in_float32=Wrong(rotated(cast=False), raises="RuntimeError"),
        float16_lifted=rotated(lambda x, signs, h: (x * signs) @ h.to(x * signs), cast=False),
        no_signs=rotated(lambda x, signs, h: x @ h),
        signs_only=rotated(lambda x, signs, h: x * signs),
        nothing=rotated(lambda x, signs, h: x),
        over_tokens=Wrong(
            rotated(lambda x, signs, h: _hadamard(x.shape[-2]).to(x) @ (x * signs)), raises="RuntimeError"
        ),
        another_rotation=Wrong(fresh_rotation, recognise=_another_rotation),
        wrong_order=lambda q, k, signs: rotated()(k, q, signs),
        scores=lambda q, k, signs: rotated()(q, k, signs)[0] @ rotated()(q, k, signs)[1].mT,
    ),
)

incoherent_rotation = CheckGroup("incoherent_rotation", hadamard, rotate)
