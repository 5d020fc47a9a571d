"""The worked example of unit 02: four words through queries, keys, values, scores, softmax and mix, step by step."""

import math

import torch
from torch import Tensor

from helpers.board import Board, Marks, Table, number, numbers
from helpers.film import film, play
from helpers.paper import image
from helpers.style import KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import FEATURES, HEADS, WORDS, X

__all__ = ["attention_flow", "four_words"]

WORD, SEEN = WORDS.index("drink"), WORDS.index("milk")
ROW, KEY_ROW = (WORD, slice(None)), (SEEN, slice(None))


def attention_flow() -> None:
    """A sentence of four words through scaled dot-product attention, as a film: all numbers, step by step."""
    play(_film())


def four_words() -> None:
    """All tables of the film of four words, filled: scores, weights, and outputs that lie among the values."""
    flow = Flow()
    flow.frame(len(flow.steps) - 1)
    play(image(flow.board.svg().encode(), " ".join((four_words.__doc__ or "").split()), sharp=1))


def _film() -> str:
    flow = Flow()
    described = (
        f"“{' '.join(WORDS)}” through attention: tables of queries, keys, values, scores, scaled scores, weights and "
        "outputs fill one after the other; at the end the outputs lie among the values in the plane."
    )
    return film(flow.board, flow.frame, range(len(flow.steps)), described)


class Flow:
    """All tables of the example, and the steps in which they become known."""

    def __init__(self) -> None:
        head, axes = HEADS[0], HEADS[0].axes
        self.q, self.k, self.v = X @ head.w_q, X @ head.w_k, X @ head.w_v  # (n, d) each
        self.scores = self.q @ self.k.T  # (n, n)
        self.scaled = self.scores / math.sqrt(self.q.shape[1])
        self.weights = torch.softmax(self.scaled, dim=-1)
        self.output = self.weights @ self.v  # (n, d)
        self.board = Board(22.4, 13)
        self.tables = {
            "x": Table(2.1, 1.9, X, "the words x", OUTPUT, FEATURES, WORDS),
            "q": Table(7.6, 1.9, self.q, "Q: looks for", QUERY, axes, first=1, last=1),
            "k": Table(11.1, 1.9, self.k, "K: offers", KEY, axes, first=2, last=2),
            "v": Table(14.6, 1.9, self.v, "V: gives", VALUE, "12", first=3, last=3),
            "scores": Table(2.1, 8.7, self.scores, "scores QKᵀ", WEIGHT, WORDS, WORDS, first=4, last=6),
            "scaled": Table(7.6, 8.7, self.scaled, "÷ √2", WEIGHT, WORDS, first=7, last=7),
            "weights": Table(13.1, 8.7, self.weights, "softmax: weights", WEIGHT, WORDS, first=8, last=9, shade=True),
            "output": Table(18.6, 8.7, self.output, "weights · V", OUTPUT, "12", first=10, last=11),
        }
        self.steps = [
            self._words,
            self._queries,
            self._keys,
            self._values,
            self._one_score,
            self._one_row,
            self._all_scores,
            self._scale,
            self._softmax,
            self._all_weights,
            self._one_output,
            self._all_outputs,
        ]

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        caption = self.board.step(self.tables, self.steps, step)
        if step >= self.tables["v"].first:
            self._plane(step)
        return caption

    def _plane(self, step: int) -> None:
        """The values as points; later the outputs, which lie in the hull of the values."""
        at = lambda x, y: (18.9 + 0.6 * x, 5.2 - 0.76 * y)  # its place on the board
        for tick in (0, 2, 4):
            self.board.line(at(-0.5, tick), at(5.4, tick), colour=MASKED, width=1)
            self.board.line(at(tick, -0.5), at(tick, 5), colour=MASKED, width=1)
            self.board.text(*at(-0.7, tick), str(tick), ha="right", size=7.5)
            self.board.text(*at(tick, -1), str(tick), size=7.5)
        self.board.area([at(*self.v[i].tolist()) for i in _around(self.v)], VALUE, 0.12)
        for word, (x, y) in zip(WORDS, self.v.tolist(), strict=True):
            self.board.text(*at(x, y), "●", colour=VALUE, size=7)
            self.board.text(*at(x + 0.25, y + (0.45 if y else -0.4)), word, ha="left", colour=VALUE, size=7.5)
        first, last = self.tables["output"].first, self.tables["output"].last
        shown = self.output[:0] if step < first else self.output[WORD : WORD + 1] if step < last else self.output
        for word, (x, y) in zip(WORDS if len(shown) > 1 else [WORDS[WORD]], shown.tolist(), strict=False):
            self.board.text(*at(x, y), "✖", size=8)
            self.board.text(*at(x + 0.3, y - 0.1), word, ha="left", size=7.5)
        title = "the values in the plane" if step < first else "outputs (✖) among the values"
        self.board.text(20.2, 0.8, title, size=8)

    # What each step says, and which cells it frames. In the step that begins a table, only these are known.

    def _words(self) -> tuple[str, Marks]:
        return (
            f"Four words. Each is a row of features: “{WORDS[WORD]}” is something one does, “{WORDS[0]}” is a thing "
            "that lives.",
            {},
        )

    def _queries(self) -> tuple[str, Marks]:
        said = (
            f"Q = x W_Q: what a word looks for. “{WORDS[WORD]}” looks for a thing: its query is "
            f"{numbers(self.q[WORD])}."
        )
        return said, {"x": [ROW], "q": [ROW]}

    def _keys(self) -> tuple[str, Marks]:
        said = f"K = x W_K: what a word offers. “{WORDS[SEEN]}” offers a thing: its key is {numbers(self.k[SEEN])}."
        return said, {"x": [KEY_ROW], "k": [KEY_ROW]}

    def _values(self) -> tuple[str, Marks]:
        return (
            "V = x W_V: what a word gives to those that look at it. Here two numbers each, so they are points in the "
            "plane.",
            {},
        )

    def _one_score(self) -> tuple[str, Marks]:
        query, key = self.q[WORD].tolist(), self.k[SEEN].tolist()
        products = " + ".join(f"{number(a)} · {number(b)}" for a, b in zip(query, key, strict=True))
        said = (
            f"One score: the query of “{WORDS[WORD]}” times the key of “{WORDS[SEEN]}”, {products} = "
            f"{number(self.scores[WORD, SEEN].item())}. What is looked for meets what is offered."
        )
        return said, {"q": [ROW], "k": [KEY_ROW], "scores": [(WORD, SEEN)]}

    def _one_row(self) -> tuple[str, Marks]:
        said = f"The same query with every key gives a row of scores: {numbers(self.scores[WORD])}."
        return said, {"q": [ROW], "k": [...], "scores": [ROW]}

    def _all_scores(self) -> tuple[str, Marks]:
        return f"QKᵀ holds all {self.scores.numel()} scores at once. A row belongs to a query, a column to a key.", {}

    def _scale(self) -> tuple[str, Marks]:
        before, after = self.scores[WORD, SEEN].item(), self.scaled[WORD, SEEN].item()
        said = (
            f"Divide by √d = √2 = {math.sqrt(2):.2f}, so that wider vectors don't make larger scores: "
            f"{number(before)} becomes {number(after)}."
        )
        return said, {"scores": [(WORD, SEEN)]}

    def _softmax(self) -> tuple[str, Marks]:
        powers = self.scaled[WORD].exp()
        listed = " + ".join(f"e^{number(score)}" for score in self.scaled[WORD].tolist())
        said = (
            f"Softmax along the row of “{WORDS[WORD]}”: {listed} = {powers.sum():.2f}. So “{WORDS[SEEN]}” gets "
            f"{powers[SEEN]:.2f} / {powers.sum():.2f} = {self.weights[WORD, SEEN]:.2f}."
        )
        return said, {"scaled": [ROW], "weights": [ROW]}

    def _all_weights(self) -> tuple[str, Marks]:
        return "Every query shares one unit of attention out: each row sums to 1. The columns need not.", {}

    def _one_output(self) -> tuple[str, Marks]:
        terms = zip(self.weights[WORD].tolist(), self.v, strict=True)
        mixed = " + ".join(f"{number(weight)} · {numbers(value)}" for weight, value in terms)
        said = (
            f"Mix the values of all words with the weights of “{WORDS[WORD]}”: {mixed} = {numbers(self.output[WORD])}."
        )
        return said, {"v": [...], "weights": [ROW], "output": [ROW]}

    def _all_outputs(self) -> tuple[str, Marks]:
        return "Every output is a weighted average of the values: it lies inside their hull, never outside.", {}


def _around(points: Tensor) -> list[int]:
    """The points' order around their middle."""
    away = points - points.mean(dim=0)
    return torch.atan2(away[:, 1], away[:, 0]).argsort().tolist()
