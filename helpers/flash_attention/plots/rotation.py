"""Pictures of the incoherent rotation: where an outlier goes, and what that saves when numbers are rounded to FP8."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from torch import Generator, Tensor

from helpers.qkv_attention.attention import scaled_dot_product_attention
from helpers.style import KEY, MASKED, OUTPUT, QUERY, as_text, show, waits_for

from ..rotation import fp8_attention, random_signs, with_outliers

__all__ = ["fp8_error", "rotated_outliers"]

PUBLISHED = (2.4e-2, 9.1e-3)  # reported in FlashAttention-3: FP8 on an H100, without and with the rotation


@waits_for("incoherent_rotation")
def rotated_outliers(hadamard: Callable, rotate: Callable, d: int = 64) -> None:
    """The matrix for 16 features; a token with an outlier before and after the rotation; the entries of many tokens."""
    generator = Generator().manual_seed(0)
    q, signs = with_outliers(4096, d, generator=generator), random_signs(d, generator)
    q[0, 20] = 30.0
    turned = rotate(q, q, signs)[0]
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), width_ratios=(0.8, 1.2, 1.1))
    _signs(axes[0], hadamard(16))
    _token(axes[1], q[0], turned[0])
    _entries(axes[2], q, turned)
    show()


def _signs(axis, matrix: Tensor) -> None:
    """A column for each new feature: it adds up all the old ones, with a sign of its own for each. Gray is plus."""
    n = len(matrix)
    axis.imshow(matrix > 0, cmap=ListedColormap([MASKED, OUTPUT]), vmin=0, vmax=1)
    axis.set(xticks=range(0, n, 4), yticks=range(0, n, 4), xlabel="feature after", ylabel="feature before")
    axis.set_title(f"H for {n} features: gray +1/{n**0.5:g}, pale −1/{n**0.5:g}", fontsize=10)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _token(axis, before: Tensor, after: Tensor) -> None:
    places, each = torch.arange(len(before)), float(before.abs().max()) / len(before) ** 0.5
    axis.bar(places, before, color=KEY, width=0.9, label="before")
    axis.bar(places, after, color=QUERY, width=0.6, label="after")
    for side in (-each, each):
        axis.axhline(side, color=OUTPUT, ls=":", lw=1)
    beside = axis.get_yaxis_transform()  # x in parts of the axis: no line runs there
    axis.text(1, each, f" 30/√{len(before)}", va="center", fontsize=9, color=OUTPUT, transform=beside)
    axis.set(title="one token with one outlier", xlabel="feature")
    axis.legend(frameon=False, loc="upper right")


def _entries(axis, before: Tensor, after: Tensor) -> None:
    """Histograms with a logarithmic count: the outliers are few."""
    edges = torch.linspace(-40, 40, 81).tolist()
    label = "{}: largest {:.0f}"
    axis.hist(
        before.flatten().tolist(),
        edges,
        color=KEY,
        alpha=0.6,
        log=True,
        label=label.format("before", before.abs().max()),
    )
    axis.hist(
        after.flatten().tolist(),
        edges,
        color=QUERY,
        histtype="step",
        lw=2,
        log=True,
        label=label.format("after", after.abs().max()),
    )
    axis.set(title="the entries of 4096 tokens", xlabel="value", ylabel="how many", ylim=(0.6, 2e6))
    axis.legend(frameon=False, fontsize=9, loc="upper center", ncols=2)


def _kinds() -> dict[str, Callable[[int, int, Generator], Tensor]]:
    """Kinds of tokens: (n, d, generator) -> (n, d)."""
    return {
        "no outliers": lambda n, d, generator: torch.randn(n, d, generator=generator),
        "outliers: one entry\nin a thousand, ×10": lambda n, d, generator: with_outliers(n, d, generator=generator),
        "outliers: one feature\nof every token, ×10": lambda n, d, generator: (
            torch.randn(n, d, generator=generator) * (1 + 9 * (torch.arange(d) == 7))
        ),
    }


@waits_for("incoherent_rotation")
def fp8_error(hadamard: Callable, rotate: Callable, n: int = 2048, d: int = 128) -> None:
    """Error of attention in FP8 without and with the rotation, for tokens with and without outliers."""
    figure, axis = plt.subplots(figsize=(9, 3.2))
    for row, make in enumerate(_kinds().values()):
        plain, turned = _errors(make, rotate, n, d)
        axis.plot([plain, turned], [row, row], color=OUTPUT, lw=1)
        for error, colour, label, up in ((plain, KEY, "as they are", 10), (turned, QUERY, "rotated", -18)):
            axis.plot(error, row, "o", ms=10, color=colour, label=label if row == 0 else None)
            axis.annotate(
                f"{error:#.2g}",
                (error, row),
                (0, up),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=as_text(colour),
            )
    axis.plot(PUBLISHED, [1, 1], "|", ms=16, mew=1.5, color="black", label="published, on an H100")
    axis.set_yticks(range(row + 1), _kinds())
    axis.set(
        xscale="log",
        xlim=(1e-3, None),
        ylim=(row + 0.5, -0.5),
        title=f"FP8 attention: error of the output, n = {n}, d = {d}",
    )
    axis.set_xlabel("root mean square error")
    axis.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    show()


def _errors(make: Callable, rotate: Callable, n: int, d: int, tries: int = 2) -> list[float]:
    """Root mean square errors against float32 with queries and keys as they are, and rotated."""
    generator, squares = Generator().manual_seed(0), torch.zeros(2)
    for _ in range(tries):
        q, k, v = (make(n, d, generator) for _ in range(3))
        exact = scaled_dot_product_attention(q, k, v)
        pairs = (q, k), rotate(q, k, random_signs(d, generator))
        squares += torch.stack([(fp8_attention(*pair, v) - exact).square().mean() for pair in pairs])
    return (squares / tries).sqrt().tolist()
