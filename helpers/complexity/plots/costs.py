"""Pictures of unit 07: what products and layers cost, and what was counted."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

from helpers.style import KEY, OUTPUT, QUERY, RED, SKY, VALUE, WEIGHT, as_text, ink, show, waits_for

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
    """(n, m) times (m, k) for several shapes: the three matrices to scale, and how often each element is used.

    uses: False leaves out how often."""
    figure, axes = plt.subplots(1, len(shapes), figsize=(4.6 * len(shapes), 2.7), squeeze=False)
    for axis, (n, m, k) in zip(axes[0], shapes, strict=True):
        _matrix(axis, 0, n, m, QUERY, f"{n}×{m} read" + f"\neach used {k}×" * uses)
        _matrix(axis, m + 3, m, k, KEY, f"{m}×{k} read" + f"\neach used {n}×" * uses)
        _matrix(axis, m + k + 6, n, k, VALUE, f"{n}×{k}\nwritten")
        axis.text(m + 1.5, 0, "×", ha="center", va="center", fontsize=14)
        axis.text(m + k + 4.5, 0, "=", ha="center", va="center", fontsize=14)
        axis.set(xlim=(-1, m + 2 * k + 7), ylim=(-max(n, m) / 2 - 1, max(n, m) / 2 + 5), aspect="equal")
        axis.axis("off")
    show()


def _matrix(axis, x: float, rows: int, columns: int, colour: str, label: str) -> None:
    axis.add_patch(Rectangle((x, -rows / 2), columns, rows, facecolor=colour, alpha=0.4, edgecolor=colour))
    axis.text(x + columns / 2, rows / 2 + 0.4, label, ha="center", va="bottom", fontsize=8.5)


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
    """Training FLOPs of several small models: your formula and the rule of thumb, relative to what was counted."""
    names = [f"n = {n}\nL = {layers}, d = {d}" for _, n, layers, d, *_ in counted]
    yours = [model_flops(*sizes) / flops for sizes, flops in counted.items()]
    thumb = [6 * p * b * n / flops for p, ((b, n, *_), flops) in zip(parameters, counted.items(), strict=True)]
    figure, axis = plt.subplots(figsize=(7.5, 2.8))
    place = torch.arange(len(names))
    axis.bar(place - 0.2, yours, 0.38, color=QUERY, label="your formula")
    axis.bar(place + 0.2, thumb, 0.38, color=KEY, label="6 · parameters · tokens")
    axis.axhline(1, color=OUTPUT, ls=":")
    axis.set(title="predicted / counted", ylim=(0, 1.45))
    axis.set_xticks(place.tolist(), names)
    axis.legend(frameon=False, ncols=2, loc="upper right")
    show()
