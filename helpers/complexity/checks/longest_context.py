"""The check of `longest_context`."""

import math

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.requirements import exceeded_steps
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import score_memory as reference
from .crossover import round_end

__all__ = ["longest_context"]

STEPS = 200_000  # a search in steps of a thousand tokens, and then of one, is well below


def one_length_after_the_other(memory, b, h, layers, dtype):
    n = 0
    while reference.score_memory(b, n + 1, h, layers, dtype) <= memory:
        n += 1
    return n


def _long_where_many_fit(seen):
    """Of small memories it comes to an end, as a search that is endless by mistake does not."""
    return exceeded_steps(seen) and reference.longest_context(*seen.args) > STEPS


def _end_of_a_search(seen):
    return seen.output < reference.longest_context(*seen.args) and round_end(seen.output)


def _fits(memory, per_square):
    return math.isqrt(memory // per_square)


def _root(memory, per_square):
    return math.sqrt(memory / per_square)


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
        no_root=lambda memory, b, h, layers, dtype: memory // (b * h * layers * dtype.itemsize),
        rounded_up=lambda memory, b, h, layers, dtype: math.ceil(_root(memory, b * h * layers * dtype.itemsize)),
        rounded_nearest=lambda memory, b, h, layers, dtype: round(_root(memory, b * h * layers * dtype.itemsize)),
        at_least_one_token=lambda memory, b, h, layers, dtype: max(1, _fits(memory, b * h * layers * dtype.itemsize)),
        full_memory_counted_as_too_little=lambda memory, b, h, layers, dtype: _fits(
            memory - 1, b * h * layers * dtype.itemsize
        ),
        two_roots_each_rounded=lambda memory, b, h, layers, dtype: (
            math.isqrt(memory) // math.isqrt(b * h * layers * dtype.itemsize)
        ),
        quotient_two_roots=lambda memory, b, h, layers, dtype: int(
            math.sqrt(memory) / math.sqrt(b * h * layers * dtype.itemsize)
        ),
        one_length_after_other=Wrong(one_length_after_the_other, cost=_long_where_many_fit),
        two_roots_whole_numbers_second_without=lambda memory, b, h, layers, dtype: (
            math.isqrt(memory // dtype.itemsize) // math.isqrt(b * h * layers)
        ),
        root_float32=lambda memory, b, h, layers, dtype: int(
            torch.tensor(memory / (b * h * layers * dtype.itemsize)).sqrt()
        ),
        search_that_stops_too_early=Wrong(
            lambda memory, b, h, layers, dtype: min(10**6 - 1, _fits(memory, b * h * layers * dtype.itemsize)),
            recognise=_end_of_a_search,
        ),
        only_floating_point_dtypes=Wrong(
            lambda memory, b, h, layers, dtype: _fits(memory, b * h * layers * (torch.finfo(dtype).bits // 8)),
            raises="TypeError",
        ),
        with_4_bytes_whatever_dtype=lambda memory, b, h, layers, dtype: _fits(memory, 4 * b * h * layers),
        one_head_only=lambda memory, b, h, layers, dtype: _fits(memory, b * layers * dtype.itemsize),
        one_layer_only=lambda memory, b, h, layers, dtype: _fits(memory, b * h * dtype.itemsize),
        one_sequence_only=lambda memory, b, h, layers, dtype: _fits(memory, h * layers * dtype.itemsize),
        elements_instead_bytes=lambda memory, b, h, layers, dtype: _fits(memory, b * h * layers),
        not_whole_number=lambda memory, b, h, layers, dtype: math.sqrt(memory / (b * h * layers * dtype.itemsize)),
    ),
)
