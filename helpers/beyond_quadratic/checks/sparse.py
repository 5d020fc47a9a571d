"""Checks of attention that leaves pairs out. Outputs are compared, and the work is counted: a hidden n × n is found."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case, whole
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import (
    attention,
    in_single_precision,
    power_before_division,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation

from .. import sparse

__all__ = ["global_local", "local_attention", "strided_sparse"]

# ------------------------------------------------------------------------------------------------ what the slips share


def _gap(n) -> Tensor:
    return torch.arange(n)[:, None] - torch.arange(n)


def square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made."""
    q, k = seen.args[:2]
    return seen.largest >= q.shape[-2] * k.shape[-2]


def all_pairs_scored(seen: Observation) -> bool:
    """Whether the matrix products suffice for all n · m scores, though no such matrix was made."""
    q, k = seen.args[:2]
    return not square_made(seen) and seen.flops >= 2 * q.numel() * k.shape[-2]


def scores_of_all_pairs(seen: Observation) -> bool:
    """Whether all n · m scores were computed at once: by matrix products, or as products of single numbers."""
    q, k = seen.args[:2]
    work = q.numel() * k.shape[-2]
    return square_made(seen) and (seen.flops >= 2 * work or seen.largest >= work)


def overflowed(seen: Observation) -> bool:
    """Whether an output is NaN where the power of some score is more, or less, than float32 can hold."""
    q, k = seen.args[:2]
    return bool(seen.output.isnan().any() and (q @ k.mT).abs().max() / math.sqrt(q.shape[-1]) > 89)


def hidden_too_softly(reference: Callable) -> Callable:
    """A mark: numbers are wrong where all scores are far below 0."""

    def shown(seen: Observation) -> bool:
        q, k = seen.args[:2]
        low = (q @ k.mT).max() / math.sqrt(q.shape[-1]) < -90
        return bool(low and seen.output.isfinite().all()) and not agree(
            seen.output, reference(*seen.args), tolerance(seen.args)
        )

    return shown


def at_either_width(slip: Callable) -> Callable:
    """A mark: the output of a slip, with w as it is or cut to n − 1, as some do first: in a window wider than the text they differ, and
    one of them may be right. A row that reads nothing is 0 or NaN."""

    def shown(seen: Observation) -> bool:
        q, k, v, w, *g = seen.args
        within, whole = tolerance(seen.args), sparse.global_local_attention if g else sparse.local_attention
        right = whole(*seen.args)
        outputs = [slip(q, k, v, width, *g).nan_to_num() for width in {w, min(w, q.shape[-2] - 1)}]
        return any(agree(seen.output.nan_to_num(), one, within) and not agree(one, right, within) for one in outputs)

    return shown


WIDTHS = range(8)  # of the windows that a call may have from another one
WIDTH_HINT = (
    "Your windows are those of another w. It is an argument of *this* call: no fixed number, nothing that was kept from an earlier call of the same "
    "length, and cut to n − 1 at most."
)


def of_another_width(reference: Callable) -> Misconception:
    """The right answer for another w than that of the call."""

    def shown(seen: Observation) -> bool:
        q, k, v, w, *g = seen.args
        within, right = tolerance(seen.args), reference(*seen.args)
        outputs = (reference(q, k, v, width, *g) for width in WIDTHS if width != w)
        return any(agree(seen.output, one, within) and not agree(one, right, within) for one in outputs)

    return Misconception(
        "windows of another width than w", lambda q, k, v, w, *g: reference(q, k, v, 2, *g), WIDTH_HINT, shown
    )


def far_below(n: int, m: int, d_v: int, size: float = 128.0) -> tuple[RandomArg, RandomArg, RandomArg]:
    """Queries and keys at d = 4 whose scores are near −2 · size², and values; in float64, where a logsumexp of that size has digits to spare."""
    keys = RandomArg(lambda generator: torch.randint(-1, 2, (m, 4), generator=generator).double() / 64 - size)
    return RandomArg(lambda _: torch.full((n, 4), size, dtype=torch.float64)), keys, normal(m, d_v, dtype=torch.float64)


def far_global(n: int, d_v: int, w: int, g: int, size: float = 20.0) -> Case:
    """For every other query the global keys score hundreds more than its window, for the rest hundreds less: the softmax needs the maximum of both."""
    signs = RandomArg(lambda _: (size * (-1.0) ** torch.arange(n))[:, None].expand(n, 4).clone())

    def keys(generator: torch.Generator) -> Tensor:
        return torch.where(torch.arange(n)[:, None] < g, size, torch.randn(n, 4, generator=generator) / 2)

    return explicit_case(
        f"n = {n}, g = {g}: scores of the global keys far above or below those of the window",
        signs,
        RandomArg(keys),
        normal(n, d_v),
        w,
        g,
    )


def with_a_token_of_zeros(case: Case) -> Case:
    """The same case, with a key and value of zeros. Its score is 0, as that of an empty slot often is, and still it is a key."""

    def draw(*how) -> tuple:
        q, k, v, *others = case.draw(*how)
        named = others[0][0, 0] if isinstance(others[0], Tensor) else k.shape[-2] // 2  # in a table: a key that is read
        real = torch.arange(k.shape[-2])[:, None] != named
        return q, k * real, v * real, *others

    return replace(case, label=f"{case.label}, a token of zeros", draw=draw)


def changed_in_place(answer: Callable) -> Misconception:
    """Right values, and numbers that the way back needs overwritten. answer: one that does so."""

    def shown(seen: Observation) -> bool:
        error = seen.backward_error
        changed = error and (
            not error.message or "after it had been kept" in error.message
        )  # a hidden case has no message
        return bool(changed and not seen.modified)

    return Misconception(
        "changed in place, though the backward pass needs it", answer, IN_PLACE_HINT, shown, raises="RuntimeError"
    )


def scaled_by_values(q, v) -> Tensor:
    """Queries for which a scale of √d comes out as one of √d_v."""
    return q * math.sqrt(q.shape[-1] / v.shape[-1])


def _gathered(q, k, v, keys, valid, hidden: float = -math.inf, axis: int = -1) -> Tensor:
    weights = _slots(q, k, keys).masked_fill(~valid, hidden).softmax(axis)
    return _mix(weights, v, keys)


def zeros_taken_for_empty(q, k, v, keys, valid) -> Tensor:
    scores = _slots(q, k, keys) * valid
    return _mix(scores.masked_fill(scores == 0, -math.inf).softmax(-1), v, keys)


def _slots(q, k, keys) -> Tensor:
    return (k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])


def _expanded(x, keys) -> Tensor:
    """x[..., keys, :], gathered from a view (…, n, m, d): on the way back that shape is filled with numbers."""
    n, slots = keys.shape
    view = x.unsqueeze(-3).expand(*x.shape[:-2], n, *x.shape[-2:])
    return view.gather(-2, keys[..., None].expand(*x.shape[:-2], n, slots, x.shape[-1]))


def gathered_from_a_view(q, k, v, keys, valid) -> Tensor:
    scores = (_expanded(k, keys) @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~valid, -math.inf).softmax(-1)
    return (weights[..., None, :] @ _expanded(v, keys)).squeeze(-2)


def square_on_the_way_back(seen: Observation) -> bool:
    """Whether the backward pass, and it alone, made a tensor with all keys for every query."""
    q, k = seen.args[:2]
    return seen.largest < q.shape[-2] * k.numel() <= seen.backward_largest


def second_axis_indexed(q, k, v, keys, valid) -> Tensor:
    """Right with exactly one batch axis."""
    scores = (k[:, keys] * q[..., None, :]).sum(-1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~valid, -math.inf).softmax(-1)
    return (weights[..., None] * v[:, keys]).sum(-2)


def _mix(weights, v, keys) -> Tensor:
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def _slots_of(mask, most) -> tuple[Tensor, Tensor]:
    """Keys and valid slots, found in a table of all pairs."""
    valid, keys = mask.float().topk(min(most, mask.shape[-1]))
    return keys, valid > 0


def _powers(scores, valid) -> Tensor:
    """A softmax as in the formula, without its maximum."""
    powers = torch.exp(scores) * valid
    return powers / powers.sum(-1, keepdim=True)


def one_maximum(scores, valid=True) -> Tensor:
    """A softmax from which all rows have the same maximum subtracted."""
    scores = scores.masked_fill(~torch.as_tensor(valid), -math.inf)
    return _powers(scores - scores.max(), True)


LARGE_HINT = (
    "The exponential of a large score is ∞ and that of a very negative one is 0 (in float32 from about 89 and −104 on); ∞/∞ and 0/0 are NaN. Subtract "
    "the largest score of each row first, as `torch.softmax` does."
)
POWERS_HINT = f"{LARGE_HINT} Scores that aren't allowed have to be −∞ before that."
MAXIMUM_HINT = (
    "In a row whose scores all lie far below that maximum every exponential is 0, and 0/0 is NaN. Subtract each row's own maximum: `amax(dim=-1, "
    "keepdim=True)`."
)
HALF_A_MAXIMUM_HINT = (
    "Global keys and window share one softmax, so they share one maximum. If the other part has a score higher by a hundred, its exponential is infinite, "
    "and ∞/∞ is NaN. Take the largest score of both parts."
)
AXIS_HINT = (
    "`dim=1` is the last axis only without a batch. With a batch it is another axis. Count from the end: `dim=-1`."
)
IN_PLACE_HINT = (
    "Autograd had kept a tensor for the backward pass, and `+=`, `*=`, `[…] =` or a method with `_` at its end changed it afterwards. Make a new one "
    "instead, as in `state = state + …`."
)
SOFT_HINT = "Scores may be far below 0. If all allowed scores are below the number in an empty slot, that slot gets all the weight. Only −∞ is below every score."
ZEROS_HINT = (
    "A key may be at a right angle to the query, or all zeros: its score is 0, and it still gets its share. Which slots are empty follows from the "
    "positions, not from the numbers that stand in them."
)
VALUES_HINT = "A score is a sum of d products, so it is divided by √d. The width of the values plays no role."
TABLE_HINT = (
    "You make few scores, but also a table of all pairs. A mask costs n² too: at n = 100,000 it has 10¹⁰ entries. Compute the indices of the few keys "
    "directly."
)
EXPANDED_HINT = (
    "Expanded, the keys are a view of shape (…, n, m, d), and that costs nothing. But in the backward pass `gather` makes a tensor of this shape. "
    "Index with the table, `k[..., table, :]`."
)
SECOND_AXIS_HINT = (
    "`k[:, table]` indexes the second axis. That is the axis of the tokens only with exactly one batch axis: without a batch it is that of the "
    "features, and with two it is a batch axis. `k[..., table, :]` always indexes the tokens."
)
SECRET_HINT = "You compute all n² scores and throw most of them away. Gather the few keys that a query may read first, and score only those."
ROWS_HINT = "You never store an n × n matrix, but each query still scores all n keys, so the work is O(n²). Slice the keys before the product."

# ------------------------------------------------------------------------------------------------------------ a band


def _banded(q, k, v, low, high) -> Tensor:
    """Token i reads the keys i − low … i + high."""
    gap = _gap(q.shape[-2])
    return attention(q, k, v, mask=(gap <= low) & (gap >= -high))


def band_by_rows(q, k, v, w) -> Tensor:
    keys = torch.arange(k.shape[-2])
    return torch.cat(
        [attention(q[..., i : i + 1, :], k, v, mask=(keys - i).abs() <= w) for i in range(len(keys))], dim=-2
    )


def _wrapped(q, k, v, w, first=None, end=None) -> Tensor:
    """Windows that go on at the other end; only the slots from `first` on, or before `end`, are read."""
    keys = torch.arange(q.shape[-2])[:, None] + torch.arange(-w, w + 1)
    read = torch.ones_like(keys, dtype=torch.bool)
    if first is not None:
        read &= keys >= first
    if end is not None:
        read &= keys < end
    return _gathered(q, k, v, keys % q.shape[-2], read)


def past_the_end(q, k, v, w) -> Tensor:
    return _wrapped(q, k, v, w, first=0)


def _past_the_start(q, k, v, w) -> Tensor:
    """What a negative index reads, where it is one that Python knows."""
    return _wrapped(q, k, v, w, end=q.shape[-2])


def start_counted_from_the_end(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    return _gathered(q, k, v, keys.clamp(max=n - 1), keys < n)


def _between(q, k, v, first, end) -> Tensor:
    """Token i reads the keys i + first … i + end − 1; where that is none, its output is 0."""
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(first, end)
    return _gathered(q, k, v, keys.clamp(0, n - 1), (keys >= 0) & (keys < n))


def last_slot_missing(q, k, v, w) -> Tensor:
    return _between(q, k, v, -w, w)


def _too_narrow(seen: Observation) -> bool:
    """A mark: with w = 0 nothing is read, and the output is 0 or NaN if the function doesn't stop."""
    q, k, v, w = seen.args
    narrow = _banded(q, k, v, w - 1, w - 1).nan_to_num()
    return agree(seen.output.nan_to_num(), narrow, tolerance(seen.args))


def padding_in_the_softmax(q, k, v, w) -> Tensor:
    windows = [F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1) for x in (k, v)]  # (…, n, d, 2w + 1)
    weights = ((q[..., None, :] @ windows[0]) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ windows[1].mT).squeeze(-2)


def padding_taken_out_again(q, k, v, w) -> Tensor:
    windows = [F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1) for x in (k, v)]
    real = F.pad(q.new_ones(q.shape[-2]), (w, w)).unfold(0, 2 * w + 1, 1)
    weights = ((q[..., None, :] @ windows[0]) / math.sqrt(q.shape[-1])).softmax(-1).squeeze(-2) * real
    return (weights / weights.sum(-1, keepdim=True))[..., None, :].matmul(windows[1].mT).squeeze(-2)


def window_moved_inside(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    start = (torch.arange(n) - w).clamp(0, max(n - 2 * w - 1, 0))[:, None]
    keys = torch.arange(n)
    return attention(q, k, v, mask=(keys >= start) & (keys <= start + 2 * w))


def ends_repeated(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    keys = (torch.arange(n)[:, None] + torch.arange(-w, w + 1)).clamp(0, n - 1)
    weights = ((k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def own_block_alone(q, k, v, w) -> Tensor:
    block = torch.arange(q.shape[-2]) // max(w, 1)
    return attention(q, k, v, mask=block[:, None] == block)


def ragged_block_lost(q, k, v, w) -> Tensor:
    n, size = q.shape[-2], max(w, 1)
    output = _banded(q, k, v, w, w)
    whole = (torch.arange(n) < n // size * size)[:, None]
    return output * whole


def window_scaled_by_its_size(q, k, v, w) -> Tensor:
    return _banded(q * math.sqrt(q.shape[-1] / (2 * w + 1)), k, v, w, w)


def window_masked_after_softmax(q, k, v, w) -> Tensor:
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return weights * (_gap(q.shape[-2]).abs() <= w) @ v


def window_masked_with_zeros(q, k, v, w) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1]) * (_gap(q.shape[-2]).abs() <= w)
    return scores.softmax(-1) @ v


def _window(n, w) -> tuple[Tensor, Tensor]:
    """Keys, clamped, and which slots are inside."""
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    return keys.clamp(0, n - 1), (keys >= 0) & (keys < n)


def last_token_again(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    return _gathered(q, k, v, _window(n, w)[0], torch.arange(n)[:, None] + torch.arange(-w, w + 1) >= 0)


def first_token_again(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    return _gathered(q, k, v, _window(n, w)[0], torch.arange(n)[:, None] + torch.arange(-w, w + 1) < n)


def neighbour_blocks_whole(q, k, v, w) -> Tensor:
    size, n = max(w, 1), q.shape[-2]
    block, keys = torch.arange(n)[:, None] // size, torch.arange(n)
    return attention(q, k, v, mask=(keys >= block * size - w) & (keys < (block + 1) * size + w))


def band_through_a_mask(q, k, v, w) -> Tensor:
    return _gathered(q, k, v, *_slots_of(_gap(q.shape[-2]).abs() <= w, 2 * w + 1))


def window_sliced_from_the_end(q, k, v, w) -> Tensor:
    rows = [
        attention(q[..., i : i + 1, :], *(x[..., i - w : i + w + 1, :] for x in (k, v))) for i in range(q.shape[-2])
    ]
    return torch.cat(rows, dim=-2)


def band_of_powers(q, k, v, w) -> Tensor:
    keys, inside = _window(q.shape[-2], w)
    weights = _powers((k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1]), inside)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def band_with_one_maximum(q, k, v, w) -> Tensor:
    keys, inside = _window(q.shape[-2], w)
    return _mix(one_maximum(_slots(q, k, keys), inside), v, keys)


def long_local(n: int, d: int, d_v: int, w: int, **sizes) -> Case:
    """A long sequence: 4w + 4 slots a token are more than any right way needs, and far fewer than n."""
    slots = n * (4 * w + 4)
    return random_case(f"n = {n}, w = {w}: counted, O(n w d)", n=n, d=d, d_v=d_v, w=w,
                 max_flops=2 * slots * (d + d_v), max_elements=slots * max(d, d_v), **sizes)  # fmt: skip


local_attention = Check(
    reference=sparse.local_attention,
    cases=[
        random_case(n=9, d=4, d_v=3, w=2),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, w=4, dtype=torch.float64),
        random_case(n=8, d=5, d_v=2, w=3, scale=3.0, label="n = 8, w = 3, large scores"),
        random_case(n=5, d=4, d_v=3, w=6, label="a window wider than the sequence"),
        long_local(400, 4, 3, 3), long_local(300, 2, 6, 5),
        with_a_token_of_zeros(random_case(n=9, d=4, d_v=3, w=4, label="n = 9 again, now with w = 4")),
        random_case(n=4, d=3, d_v=2, w=0, label="w = 0: each token alone"),
        explicit_case("scores of several hundred", whole(9, 4), whole(9, 4), normal(9, 3), 2),
        explicit_case("scores near −30,000, in float64", *far_below(8, 8, 3), 2),
        random_case(batch=(2,), n=20, d=3, d_v=4, w=2, dtype=torch.float64, gradient=True, max_backward_elements=20 * 12 * 4 * 2,
              label="n = 20, w = 2: gradients, in float64"),
    ],
    misconceptions=[
        Misconception(
            "a hidden n × n matrix", lambda q, k, v, w: attention(q, k, v, mask=_gap(q.shape[-2]).abs() <= w), SECRET_HINT, cost=scores_of_all_pairs,
        ),
        Misconception(
            "keys gathered from an expanded view", lambda q, k, v, w: gathered_from_a_view(q, k, v, *_window(q.shape[-2], w)),
            EXPANDED_HINT, cost=square_on_the_way_back,
        ),
        Misconception(
            "a table of all pairs beside the scores", band_through_a_mask, TABLE_HINT, cost=square_made,
        ),
        Misconception(
            "every key scored, piece by piece", band_by_rows, ROWS_HINT, cost=all_pairs_scored,
        ),
        Misconception(
            "a window one token too narrow", lambda q, k, v, w: _between(q, k, v, -w + 1, w),
            "The token at distance w belongs to the window: |i − j| ≤ w, not < w. That makes 2w + 1 tokens.",
            _too_narrow, raises="RuntimeError",
        ),
        Misconception(
            "a window one token too wide", lambda q, k, v, w: _banded(q, k, v, w + 1, w + 1),
            "The token at distance w is the last that belongs: |i − j| ≤ w. That makes 2w + 1 tokens.",
        ),
        Misconception(
            "a window that looks back only", lambda q, k, v, w: _banded(q, k, v, w, 0),
            "The window has two sides: w tokens before and w tokens after. Nothing here is causal.",
        ),
        Misconception(
            "a window that looks ahead only", lambda q, k, v, w: _banded(q, k, v, 0, w),
            "The window has two sides: w tokens before and w tokens after. Yours begins at the token itself.",
        ),
        Misconception(
            "w neighbours on both sides together", lambda q, k, v, w: _banded(q, k, v, w // 2, w // 2),
            "w is the number of neighbours on *each* side. You take w on both sides together. With the token itself the window has 2w + 1 tokens.",
        ),
        Misconception(
            "the last slot of the window missing", last_slot_missing,
            "The window runs from i − w to i + w inclusive. A Python slice leaves out its end, so add 1.",
            at_either_width(last_slot_missing),
        ),
        Misconception(
            "the token itself left out",
            lambda q, k, v, w: attention(q, k, v, mask=(_gap(q.shape[-2]).abs() <= w) & (_gap(q.shape[-2]) != 0)),
            "A token reads itself too: |i − i| = 0 ≤ w.",
        ),
        Misconception(
            "a window that wraps around", _wrapped,
            "The first token is no neighbour of the last. `roll`, `%` and negative indices join the ends: mask those slots.",
            at_either_width(_wrapped),
        ),
        Misconception(
            "the last windows go on at the beginning", past_the_end,
            "The first token is no neighbour of the last: mask the slots beyond the end as well, and not only those before the start.",
            at_either_width(past_the_end),
        ),
        Misconception(
            "the first windows go on at the end", start_counted_from_the_end,
            "The last token is no neighbour of the first, and a negative index counts from the end: mask the slots before the start as well, and not "
            "only those beyond the end.",
            at_either_width(_past_the_start), raises="IndexError",
        ),
        Misconception(
            "a wide window cut to half the text", lambda q, k, v, w: _banded(q, k, v, min(w, q.shape[-2] // 2), min(w, q.shape[-2] // 2)),
            "A window that is wider than the text may be cut, but to n − 1 on each side, not to n/2: so far is the last token from the first.",
        ),
        Misconception(
            "padding that takes part in the softmax", padding_in_the_softmax,
            "A key of zeros has score 0, and e⁰ = 1 takes a share of the attention. Slots beyond the ends need a score of −∞.",
            at_either_width(padding_in_the_softmax),
        ),
        Misconception(
            "zeros taken for empty slots", lambda q, k, v, w: zeros_taken_for_empty(q, k, v, *_window(q.shape[-2], w)), ZEROS_HINT,
        ),
        Misconception(
            "padding taken out of the weights after the softmax", padding_taken_out_again,
            "The softmax has subtracted the largest score of the row, padding included. If the scores of the real keys are far below that one, their "
            "weights are all 0, and dividing by their sum is 0/0 = NaN. Slots beyond the ends need a score of −∞ before the softmax.",
        ),
        Misconception(
            "a window moved inside at the ends", window_moved_inside,
            "At the ends the window is cut off, not moved: token 0 reads tokens 0 … w and no more.",
        ),
        Misconception(
            "end tokens counted several times", ends_repeated,
            "Clamped indices point at the first or the last token again and again, and each copy takes a share. Mask the slots beyond the "
            "ends.",
            at_either_width(ends_repeated),
        ),
        Misconception(
            "blocks that don't see their neighbours", own_block_alone,
            "A token at a block's edge has neighbours in the next block. A block of w queries needs the keys of three blocks.",
        ),
        Misconception(
            "the last ragged block lost", ragged_block_lost,
            "n need not be a multiple of the block. Pad the last block, or let it be shorter, and keep its rows.",
        ),
        Misconception(
            "no scale", lambda q, k, v, w: _banded(q * math.sqrt(q.shape[-1]), k, v, w, w),
            "Each score is still a dot product of d terms: divide it by √d before the softmax.",
        ),
        Misconception(
            "scaled by the size of the window", window_scaled_by_its_size,
            "What makes a score large is the number of its terms, and that is the width d, not the number of keys.",
            at_either_width(window_scaled_by_its_size),
        ),
        Misconception(
            "masked after the softmax", window_masked_after_softmax,
            "Tokens outside the window have taken their share already, so the rest doesn't sum to 1. The softmax runs only over the window.",
        ),
        Misconception(
            "forbidden scores set to 0", window_masked_with_zeros,
            "A score of 0 isn't small: e⁰ = 1. Outside the window nothing may take part in the softmax.",
        ),
        Misconception(
            "slots after the last token taken for valid", last_token_again,
            "Slots beyond the end were clamped to the last key, and count as valid. Ask which slots lie inside *before* you clamp, at both ends.",
            at_either_width(last_token_again),
        ),
        Misconception(
            "slots before the first token taken for valid", first_token_again,
            "Slots before the start were clamped to the first key, and count as valid. Ask which slots lie inside *before* you clamp, at both ends.",
            at_either_width(first_token_again),
        ),
        Misconception(
            "whole blocks read, without the band", neighbour_blocks_whole,
            "A block of queries reads a stretch of keys, but each query may read only part of it: inside the stretch mask the keys with |i − j| > w.",
        ),
        Misconception("scaled by the width of the values", lambda q, k, v, w: _banded(scaled_by_values(q, v), k, v, w, w), VALUES_HINT),
        Misconception(
            "a slice that begins below 0", window_sliced_from_the_end,
            "For i < w the slice `[i - w : …]` begins at a negative number, and Python counts that from the end: it is empty, or holds the wrong "
            "tokens. Begin at `max(i - w, 0)`.",
        ),
        Misconception(
            "a finite number for the empty slots", lambda q, k, v, w: _gathered(q, k, v, *_window(q.shape[-2], w), hidden=-1e4),
            SOFT_HINT, hidden_too_softly(sparse.local_attention),
        ),
        Misconception(
            "the softmax's axis counted from the front", lambda q, k, v, w: _gathered(q, k, v, *_window(q.shape[-2], w), axis=1), AXIS_HINT,
        ),
        Misconception("one maximum for all rows", band_with_one_maximum, MAXIMUM_HINT),
        Misconception(
            "indexed with exactly one batch axis in mind", lambda q, k, v, w: second_axis_indexed(q, k, v, *_window(q.shape[-2], w)),
            SECOND_AXIS_HINT, raises="IndexError RuntimeError",
        ),
        Misconception("exponentials out of range", band_of_powers, POWERS_HINT, overflowed),
        of_another_width(sparse.local_attention),
        power_before_division(sparse.local_attention),
        in_single_precision(sparse.local_attention),
        written_for_one_batch_axis(sparse.local_attention),
        written_without_a_batch(sparse.local_attention),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------- a band with global tokens


def _global_pairs(n, w, g) -> Tensor:
    allowed = _gap(n).abs() <= w
    allowed[:g] = allowed[:, :g] = True
    return allowed


def globals_by_rows(q, k, v, w, g) -> Tensor:
    keys = torch.arange(k.shape[-2])
    rows = [
        attention(q[..., i : i + 1, :], k, v, mask=((keys - i).abs() <= w) | (keys < g) | (i < g))
        for i in range(len(keys))
    ]
    return torch.cat(rows, dim=-2)


def globals_counted_twice(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    times = (_gap(n).abs() <= w).float()
    times[g:, :g] += 1  # in the window and in the list of global tokens
    times[:g] = 1
    return (q @ k.mT / math.sqrt(q.shape[-1]) + times.to(q).log()).softmax(-1) @ v


def globals_that_read_a_window(q, k, v, w, g) -> Tensor:
    allowed = _gap(q.shape[-2]).abs() <= w
    allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def globals_that_nobody_reads(q, k, v, w, g) -> Tensor:
    allowed = _gap(q.shape[-2]).abs() <= w
    allowed[:g] = True
    return attention(q, k, v, mask=allowed)


def globals_without_window(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    allowed = torch.zeros(n, n, dtype=torch.bool)
    allowed[:g] = allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def globals_at_the_end(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    allowed = _gap(n).abs() <= w
    allowed[n - g :] = allowed[:, n - g :] = True
    return attention(q, k, v, mask=allowed)


def _two_softmaxes(q, k, v, w, g) -> tuple[Tensor, Tensor]:
    """Global keys and window keys, each with a softmax of its own, as two outputs."""
    n = q.shape[-2]
    near, far = _gap(n).abs() <= w, torch.arange(n).expand(n, n) < g
    return attention(
        q, k, v, mask=near & ~far | (torch.arange(n) >= g)[:, None] & torch.eye(n, dtype=torch.bool)
    ), attention(q, k, v, mask=far)


def two_softmaxes_averaged(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _two_softmaxes(q, k, v, w, g)
    return torch.cat(
        [attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))[..., :g, :], ((near + far) / 2)[..., g:, :]], dim=-2
    )


def two_softmaxes_added(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _two_softmaxes(q, k, v, w, g)
    return torch.cat(
        [attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))[..., :g, :], (near + far)[..., g:, :]], dim=-2
    )


def two_softmaxes_with_the_globals_twice(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _banded(q, k, v, w, w), attention(q, k[..., :g, :], v[..., :g, :])
    return torch.cat([attention(q[..., :g, :], k, v), ((near + far) / 2)[..., g:, :]], dim=-2)


def globals_joined(q, k, v, w, g, *, first: float = 1.0, rest: float = 1.0) -> Tensor:
    """Right, but for what the queries of the first g rows and of the rest are multiplied with."""
    first, rest = (attention(q * factor, k, v, mask=_global_pairs(q.shape[-2], w, g)) for factor in (first, rest))
    return torch.cat([first[..., :g, :], rest[..., g:, :]], dim=-2)


def window_row_wins(q, k, v, w, g) -> Tensor:
    allowed = _global_pairs(q.shape[-2], w, g)
    allowed[:g, g:] &= _gap(q.shape[-2])[:g, g:].abs() <= w
    allowed[g:, :g] &= _gap(q.shape[-2])[g:, :g].abs() <= w
    return attention(q, k, v, mask=allowed)


def _weighed(q, k, v, times) -> Tensor:
    """Attention in which query i counts key j `times[i, j]` times."""
    return (q @ k.mT / math.sqrt(q.shape[-1]) + times.to(q).log()).softmax(-1) @ v


def first_ordinary_token_lost(q, k, v, w, g) -> Tensor:
    allowed = _global_pairs(q.shape[-2], w, g)
    allowed[g:, g : g + 1] = False
    return attention(q, k, v, mask=allowed)


def left_edge_twice(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    times = _global_pairs(n, w, g).float()
    twice = _gap(n) == w
    twice[:g] = twice[:, g:] = False
    return _weighed(q, k, v, times + twice)


def windows_too_far_left(q, k, v, w, g) -> Tensor:
    allowed = (_gap(q.shape[-2]) - g).abs() <= w
    allowed[:g] = allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def rest_counted_from_the_back(q, k, v, w, g) -> Tensor:
    right = attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))
    return torch.cat([right, right], dim=-2) if g == q.shape[-2] else right


def _rest(n, w, g) -> tuple[Tensor, Tensor]:
    """Keys and valid slots of the tokens from g on: the global keys, then the window without them."""
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    keys = torch.cat([torch.arange(g).expand(n - g, g), window.clamp(0, n - 1)], dim=1)
    return keys, torch.cat([torch.ones(n - g, g, dtype=torch.bool), (window >= g) & (window < n)], dim=1)


def globals_through_a_mask(q, k, v, w, g) -> Tensor:
    slots = _slots_of(_global_pairs(q.shape[-2], w, g)[g:], g + 2 * w + 1)
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, *slots)], dim=-2)


def _joined_with(rest: Callable, q, k, v, w, g) -> Tensor:
    """The rows of the global tokens, right, and the others as `rest` of (q, k, v, keys, valid) makes them."""
    others = rest(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g))
    return torch.cat([attention(q[..., :g, :], k, v), others], dim=-2)


def globals_hidden_softly(q, k, v, w, g) -> Tensor:
    rest = _gathered(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g), hidden=-100.0)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def globals_over_axis_1(q, k, v, w, g) -> Tensor:
    rest = _gathered(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g), axis=1)
    return torch.cat([attention(q[..., :g, :], k, v, axis=1), rest], dim=-2)


def globals_with_one_maximum(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    first, rest = _slots(q[..., :g, :], k, torch.arange(k.shape[-2]).expand(g, -1)), _slots(q[..., g:, :], k, keys)
    parts = [one_maximum(first) @ v] if g else []
    return torch.cat([*parts, _mix(one_maximum(rest, valid), v, keys)] if g < q.shape[-2] else parts, dim=-2)


def maximum_of_one_part(q, k, v, w, g, part: Callable[[int], slice]) -> Tensor:
    """part: which slots of a row the maximum is taken of."""
    keys, valid = _rest(q.shape[-2], w, g)
    scores = _slots(q[..., g:, :], k, keys).masked_fill(~valid, -math.inf)
    top = scores[..., part(g)].amax(-1, keepdim=True) if g else 0
    rest = _mix(_powers(scores - top, True), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def maximum_of_each_part(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    scores = _slots(q[..., g:, :], k, keys).masked_fill(~valid, -math.inf)
    parts = [part - part.amax(-1, keepdim=True) for part in (scores[..., :g], scores[..., g:]) if part.shape[-1]]
    rest = _mix(_powers(torch.cat(parts, dim=-1), True), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def last_windows_from_the_beginning(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    keys = torch.cat([torch.arange(g).expand(n - g, g), window % n], dim=1)
    valid = torch.cat([torch.ones(n - g, g, dtype=torch.bool), window >= g], dim=1)
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, keys, valid)], dim=-2)


def clamped_before_asked(q, k, v, w, g, least: int = 0) -> Tensor:
    """least: the smallest number in the table of which is asked whether it is g or more."""
    n, (keys, valid) = q.shape[-2], _rest(q.shape[-2], w, g)
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    valid[:, g:] = window.clamp(min=least) >= g
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, keys, valid)], dim=-2)


def end_clamped_before_asked(q, k, v, w, g) -> Tensor:
    return clamped_before_asked(q, k, v, w, g, least=-w)


def no_rows_left_counted_from_the_back(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    scores = (q[..., -(q.shape[-2] - g) :, None, :] @ k[..., keys, :].mT).squeeze(-2) / math.sqrt(q.shape[-1])
    rest = _mix(scores.masked_fill(~valid, -math.inf).softmax(-1), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def global_powers(q, k, v, w, g) -> Tensor:
    scale, (keys, valid) = math.sqrt(q.shape[-1]), _rest(q.shape[-2], w, g)
    weights = _powers((k[..., keys, :] @ q[..., g:, :, None]).squeeze(-1) / scale, valid)
    rest = (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)
    return torch.cat([_powers(q[..., :g, :] @ k.mT / scale, True) @ v, rest], dim=-2)


def long_global(n: int, d: int, d_v: int, w: int, g: int) -> Case:
    slots = n * (4 * w + 4 + g) + 2 * g * n
    return random_case(f"n = {n}, w = {w}, g = {g}: counted, O(n (w + g) d)", n=n, d=d, d_v=d_v, w=w, g=g,
                 max_flops=2 * slots * (d + d_v), max_elements=slots * max(d, d_v))  # fmt: skip


global_local = Check(
    exercise="global_local",
    reference=sparse.global_local_attention,
    cases=[
        random_case(n=9, d=4, d_v=3, w=1, g=3),  # n = 9 comes with other w for the same g and with other g for the same w: a table kept is found
        random_case(batch=(2, 3), n=11, d=3, d_v=5, w=2, g=1, dtype=torch.float64),
        random_case(n=10, d=5, d_v=2, w=2, g=3, scale=2.5, label="n = 10, w = 2, g = 3, large scores"),
        long_global(400, 4, 3, 3, 2), long_global(300, 3, 5, 2, 4),
        with_a_token_of_zeros(random_case(n=9, d=4, d_v=3, w=2, g=3, label="n = 9 again, now with w = 2")),
        random_case(n=7, d=3, d_v=4, w=2, g=0, label="g = 0: only the window"),
        random_case(n=5, d=4, d_v=3, w=1, g=5, label="g = n: all tokens global, no other rows"),
        random_case(n=7, d=3, d_v=4, w=9, g=1, label="a window wider than the sequence"),
        explicit_case("scores of several hundred", whole(9, 4), whole(9, 4), normal(9, 3), 2, 1),
        explicit_case("scores near −30,000, in float64", *far_below(8, 8, 3), 2, 1),
        far_global(9, 3, 2, 2),
        random_case(batch=(2,), n=20, d=3, d_v=4, w=1, g=2, dtype=torch.float64, gradient=True, max_backward_elements=20 * 14 * 4 * 2,
              label="n = 20, w = 1, g = 2: gradients, in float64"),
    ],
    misconceptions=[
        Misconception(
            "a hidden n × n matrix", lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g)),
            "You compute all n² scores and throw most of them away. Only g queries need all keys; the others need g global keys and a window.",
            cost=scores_of_all_pairs,
        ),
        Misconception(
            "keys gathered from an expanded view", lambda q, k, v, w, g: _joined_with(gathered_from_a_view, q, k, v, w, g),
            EXPANDED_HINT, cost=square_on_the_way_back,
        ),
        Misconception(
            "a table of all pairs beside the scores", globals_through_a_mask, TABLE_HINT, cost=square_made,
        ),
        Misconception(
            "every key scored, piece by piece", globals_by_rows, ROWS_HINT, cost=all_pairs_scored,
        ),
        Misconception(
            "global tokens counted twice", globals_counted_twice,
            "A global token near the query is in its window as well, and takes two shares there. Mask the global tokens in the window.",
        ),
        Misconception(
            "global tokens that don't read everything", globals_that_read_a_window,
            "All tokens read the global ones, and the global ones read all tokens. In yours a global token reads only its window and the global tokens.",
        ),
        Misconception(
            "global tokens that are not read by all", globals_that_nobody_reads,
            "The global tokens read all tokens, and all tokens read them. In yours the others read a global token only if it is in their window.",
        ),
        Misconception(
            "only the window", lambda q, k, v, w, g: _banded(q, k, v, w, w),
            "Your tokens read only their windows. The first g tokens read all tokens, and all tokens read them.",
        ),
        Misconception(
            "only the global tokens", globals_without_window,
            "The other tokens read their window as well as the global tokens. In yours they read only the global tokens.",
        ),
        Misconception(
            "two softmaxes, averaged", two_softmaxes_averaged,
            "A query has one unit of attention for global tokens and window together. Join the scores, then take one softmax.",
        ),
        Misconception(
            "two softmaxes, averaged, with the global keys in both", two_softmaxes_with_the_globals_twice,
            "A query has one unit of attention for global tokens and window together, and each key has one share of it. Join the scores, each key only "
            "once, then take one softmax.",
        ),
        Misconception(
            "two softmaxes, added", two_softmaxes_added,
            "Each softmax sums to 1, so your weights sum to 2. Join the scores of global tokens and window, then take one softmax.",
        ),
        Misconception(
            "the last tokens global instead of the first", globals_at_the_end,
            "The *first* g tokens are global, 0 … g − 1, and not the last.",
        ),
        Misconception(
            "one global token, whatever g is", lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w, min(g, 1))),
            "There are g global tokens: 0 … g − 1.",
        ),
        Misconception(
            "one global token too many", lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g + 1)),
            "The global tokens are 0 … g − 1. Token g is an ordinary one.",
        ),
        Misconception(
            "global tokens that see only each other and their neighbours", window_row_wins,
            "A global token and an ordinary one may be far apart and still read each other. Your window cuts that off.",
        ),
        Misconception(
            "a window one token too narrow", lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w - 1, g)),
            "The token at distance w belongs to the window: |i − j| ≤ w.",
        ),
        Misconception(
            "no scale", lambda q, k, v, w, g: attention(q * math.sqrt(q.shape[-1]), k, v, mask=_global_pairs(q.shape[-2], w, g)),
            "Each score is still a dot product of d terms: divide it by √d before the softmax.",
        ),
        Misconception(
            "no scale in the global rows", lambda q, k, v, w, g: globals_joined(q, k, v, w, g, first=math.sqrt(q.shape[-1])),
            "The rows of the global tokens are plain attention: divide their scores by √d too.",
        ),
        Misconception(
            "no scale in the rows that aren't global", lambda q, k, v, w, g: globals_joined(q, k, v, w, g, rest=math.sqrt(q.shape[-1])),
            "Divide all scores by √d, those of the other rows too.",
        ),
        Misconception(
            "a finite number for the empty slots", globals_hidden_softly, SOFT_HINT, hidden_too_softly(sparse.global_local_attention),
        ),
        Misconception(
            "zeros taken for empty slots", lambda q, k, v, w, g: _joined_with(zeros_taken_for_empty, q, k, v, w, g), ZEROS_HINT,
        ),
        Misconception(
            "token g missing from the windows", first_ordinary_token_lost,
            "Tokens 0 … g − 1 are global, and only these are left out of the windows. Token g isn't global: it stays in.",
        ),
        Misconception(
            "a global token at the window's left edge counted twice", left_edge_twice,
            "The window reaches from i − w to i + w, both ends included. A global token at i − w is in the window, too: one of its two slots "
            "has to go.",
        ),
        Misconception(
            "the windows g places too far left", windows_too_far_left,
            "The first of the other rows is token g, not token 0: add g to its index before you compute its window.",
        ),
        Misconception(
            "the other rows counted from the back", rest_counted_from_the_back,
            "For g = n the slice `q[..., -(n - g):, :]` begins at −0, which is 0: it holds all rows instead of none. Write `q[..., g:, :]`.",
        ),
        Misconception(
            "scaled by the width of the values",
            lambda q, k, v, w, g: attention(scaled_by_values(q, v), k, v, mask=_global_pairs(q.shape[-2], w, g)), VALUES_HINT,
        ),
        Misconception(
            "the other rows counted from the back, stopping at g = n", no_rows_left_counted_from_the_back,
            "For g = n the slice `q[..., -(n - g):, :]` begins at −0, which is 0: it holds all rows instead of none, and doesn't fit a table without rows. "
            "Write `q[..., g:, :]`.",
            raises="RuntimeError",
        ),
        Misconception(
            "the last windows go on at the beginning", last_windows_from_the_beginning,
            "The first token is no neighbour of the last: mask the slots beyond the end as well, and not only those below g.",
            at_either_width(last_windows_from_the_beginning),
        ),
        Misconception(
            "slots beyond the ends taken for valid", clamped_before_asked,
            "Slots beyond the end were clamped to the last key, and count as valid. Ask which slots lie inside *before* you clamp, at both ends: with "
            "g = 0 there are slots before the start too.",
            lambda seen: at_either_width(clamped_before_asked)(seen) or at_either_width(end_clamped_before_asked)(seen),
        ),
        Misconception(
            "a wide window cut to half the text",
            lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], min(w, q.shape[-2] // 2), g)),
            "A window that is wider than the text may be cut, but to n − 1 on each side, not to n/2: so far is the last token from the first.",
        ),
        Misconception("the softmax's axis counted from the front", globals_over_axis_1, AXIS_HINT),
        Misconception(
            "the maximum of the window only", lambda q, k, v, w, g: maximum_of_one_part(q, k, v, w, g, lambda g: slice(g, None)),
            HALF_A_MAXIMUM_HINT,
        ),
        Misconception(
            "the maximum of the global keys only", lambda q, k, v, w, g: maximum_of_one_part(q, k, v, w, g, lambda g: slice(g)),
            HALF_A_MAXIMUM_HINT,
        ),
        Misconception(
            "a maximum of its own for each part", maximum_of_each_part,
            "Exponentials from which different maxima were subtracted are measured with different units, and can't be added. Global keys and window share one softmax: "
            "subtract the maximum of both, or join their scores first.",
        ),
        Misconception("one maximum for all rows", globals_with_one_maximum, MAXIMUM_HINT),
        Misconception(
            "indexed with exactly one batch axis in mind", lambda q, k, v, w, g: _joined_with(second_axis_indexed, q, k, v, w, g),
            SECOND_AXIS_HINT, raises="IndexError RuntimeError",
        ),
        Misconception("exponentials out of range", global_powers, POWERS_HINT, overflowed),
        of_another_width(sparse.global_local_attention),
        power_before_division(sparse.global_local_attention),
        in_single_precision(sparse.global_local_attention),
        written_for_one_batch_axis(sparse.global_local_attention),
        written_without_a_batch(sparse.global_local_attention),
    ],
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- strided keys


def _lists(output) -> list[list[int]]:
    return [[int(j) for j in row] for row in output]


def _well_formed(output, n) -> bool:
    rows = _lists(output)
    return len(rows) == n and all(len(row) == len(set(row)) and all(0 <= j < n for j in row) for row in rows)


def _most_keys(output) -> int:
    return max(map(len, output))


def _ceil_sqrt(n: int) -> int:
    return math.isqrt(n - 1) + 1


def _bad_list(output, n: int) -> str:
    """The first list that is none, in words."""
    rows = _lists(output)
    if len(rows) != n:
        return f"The number of lists is {len(rows)}, and n is {n}."
    for i, row in enumerate(rows):
        for j in row:
            if row.count(j) > 1 or not 0 <= j < n:
                return f"List {i} holds {j}{' twice' if 0 <= j < n else ''}."
    return ""


def _longest(output, n: int) -> str:
    """The token that reads most keys, in words."""
    most = _most_keys(output)
    i = next(i for i, row in enumerate(output) if len(row) == most)
    return f"Token {i} reads {most} keys; {3 * _ceil_sqrt(n)} are allowed."


def _without_itself(output, n: int) -> str:
    """A token that doesn't read itself, in words."""
    i, row = next((i, row) for i, row in enumerate(output) if i not in _lists(output)[i])
    return f"Here i = {i}: token {i} reads {_listed(row)}."


def _far_apart(output, n: int) -> str:
    """Two tokens that two layers don't connect, in words."""
    i, j = (~_reach(output, n)).nonzero()[0].tolist()
    return f"Here i = {i} and j = {j}: token {i} reads {_listed(output[i])}, and none of these reads {j}."


def _listed(row) -> str:
    row = [int(j) for j in row]
    return ", ".join(map(str, row)) if len(row) <= 12 else f"{', '.join(map(str, row[:10]))}, …"


def _reach(output, n: int) -> torch.Tensor:
    one = sparse.as_mask([[j for j in row if 0 <= j < n] for row in _lists(output)]).float()
    return one @ one > 0


def strided_window_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step] for i in range(n)]


def strided_column_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if (i - j) % step == 0] for i in range(n)]


def one_hub(n) -> list[list[int]]:
    return [list(range(n))] + [sorted({0, *range(max(i - 1, 0), min(i + 2, n))}) for i in range(1, n)]


def half_a_window(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) <= step // 2 or (i - j) % step == 0] for i in range(n)]


def window_behind(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if 0 <= i - j < step or (i - j) % step == 0] for i in range(n)]


def ends_of_whole_blocks(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [
        sorted({*range(i // step * step, min(i // step * step + step, n)), *range(step - 1, n, step)}) for i in range(n)
    ]


def fixed_stride(n) -> list[list[int]]:
    return [[j for j in range(n) if abs(i - j) < 4 or (i - j) % 4 == 0] for i in range(n)]


def listed_twice(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step] + [j for j in range(n) if (i - j) % step == 0] for i in range(n)]


def beyond_the_ends(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(i - step + 1, i + step), *range(i % step, n, step)}) for i in range(n)]


def column_backwards_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step or (j < i and (i - j) % step == 0)] for i in range(n)]


def whole_strides_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [
        sorted({*range(max(i - step + 1, 0), min(i + step, n)), *range(i % step, n // step * step, step)})
        for i in range(n)
    ]


def hubs_with_half_a_window(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(0, n, step), *range(max(i - step // 2, 0), min(i + step // 2 + 1, n))}) for i in range(n)]


def window_of(n, left: int, right: int) -> list[list[int]]:
    """The pattern with a window from i − left to i + right, both included."""
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(max(i - left, 0), min(i + right + 1, n)), *range(i % step, n, step)}) for i in range(n)]


def root_rounded_down_and_squared(n) -> list[list[int]]:
    step = math.isqrt(n)
    return [
        sorted({*range(max(i - step + 1, 0), min(i + step, n)), *range(i % step, step * step, step)}) for i in range(n)
    ]


def blocks_with_leaders(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    own = [set(range(i // step * step, min(i // step * step + step, n))) for i in range(n)]
    return [sorted(keys | (set(range(0, n, step)) if i % step == 0 else set())) for i, keys in enumerate(own)]


def without_itself(n) -> list[list[int]]:
    return [[j for j in row if j != i] for i, row in enumerate(sparse.strided_keys(n))]


def _twice(seen) -> bool:
    return any(len(row) != len(set(row)) for row in _lists(seen.output))


def _outside(seen) -> bool:
    rows, (n, *_) = _lists(seen.output), seen.args
    return len(rows) == n and any(not 0 <= j < n for row in rows for j in row)


strided_keys = Check(
    reference=sparse.strided_keys,
    cases=[random_case("n = 16", n=16), random_case("n = 30: not a square number", n=30), random_case("n = 31: a ragged end", n=31), random_case("n = 150", n=150),
           random_case("n = 1: one token", n=1), random_case("n = 2", n=2), random_case("n = 90", n=90)],
    compare=False,
    properties=[
        Property("n lists of different keys, each from 0 … n − 1", _well_formed, "Each of the n lists holds different numbers from 0 … n − 1.", _bad_list),
        Property("every token reads itself", lambda rows, n: all(i in _lists(rows)[i] for i in range(n)), "Token i must be in list i.", _without_itself),
        Property(
            "no token reads more than 3⌈√n⌉ keys", lambda rows, n: _most_keys(rows) <= 3 * _ceil_sqrt(n),
            "Some token reads more than 3⌈√n⌉ keys.", _longest,
        ),
        Property(
            "two layers connect every pair", lambda rows, n: bool(_reach(rows, n).all()),
            "There are tokens i and j with no token between them that i reads and that reads j.", _far_apart,
        ),
    ],
    misconceptions=[
        Misconception(
            "only a window", strided_window_only,
            "Two layers of windows reach twice as far, but not to every token. Add keys at distances of s, 2s, 3s, …, with s near √n.",
        ),
        Misconception(
            "only a stride", strided_column_only,
            "From token i you get to i ± √n, i ± 2√n, … and never to i + 1, however many layers you stack. The window closes the gaps.",
        ),
        Misconception(
            "everything through one hub", one_hub,
            "Two layers do connect all pairs, but the hub reads all n keys, and all that tokens tell each other must pass through its one vector. No token "
            "may read more than 3⌈√n⌉ keys.",
            lambda seen: _most_keys(seen.output) == seen.args[0] and sum(map(len, seen.output)) < 8 * seen.args[0],
        ),
        Misconception(
            "all pairs", lambda n: [list(range(n)) for _ in range(n)],
            "Every token reads all n keys: that is full attention, n² pairs. With two layers about n√n pairs are enough.",
            lambda seen: min(map(len, seen.output)) == seen.args[0],
        ),
        Misconception(
            "half a window", half_a_window,
            "In the middle a window of √n/2 to each side is enough, for every column has a token that near. At the ends there is one side only, and the "
            "nearest token of a column can be √n − 1 away.",
        ),
        Misconception(
            "a window that looks back only", window_behind,
            "The first tokens don't reach the last ones: a token near the start has hardly any window, and the tokens of its column look back too, so "
            "nothing after the last of them is reached. The window needs both sides.",
        ),
        Misconception(
            "the last short block lost", ends_of_whole_blocks,
            "If n is no multiple of ⌈√n⌉, the last block is shorter. In yours it has no token that all others read, so no other block reaches its tokens.",
        ),
        Misconception(
            "a stride that doesn't grow with n", fixed_stride,
            "With a fixed stride s every token reads n/s keys: still O(n²) pairs. A stride near √n balances window and column.",
        ),
        Misconception(
            "a column that looks back only", column_backwards_only,
            "The column has to run both ways: a token at the beginning must be able to jump ahead.",
        ),
        Misconception(
            "keys listed twice", listed_twice,
            "A key in the window and in the column would take two shares of the softmax. List each key once, for instance with a set.",
            _twice,
        ),
        Misconception(
            "keys beyond the ends", beyond_the_ends,
            "Keys below 0 or above n − 1 don't exist (and −1 is the last token in Python). Clip the window at the ends.",
            _outside,
        ),
        Misconception(
            "a column that ends with the last whole stride", whole_strides_only,
            "Where n is no multiple of ⌈√n⌉ the column goes on after the last whole stride: `range(i % s, n, s)`. Yours leaves out the tokens at "
            "the end, and not all others reach them.",
        ),
        Misconception(
            "a window one token short on the right", lambda n: window_of(n, math.isqrt(n - 1), math.isqrt(n - 1) - 1),
            "To its right a token reads up to i + s − 1. A `range` leaves out its end: `range(…, i + s)`. Yours stops one earlier, so a token after the "
            "last one of the column may not be reached.",
        ),
        Misconception(
            "a window one token short on the left", lambda n: window_of(n, math.isqrt(n - 1) - 1, math.isqrt(n - 1)),
            "To its left a token reads from i − s + 1 on: that is s − 1 tokens. Yours begins one later, so a token before the first one of the column may "
            "not be reached.",
        ),
        Misconception(
            "a window one token short on both sides", lambda n: window_of(n, math.isqrt(n - 1) - 1, math.isqrt(n - 1) - 1),
            "|i − j| < s gives s − 1 tokens on each side. Yours has s − 2, so tokens beyond the ends of the column may not be reached.",
        ),
        Misconception(
            "a column up to the square of the rounded root", root_rounded_down_and_squared,
            "With s = ⌊√n⌋ the square s · s is less than n, unless n is a square number: the tokens from s · s on are in no column. The column goes on to "
            "n: `range(i % s, n, s)`.",
        ),
        Misconception(
            "blocks that meet through their first tokens", blocks_with_leaders,
            "That takes three layers: from a token to the first one of its block, then to the first one of the other block, then to the other token. "
            "If every token read all of these first tokens, two layers would do.",
        ),
        Misconception(
            "hubs with half a window", hubs_with_half_a_window,
            "Every token reads the hubs 0, s, 2s, …, so every token must be in the window of a hub. s/2 to each side is just enough between two hubs, but "
            "after the last hub the tokens further away are in no hub's window.",
        ),
        Misconception(
            "the token itself left out", without_itself,
            "A token reads itself too: it is in its own window and in its own column.",
        ),
    ],
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- key lists


def _table_mask(k, keys, allowed) -> Tensor:
    mask = torch.zeros(len(keys), k.shape[-2], dtype=torch.bool)
    for i, row in enumerate(keys):
        mask[i, row[allowed[i]]] = True
    return mask


def table_through_a_mask(q, k, v, keys, allowed) -> Tensor:
    return _gathered(q, k, v, *_slots_of(_table_mask(k, keys, allowed), keys.shape[1]))


def table_by_rows(q, k, v, keys, allowed) -> Tensor:
    places = torch.arange(k.shape[-2])
    masks = [(places[:, None] == row[taken]).any(-1) for row, taken in zip(keys, allowed)]
    return torch.cat([attention(q[..., i : i + 1, :], k, v, mask=mask) for i, mask in enumerate(masks)], dim=-2)


def slots_masked_late(q, k, v, keys, allowed) -> Tensor:
    return _mix(_slots(q, k, keys).softmax(-1) * allowed, v, keys)


def slots_divided_again(q, k, v, keys, allowed) -> Tensor:
    weights = _slots(q, k, keys).softmax(-1) * allowed
    return _mix(weights / weights.sum(-1, keepdim=True), v, keys)


def table_for_one_batch_axis(q, k, v, keys, allowed) -> Tensor:
    """The first axis is taken for the batch, whatever it is."""
    rows = [_rows_of_one(q_b, k_b[keys], v_b[keys], allowed) for q_b, k_b, v_b in zip(q, k, v)]
    return torch.stack(rows)


def _rows_of_one(q, k, v, allowed) -> Tensor:
    scores = (k @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])
    return (scores.masked_fill(~allowed, -math.inf).softmax(-1)[..., None, :] @ v).squeeze(-2)


def emptied_by_another_slot(q, k, v, keys, allowed) -> Tensor:
    """A key is taken out where a slot that isn't allowed holds it too, as `mask.scatter_(1, keys, allowed)` may do."""
    named = ((keys[:, :, None] == keys[:, None]) & ~allowed[:, None]).any(-1)
    return _mix(_slots(q, k, keys).masked_fill(~allowed | named, -math.inf).softmax(-1), v, keys)


def first_slot_read(q, k, v, keys, allowed) -> Tensor:
    taken = allowed | (torch.arange(keys.shape[1]) == 0)
    return _mix(_slots(q, k, keys).masked_fill(~taken, -math.inf).softmax(-1), v, keys)


def values_in_order(q, k, v, keys, allowed) -> Tensor:
    weights = _slots(q, k, keys).masked_fill(~allowed, -math.inf).softmax(-1)
    return weights @ v[..., : keys.shape[1], :]


def keys_in_order(q, k, v, keys, allowed) -> Tensor:
    scores = q @ k[..., : keys.shape[1], :].mT / math.sqrt(q.shape[-1])
    return _mix(scores.masked_fill(~allowed, -math.inf).softmax(-1), v, keys)


def table_of_the_first_query(q, k, v, keys, allowed) -> Tensor:
    first = keys[:1].expand(keys.shape)
    return _mix(_slots(q, k, first).masked_fill(~allowed, -math.inf).softmax(-1), v, first)


def _table(n: int, m: int, c: int) -> tuple[RandomArg, RandomArg]:
    """c slots for each of n queries. The first key stands in the last slot once more, and one of these two slots is allowed, either one; each
    other is allowed more often than not."""

    def keys(generator) -> Tensor:
        table = torch.stack([torch.randperm(m, generator=generator)[:c] for _ in range(n)])
        table[:, -1] = table[:, 0]
        return table

    def allowed(generator) -> Tensor:
        table = torch.rand(n, c, generator=generator) < 0.6
        table[:, 0] |= c == 1
        table[:, 1:][:, -1:] = ~table[:, :1]
        return table

    return RandomArg(keys), RandomArg(allowed)


def listed_keys(
    n: int, m: int, c: int, d: int, d_v: int, batch: tuple = (), scale: float = 1.0, label: str = "", **limits: int
) -> Case:
    words = label or f"n = {n}, m = {m}, c = {c}" + (f", batch = {'×'.join(map(str, batch))}" if batch else "")
    return explicit_case(
        words,
        normal(*batch, n, d, scale=scale),
        normal(*batch, m, d, scale=scale),
        normal(*batch, m, d_v),
        *_table(n, m, c),
        **limits,
    )


def _half_of_them_long(generator: Generator) -> Tensor:
    """Queries (20, 4). Beside a long one a key in an empty slot may score a thousand more than all that are allowed."""
    queries = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    queries[10:] *= 4000
    return queries


gathered_attention = Check(
    reference=sparse.gathered_attention,
    cases=[
        listed_keys(5, 9, 4, 3, 2), as_float64(listed_keys(6, 8, 3, 4, 5, batch=(2, 3))), listed_keys(4, 7, 5, 6, 3, scale=2.0, label="large scores"),
        listed_keys(300, 350, 8, 4, 3, label="n = 300, m = 350, c = 8: counted, O(n c d)",
                max_flops=2 * 2 * 300 * 8 * 7, max_elements=2 * 300 * 8 * 4),
        with_a_token_of_zeros(listed_keys(8, 5, 3, 4, 2, label="more queries than keys")), listed_keys(4, 7, 1, 3, 2, label="one slot for each query"),
        explicit_case("scores of a thousand and more", whole(24, 4, most=40), whole(8, 4, most=40), normal(8, 3), *_table(24, 8, 4)),
        explicit_case("scores near −30,000, in float64", *far_below(7, 8, 3), *_table(7, 8, 5)),
        explicit_case("n = 20, m = 40, c = 3: gradients, in float64, half of the queries thousands long", RandomArg(_half_of_them_long),
              *(normal(*shape, dtype=torch.float64) for shape in ((40, 4), (40, 3))),
              *_table(20, 40, 3), gradient=True, max_backward_elements=2 * 20 * 3 * 4),
    ],
    misconceptions=[
        Misconception(
            "a hidden n × m matrix", lambda q, k, v, keys, allowed: attention(q, k, v, mask=_table_mask(k, keys, allowed)),
            "You compute all scores and throw most of them away. `k[..., keys, :]` gathers the c keys of every query first: (…, n, c, d).",
            cost=scores_of_all_pairs,
        ),
        Misconception("keys gathered from an expanded view", gathered_from_a_view, EXPANDED_HINT, cost=square_on_the_way_back),
        Misconception(
            "a table of all pairs beside the scores", table_through_a_mask,
            "The scores are few, but you also make a table of all n × m pairs. You don't need it: row i of `keys` lists the keys of query i.",
            cost=square_made,
        ),
        Misconception(
            "every key scored, piece by piece", table_by_rows,
            "You never store an n × m matrix, but each query still scores all m keys, so the work is O(n m d). Gather the c keys of each query first: "
            "`k[..., keys, :]`.",
            cost=all_pairs_scored,
        ),
        Misconception(
            "empty slots that take part", lambda q, k, v, keys, allowed: _mix(_slots(q, k, keys).softmax(-1), v, keys),
            "Where `allowed` is False the slot holds no key, only some number to fill the table. Give it a score of −∞.",
        ),
        Misconception(
            "empty slots with score 0", lambda q, k, v, keys, allowed: _mix((_slots(q, k, keys) * allowed).softmax(-1), v, keys),
            "A score of 0 still gets a share of the attention, since e⁰ = 1. Give empty slots −∞.",
        ),
        Misconception(
            "zeros taken for empty slots", zeros_taken_for_empty,
            "A key may be at a right angle to its query, or all zeros: its score is 0, and it still gets its share. Which slots are empty is in `allowed`, not in "
            "the scores or the keys.",
        ),
        Misconception(
            "an empty slot that takes away a key", emptied_by_another_slot,
            "The number in an empty slot means nothing. It can be that of a key which another slot of the row allows, and you hide that key. A row that "
            "loses its only key is NaN. Mask slots, not keys.",
        ),
        Misconception(
            "the first slot read, allowed or not", first_slot_read,
            "Slots that are not allowed may be anywhere in a row, in front too. Ask `allowed` for each of them.",
        ),
        Misconception(
            "masked after the softmax", slots_masked_late,
            "The empty slots have taken their share already, so the rest doesn't sum to 1. Mask the scores, then take the softmax.",
        ),
        Misconception(
            "the mask turned round",
            lambda q, k, v, keys, allowed: _mix(_slots(q, k, keys).masked_fill(allowed, -math.inf).softmax(-1), v, keys),
            "`masked_fill` fills where the mask is True, and `allowed` is True where a query *may* read: fill where it is not allowed.",
        ),
        Misconception(
            "values taken in order", values_in_order,
            "Slot s of query i is key `keys[i, s]`, so its value is `v[keys[i, s]]`, not `v[s]`. Gather them with `v[..., keys, :]`.",
        ),
        Misconception(
            "keys taken in order", keys_in_order,
            "Slot s of query i is key `keys[i, s]`, not key s. Gather them with `k[..., keys, :]`.",
        ),
        Misconception(
            "the first query's keys for all", table_of_the_first_query,
            "Row i of the table belongs to query i. Every query has a list of its own.",
        ),
        Misconception(
            "softmax over the queries",
            lambda q, k, v, keys, allowed: _mix(_slots(q, k, keys).masked_fill(~allowed, -math.inf).softmax(-2), v, keys),
            "Each query shares its attention out over its own c slots: the last axis of (…, n, c).",
        ),
        Misconception(
            "no scale", lambda q, k, v, keys, allowed: _mix(
                (_slots(q, k, keys) * math.sqrt(q.shape[-1])).masked_fill(~allowed, -math.inf).softmax(-1), v, keys),
            "Each score is still a dot product of d terms: divide it by √d before the softmax.",
        ),
        Misconception(
            "keys clamped to the number of queries",
            lambda q, k, v, keys, allowed: sparse.gathered_attention(q, k, v, keys.clamp(0, q.shape[-2] - 1), allowed),
            "The numbers in `keys` run from 0 to m − 1, and you cut them to n − 1. All are valid: no clamp is needed.",
        ),
        Misconception(
            "the allowed slots expected first",
            lambda q, k, v, keys, allowed: sparse.gathered_attention(q, k, v, keys, allowed.sort(dim=-1, descending=True).values),
            "Slots that are not allowed may be anywhere in a row, not only at its end. Use `allowed` for each slot, not only how many there are.",
        ),
        Misconception(
            "scaled by the width of the values",
            lambda q, k, v, keys, allowed: sparse.gathered_attention(scaled_by_values(q, v), k, v, keys, allowed), VALUES_HINT,
        ),
        Misconception(
            "a finite number for the empty slots", lambda q, k, v, keys, allowed: _gathered(q, k, v, keys, allowed, hidden=-1e4),
            SOFT_HINT, hidden_too_softly(sparse.gathered_attention),
        ),
        Misconception(
            "masked after the softmax, then divided again", slots_divided_again,
            "The softmax has subtracted the largest score of the row, whether its slot is allowed or not. If the allowed scores are far below that one, "
            "their weights are all 0, and dividing by their sum is 0/0 = NaN. Mask the scores, then take the softmax.",
        ),
        Misconception(
            "the softmax's axis counted from the front", lambda q, k, v, keys, allowed: _gathered(q, k, v, keys, allowed, axis=1), AXIS_HINT,
        ),
        Misconception(
            "one maximum for all rows", lambda q, k, v, keys, allowed: _mix(one_maximum(_slots(q, k, keys), allowed), v, keys), MAXIMUM_HINT,
        ),
        Misconception(
            "exponentials out of range", lambda q, k, v, keys, allowed: _mix(_powers(_slots(q, k, keys), allowed), v, keys), POWERS_HINT, overflowed
        ),
        Misconception(
            "indexed with exactly one batch axis in mind", table_for_one_batch_axis,
            "`k[:, keys]`, or `k[b]` in a loop, is right for exactly one batch axis. Without a batch the second axis is that of the features, and with "
            "two it is still a batch axis. `k[..., keys, :]` works for all.",
            raises="IndexError",
        ),
        power_before_division(sparse.gathered_attention),
        in_single_precision(sparse.gathered_attention),
        written_for_one_batch_axis(sparse.gathered_attention),
        written_without_a_batch(sparse.gathered_attention),
    ],
)  # fmt: skip

strided_sparse = CheckGroup("strided_sparse", strided_keys, gathered_attention)
