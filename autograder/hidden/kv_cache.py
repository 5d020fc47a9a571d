"""Hidden cases of unit 08."""

import torch

from helpers.engine.cases import RandomArg, explicit_case, random_case
from helpers.kv_cache.checks.bidirectional_cannot_cache import bidirectional_attention, causal_attention, random_tokens
from helpers.kv_cache.checks.cache_bytes import published_model
from helpers.kv_cache.checks.decode_step import fed_in_chunks
from helpers.kv_cache.checks.generate_cached import random_prompt, riddle_model, small_transformer
from helpers.kv_cache.checks.kv_cache import cache_steps
from helpers.kv_cache.checks.latent_attention import latent_step
from helpers.kv_cache.checks.mqa_gqa_cache import grouped_heads
from helpers.kv_cache.checks.paged_cache import requests
from helpers.kv_cache.checks.quantized_cache import cached_rows
from helpers.kv_cache.checks.ragged_batch import random_prompts, real_tokens
from helpers.kv_cache.checks.sliding_cache import window_case

redundant_projections = [random_case(n=37, layers=5), random_case(n=2, layers=3)]
what_to_store = []
new_operations = []
KVCache = [
    cache_steps(
        "chunks of 3, 1, 2, in float64", (0, 3), (0, 1), (0, 2), b=3, h=1, capacity=7, d_h=6, dtype=torch.float64
    ),
    cache_steps("too many at once, then as many as fit", (0, 6), (0, 5), (0, 1), b=1, h=3, capacity=5, d_h=2),
    cache_steps("both full", (0, 2), (1, 4), (0, 2), (1, 1), (0, 1), b=1, h=4, capacity=4, d_h=3),
]
decode_step = [
    fed_in_chunks("chunks of 1, 5, 2, 2", 1, 5, 2, 2, b=3, h=2, d_h=10),
    fed_in_chunks("one chunk of 9", 9, b=1, h=4, d_h=2),
    fed_in_chunks("a chunk late in the text", 6, 1, 1, 6),
    fed_in_chunks("four sequences of 4 tokens, d = 4", 1, 3, b=4, h=2, d_h=2),
]
generate_cached = [
    explicit_case("a prompt of 11, 1 new token", riddle_model(103), random_prompt(2, 11, 103), 1),
    explicit_case("4 prompts of 4, 20 new tokens", riddle_model(107), random_prompt(4, 4, 107), 20),
    explicit_case("a small Transformer, other weights", RandomArg(small_transformer), random_prompt(1, 8, 31), 15),
]
bidirectional_cannot_cache = [
    explicit_case("bidirectional attention, n = 8, d = 3", bidirectional_attention(3), *random_tokens(8, 3)),
    explicit_case("causal attention, n = 2, d = 6", causal_attention(6), *random_tokens(2, 6)),
    explicit_case("bidirectional attention, n = d = 4", bidirectional_attention(4), *random_tokens(4, 4)),
]
decode_cost = [random_case(n=31, d=12), random_case(n=1000, d=128)]
cache_bytes = [
    published_model("Llama 3 70B", 1000, 3, 2),
    published_model("Mistral 7B", 5, 1, 4),
    random_case(layers=7, h=12, h_kv=4, d=96, n=11, b=2, size=2, label="7 layers, 12 and 4 heads"),
]
mqa_gqa_cache = [
    grouped_heads("8 query heads, 2 key/value heads, chunks of 1, 6, 1", 1, 6, 1, h=8, h_kv=2, d_h=3),
    grouped_heads("6 and 3 heads, in float64", 2, 2, h=6, h_kv=3, b=3, dtype=torch.float64),
]
sliding_cache = [
    window_case("window 1", 1, 1, 3, 1),
    window_case("window 5, chunks of 7, 7, 2, 1", 5, 7, 7, 2, 1, b=1, h=1, d_h=6, counted=True),
    window_case("window 9, never full, a token of zeros", 9, 2, 1, 3, silent=0),
    window_case("large scores", 4, 3, 2, 1, b=1, h=2, d_h=5, loud=90.0),
]
quantized_cache = {
    "quantize_keys": [
        cached_rows("one token", 2, 1, 1, 5),
        cached_rows("float64", 1, 3, 8, 4, loud="channels", dtype=torch.float64),
    ],
    "quantize_values": [
        cached_rows("one channel", 2, 1, 5, 1),
        cached_rows("float64", 1, 3, 8, 4, loud="tokens", dtype=torch.float64),
    ],
    "quantized_bytes": [random_case(b=5, h=4, n=33, d_h=10, size=4)],
}
paged_cache = [
    requests(
        "three share, two part",
        12,
        4,
        "append a 5, fork a b, fork b c, append c 2, append b 1, read a, read b, read c, append a 1, read a, free b, "
        "read c, free a, free c, append d 9, read d",
        d=2,
    ),
    requests(
        "a fork of a fork outlives both",
        8,
        2,
        "append x 3, fork x y, append y 2, fork y z, free x, free y, append q 4, read z, append z 1, read z, read q",
        d=5,
    ),
]
ragged_batch = {
    "pad_left": [
        explicit_case("lengths 1, 8, 3, 8", random_prompts(1, 8, 3, 8)),
        explicit_case("one prompt", random_prompts(4)),
    ],
    "positions_and_mask": [
        real_tokens("prompts of 7, 1, 4, 2", 7, 1, 4, 2, n=7),
        real_tokens("prompts of 3, 1 and 2 new, n = 4", 3, 1, written=2, n=4),
    ],
}
latent_attention = [
    latent_step("11 tokens in the cache", 11, b=2, d=9, h=3, d_h=5, d_c=7),
    latent_step("the first token, 6 heads", 0, b=3, d=4, h=6, d_h=2, d_c=8),
    latent_step("large scores, in float64", 4, b=1, d=10, h=2, d_h=6, d_c=9, loud=500.0, dtype=torch.float64),
    latent_step("four of everything", 4, b=4, d=4, h=4, d_h=4, d_c=4),
    latent_step("399 tokens, 5 heads", 399, b=3, d=11, h=5, d_h=9, d_c=14, limited=True),
]
