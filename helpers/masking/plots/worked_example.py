"""The worked example of unit 03: the same four words, and a mask that hides what comes later."""

import math

from helpers.board import Board, Marks, Table, number, numbers
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import HEADS, WORDS, X

from ..masks import causal_mask

__all__ = ["causal_flow"]

WORD, LATER = WORDS.index("drink"), WORDS.index("milk")


def causal_flow() -> None:
    """The sentence of 2.5 through causal attention, as a film: scores, mask, weights, outputs."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        f"“{' '.join(WORDS)}” through causal attention: the scores above the diagonal become minus infinity, so that "
        "no word looks at a later one; the first word sees only itself, the last one sees all."
    )
    return film(flow.board, flow.frame, range(len(flow.steps)), described, still=1)


class Flow:
    """All tables, and the steps in which they become known."""

    def __init__(self) -> None:
        head, n = HEADS[0], len(WORDS)
        self.q, self.k, self.v = X @ head.w_q, X @ head.w_k, X @ head.w_v  # (n, d) each
        self.scaled = self.q @ self.k.T / math.sqrt(self.q.shape[1])  # (n, n)
        self.free = self.scaled.softmax(-1)
        self.hidden = ~causal_mask(n, n)
        self.masked = self.scaled.masked_fill(self.hidden, -math.inf)
        self.weights = self.masked.softmax(-1)
        self.output = self.weights @ self.v
        self.board = Board(23, 12.5)
        self.tables = {
            "q": Table(2.1, 1.8, self.q, "Q: looks for", QUERY, head.axes, WORDS),
            "k": Table(5.3, 1.8, self.k, "K: offers", KEY, head.axes),
            "v": Table(8.5, 1.8, self.v, "V: gives", VALUE, "12"),
            "free": Table(13.1, 1.8, self.free, "without a mask (2.5)", WEIGHT, WORDS, shade=True),
            "scaled": Table(2.1, 8.2, self.scaled, "scores QKᵀ / √2", WEIGHT, WORDS, WORDS),
            "masked": Table(7.6, 8.2, self.masked, "masked", WEIGHT, WORDS, first=1, last=1),
            "weights": Table(
                13.1, 8.2, self.weights, "softmax: weights", WEIGHT, WORDS, first=2, last=4, shade=True, by_row=True
            ),
            "output": Table(18.6, 8.2, self.output, "weights · V", OUTPUT, "12", first=5, last=5),
        }
        self.steps = [self._scores, self._mask, self._first, self._second, self._all, self._outputs, self._last]

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        return self.board.step(self.tables, self.steps, step)

    # What each step says, and which cells it frames.

    def _scores(self) -> tuple[str, Marks]:
        said = (
            f"The scores of 2.5. There “{WORDS[WORD]}” looks at “{WORDS[LATER]}”, with weight "
            f"{self.free[WORD, LATER]:.2f}. A model that writes has not written “{WORDS[LATER]}” yet."
        )
        return said, {"free": [(WORD, LATER)]}

    def _mask(self) -> tuple[str, Marks]:
        said = (
            f"Scores of later words become −∞: {int(self.hidden.sum())} of {self.hidden.numel()} cells, all above "
            "the diagonal."
        )
        return said, {"masked": [self.hidden]}

    def _first(self) -> tuple[str, Marks]:
        said = f"“{WORDS[0]}” sees only itself. One weight, so it is 1, whatever the score; the others are e^−∞ = 0."
        return said, {"masked": [0], "weights": [0]}

    def _second(self) -> tuple[str, Marks]:
        powers = self.masked[WORD, : WORD + 1].exp()
        listed = " + ".join(f"e^{number(score)}" for score in self.masked[WORD, : WORD + 1].tolist())
        said = (
            f"“{WORDS[WORD]}” divides 1 between two words: {listed} = {powers.sum():.2f}. “{WORDS[0]}” had "
            f"{self.free[WORD, 0]:.2f} and gets {powers[0]:.2f} / {powers.sum():.2f} = {self.weights[WORD, 0]:.2f}."
        )
        return said, {"masked": [WORD], "free": [WORD], "weights": [WORD]}

    def _all(self) -> tuple[str, Marks]:
        sums = {number(value) for value in self.weights.sum(-1).tolist()}
        return (
            f"All rows. Each still sums to {' or '.join(sums)}: what was hidden is divided among what may be seen.",
            {},
        )

    def _outputs(self) -> tuple[str, Marks]:
        return f"The first output is the first value, {numbers(self.output[0])}.", {"v": [0], "output": [0]}

    def _last(self) -> tuple[str, Marks]:
        return "The last word sees everything: its row is the one without a mask.", {"weights": [-1], "free": [-1]}
