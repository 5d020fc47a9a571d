"""A prompt in two chunks and two written tokens as a film: which rows of the square of scores each call makes, and what
is masked."""

import torch

from helpers.board import Board, Table
from helpers.film import film, play
from helpers.masking.masks import causal_mask
from helpers.style import KEY, WEIGHT

__all__ = ["chunk_mask_film"]

CALLS = (4, 2, 1, 1)
"""New tokens in each call: a prompt of six in two chunks, then two tokens one by one."""


def chunk_mask_film() -> None:
    """Prefill in chunks, then decoding: n new rows, m + n columns per call, and the mask's corner where it belongs."""
    play(_film())


def _film() -> str:
    board, total = Board(22, 13.2), sum(CALLS)
    allowed = causal_mask(total, total)

    def frame(call: int) -> str:
        board.wipe()
        old, new = sum(CALLS[:call]), CALLS[call] if call < len(CALLS) else 0
        rows, seen = torch.arange(total)[:, None], torch.arange(total)
        made = rows < old + new
        known = made & (seen < torch.tensor([sum(CALLS[: _call(row) + 1]) for row in range(total)])[:, None])
        values = torch.where(allowed, torch.where(rows >= old, 1.0, 0.35), -torch.inf)
        names = [f"token {row}" for row in range(total)]
        board.table(
            Table(
                5.2,
                2.2,
                values,
                "scores: one row per query, one column per key",
                WEIGHT,
                [str(i) for i in range(total)],
                names,
                shade=True,
                written=False,
            ),
            known,
            [(slice(old, old + new), slice(0, old + new))] if new else [],
        )
        stored = (seen < old + new)[None]
        board.table(
            Table(5.2, 11.3, torch.ones(1, total), "", KEY, rows=["keys stored"], shade=True, written=False),
            stored,
            [(0, slice(old, old + new))] if new else [],
        )
        for y, word in (
            (3.5, "purple: may attend"),
            (4.5, "gray: made, and masked"),
            (5.5, "empty: never made"),
            (6.5, "framed, and dark: made in this call"),
        ):
            board.text(14.2, y, word, ha="left")
        return _said(call, old, new, allowed)

    described = (
        "The square of scores of eight tokens, filled by four calls: a chunk of four queries, a chunk of two whose "
        "mask hides one corner, and two single queries with nothing to mask."
    )
    return film(board, frame, range(len(CALLS) + 1), described, milliseconds=3000, still=0)


def _call(token: int) -> int:
    """The call that brings a token."""
    return next(call for call in range(len(CALLS)) if token < sum(CALLS[: call + 1]))


def _said(call: int, old: int, new: int, allowed: torch.Tensor) -> str:
    if not new:
        made = sum(count * sum(CALLS[: i + 1]) for i, count in enumerate(CALLS))
        return (
            f"Four calls, one triangle: {made} scores were made, where one call for all {len(allowed)} tokens "
            f"makes {allowed.numel()}. Each row is the same, whichever call made it."
        )
    masked = int((~allowed[old : old + new, : old + new]).sum())
    name = "Prefill" if old == 0 else "Prefill, the next chunk" if new > 1 else "Decoding"
    corner = (
        f"Token {old} sees {f'keys 0 to {old}' if old else 'only key 0'}, token {old + new - 1} all {old + new}."
        if new > 1
        else "The new token sees every key: nothing to mask."
    )
    return (
        f"{name}: m = {old} old, n = {new} new. {new} × {old + new} scores, {masked} of {new * (old + new)} "
        f"masked. {corner}"
    )
