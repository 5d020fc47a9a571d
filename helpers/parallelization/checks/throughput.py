"""The check of GFLOP/s from a measured time."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.observe import Observation

from .. import throughput

__all__ = ["matmul_gflops"]


def _rounded_down(seen: Observation) -> bool:
    """Whole GFLOP/s, or whole GFLOPs divided by the time, where the right number is larger."""
    m, k, n, seconds = seen.args
    return any(
        math.isclose(seen.output, wrong) for wrong in (2 * m * k * n / seconds // 1e9, 2 * m * k * n // 10**9 / seconds)
    )


matmul_gflops = Check(
    reference=throughput.matmul_gflops,
    cases=[
        random_case(m=1000, k=1000, n=1000, seconds=0.5), random_case(m=64, k=30, n=128, seconds=0.0003), random_case(m=1, k=4096, n=5, seconds=2.0),
    ],
    within=(1e-4, 0.0),
    misconceptions=[
        Misconception(
            "m·n·k without the 2", lambda m, k, n, seconds: m * k * n / seconds / 1e9,
            "Every one of the m·k·n terms is multiplied and then added: 2 operations.",
        ),
        Misconception(
            "FLOP/s instead of GFLOP/s", lambda m, k, n, seconds: 2 * m * k * n / seconds,
            "Giga is 10⁹: divide by it.",
        ),
        Misconception(
            "multiplied by the time", lambda m, k, n, seconds: 2 * m * k * n * seconds / 1e9,
            "A rate is work per time. Twice the seconds for the same product is half the speed.",
        ),
        Misconception(
            "operations without the time", lambda m, k, n, seconds: 2 * m * k * n / 1e9,
            "That is the amount of work. Divide it by the seconds to get a speed.",
        ),
        Misconception(
            "only the outputs counted", lambda m, k, n, seconds: 2 * m * n / seconds / 1e9,
            "There are m·n outputs, and each is a dot product of length k.",
        ),
        Misconception(
            "the elements added up instead of multiplied", lambda m, k, n, seconds: 2 * (m * k + k * n) / seconds / 1e9,
            "That counts the numbers that go in. Each number of the first matrix is used n times, each of the second m times.",
        ),
        Misconception(
            "square matrices taken for granted", lambda m, k, n, seconds: 2 * m * m * n / seconds / 1e9,
            "Each of the m·n outputs is a sum of k products, and k need not be m.",
        ),
        Misconception(
            "square matrices taken for granted, k = n", lambda m, k, n, seconds: 2 * m * n * n / seconds / 1e9,
            "Each of the m·n outputs is a sum of k products, and k need not be n.",
        ),
        Misconception(
            "rounded down to whole numbers", lambda m, k, n, seconds: 2 * m * k * n / seconds // 1e9,
            "`//` rounds down, and a slow product has less than 1 GFLOP/s. Divide with `/`.",
            _rounded_down,
        ),
        Misconception(
            "mega instead of giga", lambda m, k, n, seconds: 2 * m * k * n / seconds / 1e6,
            "Giga is 10⁹: divide by that. 10⁶ is mega.",
        ),
        Misconception(
            "k counted twice", lambda m, k, n, seconds: 2 * m * k * k * n / seconds / 1e9,
            "There are m·n outputs, each a sum of k products: m·k·n, with k once, although both matrices have that side.",
        ),
        Misconception(
            "a rounded speed", lambda m, k, n, seconds: round(2 * m * k * n / seconds / 1e9, 1),
            "Return the speed as it comes out. A slow product has a small fraction of 1 GFLOP/s, and rounded that is 0.",
            lambda seen: any(seen.output == round(throughput.matmul_gflops(*seen.args), digits) for digits in range(4)),
        ),
        Misconception(
            "2³⁰ for a giga", lambda m, k, n, seconds: 2 * m * k * n / seconds / 2**30,
            "Speeds are counted in powers of ten: 10⁹. Powers of two are for bytes of memory.",
        ),
        Misconception(
            "k − 1 additions", lambda m, k, n, seconds: m * n * (2 * k - 1) / seconds / 1e9,
            "On paper the first term needs no addition. Machines do multiply-adds, the first onto a zero, and count 2 operations for "
            "each.",
        ),
    ],
)  # fmt: skip
