"""Hidden cases of unit 08."""

import torch

from helpers.engine.cases import Drawn, given, sized
from helpers.kv_cache.checks.cache import _steps
from helpers.kv_cache.checks.decoding import (
    _bidirectional,
    _causal,
    _fed,
    _grouped,
    _prompt,
    _riddle,
    _tokens,
    _transformer,
)
from helpers.kv_cache.checks.decoding_cost import _published
from helpers.kv_cache.checks.paged_cache import _story
from helpers.kv_cache.checks.quantized_cache import _cached
from helpers.kv_cache.checks.ragged import _prompts, _real
from helpers.kv_cache.checks.sliding_cache import _window

redundant_projections = [sized(n=37, layers=5), sized(n=2, layers=2)]
what_to_store = []
new_operations = []
KVCache = [
    _steps("chunks of 3, 1, 2, in float64", (0, 3), (0, 1), (0, 2), b=3, h=1, capacity=7, d_h=6, dtype=torch.float64),
    _steps("both full", (0, 2), (1, 4), (0, 2), (1, 1), (0, 1), b=1, h=4, capacity=4, d_h=3),
]
decode_step = [
    _fed("chunks of 1, 5, 2, 2", 1, 5, 2, 2, b=3, h=2, d_h=10),
    _fed("one chunk of 9", 9, b=1, h=4, d_h=2),
    _fed("a chunk late in the text", 6, 1, 1, 6),
]
generate_cached = [
    given("a prompt of 11, 1 new token", _riddle(103), _prompt(2, 11, 103), 1),
    given("a prompt of 3, 20 new tokens", _riddle(107), _prompt(4, 3, 107), 20),
    given("a small Transformer, other weights", Drawn(_transformer), _prompt(1, 8, 31), 15),
]
bidirectional_cannot_cache = [
    given("bidirectional attention, n = 8, d = 3", _bidirectional(3), *_tokens(8, 3)),
    given("causal attention, n = 2, d = 6", _causal(6), *_tokens(2, 6)),
]
decode_cost = [sized(n=31, d=12), sized(n=1000, d=128)]
cache_bytes = [
    _published("Llama 3 70B", 1000, 3, 2), _published("Mistral 7B", 5, 1, 4),
    sized(layers=7, h=12, h_kv=4, d=96, n=11, b=2, size=2, label="7 layers, 12 and 4 heads"),
]  # fmt: skip
mqa_gqa_cache = [
    _grouped("8 query heads, 2 key/value heads, chunks of 1, 6, 1", 1, 6, 1, h=8, h_kv=2, d_h=3),
    _grouped("6 and 3 heads, in float64", 2, 2, h=6, h_kv=3, b=3, dtype=torch.float64),
]
sliding_cache = [
    _window("window 1", 1, 1, 3, 1), _window("window 5, chunks of 7, 7, 2, 1", 5, 7, 7, 2, 1, b=1, h=1, d_h=6),
    _window("window 9, never full", 9, 2, 1, 3),
]  # fmt: skip
quantized_cache = {
    "quantize_keys": [
        _cached("one token", 2, 1, 1, 5),
        _cached("float64", 1, 3, 8, 4, loud="channels", dtype=torch.float64),
    ],
    "quantize_values": [
        _cached("one channel", 2, 1, 5, 1),
        _cached("float64", 1, 3, 8, 4, loud="tokens", dtype=torch.float64),
    ],
    "quantized_bytes": [sized(b=5, h=4, n=33, d_h=10, size=4)],
}
paged_cache = [
    _story("three share, two part", 12, 4, ("append", "a", 5), ("fork", "a", "b"), ("fork", "b", "c"), ("append", "c", 2), ("append", "b", 1),
           ("read", "a"), ("read", "b"), ("read", "c"), ("append", "a", 1), ("read", "a"), ("free", "b"), ("read", "c"), ("free", "a"),
           ("free", "c"), ("append", "d", 9), ("read", "d"), d=2),
    _story("a fork of a fork outlives both", 8, 2, ("append", "x", 3), ("fork", "x", "y"), ("append", "y", 2), ("fork", "y", "z"), ("free", "x"),
           ("free", "y"), ("append", "q", 4), ("read", "z"), ("append", "z", 1), ("read", "z"), ("read", "q"), d=5),
]  # fmt: skip
ragged_batch = {
    "pad_left": [given("lengths 1, 8, 3, 8", _prompts(1, 8, 3, 8)), given("one prompt", _prompts(4))],
    "positions_and_mask": [
        _real("prompts of 7, 1, 4, 2", 7, 1, 4, 2, n=7),
        _real("prompts of 3, 1 and 2 new, n = 4", 3, 1, written=2, n=4),
    ],
}
