"""The check of `parameter_counts`."""

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
    "Counts are whole numbers: multiply, or divide with `//`. A single `/` makes a float, and so do `math.pow` and `** 2.0`.",
)


def _exact(output, n, d) -> bool:
    """As whole numbers: the comparison of values goes through float64, which has lost the last digits too."""
    return tuple(map(operator.index, output)) == attention.parameter_counts(n, d)


EXACT = Property(
    "exact to the last digit",
    _exact,
    "Your number is right to about 16 digits, and a count is exact: leave no float on the way.",
)


def powers_of_floats(n, d) -> tuple:
    return 3 * int(math.pow(d, 2)), 3 * d, int(math.pow(n, 2)), int(math.pow(d * n, 2)), d * n


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
        with_3_biases=lambda n, d: (3 * d**2, 3, n**2, (n * d) ** 2, n * d),
        n_squared_biases_dense_layer=lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, n**2),
        one_projection_instead_three=lambda n, d: (d**2, d, n**2, (n * d) ** 2, n * d),
        projections_that_grow_with_n=lambda n, d: (3 * n * d, 3 * d, n**2, (n * d) ** 2, n * d),
        dense_layer_that_mixes_tokens_only=lambda n, d: (3 * d**2, 3 * d, n**2, n**2 * d, n * d),
        dense_weights_between_features_one=lambda n, d: (3 * d**2, 3 * d, n**2, d**2 * n, n * d),
        table_attention_weights_each_projection=lambda n, d: (3 * d**2, 3 * d, 3 * n**2, (n * d) ** 2, n * d),
        bias_each_token=lambda n, d: (3 * d**2, 3 * n * d, n**2, (n * d) ** 2, n * d),
        as_many_dense_biases_as_one_token_has=lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, d),
        each_pair_tokens_counted_once=lambda n, d: (3 * d**2, 3 * d, n * (n + 1) // 2, (n * d) ** 2, n * d),
        attention_weights_without_token_itself=lambda n, d: (3 * d**2, 3 * d, n * (n - 1), (n * d) ** 2, n * d),
        biases_counted_among_weights=lambda n, d: (3 * (d**2 + d), 3 * d, n**2, (n * d) ** 2, n * d),
        attention_weights_each_entry_by_itself=lambda n, d: (3 * d**2, 3 * d, n * n * d, (n * d) ** 2, n * d),
        attention_weights_that_depend_on_width=lambda n, d: (3 * d**2, 3 * d, n * d, (n * d) ** 2, n * d),
        dense_layer_built_be_counted=Wrong(layers_built, raises="RuntimeError"),
        whole_numbers_that_have_been_floats=Wrong(
            powers_of_floats, recognise=lambda seen: WHOLE.of(seen) and not EXACT.of(seen)
        ),
        n_d_swapped=lambda n, d: (3 * n**2, 3 * n, d**2, (n * d) ** 2, n * d),
    ),
)
