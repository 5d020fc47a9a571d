"""score_memory: bytes of the scores of all heads and layers."""

import torch

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import score_memory as reference
from .matmul_flops import wraps

__all__ = ["score_memory"]

score_memory = Check(
    reference=reference.score_memory,
    cases=[
        explicit_case("b = 2, n = 100, h = 3, 5 layers, float32", 2, 100, 3, 5, torch.float32),
        explicit_case("b = 1, n = 1024, h = 12, 12 layers, float16", 1, 1024, 12, 12, torch.float16),
        explicit_case("b = 7, n = 33, h = 4, 6 layers, bfloat16", 7, 33, 4, 6, torch.bfloat16),
        explicit_case("b = 3, n = 131071, h = 5, 7 layers, int8", 3, 131071, 5, 7, torch.int8),
        explicit_case("b = 2, n = 77, h = 3, 4 layers, int32", 2, 77, 3, 4, torch.int32),
        explicit_case("large: 12 digits count", 67, 4_000_037, 129, 131, torch.float32),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        one_layer=lambda b, n, h, layers, dtype: b * h * n**2 * dtype.itemsize,
        one_head=lambda b, n, h, layers, dtype: b * layers * n**2 * dtype.itemsize,
        one_sequence=lambda b, n, h, layers, dtype: h * layers * n**2 * dtype.itemsize,
        linear_in_n=lambda b, n, h, layers, dtype: b * h * layers * n * dtype.itemsize,
        elements=lambda b, n, h, layers, dtype: b * h * layers * n**2,
        bits=lambda b, n, h, layers, dtype: 8 * b * h * layers * n**2 * dtype.itemsize,
        two_matrices=lambda b, n, h, layers, dtype: 2 * b * h * layers * n**2 * dtype.itemsize,
        visible_pairs=lambda b, n, h, layers, dtype: b * h * layers * (n * (n + 1) // 2) * dtype.itemsize,
        four_bytes=lambda b, n, h, layers, dtype: 4 * b * h * layers * n**2,
        two_bytes_or_four=lambda b, n, h, layers, dtype: (
            b * h * layers * n**2 * (2 if dtype in (torch.float16, torch.bfloat16) else 4)
        ),
        only_floats=Wrong(
            lambda b, n, h, layers, dtype: b * h * layers * n**2 * torch.finfo(dtype).bits // 8, raises="TypeError"
        ),
        bits_of_finfo=Wrong(
            lambda b, n, h, layers, dtype: b * h * layers * n**2 * torch.finfo(dtype).bits, raises="TypeError"
        ),
        in_float32=lambda b, n, h, layers, dtype: int(
            torch.tensor([b, n, n, h, layers, dtype.itemsize]).float().prod()
        ),
        in_64_bits=Wrong(
            lambda b, n, h, layers, dtype: torch.tensor([b, n, n, h, layers, dtype.itemsize]).prod().item(),
            recognise=wraps(reference.score_memory),
        ),
        one_long_text=lambda b, n, h, layers, dtype: h * layers * (b * n) ** 2 * dtype.itemsize,
    ),
)
