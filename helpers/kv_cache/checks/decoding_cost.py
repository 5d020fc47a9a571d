"""Checks of the formulas: work that is done again, the cost of a token, the size of a cache."""

from helpers.engine.cases import Case, explicit_case, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import EXACT, WHOLE, comes_as_float

from .. import decoding_cost as reference
from ..published import MODELS

__all__ = ["cache_bytes", "decode_cost", "redundant_projections"]


def _halved_too_early(seen):
    n, layers = seen.args
    return seen.output == layers * (n // 2 * (n - 1) if n % 2 else n * ((n - 1) // 2))


redundant_projections = Check(
    reference=reference.redundant_projections,
    cases=[random_case(n=5, layers=1), random_case(n=12, layers=3), random_case(n=1, layers=4), random_case(n=1000, layers=12)],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=[
        Misconception(
            "the necessary ones counted too", lambda n, layers: layers * n * (n + 1) // 2,
            "You count all that are computed. Each token's projection must be made once in every layer, with a cache too: subtract `n * layers`.",
        ),
        Misconception(
            "all n tokens in every step", lambda n, layers: layers * n * n,
            "Step t reads t tokens, not n: at the beginning there is little to repeat.",
        ),
        Misconception(
            "twice as many", lambda n, layers: layers * n * (n - 1),
            "0 + 1 + … + (n − 1) is half of n(n − 1). (Key and value of a token count as one here.)",
        ),
        Misconception(
            "one layer only", lambda n, layers: n * (n - 1) // 2,
            "Every layer has keys and values of its own.",
            lambda seen: seen.args[1] > 1 and seen.output == seen.args[0] * (seen.args[0] - 1) // 2,
        ),
        comes_as_float(reference.redundant_projections),
        Misconception(
            "halved too early", lambda n, layers: layers * (n // 2 * (n - 1)),
            "`n // 2` is rounded down where n is odd, and `(n - 1) // 2` where n is even. One of the two is even, so multiply first, then divide.",
            _halved_too_early,
        ),
        Misconception(
            "all layers as one long row", lambda n, layers: layers * n * (layers * n - 1) // 2,
            "The layers don't repeat each other's work. Count one layer, then multiply by their number.",
        ),
        Misconception(
            "the last step only", lambda n, layers: layers * (n - 1),
            "The last step repeats n − 1 tokens, the one before n − 2, and so on. Add up all steps.",
        ),
    ],
)  # fmt: skip


def _sum_of_steps(n, d, step):
    return sum(step(t, d) for t in range(1, n + 1))


def _totals(n, d, with_cache, without):
    """The four answers that follow from two costs of a step."""
    return with_cache(n, d), without(n, d), _sum_of_steps(n, d, with_cache), _sum_of_steps(n, d, without)


def no_output_projection(n, d):
    return _totals(n, d, lambda t, d: 6 * d * d + 4 * t * d, lambda t, d: 6 * t * d * d + 4 * t * t * d)


def no_mixing(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 2 * t * d, lambda t, d: 8 * t * d * d + 2 * t * t * d)


def all_scores_with_cache(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * t * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def all_projections_with_cache(n, d):
    return _totals(n, d, lambda t, d: 8 * t * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def itself_not_seen(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * (t - 1) * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def half_the_scores(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 2 * t * (t + 1) * d)


def multiply_adds(n, d):
    return tuple(
        flops // 2
        for flops in _totals(n, d, lambda t, d: 8 * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)
    )


def n_times_the_last(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    return with_cache, without, n * with_cache, n * without


def one_pass_without(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    return with_cache, without, 8 * n * d * d + 2 * n * (n + 1) * d, without


def totals_swapped(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    all_with = 8 * n * d * d + 2 * n * (n + 1) * d
    return without, with_cache, 4 * n * (n + 1) * d * d + 2 * n * (n + 1) * (2 * n + 1) * d // 3, all_with


def vectors_for_matrices(n, d):
    return _totals(n, d, lambda t, d: 8 * d + 4 * t * d, lambda t, d: 8 * t * d + 4 * t * t * d)


def one_key_more(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * (t + 1) * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def divided_too_early(n, d):
    return (*_totals(n, d, _with, _without)[:3], 4 * n * (n + 1) * d * d + 4 * (n * (n + 1) // 6 * (2 * n + 1)) * d)


def halved_too_early(n, d):
    """n // 2 · (n + 1) for the sum of all steps, in what it stands in."""
    steps, squares = n // 2 * (n + 1), n * (n + 1) * (2 * n + 1) // 6
    return _with(n, d), _without(n, d), 8 * n * d * d + 4 * steps * d, 8 * steps * d * d + 4 * squares * d


def mean_of_first_and_last(n, d):
    """n times the mean of the first step and the last, for both sums. Of the first it is right."""
    return *_totals(n, d, _with, _without)[:3], (_without(1, d) + _without(n, d)) * n // 2


def sums_without_the_last(n, d):
    with_cache, without, all_with, all_without = _totals(n, d, _with, _without)
    return with_cache, without, all_with - with_cache, all_without - without


def _with(t, d):
    return 8 * d * d + 4 * t * d


def _without(t, d):
    return 8 * t * d * d + 4 * t * t * d


decode_cost = Check(
    reference=reference.decode_cost,
    cases=[random_case(n=7, d=8), random_case(n=3, d=64), random_case(n=200, d=16), random_case(n=1, d=5, label="the very first token, d = 5")],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=[
        Misconception(
            "halved too early", halved_too_early,
            "`n // 2` is rounded down where n is odd. One of n and n + 1 is even, so multiply first, then divide.",
        ),
        Misconception(
            "one FLOP per multiply-add", multiply_adds,
            "A multiplication and an addition are 2 FLOPs: a product (a, b) @ (b, c) costs 2abc.",
        ),
        Misconception(
            "three projections instead of four", no_output_projection,
            "Queries, keys and values, and the output projection W_O: four products with a d × d matrix.",
        ),
        Misconception(
            "scores without the mixing", no_mixing,
            "The scores of one query against n keys cost 2·n·d. Mixing n values costs as much again.",
        ),
        Misconception(
            "all n² scores in spite of the cache", all_scores_with_cache,
            "With a cache one query meets n keys: a row of scores, not a square.",
        ),
        Misconception(
            "all tokens projected in spite of the cache", all_projections_with_cache,
            "With a cache only the new token is multiplied by the weights: the old keys and values are in the cache already.",
        ),
        Misconception(
            "the token itself not counted", itself_not_seen,
            "Step n has n keys: those of n − 1 old tokens and its own.",
        ),
        Misconception(
            "the masked half left out", half_the_scores,
            "The plain matrix form computes all n² scores and throws the masked ones away afterwards. Count what is really computed.",
        ),
        Misconception(
            "n times the last step", n_times_the_last,
            "Early steps are cheaper: step t has t tokens. Sum over t = 1 … n.",
        ),
        Misconception(
            "one pass instead of n steps", one_pass_without,
            "One pass over n tokens is what training does. To *write* n tokens without a cache takes n passes, over 1, 2, …, n tokens.",
        ),
        comes_as_float(reference.decode_cost),
        Misconception(
            "a projection that costs 2d", vectors_for_matrices,
            "Each projection multiplies a token by a d × d matrix: 2d² FLOPs. With d = 1 the two look the same.",
        ),
        Misconception(
            "n + 1 keys in step n", one_key_more,
            "n counts all tokens, the new one included: step n has n keys.",
        ),
        Misconception(
            "divided by 6 too early", divided_too_early,
            "n(n + 1) is not always a multiple of 6, and `//` drops the rest. Multiply by (2n + 1) first, then divide.",
        ),
        Misconception(
            "n times the mean of the first step and the last", mean_of_first_and_last,
            "That is right where the cost grows by the same amount in each step, as with a cache. Without one the cost has t² in it: add up the steps, or use Σt².",
        ),
        Misconception(
            "the last step left out of the sums", sums_without_the_last,
            "`range(1, n)` ends at n − 1. The sums run over the steps 1 … n.",
        ),
        Misconception(
            "with and without swapped", totals_swapped,
            "The order is: with a cache, without one; first for step n, then for all steps.",
        ),
    ],
)  # fmt: skip


def published_model(name: str, n: int, b: int, size: int) -> Case:
    model = MODELS[name]
    return explicit_case(f"{name}, {n:,} tokens, batch {b}", model.layers, model.h, model.h_kv, model.d, n, b, size)


cache_bytes = Check(
    reference=reference.cache_bytes,
    cases=[
        random_case(layers=3, h=6, h_kv=2, d=48, n=7, b=5, size=4, label="a small one, in float32"),
        published_model("GPT-2 XL", 1024, 1, 2), published_model("Llama 2 7B", 4096, 1, 2),
        published_model("Mistral 7B", 8192, 4, 2), published_model("Llama 3 70B", 8192, 16, 1),
        random_case(layers=3, h=49, h_kv=1, d=98, n=7, b=5, size=2, label="49 heads share one"),
    ],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=[
        Misconception(
            "no factor 2", lambda layers, h, h_kv, d, n, b, size: layers * b * n * h_kv * (d // h) * size,
            "Keys and values are both stored: that is the factor 2.",
        ),
        Misconception(
            "queries stored too", lambda layers, h, h_kv, d, n, b, size: 3 * layers * b * n * h_kv * (d // h) * size,
            "Keys and values are stored, two tensors. An old query is never used again.",
        ),
        Misconception(
            "one layer only", lambda layers, h, h_kv, d, n, b, size: 2 * b * n * h_kv * (d // h) * size,
            "Every layer has a cache of its own.",
        ),
        Misconception(
            "as many bytes as without sharing", lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * d * size,
            "Yours is the size of a cache with h key/value heads of width d / h. Only h_kv heads are stored, and they aren't wider for being fewer: count h_kv, "
            "not h, and divide d by h, not by h_kv.",
        ),
        Misconception(
            "heads of width d", lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * h_kv * d * size,
            "A head has width d_h = d / h.",
        ),
        Misconception(
            "one sequence only", lambda layers, h, h_kv, d, n, b, size: 2 * layers * n * h_kv * (d // h) * size,
            "Every sequence of the batch has its own tokens, and so its own keys and values.",
        ),
        comes_as_float(reference.cache_bytes),
        Misconception(
            "a rounded share of the heads",
            lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * int(d * (h_kv / h)) * size,
            "`h_kv / h` is a float and may be a little too small, and `int` rounds it down. Use whole numbers: `h_kv * (d // h)`.",
        ),
        Misconception(
            "numbers instead of bytes", lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * h_kv * (d // h),
            "Each number takes `size` bytes: 4 in float32, 2 in float16, 1 in int8.",
        ),
    ],
)  # fmt: skip
