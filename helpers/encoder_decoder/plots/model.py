"""Pictures of the model: the sublayers of both layers, the masks of both sides, and what each part costs."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyBboxPatch

from helpers.style import EDGE, HALF_WEIGHT, KEY, MASK, OUTPUT, QUERY, SKY, VALUE, WEIGHT, heatmap, show, waits_for

from ..cost import decoder_alone_cost
from ..layers import causal_mask

__all__ = ["enc_dec_layers", "enc_dec_masks", "enc_dec_terms"]


def enc_dec_layers() -> None:
    """One encoder layer and one decoder layer, from bottom to top, with what flows between them."""
    figure, axis = plt.subplots(figsize=(8.6, 4.3))
    encoder = ("self-attention", QUERY), ("add, norm1", OUTPUT), ("feed-forward", VALUE), ("add, norm2", OUTPUT)
    decoder = (
        ("masked self-attention", QUERY),
        ("add, norm1", OUTPUT),
        ("cross-attention", KEY),
        ("add, norm2", OUTPUT),
        ("feed-forward", VALUE),
        ("add, norm3", OUTPUT),
    )
    _stack(axis, 0.0, encoder, "x, from the source: (b, m, d)", "encoder layer")
    _stack(axis, 5.2, decoder, "x, from the target: (b, n, d)", "decoder layer")
    arrow = {"arrowstyle": "-|>", "color": KEY, "lw": 2}
    axis.annotate("", (4.1, 2.25), (3.0, 2.25), arrowprops=arrow)
    axis.text(3.2, 2.4, "memory\n(b, m, d)", ha="center", va="bottom", fontsize=9)
    axis.text(3.3, 2.1, "keys, values", ha="center", va="top", fontsize=8)
    axis.set(xlim=(-1.9, 7.3), ylim=(-0.9, 6.2))
    axis.axis("off")
    show()


def _stack(axis, x: float, boxes: Sequence[tuple[str, str]], below: str, title: str) -> None:
    for place, (name, colour) in enumerate(boxes):
        box = FancyBboxPatch(
            (x - 1.05, place + 0.02),
            2.1,
            0.5,
            boxstyle="round,pad=0.06",
            facecolor=colour,
            alpha=0.25,
            edgecolor=colour,
        )
        axis.add_patch(box)
        axis.text(x, place + 0.27, name, ha="center", va="center", fontsize=9)
        axis.annotate("", (x, place - 0.04), (x, place - 0.42), arrowprops={"arrowstyle": "-|>", "color": OUTPUT})
        if place % 2:  # what goes around a sublayer
            path = {"arrowstyle": "-|>", "color": OUTPUT, "connectionstyle": "bar,fraction=0.35", "ls": ":"}
            axis.annotate("", (x + 1.12, place + 0.27), (x + 1.12, place - 1.25 + 0.2), arrowprops=path)
    axis.text(x, -0.75, below, ha="center", fontsize=9)
    axis.text(x, len(boxes) - 0.15, title, ha="center", fontsize=11, weight="bold")


def enc_dec_masks(words: Sequence[str], written: Sequence[str], padding: int = 2) -> None:
    """The three masks of a sentence with padding: purple = may attend; rows are queries, columns are keys."""
    m, n = len(words) + padding, len(written)
    real = torch.arange(m) < len(words)
    source, target = [*words, *["<pad>"] * padding], list(written)
    masks = {
        "encoder self-attention": (real.expand(m, m), source, source),
        "decoder self-attention": (causal_mask(n), target, target),
        "cross-attention": (real.expand(n, m), target, source),
    }
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4))
    for axis, (title, (mask, rows, columns)) in zip(axes, masks.items(), strict=True):
        look = {"rows": "query" if axis is axes[0] else "", "columns": "key", "cmap": MASK, "vmin": 0, "vmax": 1}
        heatmap(axis, mask.float(), title, **look)
        axis.hlines(torch.arange(0.5, len(rows) - 1), -0.5, len(columns) - 0.5, color="white", lw=1.5)
        axis.vlines(torch.arange(0.5, len(columns) - 1), -0.5, len(rows) - 0.5, color="white", lw=1.5)
        axis.set_xticks(range(len(columns)), columns, rotation=60, fontsize=8)
        axis.set_yticks(range(len(rows)), rows, fontsize=8)
    show()


@waits_for("enc_dec_cost")
def enc_dec_terms(enc_dec_cost: Callable, d: int, lengths: Sequence[int]) -> None:
    """Your table as bars for several lengths m = n, beside two layers of a decoder-only model over m + n tokens."""
    names = list(enc_dec_cost(2, 3, 4))
    figure, axes = plt.subplots(1, len(lengths), figsize=(10, 3.0))
    colours = dict(zip(names, (QUERY, SKY, WEIGHT, KEY, HALF_WEIGHT), strict=False))
    for axis, n in zip(axes, lengths, strict=True):
        bottom = 0.0
        for name in names:
            flops = sum(enc_dec_cost(n, n, d)[name]) / 1e9
            axis.bar(0, flops, 0.7, bottom=bottom, color=colours[name], label=name.replace("_", " "))
            bottom += flops
        scores, weights = decoder_alone_cost(n, n, d)
        axis.bar(1, weights / 1e9, 0.7, color=EDGE, label="alone: products with weights")
        axis.bar(
            1,
            scores / 1e9,
            0.7,
            bottom=weights / 1e9,
            color=OUTPUT,
            hatch="//",
            edgecolor="white",
            label="alone: scores, mixing",
        )
        axis.set_xticks([0, 1], ["encoder +\ndecoder", "decoder\nalone"])
        axis.set_title(f"n = m = {n:,}", fontsize=10)
    axes[0].set_ylabel(f"GFLOPs, d = {d}")
    axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    show()
