"""Right answers of causal_tiles in other styles."""

import math

import torch

from autograder.alternatives.flash_attention.flash_attention_forward import (
    forward_by_halves,
    forward_from_lowest,
    forward_keys_outside,
    forward_merging_tiles,
    forward_with_ones,
)
from helpers.flash_attention import flash


def tiles_by_mask(n, m, block_q, block_k):
    allowed = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return sum(int(tile.any()) for stripe in allowed.split(block_q) for tile in stripe.split(block_k, dim=1))


def tiles_by_corner(n, m, block_q, block_k):
    # A tile is visible if its bottom left corner is.
    count = 0
    for i in range(0, n, block_q):
        for j in range(0, m, block_k):
            count += j <= min(i + block_q, n) - 1 + m - n
    return count


def tiles_by_columns(n, m, block_q, block_k):
    # Down the columns: the first query that sees key j is j − (m − n).
    total = math.ceil(n / block_q)
    return sum(total - min(max(j - m + n, 0) // block_q, total) for j in range(0, m, block_k))


def tiles_by_rows(n, m, block_q, block_k):
    reach = torch.clamp(torch.clamp(torch.arange(block_q, n + block_q, block_q), max=n) + m - n, min=0)
    return int(((reach + block_k - 1) // block_k).sum())


def tiles_by_their_corners(n, m, block_q, block_k):
    lower_left = ((min(i + block_q, n) - 1, j) for i in range(0, n, block_q) for j in range(0, m, block_k))
    return sum((key <= query + (m - n) for query, key in lower_left))


def tiles_column_by_column(n, m, block_q, block_k):
    rows_of_tiles = -(-n // block_q)
    total = 0
    for j in range(0, m, block_k):
        first_query = j - (m - n)
        if first_query >= n:
            break
        total += rows_of_tiles - max(first_query, 0) // block_q
    return total


causal_tiles = {
    "the mask, cut up; break": (tiles_by_mask, forward_from_lowest),
    "bottom left corners; continue": (tiles_by_corner, forward_keys_outside),
    "column by column; merged tiles": (tiles_by_columns, forward_merging_tiles),
    "row by row, as a tensor; keys cut off": (tiles_by_rows, forward_with_ones),
    "corners; halves": (tiles_by_corner, forward_by_halves),
    "corner of every tile in one sum": (tiles_by_their_corners, flash.flash_attention_forward),
    "columns of tiles, floor division of negatives": (tiles_column_by_column, flash.flash_attention_forward),
}
