"""How fast a cost grows: its exponent in every size, fitted where sizes are large. Constants and smaller terms vanish there.

Square one size, s → s², and hold the others. A factor s^e grows by s^e; a factor log s doubles; a constant stays. So one ratio
tells the exponent (to the nearest ½) and the power of the logarithm.
"""

import math
from collections.abc import Callable, Sequence

Powers = tuple[float, int]  # the exponent of a size, and the power of its logarithm


def growth(cost: Callable[..., float], sizes: dict[str, float]) -> dict[str, Powers]:
    """Size → (exponent, power of its logarithm) of `cost(*sizes)` around these sizes. Take large ones, far apart.

    ValueError where the cost is not a positive number.
    """
    base = _positive(cost(*sizes.values()))
    found = {}
    for name, size in sizes.items():
        squared = _positive(cost(*(sizes | {name: size**2}).values()))
        found[name] = _powers(math.log2(squared) - math.log2(base), math.log2(size))
    return found


def _powers(gained: float, bits: float) -> Powers:
    """`gained` = exponent · bits + power of the logarithm, for a size of 2^bits; a logarithm is worth 1 bit alone."""
    exponent = round(2 * gained / bits) / 2
    return exponent, round(gained - exponent * bits)


def _positive(value: float) -> float:
    value = float(value)
    if not (0 < value < math.inf):
        raise ValueError(f"a cost must be a positive number, and this is {value:g}")
    return value


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of measured costs: the slope of the straight line through (log size, log cost), by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y)) / sum((a - x_mean) ** 2 for a in x)


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
