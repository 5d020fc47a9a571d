"""What ALiBi's slopes do to attention that has nothing else to go by."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.style import QUERY, VALUE, WEIGHT, heatmap, waits_for

__all__ = ["alibi_reach"]


@waits_for("alibi_bias")
def alibi_reach(bias: Callable, n: int, heads: Sequence[int], h: int) -> None:
    """The weights of some of h heads whose scores are all equal; below, how the last query shares its attention out."""
    weights = torch.softmax(bias(n, h), dim=-1)
    figure, axes = plt.subplots(
        1, len(heads) + 1, figsize=(3 * len(heads) + 4, 3), width_ratios=[*[1] * len(heads), 1.5]
    )
    for axis, k in zip(axes, heads):
        heatmap(
            axis, weights[k - 1], f"head {k} of {h}: slope 1/{2 ** (8 * k / h):g}", rows="query", columns="key", vmin=0
        )
        axis.title.set_fontsize(10)
    for k, colour, style in zip(heads, (QUERY, WEIGHT, VALUE), ("-", "--", ":")):
        axes[-1].plot(range(n - 1, -1, -1), weights[k - 1, -1], style, color=colour, label=f"head {k}")
    axes[-1].set(title="weights of the last query", xlabel="distance of the key")
    axes[-1].title.set_fontsize(10)
    axes[-1].legend(frameon=False, fontsize=9)
    plt.show()
