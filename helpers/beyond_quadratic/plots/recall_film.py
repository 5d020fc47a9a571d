"""Pairs are written one after the other, some keys again: what four kinds of memory return after each."""

from collections.abc import Callable, Sequence

import torch

from helpers.board import Board
from helpers.film import film, play
from helpers.style import FAINT_KEY, KEY, MASKED, VALUE, waits_for

from .overwriting import recall

__all__ = ["recall_film"]

WRITTEN = (("A", 2), ("B", 5), ("C", 3), ("D", 4), ("A", 6), ("C", 1), ("A", 7))
NAMES = "ABCD"
LEFT, COLUMN, ROW = 2.6, 2.5, 1.1  # of the table, in cells
PAIR, BETWEEN, HIGH = COLUMN * len(NAMES) / len(WRITTEN), 0.08, 1.0
SIZE = 9.4  # of the letters, in points


@waits_for("decayed_attention", "delta_rule")
def recall_film(delta: Callable, decayed: Callable) -> None:
    """Values written to keys at right angles, some of them again, and what four memories return for each key."""
    play(_film(delta, decayed))


def recalled(delta: Callable, decayed: Callable, written: Sequence[tuple[str, int]]) -> dict[str, list[float]]:
    """What each memory returns for A, B, C and D after these writes. Keys are orthonormal."""
    names = torch.eye(2 * len(NAMES))[: len(NAMES)]
    keys = names[[NAMES.index(name) for name, _ in written]]
    values = torch.tensor([[float(value)] for _, value in written])
    return {name: found.flatten().tolist() for name, found in recall(delta, decayed, names, keys, values).items()}


def _film(delta: Callable, decayed: Callable) -> str:
    board = Board(12.8, 8.6)

    def frame(count: int) -> str:
        newest, found = dict(WRITTEN[:count]), recalled(delta, decayed, WRITTEN[:count])
        board.wipe()
        _writes(board, count)
        _table(board, found, newest)
        return _told(found, newest, *WRITTEN[count - 1])

    described = (
        f"{len(WRITTEN)} writes to {len(NAMES)} keys, one after the other. Below, for each memory and key, what is "
        "recalled, with a check mark where it is the newest value and a cross where not."
    )
    along = [(LEFT + (place + 0.5) * PAIR) / board.size[0] for place in range(len(WRITTEN))]
    return film(board, frame, range(1, len(WRITTEN) + 1), described, along=along)


def _writes(board: Board, count: int) -> None:
    """The writes in a row: those that were, the last of them, and those to come."""
    board.text(LEFT - 0.2, 0.7, "written", ha="right", size=SIZE)
    for place, (name, value) in enumerate(WRITTEN, start=1):
        ground = KEY if place == count else FAINT_KEY if place < count else MASKED
        left = LEFT + (place - 1) * PAIR
        board.box(left, 0.2, PAIR - BETWEEN, HIGH, ground, f"{name} = {value}", size=SIZE)


def _table(board: Board, found: dict[str, list[float]], newest: dict[str, int]) -> None:
    """What should be recalled, and below it what each memory returns."""
    for column, name in enumerate(NAMES):
        left = LEFT + column * COLUMN
        board.text(left + COLUMN / 2, 2, name, size=SIZE, bold=True)
        if name not in newest:
            continue
        board.box(left, 2.5, COLUMN - BETWEEN, HIGH, FAINT_KEY, f"{newest[name]}", size=SIZE)
        for row, values in enumerate(found.values()):
            right = _right(values[column], newest[name])
            said = f"{values[column]:.3g} {'✓' if right else '✗'}"
            ground = VALUE if right else MASKED
            board.box(left, 4 + row * ROW, COLUMN - BETWEEN, HIGH, ground, said, size=SIZE)
    board.text(LEFT - 0.2, 3, "newest value", ha="right", size=SIZE)
    for row, memory in enumerate(found):
        board.text(LEFT - 0.2, 4.5 + row * ROW, memory, ha="right", size=SIZE)


def _right(value: float, newest: int) -> bool:
    return abs(value - newest) < 0.01


def _told(found: dict[str, list[float]], newest: dict[str, int], name: str, value: int) -> str:
    returned = ", ".join(f"{values[NAMES.index(name)]:.3g} ({memory})" for memory, values in found.items())
    counts = [sum(_right(values[NAMES.index(key)], newest[key]) for key in newest) for values in found.values()]
    return (
        f"{name} = {value} is written. Recalled for {name}: {returned}. Newest values recalled: "
        f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} of {len(newest)}."
    )
