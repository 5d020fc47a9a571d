"""The memory of attention's score matrices, all kept for the backward pass, and the context that it allows."""

import math

import torch


def score_memory(b: int, n: int, h: int, layers: int, dtype: torch.dtype) -> int:
    """Bytes of one n × n score matrix for every sequence, head and layer."""
    return b * h * layers * n**2 * dtype.itemsize


def longest_context(memory: int, b: int, h: int, layers: int, dtype: torch.dtype) -> int:
    """The largest n whose score matrices fit into so many bytes."""
    return math.isqrt(memory // score_memory(b, 1, h, layers, dtype))
