"""Queries, keys and weights made to order: what attention can be made to do, and what its weights leave open."""

import torch
from jaxtyping import Float
from torch import Tensor


def select_one_value(n: int, d: int) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Queries, keys and values such that query i gets value i alone. Needs n ≤ d."""
    keys = torch.eye(n, d)
    values = torch.arange(n * d, dtype=torch.float32).view(n, d)
    return 100 * keys, keys, values


def query_between(k1: Float[Tensor, "d"], k2: Float[Tensor, "d"]) -> Float[Tensor, "d"]:
    """A unit query with q·k1 = q·k2: any direction orthogonal to k1 − k2 will do. Needs d ≥ 2."""
    gap = k1 - k2
    start = torch.zeros_like(gap)
    start[gap.abs().argmin()] = 1  # the axis that is furthest from parallel to the gap
    query = start - (start @ gap) / (gap @ gap).clamp_min(1e-12) * gap
    return query / query.norm()


def query_for_pair(keys: Float[Tensor, "n d"], a: int, b: int) -> Float[Tensor, "d"]:
    """A query that gives half its attention to key a and half to key b, of n orthonormal keys."""
    return 100 * (keys[a] + keys[b])


def same_output_other_weights(weights: Float[Tensor, "n"], values: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    """Other attention weights with the same output: a step along some z with z V = 0 and Σ z = 0. Needs n ≥ d + 2."""
    constraints = torch.cat([values, torch.ones(len(values), 1)], dim=1).double()  # (n, d + 1)
    direction = torch.linalg.svd(constraints.mT).Vh[-1].to(weights.dtype)  # (n,), in the null space
    longest = (weights / -direction)[direction < 0].min()  # the step at which the first weight falls to 0
    return weights + longest / 2 * direction
