"""Right answers of learning_rate in other styles."""

import math

import numpy as np


def rate_nano(step, steps, warm_up, peak, floor):
    """nanoGPT's, with its coefficient."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    coefficient = 0.5 * (1.0 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))
    return floor + coefficient * (peak - floor)


def rate_weighted(step, steps, warm_up, peak, floor):
    if step + 1 <= warm_up:
        return (step + 1) / warm_up * peak
    share = np.cos(np.pi / 2 * (step - warm_up) / (steps - warm_up)) ** 2
    return float(share * peak + (1 - share) * floor)


def rate_from_the_end(step, steps, warm_up, peak, floor):
    if step >= warm_up:
        share = math.sin(0.5 * math.pi * (steps - step) / (steps - warm_up)) ** 2
        return share * peak + (1 - share) * floor
    return (step + 1) * (peak / warm_up)


learning_rate = {
    "with a coefficient (nanoGPT)": rate_nano,
    "a weighted mean, cos²": rate_weighted,
    "counted from the end, sin²": rate_from_the_end,
}
