"""How fast a cost grows: its exponent in every size, fitted at large sizes, where constants and smaller terms vanish.

Square one size, s → s², and hold the others. A factor s^e grows by s^e, and that tells the exponent (to the nearest ½).
What is left is a constant, or a power of log s, perhaps with a constant beside it: 256 + log s grows like log s, though
at s = 2^100 the constant is the larger. So √s is asked as well. From √s to s and on to s² each step of (log s)^p is 2^p
times the one before, whatever stands beside it.

Something can be fitted to anything, to log(n / k) and to n^⅓ as well. So a fit is told only if it explains the costs
that it came from.
"""

import itertools
import math
from collections.abc import Callable, Sequence

LEAST = 1e-4  # steps of 1 %: what moves less is a smaller power of s on its way out, or rounding

INFINITE, NO_NUMBER, NO_PRODUCT = (
    "no number (it is infinite)",
    "no positive number",
    "no product of powers and logarithms",
)

Powers = tuple[float, int]  # the exponent of a size, and the power of its logarithm


class NoProduct(ValueError):
    """Costs that no product of powers and logarithms explains."""


def growth(cost: Callable[..., float], sizes: dict[str, float]) -> dict[str, Powers]:
    """Size → (exponent, power of its logarithm) of `cost(*sizes)` around these sizes. Take large ones, far apart.

    ValueError where the cost is no positive number, OverflowError where it is infinite, NoProduct where nothing fits.
    """
    base = math.log2(_positive(cost(*sizes.values())))
    found = {}
    for name, size in sizes.items():
        others = (_positive(cost(*(sizes | {name: other}).values())) for other in (math.sqrt(size), size**2))
        root, squared = (math.log2(other) - base for other in others)
        found[name] = _powers(-root, squared, math.log2(size))
    for name, other in itertools.permutations(sizes, 2):
        _is_factor(cost, sizes, found, name, other)
    return found


def _powers(before: float, gained: float, bits: float) -> Powers:
    """From the bits gained from √s to s, and from s to s², for a size s of 2^bits; a logarithm is worth 1."""
    exponent = round(2 * gained / bits) / 2
    before, gained = before - exponent * bits / 2, gained - exponent * bits
    return exponent, _logarithms(1 - 2**-before, 2**gained - 1)


def _logarithms(step: float, next_step: float) -> int:
    """The power of the logarithm, from two steps of what is left beside the power of s; 0 if what is left vanishes."""
    if abs(next_step) < LEAST or 0 <= step * next_step < LEAST:
        return 0
    power = round(math.log2(next_step / step)) if step * next_step > 0 else 0
    if power < -2 and abs(next_step) < 0.5 or power < 0 < step:  # a smaller power of s vanishes faster
        return 0
    if not 0 < abs(power) <= 4 or (power > 0) != (step > 0):  # log n - log k falls with k
        raise NoProduct(NO_PRODUCT)
    return power


def _is_factor(cost: Callable[..., float], sizes: dict[str, float], found: dict[str, Powers], name: str, other: str):
    """NoProduct if the logarithm of one size is only added to what comes from the other: then its steps aren't of the
    other's size."""
    (exponent, power), (other_exponent, factor) = found[name], found[other]
    if not power:
        return

    def step(beside: float) -> float:
        one, two = (_positive(cost(*(sizes | {name: sizes[name] ** p, other: beside}).values())) for p in (1, 2))
        return (two / sizes[name] ** exponent - one) / beside**other_exponent

    ratio = step(sizes[other] ** 2) / step(sizes[other])
    if ratio <= 0 or round(math.log2(ratio)) != factor:
        raise NoProduct(NO_PRODUCT)


def _positive(value: float) -> float:
    value = float(value)
    if value == math.inf:
        raise OverflowError(INFINITE)
    if not value > 0:
        raise ValueError(f"a cost must be a positive number, and this is {value:g}")
    return value


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of measured costs: the slope of the straight line through (log size, log cost), by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y)) / sum((a - x_mean) ** 2 for a in x)


def grows_like(cost: Callable[..., float], sizes: dict[str, float]) -> str:
    """Its growth in words, or why there is none."""
    try:
        return in_words(growth(cost, sizes))
    except OverflowError:
        return INFINITE
    except NoProduct:
        return NO_PRODUCT
    except (ValueError, TypeError, ArithmeticError, LookupError):
        return NO_NUMBER


def in_words(powers: dict[str, Powers]) -> str:
    """{"n": (2, 0), "d": (1, 0)} → "n² d"."""
    above, below = [], []
    for name, (exponent, logarithm) in powers.items():
        if exponent:
            (above if exponent > 0 else below).append(_power(name, abs(exponent)))
        if logarithm:
            (above if logarithm > 0 else below).append(f"log {name}" + _superscript(abs(logarithm)))
    return (" ".join(above) or "1") + (f" / {' '.join(below)}" if below else "")


def _power(name: str, exponent: float) -> str:
    whole = f"{name}{_superscript(int(exponent))}" if exponent >= 1 else ""
    return whole + (f"√{name}" if exponent % 1 else "")


def _superscript(power: int) -> str:
    return "" if power == 1 else "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
