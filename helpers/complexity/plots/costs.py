"""Pictures of unit 07: what products and layers cost, and what was counted."""

from collections.abc import Callable, Sequence
from itertools import product

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

from helpers.style import KEY, MASKED, OUTPUT, QUERY, RED, SKY, VALUE, WEIGHT, as_text, ink, show, waits_for

__all__ = [
    "attention_share",
    "cost_shares",
    "crossing",
    "intensities",
    "model_counts",
    "predicted_and_counted",
    "product_traffic",
]

ROWS = {"qkv": QUERY, "scores": RED, "softmax": WEIGHT, "weighted_sum": KEY, "output": SKY, "ffn": VALUE}


def product_traffic(*shapes: tuple[int, int, int], uses: bool = True) -> None:
    """(n, m) times (m, k) for several shapes, as cells: one weight is lit, with the column of inputs that it is
    multiplied by and the column of results that it goes into.

    uses: False lights nothing: only what is read and written."""
    figure, axes = plt.subplots(1, len(shapes), figsize=(4.8 * len(shapes), 2.9), squeeze=False)
    for axis, (n, m, k) in zip(axes[0], shapes, strict=True):
        row, column = (m // 3, k // 3) if uses else (-1, -1)
        _cells(axis, 0, n, m, QUERY, lambda i, j, row=row: j == row, f"{n}×{m} read")
        _cells(axis, m + 3, m, k, KEY, lambda i, j, lit=(row, column): (i, j) == lit, f"{m}×{k} read")
        _cells(axis, m + k + 6, n, k, VALUE, lambda i, j, column=column: j == column, f"{n}×{k} written")
        for place, sign in ((m + 1.5, "×"), (m + k + 4.5, "=")):
            axis.text(place, 0, sign, ha="center", va="center", fontsize=14)
        if uses:
            words = f"each weight: read once, in {_products(n)}"
            axis.text(m + k / 2 + 3, m / 2 + 1, words, ha="center", va="top", color=as_text(KEY), weight="bold")
        axis.set(xlim=(-1, m + 2 * k + 7), ylim=(m / 2 + 4, -m / 2 - 4), aspect="equal")
        axis.axis("off")
    said = "; ".join(f"{n}×{m} times {m}×{k}" + f", each weight in {_products(n)}" * uses for n, m, k in shapes)
    show(f"Matrix products as cells: {said}.")


def _products(count: int) -> str:
    return f"{count} product{'s' * (count != 1)}"


def _cells(axis, x: float, rows: int, columns: int, colour: str, lit: Callable[[int, int], bool], label: str) -> None:
    for i, j in product(range(rows), range(columns)):
        strength = 1 if lit(i, j) else 0.22
        axis.add_patch(Rectangle((x + j + 0.06, i - rows / 2 + 0.06), 0.88, 0.88, color=colour, alpha=strength, lw=0))
    axis.text(x + columns / 2, -rows / 2 - 0.6, label, ha="center", va="bottom", fontsize=9.5)


@waits_for("arithmetic_intensity")
def intensities(intensity: Callable, width: int) -> None:
    """FLOPs per byte of (n, d) times (d, d) over the number of rows n, in three dtypes."""
    rows = [2**power for power in range(16)]
    figure, axis = plt.subplots(figsize=(7, 3))
    for dtype, colour in zip((torch.float64, torch.float32, torch.float16), (OUTPUT, KEY, QUERY), strict=True):
        values = [intensity(n, width, width, dtype) for n in rows]
        axis.loglog(rows, values, "o-", ms=3.5, color=colour, base=2, label=str(dtype).removeprefix("torch."))
        axis.text(0.8, values[0], f"{values[0]:.2g}", ha="right", va="center", fontsize=8, color=as_text(colour))
    axis.axvline(width, color=OUTPUT, ls=":", lw=1)
    axis.annotate(f" n = d = {width}", (width, 0.3), fontsize=8, color=OUTPUT)
    axis.set(xlabel="rows n that share the weight", ylabel="FLOPs per byte", xlim=(0.45, None))
    axis.set_title(f"(n, {width}) times ({width}, {width})")
    axis.legend(frameon=False)
    show()


@waits_for("training_table", "decode_table")
def cost_shares(tables: dict[str, Callable[[], dict]]) -> None:
    """Which row of a table takes which share of the FLOPs and of the elements moved."""
    found = {name: table() for name, table in tables.items()}
    figure, axes = plt.subplots(1, 2, figsize=(10, 0.9 + 0.62 * len(found)), sharey=True)
    for column, (axis, title) in enumerate(zip(axes, ("FLOPs", "elements moved"), strict=True)):
        for place, table in enumerate(found.values()):
            _stacked(axis, place, [table[row][column] for row in ROWS])
        axis.set(title=title, xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "50 %", "100 %"])
    axes[0].set_yticks(range(len(found)), found)
    axes[0].invert_yaxis()
    handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in ROWS.values()]
    axes[1].legend(
        handles, [row.replace("_", " ") for row in ROWS], frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
    )
    show()


def _stacked(axis, place: int, values: Sequence[float]) -> None:
    left = 0.0
    for value, colour in zip(values, ROWS.values(), strict=True):
        share = value / sum(values)
        axis.barh(place, share, left=left, color=colour, height=0.65)
        if share > 0.06:
            axis.text(
                left + share / 2, place, f"{100 * share:.0f}", ha="center", va="center", color=ink(colour), fontsize=8
            )
        left += share


@waits_for("training_table")
def predicted_and_counted(predicted: Callable[[], dict], counted: dict[str, tuple[int, int]]) -> None:
    """Each row of a table as predicted (ring) and as counted while PyTorch ran (dot)."""
    table, names = predicted(), list(counted)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.8), sharey=True)
    for column, (axis, title) in enumerate(zip(axes, ("million FLOPs", "thousand elements moved"), strict=True)):
        places, unit = range(len(names)), (1e6, 1e3)[column]
        yours = [table[name][column] / unit for name in names]
        axis.plot(yours, places, "o", ms=13, mfc="none", mec=QUERY, mew=1.8, label="your formula")
        axis.plot([counted[name][column] / unit for name in names], places, "o", ms=5, color=KEY, label="counted")
        axis.set(title=title, ylim=(len(names) - 0.5, -0.5))
        axis.margins(x=0.08)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, [name.replace("_", " ") for name in names])
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    show()


@waits_for("crossover")
def crossing(table: Callable, crossover: Callable, models: dict[str, tuple[int, int]]) -> None:
    """FLOPs of what grows with n² against what grows with n, and where your formula says that they meet."""
    lengths = [2**power for power in range(7, 20)]
    figure, axes = plt.subplots(1, len(models), figsize=(4.6 * len(models), 3), sharey=True)
    for axis, (name, (d, d_ff)) in zip(axes, models.items(), strict=True):
        rows = [table(1, n, d, 1, d_ff) for n in lengths]
        axis.loglog(
            lengths, [r["scores"][0] + r["weighted_sum"][0] for r in rows], color=KEY, label="scores + weighted sum"
        )
        axis.loglog(
            lengths, [r["qkv"][0] + r["output"][0] + r["ffn"][0] for r in rows], color=QUERY, label="projections + FFN"
        )
        place = crossover(d, d_ff)
        axis.axvline(place, color=OUTPUT, ls=":")
        axis.annotate(f"n = {place:,.0f} ", (place, 1e16), ha="right", fontsize=9, color=OUTPUT)
        axis.set(title=f"{name}: d = {d}, d_ff = {d_ff}", xlabel="tokens n")
    axes[0].set_ylabel("FLOPs of one layer")
    axes[1].legend(framealpha=1, edgecolor="white", fontsize=9, loc="lower right")
    show()


@waits_for("model_flops")
def attention_share(model_flops: Callable, models: dict[str, tuple[int, int, int, int]]) -> None:
    """Attention's share of the training FLOPs over the context, for models of (layers, d, d_ff, vocabulary)."""
    lengths = [2**power for power in range(8, 19)]
    figure, axis = plt.subplots(figsize=(7, 3))
    for (name, (layers, d, d_ff, vocabulary)), colour in zip(models.items(), (KEY, QUERY, VALUE, WEIGHT)):
        shares = [12 * layers * n**2 * d / model_flops(1, n, layers, d, d_ff, vocabulary) for n in lengths]
        axis.semilogx(
            lengths, [100 * share for share in shares], "o-", ms=3.5, color=colour, base=2, label=f"{name}, d = {d}"
        )
    axis.set(xlabel="context n", ylabel="% of training FLOPs", ylim=(0, 100))
    axis.set_title("the part that 6 · parameters · tokens leaves out")
    axis.legend(frameon=False)
    show()


@waits_for("model_flops")
def model_counts(model_flops: Callable, counted: dict[tuple[int, ...], int], parameters: Sequence[int]) -> None:
    """Training FLOPs of several small models: is your formula the count, and how much does the rule of thumb find?"""
    names = [f"n = {n}\nL = {layers}, d = {d}" for _, n, layers, d, *_ in counted]
    off = {name: model_flops(*sizes) / flops - 1 for name, (sizes, flops) in zip(names, counted.items(), strict=True)}
    thumb = [600 * p * b * n / flops for p, ((b, n, *_), flops) in zip(parameters, counted.items(), strict=True)]
    print("Your formula: " + _agreement({name.replace("\n", ", "): share for name, share in off.items()}))
    figure, axis = plt.subplots(figsize=(7.5, 2.6))
    whole = axis.bar(names, 100, 0.6, color=MASKED)
    axis.bar(names, thumb, 0.6, color=KEY)
    axis.bar_label(whole, [f"{share:.0f} %" for share in thumb], padding=3)
    axis.set(yticks=[0, 50, 100], ylabel="% of the count")
    axis.set_title("how much of the training FLOPs 6 · parameters · tokens finds")
    said = ", ".join(f"{share:.0f} % at {name}".replace("\n", ", ") for name, share in zip(names, thumb))
    show(f"A bar for each model: 6 · parameters · tokens is {said}.")


def _agreement(off: dict[str, float]) -> str:
    """Of a formula's shares above or below a count."""
    wrong = [f"{share:+.1%} at {name}" for name, share in off.items() if share]
    return f"not the count: {'; '.join(wrong)}." if wrong else f"equal to the count in all {len(off)} models."
