"""The worked example of unit 06: the four words are the source; each word of the translation asks for the next."""

import math

from helpers.board import Board, Marks, Table, number, numbers
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import CROSS, READ, TRANSLATION, WORDS, X, Y

__all__ = ["cross_flow"]


def cross_flow() -> None:
    """Cross-attention from a translation being written to the sentence of 2.5, a film: one row of scores per word."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        f"Cross-attention: keys and values of “{' '.join(WORDS)}” are made once; then each word of the translation "
        f"“{' '.join(TRANSLATION)}” adds a query, and with it a row of scores, of weights, and an output."
    )
    return film(flow.board, flow.frame, range(len(READ) + 2), described)


class Flow:
    """All tables; step 1 + i reads word i of the translation."""

    def __init__(self) -> None:
        self.q, self.k, self.v = Y @ CROSS.w_q, X @ CROSS.w_k, X @ CROSS.w_v  # (n, d), (m, d), (m, d)
        self.scaled = self.q @ self.k.T / math.sqrt(self.q.shape[1])  # (n, m)
        self.weights = self.scaled.softmax(-1)
        self.output = self.weights @ self.v
        self.board = Board(24.5, 13.2)
        rows, n = [f"“{word}”" for word in READ], len(READ)
        self.tables = {
            "k": Table(9.5, 1.9, self.k, "K, from the source", KEY, "12", WORDS),
            "v": Table(14, 1.9, self.v, "V, from the source", VALUE, "12"),
            "q": Table(3.5, 8, self.q, "Q", QUERY, "12", rows, first=1, last=n, by_row=True),
            "s": Table(6.9, 8, self.scaled, "QKᵀ / √2", WEIGHT, WORDS, first=1, last=n, by_row=True),
            "w": Table(12.3, 8, self.weights, "weights", WEIGHT, WORDS, first=1, last=n, by_row=True, shade=True),
            "o": Table(17.7, 8, self.output, "weights · V", OUTPUT, "12", first=1, last=n, by_row=True),
        }

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        self.board.wipe()
        caption, marks = self._source() if step == 0 else self._word(step - 1) if step <= len(READ) else self._end()
        self.board.draw(self.tables, step, marks)
        for row, word in enumerate((*TRANSLATION, "<end>")[:step]):
            self.board.text(20, 8.5 + row, f"→ “{word}”", ha="left", colour=QUERY)
        return caption

    def _source(self) -> tuple[str, Marks]:
        return (
            "The encoder has read the sentence. Its keys and values are made once, before the first word is written.",
            {},
        )

    def _word(self, i: int) -> tuple[str, Marks]:
        said = f"“{READ[i]}” was read; its query is {numbers(self.q[i])}. "
        if i < len(TRANSLATION):
            most = int(self.weights[i].argmax())
            said += (
                f"The best key is that of “{WORDS[most]}”, score {number(self.scaled[i, most].item())}, weight "
                f"{self.weights[i, most]:.2f}: “{TRANSLATION[i]}” is written."
            )
        else:
            said += f"It looks for nothing: every word gets {number(self.weights[i, 0].item())}, and the sentence ends."
        return said, {"q": [i], "s": [i], "w": [i], "o": [i]}

    def _end(self) -> tuple[str, Marks]:
        n, m = self.weights.shape
        return (
            f"{n} queries, {m} keys: {n} × {m} weights, and no mask. The first word may look at the last of the "
            "source. Rows are who asks, columns who answers.",
            {},
        )
