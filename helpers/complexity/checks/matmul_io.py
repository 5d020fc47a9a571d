"""matmul_io: elements that a matrix product reads and writes."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import costs
from .costs import PRODUCTS

__all__ = ["matmul_io"]

matmul_io = Check(
    reference=costs.matmul_io,
    cases=[
        *PRODUCTS,
        random_case(n=6, m=6, k=6),
        random_case(n=12289, m=4097, k=50257, label="large: 12 digits count"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        n_m_twice=lambda n, m, k: n * m + m * k + n * m,
        m_k_twice=lambda n, m, k: n * m + m * k + m * k,
        result_not_written=lambda n, m, k: n * m + m * k,
        result_read_too=lambda n, m, k: n * m + m * k + 2 * n * k,
        fetched_every_time=lambda n, m, k: 2 * n * m * k + n * k,
        sizes_multiplied=lambda n, m, k: (n * m) * (m * k) * (n * k),
        second_for_every_row=lambda n, m, k: n * (m + m * k + k),
        first_for_every_column=lambda n, m, k: k * (n * m + m + n),
        only_written=lambda n, m, k: n * k,
        equal_sizes_once=lambda n, m, k: sum({n * m, m * k, n * k}),
        flops=lambda n, m, k: 2 * n * m * k,
        multiply_adds=lambda n, m, k: n * m * k,
    ),
)
