"""Hidden cases of unit 03."""

import torch

from helpers.engine.answers.common_misconceptions import visible_mask
from helpers.engine.cases import explicit_case, normal, random_case
from helpers.masking import peekers
from helpers.masking.checks.combine_masks import any_mask
from helpers.masking.checks.copy_without_mask import padded_targets, random_logits
from helpers.masking.checks.leaks_future import planted
from helpers.masking.checks.shift_targets import random_tokens

causal_mask = [explicit_case("n = 8", 8), explicit_case("n = 4, the last of m = 11", 4, 11), explicit_case("n = 2", 2)]
masked_softmax = [
    explicit_case("three leading axes", normal(2, 1, 3, 4, 7), visible_mask(2, 1, 1, 4, 7)),
    explicit_case("scores of several hundred", normal(5, 8, scale=300.0), visible_mask(5, 8)),
    explicit_case(
        "one mask row for all queries, with an empty row", normal(3, 4, 6), visible_mask(3, 4, 6, empty_row=1)
    ),
    explicit_case("bfloat16", normal(4, 7, dtype=torch.bfloat16), visible_mask(4, 7, empty_row=1)),
    explicit_case(
        "float16, scores in the thousands", normal(4, 5, scale=4000.0, dtype=torch.float16), visible_mask(4, 5)
    ),
]
mask_then_renormalise = [explicit_case("batch 4, n = 6, m = 3", normal(4, 6, 3, scale=0.5), visible_mask(4, 6, 3))]
causal_attention = [
    random_case(n=1, m=9, d=2, d_v=6, label="one query, the last of 9 positions"),
    random_case(batch=(2, 1, 3), n=5, m=8, d=7, d_v=4),
    random_case(n=7, m=7, d=7, d_v=7, scale=4.0, label="everything square"),
    random_case(n=1, m=1, d=3, d_v=2),
]
padding_mask = [
    explicit_case("lengths 2, 9, 4, 1, n = 3, m = 9", torch.tensor([2, 9, 4, 1]), 3, 9),
    explicit_case("an empty sequence", torch.tensor([0, 2]), 2, 5),
]
combine_masks = [
    explicit_case("four masks", any_mask(2, 3, 4, 5), any_mask(2, 1, 1, 5), any_mask(4, 5), any_mask(2, 1, 4, 5)),
    explicit_case("the smaller mask first", any_mask(3, 6), any_mask(2, 1, 3, 6)),
]
leaks_future = [
    planted("peeks: very faintly, n = 12", peekers.faint, n=12, d=3),
    planted("peeks: at even positions, n = 11", peekers.even_only, n=11, d=5),
    planted("peeks: mask off by one, n = 5", peekers.off_by_one, n=5, d=3),
    planted("peeks: at the last position but one, n = 14", peekers.late_only, n=14, d=2),
    planted("peeks: tokens drawn with seed 42", peekers.off_by_one, n=6, seed=42),
    planted("peeks: tokens drawn with seed 123", peekers.mean_of_all, n=7, seed=123),
    planted("peeks: tokens drawn with seed 1234", peekers.three_ahead, n=8, seed=1234),
    planted("peeks: the last token for all, n = 4, a view of x", peekers.last_token_for_all, n=4),
    planted("sound: one token of 3 numbers", peekers.running_mean, n=1, d=3),
    planted("sound: causal attention, n = 12", peekers.causal_attention, n=12, d=6),
    planted("sound: a sum with rounding noise, n = 7", peekers.rounding_sum, n=7, d=3),
    planted("sound: a mean that fades, n = 10", peekers.fading_mean, n=10, d=3),
    planted("sound: RNN, n = d = 5", peekers.recurrent, n=5, d=5),
]
shift_targets = [
    explicit_case("two of n = 5, one of them empty", random_tokens(2, 5), torch.tensor([0, 5]), 60),
    explicit_case("5 sequences", random_tokens(5, 9), torch.tensor([9, 3, 1, 8, 5]), 99),
    explicit_case("4 sequences of 4", random_tokens(4, 4), torch.tensor([2, 4, 0, 3]), 60),
]
copy_without_mask = [
    explicit_case("lengths 1, 7, 3, 6", random_logits(4, 7, 11), padded_targets((1, 7, 3, 6), 7, 11)),
    explicit_case("two words only", random_logits(3, 3, 2, scale=5.0), padded_targets((3, 1, 2), 3, 2)),
]
mask_zoo = {
    "encoder_mask": [random_case(n=2), random_case(n=11)],
    "decoder_mask": [random_case(n=2), random_case(n=11)],
    "cross_mask": [random_case(n=1, m=7), random_case(n=9, m=2)],
    "prefix_mask": [random_case(n=9, p=2), random_case(n=7, p=6)],
    "sliding_window_mask": [
        random_case(n=12, w=5),
        random_case(n=3, w=3),
        random_case(n=2, w=9),
        random_case(n=1, w=1),
    ],
    "global_tokens_mask": [
        random_case(n=12, r=3, g=2),
        random_case(n=5, r=1, g=5),
        random_case(n=6, r=9, g=1),
        random_case(n=10, r=2, g=0),
        random_case(n=5, r=0, g=0),
        random_case(n=1, r=2, g=1),
    ],
    "packed_mask": [
        explicit_case("one document", (6,)),
        explicit_case("lengths 4, 1, 1, 5", (4, 1, 1, 5)),
        explicit_case("one token", (1,)),
    ],
}
why_before_softmax = []
what_is_it_for = []
which_positions = []
