"""matmul_flops: FLOPs of an (n, m) matrix times an (m, k) matrix."""

import torch

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs
from .costs import PRODUCTS

__all__ = ["matmul_flops"]


def wraps(reference):
    """A mark: the right number but for multiples of 2⁶⁴, as a tensor of whole numbers gives where it overflows."""

    def wrapped(seen):
        off = seen.output - reference(*seen.args)
        return isinstance(off, int) and off != 0 and off % 2**64 == 0

    return wrapped


matmul_flops = Check(
    reference=costs.matmul_flops,
    cases=[*PRODUCTS, random_case(n=3_000_017, m=4_000_037, k=5_000_011, label="large: 12 digits count")],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        no_2=lambda n, m, k: n * m * k,
        one_addition_less=lambda n, m, k: n * k * (2 * m - 1),
        per_result=lambda n, m, k: 2 * n * k,
        per_operand=lambda n, m, k: 2 * (n * m + m * k),
        m_and_k_mixed_up=lambda n, m, k: 2 * n * k * k,
        in_float32=lambda n, m, k: int(torch.tensor([2.0, n, m, k]).prod()),
        in_64_bits=Wrong(lambda n, m, k: int(torch.tensor([2, n, m, k]).prod()), recognise=wraps(costs.matmul_flops)),
        one_dot_product=lambda n, m, k: 2 * m,
        added_up=lambda n, m, k: 2 * (n + m + k),
    ),
)
