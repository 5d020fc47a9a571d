"""Hidden cases of unit 07."""

import torch

from helpers.engine.cases import Drawn, given, sized


def _size(low: int, high: int) -> Drawn:
    """A size that is drawn anew at every grading."""
    return Drawn(lambda generator: int(torch.randint(low, high, (), generator=generator)))


def _layer(label: str, b: int, n: int, h: int, d_h: int, d_ff: int):
    return given(label, b, n, h * d_h, h, d_ff)


matmul_flops = [sized(n=1, m=1, k=1), given("sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99))]
matmul_io = [sized(n=1, m=1, k=1), given("sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99))]
arithmetic_intensity = [given("float16, sizes drawn", _size(2, 99), _size(2, 99), _size(2, 99), torch.float16)]
LAYERS = [
    _layer("b = 1, h = 1", 1, 6, 1, 9, 11),
    _layer("large", 32, 2048, 32, 128, 11008),
    given("sizes drawn", _size(2, 9), _size(2, 99), 24, 4, _size(2, 99)),
]
training_table = LAYERS
decode_table = LAYERS
crossover = [given("d = 64, d_ff = 64", 64, 64), given("sizes drawn", _size(2, 999), _size(2, 999))]
layer_types = [given("other sizes", 2.0**90, 2.0**30, 2.0**7, 2.0**9)]
roofline = [
    given("exactly at the ridge", 800e9, 2e9, torch.float32, 1e12, 10e9),
    given("H100, decoding in bfloat16", 2e9, 1.1e9, torch.bfloat16, 989e12, 3350e9),
    # flops / (flops / peak) is less than the peak, in the last digit
    given("TPU v4, a large product in bfloat16", 2 * 3003**3, 3 * 3003**2, torch.bfloat16, 275e12, 1228e9),
]
score_memory = [given("b = 1, n = 1, h = 1, 1 layer, float64", 1, 1, 1, 1, torch.float64)]
longest_context = [
    given(
        "just enough for n = 44", 5 * 3 * 5 * 44**2 * 4, 5, 3, 5, torch.float32
    ),  # a quotient of two roots is less than 44
    given("just enough for n = 29,999,999", 29_999_999**2, 1, 1, 1, torch.int8),
    given("24 GB, float16", 24 * 10**9, 4, 32, 32, torch.float16),
]
vit_windows = [sized(side=384, patch=4, window=12, d=128), sized(side=32, patch=1, window=8, d=7)]
global_tokens_cost = [sized(n=64, w=9, g=0, d=4), sized(n=10, w=3, g=25, d=6)]
channel_attention = [sized(n=196, d=768, h=12), sized(n=50, d=10, h=10)]
model_flops = [sized("one layer, one token", b=1, n=1, layers=1, d=8, d_ff=24, vocabulary=11)]
training_run = [
    sized(
        "405 billion parameters on 16,384 devices",
        parameters=405 * 10**9,
        tokens=15_600 * 10**9,
        devices=16_384,
        peak=989e12,
        mfu=0.41,
    ),
    given("sizes drawn", _size(2, 9999), _size(2, 9999), _size(2, 99), 1e6, 0.55),
]
