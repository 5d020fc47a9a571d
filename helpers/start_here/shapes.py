"""Warm-up: matrix products and einsum, read by their shapes."""

from jaxtyping import Float
from torch import Tensor


def pairwise_dot(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Entry (i, j) is the dot product of row i of a with row j of b."""
    return a @ b.mT


def weighted_rows(
    weights: Float[Tensor, "*batch m n"], rows: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch m d"]:
    """Row j is the average of the rows with weights[j]: Σ_i w_ji rows_i / Σ_i w_ji. All weights are positive."""
    return weights @ rows / weights.sum(dim=-1, keepdim=True)


def read_shape() -> tuple[tuple[int, ...], ...]:
    """The shapes of the five einsum expressions of the first notebook's quiz."""
    return (2, 3, 5), (2, 6, 3, 8), (2, 3, 6, 7), (4,), (5, 3)


def row_means(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """The mean of every row: the worked example of the first notebook."""
    return x.mean(dim=-1)
