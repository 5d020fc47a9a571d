"""Hidden cases of unit 10."""

import torch

from helpers.beyond_quadratic.checks.linear_attention import long_causal, long_chunks, long_sequences
from helpers.beyond_quadratic.checks.sparse import listed_keys, long_global, long_local
from helpers.engine.cases import sized

local_attention = [
    sized(n=13, d=2, d_v=4, w=5),
    sized(batch=(4,), n=6, d=3, d_v=3, w=0),
    sized(n=1, d=4, d_v=2, w=2, label="one token"),
    sized(n=12, d=3, d_v=4, w=2, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    long_local(350, 2, 5, 4),
]
global_local = [
    sized(n=12, d=3, d_v=4, w=3, g=2),
    sized(n=8, d=4, d_v=3, w=2, g=0, label="no global token"),
    sized(batch=(2,), n=7, d=4, d_v=2, w=1, g=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    long_global(380, 5, 2, 4, 3),
]
strided_sparse = {
    "strided_keys": [sized(n=1), sized(n=7), sized(n=64), sized(n=101)],
    "gathered_attention": [
        listed_keys(7, 5, 5, 2, 4),
        listed_keys(3, 12, 2, 5, 2, batch=(4,)),
        listed_keys(6, 6, 1, 3, 3),
    ],
}
low_rank_attention = [
    sized(n=7, m=4, d=6, d_v=2, r=3),
    sized(n=5, m=9, d=4, d_v=3, r=1, label="one summary"),
    sized(batch=(2,), n=3, m=7, d=5, d_v=4, r=4, dtype=torch.float64, gradient=True, label="gradients, in float64"),
]
linear_attention = {
    "linear_attention": [
        sized(n=6, m=3, d=7, d_v=4),
        sized(batch=(2,), n=3, m=5, d=4, d_v=4, dtype=torch.float64, gradient=True, label="gradients"),
        long_sequences(400, 300, 3, 5),
    ],
    "recurrent_linear_attention": [sized(batch=(4,), n=9, d=2, d_v=6), sized(n=1, d=3, d_v=2), long_causal(250, 5, 4)],
    "chunked_linear_attention": [
        sized(n=13, d=4, d_v=3, c=5),
        sized(batch=(2,), n=6, d=3, d_v=2, c=6),
        sized(n=7, d=3, d_v=2, c=1),
        long_chunks(601, 3, 4, 30),
    ],
}
cost_of_all = {
    "local_flops": [sized(n=1000, d=8, w=10)],
    "global_local_flops": [sized(n=1000, d=8, w=10, g=7)],
    "strided_flops": [sized(n=900, d=8)],
    "low_rank_flops": [sized(n=1000, d=8, r=30)],
    "linear_flops": [sized(n=1000, d=128)],
    "chunked_flops": [sized(n=1000, d=8, c=20)],
}  # fmt: skip
