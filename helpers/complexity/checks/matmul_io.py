"""The check of `matmul_io`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import wrong_answers

from .. import costs
from .costs import PRODUCTS

__all__ = ["matmul_io"]

matmul_io = Check(
    reference=costs.matmul_io,
    cases=[
        *PRODUCTS,
        random_case(n=6, m=6, k=6),
        random_case(n=12289, m=4097, k=50257, label="large: every digit counts"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        n_m_counted_twice=lambda n, m, k: n * m + m * k + n * m,
        m_k_counted_twice=lambda n, m, k: n * m + m * k + m * k,
        result_not_written=lambda n, m, k: n * m + m * k,
        result_read_as_well=lambda n, m, k: n * m + m * k + 2 * n * k,
        operands_fetched_every_multiply_add=lambda n, m, k: 2 * n * m * k + n * k,
        sizes_three_matrices_multiplied=lambda n, m, k: (n * m) * (m * k) * (n * k),
        second_matrix_fetched_every_row=lambda n, m, k: n * (m + m * k + k),
        first_matrix_fetched_every_column=lambda n, m, k: k * (n * m + m + n),
        only_what_written=lambda n, m, k: n * k,
        equal_sizes_counted_once=lambda n, m, k: sum({n * m, m * k, n * k}),
        flops_instead_elements=lambda n, m, k: 2 * n * m * k,
    ),
)
