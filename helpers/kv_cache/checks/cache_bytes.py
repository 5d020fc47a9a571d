"""Bytes of the keys and values of a model."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import Case, explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import decoding_cost as reference
from ..published import MODELS

__all__ = ["cache_bytes"]


def published_model(name: str, n: int, b: int, size: int) -> Case:
    model = MODELS[name]
    return explicit_case(f"{name}, {n:,} tokens, batch {b}", model.layers, model.h, model.h_kv, model.d, n, b, size)


cache_bytes = Check(
    reference=reference.cache_bytes,
    cases=[
        random_case(layers=3, h=6, h_kv=2, d=48, n=7, b=5, size=4, label="a small one, in float32"),
        published_model("GPT-2 XL", 1024, 1, 2),
        published_model("Llama 2 7B", 4096, 1, 2),
        published_model("Mistral 7B", 8192, 4, 2),
        published_model("Llama 3 70B", 8192, 16, 1),
        random_case(layers=3, h=49, h_kv=1, d=98, n=7, b=5, size=2, label="49 heads share one"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        no_factor_2=lambda layers, h, h_kv, d, n, b, size: layers * b * n * h_kv * (d // h) * size,
        queries_stored_too=lambda layers, h, h_kv, d, n, b, size: 3 * layers * b * n * h_kv * (d // h) * size,
        one_layer_only=lambda layers, h, h_kv, d, n, b, size: 2 * b * n * h_kv * (d // h) * size,
        not_shared=lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * d * size,
        heads_of_width_d=lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * h_kv * d * size,
        one_sequence_only=lambda layers, h, h_kv, d, n, b, size: 2 * layers * n * h_kv * (d // h) * size,
        rounded_share=lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * int(d * (h_kv / h)) * size,
        numbers=lambda layers, h, h_kv, d, n, b, size: 2 * layers * b * n * h_kv * (d // h),
    ),
)
