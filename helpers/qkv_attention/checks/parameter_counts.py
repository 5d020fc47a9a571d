"""The check of `parameter_counts`: weights and biases of attention, and of a dense layer in its place."""

import math
import operator

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention

__all__ = ["parameter_counts"]

WHOLE = Property(
    "whole numbers, as int",
    lambda output, *_: all(operator.index(count) >= 0 for count in output),
    "Counts are whole numbers: multiply, or divide with `//`. A single `/` makes a float, and so do `math.pow` and "
    "`** 2.0`.",
)


def _exact(output, n, d) -> bool:
    """As whole numbers: the comparison of values goes through float64, which has lost the last digits too."""
    return tuple(map(operator.index, output)) == attention.parameter_counts(n, d)


EXACT = Property(
    "exact to the last digit",
    _exact,
    "Your number is right to about 16 digits, and a count is exact: leave no float on the way.",
)


def _lost_digits(seen) -> bool:
    """Counts that are right to 15 digits, and not to the last."""
    pairs = zip(seen.output, attention.parameter_counts(*seen.args), strict=True)
    return not EXACT.of(seen) and all(math.isclose(got, right, rel_tol=1e-15) for got, right in pairs)


def layers_built(n, d) -> tuple:
    dense = torch.empty(n * d, n * d)
    return 3 * d * d, 3 * d, n * n, dense.numel(), len(dense)


parameter_counts = Check(
    reference=attention.parameter_counts,
    names=("QKV weights", "QKV biases", "attention weights", "dense weights", "dense biases"),
    cases=[
        random_case(n=10, d=64),
        random_case(n=512, d=8),
        random_case(n=3, d=5),
        random_case(n=8192, d=4096, label="n = 8,192, d = 4,096"),
        random_case(n=16385, d=6001, label="n = 16,385, d = 6,001"),
    ],
    within=(0.0, 0.0),
    properties=[WHOLE, EXACT],
    misconceptions=wrong_answers(
        __file__,
        three_biases=lambda n, d: (3 * d**2, 3, n**2, (n * d) ** 2, n * d),
        n_squared_dense_biases=lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, n**2),
        one_projection=lambda n, d: (d**2, d, n**2, (n * d) ** 2, n * d),
        projections_grow=lambda n, d: (3 * n * d, 3 * d, n**2, (n * d) ** 2, n * d),
        once_per_token=lambda n, d: (3 * n * d**2, 3 * n * d, n**2, (n * d) ** 2, n * d),
        dense_mixes_tokens=lambda n, d: (3 * d**2, 3 * d, n**2, n**2 * d, n * d),
        dense_mixes_features=lambda n, d: (3 * d**2, 3 * d, n**2, d**2 * n, n * d),
        three_tables=lambda n, d: (3 * d**2, 3 * d, 3 * n**2, (n * d) ** 2, n * d),
        bias_each_token=lambda n, d: (3 * d**2, 3 * n * d, n**2, (n * d) ** 2, n * d),
        dense_biases_of_a_token=lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, d),
        pairs_once=lambda n, d: (3 * d**2, 3 * d, n * (n + 1) // 2, (n * d) ** 2, n * d),
        without_itself=lambda n, d: (3 * d**2, 3 * d, n * (n - 1), (n * d) ** 2, n * d),
        biases_among_weights=lambda n, d: (3 * (d**2 + d), 3 * d, n**2, (n * d) ** 2, n * d),
        table_each_entry=lambda n, d: (3 * d**2, 3 * d, n * n * d, (n * d) ** 2, n * d),
        table_by_width=lambda n, d: (3 * d**2, 3 * d, n * d, (n * d) ** 2, n * d),
        dense_built=Wrong(layers_built, raises="RuntimeError"),
        through_floats=Wrong(
            lambda n, d: (3 * int(math.pow(d, 2)), 3 * d, int(math.pow(n, 2)), int(math.pow(d * n, 2)), d * n),
            recognise=lambda seen: WHOLE.of(seen) and _lost_digits(seen),
        ),
        n_d_swapped=lambda n, d: (3 * n**2, 3 * n, d**2, (n * d) ** 2, n * d),
    ),
)
