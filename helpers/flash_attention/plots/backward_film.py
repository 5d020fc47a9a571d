"""The backward pass in tiles as a film, on the worked example: P is made again, and each tile adds to dQ, dK and dV."""

import math

import torch

from helpers.board import Board, Table
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT
from helpers.worked_example import HEADS, WORDS, X

__all__ = ["backward_flow"]

BLOCK = 2
GRAD_OUT = torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=X.dtype)
PHASES = ("P", "dS", "add")


def backward_flow() -> None:
    """Where dQ, dK and dV come from: the tiles of the worked example walked backward, from small gradients."""
    play(_film())


def _film() -> str:
    flow = Flow()
    described = (
        "The backward walk over the tiles of a 4 by 4 square of weights: in each tile P is made again from the "
        "logsumexp, dP and dS follow, and the tile adds to two rows of dQ, dK and dV each."
    )
    return film(flow.board, flow.frame, range(len(flow.frames)), described)


class Flow:
    """The first tile in three frames, the others in one each, and what all tiles have added so far."""

    def __init__(self) -> None:
        head = HEADS[0]
        self.q, self.k, self.v = X @ head.w_q, X @ head.w_k, X @ head.w_v  # (n, d) each
        self.scale = 1 / math.sqrt(self.q.shape[1])
        scores = self.q @ self.k.T * self.scale
        self.lse = scores.logsumexp(-1, keepdim=True)
        self.p = torch.exp(scores - self.lse)  # (n, n): drawn tile by tile
        self.delta = (GRAD_OUT * (self.p @ self.v)).sum(-1, keepdim=True)  # D
        self.dp = GRAD_OUT @ self.v.T
        self.ds = self.p * (self.dp - self.delta)
        tiles = [(i, j) for i in range(0, len(X), BLOCK) for j in range(0, len(X), BLOCK)]
        self.frames = [(0, phase) for phase in PHASES] + [(tile, "add") for tile in range(1, len(tiles))]
        self.tiles = [(slice(i, i + BLOCK), slice(j, j + BLOCK)) for i, j in tiles]
        self.board = Board(25.5, 13.4)

    def gradients(self, tiles: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """dQ, dK, dV after so many tiles."""
        dq, dk, dv = torch.zeros_like(self.q), torch.zeros_like(self.k), torch.zeros_like(self.v)
        for rows, columns in self.tiles[:tiles]:
            dv[columns] += self.p[rows, columns].T @ GRAD_OUT[rows]
            dk[columns] += self.ds[rows, columns].T @ self.q[rows] * self.scale
            dq[rows] += self.ds[rows, columns] @ self.k[columns] * self.scale
        return dq, dk, dv

    def frame(self, step: int) -> str:
        """Draw a frame, and say what happens in it."""
        self.board.wipe()
        tile, phase = self.frames[step]
        rows, columns = now = self.tiles[tile]
        self._given(rows, columns)
        self._square(1.9, "P = e^(S − L)", self.p, now, marked=phase == "P")
        self._square(8.2, "dS = P ∘ (dP − D)", self.ds, now if phase != "P" else None, marked=phase == "dS")
        added = self.gradients(tile + (phase == "add"))
        sums = (
            (20.4, 1.9, "dQ", QUERY, rows, added[0]),
            (20.4, 8.2, "dK", KEY, columns, added[1]),
            (23.2, 8.2, "dV", VALUE, columns, added[2]),
        )
        for left, top, name, colour, own, values in sums:
            self.board.table(
                Table(left, top, values, name, colour), torch.full(values.shape, True), [own] if phase == "add" else []
            )
        return self._said(tile, phase)

    def _given(self, rows: slice, columns: slice) -> None:
        """What the walk begins with: from the forward pass Q, K, V, L; and dO, with D made of it."""
        lists = (
            (2.1, 1.9, "Q", QUERY, self.q, rows),
            (4.6, 1.9, "dO", OUTPUT, GRAD_OUT, rows),
            (7.1, 1.9, "L", OUTPUT, self.lse, rows),
            (8.4, 1.9, "D", OUTPUT, self.delta, rows),
            (2.1, 8.2, "K", KEY, self.k, columns),
            (4.6, 8.2, "V", VALUE, self.v, columns),
        )
        for left, top, name, colour, values, own in lists:
            names = WORDS if left < 3 else ()
            self.board.table(Table(left, top, values, name, colour, rows=names), torch.full(values.shape, True), [own])

    def _square(self, top: float, name: str, values: torch.Tensor, now: tuple | None, *, marked: bool) -> None:
        known = torch.zeros(values.shape, dtype=torch.bool)
        if now:
            known[now] = True
        table = Table(13.6, top, values, name, WEIGHT, WORDS, WORDS, shade=name.startswith("P"))
        self.board.table(table, known, [now] if now and marked else [])

    def _said(self, tile: int, phase: str) -> str:
        rows, columns = self.tiles[tile]
        asked = " and ".join(f"“{word}”" for word in WORDS[rows])
        seen = " and ".join(f"“{word}”" for word in WORDS[columns])
        if phase == "P":
            return (
                f"The tile of {asked} with {seen}: P is made again from Q, K and the saved L. No maximum, no "
                "running sum."
            )
        if phase == "dS":
            i, j = rows.start, columns.start
            return (
                f"dP = dO Vᵀ, and D says what a value is compared with. For “{WORDS[i]}” and “{WORDS[j]}”: "
                f"{self.p[i, j]:.2f} · ({self.dp[i, j]:.2f} − {self.delta[i, 0]:.2f}) = {self.ds[i, j]:.2f}."
            )
        if tile == 0:
            return (
                "The tile adds to three gradients: dS K / √d to the rows of dQ, dSᵀ Q / √d to those of dK, Pᵀ dO "
                "to those of dV. Then P and dS are forgotten."
            )
        done = " Every tile was visited once: these are the gradients." if tile == len(self.tiles) - 1 else ""
        return f"The tile of {asked} with {seen} adds to the framed rows.{done}"
