"""Hidden cases of unit 05."""

import torch

from helpers.engine.cases import explicit_case, random_case
from helpers.transformer_lm.checks.decoder_lm import random_model
from helpers.transformer_lm.checks.feed_forward import far_gates
from helpers.transformer_lm.checks.generate import given_probabilities, random_logits, random_riddle
from helpers.transformer_lm.checks.layers import normed_rows
from helpers.transformer_lm.checks.learning_rate import rate_at
from helpers.transformer_lm.checks.masked_lm_objective import masked_texts
from helpers.transformer_lm.checks.next_token_loss import padded_texts
from helpers.transformer_lm.checks.residual import random_layers
from helpers.transformer_lm.checks.rotary_embedding import turned_rows
from helpers.transformer_lm.checks.train import lessons
from helpers.transformer_lm.checks.transformer_block import block_inputs

binary_positions = [
    explicit_case("n = 16, d = 5", 16, 5),
    explicit_case("n = 6, d = 1", 6, 1),
    explicit_case("n = 270, d = 10", 270, 10),
]
sinusoidal_positions = [
    explicit_case("n = 13, d = 12", 13, 12, 10_000.0),
    explicit_case("n = 7, d = 8, base 300", 7, 8, 300.0),
    explicit_case("n = 1, d = 6", 1, 6, 10_000.0),
]
frequencies_fall = []
shift_is_rotation = [
    explicit_case("k = 2, d = 12", 2, 12, 10_000.0),
    explicit_case("k = −11, d = 6, base 20", -11, 6, 20.0),
]
rotary_embedding = [
    turned_rows("positions 30 … 33, d = 12", (1, 2), [30, 31, 32, 33], 12),
    turned_rows("6 tokens, d = 6, in float64", (2,), [0, 4, 5, 6, 7, 8], 6, dtype=torch.float64),
    turned_rows("one token at position 9, base 500", (3, 2), [9], 6, base=500.0),
    turned_rows("d = 2, positions (3, 1, 4)", (3, 2), [[[2, 0, 5, 9]], [[1, 3, 4, 8]], [[7, 6, 11, 10]]], 2),
]
layer_norm = [
    normed_rows("4 sequences of 2 tokens, d = 7", 4, 2, 7),
    normed_rows("ε = 2", 6, 3, eps=2.0, scale=0.7),
    normed_rows("three batch axes, d = 4", 3, 1, 2, 4),
    normed_rows("rows near −300", 9, 12, centre=-300.0, scale=1.0),
    normed_rows("equal features, d = 3", 2, 3, scale=0.0, centre=-1.0, gradient=True),
]
rms_norm = [
    normed_rows("4 sequences of 2 tokens, d = 7", 4, 2, 7, parameters=1),
    normed_rows("ε = 2", 6, 3, eps=2.0, parameters=1),
    normed_rows("three batch axes, d = 4", 3, 1, 2, 4, parameters=1),
    normed_rows("zeros, d = 3", 2, 3, scale=0.0, centre=0.0, parameters=1, gradient=True),
]
feed_forward = {
    part: [
        random_case(batch=(3, 2), d=5, d_ff=8, label="3 sequences of 2 tokens"),
        random_case(batch=(4,), d=2, d_ff=9, label="d_ff = 9"),
        random_case(batch=(4,), d=4, d_ff=4, label="4 tokens, d = d_ff = 4"),
    ]
    for part in ("feed_forward", "swiglu")
}
feed_forward["swiglu"] += [
    random_case(batch=(2,), d=6, d_ff=24, scale=50.0, dtype=torch.float64, label="large numbers"),
    far_gates("gates far from 0, d_ff = 5", 2, 2, d=3, d_ff=5),
]
residual = [
    random_layers("5 layers, d = 3", 5, 4, 3),
    random_layers("2 layers, 3 sequences of 2 tokens", 2, 3, 2, 7),
    random_layers("4 layers, 4 tokens, d = 4", 4, 4, 4),
]
transformer_block = [
    block_inputs("pre-norm, 5 tokens, d = 8", 5, 8, pre_norm=True),
    block_inputs("post-norm, 3 sequences of 2 tokens, d = 5", 3, 2, 5, pre_norm=False),
    block_inputs("pre-norm, 6 tokens, d = 6", 6, 6, pre_norm=True),
]
DecoderLM = {
    "DecoderLM": [random_model("4 layers, 2 heads, d = 16", 13, 16, 2, 4, 2, 3)],
    "lm_parameters": [
        explicit_case("GPT-2 medium", 50_257, 1024, 24, 1024, True),
        explicit_case("v = 7, d = 4, 5 layers", 7, 4, 5, 0, False),
    ],
}
what_is_trained = []
next_token_loss = [
    padded_texts("lengths 3, 9, 5, 7 of n = 9", 9, 6, 3, 9, 5, 7),
    padded_texts("4 texts of 4 tokens, v = 4", 4, 4, 4, 2, 3, 4),
    padded_texts("lengths 5, 1, 2", 5, 7, 5, 1, 2),
    padded_texts("lengths 2, 4, in float64", 4, 10, 2, 4, dtype=torch.float64),
]
learning_rate = [
    rate_at(3, 60, 5, 0.1, 0.02),
    rate_at(31, 60, 5, 0.1, 0.02),
    rate_at(59, 60, 5, 0.1, 0.02),
    rate_at(7, 8, 8),
]
train = [
    lessons("9 steps, 2 batches more", 9, 1.0, 0.5, spare=2),
    lessons("65 steps from a fixed start", 65, 0.01, 1.0),
]
generate = {
    "next_token_probabilities": [
        random_logits("temperature 0.3, v = 12", 2, 12, temperature=0.3),
        random_logits("temperature 0.02, v = 5", 2, 5, temperature=0.02),
        random_logits("top_k = 4 of 10", 3, 10, top_k=4),
        given_probabilities("top_p = 0.9", [0.35, 0.05, 0.3, 0.2, 0.1], 1.0, None, 0.88),
    ],
    "generate": [
        random_riddle("prompt of 2, 9 to write, context 6", 23, 2, 2, 9, 6),
        random_riddle("prompt longer than the context", 14, 1, 8, 3, 4),
    ],
}
masked_lm_objective = [
    masked_texts("lengths 14, 3 of 14", 2, 14, 2, 14, 3),
    masked_texts("5 texts of 12 tokens", 5, 12, 1, 12, 7, 12, 9, 10),
    masked_texts("2 texts, a hair below the limits", 2, 12, 2, 12, 12, just=1e-11),
]
