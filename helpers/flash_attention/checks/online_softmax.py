"""The check of `online_softmax`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Behaviour, Check
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import online

__all__ = ["online_softmax"]


def score_rows(*shape: int, slope: float = 0.0, level: float = 0.0, hidden: int = 0) -> RandomArg:
    """Rows around `level` that climb by `slope` a step; the first `hidden` entries of each are −∞."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        x = torch.randn(shape, generator=generator) + level + slope * torch.arange(shape[-1])
        x[..., :hidden] = -math.inf
        return x

    return RandomArg(draw)


def _rows_far_apart(generator: torch.Generator) -> torch.Tensor:
    """Rows near −30,000, −300, 0, 300 and 30,000. In float64: whoever carries a logsumexp is right, and loses digits in float32."""
    levels = torch.tensor([-30_000.0, -300.0, 0.0, 300.0, 30_000.0], dtype=torch.float64)
    return torch.randn(5, 9, generator=generator, dtype=torch.float64) + levels[:, None]


def _a_dead_row(generator: torch.Generator) -> torch.Tensor:
    """Three rows of 9, the middle one with nothing but −∞."""
    x = torch.randn(3, 9, generator=generator)
    x[1] = -math.inf
    return x


def long_row(n: int, block: int, rows: int = 2) -> Case:
    """A long row: twice a block (and the running values beside it) are enough, so the row is never worked on as a whole. The last block is
    short: whoever fills it up copies the row."""
    return explicit_case(
        f"n = {n}, block = {block}: no tensor of n elements, one pass",
        score_rows(rows, n, slope=0.02),
        block,
        max_flops=0,
        max_elements=2 * rows * (block + 1),
    )


MAXIMA = ("max", "amax", "maximum", "fmax", "aminmax", "sort", "topk")


def _too_few_maxima(seen: Observation) -> bool:
    """Whether maxima were taken, but fewer than there are blocks: a whole row at once, before the pass over the blocks."""
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


def _step(m_i, l_i, part) -> tuple[Tensor, Tensor]:
    """The right step from (m_i, l_i) over one block; scores of −∞ in it are no trouble."""
    m_new = torch.maximum(m_i, part.amax(-1))
    shift = m_new.masked_fill(m_new == -math.inf, 0.0)
    return m_new, torch.exp(m_i - shift) * l_i + torch.exp(part - shift[..., None]).sum(-1)


def _start(x, maximum=-math.inf) -> tuple[Tensor, Tensor]:
    return torch.full_like(x[..., 0], maximum), torch.zeros_like(x[..., 0])


def _rescaled(x, block, factor) -> tuple[Tensor, Tensor]:
    """The running pass with another factor on the old sum: factor(old maximum, new maximum, maximum of the block)."""
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new, added = _step(m_i, torch.zeros_like(l_i), part)
        l_i = torch.where(l_i > 0, factor(m_i, m_new, part.amax(-1)) * l_i, l_i) + added
        m_i = m_new
    return m_i, l_i


def factor_upside_down(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new, added = _step(m_i, torch.zeros_like(l_i), part)
        m_i, l_i = m_new, torch.exp(m_new - m_i) * l_i + added
    return m_i, l_i


def blocks_against_their_own_maximum(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new, own = torch.maximum(m_i, part.amax(-1)), _step(*_start(x), part)[1]
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)
        m_i, l_i = m_new, torch.exp(m_i - shift) * l_i + own
    return m_i, l_i


def new_sum_rescaled_too(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new, added = _step(m_i, torch.zeros_like(l_i), part)
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)
        m_i, l_i = m_new, torch.exp(m_i - shift) * (l_i + added)
    return m_i, l_i


def maximum_from_zero(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x, 0.0)
    for part in x.split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i, l_i


def last_block_alone(x, block) -> tuple[Tensor, Tensor]:
    return _step(*_start(x), x.split(block, -1)[-1])


def maximum_of_the_last_block(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        last = part.amax(-1)
        shift = last.masked_fill(last == -math.inf, 0.0)
        l_i = torch.where(l_i > 0, torch.exp(m_i - shift) * l_i, l_i) + torch.exp(part - shift[..., None]).sum(-1)
        m_i = last
    return m_i, l_i


def short_block_lost(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for j in range(x.shape[-1] // block):
        m_i, l_i = _step(m_i, l_i, x[..., j * block : (j + 1) * block])
    return m_i, l_i


def short_block_filled_with_zeros(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in F.pad(x, (0, -x.shape[-1] % block)).split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i, l_i


def one_maximum_for_all_rows(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax().expand_as(m_i))
        l_i = torch.exp(m_i - m_new) * l_i + torch.exp(part - m_new[..., None]).sum(-1)
        m_i = m_new
    return m_i, l_i


def rows_against_the_largest(x, block) -> tuple[Tensor, Tensor]:
    """Every row's own maximum, and a sum that was taken against the largest of all rows."""
    m_i, l_i = _start(x)
    top = m_i.amax()
    for part in x.split(block, -1):
        new = torch.maximum(top, part.amax())
        safe = new.masked_fill(new == -math.inf, 0.0)
        l_i = torch.exp(top - safe) * l_i + torch.exp(part - safe).sum(-1)
        m_i, top = torch.maximum(m_i, part.amax(-1)), new
    own = m_i.masked_fill(m_i == -math.inf, 0.0)
    return m_i, (l_i * torch.exp(safe - own)).masked_fill(m_i == -math.inf, 0.0)


def nothing_subtracted(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_i, l_i = torch.maximum(m_i, part.amax(-1)), l_i + torch.exp(part).sum(-1)
    return m_i, l_i


def logarithm_of_the_sum(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i, m_i + torch.log(l_i)


def infinity_minus_infinity(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax(-1))
        l_i = torch.exp(m_i - m_new) * l_i + torch.exp(part - m_new[..., None]).sum(-1)
        m_i = m_new
    return m_i, l_i


def stand_in_carried_on(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax(-1))
        m_new = m_new.masked_fill(m_new == -math.inf, 0.0)
        l_i = torch.exp(m_i - m_new) * l_i + torch.exp(part - m_new[..., None]).sum(-1)
        m_i = m_new
    return m_i.masked_fill(l_i == 0, -math.inf), l_i


def stand_in_returned(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = stand_in_carried_on(x, block)
    return m_i.masked_fill(l_i == 0, 0.0), l_i


def skipped_as_a_whole(x, block) -> tuple[Tensor, Tensor]:
    """Blocks are left out only where no row has seen anything yet."""
    empty = (x == -math.inf).flatten(0, -2).all(0) if x.dim() > 1 else x == -math.inf
    first = 0
    while first < x.shape[-1] and empty[first : first + block].all():
        first += block
    return infinity_minus_infinity(x[..., first:], block) if first < x.shape[-1] else _start(x)


def in_float32(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x.float())
    for part in x.float().split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i, l_i


def low_scores_taken_for_masked(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax(-1))
        shift = m_new.masked_fill(m_new < -1e4, 0.0)
        m_i, l_i = m_new, torch.exp(m_i - shift) * l_i + torch.exp(part - shift[..., None]).sum(-1)
    return m_i, l_i


def low_rows_given_out_as_masked(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x, -1e4)
    for part in x.split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i.masked_fill(l_i == 0, -math.inf), l_i


def _dead_rows_finite(seen: Observation) -> bool:
    """A mark: in rows of nothing but −∞ the maximum is a negative number."""
    largest = seen.output[0][(seen.args[0] == -math.inf).all(-1)]
    return bool(len(largest) and largest.isfinite().all() and (largest < 0).all())


def from_the_lowest_number(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x, torch.finfo(x.dtype).min)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax(-1))
        l_i = torch.exp(m_i - m_new) * l_i + torch.exp(part - m_new[..., None]).sum(-1)
        m_i = m_new
    return m_i, l_i


def differences_repaired(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in x.split(block, -1):
        m_new = torch.maximum(m_i, part.amax(-1))
        l_i = torch.exp((m_i - m_new).nan_to_num()) * l_i + torch.exp((part - m_new[..., None]).nan_to_num()).sum(-1)
        m_i = m_new
    return m_i, l_i


def repaired_at_the_end(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = infinity_minus_infinity(x, block)
    return m_i, l_i.nan_to_num(nan=0.0)


def repaired_in_dead_rows(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = infinity_minus_infinity(x, block)
    return m_i, l_i.masked_fill(m_i == -math.inf, 0.0)


def row_filled_up(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = _start(x)
    for part in F.pad(x, (0, -x.shape[-1] % block), value=-math.inf).split(block, -1):
        m_i, l_i = _step(m_i, l_i, part)
    return m_i, l_i


def whole_row_at_once(x, block) -> tuple[Tensor, Tensor]:
    return _step(*_start(x), x)


def maximum_first(x, block) -> tuple[Tensor, Tensor]:
    m_i, l_i = x.amax(-1), torch.zeros_like(x[..., 0])
    shift = m_i.masked_fill(m_i == -math.inf, 0.0)
    for part in x.split(block, -1):
        l_i = l_i + torch.exp(part - shift[..., None]).sum(-1)
    return m_i, l_i


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
        no_rescale=lambda x, block: _rescaled(x, block, lambda old, new, own: 1.0),
        rescaled_by_wrong_factor=factor_upside_down,
        rescaled_by_wrong_factor_from_second=lambda x, block: _rescaled(
            x, block, lambda old, new, own: torch.exp(new - old)
        ),
        rescaled_blocks_maximum=lambda x, block: _rescaled(x, block, lambda old, new, own: torch.exp(old - own)),
        every_block_against_own_maximum=blocks_against_their_own_maximum,
        new_terms_rescaled_as_well=new_sum_rescaled_too,
        initial_maximum_0=maximum_from_zero,
        maximum_last_block=maximum_of_the_last_block,
        only_last_block_counted=last_block_alone,
        last_short_block_lost=short_block_lost,
        last_block_filled_up_with_zeros=short_block_filled_with_zeros,
        one_maximum_all_rows=one_maximum_for_all_rows,
        largest_maximum_subtracted_all_rows=rows_against_the_largest,
        no_maximum_subtracted=nothing_subtracted,
        logsumexp_place_sum=logarithm_of_the_sum,
        sum_maximum_swapped=lambda x, block: (_step(*_start(x), x)[1], _step(*_start(x), x)[0]),
        minus_minus_minus=infinity_minus_infinity,
        with_0_that_stands_minus_carried_on=stand_in_carried_on,
        with_0_that_stands_minus_carried_on_returned=stand_in_returned,
        masked_blocks_skipped_only_where_all=skipped_as_a_whole,
        very_low_scores_taken_masked_ones=low_scores_taken_for_masked,
        row_very_low_scores_given_out_as_one=low_rows_given_out_as_masked,
        everything_float32=in_float32,
        lowest_number_place_minus=Wrong(from_the_lowest_number, recognise=_dead_rows_finite),
        scores_minus_counted_as_e_0_row_nothing=differences_repaired,
        nan_repaired_at_end=repaired_at_the_end,
        nan_repaired_at_end_rows_nothing_but=repaired_in_dead_rows,
        row_filled_up_whole_blocks=Wrong(row_filled_up, cost=_filled_up),
        whole_row_at_once=Wrong(whole_row_at_once, cost=_whole_row_made),
        maximum_row_first=Wrong(maximum_first, cost=_too_few_maxima),
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
