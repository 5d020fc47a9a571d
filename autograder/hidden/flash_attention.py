"""Hidden cases of unit 09."""

import torch

from helpers.engine.cases import RandomArg, explicit_case, random_case
from helpers.flash_attention.checks.causal_tiles import skipping_tiles
from helpers.flash_attention.checks.flash import tile_sizes
from helpers.flash_attention.checks.flash_attention_backward import (
    after_forward,
    counted_backward,
    long_gradients,
    with_gradients,
)
from helpers.flash_attention.checks.flash_attention_forward import climbing_scores, counted_tiles, with_a_key_of_zeros
from helpers.flash_attention.checks.flash_decoding import counted_parts
from helpers.flash_attention.checks.flash_triton import in_tiles
from helpers.flash_attention.checks.incoherent_rotation import rotation_case
from helpers.flash_attention.checks.merge_partials import two_parts
from helpers.flash_attention.checks.online_softmax import long_row, score_rows
from helpers.flash_attention.checks.triton_backward import backward_case

# ---------------------------------------------------------------- online softmax, flash attention in PyTorch


def _drawn_tiles(n: int, m: int) -> tuple[RandomArg, RandomArg]:
    """Sizes of tiles, drawn anew at every grading."""
    return tuple(RandomArg(lambda g, size=size: int(torch.randint(1, size + 3, (), generator=g))) for size in (n, m))


online_softmax = [
    explicit_case("block = 1", score_rows(2, 7, slope=0.8), 1),
    explicit_case(
        "float64, a block drawn",
        RandomArg(lambda g: 3 * torch.randn(3, 2, 13, generator=g, dtype=torch.float64)),
        RandomArg(lambda g: int(torch.randint(2, 13, (), generator=g))),
    ),
    explicit_case(
        "−∞ here and there",
        RandomArg(lambda g: torch.randn(5, 12, generator=g).where(torch.rand(5, 12, generator=g) < 0.4, -torch.inf)),
        3,
    ),
    explicit_case("scores near −1000 that climb", score_rows(3, 10, slope=8.0, level=-1000.0), 4),
    long_row(510, 25, rows=3),
]
merge_partials = [
    random_case(batch=(4,), n=3, d=6, dtype=torch.float64, scale=5.0),
    random_case(n=4, d=4),
    two_parts("hundreds apart", 5, 2, level=(-250.0, 250.0)),
    two_parts("nothing anywhere, two batch axes", 3, 4, batch=(2, 1), dead=("all", "all")),
]
flash_attention_forward = [
    random_case("tiles of one score", **tile_sizes(4, 5, 3, 2, False, 1, 1)),
    with_a_key_of_zeros(
        random_case(
            "causal, one query, float64", batch=(2, 1, 2), dtype=torch.float64, **tile_sizes(1, 9, 4, 6, True, 3, 4)
        )
    ),
    explicit_case(
        "causal, tiles drawn",
        *(RandomArg(lambda g, size=size: torch.randn(2, *size, generator=g)) for size in ((13, 5), (17, 5), (17, 4))),
        True,
        *_drawn_tiles(13, 17),
    ),
    explicit_case("causal, scores that climb by 50 a key, square tiles", *climbing_scores(9, 9, 50.0), True, 3, 3),
    random_case("causal, tiles larger than the input", **tile_sizes(6, 4, 3, 5, True, 16, 16)),
    counted_tiles(150, 190, 2, 3, 36, 9),
]
causal_tiles = {
    "causal_tiles": [
        explicit_case("one token", 1, 1, 64, 64),
        explicit_case("n = 7, m = 30, tiles of 3 × 4", 7, 30, 3, 4),
        explicit_case("20 queries, 3 keys", 20, 3, 4, 2),
        explicit_case("tiles drawn", 37, 41, *_drawn_tiles(37, 41)),
    ],
    "flash_attention_forward": [skipping_tiles((), 27, 27, 4, 5, 5, 5), skipping_tiles((3,), 15, 40, 4, 3, 5, 4)],
}
flash_attention_backward = {
    "flash_attention_backward": [
        after_forward("tiles of one score, causal", n=4, m=5, causal=True, block_q=1, block_k=1),
        after_forward(
            "one query, tiles larger than the input",
            batch=(2, 1, 2),
            n=1,
            m=6,
            d=3,
            d_v=4,
            causal=True,
            block_q=8,
            block_k=8,
        ),
        after_forward(
            "causal, n = 13, m = 17, float32",
            n=13,
            m=17,
            d=5,
            d_v=4,
            causal=True,
            block_q=5,
            block_k=6,
            dtype=torch.float32,
        ),
        counted_backward(190, 210, 2, 2, 52, 8),
    ],
    "flash_attention": [
        with_gradients("causal, n = m = 9", n=9, m=9, d=3, d_v=5, causal=True),
        with_gradients("one query", batch=(3,), n=1, m=6, d=4, d_v=2, causal=False),
        long_gradients(450, 430, causal=True),
    ],
}
flash_decoding = [
    random_case("one part", m=9, d=3, d_v=11, splits=1),
    random_case("as many parts as keys, float64", batch=(2, 1), m=8, d=5, d_v=3, splits=8, dtype=torch.float64),
    random_case("one key, 4 parts", m=1, d=3, d_v=4, splits=4),
    random_case("m = d = d_v = 6, 3 parts", m=6, d=6, d_v=6, splits=3),
    counted_parts(130, 64, 4, 5, batch=(2,)),
]

# ---------------------------------------------------------------- kernels in Triton

triton_rows = [
    random_case(n=1, d=1, label="one number"),
    random_case(n=64, d=64, label="n = d = 64"),
    random_case(n=133, d=7),
]
triton_forward = [
    in_tiles(b=1, h=2, n=1, m=50, d=64, causal=True, label="one query, d = 64"),
    in_tiles(
        b=2, h=1, n=33, m=33, d=80, block_k=32, causal=True, scale=1.4, label="causal, n = m = 33, d = 80, large scores"
    ),
    in_tiles(b=1, h=1, n=70, m=5, d=16, causal=True, label="causal, n = 70, m = 5: whole tiles that see nothing"),
    in_tiles(b=1, h=1, n=30, m=66, d=128, causal=False, dtype=torch.float16, label="d = 128, float16"),
]
triton_backward = [
    backward_case(b=1, h=2, n=1, m=20, d=16, causal=True, label="one query"),
    backward_case(b=1, h=1, n=33, m=18, d=40, causal=False, scale=1.5, label="n = 33, m = 18, d = 40"),
    backward_case(b=1, h=1, n=20, m=34, d=16, causal=True, dtype=torch.float16, label="causal, float16"),
]

# ---------------------------------------------------------------- traffic and rotation


def _size(low: int, high: int) -> RandomArg:
    """A size that is drawn anew at every grading."""
    return RandomArg(lambda generator: int(torch.randint(low, high, (), generator=generator)))


hbm_traffic = {
    "standard_traffic": [
        explicit_case("sizes drawn, float32", _size(2, 999), _size(2, 99), 4),
        explicit_case("one token", 1, 3, 8),
    ],
    "tiled_traffic": [
        explicit_case("sizes drawn, float16", _size(100, 9999), _size(2, 99), _size(2000, 99_999), 2),
        explicit_case("tiles of one row", 37, 16, 16 * 4 * 4, 4),
        explicit_case("one token", 1, 3, 5000, 8),
    ],
}
incoherent_rotation = {
    "hadamard": [explicit_case("d = 16", 16), explicit_case("d = 256", 256)],
    "rotate": [
        rotation_case("three batch axes, d = 128", (2, 1, 3), 4, 5, 128),
        rotation_case("d = 2, float64", (), 3, 5, 2, torch.float64),
        explicit_case(
            "no outliers, d = 1",
            *(RandomArg(lambda g: 1 + torch.rand(4, 1, generator=g)) for _ in range(2)),
            -torch.ones(1),
        ),
    ],
}
