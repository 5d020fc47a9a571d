"""Pictures of how layers grow: their cost over n, with the growth that was fitted to it."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from helpers.labels import name_lines
from helpers.measuring.growth import grows_like
from helpers.style import KEY, OUTPUT, QUERY, RED, SKY, VALUE, WEIGHT, show, waits_for

__all__ = ["layer_costs", "measured_growth"]

COLOURS = (OUTPUT, SKY, RED, KEY, WEIGHT, VALUE, QUERY)


@waits_for("layer_types")
def layer_costs(layer_types: Callable, d: int, k: int, r: int) -> None:
    """Cost and longest path of every type over n; at each line stands how your function grows."""
    lengths = [2.0**power for power in range(6, 21)]
    large = {"n": 2.0**100, "d": 2.0**30, "k": 2.0**8, "r": 2.0**10}
    figure, axes = plt.subplots(2, 1, figsize=(8.5, 7.6))
    for axis, column, title in ((axes[0], 0, "cost in operations"), (axes[1], 2, "longest path between two tokens")):
        ends = []
        for row, colour in zip(layer_types(*large.values()), COLOURS):
            words = grows_like(lambda *sizes: layer_types(*sizes)[row][column], large)  # noqa: B023, called at once
            values = [layer_types(n, d, k, r)[row][column] for n in lengths]
            axis.loglog(lengths, values, color=colour, lw=2, base=2)
            ends.append((f"{row}: {words}", values[-1], colour))
        axis.set_title(f"{title}, at d = {d}, k = {k}, r = {r}", loc="left", fontsize=10.5)
        axis.set_xticks([2**6, 2**10, 2**15, 2**20], ["64", "1,024", "32,768", "a million"])
        axis.minorticks_off()
        name_lines(axis, lengths[-1], ends, apart=0.07)
    axes[1].set_xlabel("tokens n")
    show(
        "Log-log lines over n, one for each kind of layer, with its growth at the line. Above the cost, of which "
        "self-attention's rises fastest; below the longest path."
    )


def measured_growth(sizes: list[int], costs: dict[str, list[float]], slopes: dict[str, float]) -> None:
    """Counted costs over n on log-log axes, where a power is a straight line, and the slopes of the lines."""
    figure, axis = plt.subplots(figsize=(6.5, 3))
    for (name, values), colour in zip(costs.items(), (QUERY, KEY, VALUE)):
        axis.loglog(sizes, values, "o-", color=colour, base=2, label=f"{name}: slope {slopes[name]:.2f}")
    axis.set(xlabel="n", ylabel="FLOPs counted")
    axis.legend(frameon=False)
    show()
