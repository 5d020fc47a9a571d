"""Checks of attention that leaves pairs out. Outputs are compared, and the work is counted: a hidden n × n is found."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, normal
from helpers.engine.check import Misconception
from helpers.engine.common_misconceptions import attention
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation

from .. import sparse


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

MAXIMUM_HINT = (
    "In a row whose scores all lie far below that maximum every exponential is 0, and 0/0 is NaN. Subtract each row's own maximum: `amax(dim=-1, "
    "keepdim=True)`."
)

AXIS_HINT = (
    "`dim=1` is the last axis only without a batch. With a batch it is another axis. Count from the end: `dim=-1`."
)

IN_PLACE_HINT = (
    "Autograd had kept a tensor for the backward pass, and `+=`, `*=`, `[…] =` or a method with `_` at its end changed it afterwards. Make a new one "
    "instead, as in `state = state + …`."
)

VALUES_HINT = "A score is a sum of d products, so it is divided by √d. The width of the values plays no role."


def _banded(q, k, v, low, high) -> Tensor:
    """Token i reads the keys i − low … i + high."""
    gap = _gap(q.shape[-2])
    return attention(q, k, v, mask=(gap <= low) & (gap >= -high))
