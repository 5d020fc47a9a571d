"""The worked example of unit 08: the same four words arrive one at a time, and the cache fills."""

import math

import torch

from helpers.board import Board, Table, numbers
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import HEADS, WORDS, X

__all__ = ["cache_flow"]

CAPACITY = 6


def cache_flow() -> None:
    """The sentence of 2.5 word by word through attention with a cache, as a film: slots fill, `length` moves, one
    row of weights per word."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        f"“{' '.join(WORDS)}”, one word at a time: its key and value go to the next free slot of a cache of "
        f"{CAPACITY}, length moves on by one, and its query meets all keys that are stored."
    )
    return film(flow.board, flow.frame, range(2 * len(WORDS) + 1), described)


class Flow:
    """Two steps a word: store its key and value, then attend. One step more looks back."""

    def __init__(self) -> None:
        head, n = HEADS[0], len(WORDS)
        self.q, self.k, self.v = X @ head.w_q, X @ head.w_k, X @ head.w_v  # (n, d) each
        self.weights, self.output = torch.zeros(n, n, dtype=X.dtype), torch.zeros_like(self.v)
        for i in range(n):  # as a model that writes does it: each word meets what is stored
            self.weights[i, : i + 1] = (self.q[i] @ self.k[: i + 1].T / math.sqrt(self.q.shape[1])).softmax(-1)
            self.output[i] = self.weights[i, : i + 1] @ self.v[: i + 1]
        self.board = Board(25.5, 9)

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        self.board.wipe()
        word, attends = (len(WORDS), False) if step == 2 * len(WORDS) else divmod(step, 2)
        self._cache(word, attends)
        self._rows(word, bool(attends))
        return self._told(word, bool(attends))

    def _cache(self, word: int, attends: bool) -> None:
        length, new = min(word + 1, len(WORDS)), not attends and word < len(WORDS)
        for left, values, name, colour in ((9.6, self.k, "keys", KEY), (12.6, self.v, "values", VALUE)):
            slots = torch.zeros(CAPACITY, values.shape[1], dtype=values.dtype)
            slots[: len(WORDS)] = values
            known = (torch.arange(CAPACITY) < length)[:, None].expand(slots.shape)
            rows = [f"slot {slot}" for slot in range(CAPACITY)] if name == "keys" else ()
            self.board.table(Table(left, 1.9, slots, name, colour, rows=rows), known, [word] if new else [])
        for slot, stored in enumerate(WORDS[:length]):
            self.board.text(14.8, 2.4 + slot, stored, ha="left")
        self.board.line((7.2, 1.9 + length), (14.7, 1.9 + length))
        self.board.text(7.1, 1.9 + length, f"length = {length}", ha="right", colour="black", bold=True)

    def _rows(self, word: int, attends: bool) -> None:
        """The query of the new word alone, and the rows of weights and outputs so far."""
        done = word + attends
        if word < len(WORDS):
            self.board.table(
                Table(2.1, 1.9, self.q[word : word + 1], "q", QUERY, rows=WORDS[word : word + 1]),
                torch.tensor([[True, True]]),
                [],
            )
        below = torch.arange(len(WORDS))
        seen = (below[:, None] < done) & (below <= below[:, None])
        marked = [(word, slice(0, word + 1))] if attends else []
        self.board.table(Table(18.8, 1.9, self.weights, "weights", WEIGHT, WORDS, WORDS, shade=True), seen, marked)
        self.board.table(
            Table(23.3, 1.9, self.output, "output", OUTPUT),
            (below < done)[:, None].expand(self.output.shape),
            [word] if attends else [],
        )

    def _told(self, word: int, attends: bool) -> str:
        if word == len(WORDS):
            return (
                "The rows of weights are those of the causal mask in 3.6, made one at a time: what is masked there is "
                "not stored yet here. No old query was needed again, and no old key or value was computed twice."
            )
        if not attends:
            return (
                f"“{WORDS[word]}” comes: its key {numbers(self.k[word])} and its value {numbers(self.v[word])} go "
                f"to slot {word}, and length becomes {word + 1}."
            )
        return (
            f"Its query {numbers(self.q[word])} meets the {word + 1} stored key{'s' * (word > 0)}: weights "
            f"{numbers(self.weights[word, : word + 1])}, output {numbers(self.output[word])}. Then the query is "
            "forgotten."
        )
