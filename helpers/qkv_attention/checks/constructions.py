"""Checks of queries, keys and weights that students make to order: many answers are right, so properties decide."""

import torch
from torch import Tensor

from helpers.engine.cases import Drawn, given, sized
from helpers.engine.check import Check, CheckGroup, Misconception, Property

from .. import constructions

__all__ = ["equal_attention", "same_output_other_weights", "select_one_value"]


def _weights_of(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.softmax(queries.double() @ keys.double().mT, dim=-1)


def _selects(output, n, d) -> bool:
    queries, keys, values = output
    mixed = _weights_of(queries, keys) @ values.double()
    return mixed.shape == values.shape and len(values) == n and (mixed - values).abs().max().item() < 1e-3


def _all_differ(values: Tensor) -> bool:
    gaps = (values[:, None].double() - values[None].double()).abs().amax(-1)  # (n, n)
    return gaps.fill_diagonal_(torch.inf).min().item() > 0.01


def _equal_keys(seen) -> bool:
    keys = seen.output[1]
    return (keys - keys[0]).abs().max().item() < 1e-6


def _small_norms(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    chosen = weights.argmax(-1).tolist() == list(range(len(weights)))
    return chosen and weights.diagonal().min().item() < 0.999


def _collinear(seen) -> bool:
    return not _equal_keys(seen) and torch.linalg.matrix_rank(seen.output[1].double()).item() == 1


def _another_key(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    return weights.amax(-1).min().item() > 0.999 and weights.argmax(-1).tolist() != list(range(len(weights)))


def _rows(n: int, d: int) -> Tensor:
    return torch.arange(n * d, dtype=torch.float32).view(n, d)


select_one_value = Check(
    reference=constructions.select_one_value,
    cases=[sized(n=4, d=4), sized(n=5, d=8), sized(n=16, d=16)],
    compare=False,
    properties=[
        Property("output i is value i, within 0.001", _selects, "Query i must give value i and next to nothing of the others."),
        Property("all values differ", lambda output, n, d: _all_differ(output[2]), "Values that are equal can't be told apart."),
        Property("all are n × d", lambda output, n, d: all(part.shape == (n, d) for part in output), "Return three n × d tensors."),
    ],
    misconceptions=[
        Misconception(
            "equal keys", lambda n, d: (100 * torch.eye(n, d), torch.ones(n, d), _rows(n, d)),
            "Equal keys get equal scores from every query, whatever the query is, so every output is the mean of the values.",
            _equal_keys,
        ),
        Misconception(
            "norms that are too small", lambda n, d: (torch.eye(n, d), torch.eye(n, d), _rows(n, d)),
            "The right key wins, but with a score that is only a little higher: e^1 against e^0 is 2.7 to 1. Longer queries (or keys) "
            "make the gap between the scores as wide as you like.",
            _small_norms,
        ),
        Misconception(
            "keys that can't be separated",
            lambda n, d: (100 * torch.eye(n, d), torch.arange(1.0, n + 1)[:, None] * torch.ones(n, d), _rows(n, d)),
            "All your keys point the same way. Any query then prefers the longest of them, or the shortest, never one in between. "
            "Give every key a direction of its own.",
            _collinear,
        ),
        Misconception(
            "queries that find another key", lambda n, d: (100 * torch.eye(n, d).flip(0), torch.eye(n, d), _rows(n, d)),
            "Every query finds exactly one key, but not its own: query i must find key i.",
            _another_key,
        ),
        Misconception(
            "equal values", lambda n, d: (100 * torch.eye(n, d), torch.eye(n, d), torch.ones(n, d)),
            "With equal values every output is right, whatever the weights are: this shows nothing. Make all values different.",
            lambda seen: not _all_differ(seen.output[2]),
        ),
    ],
)  # fmt: skip


def _gives_halves(query, *keys) -> bool:
    weights = _weights_of(query, torch.stack(keys))
    return query.shape == keys[0].shape and (weights - 0.5).abs().max().item() < 1e-3


def _is_not_zero(query, *_) -> bool:
    return query.norm().item() > 1e-3


def _parallel(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and abs(torch.cosine_similarity(a.double(), b.double(), dim=0).item()) > 0.999


query_between = Check(
    reference=constructions.query_between,
    cases=[
        sized(d=2), sized(d=5), sized(d=16),
        given("k1 = (1, 0), k2 = (3, 0)", torch.tensor([1.0, 0.0]), torch.tensor([3.0, 0.0])),
        given("k1 = (0, 2), k2 = (1, −1)", torch.tensor([0.0, 2.0]), torch.tensor([1.0, -1.0])),
    ],
    compare=False,
    properties=[
        Property("both keys get ½", _gives_halves, "The two scores must be equal."),
        Property("the query is not zero", _is_not_zero, "The query (0, …, 0) is excluded."),
    ],
    misconceptions=[
        Misconception(
            "the zero query", lambda k1, k2: torch.zeros_like(k1),
            "A zero query scores 0 with every key: true, and useless. There is a whole (d − 1)-dimensional space of other answers.",
            lambda seen: seen.output.norm().item() < 1e-3,
        ),
        Misconception(
            "k1 + k2", lambda k1, k2: k1 + k2,
            "q·k1 = ‖k1‖² + k1·k2 and q·k2 = ‖k2‖² + k1·k2. These are equal only if both keys are equally long.",
            lambda seen: _parallel(seen.output, seen.args[0] + seen.args[1]),
        ),
        Misconception(
            "the sum of the two unit vectors", lambda k1, k2: k1 / k1.norm() + k2 / k2.norm(),
            "This query makes the same angle with both keys, but a score is angle times length: the longer key still wins.",
            lambda seen: _parallel(seen.output, seen.args[0] / seen.args[0].norm() + seen.args[1] / seen.args[1].norm()),
        ),
        Misconception(
            "along k1 − k2 instead of across it", lambda k1, k2: k1 - k2,
            "You want q·(k1 − k2) = 0: the query stands at a right angle to the difference. Yours points along it.",
            lambda seen: _parallel(seen.output, seen.args[0] - seen.args[1]),
        ),
    ],
)  # fmt: skip


def orthonormal_keys(n: int, d: int) -> Drawn:
    return Drawn(lambda generator: torch.linalg.qr(torch.randn(d, n, generator=generator)).Q.mT)


def _pair_shares(query, keys, a, b) -> bool:
    weights = _weights_of(query, keys)
    return (weights[[a, b]] - 0.5).abs().max().item() < 1e-3


def _others_ignored(query, keys, a, b) -> bool:
    weights = _weights_of(query, keys)
    return 1 - weights[[a, b]].sum().item() < 1e-3


query_for_pair = Check(
    reference=constructions.query_for_pair,
    cases=[
        given("4 keys, a = 0, b = 2", orthonormal_keys(4, 4), 0, 2),
        given("6 keys of width 9, a = 5, b = 1", orthonormal_keys(6, 9), 5, 1),
        given("12 keys, a = 3, b = 4", orthonormal_keys(12, 16), 3, 4),
    ],
    compare=False,
    properties=[
        Property("keys a and b get ½ each", _pair_shares, "Both must have the same score."),
        Property("the others get less than 0.001 together", _others_ignored, "Their scores must lie far below."),
    ],
    misconceptions=[
        Misconception(
            "a scale that is too small", lambda keys, a, b: keys[a] + keys[b],
            "The direction is right: scores of 1 for a and b, 0 for the others. But e^1 is only 2.7 times e^0. What happens to the ratio "
            "if the query is ten times as long?",
            lambda seen: _parallel(seen.output, seen.args[0][seen.args[1]] + seen.args[0][seen.args[2]]),
        ),
        Misconception(
            "one key of the two", lambda keys, a, b: 100 * keys[a],
            "This query finds key a alone. It needs a part along key b too, of the same size.",
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
    ],
)  # fmt: skip

equal_attention = CheckGroup("equal_attention", query_between, query_for_pair)


def distribution_and_values(n: int, d: int) -> tuple[Drawn, Drawn]:
    return (
        Drawn(lambda g: torch.softmax(torch.randn(n, generator=g), dim=0)),
        Drawn(lambda g: torch.randn(n, d, generator=g)),
    )


def _null_direction(constraints: Tensor) -> Tensor:
    """A unit vector z with constraintsᵀ z = 0."""
    return torch.linalg.svd(constraints.double().mT).Vh[-1].float()


def a_step_too_far(weights, values) -> Tensor:
    direction = _null_direction(torch.cat([values, torch.ones(len(values), 1)], dim=1))
    longest = (weights / -direction)[direction < 0].min()
    return weights + 2 * longest * direction


def a_step_that_changes_the_sum(weights, values) -> Tensor:
    # Of the directions that leave the output alone, the one that changes the sum of the weights most.
    projector = torch.eye(len(values)) - values @ torch.linalg.pinv(values)
    direction = projector @ torch.ones(len(values))
    return weights + 0.1 * direction / direction.abs().max()


def _changes_the_output(weights, values, other) -> bool:
    return (other @ values - weights @ values).abs().max().item() > 1e-3


same_output_other_weights = Check(
    reference=constructions.same_output_other_weights,
    cases=[
        given("n = 6, d = 2", *distribution_and_values(6, 2)),
        given("n = 9, d = 4", *distribution_and_values(9, 4)),
        given("n = 5, d = 3: one direction only", *distribution_and_values(5, 3)),
    ],
    compare=False,
    properties=[
        Property("the same output", lambda other, weights, values: not _changes_the_output(weights, values, other)),
        Property("no weight is negative", lambda other, *_: other.min().item() > -1e-6),
        Property("the weights sum to 1", lambda other, *_: abs(other.sum().item() - 1) < 1e-4),
        Property("other weights than the given ones", lambda other, weights, _: (other - weights).abs().max().item() > 1e-4),
    ],
    misconceptions=[
        Misconception(
            "the given weights again", lambda weights, values: weights.clone(),
            "The point is that there are others. Move along a direction z that the output can't see: z V = 0 and Σ z = 0.",
            lambda seen: (seen.output - seen.args[0]).abs().max().item() <= 1e-4,
        ),
        Misconception(
            "negative weights", a_step_too_far,
            "The direction is right and the step is too long. Stop before the first weight reaches 0.",
            lambda seen: seen.output.min().item() < -1e-6 and not _changes_the_output(*seen.args, seen.output),
        ),
        Misconception(
            "weights that don't sum to 1", a_step_that_changes_the_sum,
            "Attention weights are a distribution. Ask for a direction with Σ z = 0 as well: append a column of ones to V.",
            lambda seen: abs(seen.output.sum().item() - 1) > 1e-4 and not _changes_the_output(*seen.args, seen.output),
        ),
        Misconception(
            "the same weights in another order", lambda weights, values: weights.flip(0),
            "Weights in another order go with other values, so the output changes.",
            lambda seen: torch.allclose(seen.output.sort().values, seen.args[0].sort().values, atol=1e-5),
        ),
        Misconception(
            "equal weights", lambda weights, values: torch.full_like(weights, 1 / len(weights)),
            "Equal weights give the mean of the values, which is not the output that you were given.",
            lambda seen: torch.allclose(seen.output, torch.full_like(seen.output, 1 / len(seen.output)), atol=1e-5),
        ),
    ],
)  # fmt: skip
