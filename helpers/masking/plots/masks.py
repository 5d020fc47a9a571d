"""Pictures of unit 03: masks, what they do to a row of scores, and what the targets of a language model are."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap, to_hex
from torch import Tensor

from helpers.style import KEY, MASK, MASKED, OUTPUT, QUERY, VALUE, as_text, ink, show, waits_for

from ..masks import causal_mask

__all__ = ["causal_grids", "causal_steps", "mask_zoo", "padding_and_causal", "renormalising_error", "shifted_rows"]


def causal_grids(sizes: dict[str, tuple[int, int]], labels: Sequence[str], size: float = 2.0) -> None:
    """Causal masks of n queries and m keys, side by side: rows are queries, columns keys; purple: may attend."""
    figure, axes = plt.subplots(1, len(sizes), figsize=(size * len(sizes) + 0.4, size + 0.7), squeeze=False)
    for axis, (name, (n, m)) in zip(axes[0], sizes.items(), strict=True):
        _grid(axis, causal_mask(n, m), name)
        axis.set(xlabel="key", ylabel="query" if axis is axes[0, 0] else "")
        axis.set_xticks(range(m), labels[-m:], rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
        axis.set_yticks(range(n), labels[-n:], fontsize=8)
    show()


def _grid(axis, mask: Tensor, title: str) -> None:
    axis.imshow(mask.to(torch.float), cmap=MASK, vmin=0, vmax=1, aspect="equal")
    axis.set_xticks([x - 0.5 for x in range(1, mask.shape[1])], minor=True)
    axis.set_yticks([y - 0.5 for y in range(1, mask.shape[0])], minor=True)
    axis.grid(which="minor", color="white", lw=1.2)
    axis.tick_params(which="both", length=0)
    axis.spines[:].set_visible(False)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title, fontsize=10)


def _brief(value: float) -> str:
    return "−∞" if value == -torch.inf else f"{value:.2g}".replace("-", "−")


@waits_for("mask_then_renormalise")
def renormalising_error(
    renormalise: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], dtypes: Sequence[torch.dtype]
) -> None:
    """Relative error of masking after the softmax, while one hidden score rises above the allowed ones."""
    figure, axis = plt.subplots(figsize=(7.5, 3))
    allowed = torch.tensor([0.3, -0.2, 0.9, 0.0], dtype=torch.float64)
    mask, exact = torch.tensor([[True] * 4 + [False]]), allowed.softmax(0)
    rises = torch.arange(0, 131, dtype=torch.float64)
    for dtype, colour in zip(dtypes, (KEY, QUERY, VALUE), strict=False):
        rows = [torch.cat([allowed, rise[None]])[None].to(dtype) for rise in rises]
        errors = [((renormalise(row, mask)[0][0, :4].double() - exact) / exact).abs().max() for row in rows]
        errors = torch.stack(errors)
        broken = int((~errors.isfinite()).nonzero()[0]) if (~errors.isfinite()).any() else len(errors)
        axis.plot(
            rises[:broken], errors[:broken].clamp_min(1e-17), color=colour, label=str(dtype).removeprefix("torch.")
        )
        if broken < len(errors):
            axis.plot(rises[broken - 1], errors[broken - 1].clamp_min(1e-17), "X", color=colour, ms=9)
            axis.annotate(
                "0/0",
                (float(rises[broken - 1]), float(errors[broken - 1])),
                xytext=(7, -3),
                textcoords="offset points",
                color=as_text(colour),
            )
    axis.set(
        yscale="log", ylim=(1e-8, 9), xlabel="how far the hidden score stands above the others", ylabel="relative error"
    )
    axis.legend(frameon=False, ncols=3, loc="upper right", bbox_to_anchor=(1, 1.17))
    show()


@waits_for("causal_attention")
def causal_steps(attention: Callable, words: Sequence[str], d: int = 8, seed: int = 1) -> None:
    """Results of causal attention on random queries, keys and values: scores, weights and outputs."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (1.5 * torch.randn(len(words), d, generator=generator) for _ in range(3))
    results = [torch.as_tensor(result) for result in attention(q, k, v[:, :3])]
    hidden = results[0] == -torch.inf
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.9), width_ratios=[1, 1, 0.5])
    looks = (
        ("scores", hidden, "RdBu", -4),
        ("weights: each row sums to 1", hidden, "Purples", 0),
        ("output: weights · V", torch.zeros_like(results[2], dtype=torch.bool), "RdBu", -4),
    )
    for axis, result, (title, empty, colours, low), columns in zip(axes, results, looks, (words, words, "012")):
        _filled(axis, result, empty, title, cmap=colours, vmin=low, vmax=-low or 1)
        axis.set_xticks(range(len(columns)), columns)
        axis.set_yticks(range(len(words)), words if axis is axes[0] else [""] * len(words))
        axis.tick_params(length=0)
        axis.set_xlabel("feature" if axis is axes[2] else "key")
    axes[0].set_ylabel("query")
    show()


def _filled(axis, matrix: Tensor, hidden: Tensor, title: str, **scale) -> None:
    """A matrix with its numbers; hidden cells are gray, and say what stands in them."""
    axis.imshow(hidden.float(), cmap=ListedColormap(["white", MASKED]), vmin=0, vmax=1)
    image = axis.imshow(matrix.masked_fill(hidden, torch.nan), **scale)
    for i, j in torch.cartesian_prod(*map(torch.arange, matrix.shape)).tolist():
        value, empty = matrix[i, j].item(), bool(hidden[i, j])
        ground = to_hex(image.cmap(image.norm(value))) if not empty else MASKED
        words = _brief(value) if empty else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
        axis.text(j, i, words, ha="center", va="center", fontsize=8, color=OUTPUT if empty else ink(ground))
    axis.set_title(title)
    axis.spines[:].set_visible(False)


@waits_for("padding_mask", "combine_masks")
def padding_and_causal(padding_mask: Callable, combine: Callable, lengths: Sequence[int], n: int) -> None:
    """For each sequence of a batch: its padding mask, the causal mask, and both together."""
    padding = padding_mask(torch.tensor(lengths), n, n)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    together = combine(padding, causal)
    figure, axes = plt.subplots(len(lengths), 3, figsize=(6.6, 1.75 * len(lengths)))
    for row, (length, three) in enumerate(zip(lengths, axes, strict=True)):
        for axis, mask, name in zip(
            three, (padding[row, 0], causal, together[row, 0]), ("padding", "causal", "both"), strict=True
        ):
            _grid(axis, mask, name if row == 0 else "")
        three[0].set_ylabel(f"{length} real tokens\nquery", fontsize=9)
        for axis, sign in zip(three[:2], ("and", "="), strict=True):
            axis.text(1.23, 0.5, sign, transform=axis.transAxes, ha="center", va="center", fontsize=12)
    for axis in axes[-1]:
        axis.set_xlabel("key", fontsize=9)
    show(
        f"For sequences of {', '.join(map(str, lengths))} real tokens: the padding mask hides the columns of padding, "
        "the causal mask the upper triangle, and both together allow what both allow. Purple: may attend."
    )


def shifted_rows(rows: dict[str, Sequence[Sequence[str]]]) -> None:
    """Inputs above targets, position by position; ignored positions are gray."""
    figure, axes = plt.subplots(1, len(rows), figsize=(10, 1.6))
    for axis, (name, (inputs, targets)) in zip(axes, rows.items(), strict=True):
        for level, words, colour in ((1, inputs, QUERY), (0, targets, VALUE)):
            for x, word in enumerate(words):
                ignored = word in ("−100", "pad")
                axis.text(
                    x,
                    level,
                    word,
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=OUTPUT if ignored else ink(colour),
                    bbox={"boxstyle": "round,pad=0.35", "fc": MASKED if ignored else colour, "ec": "none"},
                )
                if level and targets[x] != "−100":
                    axis.annotate("", (x, 0.27), (x, 0.73), arrowprops={"arrowstyle": "->", "color": OUTPUT})
        axis.set(xlim=(-0.6, len(inputs) - 0.4), ylim=(-0.5, 1.5), xticks=[], title=name)
        axis.set_yticks([0, 1], ["targets", "inputs"] if axis is axes[0] else ["", ""])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    show()


@waits_for("mask_zoo")
def mask_zoo(made: dict[str, Callable[[], tuple[Tensor, int]]]) -> None:
    """Every mask of the zoo on the same cells, with the pairs that its formula counts and those that are colored."""
    drawn = {name: make() for name, make in made.items()}
    widest = max(mask.shape[1] for mask, _ in drawn.values())
    figure, axes = plt.subplots(2, 4, figsize=(10, 6.3))
    for axis, (name, (mask, pairs)) in zip(axes.flat, drawn.items(), strict=False):
        _grid(axis, mask, f"{name}\n{int(pairs)} by formula, {int(mask.sum())} drawn")
        axis.set_xlim(-0.5, widest - 0.5)  # cells of one size in all pictures
    for axis in axes.flat[len(drawn) :]:
        axis.axis("off")
    show()
