"""The check of `matmul_gflops`: GFLOP/s from a measured time."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

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
        random_case(m=1000, k=1000, n=1000, seconds=0.5),
        random_case(m=64, k=30, n=128, seconds=0.0003),
        random_case(m=1, k=4096, n=5, seconds=2.0),
    ],
    within=(1e-4, 0.0),
    misconceptions=wrong_answers(
        __file__,
        without_2=lambda m, k, n, seconds: m * k * n / seconds / 1e9,
        flops=lambda m, k, n, seconds: 2 * m * k * n / seconds,
        multiplied_by_time=lambda m, k, n, seconds: 2 * m * k * n * seconds / 1e9,
        no_time=lambda m, k, n, seconds: 2 * m * k * n / 1e9,
        outputs_only=lambda m, k, n, seconds: 2 * m * n / seconds / 1e9,
        elements_counted=lambda m, k, n, seconds: 2 * (m * k + k * n) / seconds / 1e9,
        all_three_counted=lambda m, k, n, seconds: (m * k + k * n + m * n) / seconds / 1e9,
        square=lambda m, k, n, seconds: 2 * m * m * n / seconds / 1e9,
        square_k_n=lambda m, k, n, seconds: 2 * m * n * n / seconds / 1e9,
        rounded_down=Wrong(lambda m, k, n, seconds: 2 * m * k * n / seconds // 1e9, recognise=_rounded_down),
        mega=lambda m, k, n, seconds: 2 * m * k * n / seconds / 1e6,
        k_twice=lambda m, k, n, seconds: 2 * m * k * k * n / seconds / 1e9,
        rounded=Wrong(
            lambda m, k, n, seconds: round(2 * m * k * n / seconds / 1e9, 1),
            recognise=lambda seen: any(
                seen.output == round(throughput.matmul_gflops(*seen.args), digits) for digits in range(4)
            ),
        ),
        ten_to_the_ten=lambda m, k, n, seconds: 2 * m * k * n / seconds / 1e10,
        binary_giga=lambda m, k, n, seconds: 2 * m * k * n / seconds / 2**30,
        k_less_1_additions=lambda m, k, n, seconds: m * n * (2 * k - 1) / seconds / 1e9,
    ),
)
