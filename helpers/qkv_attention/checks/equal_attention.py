"""The check of `equal_attention`: a query that gives half of its attention to each of two keys."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import constructions
from .constructions import FINITE, _weights_of

__all__ = ["equal_attention"]


def _gives_halves(query, *keys) -> bool:
    weights = _weights_of(query, torch.stack(keys))
    return query.shape == keys[0].shape and (weights - 0.5).abs().max().item() < 1e-3


def _parallel(a: Tensor, b: Tensor) -> bool:
    """Nothing but the zero vector is parallel to the zero vector."""
    if a.shape != b.shape or not (a.any() and b.any()):
        return a.shape == b.shape and not (a.any() or b.any())
    return abs(torch.cosine_similarity(a.double(), b.double(), dim=0).item()) > 0.999


def _axis(gap: Tensor) -> Tensor:
    """The axis that is furthest from parallel to `gap`."""
    return torch.zeros_like(gap).index_fill(0, gap.abs().argmin(), 1.0)


def _across(key: Tensor, divisor: Callable = lambda key: (key @ key).clamp_min(1e-12)) -> Tensor:
    return _axis(key) - (_axis(key) @ key) / divisor(key) * key


def _unit(query: Tensor) -> Tensor:
    return query / query.norm()


def _direction(made: Callable) -> Wrong:
    """A query that points where it shouldn't, however long it is."""
    return Wrong(made, recognise=lambda seen: _parallel(seen.output, made(*seen.args)))


def a_turn_made_unit(k1, k2) -> Tensor:
    turned = torch.zeros_like(k1)
    turned[0], turned[1] = k1[1] - k2[1], k2[0] - k1[0]
    return _unit(turned)


def multiplied_by_the_square(k1, k2) -> Tensor:
    gap = k1 - k2
    return (gap @ gap) * _axis(gap) - (_axis(gap) @ gap) * gap


def _as_long_as_the_square(seen) -> bool:
    """A right direction, of the length of `multiplied_by_the_square` or off by a factor below 10."""
    query, made = seen.output.double(), multiplied_by_the_square(*(key.double() for key in seen.args))
    return 0.1 < query.norm() / made.norm() < 10 and _gives_halves(_unit(query), *seen.args)


def wide_key(d: int) -> RandomArg:
    return RandomArg(lambda generator: 180 * torch.rand(d, generator=generator) - 90)


def _at_a_right_angle_to_one(query, k1, k2) -> bool:
    scores = sorted(abs((query @ key).item()) for key in (k1, k2))
    return scores[0] < 1e-4 and scores[1] > 1e-3


def _keys(label: str, *keys: tuple) -> Case:
    return explicit_case(label, *(torch.tensor(key, dtype=torch.float32) for key in keys))


query_between = Check(
    reference=constructions.query_between,
    cases=[
        random_case(d=2),
        random_case(d=5),
        random_case(d=16, dtype=torch.float64),
        _keys("k1 = (1, 0), k2 = (3, 0)", (1, 0), (3, 0)),
        _keys("d = 2, the difference nearly along the first axis", (50, 2.01), (-40, 2)),
        _keys("d = 3, the difference nearly along the last axis", (0.01, 1, 50), (0, 1, -40)),
        _keys("k1 = (1, 2, 0), k2 = (1, 2, 3): they differ in the last entry", (1, 2, 0), (1, 2, 3)),
        _keys("k1 = (0, 0, 5), k2 = (0, 4, 5): they differ in the middle entry", (0, 0, 5), (0, 4, 5)),
        _keys("k1 = (3, 3, 3), k2 = (1, 1, 1): the difference has equal entries", (3, 3, 3), (1, 1, 1)),
        _keys("opposite keys, k1 = (3, −1, 2) = −k2", (3, -1, 2), (-3, 1, -2)),
        explicit_case("d = 16, entries up to 90", wide_key(16), wide_key(16)),
        _keys("keys that differ by 0.01 in one entry", (1, -2, 0.5, 3), (1, -1.99, 0.5, 3)),
    ],
    compare=False,
    properties=[
        FINITE,
        Property(
            "the query is as wide as the keys",
            lambda query, k1, _: query.shape == k1.shape,
            "The query needs as many entries as a key. Does what you do there work only in the plane?",
        ),
        Property("both keys get ½", _gives_halves, "The two scores must be equal."),
        Property(
            "the query is not zero",
            lambda query, *_: query.norm().item() > 1e-3,
            "The query is (0, …, 0), or shorter than 0.001: that is excluded.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        zero=Wrong(lambda k1, k2: torch.zeros_like(k1), recognise=lambda seen: seen.output.norm().item() < 1e-3),
        divided_by_0=Wrong(a_turn_made_unit, recognise=lambda seen: seen.output.isnan().all()),
        sum=_direction(lambda k1, k2: k1 + k2),
        sum_of_units=_direction(lambda k1, k2: k1 / k1.norm() + k2 / k2.norm()),
        difference=_direction(lambda k1, k2: k1 - k2),
        square_long=Wrong(multiplied_by_the_square, recognise=_as_long_as_the_square),
        too_long=Wrong(
            lambda k1, k2: 1e7 * _across((k1 - k2).double()).to(k1),
            recognise=lambda seen: seen.output.norm() > 1e3 and _gives_halves(_unit(seen.output), *seen.args),
        ),
        divided_once=_direction(lambda k1, k2: _across(k1 - k2, torch.norm)),
        one_key_only=Wrong(
            lambda k1, k2: _across(k1), recognise=lambda seen: _at_a_right_angle_to_one(seen.output, *seen.args)
        ),
        not_divided=lambda k1, k2: _across(k1 - k2, lambda key: 1.0),
    ),
)


def orthonormal_keys(n: int, d: int) -> RandomArg:
    return RandomArg(lambda generator: torch.linalg.qr(torch.randn(d, n, generator=generator)).Q.mT)


def _pair_shares(query, keys, a, b) -> bool:
    return (_weights_of(query, keys)[[a, b]] - 0.5).abs().max().item() < 1e-3


def _others_ignored(query, keys, a, b) -> bool:
    return 1 - _weights_of(query, keys)[[a, b]].sum().item() < 1e-3


def _another_pair(query, keys, a, b) -> bool:
    """Two keys have half of the attention each, and one of them at least is neither a nor b."""
    most = _weights_of(query, keys).topk(2)
    return most.values.min().item() > 0.49 and set(most.indices.tolist()) != {a, b}


def entries(keys, a, b) -> Tensor:
    query = torch.zeros(keys.shape[1])
    query[[a, b]] = 50.0
    return query


def _unequal(query, keys, a, b) -> bool:
    """Made of keys a and b alone, with two positive parts that differ."""
    parts = keys @ query
    rest = query - parts[a] * keys[a] - parts[b] * keys[b]
    return (
        rest.norm().item() < 1e-3 * query.norm().item()
        and min(parts[a], parts[b]) > 1e-2
        and abs(parts[a] - parts[b]).item() > 1e-2
    )


query_for_pair = Check(
    reference=constructions.query_for_pair,
    cases=[
        explicit_case("4 keys, a = 0, b = 2", orthonormal_keys(4, 4), 0, 2),
        explicit_case("6 keys of width 9, a = 5, b = 1", orthonormal_keys(6, 9), 5, 1),
        explicit_case("12 keys, a = 3, b = 4", orthonormal_keys(12, 16), 3, 4),
        explicit_case("100 keys, a = 40, b = 7", orthonormal_keys(100, 128), 40, 7),
        explicit_case("500 keys, a = 0, b = 499", orthonormal_keys(500, 512), 0, 499),
    ],
    compare=False,
    properties=[
        FINITE,
        Property("keys a and b get ½ each", _pair_shares, "Keys a and b must get ½ each."),
        Property("the others get less than 0.001 together", _others_ignored, "Their scores must lie far below."),
    ],
    misconceptions=wrong_answers(
        __file__,
        too_short=Wrong(
            lambda keys, a, b: keys[a] + keys[b],
            recognise=lambda seen: (
                _parallel(seen.output, constructions.query_for_pair(*seen.args))
                and not _others_ignored(seen.output, *seen.args)
            ),
        ),
        one_key=_direction(lambda keys, a, b: 100 * keys[a]),
        difference_of_keys=_direction(lambda keys, a, b: 100 * (keys[a] - keys[b])),
        all_keys=_direction(lambda keys, a, b: 100 * keys.sum(dim=0)),
        entries=_direction(entries),
        another_pair=Wrong(
            lambda keys, a, b: 100 * (keys[a] + keys[b - 1]),
            recognise=lambda seen: _another_pair(seen.output, *seen.args),
        ),
        columns=_direction(lambda keys, a, b: 100 * (keys[:, a] + keys[:, b])),
        sum_too_long=Wrong(
            lambda keys, a, b: 1e7 * (keys[a] + keys[b]),
            recognise=lambda seen: (
                bool(seen.output.norm() > 1e3) and _pair_shares(100 * _unit(seen.output.double()), *seen.args)
            ),
        ),
        unequal=Wrong(
            lambda keys, a, b: 100 * keys[a] + 50 * keys[b], recognise=lambda seen: _unequal(seen.output, *seen.args)
        ),
    ),
)

equal_attention = CheckGroup("equal_attention", query_between, query_for_pair)
