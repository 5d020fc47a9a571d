"""The induction circuit at work, step by step."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, heatmap, show, waits_for

__all__ = ["completion", "induction_steps", "stream_columns", "two_heads"]


def stream_columns(x, words: Sequence[str], parts: dict[str, int]) -> None:
    """The rows that the first layer reads, and what their columns are for."""
    figure, axis = plt.subplots(figsize=(8, 0.32 * len(words) + 1))
    heatmap(axis, x, "", vmin=0, vmax=1.4)
    axis.set_yticks(range(len(words)), words)
    start = -0.5
    for (name, width), colour in zip(parts.items(), (QUERY, VALUE, KEY), strict=True):
        axis.text(
            start + width / 2,
            -0.8,
            f"{name}: {width} columns",
            ha="center",
            va="bottom",
            color=as_text(colour),
            fontsize=9,
        )
        axis.axvline(start + width, color=OUTPUT, lw=1)
        start += width
    show()


@waits_for("two_hand_made_heads")
def two_heads(maps: Callable, words: Sequence[str]) -> None:
    """Two maps: the head that looks one back and the head that looks at the start."""
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4))
    for axis, weights, name in zip(axes, maps(), ("(a) the previous token", "(b) the first token"), strict=True):
        _worded(axis, weights, words, name)
    show()


@waits_for("two_hand_made_heads")
def induction_steps(circuit: Callable, words: Sequence[str], tokens: Tensor, names: Sequence[str]) -> None:
    """Both layers' maps on a sequence, and what the second one says comes next after each token."""
    first, second, guess = circuit(tokens)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.9), width_ratios=[1, 1, len(names) / len(tokens)])
    _worded(axes[0], first, words, "layer 1 writes: who was before me")
    _worded(axes[1], second, words, "layer 2 finds: who came after one like me")
    heatmap(axes[2], guess, "guess", columns="next token", cmap="Greens", vmin=0, vmax=1)
    axes[2].set_xticks(range(len(names)), names)
    axes[2].set_yticks(range(len(words)), words)
    show()


def _worded(axis, weights, words: Sequence[str], title: str) -> None:
    heatmap(axis, weights, title, rows="query", columns="key", vmin=0, vmax=1)
    axis.title.set_fontsize(10)
    axis.set_xticks(range(len(words)), words)
    axis.set_yticks(range(len(words)), words)


@waits_for("two_hand_made_heads")
def completion(circuit: Callable, prompt: Tensor, names: Sequence[str], steps: int) -> None:
    """The circuit writes, one line per step: the token that it looks at (arc) and the token that it adds (green)."""
    tokens = prompt.tolist()
    figure, axis = plt.subplots(figsize=(9, 0.85 * steps + 0.3))
    for step in range(steps):
        _, looks, guess = circuit(torch.tensor(tokens))
        seen, added = int(looks[-1].argmax()), int(guess[-1].argmax())
        y, last = -1.0 * step, len(tokens) - 1
        for place, token in enumerate([*tokens, added]):
            colour = {last: QUERY, seen: KEY, last + 1: VALUE}.get(place, OUTPUT)
            axis.text(
                place,
                y,
                names[token],
                ha="center",
                va="center",
                color=as_text(colour),
                fontsize=13,
                weight="bold" if colour != OUTPUT else "normal",
            )
        axis.annotate(
            "",
            (seen, y + 0.22),
            (last, y + 0.22),
            arrowprops={
                "arrowstyle": "-|>",
                "color": WEIGHT,
                "connectionstyle": f"arc3,rad={0.9 / max(last - seen, 2):.2f}",
            },
        )
        tokens.append(added)
    axis.set(xlim=(-0.7, len(tokens) - 0.3), ylim=(0.6 - steps, 0.85))
    axis.axis("off")
    show()
