"""One query's scores with hidden keys, step by step; then the hidden scores grow, and nothing happens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers.board import number
from helpers.film import play
from helpers.qkv_attention.plots.bar_rows import SCORE, SHARE, Row, bars_film
from helpers.style import OUTPUT, QUERY, WEIGHT

__all__ = ["masking_a_row"]

MORE = (1, 2, 3)
"""How much the hidden scores grow once the weights are there."""


def masking_a_row(scores: Sequence[float], allowed: Sequence[bool]) -> None:
    """One query's scores, the same with −∞, their exponentials and their shares: as bars, hidden keys in gray."""
    play(_film(torch.tensor(scores, dtype=torch.float64), torch.tensor(allowed)))


def _film(scores: Tensor, allowed: Tensor) -> str:
    described = (
        f"{len(scores)} scores as bars, {int((~allowed).sum())} of them hidden, step by step: hidden ones become −∞, "
        "their exponentials 0, and the others share 1. Then the hidden scores grow, and the weights stay."
    )
    return bars_film(
        lambda more: _rows(scores + more * ~allowed, allowed),
        MORE,
        lambda shown, more, rows: _said(shown, more, allowed, rows),
        described,
        [f"k{place}" for place in range(1, len(scores) + 1)],
        (~allowed).tolist(),
    )


def _rows(scores: Tensor, allowed: Tensor) -> list[Row]:
    hidden = scores.masked_fill(~allowed, -torch.inf)
    return [
        Row("scores", scores, SCORE, QUERY),
        Row("hidden keys at −∞", hidden, SCORE, QUERY),
        Row("e to score − largest", (hidden - hidden.max()).exp(), SHARE, OUTPUT),
        Row("divided by their sum", hidden.softmax(0), SHARE, WEIGHT),
    ]


def _said(shown: int, more: int, allowed: Tensor, rows: list[Row]) -> str:
    scores, hidden, powers, weights = (row.values for row in rows)
    listed = ", ".join(map(number, weights.tolist()))
    grey = " and ".join(map(number, scores[~allowed].tolist()))
    if more:
        return f"The hidden scores grow to {grey}. Nothing happens to the rest: the weights stay {listed}."
    return (
        f"{len(scores)} scores. The gray ones, {grey}, belong to keys that this query may not use.",
        f"They become −∞. The largest that is left is {number(hidden.max().item())}.",
        f"An exponential of −∞ is 0. The sum of the others is {number(powers.sum().item())}.",
        f"Weights: {listed}. The keys that are left share 1.",
    )[shown - 1]
