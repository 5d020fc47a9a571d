"""The check of `heads_as_sum`: what each head adds to the output, and the output."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import Case, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..heads import heads_as_sum as reference
from .heads import AS_PRECISE, cut_off

__all__ = ["heads_as_sum"]


def case(label: str, b: int, h: int, n: int, d_h: int, d: int, dtype=torch.float32, gradient=False) -> Case:
    return explicit_case(label, normal(b, h, n, d_h, dtype=dtype), normal(h * d_h, d, dtype=dtype), gradient=gradient)


def _blocks(w_o, h, d_h) -> Tensor:
    return w_o.unflatten(0, (h, -1))


@composable
def parts(
    blocks: Callable = _blocks,
    output: Callable = lambda parts, heads, w_o: parts.sum(dim=1),
    told: Callable = lambda parts: parts,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The answer with other blocks (h, d_h, d) of W_O, another output, or something else told for the parts."""

    def answer(heads, w_o) -> tuple[Tensor, Tensor]:
        made = heads @ blocks(w_o, heads.shape[1], heads.shape[-1])
        return told(made), output(made, heads, w_o)

    return answer


def rows(count: Callable) -> Callable[..., tuple[Tensor, Tensor]]:
    """The answer with so many rows in each block."""

    def answer(heads, w_o) -> tuple[Tensor, Tensor]:
        size = count(heads.shape[1], w_o.shape[1])
        made = [heads[:, i] @ w_o[i * size : (i + 1) * size] for i in range(heads.shape[1])]
        return torch.stack(made, dim=1), sum(made)

    return answer


def shared_evenly(heads, w_o) -> tuple[Tensor, Tensor]:
    output = heads.transpose(1, 2).flatten(2) @ w_o
    return (output / heads.shape[1]).unsqueeze(1).expand(-1, heads.shape[1], -1, -1), output


def added_in_place(parts, heads, w_o) -> Tensor:
    total = parts[:, 0]
    for i in range(1, heads.shape[1]):
        total += parts[:, i]
    return total


def squeezed(heads, w_o) -> tuple[Tensor, Tensor]:
    pairs = zip(heads.unbind(1), w_o.chunk(heads.shape[1]), strict=True)
    made = torch.stack([(head @ block).squeeze() for head, block in pairs], 1)
    return made, made.sum(dim=1)


totals = parts(told=lambda parts: parts.cumsum(dim=1))


def _totals_for_parts(seen: Observation) -> bool:
    """A mark: running totals where parts belong, or the last of them in every place, as if one tensor had been put
    there h times."""
    running, total = totals(*seen.args)
    return any(agree(seen.output[0], one, tolerance(seen.args)) for one in (running, total[:, None].expand_as(running)))


heads_as_sum = Check(
    reference=reference,
    names=("parts", "output"),
    cases=[
        case("3 heads of width 4, d = 12", 2, 3, 5, 4, 12),
        case("2 heads of width 5, d = 7", 3, 2, 4, 5, 7),
        case("4 heads of width 4, d = 16, n = 4", 2, 4, 4, 4, 16),
        case("one sequence", 1, 3, 4, 2, 5),
        case("gradients, in float64", 2, 3, 4, 2, 5, torch.float64, gradient=True),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(reference),
        in_single_precision(reference),
        squeezed=squeezed,
        columns=Wrong(parts(lambda w_o, h, d_h: w_o.T.unflatten(0, (h, -1))), raises="RuntimeError"),
        transposed=parts(lambda w_o, h, d_h: w_o.T.reshape(h, d_h, -1)),
        every_hth_row=parts(lambda w_o, h, d_h: w_o.unflatten(0, (-1, h)).transpose(0, 1)),
        averaged=parts(output=lambda parts, heads, w_o: parts.mean(dim=1)),
        first_block=parts(lambda w_o, h, d_h: w_o[:d_h]),
        shared_evenly=shared_evenly,
        view=parts(output=lambda parts, heads, w_o: heads.reshape(len(heads), heads.shape[2], -1) @ w_o),
        added_in_place=parts(output=added_in_place),
        totals=Wrong(totals, recognise=_totals_for_parts),
        h_rows=Wrong(rows(lambda h, d: h), raises="RuntimeError"),
        d_over_h_rows=Wrong(rows(lambda h, d: d // h), raises="RuntimeError"),
        over_tokens=parts(output=lambda parts, heads, w_o: parts.sum(dim=2)),
        reversed=parts(lambda w_o, h, d_h: _blocks(w_o, h, d_h).flip(0)),
        sum_first=lambda heads, w_o: reference(heads, w_o)[::-1],
    ),
)
