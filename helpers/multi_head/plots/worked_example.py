"""The worked example of unit 04: the same four words, looked at by two heads at once."""

import math

import torch

from helpers.board import Board, Marks, Table, numbers
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import HEADS, W_O, WORDS, X

__all__ = ["two_heads_flow"]

ABOVE = {"q": (QUERY, 2.1), "k": (KEY, 8.1), "v": (VALUE, 14.1)}
"""The upper tables: colour and left edge."""
WORD, WHAT, WHO = WORDS.index("drink"), WORDS.index("milk"), WORDS.index("cats")


def two_heads_flow() -> None:
    """The sentence of 2.5 through a layer with two heads, a film: the cut, a map per head, heads side by side, W_O."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        f"“{' '.join(WORDS)}” through two heads: queries, keys and values of width four are cut into two halves; one "
        "head looks at what is done to what, the other at who does it; their outputs stand side by side and are mixed "
        "by W_O."
    )
    return film(flow.board, flow.frame, range(len(flow.steps)), described)


class Flow:
    """All tables, and the steps in which they become known. Index 0 and 1 are the heads."""

    def __init__(self) -> None:
        self.q, self.k, self.v = (
            torch.stack([X @ getattr(head, name) for head in HEADS]) for name in ("w_q", "w_k", "w_v")
        )
        self.weights = (self.q @ self.k.mT / math.sqrt(self.q.shape[-1])).softmax(-1)  # (h, n, n)
        self.heads = self.weights @ self.v  # (h, n, d_h)
        self.side_by_side = torch.cat([*self.heads], dim=-1)  # (n, h·d_h)
        self.output = self.side_by_side @ W_O
        self.board = Board(23, 13)
        self.steps = [self._whole, self._cut, self._first, self._second, self._together, self._mixed]

    def tables(self, step: int) -> dict[str, Table]:
        """The tables as they stand in a step: cut or not."""
        gap, found = 0.0 if step == 0 else 0.5, {}
        for name, (colour, left) in ABOVE.items():
            for i, values in enumerate(getattr(self, name)):
                columns = "1234"[2 * i : 2 * i + 2] if name == "v" else HEADS[i].axes
                heading = f"{name.upper()}, head {i}" if step else ""
                place = left + i * (2 + gap)
                found[f"{name}{i}"] = Table(place, 1.9, values, heading, colour, columns, WORDS if place < 3 else ())
        for i, left in enumerate((2.1, 7.6)):
            found[f"w{i}"] = Table(
                left,
                8.7,
                self.weights[i],
                f"weights of head {i}",
                WEIGHT,
                WORDS,
                WORDS if i == 0 else (),
                first=2 + i,
                last=2 + i,
                shade=True,
            )
            found[f"h{i}"] = Table(13.1 + 2 * i, 8.7, self.heads[i], f"head {i}", OUTPUT, first=4, last=4)
        found["o"] = Table(18.6, 8.7, self.output, "[head 0, head 1] W_O", OUTPUT, first=5, last=5)
        return found

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        caption = self.board.step(self.tables(step), self.steps, step)
        if step == 0:  # one heading over both halves
            for name, (colour, left) in ABOVE.items():
                heading = f"{name.upper()} = x W_{name.upper()}"
                self.board.text(left + 2, 0.8, heading, colour=colour, va="bottom", size=9.5)
        return caption

    # What each step says, and which cells it frames.

    def _whole(self) -> tuple[str, Marks]:
        said = (
            f"One product makes four numbers per word: the query of “{WORDS[WORD]}” is "
            f"{numbers(self.q[:, WORD].flatten())}."
        )
        return said, {"q0": [WORD], "q1": [WORD]}

    def _cut(self) -> tuple[str, Marks]:
        said = (
            "Cut them into two heads of two. Head 0 has the queries, keys and values of 2.5. Nothing was computed "
            "for the cut."
        )
        return said, {"q0": [...], "k0": [...], "v0": [...]}

    def _first(self) -> tuple[str, Marks]:
        said = (
            f"Head 0 is the attention of 2.5: “{WORDS[WORD]}” looks at “{WORDS[WHAT]}”, at what is drunk "
            f"({self.weights[0, WORD, WHAT]:.2f})."
        )
        return said, {"q0": [WORD], "k0": [WHAT], "w0": [(WORD, WHAT)]}

    def _second(self) -> tuple[str, Marks]:
        said = (
            f"Head 1 does the same with its own numbers, at the same time: “{WORDS[WORD]}” looks at “{WORDS[WHO]}”, at "
            f"who drinks ({self.weights[1, WORD, WHO]:.2f}). One row of weights could not say both."
        )
        return said, {"q1": [WORD], "k1": [WHO], "w1": [(WORD, WHO)]}

    def _together(self) -> tuple[str, Marks]:
        said = (
            "Each head mixes its own values. Side by side they are four numbers per word again: "
            f"{numbers(self.side_by_side[WORD])}."
        )
        return said, {"w0": [WORD], "w1": [WORD], "h0": [WORD], "h1": [WORD]}

    def _mixed(self) -> tuple[str, Marks]:
        return "W_O mixes what the heads have found: the first product in which numbers of two heads meet.", {
            "h0": [WORD],
            "h1": [WORD],
            "o": [WORD],
        }
