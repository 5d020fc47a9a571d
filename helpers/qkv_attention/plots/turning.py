"""A query that turns among its keys, by hand."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from helpers.board import CELL, Board
from helpers.film import film, play
from helpers.style import EDGE, KEY, OUTPUT, QUERY, WEIGHT

__all__ = ["query_turned"]

MIDDLE, RADIUS = (4.6, 5.6), 118.0  # of the plane: in cells, in pixels
BARS, FULL = 12.0, 5.5  # where the bars begin, and how long the whole attention is, in cells


def query_turned(keys: Sequence[Sequence[float]], length: float = 1.0, steps: int = 36) -> None:
    """A query that turns once around among the keys, as a film: drag it."""
    play(_film(torch.tensor(keys, dtype=torch.float64), length, steps))


def _film(keys: Tensor, length: float, steps: int) -> str:
    board = Board(19, 10.2)
    scale = RADIUS / max(keys.norm(dim=1).max().item(), length)  # pixels to a unit

    def frame(step: int) -> str:
        angle = 2 * math.pi * step / steps
        query = length * torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        scores = keys @ query
        board.wipe()
        _plane(board, query, keys, scale)
        _bars(board, scores)
        listed = ", ".join(f"{score:.1f}" for score in scores.tolist())
        return (
            f"The query points at {360 * step // steps}°. Scores {listed}: key {int(scores.argmax()) + 1} gets most, "
            f"{scores.softmax(0).max():.2f}."
        )

    described = "A query arrow turns once around among some keys; beside it the attention weights follow."
    middle = MIDDLE[0] / board.size[0], MIDDLE[1] / board.size[1]
    return film(board, frame, range(steps), described, milliseconds=300, still=0, middle=middle)


def _plane(board: Board, query: Tensor, keys: Tensor, scale: float) -> None:
    """The arrows, and each key's shadow on the query's line."""

    def at(point: Tensor) -> tuple[float, float]:
        x, y = (scale * point).tolist()
        return MIDDLE[0] + x / CELL[0], MIDDLE[1] - y / CELL[1]

    board.text(MIDDLE[0], 0.4, "score = length of q × shadow of the key on its line")
    line = RADIUS / scale * query / query.norm()
    board.line(at(-line), at(line), colour=EDGE, width=1)
    for index, key in enumerate(keys, start=1):
        foot = query * (key @ query) / (query @ query)
        board.line(at(key), at(foot), colour=OUTPUT, width=1)
        board.text(*at(foot), "●", size=6)
        board.arrow(MIDDLE, at(key), KEY)
        board.text(*at(1.12 * key), f"k{index}", colour=KEY, size=11)
    board.arrow(MIDDLE, at(query), QUERY)
    board.text(*at(1.25 * query), "q", colour=QUERY, size=12, bold=True)


def _bars(board: Board, scores: Tensor) -> None:
    board.text(BARS + FULL / 2, 0.4, "attention weights: they sum to 1")
    for index, (score, weight) in enumerate(zip(scores.tolist(), scores.softmax(0).tolist(), strict=True), start=1):
        top, end = 8.4 * (index - 0.8) / len(scores) + 1.2, BARS + weight * FULL
        board.text(BARS - 0.3, top + 0.6, f"k{index}, score {score:.1f}".replace("-", "−"), ha="right")
        board.box(BARS, top, weight * FULL, 1.2, WEIGHT)
        board.text(end + 0.2, top + 0.6, f"{weight:.2f}", ha="left", colour="black")
