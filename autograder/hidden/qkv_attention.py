"""Hidden cases of unit 02."""

import torch

from helpers.engine.cases import RandomArg, explicit_case, random_case
from helpers.qkv_attention.checks.equal_attention import orthonormal_keys, wide_key
from helpers.qkv_attention.checks.permutation_equivariance import layer_case, running_mean, self_attention
from helpers.qkv_attention.checks.same_output_other_weights import (
    distribution_and_values,
    near_uniform,
    one_wide_direction,
)

softmax = [
    random_case(shape=(7,), dim=0),
    random_case(shape=(3, 2, 4, 5), dim=1),
    random_case(shape=(4, 4), dim=0, scale=500.0, label="scores in the hundreds"),
    explicit_case(
        "float16, near its largest value", RandomArg(lambda g: (60000 * torch.rand(3, 4, generator=g)).half()), -1
    ),
    random_case(shape=(2, 100), dim=-1, dtype=torch.float16, label="float16, rows of 100"),
]
attention_weights = [random_case(n=9, d=2), random_case(n=6, d=11, scale=6.0)]
attend = [random_case(n=9, d=2, d_v=7), random_case(n=2, d=5, d_v=3)]
select_one_value = [random_case(n=6, d=7), random_case(n=9, d=9)]
equal_attention = {
    "query_between": [
        random_case(d=3),
        random_case(d=2, scale=4.0, label="d = 2, long keys"),
        explicit_case("k1 = (2, 2, 2), k2 = (1, 1, 1)", torch.full((3,), 2.0), torch.ones(3)),
        explicit_case("d = 40, entries up to 90", wide_key(40), wide_key(40)),
    ],
    "query_for_pair": [
        explicit_case("9 keys, a = 8, b = 0", orthonormal_keys(9, 20), 8, 0),
        explicit_case("700 keys, a = 650, b = 3", orthonormal_keys(700, 700), 650, 3),
    ],
}
two_word_example = []
qkv_projections = [random_case(n=6, d=2, d_k=7, d_v=3), random_case(batch=(4,), n=3, d=3, d_k=3, d_v=3)]
scaled_dot_product_attention = [
    random_case(n=1, m=9, d=2, d_v=6),
    random_case(batch=(2, 1, 3), n=3, m=5, d=7, d_v=4),
    random_case(n=6, m=6, d=6, d_v=6, scale=2.5, label="everything square, large scores"),
    random_case(n=4, m=11, d=3, d_v=2, dtype=torch.float64),
    random_case(batch=(2,), n=3, m=5, d=4, d_v=2, scale=0.5, dtype=torch.float16, label="float16"),
]
score_functions = {
    "cosine_score": [
        random_case(n=6, m=4, d=3),
        random_case(n=3, m=5, d=8, scale=1e-3, dtype=torch.float16, label="float16, short vectors"),
    ],
    "additive_score": [random_case(n=2, m=6, d_q=5, d_k=3, a=2)],
    "location_score": [random_case(n=6, d=2, m=7)],
    "general_score": [random_case(n=5, d_q=2, d_k=6, m=3)],
    "dot_score": [random_case(n=6, m=4, d=3)],
    "scaled_dot_score": [random_case(n=6, m=4, d=25)],
}
score_variance = [random_case(d=8, sigma=2.0), random_case(d=1, sigma=0.7)]
softmax_jacobian = [
    random_case(n=8),
    random_case(n=5, scale=20.0, label="nearly saturated"),
    random_case(n=7, dtype=torch.float64),
]
permutation_equivariance = [
    layer_case("self-attention, n = 7, d = 2", self_attention, 7, 2),
    layer_case("a running mean, n = 6, d = 3", running_mean, 6, 3),
]
parameter_counts = [random_case(n=17, d=6), random_case(n=1, d=9), random_case(n=20001, d=5003)]
same_output_other_weights = [
    explicit_case("n = 12, d = 5", *distribution_and_values(12, 5)),
    explicit_case("n = 160, d = 158", near_uniform(160), one_wide_direction(160)),
]
