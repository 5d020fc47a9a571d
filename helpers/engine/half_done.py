"""Half done: what an output shows of work that was only begun, in any exercise. A sentence says what is seen, in every
case that went wrong, and asks where it may come from."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .anti_gaming import same
from .axes import axes_of
from .case_result import CaseResult
from .compare import TOLERANCE, agree, is_number, tolerance
from .on_the_way import adds_up, on_the_way, sums_to_1

SAME = (
    "Your function gives the same numbers whatever it is given. Are they those of an example, or to be filled in later?"
)
EMPTY = "What is off is {} everywhere. Is it made, and then not filled in?"
ONE_OF = "What you return is right, but it is only the {}, one of {} values."
GIVEN = "Your function returns `{}` as it came in."
REST = "Where your output is off it is 0, and the rest is right. Is that part never filled in?"
ROUNDED = (
    "Your output is right to about seven digits only, where the inputs have sixteen: on the way it is in float32. "
    "`torch.zeros(…)`, `torch.tensor(0.5)` and `.float()` make that of float64; `dtype=x.dtype` keeps what comes."
)
SHARES = (
    "What you return sums to 1 along its last axis, as weights do, and what is expected doesn't. Is the softmax your "
    "last step, where it should come before another one?"
)
STACK = "The {} that you return holds the right numbers: `torch.{}`{} makes one tensor of it."
PART = {
    (
        "alone",
        0,
    ): "What you return is right, but it is only the first {}. Is a `return` inside a loop, or the rest yet to come?",
    ("alone", -1): "What you return is right, but it is only the last {}. Does each round of a loop overwrite the "
    "one before, or is the rest yet to come?",
    ("begun", 0): "What you return is right as far as it goes, but it is only some {}. Is a `return` inside a loop, or "
    "the rest yet to come?",
    ("filled", 0): "Only the first {} is filled in, and right; the others are all {}. Does a loop end after one "
    "round? A `return` inside it ends it.",
    ("filled", -1): "Only the last {} is filled in, and right; the others are all {}. Is the tensor for the results "
    "made anew in each round of a loop?",
}
Part = tuple[str, int, int]  # how, which one, and of which axis, counted from the front or from the end


def half_done(check: Any, trials: list[CaseResult], failed: list[CaseResult]) -> str:
    """What all outputs that are wrong show; "" where they don't show the same, or nothing is known of it."""
    ended = [trial for trial in failed if not trial.seen.error]
    if check.quiz or not check.compare or not all(map(is_dense, tree_leaves([trial.seen.output for trial in ended]))):
        return ""
    pairs = [list(_wrong_pairs(check, trial)) for trial in ended]
    if not pairs or not all(pairs) or all(trial.hidden for trial in ended):
        return ""
    every = [pair for some in pairs for pair in some]
    if len(ended) < len(failed):  # some calls stopped: then outputs are evidence of one kind alone
        return _part(check, every) if len(ended) > 1 else ""
    seen_first = [pair for pair in every if not pair[2].hidden][:1]
    return (
        _empty(trials, every)
        or SAME * _is_written_in(check, trials)
        or _given(check, failed)
        or _part(check, every)
        or _one_value(check, failed)
        or REST
        * (len(every) > 1 and any(map(_tells_more, every)) and all(_is_rest_zero(check, *pair) for pair in every))
        or ROUNDED * all(_is_rounded(check, *pair) for pair in every)
        or _unjoined(check, every)
        or (on_the_way(check, every) if len(failed) == len(trials) else "")
        or SHARES * _are_shares(every)
        or _part(check, seen_first) * _is_large(seen_first)
    )


def is_dense(leaf: Any) -> bool:
    """Whether it is no tensor, or an ordinary one."""
    if not isinstance(leaf, Tensor):
        return True
    return leaf.layout == torch.strided and not (leaf.is_quantized or leaf.is_complex() or leaf.is_meta)


def _wrong_pairs(check: Any, trial: CaseResult) -> Iterator[tuple[Any, Any, CaseResult]]:
    """(yours, expected, case) of the parts of an output that are off; of an output of another form, of all of it."""
    got, want = trial.seen.output, trial.expected
    if isinstance(got, dict) and isinstance(want, dict) and got.keys() == want.keys():
        rows = [key for key in want if key not in getattr(check, "follows", ())]  # a sum of others is no row of its own
        got, want = (tuple(tree_leaves([one[row] for row in rows])) for one in (got, want))
    alike = isinstance(got, (tuple, list)) and isinstance(want, (tuple, list)) and len(got) == len(want)
    for mine, right in zip(got, want, strict=True) if alike else ((got, want),):
        if not check.agrees(mine, right, trial.seen.args):
            yield mine, right, trial


def _is_written_in(check: Any, trials: list[CaseResult]) -> bool:
    """Whether different inputs, for which different outputs are right, all have one output."""
    first, *others = ([*map(_number, tree_leaves(trial.seen.output))] for trial in trials)
    if not first or None in first or not others or not trials[0].seen.args:
        return False
    wants = (check.agrees(trial.expected, trials[0].expected, trial.seen.args) for trial in trials)
    return not all(wants) and all(len(first) == len(other) and all(map(same, first, other)) for other in others)


def _number(leaf: Any) -> Any:
    return leaf if isinstance(leaf, (Tensor, int, float)) else None


def _empty(trials: list[CaseResult], pairs: list[tuple]) -> str:
    """All outputs hold zeros alone, or nothing but NaN, and none should. (Of several, it is those that are off.)"""
    leaves = [(trial.seen.output, trial.expected) for trial in trials]
    if not all(isinstance(one, Tensor) for pair in leaves for one in pair):
        leaves = [pair[:2] for pair in pairs]
    if not all(map(_has_shape, (*pairs, *leaves))):
        return ""
    if all(bool(got.isnan().all()) for got, _ in leaves) and not any(bool(want.isnan().any()) for _, want in leaves):
        return EMPTY.format("NaN")
    if any(bool(got.any()) or not bool(want.any()) for got, want in leaves):
        return ""
    return EMPTY.format("False" if leaves[0][0].dtype == torch.bool else "0")


def _has_shape(pair: tuple) -> bool:
    return isinstance(pair[0], Tensor) and isinstance(pair[1], Tensor) and pair[0].shape == pair[1].shape


def _given(check: Any, failed: list[CaseResult]) -> str:
    """All wrong outputs are the same one of the arguments."""
    parameters = [] if check.drive else inspect.signature(check.reference).parameters.values()
    names = [f"{one.name}[0]" if one.kind is one.VAR_POSITIONAL else one.name for one in parameters]
    for place, name in enumerate(names):
        given = [trial.seen.args[place] for trial in failed if place < len(trial.seen.args)]
        alike = len(given) == len(failed) and all(isinstance(one, Tensor) and one.numel() > 1 for one in given)
        if alike and all(map(same, given, (trial.seen.output for trial in failed))):
            return GIVEN.format(name)
    return ""


def _part(check: Any, pairs: list[tuple]) -> str:
    """In all outputs the same place along an axis is right, and nothing else is there."""
    found = [dict(_parts(check, *pair)) for pair in pairs]
    parts = [part for part in found[0] if all(part in other for other in found)]
    parts = [part for part in parts if any(_tells(want, *part[1:]) for _, want, _ in pairs)]
    if not parts:
        return ""
    names = dict(enumerate(reversed(axes_of(check.reference, pairs[0][1])), start=1))
    called = [f"of the {names[-axis]}" if -axis in names else f"places of axis {axis}" for *_, axis in parts]
    best = next((place for place, one in enumerate(parts) if -one[2] in names), 0)
    return PART[parts[best][:2]].format(called[best], _brief(found[0][parts[best]]))


def _brief(fill: Any) -> str:
    return f"{fill:g}" if isinstance(fill, float) else str(fill)


def _parts(check: Any, got: Any, want: Any, trial: CaseResult) -> Iterator[tuple[Part, Any]]:
    """Each such place, and what fills the others."""
    if not (isinstance(got, Tensor) and isinstance(want, Tensor)):
        return
    agrees = lambda one, other: _nearly(check, one, other, trial)
    for axis, size in enumerate(want.shape):
        for which in (0, -1):
            right, rest = want.select(axis, which), _rest(want, axis, which)
            if agrees(got, right) or (size > 1 and agrees(got, right.unsqueeze(axis))):
                how, fill = "alone", None
            elif which == 0 and _is_beginning(agrees, got, want, axis):
                how, fill = "begun", None
            elif size > 1 and _is_filled(agrees, got, want, axis, which):
                fill = _rest(got, axis, which).flatten()[0].item()
                how = "filled" * bool((rest != fill).any())
            else:
                continue
            for counted in (axis, axis - want.dim()) if how else ():
                yield (how, which, counted), fill


def _is_beginning(agrees: Callable, got: Tensor, want: Tensor, axis: int) -> bool:
    """Whether some of the places along an axis are there, from the first one on, and no others."""
    fits = got.dim() == want.dim() and 1 < got.shape[axis] < want.shape[axis]
    return fits and agrees(got, want.narrow(axis, 0, got.shape[axis]))


def _nearly(check: Any, got: Any, want: Any, trial: CaseResult) -> bool:
    """Within float32's tolerance too: who makes a tensor to fill in seldom thinks of its dtype."""
    return agree(got, want, max(check.tolerated(trial.seen.args), TOLERANCE[torch.float32]))


def _is_filled(agrees: Callable, got: Tensor, want: Tensor, axis: int, which: int) -> bool:
    """Whether this place alone is right, and the others hold one number."""
    alike = got.shape == want.shape and agrees(got.select(axis, which), want.select(axis, which))
    return alike and len(_rest(got, axis, which).unique()) == 1


def _tells(want: Tensor, which: int, axis: int) -> bool:
    """Whether a place along an axis holds something, and not what all others hold."""
    return bool(want.select(axis, which).any() and (want != want.select(axis, which).unsqueeze(axis)).any())


def _tells_more(pair: tuple) -> bool:
    """Whether something beside zeros was returned, in this output or beside it."""
    return is_number(pair[0]) or (isinstance(pair[0], Tensor) and bool(pair[0].any()))


def _is_rest_zero(check: Any, got: Any, want: Any, trial: CaseResult) -> bool:
    """Whether numbers are right, some of them not 0, or 0 where they should not be."""
    if is_number(got) and isinstance(trial.expected, (dict, tuple)):
        return got == 0
    if not _has_shape((got, want)) or got.dtype == torch.bool:
        return False
    filled = torch.where(got == 0, want, got)
    return _nearly(check, filled, want, trial) and not _nearly(check, got, want, trial)


def _is_rounded(check: Any, got: Any, want: Any, trial: CaseResult) -> bool:
    """Whether float32 alone stands between an output and the right one, in float64."""
    precise = tolerance(trial.seen.args) == TOLERANCE[torch.float64]
    return _has_shape((got, want)) and precise and _nearly(check, got, want, trial)


def _is_large(pairs: list[tuple]) -> bool:
    """Whether one output alone would hardly be right in part by chance."""
    return bool(pairs) and isinstance(pairs[0][1], Tensor) and pairs[0][1].numel() > 3


def _are_shares(pairs: list[tuple]) -> bool:
    """Whether outputs are made of weights, where others are expected than weights. (A single number tells nothing.)"""
    tables = [(got, want) for got, want, _ in pairs if all(map(_is_table, (got, want)))]
    alike = bool(tables) and all(_is_table(x) or isinstance(x, Tensor) for pair in pairs for x in pair[:2])
    return alike and all(sums_to_1(got) and not adds_up(want) for got, want in tables)


def _is_table(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and x.numel() > 0 and x.dim() > 0 and x.shape[-1] > 1


def _rest(x: Tensor, axis: int, which: int) -> Tensor:
    """All places along an axis but the first one or the last."""
    return x.narrow(axis, 1 if which == 0 else 0, x.shape[axis] - 1)


def _one_value(check: Any, failed: list[CaseResult]) -> str:
    """One value is returned where several are expected, the same one each time."""
    counts = {len(trial.expected) if isinstance(trial.expected, tuple) else 0 for trial in failed}
    count = counts.pop()
    if counts:
        return ""
    right = [
        place
        for place in range(count)
        if all(_nearly(check, trial.seen.output, trial.expected[place], trial) for trial in failed)
    ]
    named = (
        [name for name, _ in check.names]
        if len(check.names) == count
        else [f"value number {i + 1}" for i in range(count)]
    )
    return ONE_OF.format(named[right[0]], count) if len(right) == 1 else ""


def _unjoined(check: Any, pairs: list[tuple]) -> str:
    """Lists that need only be joined."""
    ways = [list(_joinings(check, *pair)) for pair in pairs]
    way = next((way for way in ways[0] if all(way in other for other in ways)), None)
    return STACK.format(type(pairs[0][0]).__name__, *way) if way else ""


def _joinings(check: Any, got: Any, want: Any, trial: CaseResult) -> Iterator[tuple[str, str]]:
    """What makes the right tensor of a list, and along which axis."""
    if not (isinstance(want, Tensor) and isinstance(got, (list, tuple)) and got):
        return
    ways: list[tuple[str, str, Callable]] = [("tensor", "", lambda: torch.tensor(got))]
    for axis in range(-want.dim(), 0):
        ways.append(("stack", f" along axis {axis}", lambda axis=axis: torch.stack(list(got), dim=axis)))
        ways.append(("cat", f" along axis {axis}", lambda axis=axis: torch.cat(list(got), dim=axis)))
    for name, along, join in ways:
        try:
            joined = join()
        except Exception:  # entries of other kinds or shapes
            continue
        if _nearly(check, joined, want, trial):
            yield name, along
