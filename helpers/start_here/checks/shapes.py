"""Checks of the warm-up: matrix products and shapes."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case
from helpers.engine.check import Check, Misconception

from .. import shapes

__all__ = ["pairwise_dot", "read_shape", "row_means", "weighted_rows"]

# The worked example of the first notebook: not an exercise, but a check like any other, for the student to see red on.
row_means = Check(
    reference=shapes.row_means,
    cases=[random_case(n=3, d=4), random_case(n=2, d=6), random_case(batch=(2,), n=3, d=4, label="a batch: 2 × 3 × 4")],
    misconceptions=[
        Misconception(
            "columns instead of rows", lambda x: x.mean(dim=0),
            "`dim` names the axis that disappears. A row runs along the last axis: that is the one to average over.",
        ),
        Misconception(
            "axis 1 instead of the last", lambda x: x.mean(dim=1),
            "In a matrix the last axis is axis 1. In a batch of matrices it is axis 2. `dim=-1` is right for both.",
        ),
        Misconception("sums instead of means", lambda x: x.sum(dim=-1), "A mean is the sum divided by how many there are."),
        Misconception("one mean for everything", lambda x: x.mean(), "Without `dim` the mean is taken over all numbers."),
    ],
)  # fmt: skip

pairwise_dot = Check(
    reference=shapes.pairwise_dot,
    cases=[random_case(n=3, m=5, d=4), random_case(n=4, m=4, d=4, label="everything square"), random_case(n=1, m=6, d=2, dtype=torch.float64)],
    misconceptions=[
        Misconception(
            "the transposed result", lambda a, b: b @ a.mT,
            "Entry (i, j) belongs to row i of a and row j of b, so the shape is (n, m). Yours is (m, n).",
        ),
        Misconception(
            "an elementwise product", lambda a, b: a * b,
            "`*` multiplies number by number, and needs equal shapes. A dot product multiplies and adds up, for every pair of rows.",
            raises="RuntimeError",
        ),
        Misconception(
            "only rows with the same number", lambda a, b: (a * b).sum(dim=-1),
            "This pairs row 0 with row 0, row 1 with row 1. All pairs are wanted: n times m of them.",
            raises="RuntimeError",
        ),
        Misconception(
            "no transpose", lambda a, b: a @ b,
            "A matrix product pairs the rows of a with the columns of b. Turn the rows of b into columns first.",
            raises="RuntimeError",
        ),
        Misconception(
            "b reshaped instead of transposed", lambda a, b: a @ b.reshape(b.shape[1], b.shape[0]),
            "`reshape` keeps the numbers in their order and only moves the line breaks. A transpose swaps rows and columns.",
        ),
        Misconception(
            "columns with columns", lambda a, b: a.mT @ b,
            "This compares columns. The vectors are rows here: a row of a with a row of b.",
            raises="RuntimeError",
        ),
        Misconception(
            "cosines instead of dot products", lambda a, b: a @ b.mT / (a.norm(dim=-1)[:, None] * b.norm(dim=-1)),
            "Nothing is to be normalised: long rows have large dot products.",
        ),
    ],
)  # fmt: skip


def _positive(*shape: int) -> RandomArg:
    return RandomArg(lambda generator: 0.1 + 2 * torch.rand(shape, generator=generator))


def rows_case(label: str, weights: tuple[int, ...], rows: tuple[int, ...]) -> Case:
    return explicit_case(
        label, _positive(*weights), RandomArg(lambda generator: torch.randn(rows, generator=generator))
    )


def weights_of_all_axes_transposed(weights: Tensor, rows: Tensor) -> Tensor:
    turned = weights.permute(*reversed(range(weights.dim())))
    return turned @ rows / turned.sum(dim=-1, keepdim=True)


weighted_rows = Check(
    reference=shapes.weighted_rows,
    cases=[
        rows_case("m = 2, n = 5, d = 3", (2, 5), (5, 3)), rows_case("m = n = d = 4", (4, 4), (4, 4)),
        as_float64(rows_case("a batch of 2: m = 3, n = 4, d = 6", (2, 3, 4), (2, 4, 6))),
        rows_case("two batch axes, m = n = d = 3", (2, 3, 3, 3), (2, 3, 3, 3)),
    ],
    misconceptions=[
        Misconception(
            "a sum instead of an average", lambda weights, rows: weights @ rows,
            "These weights don't sum to 1. An average divides by the sum of its weights.",
        ),
        Misconception(
            "divided by the sums down the columns", lambda weights, rows: (weights / weights.sum(dim=-2, keepdim=True)) @ rows,
            "Average j uses row j of the weights, so the weights of a row must sum to 1. Which axis do you sum over, then?",
        ),
        Misconception(
            "divided by how many there are", lambda weights, rows: weights @ rows / rows.shape[-2],
            "Dividing by n is right for equal weights of 1. In general the divisor is the sum of the weights.",
        ),
        Misconception(
            "divided by the sum of all weights", lambda weights, rows: weights @ rows / weights.sum(),
            "Every average has a divisor of its own: the sum of its weights. Sum along one axis, with `keepdim=True`.",
        ),
        Misconception(
            "a softmax of the weights", lambda weights, rows: torch.softmax(weights, dim=-1) @ rows,
            "The weights are positive already. Shares in proportion to them: divide by their sum, without exponentials.",
        ),
        Misconception(
            "a plain mean", lambda weights, rows: rows.mean(dim=-2, keepdim=True).expand(*weights.shape[:-1], -1),
            "The plain mean ignores the weights.",
        ),
        Misconception(
            "the weights transposed", lambda weights, rows: weights.mT @ rows / weights.mT.sum(dim=-1, keepdim=True),
            "Row j of the weights belongs to average j already: (m, n) times (n, d).",
            raises="RuntimeError",
        ),
        Misconception(
            "all axes of the weights reversed", weights_of_all_axes_transposed,
            "`.T` turns all axes round, the batch axes too. Here no transpose is needed at all.",
            raises="RuntimeError",
        ),
    ],
)  # fmt: skip

EXPRESSIONS = ("bnd,de->bne", "bhnk,bhmk->bhnm", "bhnk->bnhk", "bnd->d", "nd,md->mn")


def _one_shape(answer, number: int):
    """The answer's shape number 1 to 5."""
    answered = answer()
    if not isinstance(answered, (tuple, list)) or len(answered) != len(EXPRESSIONS):
        raise ValueError(f"return {len(EXPRESSIONS)} shapes, in the order of the table.")
    return answered[number - 1]


read_shape = Check(
    reference=shapes.read_shape,
    quiz=True,
    drive=_one_shape,
    cases=[explicit_case(f"{number}: {expression}", number) for number, expression in enumerate(EXPRESSIONS, start=1)],
    within=(0.0, 0.0),
    misconceptions=[
        Misconception(
            "letters that are summed over kept", lambda: ((2, 3, 4, 5), (2, 6, 3, 8, 7), (2, 3, 6, 7), (2, 3, 4), (5, 3, 4)),
            "A letter that does not stand after the arrow is summed over, and its axis is gone.",
        ),
        Misconception(
            "the order of the inputs", lambda: ((2, 3, 5), (2, 6, 3, 8), (2, 6, 3, 7), (4,), (3, 5)),
            "The letters after the arrow give the axes of the result in their order, whatever the order before the arrow was.",
        ),
        Misconception(
            "axes of size 1 for sums", lambda: ((2, 3, 1, 5), (2, 6, 3, 8, 1), (2, 3, 6, 7), (1, 1, 4), (5, 3, 1)),
            "einsum drops the axis of a letter that it sums over. Only `keepdim=True`, elsewhere, keeps it with size 1.",
        ),
        Misconception(
            "the batch axis left out", lambda: ((3, 5), (6, 3, 8), (3, 6, 7), (4,), (5, 3)),
            "b is a letter like any other: where it stands after the arrow, the result has that axis.",
        ),
        Misconception(
            "a number where a shape has one axis", lambda: ((2, 3, 5), (2, 6, 3, 8), (2, 3, 6, 7), 4, (5, 3)),
            "In Python `(4)` is the number 4. A tuple with one entry is written `(4,)`.",
        ),
    ],
)  # fmt: skip
