"""The worked example of unit 09: the scores of the same four words, walked in tiles of 2 × 2 with a running m and ℓ."""

import math

import torch
from torch import Tensor

from helpers.board import Board, Table, numbers
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import HEADS, WORDS, X

__all__ = ["tiles_flow"]

BLOCK = 2


def tiles_flow() -> None:
    """The sentence of 2.5 through attention in tiles, as a film: scores, running maximum and sum, accumulator."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        f"“{' '.join(WORDS)}” through attention in tiles of {BLOCK} by {BLOCK}: each tile of scores is made and "
        "forgotten; maximum, sum and output of its two rows are corrected and carried on; the last frame compares with "
        "the softmax of whole rows."
    )
    return film(flow.board, flow.frame, range(len(flow.states) + 1), described, still=3)


class State:
    """What is known after a step: m, ℓ and the accumulator of all rows, and which tile was made."""

    def __init__(
        self, tile: tuple[int, int], m: Tensor, total: Tensor, out: Tensor, divided: bool, factor: Tensor
    ) -> None:
        self.tile, self.m, self.total, self.out = tile, m.clone(), total.clone(), out.clone()
        self.divided, self.factor = divided, factor.clone()


class Flow:
    """The walk, with its state after every tile, and after every row of tiles."""

    def __init__(self) -> None:
        head = HEADS[0]
        self.q, self.k, self.v = X @ head.w_q, X @ head.w_k, X @ head.w_v  # (n, d) each
        self.scores = self.q @ self.k.T / math.sqrt(self.q.shape[1])  # (n, n): drawn tile by tile
        self.exact = self.scores.softmax(-1) @ self.v
        self.states = self._walk()
        self.board = Board(25, 11.6)

    def _walk(self) -> list[State]:
        n = len(WORDS)
        m, total, out = (
            torch.full((n,), -math.inf, dtype=X.dtype),
            torch.zeros(n, dtype=X.dtype),
            torch.zeros_like(self.v),
        )
        states = []
        for i in range(0, n, BLOCK):
            rows = slice(i, i + BLOCK)
            for j in range(0, n, BLOCK):
                columns = slice(j, j + BLOCK)
                new = torch.maximum(m[rows], self.scores[rows, columns].amax(-1))
                factor, powers = torch.exp(m[rows] - new), torch.exp(self.scores[rows, columns] - new[:, None])
                m[rows] = new
                total[rows] = factor * total[rows] + powers.sum(-1)
                out[rows] = factor[:, None] * out[rows] + powers @ self.v[columns]
                states.append(State((i, j), m, total, out, False, factor))
            out[rows] /= total[rows, None]
            states.append(State((i, n - BLOCK), m, total, out, True, factor))
        return states

    def frame(self, step: int) -> str:
        """Draw a step, and say what it does."""
        self.board.wipe()
        over = step == len(self.states)
        state = self.states[min(step, len(self.states) - 1)]
        i, j = state.tile
        rows, columns = slice(i, i + BLOCK), slice(j, j + BLOCK)
        walks = not over and not state.divided
        self._inputs([rows] if walks else [], [columns] if walks else [])
        self._tile(step, (rows, columns) if walks else None)
        begun = (torch.arange(len(WORDS)) < i + BLOCK)[:, None]
        running = (
            (19.2, state.m[:, None], "m", WEIGHT),
            (20.5, state.total[:, None], "ℓ", WEIGHT),
            (21.8, state.out, "O", OUTPUT),
        )
        for left, values, name, colour in running:
            marked = [] if over or (state.divided and name != "O") else [rows]
            self.board.table(Table(left, 5.7, values, name, colour), begun.expand(values.shape), marked)
        self.board.text(21.5, 10.2, "carried along", size=8)
        return self._end() if over else self._divided(state) if state.divided else self._told(state)

    def _inputs(self, rows: list, columns: list) -> None:
        all_known = torch.ones(len(WORDS), 2, dtype=torch.bool)
        self.board.table(Table(2.1, 5.7, self.q, "Q", QUERY, rows=WORDS), all_known, rows)
        for top, values, name, colour in ((0.2, self.k, "Kᵀ", KEY), (2.5, self.v, "Vᵀ", VALUE)):
            marked = [(slice(None), one) for one in columns]
            self.board.table(Table(5.5, top, values.T, "", colour), all_known.T, marked)
            self.board.text(5.2, top + 1, name, ha="right", colour=colour, size=9.5)
        for place, word in enumerate(WORDS):
            self.board.text(6 + place, 5.2, word, size=8)

    def _tile(self, step: int, now: tuple[slice, slice] | None) -> None:
        """The tile of scores that is there now; where tiles were, the number of the visit."""
        known = torch.zeros(len(WORDS), len(WORDS), dtype=torch.bool)
        if now:
            known[now] = True
        self.board.table(Table(5.5, 5.7, self.scores, "", WEIGHT), known, [now] if now else [])
        visits = [state.tile for state in self.states[: step + 1] if not state.divided]
        for visit, (i, j) in enumerate(visits, start=1):
            if now is None or (i, j) != visits[-1]:
                self.board.text(5.5 + j + BLOCK / 2, 5.7 + i + BLOCK / 2, f"tile {visit}\nforgotten", size=7.5)
        self.board.text(7.5, 10.2, "scores QKᵀ / √2", colour=WEIGHT)
        if now:
            self._powers(now)

    def _powers(self, now: tuple[slice, slice]) -> None:
        """e^(S − m) of the tile, beside the square."""
        rows, columns = now
        m = next(state.m for state in self.states if not state.divided and state.tile == (rows.start, columns.start))
        powers = torch.zeros_like(self.scores)
        powers[now] = torch.exp(self.scores[now] - m[rows, None])
        known = torch.zeros(powers.shape, dtype=torch.bool)
        known[now] = True
        self.board.table(Table(12.4, 5.7, powers, "", WEIGHT, shade=True), known, [])
        self.board.text(14.4, 10.2, "e^(S − m)", colour=WEIGHT)

    def _told(self, state: State) -> str:
        i, j = state.tile
        words, keys = (
            " and ".join(f"“{word}”" for word in WORDS[i : i + BLOCK]),
            " and ".join(f"“{word}”" for word in WORDS[j : j + BLOCK]),
        )
        m, total = numbers(state.m[i : i + BLOCK]), numbers(state.total[i : i + BLOCK])
        if j == 0:
            return (
                f"A first tile: {words} meet {keys}. Maxima of the rows so far: {m}; sums of e^(S − m): {total}. "
                "O is not divided yet."
            )
        return (
            f"The next tile: {words} meet {keys}. The maxima are now {m}. Old sums and old O are multiplied by e^(old "
            f"− new) = {numbers(state.factor)}, then the tile's are added: ℓ = {total}."
        )

    def _divided(self, state: State) -> str:
        i = state.tile[0]
        listed = " and ".join(numbers(row) for row in state.out[i : i + BLOCK])
        return f"The row of tiles is complete: divide O by ℓ, once. The outputs are {listed}."

    def _end(self) -> str:
        difference = (self.states[-1].out - self.exact).abs().max().item()
        return (
            f"All {len(WORDS)} outputs are those of 2.5 (largest difference: {difference:.0e}), and there were never "
            f"more than {BLOCK} × {BLOCK} scores at a time."
        )
