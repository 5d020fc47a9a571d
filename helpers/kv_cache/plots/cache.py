"""Pictures of unit 08: what is computed again, what lies where, and who sees whom."""

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from helpers.labels import name_lines
from helpers.style import KEY, MASK, OUTPUT, QUERY, VALUE, WEIGHT, as_text, heatmap, show, waits_for

__all__ = ["changed_outputs", "decoding_step", "ragged_masks", "repeated_work", "ring", "rounding_errors"]


def repeated_work(n: int) -> None:
    """A square for every key and value computed while n tokens are read one by one, without and with a cache."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
    for axis, cached in zip(axes, (False, True)):
        for step in range(n):
            for token in range(step + 1):
                new = token == step
                if new or not cached:
                    _cell(axis, token, step, KEY if new else OUTPUT, 0.8 if new else 0.3)
        axis.set(
            xlim=(0, n), ylim=(n, 0), aspect="equal", xlabel="token", title=f"{'with' if cached else 'without'} a cache"
        )
        axis.set_xticks([i + 0.5 for i in range(n)], range(1, n + 1))
        axis.set_yticks([i + 0.5 for i in range(n)], range(1, n + 1))
    axes[0].set_ylabel("step")
    axes[1].legend(
        handles=[
            Patch(color=KEY, alpha=0.8, label="computed for the first time"),
            Patch(color=OUTPUT, alpha=0.3, label="computed again"),
        ],
        frameon=False,
        loc="upper right",
        bbox_to_anchor=(1.35, 1.0),
        fontsize=9,
    )
    show()


def _cell(axis, x: float, y: float, colour: str, alpha: float, text: str = "") -> None:
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, alpha=alpha, edgecolor="white", lw=1.5))
    if text:
        axis.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=9)


def decoding_step(m: int, d: int) -> None:
    """One step with a cache: the new row of each matrix in full color, what lies in the cache in pale."""
    figure, axis = plt.subplots(figsize=(9.5, 2.9))
    blocks = [
        ("q", 1, d, QUERY, 0),
        ("Kᵀ", d, m + 1, KEY, "column"),
        ("scores", 1, m + 1, WEIGHT, 0),
        ("weights", 1, m + 1, WEIGHT, 0),
        ("V", m + 1, d, VALUE, "row"),
        ("output", 1, d, OUTPUT, 0),
    ]
    x = 0.0
    for (name, rows, columns, colour, old), sign in zip(blocks, ("×", "/√d =", "→", "×", "=", "")):
        for row in range(rows):
            for column in range(columns):
                cached = (old == "column" and column < m) or (old == "row" and row < m)
                _cell(axis, x + column, row - rows / 2, colour, 0.2 if cached else 0.75)
        axis.text(x + columns / 2, -rows / 2 - 0.2, f"{name}  {rows}×{columns}", ha="center", va="bottom", fontsize=10)
        axis.text(x + columns + 1.1, 0, sign, ha="center", va="center", fontsize=11)
        x += columns + 2.2
    axis.text(
        x / 2,
        (m + 1) / 2 + 0.5,
        "pale: from the cache · full color: new in this step",
        ha="center",
        va="top",
        fontsize=9,
        color=OUTPUT,
    )
    axis.set(xlim=(-0.2, x - 1.8), ylim=((m + 1) / 2 + 1.4, -(m + 1) / 2 - 1.4), aspect="equal")
    axis.axis("off")
    show()


@waits_for("bidirectional_cannot_cache")
def changed_outputs(change: Callable, layers: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> None:
    """How much the outputs of the old tokens change when one more comes, at every length."""
    figure, axis = plt.subplots(figsize=(8, 2.8))
    lengths, ends = range(1, len(x)), []
    for (name, layer), colour in zip(layers.items(), (QUERY, KEY)):
        changes = [float(change(layer, x[:n], x[n : n + 1])) for n in lengths]
        axis.plot(lengths, changes, "o-", color=colour)
        ends.append((f"{name}: {min(changes):.2g} to {max(changes):.2g}", changes[-1], colour))
    axis.set(xlabel="old tokens", ylabel="largest change of\nan old output", xticks=list(lengths))
    name_lines(axis, lengths[-1], ends, apart=0.12, size=9.5)
    said = "; ".join(name for name, *_ in ends)
    show(f"The largest change over the number of old tokens, {lengths[0]} to {lengths[-1]}. {said}.")


def ring(window: int, n: int) -> None:
    """What lies in the slots of a ring buffer after each of n tokens; the newest is darker."""
    figure, axis = plt.subplots(figsize=(0.62 * n + 1.6, 0.5 * window + 1.1))
    for step in range(n):
        for slot in range(window):
            token = step - (step - slot) % window  # the last token up to `step` that belongs in this slot
            if token >= 0:
                _cell(axis, step, slot, KEY, 0.75 if token == step else 0.25, str(token))
    axis.set(
        xlim=(0, n),
        ylim=(window, 0),
        aspect="equal",
        xlabel="after token",
        ylabel="slot",
        title=f"a ring of {window} slots",
    )
    axis.set_xticks([step + 0.5 for step in range(n)], range(n))
    axis.set_yticks([slot + 0.5 for slot in range(window)], range(window))
    show()


@waits_for("quantized_cache")
def rounding_errors(quantize_keys: Callable, quantize_values: Callable, keys: Tensor) -> None:
    """Keys with two loud channels, and what is left of them in int8 with one scale per channel or per token."""
    largest = keys[0, 0].abs().amax(dim=0)  # of every channel
    restored = {"one scale per channel": quantize_keys(keys), "one scale per token": quantize_values(keys)}
    errors = {
        name: (codes * scale - keys)[0, 0].abs().amax(dim=0) / largest for name, (codes, scale) in restored.items()
    }
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.1), width_ratios=[1, 1.3])
    heatmap(
        axes[0],
        keys[0, 0].abs().log10(),
        "keys: log₁₀ |k|, two channels are loud",
        rows="token",
        columns="channel",
        cmap="Oranges",
        vmin=-2,
        vmax=2,
    )
    for (name, error), colour, mark, y in zip(errors.items(), (VALUE, KEY), "os", (0.07, 40), strict=True):
        axes[1].semilogy(100 * error.clamp_min(1e-5), mark, color=colour)
        axes[1].text(
            len(error) / 2,
            y,
            f"{name}: at most {100 * error.max():.1f} %",
            color=as_text(colour),
            ha="center",
            fontsize=9.5,
        )
    axes[1].axhline(100 / 254, color=OUTPUT, ls=":", lw=1)
    axes[1].text(len(largest) - 0.4, 100 / 254, "half a step\nof 127", fontsize=8, color=OUTPUT, va="center")
    axes[1].set(
        title="largest error of a channel, in % of its largest key", xlabel="channel", ylabel="%", ylim=(0.02, 150)
    )
    show(
        "Left: the size of keys by token and channel; two channels are far louder than the others. Right: with one "
        "scale per token the loud channels set the scale, and quiet channels lose up to "
        + " %, with one scale per channel all stay below half a step: ".join(
            f"{100 * error.max():.1f}" for error in reversed(errors.values())
        )
        + " %."
    )


@waits_for("ragged_batch")
def ragged_masks(positions_and_mask: Callable, real: Tensor) -> None:
    """The mask of each row of a padded batch; the positions stand beside the queries."""
    positions, mask = positions_and_mask(real, real.shape[1])
    figure, axes = plt.subplots(1, len(real), figsize=(3.1 * len(real), 3.3))
    for axis, places, allowed, present in zip(axes, positions, mask, real):
        count = int(present.sum())
        heatmap(
            axis,
            allowed.float(),
            f"{count} real token{'s' * (count > 1)}",
            columns="key",
            rows="position of the query" if axis is axes[0] else "",
            cmap=MASK,
            vmin=0,
            vmax=1,
        )
        for line in range(1, len(places)):
            axis.axhline(line - 0.5, color="white", lw=1)
            axis.axvline(line - 0.5, color="white", lw=1)
        axis.set_yticks(range(len(places)), [str(int(p)) if here else "pad" for p, here in zip(places, present)])
        axis.set_xticks(range(len(places)), [str(int(p)) if here else "pad" for p, here in zip(places, present)])
    said = ", ".join(f"{int(allowed.sum())} among {int(row.sum())} real tokens" for allowed, row in zip(mask, real))
    show(f"The masks of a padded batch, one square per sequence. Pairs that may attend: {said}.")
