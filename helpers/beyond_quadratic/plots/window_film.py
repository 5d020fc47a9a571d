"""Windows and global tokens, a film: the pairs each pattern allows, and the layers that news needs from end to end."""

import torch
from jaxtyping import Bool
from torch import Tensor

from helpers.board import Board
from helpers.film import film, play
from helpers.style import MASKED, MAY_ATTEND

from ..sparse import band_with_globals

__all__ = ["window_film"]

TOKENS, LAYERS = 16, 15
SETTINGS = ((1, 0), (2, 0), (4, 0), (8, 0), (1, 1), (2, 1), (2, 2), (2, 4))
"""Window w and global tokens g of each frame."""
WIDE, HIGH = 0.45, 0.57
"""Of a square, in cells of the board."""


def window_film() -> None:
    """The mask of a window w with g global tokens, and which tokens have reached the last one after each layer."""
    play(_film())


def heard(mask: Bool[Tensor, "n n"]) -> Bool[Tensor, "layers n"]:
    """Whom the last token has heard of after 1, 2, … layers with this mask, until it is all."""
    rows = [mask[-1]]
    while not rows[-1].all():
        rows.append(mask[rows[-1]].any(dim=0))
    return torch.stack(rows)


def _film() -> str:
    board = Board(19, 11.6)

    def frame(setting: tuple[int, int]) -> str:
        mask = band_with_globals(TOKENS, *setting)
        reached = heard(mask)
        board.wipe()
        _grid(board, 1, mask, "who reads whom", "a row per query, a column per key")
        layers = torch.zeros(LAYERS, TOKENS, dtype=torch.bool)
        layers[: len(reached)] = reached
        _grid(board, 11, layers, "which tokens have reached the last one", "a row per layer, a column per token")
        return _said(*setting, mask, len(reached))

    described = (
        "Masks of a window with and without global tokens; beside each, layer by layer, which tokens have reached "
        "the last one. A wider window needs fewer layers, one global token needs two."
    )
    return film(board, frame, SETTINGS, described, milliseconds=3000)


def _grid(board: Board, left: float, cells: Bool[Tensor, "rows columns"], title: str, below: str) -> None:
    board.text(left + 8 * WIDE, 0.6, title, colour="black", size=10)
    board.text(left + 8 * WIDE, 1.4 + HIGH * len(cells) + 0.5, below)
    for i, row in enumerate(cells.tolist()):
        top = 1.4 + HIGH * i
        board.box(left, top, WIDE * len(row), HIGH - 0.06, MASKED)
        for j in range(len(row)):
            if row[j]:
                board.box(left + WIDE * j, top, WIDE - 0.05, HIGH - 0.06, MAY_ATTEND)
        board.text(left - 0.2, top + HIGH / 2, str(i + 1), ha="right")


def _said(w: int, g: int, mask: Tensor, layers: int) -> str:
    pairs = f"{int(mask.sum())} of {mask.numel()} pairs"
    globals_ = "no global token" if g == 0 else "one global token" if g == 1 else f"{g} global tokens"
    return f"w = {w}, {globals_}: {pairs}. After {layers} layers all tokens have reached the last one."
