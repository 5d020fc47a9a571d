"""longest_context: the largest n whose score matrices fit into a memory."""

import math

import torch

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.requirements import exceeded_steps
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import score_memory as reference
from .crossover import round_end

__all__ = ["longest_context"]

STEPS = 200_000  # a search in steps of a thousand tokens, and then of one, is well below


def one_after_the_other(memory, b, h, layers, dtype):
    n = 0
    while reference.score_memory(b, n + 1, h, layers, dtype) <= memory:
        n += 1
    return n


def _long_where_many_fit(seen):
    """Of small memories it comes to an end, as a search that is endless by mistake does not."""
    return exceeded_steps(seen) and reference.longest_context(*seen.args) > STEPS


def _end_of_a_search(seen):
    return seen.output < reference.longest_context(*seen.args) and round_end(seen.output)


def per_square(b, h, layers, dtype):
    """Bytes of all scores at n = 1."""
    return b * h * layers * dtype.itemsize


def rounded(whole):
    """whole: (memory, bytes at n = 1) → n"""
    return lambda memory, *others: whole(memory, per_square(*others))


def fits(each):
    """each: (b, h, layers, dtype) → bytes at n = 1"""
    return lambda memory, *others: math.isqrt(memory // each(*others))


longest_context = Check(
    reference=reference.longest_context,
    cases=[
        explicit_case("16 GB, b = 1, h = 12, 12 layers, float16", 16 * 10**9, 1, 12, 12, torch.float16),
        explicit_case("80 GB, b = 8, h = 16, 24 layers, bfloat16", 80 * 10**9, 8, 16, 24, torch.bfloat16),
        explicit_case("just enough for n = 30,000,001, one head, int8", 30_000_001**2, 1, 1, 1, torch.int8),
        explicit_case("2 GB, b = 3, h = 4, 6 layers, float64", 2 * 10**9, 3, 4, 6, torch.float64),
        explicit_case("1 GB, b = 2, h = 5, 3 layers, int32", 10**9, 2, 5, 3, torch.int32),
        explicit_case("not enough for a single token", 7, 1, 2, 1, torch.float32),
        explicit_case("just enough for n = 60", 2 * 5 * 7 * 60**2 * 4, 2, 5, 7, torch.float32),
        explicit_case("one byte short of n = 60", 2 * 5 * 7 * 60**2 * 4 - 1, 2, 5, 7, torch.float32),
    ],
    within=EXACT,
    counts=False,
    steps=STEPS,
    misconceptions=wrong_answers(
        __file__,
        no_root=rounded(lambda memory, each: memory // each),
        rounded_up=rounded(lambda memory, each: math.ceil(math.sqrt(memory / each))),
        rounded_nearest=rounded(lambda memory, each: round(math.sqrt(memory / each))),
        not_rounded=rounded(lambda memory, each: math.sqrt(memory / each)),
        at_least_one=rounded(lambda memory, each: max(1, math.isqrt(memory // each))),
        first_that_fits=rounded(lambda memory, each: min(1, math.isqrt(memory // each))),
        full_memory_too_little=rounded(lambda memory, each: math.isqrt((memory - 1) // each)),
        two_roots_rounded=rounded(lambda memory, each: math.isqrt(memory) // math.isqrt(each)),
        quotient_of_roots=rounded(lambda memory, each: int(math.sqrt(memory) / math.sqrt(each))),
        second_root_without_bytes=lambda memory, b, h, layers, dtype: (
            math.isqrt(memory // dtype.itemsize) // math.isqrt(b * h * layers)
        ),
        root_in_float32=rounded(lambda memory, each: int(torch.tensor(memory / each).sqrt())),
        one_after_the_other=Wrong(one_after_the_other, cost=_long_where_many_fit),
        stops_too_early=Wrong(
            rounded(lambda memory, each: min(10**6 - 1, math.isqrt(memory // each))), recognise=_end_of_a_search
        ),
        only_floats=Wrong(
            fits(lambda b, h, layers, dtype: b * h * layers * (torch.finfo(dtype).bits // 8)), raises="TypeError"
        ),
        four_bytes=fits(lambda b, h, layers, dtype: 4 * b * h * layers),
        one_head=fits(lambda b, h, layers, dtype: b * layers * dtype.itemsize),
        one_layer=fits(lambda b, h, layers, dtype: b * h * dtype.itemsize),
        one_sequence=fits(lambda b, h, layers, dtype: h * layers * dtype.itemsize),
        elements=fits(lambda b, h, layers, dtype: b * h * layers),
    ),
)
