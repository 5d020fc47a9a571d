"""What ALiBi's slopes do to attention that has nothing else to go by."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
from torch import Tensor

from helpers.style import QUERY, VALUE, WEIGHT, heatmap, show, waits_for

__all__ = ["alibi_reach"]


@waits_for("alibi_bias")
def alibi_reach(bias: Callable, n: int, heads: Sequence[int], h: int) -> None:
    """For some of h heads: the factor on every weight, e to the bias; the last query's weights if scores are equal."""
    factors = bias(n, h).exp()
    weights = factors[:, -1] / factors[:, -1].sum(dim=-1, keepdim=True)
    figure = plt.figure(figsize=(7.6, 5.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    for axis, k in zip(above.subplots(1, len(heads), squeeze=False)[0], heads):
        heatmap(axis, factors[k - 1], _named(k, h), rows="query", columns="key", vmin=0, vmax=1)
        axis.set_xticks([0, n - 1], [1, n])
        axis.set_yticks([0, n - 1], [1, n])
    axis = below.subplots()
    for k, colour, style in zip(heads, (QUERY, WEIGHT, VALUE), ("-", "--", ":")):
        axis.plot(range(n), weights[k - 1].flip(0), style, color=colour, label=_named(k, h))
    axis.set(xlabel="distance of the key from the last query", ylabel="weight", xlim=(0, n - 1), ylim=(0, None))
    axis.set_title("weights of the last query where all scores are equal")
    axis.legend(frameon=False)
    half = ", ".join(f"{_reach(weights[k - 1])} in head {k}" for k in heads)
    show(f"e to ALiBi's bias as maps, and the last query's weights. Half of its weight lies on the nearest {half}.")


def _named(k: int, h: int) -> str:
    return f"head {k} of {h}: slope 1/{2 ** (8 * k / h):g}"


def _reach(weights: Tensor) -> int:
    """On how many of the nearest keys half of the weight lies."""
    return int((weights.flip(0).cumsum(0) < 0.5).sum()) + 1
