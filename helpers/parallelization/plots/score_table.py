"""The table of scores as a film: a loop that asks for one after the other, beside one product."""

import torch
from torch import Tensor

from helpers.board import Board, Table
from helpers.film import film, play
from helpers.style import WEIGHT

__all__ = ["score_table"]

TOP, LEFT, GAP = 1.9, 1.9, 2.0  # of the first table, and between the two: in cells


def score_table(n: int, m: int) -> None:
    """The n × m scores twice, tick by tick: a loop asks for one score in a tick, a matrix product for all."""
    play(_film(n, m))


def _film(n: int, m: int) -> str:
    board, scores = Board(LEFT + 2 * m + GAP + 0.4, TOP + n + 1.3), n * m

    def frame(tick: int) -> str:
        board.wipe()
        asked = torch.arange(scores).view(n, m) < tick
        _table(board, LEFT, "a loop over tokens and keys", asked, tick, tick, row_names=True)
        everything = torch.full((n, m), tick > 0)
        _table(board, LEFT + m + GAP, "one matrix product", everything, min(tick, 1), tick, row_names=False)
        return _said(tick, scores)

    described = (
        f"Two tables of {n} × {m} scores fill while a clock ticks: one score per tick in a loop, all in the first tick "
        "of a matrix product."
    )
    return film(board, frame, range(scores + 1), described, milliseconds=500, still=scores // 2)


def _table(board: Board, left: float, name: str, known: Tensor, ticks: int, tick: int, *, row_names: bool) -> None:
    """A table as far as it is known. ticks: what it took so far."""
    n, m = known.shape
    keys, tokens = [f"key {j + 1}" for j in range(m)], [f"token {i + 1}" for i in range(n)] if row_names else ()
    table = Table(left, TOP, 0.6 * known, name, WEIGHT, keys, tokens, shade=True, written=False)
    newest = [divmod(tick - 1, m)] if row_names and tick else []
    board.table(table, known, newest)
    count = f"{int(known.sum())} scores in {ticks} tick{'s' * (ticks != 1)}"
    board.text(left + m / 2, TOP + n + 0.6, count, colour=WEIGHT, bold=True)


def _said(tick: int, scores: int) -> str:
    if tick == 0:
        return f"{scores} scores, none of which waits for another."
    if tick < scores:
        return f"Tick {tick}: the loop has asked for {tick} of {scores} scores. The product had them all in tick 1."
    return f"Tick {tick}: the loop is done, too. The same {scores} scores, {scores} ticks against 1."
