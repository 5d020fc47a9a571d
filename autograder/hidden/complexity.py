"""Hidden cases of unit 07."""

import torch

from helpers.engine.cases import RandomArg, explicit_case, random_case


def _size(low: int, high: int) -> RandomArg:
    """A size that is drawn anew at every grading."""
    return RandomArg(lambda generator: int(torch.randint(low, high, (), generator=generator)))


def _layer(label: str, b: int, n: int, h: int, d_h: int, d_ff: int):
    return explicit_case(label, b, n, h * d_h, h, d_ff)


matmul_flops = [random_case(n=1, m=1, k=1), explicit_case("sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99))]
matmul_io = [random_case(n=1, m=1, k=1), explicit_case("sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99))]
arithmetic_intensity = [explicit_case("float16, sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99), torch.float16)]
LAYERS = [
    _layer("b = 1, h = 1", 1, 6, 1, 9, 11),
    _layer("large", 32, 2048, 32, 128, 11008),
    explicit_case("sizes drawn", _size(2, 9), _size(2, 99), 24, 4, _size(2, 99)),
]
training_table = LAYERS
decode_table = LAYERS
crossover = [explicit_case("d = 64, d_ff = 64", 64, 64), explicit_case("sizes drawn", _size(2, 999), _size(2, 999))]
layer_types = [explicit_case("other sizes", 2.0**90, 2.0**30, 2.0**7, 2.0**9)]
roofline = [
    explicit_case("exactly at the ridge", 800e9, 2e9, torch.float32, 1e12, 10e9),
    explicit_case("H100, decoding in bfloat16", 2e9, 1.1e9, torch.bfloat16, 989e12, 3350e9),
    # flops / (flops / peak) is less than the peak, in the last digit
    explicit_case("TPU v4, a large product in bfloat16", 2 * 3003**3, 3 * 3003**2, torch.bfloat16, 275e12, 1228e9),
]
score_memory = [explicit_case("b = 1, n = 1, h = 1, 1 layer, float64", 1, 1, 1, 1, torch.float64)]
longest_context = [
    explicit_case(
        "just enough for n = 44", 5 * 3 * 5 * 44**2 * 4, 5, 3, 5, torch.float32
    ),  # a quotient of two roots is less than 44
    explicit_case("just enough for n = 29,999,999", 29_999_999**2, 1, 1, 1, torch.int8),
    explicit_case("24 GB, float16", 24 * 10**9, 4, 32, 32, torch.float16),
]
vit_windows = [random_case(side=384, patch=4, window=12, d=128), random_case(side=32, patch=1, window=8, d=7)]
global_tokens_cost = [random_case(n=64, w=9, g=0, d=4), random_case(n=10, w=3, g=25, d=6)]
channel_attention = [random_case(n=196, d=768, h=12), random_case(n=50, d=10, h=10)]
model_flops = [random_case("one layer, one token", b=1, n=1, layers=1, d=8, d_ff=24, vocabulary=11)]
training_run = [
    random_case(
        "405 billion parameters on 16,384 devices",
        parameters=405 * 10**9,
        tokens=15_600 * 10**9,
        devices=16_384,
        peak=989e12,
        mfu=0.41,
    ),
    explicit_case("sizes drawn", _size(2, 9999), _size(2, 9999), _size(2, 99), 1e6, 0.55),
]
