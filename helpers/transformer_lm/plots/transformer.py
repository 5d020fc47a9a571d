"""Pictures of the block and of the stream through depth."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyBboxPatch
from torch import nn

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, ink, show, waits_for

from ..transformer import MLP, Attention

__all__ = ["learning_rates", "norms_through_depth", "two_blocks"]


def two_blocks() -> None:
    """Pre-norm and post-norm side by side: where the norms stand on the way from x to the output."""
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6))
    for axis, pre in zip(axes, (True, False)):
        axis.set(
            xlim=(-1.2, 3.2), ylim=(-0.4, 8.6), title="pre-norm: x + f(norm(x))" if pre else "post-norm: norm(x + f(x))"
        )
        axis.axis("off")
        axis.annotate("", (0, 8.6), (0, -0.4), arrowprops={"arrowstyle": "->", "lw": 3, "color": OUTPUT}, zorder=1)
        axis.text(-0.15, -0.3, "x", ha="right", fontsize=12)
        for start, name, number in ((0.2, "attention", 1), (4.4, "feed-forward", 2)):
            _branch(axis, start, name, number, pre)
    show()


def _branch(axis, y: float, name: str, number: int, pre: bool) -> None:
    last = 3.3 if pre else 2.2
    axis.plot([0, 1.7, 1.7], [y, y, y + last], color=OUTPUT, lw=1.5, zorder=0)
    axis.annotate("", (0.15, y + last), (1.7, y + last), arrowprops={"arrowstyle": "->", "lw": 1.5, "color": OUTPUT})
    if pre:
        _box(axis, 1.7, y + 0.8, f"norm_{number}", KEY)
        _box(axis, 1.7, y + 2.2, name, QUERY if number == 1 else VALUE)
    else:
        _box(axis, 1.7, y + 1.1, name, QUERY if number == 1 else VALUE)
        _box(axis, 0, y + 3.2, f"norm_{number}", KEY)
    axis.text(
        0,
        y + last,
        "+",
        ha="center",
        va="center",
        fontsize=13,
        bbox={"boxstyle": "circle", "fc": "white", "ec": OUTPUT},
    )


def _box(axis, x: float, y: float, text: str, colour: str) -> None:
    axis.add_patch(
        FancyBboxPatch((x - 0.85, y - 0.3), 1.7, 0.6, boxstyle="round,pad=0.08", fc=colour, ec="none", zorder=2)
    )
    axis.text(x, y, text, ha="center", va="center", color=ink(colour), fontsize=10, zorder=3)


@waits_for("transformer_block")
@torch.no_grad()
def norms_through_depth(block: Callable, depth: int = 24, d: int = 64) -> None:
    """The root mean square of the stream after every block of an untrained model."""
    torch.manual_seed(0)
    x = torch.randn(1, 32, d)
    where, causal = torch.arange(32)[None], torch.full((1, 32, 32), -torch.inf).triu(1)
    layers = [(Attention(d, 4, 4), MLP(d), nn.LayerNorm(d), nn.LayerNorm(d)) for _ in range(depth)]
    ways = {
        "no norm": (lambda f: lambda t: t, True, WEIGHT, ":"),
        "pre-norm": (lambda f: f, True, QUERY, "-"),
        "post-norm": (lambda f: f, False, KEY, "--"),
    }
    figure, axis = plt.subplots(figsize=(7.5, 3))
    for name, (normed, pre, colour, style) in ways.items():
        stream, sizes = x, [1.0]
        for attention, mlp, norm_1, norm_2 in layers:
            attend = lambda t, attention=attention: attention(t, where, causal)
            stream = torch.as_tensor(block(stream, attend, mlp, normed(norm_1), normed(norm_2), pre))
            sizes.append(stream.square().mean().sqrt().item())
        axis.plot(sizes, color=colour, ls=style, lw=2)
        axis.annotate(f" {name}", (depth, sizes[-1]), color=as_text(colour), va="center")
    axis.set(
        xlabel="blocks",
        ylabel="size of a number\nin the stream (RMS)",
        xlim=(0, depth * 1.18),
        xticks=range(0, depth + 1, 4),
    )
    show()


@waits_for("learning_rate")
def learning_rates(rate: Callable, steps: int = 1_000) -> None:
    """The rate of every step."""
    figure, axis = plt.subplots(figsize=(7, 2.4))
    for warm_up, colour, style in ((50, QUERY, "-"), (250, KEY, "--")):
        axis.plot(
            [rate(step, steps, warm_up, 6e-3, 6e-4) for step in range(steps)],
            color=colour,
            ls=style,
            label=f"warm-up of {warm_up} steps",
        )
    axis.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
    axis.legend(frameon=False)
    show()
