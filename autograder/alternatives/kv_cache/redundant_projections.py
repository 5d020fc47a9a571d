"""Right answers of redundant_projections in other styles."""

import math


def projections_by_loop(n, layers):
    seen = repeated = 0
    for step in range(1, n + 1):
        repeated += step - (1 if step > seen else 0)
        seen = step
    return layers * repeated


def projections_as_a_binomial(n, layers):
    return layers * math.comb(n, 2)


redundant_projections = {
    "a sum over the steps": projections_by_loop,
    "pairs of tokens": lambda n, layers: layers * math.comb(n, 2),
    "binomial coefficient": projections_as_a_binomial,
}
