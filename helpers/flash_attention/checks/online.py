"""Checks of the online softmax and of merging two partial results. Rows grow, fall and hold −∞, so that every rescale shows."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Behaviour, Check, Misconception
from helpers.engine.observe import Observation

from .. import online

__all__ = ["merge_partials", "online_softmax"]

# ------------------------------------------------------------------------------------------- running maximum and sum


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
    return explicit_case(f"n = {n}, block = {block}: no tensor of n elements, one pass", score_rows(rows, n, slope=0.02), block,
                 max_flops=0, max_elements=2 * rows * (block + 1))  # fmt: skip


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
        explicit_case("n = 8, block = 2, two blocks of −∞, then scores near −200", score_rows(3, 8, level=-200.0, hidden=4), 2),
        long_row(605, 20),
    ],
    misconceptions=[
        Misconception(
            "no rescale", lambda x, block: _rescaled(x, block, lambda old, new, own: 1.0),
            "The old sum was taken against the old maximum. When the maximum grows, every term of that sum must shrink by the same factor "
            "before new terms are added. (A factor that is computed after the maximum was overwritten is always 1.)",
        ),
        Misconception(
            "rescaled by the wrong factor", factor_upside_down,
            "Your factor is upside down. A larger maximum makes all old terms e^(x − m) smaller, so the factor is at most 1. In the first block "
            "yours is e^∞, and ∞ · 0 is NaN.",
        ),
        Misconception(
            "rescaled by the wrong factor from the second block on",
            lambda x, block: _rescaled(x, block, lambda old, new, own: torch.exp(new - old)),
            "Your factor is upside down. A larger maximum makes all old terms e^(x − m) smaller, so the factor is at most 1.",
        ),
        Misconception(
            "rescaled to the block's maximum", lambda x, block: _rescaled(x, block, lambda old, new, own: torch.exp(old - own)),
            "Your factor is e^(old maximum − the block's maximum). Use the new running maximum in place of the block's: where the block's is "
            "smaller, your factor is too large.",
        ),
        Misconception(
            "every block against its own maximum", blocks_against_their_own_maximum,
            "Terms can be added only if the same maximum was subtracted in all of them. Subtract the running maximum in the new block too.",
        ),
        Misconception(
            "the new terms rescaled as well", new_sum_rescaled_too,
            "The new block's terms are taken against the new maximum already. The factor is only for the old sum.",
        ),
        Misconception(
            "initial maximum 0", maximum_from_zero,
            "Where all scores are below 0, a maximum that starts at 0 is never replaced. Start below every number.",
        ),
        Misconception(
            "the maximum of the last block", maximum_of_the_last_block,
            "A running maximum never falls. Compare the block's maximum with the one you have, and keep the larger.",
        ),
        Misconception(
            "only the last block counted", last_block_alone,
            "The loop starts again at every block. The maximum and the sum have to be carried from block to block.",
        ),
        Misconception(
            "the last short block lost", short_block_lost,
            "n need not be a multiple of the block. `x.split(block, dim=-1)` ends with a shorter block by itself.",
        ),
        Misconception(
            "the last block filled up with zeros", short_block_filled_with_zeros,
            "A score of 0 is no missing score: e^(0 − m) joins the sum. Fill with −∞, or let the last block be shorter.",
        ),
        Misconception(
            "one maximum for all rows", one_maximum_for_all_rows,
            "Every row has its own maximum and its own sum: reduce only along the last axis.",
        ),
        Misconception(
            "the largest maximum subtracted in all rows", rows_against_the_largest,
            "In a row far below the largest maximum all terms become 0, and no factor brings them back (0 · ∞ is NaN). Subtract each row's own "
            "maximum.",
        ),
        Misconception(
            "no maximum subtracted", nothing_subtracted,
            "The sum wanted is Σ e^(x − max). Without the subtraction e^500 is infinite in float32.",
        ),
        Misconception(
            "the logsumexp in place of the sum", logarithm_of_the_sum,
            "You return m + log ℓ. Asked for is ℓ itself, Σ e^(x − m).",
        ),
        Misconception(
            "sum and maximum swapped", lambda x, block: (_step(*_start(x), x)[1], _step(*_start(x), x)[0]),
            "Return the maximum first, then the sum.",
        ),
        Misconception(
            "−∞ minus −∞", infinity_minus_infinity,
            "As long as a row has only seen −∞, its maximum is −∞, and −∞ − (−∞) is NaN. Subtract 0 there instead: e^(−∞ − 0) is the 0 you want.",
        ),
        Misconception(
            "the 0 that stands for −∞ carried on", stand_in_carried_on,
            "The 0 is only for the subtraction. As a running maximum it hides all scores below 0 that come later: keep −∞ in m_i, and subtract "
            "something else where it is −∞.",
        ),
        Misconception(
            "the 0 that stands for −∞ carried on and returned", stand_in_returned,
            "The 0 is only for the subtraction. As a running maximum it hides all scores below 0 that come later, and a row of nothing but −∞ "
            "ends with maximum 0: keep −∞ in m_i.",
        ),
        Misconception(
            "masked blocks skipped only where all rows are masked", skipped_as_a_whole,
            "A block can be all −∞ in one row and not in the next, and −∞ − (−∞) is NaN in the first. Decide row by row: `torch.where` or `masked_fill`.",
        ),
        Misconception(
            "very low scores taken for masked ones", low_scores_taken_for_masked,
            "A score of −30,000 is a score: e^(x − max) is 1 where it is the largest of its row. Only −∞ means masked: compare with −∞ itself.",
        ),
        Misconception(
            "a row of very low scores given out as one of −∞", low_rows_given_out_as_masked,
            "A score of −30,000 is a score. For a row of such scores you return maximum −∞ and sum 0, as for a row of nothing but −∞. Start the maximum at −∞ "
            "itself (not at −10,000, say), and take nothing else for masked.",
        ),
        Misconception(
            "everything in float32", in_float32,
            "A row in float64 loses half of its digits in float32. The results are as precise as x: in its dtype, or in a wider one.",
        ),
        Misconception(
            "the lowest number in place of −∞", from_the_lowest_number,
            "A row that has seen nothing has the maximum −∞, and not a very negative number.",
            _dead_rows_finite,
        ),
        Misconception(
            "scores of −∞ counted as e^0 in a row of nothing else", differences_repaired,
            "In a row of nothing but −∞ every score counts as e^0 = 1. −∞ − (−∞) must not become 0: where the maximum is still −∞, subtract 0 in its "
            "place, and e^(−∞ − 0) is the 0 you want.",
        ),
        Misconception(
            "NaN repaired at the end", repaired_at_the_end,
            "Once the sum is NaN, all that comes after is lost, and 0 is not what it should have been. Keep NaN out of the loop: subtract 0 where the "
            "maximum is still −∞.",
        ),
        Misconception(
            "NaN repaired at the end, in rows of nothing but −∞", repaired_in_dead_rows,
            "In a row that begins with a block of −∞ the sum is NaN from there on, and stays NaN when scores follow. After the loop it is too late: inside it, "
            "subtract 0 where the maximum is still −∞.",
        ),
        Misconception(
            "the row filled up to whole blocks", row_filled_up,
            "Filling up the last block copies the whole row. Take the last block as it is: `x.split(block, dim=-1)` ends with a shorter one, and a slice beyond "
            "the end is shorter by itself.",
            cost=_filled_up,
        ),
        Misconception(
            "the whole row at once", whole_row_at_once,
            "A tensor as long as the row was made. Work on one block at a time, and keep only the running maximum and the sum.",
            cost=_whole_row_made,
        ),
        Misconception(
            "the maximum of the row first", maximum_first,
            "Take both in one pass: rescale the sum whenever the maximum grows.",
            cost=_too_few_maxima,
        ),
    ],
    behaviours=[
        Behaviour(
            "one pass over the row", _one_pass,
            "The maximum of the whole row was taken before the sum: that reads the row twice.",
        )
    ],
    forbids=["softmax", "logsumexp", "logcumsumexp"],
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- two parts into one


def _lse(*shape: int, level: float = 0.0, dead: str = "") -> RandomArg:
    """Logsumexps around `level`. dead: "first" makes row 0 −∞, "all" every row."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        lse = torch.randn(shape, generator=generator) + level
        lse[..., : {"": 0, "first": 1, "all": shape[-1]}[dead]] = -math.inf
        return lse

    return RandomArg(draw)


def _out(*shape: int, dead: str = "") -> RandomArg:
    """Partial outputs to go with these: rows that saw nothing are 0."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        out = torch.randn(shape, generator=generator)
        out[..., : {"": 0, "first": 1, "all": shape[-2]}[dead], :] = 0.0
        return out

    return RandomArg(draw)


def two_parts(label: str, n: int, d: int, batch: tuple[int, ...] = (), level=(0.0, 0.0), dead=("", "")) -> Case:
    """A case of `merge_partials`: parts a and b with their levels, and what is dead in each."""
    parts = [(_out(*batch, n, d, dead=gone), _lse(*batch, n, level=high, dead=gone)) for high, gone in zip(level, dead)]
    return explicit_case(label, *parts[0], *parts[1])


def rows_far_apart(n: int, d: int) -> Case:
    """The logsumexps of one part rise from −300 to 300, those of the other fall: each is far above the other in some row."""
    levels = torch.linspace(-300, 300, n)
    rising, falling = (
        RandomArg(lambda generator, sign=sign: sign * levels + torch.randn(n, generator=generator)) for sign in (1, -1)
    )
    return explicit_case("rows from −300 to 300, and from 300 to −300", _out(n, d), rising, _out(n, d), falling)


def _merged(out_a, lse_a, out_b, lse_b, share) -> tuple[Tensor, Tensor]:
    """The right logsumexp, and the outputs with other shares: share(lse_a, lse_b) is what a gets of 1."""
    a = share(lse_a, lse_b)[..., None]
    return a * out_a + (1 - a) * out_b, torch.logaddexp(lse_a, lse_b)


def _share(lse_a, lse_b) -> Tensor:
    """What a gets, whatever the logsumexps."""
    return torch.where(lse_a == lse_b, 0.5, torch.sigmoid(lse_a - lse_b))


def weights_without_maximum(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b = torch.exp(lse_a)[..., None], torch.exp(lse_b)[..., None]
    return (a * out_a + b * out_b) / (a + b), torch.log(a + b).squeeze(-1)


def measured_against(first: bool) -> Callable:
    """All relative to one of the two parts, and not to the larger one."""

    def merge(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
        if not first:
            out_a, lse_a, out_b, lse_b = out_b, lse_b, out_a, lse_a
        empty = lse_a == -math.inf
        ratio = torch.exp(lse_b - lse_a.masked_fill(empty, 0.0))
        out = (out_a + ratio[..., None] * out_b) / (1 + ratio)[..., None]
        return torch.where(empty[..., None], out_b, out), torch.where(empty, lse_b, lse_a + torch.log1p(ratio))

    return merge


def shares_that_are_not_normalised(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    top = top.masked_fill(top == -math.inf, 0.0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    return a[..., None] * out_a + b[..., None] * out_b, top + torch.log(a + b)


def shares_over_the_rows(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b = (torch.softmax(lse, dim=-1).nan_to_num(0.0)[..., None] for lse in (lse_a, lse_b))
    return a * out_a + b * out_b, torch.logaddexp(lse_a, lse_b)


def parts_minus_infinity(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    a, b = torch.exp(lse_a - top)[..., None], torch.exp(lse_b - top)[..., None]
    return (a * out_a + b * out_b) / (a + b), top + torch.log(a + b).squeeze(-1)


def _weights_of(lse_a, lse_b, top) -> tuple[Tensor, Tensor, Tensor]:
    """Both weights against `top`, and a divisor that is never 0."""
    top = top.masked_fill(top == -math.inf, 0.0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    return a[..., None], b[..., None], (a + b).masked_fill(a + b == 0, 1.0)[..., None]


def one_maximum_for_both_parts(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).max()
    a, b, total = _weights_of(lse_a, lse_b, top)
    return (a * out_a + b * out_b) / total, top + torch.log((a + b).squeeze(-1))


def low_parts_taken_for_empty(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).clamp(min=-1e4)
    a, b, total = _weights_of(lse_a, lse_b, top)
    return (a * out_a + b * out_b) / total, top + torch.log((a + b).squeeze(-1))


def something_added_to_the_divisor(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b, _ = _weights_of(lse_a, lse_b, torch.maximum(lse_a, lse_b))
    return (a * out_a + b * out_b) / (a + b + 1e-6), torch.logaddexp(lse_a, lse_b)


def unseen_rows_with_lse_0(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    out, lse = _merged(out_a, lse_a, out_b, lse_b, _share)
    return out, lse.masked_fill(lse == -math.inf, 0.0)


def unseen_only_as_a_whole(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    if lse_a.isinf().all():
        return out_b, lse_b
    if lse_b.isinf().all():
        return out_a, lse_a
    return parts_minus_infinity(out_a, lse_a, out_b, lse_b)


def other_part_for_all_rows(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    if (lse_a == -math.inf).any():
        return out_b, lse_b
    if (lse_b == -math.inf).any():
        return out_a, lse_a
    return _merged(out_a, lse_a, out_b, lse_b, _share)


def unseen_only_as_a_whole_in_the_shares(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    """The logsumexp is right in every row, and the shares are not."""
    out = unseen_only_as_a_whole(out_a, lse_a, out_b, lse_b)[0]
    return out, torch.logaddexp(lse_a, lse_b)


def unseen_rows_near_the_smallest_number(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    out, lse = _merged(out_a, lse_a, out_b, lse_b, _share)
    return out, lse.masked_fill(lse == -math.inf, math.log(1e-30))


def finite_stand_in(number: float) -> Callable:
    """The right logsumexp, and shares in which this number stands for −∞."""
    standing_in = lambda lse: lse.masked_fill(lse == -math.inf, number)
    share = lambda a, b: torch.sigmoid(standing_in(a) - standing_in(b))
    return lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, share)


def _unseen_rows_finite(seen: Observation) -> bool:
    """A mark: a logsumexp that is finite where that of both parts is −∞."""
    unseen = (seen.args[1] == -math.inf) & (seen.args[3] == -math.inf)
    return bool(unseen.any() and seen.output[1][unseen].isfinite().all())


def right_shares_wrong_lse(out_a, lse_a, out_b, lse_b, lse) -> tuple[Tensor, Tensor]:
    return _merged(out_a, lse_a, out_b, lse_b, _share)[0], lse


merge_partials = Check(
    reference=online.merge_partials,
    names=("output: queries features", "logsumexp: queries"),
    cases=[
        random_case(n=5, d=3), random_case(batch=(2, 3), n=4, d=5),
        two_parts("large logsumexps, near 300", 4, 3, level=(300.0, 301.0)),
        two_parts("very negative logsumexps, near −300", 3, 4, level=(-301.0, -300.0)),
        two_parts("one part counts far more", 4, 2, batch=(2,), level=(3.0, -2.0)),
        two_parts("a row that one part saw nothing of", 4, 3, dead=("first", "")),
        two_parts("a first part near −30,000, a second part that saw nothing", 3, 5, level=(-30_000.0, 0.0), dead=("", "all")),
        two_parts("a row that neither part saw", 4, 3, batch=(2,), dead=("first", "first")),
        two_parts("nothing anywhere", 3, 2, dead=("all", "all")),
        rows_far_apart(5, 3),
        random_case("float64", batch=(2,), n=3, d=4, dtype=torch.float64),
    ],
    misconceptions=[
        Misconception(
            "a plain average", lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, lambda a, b: 0.5 + 0 * _share(a, b)),
            "A part that holds most of the attention must count more. Its share is e^lse out of the sum of both e^lse.",
        ),
        Misconception(
            "the outputs added", lambda out_a, lse_a, out_b, lse_b: (out_a + out_b, torch.logaddexp(lse_a, lse_b)),
            "Each part's weights sum to 1 already, so after adding they sum to 2. Multiply each output by its part's share first.",
        ),
        Misconception(
            "weights without a maximum", weights_without_maximum,
            "In float32 e^300 is infinite and e^(−300) is 0, and ∞ / ∞ and 0 / 0 are NaN. Subtract the larger of the two logsumexps first: only "
            "their difference matters.",
        ),
        Misconception(
            "everything measured against the first part", measured_against(first=True),
            "You subtract lse_a whatever lse_b is. Where lse_b is larger by some 90, e^(lse_b − lse_a) is infinite in float32. Subtract the larger of the two.",
        ),
        Misconception(
            "everything measured against the second part", measured_against(first=False),
            "You subtract lse_b whatever lse_a is. Where lse_a is larger by some 90, e^(lse_a − lse_b) is infinite in float32. Subtract the larger of the two.",
        ),
        Misconception(
            "shares in proportion to the logsumexps",
            lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, lambda a, b: (a / (a + b)).nan_to_num(0.5)),
            "A logsumexp is a logarithm. Take shares in proportion to the sums, e^lse.",
        ),
        Misconception(
            "shares that don't sum to 1", shares_that_are_not_normalised,
            "You subtracted the maximum in both weights, but didn't divide by their sum.",
        ),
        Misconception(
            "shares swapped", lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, lambda a, b: _share(b, a)),
            "The part with the larger logsumexp gets the larger share. With you it gets the smaller one.",
        ),
        Misconception(
            "only the larger part",
            lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, lambda a, b: (a > b).to(a)),
            "You took only the part with the larger logsumexp. The other one counts too, with its share.",
        ),
        Misconception(
            "shares taken over the rows", shares_over_the_rows,
            "You normalised over the rows. Rows are different queries. In each row the shares of a and b sum to 1.",
        ),
        Misconception(
            "the logsumexps added", lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(out_a, lse_a, out_b, lse_b, lse_a + lse_b),
            "Only the logsumexp is wrong. Adding two logarithms multiplies the sums. Add the sums: log(e^lse_a + e^lse_b), with a maximum "
            "subtracted first.",
        ),
        Misconception(
            "the larger logsumexp kept",
            lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(out_a, lse_a, out_b, lse_b, torch.maximum(lse_a, lse_b)),
            "Only the logsumexp is wrong. The merged part holds both sums, so its logsumexp is larger than either: log(e^lse_a + e^lse_b), with "
            "a maximum subtracted first.",
        ),
        Misconception(
            "the logsumexp without a maximum",
            lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
                out_a, lse_a, out_b, lse_b, torch.log(torch.exp(lse_a) + torch.exp(lse_b))
            ),
            "Only the logsumexp is wrong. You subtract no maximum in it, and e^300 is infinite in float32. Subtract the maximum there too, and "
            "add it again after the logarithm.",
        ),
        Misconception(
            "the mean of the sums in the logsumexp",
            lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
                out_a, lse_a, out_b, lse_b, torch.logaddexp(lse_a, lse_b) - math.log(2)
            ),
            "Only the logsumexp is wrong. You took the logarithm of the mean of the two sums. Take it of their sum, without the division by 2.",
        ),
        Misconception(
            "one maximum for all rows", one_maximum_for_both_parts,
            "You subtract one maximum in all rows, and in a row far below it both weights become 0. Every row has a maximum of its own.",
        ),
        Misconception(
            "very low logsumexps taken for empty parts", low_parts_taken_for_empty,
            "A logsumexp near −30,000 is that of a part with keys, and your result is that of an empty one. Only −∞ means that nothing was seen: compare "
            "with −∞ itself, and set no lower limit (`clamp`) for the maximum.",
        ),
        Misconception(
            "a small number added to the divisor", something_added_to_the_divisor,
            "The small number changes every row a little. Only in a row that neither part saw is the divisor 0: replace it by 1 in those rows.",
        ),
        Misconception(
            "logsumexp 0 for a row that neither part saw", unseen_rows_with_lse_0,
            "Only the logsumexp is wrong. The sum over no keys is 0, and its logarithm is −∞. A logsumexp of 0 would stand for a sum of 1.",
        ),
        Misconception(
            "a finite logsumexp for a row that neither part saw", unseen_rows_near_the_smallest_number,
            "The sum over no keys is 0, and its logarithm, −∞, is right here. A smallest value in the sum (`clamp`) or a number in place of −∞ "
            "makes it finite.",
            _unseen_rows_finite,
        ),
        Misconception(
            "a finite number for −∞ in the shares", finite_stand_in(-100.0),
            "A part that saw nothing gets no share, however low the other one's logsumexp is. Your number in place of −∞ is larger than "
            "−30,000, so the empty part gets the whole share. Keep −∞: e^−∞ is 0.",
        ),
        Misconception(
            "empty rows treated only where all rows are empty, in the shares", unseen_only_as_a_whole_in_the_shares,
            "One row may be empty where the next is not, and you look only whether all rows are. Your logsumexp is right: decide row by row for "
            "the shares too.",
        ),
        Misconception(
            "empty rows treated only where all rows are empty", unseen_only_as_a_whole,
            "One row may be empty where the next is not, and you look only whether all rows are. Decide row by row.",
        ),
        Misconception(
            "one part for all rows where the other has an empty one", other_part_for_all_rows,
            "A single empty row is enough for you to return the other part as it is, in all rows. The other rows need both parts: decide row by row, with "
            "`masked_fill` or `torch.where`.",
        ),
        Misconception(
            "−∞ minus −∞", parts_minus_infinity,
            "A row that neither part saw has logsumexp −∞ in both, and −∞ − (−∞) is NaN. In those rows the output must be 0 and the logsumexp "
            "−∞: subtract 0 there, and divide by 1.",
        ),
    ],
    within={torch.float32: (1e-3, 1e-4), torch.float64: (1e-9, 1e-11)},  # at 300 a logsumexp in float32 has no more than 5 digits behind the point
)  # fmt: skip
