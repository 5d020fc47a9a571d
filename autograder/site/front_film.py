"""The film of the front page: how much each of four words looks at the others. It fits a telephone."""

import torch

from helpers.board import Board
from helpers.film import film
from helpers.style import EDGE, KEY, QUERY, WEIGHT
from helpers.worked_example import HEADS, WORDS, X

ALL = len(WORDS)
LEFT, RIGHT, APART = 1.7, 4.9, 1.9


def weights() -> torch.Tensor:
    """Who looks at whom (n, n)."""
    q, k = X @ HEADS[0].w_q, X @ HEADS[0].w_k
    return torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=-1)


def front_film() -> str:
    """The HTML of the film: a frame a word, and one of all together. It opens with the second."""
    board, shares = Board(7.6, APART * (ALL - 1) + 2), weights()
    described = f"“{' '.join(WORDS)}”: lines from each word to all words, as thick as its attention to them."
    draw = lambda asking: _draw(board, shares, asking)
    return film(board, draw, range(ALL + 1), described, still=WORDS.index("drink"))


def _draw(board: Board, shares: torch.Tensor, asking: int) -> str:
    board.wipe()
    for row in range(ALL) if asking == ALL else [asking]:
        for column, share in enumerate(shares[row].tolist()):
            ends = (LEFT + 0.2, _height(row)), (RIGHT - 0.2, _height(column))
            board.line(*ends, colour=WEIGHT, width=round(12 * share, 1))
            if asking < ALL:
                board.text(RIGHT + 1.7, _height(column), f"{share:.0%}", colour=WEIGHT, size=12, ha="left")
    for place, word in enumerate(WORDS):
        asks = asking in (place, ALL)
        board.text(LEFT, _height(place), word, colour=QUERY if asks else EDGE, size=14, ha="right", bold=asks)
        board.text(RIGHT, _height(place), word, colour=KEY, size=14, ha="left")
    return _said(shares, asking)


def _height(place: int) -> float:
    return 1 + APART * place


def _said(shares: torch.Tensor, asking: int) -> str:
    if asking == ALL:
        return "All words ask at once, and every row of weights sums to 1: one head of attention."
    found = WORDS[int(shares[asking].argmax())]
    return f"“{WORDS[asking]}” looks mostly at “{found}”: {shares[asking].max():.0%} of its attention."
