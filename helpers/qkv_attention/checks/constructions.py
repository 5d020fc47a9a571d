"""Checks of queries, keys and weights that students make to order: many answers are right, so properties decide."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property

from .. import constructions

__all__ = ["equal_attention", "same_output_other_weights", "select_one_value"]


def _weights_of(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.softmax(queries.double() @ keys.double().mT, dim=-1)


def _selects(output, n, d) -> bool:
    queries, keys, values = output
    if not _finite_scores(output, n, d):
        return False
    mixed = _weights_of(queries, keys) @ values.double()
    return mixed.shape == values.shape and len(values) == n and (mixed - values).abs().max().item() < 1e-3


def _all_differ(values: Tensor) -> bool:
    gaps = torch.cdist(values.double(), values.double(), p=torch.inf)  # (n, n): the largest difference in an entry
    return gaps.fill_diagonal_(torch.inf).min().item() > 0.0099  # 0.01, rounded


def _two_alike(values: Tensor) -> bool:
    return bool((torch.pdist(values.double()) == 0).any())


FINITE = Property(
    "no number is NaN or infinite",
    lambda output, *_: bool(output.isfinite().all()),
    "Your output holds NaN or ∞: something was divided by 0, or overflowed.",
)


def _sized(output, n, d) -> bool:
    return all(part.shape == (n, d) for part in output)


def _sizes(output, n, d) -> str:
    return f"Yours are {', '.join('×'.join(map(str, part.shape)) for part in output)}."


def of_right_size(mark: Callable) -> Callable:
    """A mark of what vectors do, not of how many there are."""
    return lambda seen: _sized(seen.output, *seen.args) and mark(seen)


def _as_many_as_columns(seen) -> bool:
    n, d = seen.args
    return n != d and all(len(part) == d for part in seen.output)


def _equal_keys(seen) -> bool:
    keys = seen.output[1]
    return (keys - keys[0]).abs().max().item() < 1e-6


def _small_norms(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    chosen = weights.argmax(-1).tolist() == list(range(seen.args[0]))
    return chosen and weights.diagonal().min().item() < 0.999


def _collinear(seen) -> bool:
    return not _equal_keys(seen) and torch.linalg.matrix_rank(seen.output[1].double()).item() == 1


def _another_key(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    return weights.amax(-1).min().item() > 0.999 and weights.argmax(-1).tolist() != list(range(len(weights)))


def _finite_scores(output, n, d) -> bool:
    """In the numbers' own dtype: two factors of 1e20 make a score that float32 can't hold."""
    queries, keys, _ = output
    return bool((queries @ keys.mT).isfinite().all())


def _too_long(seen) -> bool:
    return not _finite_scores(seen.output, *seen.args)


def _crowded(seen) -> bool:
    """Some query scores high with a wrong key: more than a fifth of what it scores with its own."""
    scores = seen.output[0].double() @ seen.output[1].double().mT
    own = scores.diagonal()
    return bool((scores - 0.2 * own[:, None]).fill_diagonal_(-1).max() > 0)


def _random_keys(n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    keys = torch.rand(n, d, generator=torch.Generator().manual_seed(0))
    return 10 * keys, keys, _rows(n, d)


def _values_too_far_apart(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    return weights.diagonal().min().item() > 0.999 and not _selects(seen.output, *seen.args)


def _rows(n: int, d: int) -> Tensor:
    return torch.arange(n * d, dtype=torch.float32).view(n, d)


select_one_value = Check(
    reference=constructions.select_one_value,
    cases=[random_case(n=4, d=4), random_case(n=5, d=8), random_case(n=4, d=8), random_case(n=16, d=16), random_case(n=200, d=256)],
    compare=False,
    properties=[
        Property("all are n × d", _sized, "Return three n × d tensors.", _sizes),
        Property("output i is value i, within 0.001", _selects, "Query i must give value i and next to nothing of the others."),
        Property("the scores are finite", _finite_scores, "In float32 a score beyond 3·10³⁸ is infinite, and the softmax of ∞ is NaN."),
        Property("all values differ", lambda output, n, d: _all_differ(output[2]), "Some two of your values differ by less than 0.01 in every entry."),
    ],
    misconceptions=[
        Misconception(
            "as many vectors as they have entries", lambda n, d: (100 * torch.eye(d), torch.eye(d), torch.eye(d)),
            "You return d queries, keys and values, and n of each are asked for, of width d. They are as many only for n = d: `torch.eye(n, d)` has n rows.",
            _as_many_as_columns,
        ),
        Misconception(
            "equal keys", lambda n, d: (100 * torch.eye(n, d), torch.ones(n, d), _rows(n, d)),
            "Equal keys get equal scores from every query, whatever the query is, so every output is the mean of the values.",
            of_right_size(_equal_keys),
        ),
        Misconception(
            "keys that can't be separated",
            lambda n, d: (100 * torch.eye(n, d), torch.arange(1.0, n + 1)[:, None] * torch.ones(n, d), _rows(n, d)),
            "All your keys point the same way. Any query then prefers the longest of them, or the shortest, never one in between. "
            "Give every key a direction of its own.",
            of_right_size(_collinear),
        ),
        Misconception(
            "queries that find another key", lambda n, d: (100 * torch.eye(n, d).flip(0), torch.eye(n, d), _rows(n, d)),
            "Each query finds exactly one key, but for some it isn't their own: query i must find key i. (A long key can win although another one lies in the "
            "query's direction. Keys at right angles and of one length are safe.)",
            of_right_size(_another_key),
        ),
        Misconception(
            "equal values", lambda n, d: (100 * torch.eye(n, d), torch.eye(n, d), torch.ones(n, d)),
            "With equal values every output is right, whatever the weights are: this shows nothing. Make all values different.",
            of_right_size(lambda seen: _two_alike(seen.output[2])),
        ),
        Misconception(
            "values that differ by less than 0.01", lambda n, d: (100 * torch.eye(n, d), torch.eye(n, d), 1e-5 * _rows(n, d)),
            "Any two values must differ by at least 0.01 in some entry, however many there are. If they lie closer, an output within 0.001 of one is "
            "as good as within 0.001 of the other.",
            of_right_size(lambda seen: not _all_differ(seen.output[2]) and not _two_alike(seen.output[2])),
        ),
        Misconception(
            "vectors so long that the scores overflow", lambda n, d: (1e20 * torch.eye(n, d), 1e20 * torch.eye(n, d), _rows(n, d)),
            "A score of 10⁴⁰ is infinite in float32, and a softmax of ∞ is NaN. A gap of 50 between the scores is plenty.",
            of_right_size(_too_long),
        ),
        Misconception(
            "values so far apart that the small rest shows", lambda n, d: (20 * torch.eye(n, d), torch.eye(n, d), 1e6 * _rows(n, d)),
            "The right weight is nearly 1, and the rest goes to values that lie far away: a rest of 0.0001 times 100 is 0.01. "
            "Make the gap between the scores wider, or the values smaller.",
            of_right_size(_values_too_far_apart),
        ),
        Misconception(
            "keys that disturb each other", _random_keys,
            "Some of your queries score high with a wrong key as well. Random keys point in similar directions, and a long one can win "
            "everywhere. Choose keys at right angles to each other.",
            of_right_size(_crowded),
        ),
        Misconception(
            "norms that are too small", lambda n, d: (torch.eye(n, d), torch.eye(n, d), _rows(n, d)),
            "The right key wins, but not by enough. With score s against 0 it gets e^s / (e^s + n − 1): s = 1 is little, and s = 10 is still too "
            "little among a hundred keys. Longer queries (or keys) make the gap as wide as you like.",
            of_right_size(_small_norms),
        ),
    ],
)  # fmt: skip


def _gives_halves(query, *keys) -> bool:
    weights = _weights_of(query, torch.stack(keys))
    return query.shape == keys[0].shape and (weights - 0.5).abs().max().item() < 1e-3


def _is_not_zero(query, *_) -> bool:
    return query.norm().item() > 1e-3


def _parallel(a: Tensor, b: Tensor) -> bool:
    """Nothing but the zero vector is parallel to the zero vector."""
    if a.shape != b.shape or not (a.any() and b.any()):
        return a.shape == b.shape and not (a.any() or b.any())
    return abs(torch.cosine_similarity(a.double(), b.double(), dim=0).item()) > 0.999


def _axis(gap: Tensor) -> Tensor:
    """The axis that is furthest from parallel to `gap`."""
    return torch.zeros_like(gap).index_fill(0, gap.abs().argmin(), 1.0)


def _across(key: Tensor) -> Tensor:
    return _axis(key) - (_axis(key) @ key) / (key @ key).clamp_min(1e-12) * key


def a_turn_made_unit(k1, k2) -> Tensor:
    gap = k1 - k2
    turned = torch.zeros_like(gap)
    turned[0], turned[1] = gap[1], -gap[0]
    return turned / turned.norm()


def divided_once(k1, k2) -> Tensor:
    gap = k1 - k2
    return _axis(gap) - (_axis(gap) @ gap) / gap.norm() * gap


def multiplied_by_the_square(k1, k2) -> Tensor:
    gap = k1 - k2
    return (gap @ gap) * _axis(gap) - (_axis(gap) @ gap) * gap


def _as_long_as_the_square(seen) -> bool:
    """A right direction whose length is that of `multiplied_by_the_square`, or smaller or larger by a factor below 10."""
    query, made = seen.output.double(), multiplied_by_the_square(*(key.double() for key in seen.args))
    return 0.1 < query.norm() / made.norm() < 10 and _gives_halves(query / query.norm(), *seen.args)


def wide_key(d: int) -> RandomArg:
    return RandomArg(lambda generator: 180 * torch.rand(d, generator=generator) - 90)


def _nearly_equal() -> tuple[Tensor, Tensor]:
    key = torch.tensor([1.0, -2.0, 0.5, 3.0])
    return key, key + torch.tensor([0.0, 0.01, 0.0, 0.0])


def _at_a_right_angle_to_one(query, k1, k2) -> bool:
    scores = sorted(abs((query @ key).item()) for key in (k1, k2))
    return scores[0] < 1e-4 and scores[1] > 1e-3


query_between = Check(
    reference=constructions.query_between,
    cases=[
        random_case(d=2), random_case(d=5), random_case(d=16, dtype=torch.float64),
        explicit_case("k1 = (1, 0), k2 = (3, 0)", torch.tensor([1.0, 0.0]), torch.tensor([3.0, 0.0])),
        explicit_case("d = 2, the difference nearly along the first axis", torch.tensor([50.0, 2.01]), torch.tensor([-40.0, 2.0])),
        explicit_case("d = 3, the difference nearly along the last axis", torch.tensor([0.01, 1.0, 50.0]), torch.tensor([0.0, 1.0, -40.0])),
        explicit_case("k1 = (1, 2, 0), k2 = (1, 2, 3): they differ in the last entry", torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 2.0, 3.0])),
        explicit_case("k1 = (0, 0, 5), k2 = (0, 4, 5): they differ in the middle entry", torch.tensor([0.0, 0.0, 5.0]), torch.tensor([0.0, 4.0, 5.0])),
        explicit_case("k1 = (3, 3, 3), k2 = (1, 1, 1): the difference has equal entries", torch.full((3,), 3.0), torch.ones(3)),
        explicit_case("opposite keys, k1 = (3, −1, 2) = −k2", torch.tensor([3.0, -1.0, 2.0]), torch.tensor([-3.0, 1.0, -2.0])),
        explicit_case("d = 16, entries up to 90", wide_key(16), wide_key(16)),
        explicit_case("keys that differ by 0.01 in one entry", *_nearly_equal()),
    ],
    compare=False,
    properties=[
        FINITE,
        Property("both keys get ½", _gives_halves, "The two scores must be equal."),
        Property("the query is not zero", _is_not_zero, "The query is (0, …, 0), or shorter than 0.001: that is excluded."),
    ],
    misconceptions=[
        Misconception(
            "the zero query", lambda k1, k2: torch.zeros_like(k1),
            "Where your query fails it is 0, or as good as 0 (shorter than 0.001), and scores next to nothing with every key: true, and useless. If you take "
            "away a part of a vector, start from one that is not parallel to k1 − k2, nor nearly so; if you turn entries, turn some that are not all 0.",
            lambda seen: seen.output.norm().item() < 1e-3,
        ),
        Misconception(
            "a query of length 0 divided by its length", a_turn_made_unit,
            "All entries of your query are NaN where it fails: 0/0, which is what a zero vector divided by its length gives. The keys may agree in most entries. If you "
            "turn entries of k1 − k2, turn some that are not all 0; if you take away a part of a vector, start from one that is not parallel to it.",
            lambda seen: seen.output.isnan().all(),
        ),
        Misconception(
            "k1 + k2", lambda k1, k2: k1 + k2,
            "q·k1 = ‖k1‖² + k1·k2 and q·k2 = ‖k2‖² + k1·k2. These are equal only if both keys are equally long.",
            lambda seen: _parallel(seen.output, seen.args[0] + seen.args[1]),
        ),
        Misconception(
            "the sum of the two unit vectors", lambda k1, k2: k1 / k1.norm() + k2 / k2.norm(),
            "This query makes the same angle with both keys, but a score is the product of both lengths and the cosine of the angle: the longer key still wins.",
            lambda seen: _parallel(seen.output, seen.args[0] / seen.args[0].norm() + seen.args[1] / seen.args[1].norm()),
        ),
        Misconception(
            "along k1 − k2 instead of across it", lambda k1, k2: k1 - k2,
            "You want q·(k1 − k2) = 0: the query stands at a right angle to the difference. Yours points along it.",
            lambda seen: _parallel(seen.output, seen.args[0] - seen.args[1]),
        ),
        Misconception(
            "a length that grows with the square of the difference", multiplied_by_the_square,
            "The direction is right, and the length is about that of k1 − k2, squared: for wide keys so large that rounding shows, for keys that hardly differ next "
            "to nothing. Divide the query by its own length.",
            _as_long_as_the_square,
        ),
        Misconception(
            "so long that rounding shows", lambda k1, k2: 1e7 * (_axis(k1 - k2).double() - (_axis(k1 - k2).double() @ (k1 - k2).double()) / ((k1 - k2) @ (k1 - k2)).double() * (k1 - k2)).to(k1),
            "The direction is right to within rounding, and your query is so long that rounding shows: the two scores differ by more than 0.004. A length of 1, or less, is plenty.",
            lambda seen: seen.output.norm() > 1e3 and _gives_halves(seen.output / seen.output.norm(), *seen.args),
        ),
        Misconception(
            "the part along k1 − k2 divided by its length once", divided_once,
            "The part of a vector s along g is (s·g / g·g) g: divided by the *square* of its length.",
            lambda seen: _parallel(seen.output, divided_once(*seen.args)),
        ),
        Misconception(
            "a right angle to one key only", lambda k1, k2: _across(k1),
            "Your query scores 0 with one key and something else with the other. It must be at a right angle to the *difference* k1 − k2.",
            lambda seen: _at_a_right_angle_to_one(seen.output, *seen.args),
        ),
        Misconception(
            "the part along k1 − k2 not divided by its length squared", lambda k1, k2: _axis(k1 - k2) - (_axis(k1 - k2) @ (k1 - k2)) * (k1 - k2),
            "The part of a vector s along g is (s·g / g·g) g. Without the division it is right only if g has length 1.",
        ),
    ],
)  # fmt: skip


def orthonormal_keys(n: int, d: int) -> RandomArg:
    return RandomArg(lambda generator: torch.linalg.qr(torch.randn(d, n, generator=generator)).Q.mT)


def _pair_shares(query, keys, a, b) -> bool:
    weights = _weights_of(query, keys)
    return (weights[[a, b]] - 0.5).abs().max().item() < 1e-3


def _others_ignored(query, keys, a, b) -> bool:
    weights = _weights_of(query, keys)
    return 1 - weights[[a, b]].sum().item() < 1e-3


def _another_pair(keys, a, b, weights) -> bool:
    """Two keys have half of the attention each, and one of them at least is neither a nor b."""
    most = weights.topk(2)
    return most.values.min().item() > 0.49 and set(most.indices.tolist()) != {a, b}


def _unit(keys, a, b) -> Tensor:
    query = torch.zeros(keys.shape[1])
    query[[a, b]] = 1.0
    return query


def _too_long_a_sum(seen) -> bool:
    query, (keys, a, b) = seen.output.double(), seen.args
    return bool(query.norm() > 1e3) and _pair_shares(100 * query / query.norm(), keys, a, b)


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
        Property("keys a and b get ½ each", _pair_shares, "Both must have the same score."),
        Property("the others get less than 0.001 together", _others_ignored, "Their scores must lie far below."),
    ],
    misconceptions=[
        Misconception(
            "a scale that is too small", lambda keys, a, b: keys[a] + keys[b],
            "The direction is right: a and b score alike, the others 0. But the others count *together*: with a score of s each of them still gets e^−s "
            "of what a gets. What happens to that if the query is ten times as long?",
            lambda seen: _parallel(seen.output, seen.args[0][seen.args[1]] + seen.args[0][seen.args[2]])
            and not _others_ignored(seen.output, *seen.args),
        ),
        Misconception(
            "one key of the two", lambda keys, a, b: 100 * keys[a],
            "This query finds only key a. It needs a part along key b too, of the same size.",
            lambda seen: _parallel(seen.output, seen.args[0][seen.args[1]]),
        ),
        Misconception(
            "the difference of the two keys", lambda keys, a, b: 100 * (keys[a] - keys[b]),
            "With a minus sign key b gets the *lowest* score of all.",
            lambda seen: _parallel(seen.output, seen.args[0][seen.args[1]] - seen.args[0][seen.args[2]]),
        ),
        Misconception(
            "all keys alike", lambda keys, a, b: 100 * keys.sum(dim=0),
            "The sum of all keys scores the same with each of them. Leave out those that should be ignored.",
            lambda seen: _parallel(seen.output, seen.args[0].sum(dim=0)),
        ),
        Misconception(
            "entries a and b of the query instead of keys a and b", lambda keys, a, b: 50 * _unit(keys, a, b),
            "Entry a of the query belongs to axis a, and the keys needn't be the axes. Add the keys themselves.",
            lambda seen: _parallel(seen.output, _unit(*seen.args)),
        ),
        Misconception(
            "another pair of keys", lambda keys, a, b: 100 * (keys[a] + keys[b - 1]),
            "Your query shares its attention out between two keys, and they are not a and b. Rows are counted from 0: key a is `keys[a]`.",
            lambda seen: _another_pair(*seen.args, _weights_of(seen.output, seen.args[0])),
        ),
        Misconception(
            "columns a and b instead of keys a and b", lambda keys, a, b: 100 * (keys[:, a] + keys[:, b]),
            "The keys are the *rows* of `keys`. The query is a sum of two of them, each times the score that is wanted: `keys.T @ wanted`, not `keys @ wanted`.",
            lambda seen: _parallel(seen.output, seen.args[0][:, seen.args[1]] + seen.args[0][:, seen.args[2]]),
        ),
        Misconception(
            "so long that rounding shows", lambda keys, a, b: 1e7 * (keys[a] + keys[b]),
            "The direction is right to within rounding, and your query is so long that rounding shows: the two scores differ by more than 0.004. Scores of 50 are plenty.",
            _too_long_a_sum,
        ),
        Misconception(
            "two keys of unequal weight", lambda keys, a, b: 100 * keys[a] + 50 * keys[b],
            "The key with the larger part scores higher, and takes it all. Both need the same part.",
            lambda seen: _unequal(seen.output, *seen.args),
        ),
    ],
)  # fmt: skip

equal_attention = CheckGroup("equal_attention", query_between, query_for_pair)


def distribution_and_values(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    return (
        RandomArg(lambda g: torch.softmax(torch.randn(n, generator=g).clamp(-2, 2), dim=0)),  # none below 0.001
        RandomArg(lambda g: torch.randn(n, d, generator=g)),
    )


def _null_direction(constraints: Tensor) -> Tensor:
    """A unit vector z with constraintsᵀ z = 0."""
    return torch.linalg.svd(constraints.double().mT).Vh[-1].float()


def _kept_direction(values) -> Tensor:
    return _null_direction(torch.cat([values, torch.ones(len(values), 1)], dim=1))


def one_wide_direction(n: int) -> RandomArg:
    """Values (n, n − 2) for which all directions that keep output and sum are parallel to (1, −1, 1, −1, …); n is even."""

    def make(generator: torch.Generator) -> Tensor:
        direction = torch.tensor([1.0, -1.0] * (n // 2))
        values = torch.randn(n, n - 2, generator=generator)
        return values - torch.outer(direction, direction @ values) / n

    return RandomArg(make)


def near_uniform(n: int) -> RandomArg:
    return RandomArg(lambda g: (lambda w: w / w.sum())(0.5 + torch.rand(n, generator=g)))  # none below 1/(3n)


def a_step_too_far(weights, values) -> Tensor:
    direction = _kept_direction(values)
    longest = (weights / -direction)[direction < 0].min()
    return weights + 2 * longest * direction


def measured_at_the_growing(weights, values) -> Tensor:
    direction = _kept_direction(values)
    return weights + 0.5 * (weights / direction)[direction > 0].min() * direction


def _measured_at_the_growing(seen) -> bool:
    """Whether the weight that grows most for its size grows by a part of itself that one would write down."""
    weights, moved = seen.args[0], seen.output - seen.args[0]
    part = 1 / (weights / moved)[moved > 1e-6].min().item()
    return (
        seen.output.min().item() < -1e-6
        and not _changes_the_output(*seen.args, seen.output)
        and any(abs(part - wanted) < 1e-3 for wanted in (0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1))
    )


def solved_for_the_first(weights, values) -> Tensor:
    d = values.shape[1]
    system = torch.cat([values, torch.ones(len(values), 1)], dim=1).double()
    direction = torch.zeros(len(values), dtype=torch.float64)
    direction[: d + 1] = torch.linalg.solve(system[: d + 1].mT, -system[d + 1])
    direction[d + 1] = 1.0
    return (weights + 0.5 * (weights / -direction)[direction < 0].min() * direction).float()


def a_step_that_changes_the_sum(weights, values) -> Tensor:
    # Of the directions that leave the output alone, the one that changes the sum of the weights most.
    projector = torch.eye(len(values)) - values @ torch.linalg.pinv(values)
    direction = projector @ torch.ones(len(values))
    return weights + 0.1 * direction / direction.abs().max()


def _changes_the_output(weights, values, other) -> bool:
    return (other @ values - weights @ values).abs().max().item() > 1e-3


def _moved(seen) -> float:
    """By how much the weight that moved most did."""
    return (seen.output - seen.args[0]).abs().max().item()


def clipped(weights, values) -> Tensor:
    moved = (weights + _kept_direction(values)).clamp(min=0)
    return moved / moved.sum()


def along_a_seen_direction(weights, values) -> Tensor:
    """The last row of Vh of the thin decomposition: a direction that V sees."""
    direction = torch.linalg.svd(torch.cat([values, torch.ones(len(values), 1)], dim=1).mT, full_matrices=False).Vh[-1]
    return weights + 0.5 * (weights / direction.abs()).min() * direction


same_output_other_weights = Check(
    reference=constructions.same_output_other_weights,
    cases=[
        explicit_case("n = 6, d = 2", *distribution_and_values(6, 2)),
        explicit_case("n = 9, d = 4", *distribution_and_values(9, 4)),
        explicit_case("n = 5, d = 3: one direction only", *distribution_and_values(5, 3)),
        explicit_case("values 1, 2, 3, a small weight in the middle", torch.tensor([0.2, 0.002, 0.798]), torch.tensor([[1.0], [2.0], [3.0]])),
        explicit_case("n = 16, d = 14: one direction only, which moves all weights alike", distribution_and_values(16, 14)[0], one_wide_direction(16)),
        explicit_case("values 1, 2, 3, a weight of 0.001", torch.tensor([0.2, 0.001, 0.799]), torch.tensor([[1.0], [2.0], [3.0]])),
        explicit_case("values 1, 1, 2, 3: two are equal", torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([[1.0], [1.0], [2.0], [3.0]])),
        explicit_case("values on a line, d = 2", torch.tensor([0.3, 0.1, 0.15, 0.25, 0.2]), torch.tensor([[1.0, 2.0], [0.0, 0.0], [-1.0, -2.0], [2.0, 4.0], [3.0, 6.0]])),
        explicit_case("n = 200, d = 198: one direction only, which moves all weights alike", near_uniform(200), one_wide_direction(200)),
        explicit_case("values 1, 2, 3, small weights at the ends", torch.tensor([0.002, 0.9, 0.098]), torch.tensor([[1.0], [2.0], [3.0]])),
    ],
    compare=False,
    properties=[
        Property("one weight for each value", lambda other, weights, _: other.shape == weights.shape, "There must be as many weights as values."),
        FINITE,
        Property("the same output", lambda other, weights, values: not _changes_the_output(weights, values, other), "The output has changed: α′V is not αV."),
        Property("no weight is negative", lambda other, *_: other.min().item() > -1e-6, "A weight is negative."),
        Property("the weights sum to 1", lambda other, *_: abs(other.sum().item() - 1) < 1e-4, "The weights don't sum to 1."),
        Property("other weights than the given ones", lambda other, weights, _: (other - weights).abs().max().item() > 1e-4, "No weight moved by more than 0.0001."),
    ],
    misconceptions=[
        Misconception(
            "the given weights again", lambda weights, values: weights.clone(),
            "The point is that there are others. Move along a direction z that the output can't see: z V = 0 and Σ z = 0.",
            lambda seen: _moved(seen) < 2e-7,
        ),
        Misconception(
            "a step that is too short", lambda weights, values: weights + 1e-5 * _kept_direction(values),
            "No weight has moved by more than 0.0001. How long a step must be depends on the direction: where many weights move, each moves little. Go half of "
            "the way to where the first weight reaches 0.",
            lambda seen: 2e-7 <= _moved(seen) <= 1e-4,
        ),
        Misconception(
            "the way to 0 measured at the weights that grow", measured_at_the_growing,
            "A weight reaches 0 where z is *negative*: α_i / −z_i, the smallest over all z_i < 0. You measure at the entries that grow, and those never get there; "
            "the others fall below 0.",
            _measured_at_the_growing,
        ),
        Misconception(
            "an inverse that need not exist", solved_for_the_first,
            "Where values are equal, or lie on a line, the equations depend on each other: `solve` and `inv` stop with an error, and there are solutions all the same. "
            "The SVD finds them.",
            raises="_LinAlgError",
        ),
        Misconception(
            "negative weights", a_step_too_far,
            "The direction is right and the step is too long. Stop before the first weight reaches 0.",
            lambda seen: seen.output.min().item() < -1e-6 and not _changes_the_output(*seen.args, seen.output),
        ),
        Misconception(
            "a step of a fixed length", lambda weights, values: weights + 0.01 * _kept_direction(values),
            "The direction is right, and the step is too long where a weight is small: it falls below 0. Stop before the first weight reaches 0, wherever "
            "that is.",
        ),
        Misconception(
            "weights that don't sum to 1", a_step_that_changes_the_sum,
            "Attention weights are a distribution. Ask for a direction with Σ z = 0 as well: append a column of ones to V.",
            lambda seen: abs(seen.output.sum().item() - 1) > 1e-4 and not _changes_the_output(*seen.args, seen.output),
        ),
        Misconception(
            "the same weights in another order", lambda weights, values: weights.flip(0),
            "Weights in another order go with other values, so the output changes.",
            lambda seen: torch.allclose(seen.output.sort().values, seen.args[0].sort().values, atol=1e-5) and _moved(seen) > 1e-4,
        ),
        Misconception(
            "equal weights", lambda weights, values: torch.full_like(weights, 1 / len(weights)),
            "Equal weights give the mean of the values, which is not the output that you were given.",
            lambda seen: torch.allclose(seen.output, torch.full_like(seen.output, 1 / len(seen.output)), atol=1e-5),
        ),
        Misconception(
            "negative weights cut off", clipped,
            "Setting a negative weight to 0 changes the output, and dividing by the sum doesn't bring it back. Take a step so short that no weight falls below 0.",
            lambda seen: seen.output.min().item() == 0 and _changes_the_output(*seen.args, seen.output),
        ),
        Misconception(
            "weights that give another output", along_a_seen_direction,
            "A step along z keeps the output where `z @ values` is 0, and the sum where `z.sum()` is 0: look at both. From an SVD such a z comes if all n "
            "values and the column of ones go in. It is the last of *all* n rows of `Vh`, and `full_matrices=False` leaves that one out. (Dividing the weights by "
            "their sum afterwards changes the output too.)",
            lambda seen: _changes_the_output(*seen.args, seen.output) and (seen.output - seen.args[0]).abs().max().item() > 1e-4,
        ),
    ],
)  # fmt: skip
