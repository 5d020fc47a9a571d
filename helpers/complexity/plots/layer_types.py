"""Pictures of how layers grow: their cost over n, with the growth that was fitted to it."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from helpers.measuring.growth import growth, in_words
from helpers.style import KEY, OUTPUT, QUERY, RED, SKY, VALUE, WEIGHT, show, waits_for

__all__ = ["layer_costs", "measured_growth"]

COLOURS = (OUTPUT, SKY, RED, KEY, WEIGHT, VALUE, QUERY)
WIDTHS = {
    0: (5, 2, 2, 2, 2, 2, 2),
    2: (8, 6.8, 5.6, 4.4, 3.4, 2.2, 1),
}  # lines that coincide lie in each other like bands


@waits_for("layer_types")
def layer_costs(layer_types: Callable, d: int, k: int, r: int) -> None:
    """Cost and longest path of every type over n; each legend says how your function grows."""
    lengths = [2.0**power for power in range(6, 21)]
    large = {"n": 2.0**100, "d": 2.0**30, "k": 2.0**8, "r": 2.0**10}
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9))
    for axis, column, title in ((axes[0], 0, "cost"), (axes[1], 2, "longest path")):
        for row, colour, width in zip(layer_types(*large.values()), COLOURS, WIDTHS[column]):
            words = in_words(growth(lambda *sizes: layer_types(*sizes)[row][column], large))  # noqa: B023, called at once
            values = [layer_types(n, d, k, r)[row][column] for n in lengths]
            axis.loglog(lengths, values, color=colour, lw=width, base=2, label=f"{row}: {words}")
        axis.set(title=title, xlabel=f"n, at d = {d}, k = {k}, r = {r}")
        axis.legend(frameon=False, fontsize=8)
    show()


def measured_growth(sizes: list[int], costs: dict[str, list[float]], slopes: dict[str, float]) -> None:
    """Counted costs over n on log-log axes, where a power is a straight line, and the slopes of the lines."""
    figure, axis = plt.subplots(figsize=(6.5, 3))
    for (name, values), colour in zip(costs.items(), (QUERY, KEY, VALUE)):
        axis.loglog(sizes, values, "o-", color=colour, base=2, label=f"{name}: slope {slopes[name]:.2f}")
    axis.set(xlabel="n", ylabel="FLOPs counted")
    axis.legend(frameon=False)
    show()
