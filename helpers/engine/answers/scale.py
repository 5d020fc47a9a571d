"""Slips of the scale: dot products of d_h terms have a spread of √d_h, and are divided by it before the softmax."""

import math

from ..wrong_answers import Slip


def _divided_by(divisor):
    return lambda products, sizes: products / divisor(sizes)


class Scale:
    """Scores are divided by √d_h: that of a head, in this call, before the softmax."""

    none = Slip(scale=lambda products, sizes: products)
    by_width = Slip(scale=_divided_by(lambda sizes: sizes.d_h))
    by_root_of_token_width = Slip(scale=_divided_by(lambda sizes: math.sqrt(sizes.d)))
    after_softmax = Slip(
        scale=lambda products, sizes: products, mix=lambda weights, v, sizes: weights / math.sqrt(sizes.d_h) @ v
    )
    multiplied = Slip(scale=lambda products, sizes: products * math.sqrt(sizes.d_h))
    power_before_division = Slip(
        {"scale": _divided_by(lambda sizes: 2 * sizes.d_h)}, scale=_divided_by(lambda sizes: sizes.d_h / 2)
    )
    by_root_of_another_number = Slip(
        *({"scale": lambda products, sizes, n=n: products / math.sqrt(n)} for n in range(1, 129)),
        scale=_divided_by(lambda sizes: math.sqrt(sizes.d_h + 1)),
    )
