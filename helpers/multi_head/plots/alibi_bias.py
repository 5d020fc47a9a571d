"""What ALiBi's slopes do to attention that has nothing else to go by."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt

from helpers.style import QUERY, VALUE, WEIGHT, heatmap, show, waits_for

__all__ = ["alibi_reach"]


@waits_for("alibi_bias")
def alibi_reach(bias: Callable, n: int, heads: Sequence[int], h: int) -> None:
    """For some of h heads: the factor on every weight, e to the bias; the last query's weights if scores are equal."""
    factors = bias(n, h).exp()
    weights = factors[:, -1] / factors[:, -1].sum(dim=-1, keepdim=True)
    figure, axes = plt.subplots(
        1, len(heads) + 1, figsize=(3 * len(heads) + 4, 3), width_ratios=[*[1] * len(heads), 1.5]
    )
    for axis, k in zip(axes, heads):
        heatmap(
            axis,
            factors[k - 1],
            f"head {k} of {h}: slope 1/{2 ** (8 * k / h):g}",
            rows="query",
            columns="key",
            vmin=0,
            vmax=1,
        )
        axis.title.set_fontsize(10)
    for k, colour, style in zip(heads, (QUERY, WEIGHT, VALUE), ("-", "--", ":")):
        axes[-1].plot(range(n - 1, -1, -1), weights[k - 1], style, color=colour, label=f"head {k}")
    axes[-1].set(title="weights of the last query, equal scores", xlabel="distance of the key")
    axes[-1].title.set_fontsize(10)
    axes[-1].legend(frameon=False, fontsize=9)
    show()
