"""What a state with decay remembers of every token."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import KEY, OUTPUT, QUERY, WEIGHT, as_text, heatmap, show, waits_for

__all__ = ["fading_memory"]


@waits_for("decayed_attention")
def fading_memory(chunked: Callable, n: int = 24, begins: tuple[int, ...] = (0, 9, 17), lengths: int = 128) -> None:
    """The mask of decays for one factor and a gate that wipes the state; what RetNet's heads keep of an old token."""
    constant, gate = torch.full((n,), 0.8), torch.full((n,), 0.98)
    gate[list(begins[1:])] = 1e-4
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), width_ratios=[1, 1, 1.5])
    for axis, gamma, title in (
        (axes[0], constant, "one factor, γ = 0.8"),
        (axes[1], gate, f"a gate: γ ≈ 0 at tokens {' and '.join(map(str, begins[1:]))}"),
    ):
        heatmap(axis, _left(chunked, gamma), title, rows="read by token t", columns="token s", vmin=0, vmax=1)
        axis.title.set_fontsize(10)
    for power, colour, style in zip((5, 6, 7, 8), (QUERY, WEIGHT, KEY, OUTPUT), ("-", "--", "-.", ":")):
        left = _left(chunked, torch.full((lengths,), 1 - 2.0**-power))[:, 0]
        axes[2].plot(left, style, color=colour, lw=2)
        axes[2].annotate(
            f" γ = 1 − 1/{2**power}", (lengths - 1, left[-1]), color=as_text(colour), va="center", fontsize=9
        )
    axes[2].axhline(0.5, color=OUTPUT, lw=0.6)
    axes[2].set(
        title="what is left of token 0 (four heads of RetNet)",
        xlabel="token t",
        xlim=(0, 1.35 * lengths),
        ylim=(-0.06, 1.02),  # a label stands beside the lowest end
        xticks=range(0, lengths + 1, 32),
    )
    axes[2].title.set_fontsize(10)
    plt.tight_layout()
    show(
        "Three panels. With one factor of 0.8 the mask is a band below the diagonal that fades to the left. With a "
        f"gate that is nearly 0 at tokens {' and '.join(map(str, begins[1:]))} it falls into {len(begins)} triangles: "
        "no token reads across a gate. Of four heads of RetNet one has lost half of token 0 after 22 tokens; another "
        f"keeps {left[-1]:.0%} of it after {lengths - 1}."
    )


def _left(chunked: Callable, gamma: Tensor, c: int = 7) -> Tensor:
    """The mask itself: with queries and keys of 1, and one value for each token."""
    one = torch.ones(len(gamma), 1)
    return chunked(one, one, torch.eye(len(gamma)), gamma, c)
