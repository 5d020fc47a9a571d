"""Hidden cases of unit 10."""

import torch

from helpers.beyond_quadratic.checks.decayed_attention import (
    decaying,
    forgotten_before,
    long_decaying,
    long_decaying_chunks,
    resets,
)
from helpers.beyond_quadratic.checks.delta_rule import few_keys, long_written, written
from helpers.beyond_quadratic.checks.global_local import far_global, long_global
from helpers.beyond_quadratic.checks.linear_attention import large_after_small, long_causal, long_chunks, long_sequences
from helpers.beyond_quadratic.checks.local_attention import long_local
from helpers.beyond_quadratic.checks.sparse import with_a_token_of_zeros
from helpers.beyond_quadratic.checks.strided_sparse import listed_keys
from helpers.engine.cases import as_float64, random_case

local_attention = [
    with_a_token_of_zeros(random_case(n=13, d=2, d_v=4, w=5)),
    random_case(batch=(4,), n=6, d=3, d_v=3, w=0),
    random_case(n=1, d=4, d_v=2, w=2, label="one token"),
    random_case(n=12, d=3, d_v=4, w=2, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    long_local(350, 2, 5, 4),
]
global_local = [
    with_a_token_of_zeros(random_case(n=12, d=3, d_v=4, w=3, g=2)),
    random_case(n=8, d=4, d_v=3, w=2, g=0, label="no global token"),
    random_case(n=6, d=6, d_v=6, w=1, g=1, label="n = d = d_v = 6"),
    random_case(
        batch=(2,), n=7, d=4, d_v=2, w=1, g=5, dtype=torch.float64, gradient=True, label="gradients, in float64"
    ),
    long_global(380, 5, 2, 4, 3),
    far_global(12, 4, 3, 1),
]
strided_sparse = {
    "strided_keys": [random_case(n=1), random_case(n=7), random_case(n=64), random_case(n=101)],
    "gathered_attention": [
        with_a_token_of_zeros(listed_keys(7, 5, 5, 2, 4)),
        listed_keys(3, 12, 2, 5, 2, batch=(4,)),
        listed_keys(6, 6, 1, 3, 3),
    ],
}
low_rank_attention = [
    random_case(n=7, m=4, d=6, d_v=2, r=3),
    random_case(n=5, m=9, d=4, d_v=3, r=1, label="one summary"),
    random_case(
        batch=(2,), n=3, m=7, d=5, d_v=4, r=4, dtype=torch.float64, gradient=True, label="gradients, in float64"
    ),
]
linear_attention = {
    "linear_attention": [
        random_case(n=6, m=3, d=7, d_v=4),
        random_case(batch=(2,), n=3, m=5, d=4, d_v=4, dtype=torch.float64, gradient=True, label="gradients"),
        long_sequences(400, 300, 3, 5),
    ],
    "recurrent_linear_attention": [
        random_case(batch=(4,), n=9, d=2, d_v=6),
        random_case(n=1, d=3, d_v=2),
        random_case(n=5, d=5, d_v=5),
        long_causal(250, 5, 4),
    ],
    "chunked_linear_attention": [
        random_case(n=13, d=4, d_v=3, c=5),
        random_case(batch=(2,), n=6, d=3, d_v=2, c=6),
        random_case(n=7, d=3, d_v=2, c=1),
        random_case(n=6, d=6, d_v=6, c=3),
        long_chunks(601, 3, 4, 30),
        as_float64(random_case(n=11, d=5, d_v=2, c=6)),
        as_float64(random_case(n=9, d=3, d_v=4, c=3)),
        large_after_small(11, 4, 3, 5),
    ],
}
decayed_attention = {
    "recurrent_decayed_attention": [
        decaying("n = 9, d = 2, d_v = 6, a batch axis", 9, 2, 6, batch=(4,)),
        decaying("γ near 1, in float64", 11, 5, 3, low=0.999, dtype=torch.float64),
        decaying("gradients, in float64", 6, 4, 3, dtype=torch.float64, limits={"gradient": True}),
        decaying("large inputs", 5, 3, 4, scale=5.0, dtype=torch.float64),
        decaying("n = d = d_v = 5", 5, 5, 5),
        decaying("n = 45, γ near 0", 45, 4, 3, low=1e-7, high=1e-4),
        long_decaying(250, 5, 4, low=0.9),
    ],
    "chunked_decayed_attention": [
        decaying("n = 13, c = 5, a batch axis", 13, 4, 3, 5, batch=(3,)),
        decaying("n = 6, c = 6, γ near 1, in float64", 6, 3, 2, 6, low=0.999, dtype=torch.float64),
        decaying("n = 17, c = 7, γ near 0, in float64", 17, 2, 5, 7, low=1e-6, high=1e-2, dtype=torch.float64),
        decaying("n = 15, c = 4, some wipe the state, in float64", 15, 5, 2, 4, gamma=resets, dtype=torch.float64),
        decaying("n = 11, c = 4: gradients, in float64", 11, 3, 4, 4, dtype=torch.float64, limits={"gradient": True}),
        decaying("n = d = d_v = 6, c = 3", 6, 6, 6, 3),
        forgotten_before(700, 4, 3, 28),
        long_decaying_chunks(601, 3, 4, 30, low=0.9),
    ],
}
delta_rule = [
    written("n = 9, d = 2, d_v = 6, a batch axis", 9, 2, 6, batch=(4,)),
    written("short keys, in float64", 8, 5, 3, scale=0.05, dtype=torch.float64),
    written("two keys, written seven times each", 14, 3, 2, keys=few_keys(14, 3, 2)),
    written("β = 1, in float64", 7, 5, 4, low=1.0, dtype=torch.float64),
    written("gradients, β near 1, in float64", 5, 4, 2, low=0.9, dtype=torch.float64, gradient=True),
    written("n = d = d_v = 5", 5, 5, 5),
    long_written(250, 5, 4),
]
cost_of_all = {
    "local_flops": [random_case(n=1000, d=8, w=10)],
    "global_local_flops": [random_case(n=1000, d=8, w=10, g=7)],
    "strided_flops": [random_case(n=900, d=8)],
    "low_rank_flops": [random_case(n=1000, d=8, r=30)],
    "linear_flops": [random_case(n=1000, d=128)],
    "chunked_flops": [random_case(n=1000, d=8, c=20)],
}
