"""Hidden cases of unit 04."""

import torch

from helpers.engine.cases import random_case
from helpers.multi_head.checks.heads_as_sum import case as parts_case
from helpers.multi_head.checks.multi_head_attention import case as layer_case
from helpers.multi_head.checks.multi_head_loop import case as loop_case
from helpers.multi_head.checks.two_hand_made_heads import case as token_sequences

split_heads = [
    random_case(b=1, n=7, d=20, h=4),
    random_case(b=4, n=2, d=6, h=2, dtype=torch.float64),
    random_case(b=4, n=4, d=4, h=2, label="b = n = d = 4"),
]
merge_heads = [random_case(b=1, h=5, n=2, d_h=3), random_case(b=2, h=3, n=3, d_h=3, dtype=torch.float64)]
multi_head_loop = [
    loop_case("one head, d = 5", n=3, m=6, d=5, h=1, d_h=5),
    loop_case("5 heads of width 3, d = 4", b=1, n=6, m=6, d=4, h=5, d_h=3, dtype=torch.float64, gradient=True),
]
MultiHeadAttention = [
    layer_case("one head, d = 6", n=4, d=6, h=1),
    layer_case("one token for each of 3 sequences", b=3, n=1, d=6, h=2),
    layer_case("6 heads, a mask for each sequence, m = 3", b=2, n=5, m=3, d=12, h=6, mask=(2, 5, 3)),
    layer_case("a batch of one, d = 9, 3 heads of width 3", b=1, n=3, d=9, h=3, mask=(3, 3), gradients=True),
]
head_parameters = [random_case(d=6, h=6, d_h=1), random_case(d=20, h=2, d_h=3)]
head_flops = [random_case(n=1, d=6, h=6, d_h=1), random_case(n=33, d=20, h=2, d_h=3)]
heads_as_sum = [parts_case("5 heads of width 3, d = 15", 1, 5, 2, 3, 15), parts_case("one head", 2, 1, 3, 4, 6)]
grouped_query_attention = [
    random_case(b=2, h=12, h_kv=4, n=3, m=5, d_h=6),
    random_case(b=1, h=9, h_kv=3, n=6, m=4, d_h=5, dtype=torch.float64),
]
two_hand_made_heads = {
    part: [
        token_sequences("4 kinds of token, n = 20", 4, 20, 20),
        token_sequences("20 kinds of token, sequences shorter than n = 100", 20, 100, 30),
    ]
    for part in ("previous_token_head", "first_token_head", "induction_head")
}
alibi_bias = [random_case(n=9, h=6), random_case(n=2, h=32), random_case(n=1, h=3)]
