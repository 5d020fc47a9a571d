"""The check of `select_one_value`: queries, keys and values such that each query gets one value alone."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import constructions
from .constructions import _weights_of

__all__ = ["select_one_value"]


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


def _sized(output, n, d) -> bool:
    return all(part.shape == (n, d) for part in output)


def _sizes(output, n, d) -> str:
    return f"Yours are {', '.join('×'.join(map(str, part.shape)) for part in output)}."


def _rows(n: int, d: int) -> Tensor:
    return torch.arange(n * d, dtype=torch.float32).view(n, d)


def _slip(
    mark: Callable, queries: Callable = lambda n, d: 100 * torch.eye(n, d), keys: Callable = torch.eye, values=_rows
) -> Wrong:
    """The right vectors but for those given; what marks them is looked for where there are as many as asked."""
    return Wrong(
        lambda n, d: (queries(n, d), keys(n, d), values(n, d)),
        recognise=lambda seen: _sized(seen.output, *seen.args) and mark(seen),
    )


def _equal_keys(seen) -> bool:
    keys = seen.output[1]
    return (keys - keys[0]).abs().max().item() < 1e-6


def _small_norms(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    chosen = weights.argmax(-1).tolist() == list(range(seen.args[0]))
    return chosen and weights.diagonal().min().item() < 0.999


def _in_line(seen) -> bool:
    return not _equal_keys(seen) and torch.linalg.matrix_rank(seen.output[1].double()).item() == 1


def _another_key(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    return weights.amax(-1).min().item() > 0.999 and weights.argmax(-1).tolist() != list(range(len(weights)))


def _finite_scores(output, n, d) -> bool:
    """In the numbers' own dtype: two factors of 1e20 make a score that float32 can't hold."""
    queries, keys, _ = output
    return bool((queries @ keys.mT).isfinite().all())


def _crowded(seen) -> bool:
    """Keys not at right angles: some query scores more than a fifth of what it scores with its own with a wrong one."""
    queries, keys = (part.double() for part in seen.output[:2])
    alike = F.normalize(keys, dim=-1) @ F.normalize(keys, dim=-1).mT
    if alike.fill_diagonal_(0).abs().max() < 0.1:
        return False
    scores = queries @ keys.mT
    own = scores.diagonal()
    return bool((scores - 0.2 * own[:, None]).fill_diagonal_(-1).max() > 0)


def _random_keys(n: int, d: int) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(0))


def _values_too_far_apart(seen) -> bool:
    weights = _weights_of(*seen.output[:2])
    return weights.diagonal().min().item() > 0.999 and not _selects(seen.output, *seen.args)


select_one_value = Check(
    reference=constructions.select_one_value,
    cases=[
        random_case(n=4, d=4),
        random_case(n=5, d=8),
        random_case(n=4, d=8),
        random_case(n=16, d=16),
        random_case(n=200, d=256),
    ],
    compare=False,
    properties=[
        Property("all are n × d", _sized, "Return three n × d tensors.", _sizes),
        Property(
            "output i is value i, within 0.001",
            _selects,
            "Query i must give value i and next to nothing of the others.",
        ),
        Property(
            "the scores are finite",
            _finite_scores,
            "In float32 a score beyond 3·10³⁸ is infinite, and the softmax of ∞ is NaN.",
        ),
        Property(
            "all values differ",
            lambda output, n, d: _all_differ(output[2]),
            "Some two of your values differ by less than 0.01 in every entry.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        as_many_as_columns=Wrong(
            lambda n, d: (100 * torch.eye(d), torch.eye(d), torch.eye(d)),
            recognise=lambda seen: (
                seen.args[0] != seen.args[1] and all(len(part) == seen.args[1] for part in seen.output)
            ),
        ),
        equal_queries=_slip(
            lambda seen: bool((seen.output[0] == seen.output[0][0]).all()), queries=lambda n, d: torch.ones(n, d)
        ),
        equal_keys=_slip(_equal_keys, keys=lambda n, d: torch.ones(n, d)),
        keys_in_line=_slip(_in_line, keys=lambda n, d: torch.arange(1.0, n + 1)[:, None] * torch.ones(n, d)),
        another_key=_slip(_another_key, queries=lambda n, d: 100 * torch.eye(n, d).flip(0)),
        equal_values=_slip(lambda seen: _two_alike(seen.output[2]), values=lambda n, d: torch.ones(n, d)),
        values_nearly_equal=_slip(
            lambda seen: not _all_differ(seen.output[2]) and not _two_alike(seen.output[2]),
            values=lambda n, d: 1e-5 * _rows(n, d),
        ),
        too_long=_slip(
            lambda seen: not _finite_scores(seen.output, *seen.args),
            queries=lambda n, d: 1e20 * torch.eye(n, d),
            keys=lambda n, d: 1e20 * torch.eye(n, d),
        ),
        values_far_apart=_slip(
            _values_too_far_apart, queries=lambda n, d: 20 * torch.eye(n, d), values=lambda n, d: 1e6 * _rows(n, d)
        ),
        crowded=_slip(_crowded, queries=lambda n, d: 10 * _random_keys(n, d), keys=_random_keys),
        too_short=_slip(_small_norms, queries=torch.eye),
    ),
)
