"""Pictures of positions: tables as maps, pairs of columns as clocks, and scores of turned vectors."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch

from helpers.style import KEY, OUTPUT, QUERY, VALUE, heatmap, show, waits_for

__all__ = ["clocks", "position_maps", "rotary_scores"]


@waits_for("binary_positions", "sinusoidal_positions")
def position_maps(binary: Callable, sinusoidal: Callable, n: int = 48) -> None:
    """Both tables as maps: one row per position."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), width_ratios=[1, 3])
    heatmap(axes[0], torch.as_tensor(binary(n, 6)), "binary, d = 6", rows="position", columns="column", cmap="Greys")
    image = heatmap(
        axes[1],
        torch.as_tensor(sinusoidal(n, 32, 10_000.0)),
        "sinusoidal, d = 32",
        columns="column",
        cmap="RdBu",
        vmin=-1,
        vmax=1,
    )
    for axis, d in zip(axes, (6, 32)):
        axis.set_aspect("auto")
        axis.set_xticks(range(0, d, 1 if d < 10 else 4), range(0, d, 1 if d < 10 else 4))
        axis.set_yticks(range(0, n, 8), range(0, n, 8))
    figure.colorbar(image, ax=axes[1], fraction=0.03)
    plt.tight_layout()
    show()


@waits_for("sinusoidal_positions")
def clocks(sinusoidal: Callable, positions: tuple[int, ...] = (0, 1, 2, 3, 6, 12), d: int = 8) -> None:
    """Each pair of columns is the hand of a clock: across, its cosine; up, its sine. The first hand is the fastest."""
    table = torch.as_tensor(sinusoidal(max(positions) + 1, d, 10_000.0))
    figure, axes = plt.subplots(d // 2, len(positions), figsize=(1.15 * len(positions) + 1, 0.6 * d + 0.4))
    for pair, row in enumerate(axes):
        for axis, position in zip(row, positions):
            sine, cosine = table[position, 2 * pair : 2 * pair + 2].tolist()
            axis.add_patch(plt.Circle((0, 0), 1, fill=False, color=OUTPUT, alpha=0.4))
            axis.plot([0, cosine], [0, sine], color=QUERY, lw=2.5, solid_capstyle="round")
            axis.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
            if pair == 0:
                axis.set_title(f"t = {position}", fontsize=10)
        row[0].set_ylabel(f"{2 * pair}, {2 * pair + 1}", rotation=0, ha="right", va="center", fontsize=10)
    figure.supylabel("columns", fontsize=10)
    show()


@waits_for("rotary_embedding")
def rotary_scores(rotate: Callable, d: int = 16, n: int = 40) -> None:
    """The score of one query and one key, at all pairs of positions, and as a function of the distance."""
    torch.manual_seed(1)
    q = k = torch.ones(n, d) / d**0.5
    where = torch.arange(n)
    scores = torch.as_tensor(rotate(q, where, 10_000.0)) @ torch.as_tensor(rotate(k, where, 10_000.0)).mT
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), width_ratios=[1, 1.6])
    limit = float(scores.abs().max())
    heatmap(
        axes[0], scores, "score of query at t, key at s", rows="t", columns="s", cmap="RdBu", vmin=-limit, vmax=limit
    )
    for start, colour, style in ((0, QUERY, "-"), (5, KEY, "--"), (15, VALUE, ":")):
        row = scores[start:, start]
        axes[1].plot(range(len(row)), row, color=colour, ls=style, lw=2.5, label=f"key at s = {start}")
    axes[1].set(xlabel="distance t − s", ylabel="score")
    axes[1].legend(frameon=False)
    plt.tight_layout()
    show()
