"""The largest score and the sum of a softmax, in one pass over blocks of the row."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Behaviour, Check
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import online
from ..online import finite

__all__ = ["online_softmax"]


def score_rows(*shape: int, slope: float = 0.0, level: float = 0.0, hidden: int = 0) -> RandomArg:
    """Rows around `level` that climb by `slope` a step; the first `hidden` entries of each are −∞."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        x = torch.randn(shape, generator=generator) + level + slope * torch.arange(shape[-1])
        x[..., :hidden] = -math.inf
        return x

    return RandomArg(draw)


def _rows_far_apart(generator: torch.Generator) -> torch.Tensor:
    """Rows near −30,000, −300, 0, 300 and 30,000. In float64: a logsumexp that is carried on is right, and rounded."""
    levels = torch.tensor([-30_000.0, -300.0, 0.0, 300.0, 30_000.0], dtype=torch.float64)
    return torch.randn(5, 9, generator=generator, dtype=torch.float64) + levels[:, None]


def _a_dead_row(generator: torch.Generator) -> torch.Tensor:
    """Three rows of 9, the middle one with nothing but −∞."""
    x = torch.randn(3, 9, generator=generator)
    x[1] = -math.inf
    return x


def long_row(n: int, block: int, rows: int = 2) -> Case:
    """A long row: twice a block (and the running values beside it) are enough, so it is never worked on as a whole. The
    last block is short: whoever fills it up copies the row."""
    return explicit_case(
        f"n = {n}, block = {block}: no tensor of n elements, one pass",
        score_rows(rows, n, slope=0.02),
        block,
        max_flops=0,
        max_elements=2 * rows * (block + 1),
    )


MAXIMA = ("max", "amax", "maximum", "fmax", "aminmax", "sort", "topk")


def _too_few_maxima(seen: Observation) -> bool:
    """Whether maxima were taken, but fewer than there are blocks: a whole row at once, before the pass."""
    x, block = seen.args
    return 0 < sum(seen.operations[name] for name in MAXIMA) < math.ceil(x.shape[-1] / block)


def _whole_row_made(seen: Observation) -> bool:
    """Whether a tensor as large as the input was made, where a block is far smaller."""
    x, block = seen.args
    return seen.largest >= x.numel() and 4 * block < x.shape[-1]


def _filled_up(seen: Observation) -> bool:
    """Whether a tensor of as many numbers was made as the rows have when their last block is filled up."""
    x, block = seen.args
    return (
        _whole_row_made(seen)
        and seen.largest == x.numel() // x.shape[-1] * -(-x.shape[-1] // block) * block > x.numel()
    )


def _one_pass(seen: Observation) -> bool:
    """Whether the maximum was a running one. In short rows of few blocks that is left open."""
    x, block = seen.args
    return 4 * block >= x.shape[-1] or not _too_few_maxima(seen)


@dataclass(frozen=True)
class Online:
    """The steps of a softmax in one pass."""

    parts: Callable = lambda x, block: x.split(block, -1)
    start: Callable = lambda x: torch.full_like(x[..., 0], -math.inf)  # of the running maximum
    largest: Callable = lambda old, part: torch.maximum(old, part.amax(-1))
    shift: Callable = finite  # what is subtracted, from the new maximum
    factor: Callable = lambda old, shift, part: torch.exp(old - shift)
    terms: Callable = lambda part, shift: torch.exp(part - shift[..., None]).sum(-1)
    add: Callable = lambda l_i, factor, terms: factor * l_i + terms
    result: Callable = lambda m_i, l_i: (m_i, l_i)


@composable
def online_pass(**changed) -> Callable:
    """The softmax in one pass with these steps changed."""
    steps = Online(**changed)

    def answer(x, block) -> tuple[Tensor, Tensor]:
        m_i, l_i = steps.start(x), torch.zeros_like(x[..., 0])
        for part in steps.parts(x, block):
            m_new = steps.largest(m_i, part)
            shift = steps.shift(m_new)
            l_i = steps.add(l_i, steps.factor(m_i, shift, part), steps.terms(part, shift))
            m_i = m_new
        return steps.result(m_i, l_i)

    return answer


def not_finite(m_new) -> Tensor:
    return m_new


def upside_down_later(old, shift, part) -> Tensor:
    return torch.exp(shift - old).masked_fill(old == -math.inf, 0.0)


def by_own_maximum(old, shift, part) -> Tensor:
    return torch.exp(old - part.amax(-1)).masked_fill(old == -math.inf, 0.0)


def unseen_hidden(m_i, l_i) -> tuple[Tensor, Tensor]:
    return m_i.masked_fill(l_i == 0, -math.inf), l_i


def stand_in(old, part) -> Tensor:
    """0 for a maximum of −∞, and carried on."""
    return finite(torch.maximum(old, part.amax(-1)))


def rows_against_the_largest(x, block) -> tuple[Tensor, Tensor]:
    """Every row's own maximum, and a sum that was taken against the largest of all rows."""
    top, l_i = online_pass(largest=lambda old, part: torch.maximum(old, part.amax()))(x, block)
    m_i = x.amax(-1)
    return m_i, (l_i * torch.exp(finite(top) - finite(m_i))).masked_fill(m_i == -math.inf, 0.0)


def all_skipped(x, block) -> Sequence[Tensor]:
    """Blocks are left out only where no row has seen anything yet."""
    skipped = takewhile(torch.all, (x == -math.inf).split(block, -1))
    return x.split(block, -1)[len(list(skipped)) :]


def at_once(x, block) -> Sequence[Tensor]:
    return (x,)


def filled_up_with(number: float) -> Callable:
    return lambda x, block: F.pad(x, (0, -x.shape[-1] % block), value=number).split(block, -1)


def _dead_rows_finite(seen: Observation) -> bool:
    """A mark: in rows of nothing but −∞ the maximum is a negative number."""
    largest = seen.output[0][(seen.args[0] == -math.inf).all(-1)]
    return bool(len(largest) and largest.isfinite().all() and (largest < 0).all())


online_softmax = Check(
    reference=online.online_softmax,
    names=("largest score m", "sum ℓ"),
    cases=[
        explicit_case("n = 12, block = 4, scores that climb", score_rows(12, slope=0.7), 4),
        explicit_case("n = 11, block = 4, three rows, a short last block", score_rows(3, 11, slope=0.5), 4),
        explicit_case("n = 10, block = 3, 2×3 rows that fall", score_rows(2, 3, 10, slope=-0.6), 3),
        explicit_case("n = 10, block = 5, all scores below 0", score_rows(4, 10, level=-9.0), 5),
        explicit_case("n = 5, block = 8: one short block", score_rows(2, 5), 8),
        explicit_case("n = 9, block = 2, scores near 500", score_rows(2, 9, slope=9.0, level=500.0), 2),
        explicit_case("n = 9, block = 3, the first block all −∞", score_rows(2, 9, hidden=3), 3),
        explicit_case("n = 9, block = 3, a row of nothing but −∞", RandomArg(_a_dead_row), 3),
        explicit_case("n = 9, block = 4, rows from −30,000 to 30,000, float64", RandomArg(_rows_far_apart), 4),
        explicit_case(
            "n = 8, block = 2, two blocks of −∞, then scores near −200", score_rows(3, 8, level=-200.0, hidden=4), 2
        ),
        long_row(605, 20),
    ],
    misconceptions=wrong_answers(
        __file__,
        no_rescale=online_pass(factor=lambda old, shift, part: 1.0),
        upside_down=online_pass(factor=lambda old, shift, part: torch.exp(shift - old)),
        upside_down_later=online_pass(factor=upside_down_later),
        by_own_maximum=online_pass(factor=by_own_maximum),
        blocks_apart=online_pass(terms=lambda part, shift: torch.exp(part - finite(part.amax(-1))[..., None]).sum(-1)),
        new_terms_rescaled=online_pass(add=lambda l_i, factor, terms: factor * (l_i + terms)),
        maximum_from_0=online_pass(start=lambda x: torch.zeros_like(x[..., 0])),
        maximum_of_last=online_pass(largest=lambda old, part: part.amax(-1)),
        last_block_only=online_pass(parts=lambda x, block: x.split(block, -1)[-1:]),
        first_block_only=online_pass(parts=lambda x, block: x.split(block, -1)[:1]),
        short_block_lost=online_pass(parts=lambda x, block: x.split(block, -1)[: x.shape[-1] // block]),
        filled_with_zeros=online_pass(parts=filled_up_with(0.0)),
        one_maximum=online_pass(largest=lambda old, part: torch.maximum(old, part.amax()), shift=not_finite),
        against_the_largest=rows_against_the_largest,
        no_maximum=online_pass(shift=torch.zeros_like, factor=lambda old, shift, part: 1.0),
        logsumexp=online_pass(result=lambda m_i, l_i: (m_i, m_i + torch.log(l_i))),
        swapped=online_pass(parts=at_once, result=lambda m_i, l_i: (l_i, m_i)),
        minus_infinity_twice=online_pass(shift=not_finite),
        stand_in_carried_on=online_pass(largest=stand_in, result=unseen_hidden),
        stand_in_returned=online_pass(largest=stand_in),
        all_skipped=online_pass(parts=all_skipped, shift=not_finite),
        low_scores_masked=online_pass(shift=lambda m_new: m_new.masked_fill(m_new < -1e4, 0.0)),
        low_rows_masked=online_pass(start=lambda x: torch.full_like(x[..., 0], -1e4), result=unseen_hidden),
        in_float32=lambda x, block: online_pass()(x.float(), block),
        from_lowest_number=Wrong(
            online_pass(start=lambda x: torch.full_like(x[..., 0], torch.finfo(x.dtype).min), shift=not_finite),
            recognise=_dead_rows_finite,
        ),
        differences_repaired=online_pass(
            shift=not_finite,
            factor=lambda old, shift, part: torch.exp((old - shift).nan_to_num()),
            terms=lambda part, shift: torch.exp((part - shift[..., None]).nan_to_num()).sum(-1),
        ),
        repaired_at_end=online_pass(shift=not_finite, result=lambda m_i, l_i: (m_i, l_i.nan_to_num(nan=0.0))),
        repaired_in_dead_rows=online_pass(
            shift=not_finite, result=lambda m_i, l_i: (m_i, l_i.masked_fill(m_i == -math.inf, 0.0))
        ),
        filled_up=Wrong(online_pass(parts=filled_up_with(-math.inf)), cost=_filled_up),
        whole_row=Wrong(online_pass(parts=at_once), cost=_whole_row_made),
        maximum_first=Wrong(
            online_pass(start=lambda x: x.amax(-1), largest=lambda old, part: old), cost=_too_few_maxima
        ),
    ),
    behaviours=[
        Behaviour(
            "one pass over the row",
            _one_pass,
            "The maximum of the whole row was taken before the sum: that reads the row twice.",
        )
    ],
    forbids=["softmax", "logsumexp", "logcumsumexp"],
)
