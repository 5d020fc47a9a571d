"""Pictures of what waits for what: grids of (token, layer) cells, coloured and numbered by the step of each."""

from collections.abc import Callable, Iterator, Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from helpers.board import Board
from helpers.film import film, play
from helpers.style import EDGE, FAINT_QUERY, KEY, MASKED, OUTPUT, QUERY, WEIGHT, show, waits_for

__all__ = ["dependency_graphs", "idle_share", "pipeline_charts", "rnn_unrolled", "schedules"]

Cell = tuple[int, int]  # (layer, token), from 0


def _recurrent(layer: int, token: int, n: int, layers: int) -> list[Cell]:
    return [cell for cell in ((layer - 1, token), (layer, token - 1)) if min(cell) >= 0]


def _reading(layer: int, token: int, n: int, layers: int) -> list[Cell]:
    return [(layer - 1, other) for other in range(n)] if layer else []


def _writing(layer: int, token: int, n: int, layers: int) -> list[Cell]:
    if layer == 0:
        return [(layers - 1, token - 1)] if token else []
    return [(layer - 1, other) for other in range(token + 1)]


MODELS = {
    "RNN": (_recurrent, 1),
    "stacked RNN": (_recurrent, None),
    "Transformer that reads": (_reading, None),
    "Transformer that writes": (_writing, None),
}


LEGEND = """A cell reads the cells from which its arrows come.
Its number is the first step in which it can run.
Orange: the token just written comes back as input."""


def _earliest(needs: Callable, n: int, layers: int) -> dict[Cell, int]:
    """The first step in which each cell can run: one after the last of those that it reads."""
    steps: dict[Cell, int] = {}
    for cell in _cells_in_order(needs, n, layers):
        steps[cell] = 1 + max((steps[needed] for needed in needs(*cell, n, layers)), default=0)
    return steps


def _cells_in_order(needs: Callable, n: int, layers: int) -> Iterator[Cell]:
    """All cells, each after those that it reads: by tokens where text is written, else by layers."""
    by_layers = [(layer, token) for layer in range(layers) for token in range(n)]
    yield from sorted(by_layers, key=lambda cell: cell[::-1]) if needs is _writing else by_layers


def dependency_graphs(n: int = 5, layers: int = 3) -> None:
    """Four models as grids of cells, with an arrow from every cell that a cell reads: a still, then a film."""
    grids = [(name, needs, own or layers) for name, (needs, own) in MODELS.items()]
    steps = [_earliest(needs, n, height) for _, needs, height in grids]
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.2))
    for axis, (name, needs, height), numbers in zip(axes.flat, grids, steps, strict=True):
        _grid(axis, n, height, layers, f"{name}: {max(numbers.values())} steps")
        for cell in numbers:
            for needed in needs(*cell, n, height):
                _arrow(axis, needed, cell)
            _cell(axis, cell, str(numbers[cell]), _colour(numbers[cell], max(numbers.values())))
    axes[0, 0].text((n - 1) / 2, (layers + 0.2) / 2, LEGEND, ha="center", va="center", fontsize=9, color=OUTPUT)
    figure.tight_layout(h_pad=2.5)
    show()
    play(_film(grids, steps, n, layers))


def _grid(axis, n: int, height: int, layers: int, title: str) -> None:
    axis.set(xlim=(-0.55, n - 0.45), ylim=(-0.6, layers - 0.4), aspect="equal")
    axis.set_title(title, fontsize=11)
    axis.set_xticks(range(n), [f"token {token + 1}" for token in range(n)], fontsize=8)
    axis.set_yticks(range(height), [f"layer {layer + 1}" for layer in range(height)], fontsize=8)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _cell(axis, cell: Cell, text: str, colour) -> None:
    layer, token = cell
    box = FancyBboxPatch(
        (token - 0.24, layer - 0.2), 0.48, 0.4, boxstyle="round,pad=0.03", facecolor=colour, edgecolor="white", zorder=3
    )
    axis.add_patch(box)
    axis.text(token, layer, text, ha="center", va="center", fontsize=10, color="black", zorder=4)


def _arrow(axis, source: Cell, target: Cell) -> None:
    """From edge to edge; the long way back from the top layer to the next token's first is drawn in another colour."""
    (l0, t0), (l1, t1) = source, target
    back = l0 > l1
    start, end = (
        (t0 + 0.27, l0) if t1 > t0 and l0 >= l1 else (t0, l0 + 0.24),
        (t1 - 0.27, l1) if t1 > t0 and l0 >= l1 else (t1, l1 - 0.24),
    )
    style = {
        "arrowstyle": "-|>",
        "color": KEY if back else OUTPUT,
        "lw": 1.3 if back else 0.8,
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 7,
        "alpha": 0.9 if back or t0 == t1 or l0 == l1 else 0.35,
    }
    axis.annotate("", end, start, arrowprops=style, zorder=2)


def _colour(step: int, last: int):
    """From light to dark as steps go on; light enough for black numbers."""
    return plt.colormaps["YlGnBu"](0.08 + 0.5 * (step - 1) / max(1, last - 1))


def _film(grids: list, steps: list[dict[Cell, int]], n: int, layers: int) -> str:
    """The four grids side by side, step by step."""
    board = Board(22, layers + 2.9)
    middles = [22 * (place + 0.5) / len(grids) for place in range(len(grids))]

    def frame(now: int) -> str:
        board.wipe()
        for middle, (name, _, _), numbers in zip(middles, grids, steps, strict=True):
            board.text(middle, 0.6, name, colour="black", size=10.5)
            for (layer, token), step in numbers.items():
                colour = MASKED if step > now else KEY if step == now else FAINT_QUERY
                board.box(middle + token - n / 2 + 0.06, layers + 0.3 - layer, 0.88, 0.9, colour)
        colours = "orange: runs in this step · blue: done · gray: still to come (a column is a token, a row a layer)"
        board.text(11, layers + 2.1, colours)
        return _said(now, grids, steps)

    last = max(max(numbers.values()) for numbers in steps)
    described = (
        "Four models as grids of tokens and layers: which cells run in which step, and which models are done first."
    )
    return film(board, frame, range(1, last + 1), described, milliseconds=900, still=2)


def _said(now: int, grids: list, steps: list[dict[Cell, int]]) -> str:
    """What happens in a step: how many cells run together, and who is done."""
    together = [
        f"{name}: {sum(step == now for step in numbers.values()) or 'done'}"
        for (name, _, _), numbers in zip(grids, steps, strict=True)
    ]
    return f"Step {now}. Cells that run together: {'; '.join(together)}."


@waits_for("layers_in_sequence")
def schedules(answers: dict[str, Callable[[int, int], Tensor]], layers: int, n: int) -> None:
    """Each schedule as a grid of step numbers, and below it how many cells run together in each step."""
    grids = {name: answer(layers, n) for name, answer in answers.items()}
    figure, axes = plt.subplots(2, len(grids), figsize=(10.5, 4.6), height_ratios=[1.3, 1])
    for (above, below), (name, grid) in zip(axes.T, grids.items(), strict=True):
        above.imshow(grid, cmap="YlGnBu", origin="lower", aspect="auto", vmin=0, vmax=1.9 * int(grid.max()))
        for layer, row in enumerate(grid.tolist()):
            for token, step in enumerate(row):
                above.text(token, layer, int(step), ha="center", va="center", fontsize=9)
        above.set(title=name, xlabel="token", ylabel="layer", xticks=[], yticks=[])
        together = grid.long().flatten().bincount()[1:]
        below.bar(range(1, len(together) + 1), together, color=QUERY)
        below.set(xlabel="step", ylabel="cells at once", ylim=(0, n + 1), xlim=(0, layers * n + 1))
    show()


def pipeline_charts(layers: int, micro_batches: Sequence[int]) -> None:
    """Which device works on which micro-batch, step by step; what is hatched is idle."""
    lengths = [batches + layers - 1 for batches in micro_batches]
    figure, axes = plt.subplots(1, len(lengths), figsize=(10, 2.2), width_ratios=[length + 2 for length in lengths])
    for axis, batches, length in zip(axes, micro_batches, lengths, strict=True):
        axis.barh(range(layers), length, height=0.9, color="white", edgecolor=EDGE, hatch="////", lw=0)
        for device in range(layers):
            for batch in range(batches):
                axis.barh(
                    device, 1, left=device + batch, height=0.9, color=_colour(batch + 1, batches + 1), edgecolor="white"
                )
                axis.text(device + batch + 0.5, device, batch + 1, ha="center", va="center", fontsize=9)
        axis.set_yticks(range(layers), [f"device {device + 1}" for device in range(layers)], fontsize=8)
        axis.set(
            title=f"{batches} micro-batch{'es' if batches > 1 else ''}",
            xlabel="step",
            xlim=(0, length),
            xticks=range(0, length + 1),
        )
    show()


@waits_for("pipeline_steps")
def idle_share(pipeline: Callable[[int, int], tuple[int, float]], layers: Sequence[int] = (2, 4, 8, 16)) -> None:
    """The idle share of a pipeline over the number of micro-batches, one line per number of devices."""
    batches = [1, 2, 4, 8, 16, 32, 64, 128]
    figure, axis = plt.subplots(figsize=(7, 2.8))
    for index, devices in enumerate(layers):
        shares = [100 * float(pipeline(devices, count)[1]) for count in batches]
        axis.plot(batches, shares, "o-", color=plt.colormaps["YlGnBu"](0.3 + 0.2 * index), label=f"{devices} devices")
    axis.set(xscale="log", xlabel="micro-batches", ylabel="idle (%)", ylim=(0, 100))
    axis.set_xticks(batches, batches)
    axis.minorticks_off()
    axis.legend(frameon=False)
    show()


def rnn_unrolled(words: Sequence[str]) -> None:
    """An RNN laid out over its tokens: every state reads its token and the state before."""
    figure, axis = plt.subplots(figsize=(1.6 * len(words) + 1.6, 1.9))
    axis.text(0, 1, "$h_0 = 0$", ha="center", va="center", fontsize=11)
    for t, word in enumerate(words, start=1):
        _cell(axis, (1, t), f"$h_{t}$", plt.colormaps["YlGnBu"](0.25))
        axis.text(t, 0.1, word, ha="center", va="center", fontsize=11)
        for start, end, weight, shift in (
            ((t - 0.73, 1), (t - 0.28, 1), "$W_h$", (0, 8)),
            ((t, 0.28), (t, 0.74), "$W_x$", (14, 0)),
        ):
            axis.annotate(
                "", end, start, arrowprops={"arrowstyle": "-|>", "color": WEIGHT, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
            )
            middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            axis.annotate(
                weight,
                middle,
                xytext=shift,
                textcoords="offset points",
                ha="center",
                va="center",
                color=WEIGHT,
                fontsize=10,
            )
    axis.set(xlim=(-0.4, len(words) + 0.6), ylim=(-0.15, 1.4))
    axis.axis("off")
    show()
