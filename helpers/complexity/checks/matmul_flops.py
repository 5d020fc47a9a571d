"""The check of `matmul_flops`."""

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs
from .costs import PRODUCTS

__all__ = ["matmul_flops"]


def wraps(reference):
    """For `recognise`: the right number but for multiples of 2⁶⁴, as a tensor of whole numbers gives where it overflows."""

    def wrapped(seen):
        off = seen.output - reference(*seen.args)
        return isinstance(off, int) and off != 0 and off % 2**64 == 0

    return wrapped


matmul_flops = Check(
    reference=costs.matmul_flops,
    cases=[*PRODUCTS, random_case(n=3_000_017, m=4_000_037, k=5_000_011, label="large: every digit counts")],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        n_m_k_without_2=lambda n, m, k: n * m * k,
        m_minus_1_additions=lambda n, m, k: n * k * (2 * m - 1),
        one_multiply_add_each_element_result=lambda n, m, k: 2 * n * k,
        one_multiply_add_each_element_operands=lambda n, m, k: 2 * (n * m + m * k),
        m_k_mixed_up=lambda n, m, k: 2 * n * k * k,
        count_that_rounded_by_float32=lambda n, m, k: int(torch.tensor([2.0, n, m, k]).prod()),
        count_that_overflows_64_bits=Wrong(
            lambda n, m, k: int(torch.tensor([2, n, m, k]).prod()), recognise=wraps(costs.matmul_flops)
        ),
        one_dot_product=lambda n, m, k: 2 * m,
        three_sizes_added=lambda n, m, k: 2 * (n + m + k),
    ),
)
