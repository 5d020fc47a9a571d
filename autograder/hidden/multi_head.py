"""Hidden cases of unit 04."""

import torch

from helpers.engine.cases import sized
from helpers.multi_head.checks.heads import _layer, _loop, _parts
from helpers.multi_head.checks.induction import _sequences

split_heads = [sized(b=1, n=7, d=20, h=4), sized(b=4, n=2, d=6, h=2, dtype=torch.float64)]
merge_heads = [sized(b=1, h=5, n=2, d_h=3), sized(b=2, h=3, n=3, d_h=3, dtype=torch.float64)]
multi_head_loop = [
    _loop("one head, d = 5", n=3, m=6, d=5, h=1, d_h=5),
    _loop("5 heads of width 3, d = 4", b=1, n=6, m=6, d=4, h=5, d_h=3),
]
MultiHeadAttention = [
    _layer("one head, d = 6", n=4, d=6, h=1),
    _layer("6 heads, a mask for each sequence, m = 3", b=2, n=5, m=3, d=12, h=6, mask=(2, 5, 3)),
    _layer("a batch of one, d = 9, 3 heads of width 3", b=1, n=3, d=9, h=3, mask=(3, 3)),
]
head_parameters = [sized(d=6, h=6, d_h=1), sized(d=20, h=2, d_h=3)]
head_flops = [sized(n=1, d=6, h=6, d_h=1), sized(n=33, d=20, h=2, d_h=3)]
heads_as_sum = [_parts("5 heads of width 3, d = 15", 1, 5, 2, 3, 15), _parts("one head", 2, 1, 3, 4, 6)]
grouped_query_attention = [
    sized(b=2, h=12, h_kv=4, n=3, m=5, d_h=2), sized(b=1, h=9, h_kv=3, n=6, m=4, d_h=5, dtype=torch.float64),
]  # fmt: skip
two_hand_made_heads = {
    part: [
        _sequences("4 kinds of token, n = 20", 4, 20, 20),
        _sequences("12 kinds of token, sequences shorter than n", 12, 11, 6),
    ]
    for part in ("previous_token_head", "first_token_head", "induction_head")
}
alibi_bias = [sized(n=9, h=6), sized(n=2, h=32), sized(n=1, h=3)]
