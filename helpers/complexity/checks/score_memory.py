"""Checks of the memory of score matrices, and of the longest context that it allows."""

import math

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.requirements import exceeded_steps

from .. import score_memory as reference
from .costs import round_end, wraps

__all__ = ["longest_context", "score_memory"]

score_memory = Check(
    reference=reference.score_memory,
    cases=[
        explicit_case("b = 2, n = 100, h = 3, 5 layers, float32", 2, 100, 3, 5, torch.float32),
        explicit_case("b = 1, n = 1024, h = 12, 12 layers, float16", 1, 1024, 12, 12, torch.float16),
        explicit_case("b = 7, n = 33, h = 4, 6 layers, bfloat16", 7, 33, 4, 6, torch.bfloat16),
        explicit_case("b = 3, n = 131071, h = 5, 7 layers, int8", 3, 131071, 5, 7, torch.int8),
        explicit_case("b = 2, n = 77, h = 3, 4 layers, int32", 2, 77, 3, 4, torch.int32),
        explicit_case("large: every digit counts", 67, 4_000_037, 129, 131, torch.float32),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "one layer only", lambda b, n, h, layers, dtype: b * h * n**2 * dtype.itemsize,
            "The backward pass needs the scores of every layer, so all of them are kept.",
        ),
        Misconception(
            "one head only", lambda b, n, h, layers, dtype: b * layers * n**2 * dtype.itemsize,
            "Each head has an n × n matrix of its own. Heads share the width, not the scores.",
        ),
        Misconception(
            "one sequence only", lambda b, n, h, layers, dtype: h * layers * n**2 * dtype.itemsize,
            "Every sequence of the batch has its own scores.",
        ),
        Misconception(
            "linear in n", lambda b, n, h, layers, dtype: b * h * layers * n * dtype.itemsize,
            "n queries times n keys: n² scores.",
        ),
        Misconception(
            "elements instead of bytes", lambda b, n, h, layers, dtype: b * h * layers * n**2,
            "The question is how many bytes: each element takes `dtype.itemsize` of them.",
        ),
        Misconception(
            "bits instead of bytes", lambda b, n, h, layers, dtype: 8 * b * h * layers * n**2 * dtype.itemsize,
            "`dtype.itemsize` is in bytes already.",
        ),
        Misconception(
            "two matrices for each head", lambda b, n, h, layers, dtype: 2 * b * h * layers * n**2 * dtype.itemsize,
            "One n × n matrix is asked for. (To keep scores and weights would take two, but the backward pass needs "
            "only the weights.)",
        ),
        Misconception(
            "visible pairs only", lambda b, n, h, layers, dtype: b * h * layers * (n * (n + 1) // 2) * dtype.itemsize,
            "Under a causal mask n(n + 1)/2 pairs are visible. But the whole n × n matrix is kept, the hidden half too.",
        ),
        Misconception(
            "4 bytes whatever the dtype", lambda b, n, h, layers, dtype: 4 * b * h * layers * n**2,
            "4 bytes is the size in float32. Take `dtype.itemsize`.",
        ),
        Misconception(
            "2 bytes for halves, 4 for all others",
            lambda b, n, h, layers, dtype: b * h * layers * n**2 * (2 if dtype in (torch.float16, torch.bfloat16) else 4),
            "float64 takes 8 bytes and int8 takes 1. No list of your own is needed: `dtype.itemsize` knows them all.",
        ),
        Misconception(
            "only floating-point dtypes", lambda b, n, h, layers, dtype: b * h * layers * n**2 * torch.finfo(dtype).bits // 8,
            "`torch.finfo` knows only floating-point dtypes. `dtype.itemsize` works for all.",
            raises="TypeError",
        ),
        Misconception(
            "bits from torch.finfo", lambda b, n, h, layers, dtype: b * h * layers * n**2 * torch.finfo(dtype).bits,
            "`torch.finfo(dtype).bits` is in bits, 8 to a byte, and it knows only floating-point dtypes. `dtype.itemsize` is in bytes, for all.",
            raises="TypeError",
        ),
        Misconception(
            "a count that is rounded by float32",
            lambda b, n, h, layers, dtype: int(torch.tensor([b, n, n, h, layers, dtype.itemsize]).float().prod()),
            "float32 keeps 24 bits, about 7 digits. A number of bytes has more: multiply Python's own integers.",
        ),
        Misconception(
            "a count that overflows 64 bits",
            lambda b, n, h, layers, dtype: torch.tensor([b, n, n, h, layers, dtype.itemsize]).prod().item(),
            "A tensor of whole numbers has 64 bits: beyond 2⁶³ − 1 it starts again from −2⁶³, without an error. Python's own integers have no limit.",
            wraps(reference.score_memory),
        ),
        Misconception(
            "all sequences as one long text", lambda b, n, h, layers, dtype: h * layers * (b * n) ** 2 * dtype.itemsize,
            "A token meets only the tokens of its own sequence: b matrices of n × n, not one of bn × bn.",
        ),
    ],
)  # fmt: skip


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
    misconceptions=[
        Misconception(
            "no root", lambda memory, b, h, layers, dtype: memory // (b * h * layers * dtype.itemsize),
            "Your number is n²: take the root. Twice the memory allows only √2 times the context.",
        ),
        Misconception(
            "rounded up", lambda memory, b, h, layers, dtype: math.ceil(_root(memory, b * h * layers * dtype.itemsize)),
            "The next whole number is too large: round down.",
        ),
        Misconception(
            "rounded to the nearest", lambda memory, b, h, layers, dtype: round(_root(memory, b * h * layers * dtype.itemsize)),
            "Where the root is 7.6, 8 tokens don't fit: round down.",
        ),
        Misconception(
            "at least one token", lambda memory, b, h, layers, dtype: max(1, _fits(memory, b * h * layers * dtype.itemsize)),
            "If not even the scores of one token fit, the answer is 0.",
        ),
        Misconception(
            "a full memory counted as too little", lambda memory, b, h, layers, dtype: _fits(memory - 1, b * h * layers * dtype.itemsize),
            "At most `memory` bytes: scores that fill it to the last byte do fit.",
        ),
        Misconception(
            "two roots, each rounded",
            lambda memory, b, h, layers, dtype: math.isqrt(memory) // math.isqrt(b * h * layers * dtype.itemsize),
            "Divide first, then take the root and round once: rounding both can be off by several tokens.",
        ),
        Misconception(
            "a quotient of two roots",
            lambda memory, b, h, layers, dtype: int(math.sqrt(memory) / math.sqrt(b * h * layers * dtype.itemsize)),
            "Two roots of floats are rounded, and so is their quotient: 59.99… where 60 tokens just fit. Divide first, and take one root last.",
        ),
        Misconception(
            "one length after the other", one_length_after_the_other,
            "The longest context may be 30 million tokens, and you try as many lengths. Take a root, or halve an interval: then 50 tries are enough.",
            cost=_long_where_many_fit,
        ),
        Misconception(
            "two roots of whole numbers, the second without the bytes",
            lambda memory, b, h, layers, dtype: math.isqrt(memory // dtype.itemsize) // math.isqrt(b * h * layers),
            "Each root is rounded by itself, and b·h·layers is seldom a square. Divide the memory by b·h·layers and the bytes first, then take one root.",
        ),
        Misconception(
            "a root in float32",
            lambda memory, b, h, layers, dtype: int(torch.tensor(memory / (b * h * layers * dtype.itemsize)).sqrt()),
            "A tensor of floats is float32 where nobody says otherwise: 7 digits, and 30,000,001 has 8. `math.isqrt` takes whole numbers, and `math.sqrt` "
            "keeps 16 digits.",
        ),
        Misconception(
            "a search that stops too early",
            lambda memory, b, h, layers, dtype: min(10**6 - 1, _fits(memory, b * h * layers * dtype.itemsize)),
            "More tokens fit than the last n that you look at, and you return the end of your search. Let its end grow with the memory, or use a root.",
            _end_of_a_search,
        ),
        Misconception(
            "only floating-point dtypes",
            lambda memory, b, h, layers, dtype: _fits(memory, b * h * layers * (torch.finfo(dtype).bits // 8)),
            "`torch.finfo` knows only floating-point dtypes. `dtype.itemsize` works for all.",
            raises="TypeError",
        ),
        Misconception(
            "4 bytes whatever the dtype", lambda memory, b, h, layers, dtype: _fits(memory, 4 * b * h * layers),
            "4 bytes is the size in float32. Take `dtype.itemsize`.",
        ),
        Misconception(
            "one head only", lambda memory, b, h, layers, dtype: _fits(memory, b * layers * dtype.itemsize),
            "All h heads need room for their scores at the same time.",
        ),
        Misconception(
            "one layer only", lambda memory, b, h, layers, dtype: _fits(memory, b * h * dtype.itemsize),
            "All layers keep their scores until the backward pass.",
        ),
        Misconception(
            "one sequence only", lambda memory, b, h, layers, dtype: _fits(memory, h * layers * dtype.itemsize),
            "All b sequences have to fit together.",
        ),
        Misconception(
            "elements instead of bytes", lambda memory, b, h, layers, dtype: _fits(memory, b * h * layers),
            "The memory is given in bytes: each element takes `dtype.itemsize` of them.",
        ),
        Misconception(
            "not a whole number", lambda memory, b, h, layers, dtype: math.sqrt(memory / (b * h * layers * dtype.itemsize)),
            "A number of tokens is whole: round down.",
        ),
    ],
)  # fmt: skip
