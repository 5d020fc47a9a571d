"""When two answers count as the same, and how to say in which way they differ."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

# (relative, absolute). Wider than torch.testing's own by a factor of about 50: a loop over keys and a matrix product
# round differently, and expected values are computed in float64. That of float64 is narrower than float32 can round: an
# answer that computes in float32 on the way is found.
TOLERANCE = {
    torch.float64: (1e-9, 1e-11),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (1e-2, 2e-3),
    torch.bfloat16: (5e-2, 1e-2),
}


def tolerance(inputs: Any) -> tuple[float, float]:
    """The tolerance of the least precise floating-point tensor in `inputs`; that of float32 where there is none."""
    dtypes = [leaf.dtype for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    return max((TOLERANCE[dtype] for dtype in dtypes), default=TOLERANCE[torch.float32])


def agree(got: Any, expected: Any, within: tuple[float, float]) -> bool:
    """Whether `got` has the structure, the shapes and, within tolerance, the values of `expected`."""
    if isinstance(expected, (tuple, list)):
        return (
            isinstance(got, (tuple, list))
            and len(got) == len(expected)
            and all(agree(g, e, within) for g, e in zip(got, expected, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(agree(got[key], expected[key], within) for key in expected)
        )
    if is_number(expected) or isinstance(expected, Tensor):
        return _same_shape_and_kind(got, expected) and _close(got, expected, within)
    return type(got) is type(expected) and got == expected


def as_tensor(value: Any) -> Tensor:
    """A tensor, or a plain number as one, in float64; a whole number that is too large for that becomes infinite."""
    if is_number(value):
        return torch.tensor(
            float(value) if not isinstance(value, int) or abs(value) < 1e300 else math.inf, dtype=torch.float64
        )
    return torch.as_tensor(value)


def in_float64(leaf: Any) -> Any:
    """A floating-point tensor in float64; anything else as it is."""
    return leaf.to(torch.float64) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


RETURNS_NOTHING = "Your function returns nothing. Is there a `return`?"


class Message(str):
    """What a check says of an answer in its own words, as part of the output: on a card it stands as it is."""


def is_number(value: Any) -> bool:
    """Whether `value` is a plain number (a truth value is none)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_shape_and_kind(got: Any, expected: Any) -> bool:
    if not (is_number(got) or isinstance(got, Tensor)):
        return False
    got, expected = as_tensor(got), as_tensor(expected)
    return got.shape == expected.shape and same_kind_of_numbers(got, expected)


def same_kind_of_numbers(got: Tensor, expected: Tensor) -> bool:
    """Truth values where truth values are expected, whole numbers where whole numbers are (a float may come as a whole
    number), and those wide enough."""
    whole = not expected.is_floating_point() and expected.dim() > 0
    return (got.dtype == torch.bool) == (expected.dtype == torch.bool) and not (
        whole and (got.is_floating_point() or _narrow(got, expected))
    )


def _narrow(got: Tensor, expected: Tensor) -> bool:
    """Whether whole numbers come in fewer than 32 bits, and are not asked for in so few: they are right only as long as
    they are small."""
    if got.is_floating_point() or got.dtype == torch.bool:
        return False
    return got.dtype.itemsize < min(expected.dtype.itemsize, torch.int32.itemsize)


def _close(got: Any, expected: Any, within: tuple[float, float]) -> bool:
    got, expected = as_tensor(got), as_tensor(expected)
    if got.layout != torch.strided or got.is_quantized or got.is_complex():
        return False
    got, expected = got.cpu().to(torch.float64), expected.to(torch.float64)
    return torch.allclose(got, expected, rtol=within[0], atol=within[1], equal_nan=True)


def difference(
    got: Any, expected: Any, within: tuple[float, float] = TOLERANCE[torch.float32], names: Sequence[str] = ()
) -> str:
    """One sentence about how `got` differs from `expected`, in the words of a patient colleague; "" if it cannot tell.

    names: of the values, where several are expected."""
    if got is None:
        return RETURNS_NOTHING
    if isinstance(expected, (tuple, list)):
        return _sequence_difference(got, expected, within, names)
    if isinstance(expected, dict):
        return _dict_difference(got, expected, within)
    if isinstance(got, Message):
        return f"{got[:1].upper()}{got[1:]}."
    if isinstance(expected, bool) or isinstance(expected, str):
        return f"You answered {got!r}."
    if not isinstance(got, Tensor) and isinstance(expected, Tensor) and not (is_number(got) and expected.dim() == 0):
        return f"Your function returns {_kind(got)}, and a torch tensor is expected."
    if not (isinstance(got, Tensor) or is_number(got)):
        return f"Your function returns {_kind(got)}, and a number is expected."
    if is_number(expected) and is_number(got):
        return (
            f"You have {in_words(got, expected)}, and {in_words(expected, got)} is expected.{_wrapped(got, expected)}"
        )
    return _tensor_difference(as_tensor(got).detach().cpu(), as_tensor(expected), within)


def _wrapped(got: Any, expected: Any) -> str:
    """Of a whole number that 64 bits don't hold."""
    whole = isinstance(got, int) and isinstance(expected, int) and abs(expected) >= 2**63
    if not whole or got == expected or (got - expected) % 2**64:
        return ""
    return (
        " They differ by a multiple of 2⁶⁴: whole numbers of 64 bits, as tensors and NumPy hold them, have run over. "
        "Python's own `int` has no limit."
    )


def not_the_answer(got: Any, expected: Any, within: tuple[float, float]) -> str:
    """One sentence about a wrong choice, which doesn't tell the right one."""
    if got is None:
        return RETURNS_NOTHING
    if isinstance(expected, (tuple, list)) and isinstance(got, (tuple, list)) and len(got) == len(expected):
        if all(type(one) is int for one in (*got, *expected)):  # which ones, not in which place
            alien = len(set(got) - set(expected))
            missing = f"{alien} of your {len(got)} numbers should not be there, and as many are missing."
            return missing if alien else f"Your {len(got)} numbers should stand in another order."
        wrong = [str(i) for i, (g, e) in enumerate(zip(got, expected, strict=True), start=1) if not agree(g, e, within)]
        return (
            f"Of your {len(got)} answers, number {' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} not right."
        )
    return f"You answered {got!r}, and that is not right."


def in_words(number: float, other: float = 0.0) -> str:
    """A number as one would write it: whole ones whole, others with six digits, or as many as tell it from `other`."""
    if isinstance(number, int) or (math.isfinite(number) and number == int(number) and abs(number) < 1e15):
        return str(int(number)) if abs(number) < 10**40 else f"about 10^{math.log10(abs(number)):.0f}"
    digits = next((n for n in range(6, 18) if f"{number:.{n}g}" != f"{other:.{n}g}"), 6)
    return f"{number:.{digits}g}"


def _sequence_difference(got: Any, expected: Any, within: tuple[float, float], names: Sequence[str]) -> str:
    if not isinstance(got, (tuple, list)):
        return f"Your function returns {_kind(got)}, and {len(expected)} values are expected."
    if len(got) != len(expected):
        words = f"Your function returns {len(got)} value{'s' * (len(got) != 1)}, and {len(expected)} are expected."
        if 0 < len(got) < len(expected) and agree([*got], [*expected[: len(got)]], within):
            words += " As far as they go they are right: does a loop end too early?"
        return words
    right = [agree(g, e, within) for g, e in zip(got, expected, strict=True)]
    if all(right):
        return ""
    named = len(names) == len(expected)
    first = right.index(False)
    called = names[first] if named else f"Value {first + 1} of {len(expected)}"
    words = difference(got[first], expected[first], within)
    if isinstance(got[first], Message):
        return words
    well = [names[i] if named else f"{i + 1}" for i, is_right in enumerate(right) if is_right]
    place = _place_of(got[first], expected, first, within)
    if place is not None:
        other = names[place] if named else f"value {place + 1}"
        words = f"That is what {other} should be. Is the order another one? {words}"
    return f"{_right_ones(well, named)}{called}: {words}"


def _place_of(got: Any, expected: Sequence, first: int, within: tuple[float, float]) -> int | None:
    """Where else a value that is off would be right."""
    tells = isinstance(got, Tensor) and got.dtype != torch.bool and got.numel() > 1
    others = (place for place, one in enumerate(expected) if place != first and agree(got, one, within))
    return next(others, None) if tells else None


def _right_ones(which: Sequence[str], named: bool) -> str:
    """What is right is said first: by name, or by number."""
    if not which:
        return ""
    several = len(which) > 1
    return f"{'' if named else 'Values ' if several else 'Value '}{listed(which)} {'are' if several else 'is'} right. "


def listed(words: Sequence[str]) -> str:
    """Some words in a row: "q, k and v"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _dict_difference(got: Any, expected: dict, within: tuple[float, float]) -> str:
    if not isinstance(got, dict):
        return f"Your function returns {_kind(got)}, and a dict with {', '.join(map(repr, expected))} is expected."
    if missing := [key for key in expected if key not in got]:
        return f"{missing[0]!r} is missing from your dict."
    if more := [key for key in got if key not in expected]:
        return f"Your dict has {more[0]!r}, which is not asked for."
    wrong = next((key for key in expected if not agree(got[key], expected[key], within)), None)
    return "" if wrong is None else f"{wrong!r} is off. {difference(got[wrong], expected[wrong], within)}"


def _kind(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def _tensor_difference(got: Tensor, expected: Tensor, within: tuple[float, float]) -> str:
    if got.shape != expected.shape:
        return f"Your output has shape {tuple(got.shape)}, and {tuple(expected.shape)} is expected." + _turned(
            got, expected
        )
    if got.layout != torch.strided or got.is_quantized:
        return "Your output is a sparse or quantized tensor, and an ordinary one is expected."
    if got.is_complex():
        return "Your output is complex, and real numbers are expected."
    if not same_kind_of_numbers(got, expected):
        if _narrow(got, expected):
            wanted = "torch.int64 or torch.int32 is expected: large numbers need their bits"
            return f"Your output has dtype {got.dtype}, and {wanted}."
        return f"Your output has dtype {got.dtype}, and {expected.dtype} is expected."
    return _not_finite(got, expected) or _value_difference(got, expected, within)


def _not_finite(got: Tensor, expected: Tensor) -> str:
    if got.isnan().any() and not expected.isnan().any():
        return (
            f"{int(got.isnan().sum())} of the {got.numel()} values of your output are NaN{_where(got.isnan())} "
            "(0/0, 0 · ∞, ∞/∞ and ∞ − ∞ are NaN)."
        )
    if got.isinf().any() and not expected.isinf().any():
        signs = " or ".join(word for word, sign in (("∞", 1), ("−∞", -1)) if (got == sign * math.inf).any())
        return (
            f"{int(got.isinf().sum())} of the {got.numel()} values of your output are infinite ({signs}), and finite "
            f"ones are expected{_where(got.isinf())}."
        )
    return ""


def _value_difference(got: Tensor, expected: Tensor, within: tuple[float, float]) -> str:
    if got.dtype == torch.bool:
        wrong = got != expected
        first = wrong.nonzero()[0].tolist()
        return f"{int(wrong.sum())} of {wrong.numel()} entries are wrong{_where(wrong)}; the first is at {first}."
    got, expected = got.to(torch.float64), expected.to(torch.float64)
    return _factor(got, expected) or _furthest(got, expected, within)


def _turned(got: Tensor, expected: Tensor) -> str:
    if (
        got.dim() >= 2
        and got.mT.shape == expected.shape
        and torch.allclose(got.mT.double(), expected.double(), 1e-4, 1e-5)
    ):
        return " It is the expected one with its last two axes swapped."
    return ""


def _factor(got: Tensor, expected: Tensor) -> str:
    """A wrong scale is the commonest slip of all: say the factor."""
    size = (expected * expected).sum()
    if expected.numel() < 2 or not size > 0:
        return ""
    factor = (got * expected).sum() / size  # the best one, by least squares
    telling = abs(factor) > 1e-3 and f"{factor:.3g}" != "1"  # what is next to nothing is no multiple
    if telling and torch.allclose(got, factor * expected, rtol=1e-3, atol=1e-5):
        return f"Every value of your output is {factor:.4g} times the expected one."
    return ""


def _furthest(got: Tensor, expected: Tensor, within: tuple[float, float]) -> str:
    if got.dim() == 0:
        yours, wanted = got.item(), expected.item()
        return f"You have {in_words(yours, wanted)}, and {in_words(wanted, yours)} is expected."
    wrong = ~torch.isclose(got, expected, rtol=within[0], atol=within[1], equal_nan=True)
    gap = (got - expected).abs().nan_to_num(torch.inf).where(wrong, torch.tensor(-1.0, dtype=torch.float64))
    place = tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
    mine, right = (in_words(float(f"{x[place].item():.4g}")) for x in (got, expected))
    if mine == right:
        mine, right = (
            in_words(got[place].item(), expected[place].item()),
            in_words(expected[place].item(), got[place].item()),
        )
    return (
        f"{int(wrong.sum())} of {wrong.numel()} values are off{_where(wrong)}; the furthest, at {list(place)}, "
        f"is {mine} where {right} is expected."
    )


def _where(wrong: Tensor) -> str:
    """In which slice of a table all of them lie, ", all of them in [:, 0:2]"; "" where all rows and columns have
    some."""
    if wrong.sum() < 2:
        return ""  # the place of one is told anyway
    slices = [_slice(wrong.movedim(axis, 0).reshape(size, -1).any(1)) for axis, size in enumerate(wrong.shape)]
    while slices and slices[-1] == ":":
        slices.pop()
    return f", all of them in [{', '.join(slices)}]" if slices else ""


def _slice(hit: Tensor) -> str:
    """The places that are hit, as an index or a slice: one after another, or evenly spaced; ":" where no slice smaller
    than all has them."""
    places = hit.nonzero().flatten().tolist()
    first, last, step = places[0], places[-1], (places[1] - places[0] if len(places) > 2 else 1)
    if len(places) == hit.numel() or places != list(range(first, last + 1, step)):
        return ":"
    if first == last:
        return str(first)
    stop = "" if last + step >= hit.numel() else last + 1
    return f"{first}:{stop}" + f":{step}" * (step > 1)
