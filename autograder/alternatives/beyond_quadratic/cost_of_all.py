"""Right answers of cost_of_all in other styles."""

import math

cost_of_all = {
    "term by term": (
        lambda n, d, w: 2 * n * (2 * w + 1) * d + 2 * n * (2 * w + 1) * d,
        lambda n, d, w, g: 4 * d * n * (2 * w + 1 + g) + 4 * d * g * (n - (2 * w + 1 + g)),
        lambda n, d: 4 * n * (2 * (math.isqrt(n) - 1) + 1 + math.isqrt(n) - 1) * d,
        lambda n, d, r: 2 * (2 * r * n * d) + 2 * (2 * n * r * d),
        lambda n, d: sum((2 * d * n * d, 2 * n * d * d)),
        lambda n, d, c: n // c * (4 * c * d * d + 4 * c * c * d),
    ),
    "as floats": (
        lambda n, d, w: 4.0 * n * d * (1 + 2 * w),
        lambda n, d, w, g: 4.0 * d * (n - g) * (2 * w + 1 + g) + 4.0 * d * g * n,
        lambda n, d: 4 * n * d * (3 * n**0.5 - 2),
        lambda n, d, r: 8.0 * d * n * r,
        lambda n, d: 4.0 * d**2 * n,
        lambda n, d, c: 4.0 * n * d * (c + d),
    ),
}
