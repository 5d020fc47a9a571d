"""The check of `model_flops`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import wrong_answers

from .. import costs

__all__ = ["model_flops"]


def _step(
    b, n, layers, d, d_ff, vocabulary, *, passes=3, attention=1.0, tables=1, extra=0, per_layer=True, ffn=2, proj=4
):
    weights = layers * (proj * d * d + ffn * d * d_ff) + tables * vocabulary * d + extra
    mixing = 4 * b * n * n * d * (layers if per_layer else 1)
    return int(passes * (2 * weights * b * n + attention * mixing))


def _norms(layers, d):
    return layers * 4 * d + 2 * d


model_flops = Check(
    reference=costs.model_flops,
    cases=[
        random_case("2 layers, d = 32", b=2, n=17, layers=2, d=32, d_ff=128, vocabulary=50),
        random_case("5 layers, a long context", b=1, n=300, layers=5, d=16, d_ff=40, vocabulary=70),
        random_case("GPT-2 small, 1024 tokens", b=4, n=1024, layers=12, d=768, d_ff=3072, vocabulary=50257),
        random_case(
            "large: every digit counts", b=3001, n=100_003, layers=97, d=12_289, d_ff=49_157, vocabulary=200_003
        ),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        forward_pass_only=lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, passes=1),
        twice_forward_pass_instead_three_times=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, passes=2
        ),
        attention_forgotten=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=0
        ),
        attention_forward_pass_only=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=1 / 3
        ),
        attention_twice_instead_three_times=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=2 / 3
        ),
        attention_one_layer=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, per_layer=False
        ),
        half_attentions_products=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=0.5
        ),
        embedding_counted_as_product=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, tables=2
        ),
        output_head_forgotten=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, tables=0
        ),
        output_head_every_layer=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, tables=layers
        ),
        all_parameters_norms_too=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, extra=_norms(layers, d)
        ),
        biases_that_grow_with_n=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, extra=4 * layers * n * d
        ),
        three_projections_instead_four=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, proj=3
        ),
        with_4d_whatever_d_ff=lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, 4 * d, vocabulary),
        ffn_one_product=lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, ffn=1),
        attention_across_batch=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=b
        ),
        attention_one_sequence=lambda b, n, layers, d, d_ff, vocabulary: _step(
            b, n, layers, d, d_ff, vocabulary, attention=1 / b
        ),
        output_head_last_token_only=lambda b, n, layers, d, d_ff, vocabulary: (
            _step(b, n, layers, d, d_ff, vocabulary, tables=0) + 6 * b * d * vocabulary
        ),
        no_output_head_last_token_sequence=lambda b, n, layers, d, d_ff, vocabulary: (
            _step(b, n, layers, d, d_ff, vocabulary) - 6 * b * d * vocabulary
        ),
        visible_pairs_only_because_causal_mask=lambda b, n, layers, d, d_ff, vocabulary: (
            _step(b, n, layers, d, d_ff, vocabulary, attention=0) + 12 * layers * (b * n * (n + 1) // 2) * d
        ),
        no_gradient_first_layers_input=lambda b, n, layers, d, d_ff, vocabulary: (
            _step(b, n, layers, d, d_ff, vocabulary) - 6 * b * n * d * d
        ),
        multiply_adds_instead_flops=lambda b, n, layers, d, d_ff, vocabulary: (
            _step(b, n, layers, d, d_ff, vocabulary) // 2
        ),
    ),
)
