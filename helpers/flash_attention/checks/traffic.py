"""Checks of the bytes that attention moves: the standard way, and tile by tile."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.common_misconceptions import EXACT, WHOLE, comes_as_float

from .. import traffic as reference

__all__ = ["hbm_traffic"]

standard_traffic = Check(
    reference=reference.standard_traffic,
    cases=[
        random_case("n = 6, d = 4, float32", n=6, d=4, itemsize=4),
        random_case("n = 100, d = 8, float64", n=100, d=8, itemsize=8),
        random_case("n = 4096, d = 64, float16", n=4096, d=64, itemsize=2),
    ],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=[
        comes_as_float(reference.standard_traffic),
        Misconception(
            "scores and weights written but not read back", lambda n, d, itemsize: (2 * n * n + 4 * n * d) * itemsize,
            "What one step writes, the next one has to fetch again: the softmax reads S, and the last product reads P.",
        ),
        Misconception(
            "one of four crossings forgotten", lambda n, d, itemsize: (3 * n * n + 4 * n * d) * itemsize,
            "The first product writes S, the softmax reads it. The softmax writes P, the second product reads it.",
        ),
        Misconception(
            "the n × n matrix moved once", lambda n, d, itemsize: (n * n + 4 * n * d) * itemsize,
            "S is written and read, P is written and read. That is four crossings.",
        ),
        Misconception(
            "inputs and output left out", lambda n, d, itemsize: 4 * n * n * itemsize,
            "Q, K and V are read and O is written: n·d elements each. They are small if n is large, but they count.",
        ),
        Misconception(
            "the output not written", lambda n, d, itemsize: (4 * n * n + 3 * n * d) * itemsize,
            "You have read Q, K and V. The result has to leave the chip too.",
        ),
        Misconception(
            "queries and keys only", lambda n, d, itemsize: (4 * n * n + 2 * n * d) * itemsize,
            "You counted what the first product reads. The second product also reads V, and writes O.",
        ),
        Misconception(
            "n and d swapped", lambda n, d, itemsize: (4 * d * d + 4 * n * d) * itemsize,
            "A score for every pair of tokens: the matrix is n × n, whatever the width.",
        ),
        Misconception(
            "elements instead of bytes", lambda n, d, itemsize: 4 * n * n + 4 * n * d,
            "The question is how many bytes: each element takes `itemsize` of them.",
        ),
        Misconception(
            "bits instead of bytes", lambda n, d, itemsize: 8 * (4 * n * n + 4 * n * d) * itemsize,
            "`itemsize` is in bytes already.",
        ),
        Misconception(
            "FLOPs instead of bytes", lambda n, d, itemsize: 4 * n * n * d,
            "You counted the FLOPs of the two products. Count the bytes that move between memory and chip: each step moves every element once.",
        ),
        Misconception(
            "operands fetched for every multiply-add", lambda n, d, itemsize: (4 * n * n * d + 3 * n * n + n * d) * itemsize,
            "A good matrix product fetches each element once and uses it many times from the chip.",
        ),
    ],
)  # fmt: skip


def _tiles(n, rows):
    return math.ceil(n / rows)


def _rows(d, on_chip, itemsize, tiles=4):
    return on_chip // (tiles * d * itemsize)


def _bytes(n, d, passes, itemsize, *, q=1, kv=2, sums=1):
    """Queries (q times) and outputs once, keys and values once a pass, and one number a row."""
    return (q * n * d + n * d + sums * n + passes * kv * n * d) * itemsize


tiled_traffic = Check(
    reference=reference.tiled_traffic,
    cases=[
        random_case("n = 100, d = 8, float32, tiles of 16 rows", n=100, d=8, on_chip=2168, itemsize=4),  # not quite 17 rows,
        random_case("n = 4096, d = 64, float16, 164 kB", n=4096, d=64, on_chip=164 * 1024, itemsize=2),
        random_case("n = 96, d = 5, float64, tiles of 32 rows", n=96, d=5, on_chip=32 * 4 * 5 * 8, itemsize=8),
        random_case("n = 10, all of it fits", n=10, d=4, on_chip=9000, itemsize=4),
        random_case("n = 61, d = 24, float32, tiles of 8 rows", n=61, d=24, on_chip=8 * 4 * 24 * 4, itemsize=4),
    ],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=[
        Misconception(
            "keys and values read once", lambda n, d, on_chip, itemsize: _bytes(n, d, 1, itemsize),
            "When the next tile of queries comes, the first keys have long been overwritten. Every tile of queries walks over all "
            "keys and values again.",
        ),
        Misconception(
            "the last, short tile left out",
            lambda n, d, on_chip, itemsize: _bytes(n, d, n // _rows(d, on_chip, itemsize), itemsize),
            "If n is no multiple of the tile, a short tile is left over, and it needs all keys and values too: round up.",
        ),
        Misconception(
            "a fraction of a tile", lambda n, d, on_chip, itemsize: _bytes(n, d, n / _rows(d, on_chip, itemsize), itemsize),
            "A short tile of queries reads as many keys as a full one: round the number of tiles up. n / B need not be a whole number.",
        ),
        comes_as_float(reference.tiled_traffic),
        Misconception(
            "tiles with a fraction of a row",
            lambda n, d, on_chip, itemsize: _bytes(n, d, math.ceil(n * 4 * d * itemsize / on_chip), itemsize),
            "A tile holds whole rows. First round down: `B = on_chip // (4 * d * itemsize)`. Then count the tiles: `math.ceil(n / B)`.",
        ),
        Misconception(
            "a fraction of a tile, cut down to whole bytes",
            lambda n, d, on_chip, itemsize: int(_bytes(n, d, n / _rows(d, on_chip, itemsize), itemsize)),
            "A short tile of queries reads as many keys as a full one. Round the number of tiles up first. Then the bytes are a whole number by "
            "themselves.",
        ),
        Misconception(
            "the last, short tile left out, but at least one",
            lambda n, d, on_chip, itemsize: _bytes(n, d, max(1, n // _rows(d, on_chip, itemsize)), itemsize),
            "If n is no multiple of the tile, a short tile is left over, and it needs all keys and values too: round up.",
        ),
        Misconception(
            "one tile more than needed",
            lambda n, d, on_chip, itemsize: _bytes(n, d, n // _rows(d, on_chip, itemsize) + 1, itemsize),
            "`n // B + 1` is one too many where n is a multiple of B. `math.ceil(n / B)` rounds up only where something is left over.",
        ),
        Misconception(
            "the logsumexp in four bytes whatever itemsize is",
            lambda n, d, on_chip, itemsize: (
                _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=0) + 4 * n
            ),
            "Every number takes `itemsize` bytes here, the one that is written for each row too.",
        ),
        Misconception(
            "one tile fills the chip",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize, 1)), itemsize),
            "Four tiles are on the chip at the same time: queries, keys, values and the output. Each gets a quarter.",
        ),
        Misconception(
            "no room for the output",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize, 3)), itemsize),
            "The output grows on the chip while the keys go by. It is the fourth tile, beside those of Q, K and V.",
        ),
        Misconception(
            "the chip measured in elements",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, 1)), itemsize),
            "`on_chip` is in bytes. A row of a tile takes d · itemsize bytes.",
        ),
        Misconception(
            "values not read",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, kv=1),
            "Each step needs a tile of keys for the scores and the tile of values that belongs to it.",
        ),
        Misconception(
            "queries read in every pass",
            lambda n, d, on_chip, itemsize: _bytes(
                n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, q=_tiles(n, _rows(d, on_chip, itemsize))
            ),
            "In each pass one tile of queries stays on the chip while the keys go by. So each query is read only once.",
        ),
        Misconception(
            "the loop over keys outside",
            lambda n, d, on_chip, itemsize: (
                2 * n * d + n + 3 * n * d * _tiles(n, _rows(d, on_chip, itemsize))
            ) * itemsize,
            "That is the order of the first FlashAttention: keys stay, and queries and half-done outputs come and go. In this exercise the "
            "queries stay, as in FlashAttention-2. So the output is written once and never read.",
        ),
        Misconception(
            "the logsumexps forgotten",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=0),
            "One number for each row is written beside the output. The backward pass will need it.",
        ),
        Misconception(
            "maximum and sum both written",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=2),
            "The two are put into one number at the end, L = m + log ℓ. Only L is written.",
        ),
        Misconception(
            "scores written as well",
            lambda n, d, on_chip, itemsize: (
                _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize) + n * n * itemsize
            ),
            "Tiles avoid just that: a tile of scores is used on the chip and never written.",
        ),
        Misconception(
            "short tiles counted as full",
            lambda n, d, on_chip, itemsize: (
                2 * n * d + n + 2 * _tiles(n, _rows(d, on_chip, itemsize)) ** 2 * _rows(d, on_chip, itemsize) * d
            ) * itemsize,
            "Only rows that exist are read: each pass reads n keys and n values, not a multiple of the tile.",
        ),
        Misconception(
            "queries and outputs of the short tile counted as full",
            lambda n, d, on_chip, itemsize: (
                2 * _tiles(n, _rows(d, on_chip, itemsize)) * (_rows(d, on_chip, itemsize) * d + n * d) + n
            ) * itemsize,
            "The last tile of queries has fewer rows than B. Only rows that exist are read and written: n of Q and n of O in all.",
        ),
        Misconception(
            "the growth instead of the bytes",
            lambda n, d, on_chip, itemsize: n * n * d * d * itemsize / on_chip,
            "Θ(n²d²/M) says how the traffic grows, without constants and small terms. Count what is read and what is written.",
        ),
        Misconception(
            "elements instead of bytes",
            lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), 1),
            "The question is how many bytes: each element takes `itemsize` of them.",
        ),
    ],
)  # fmt: skip

hbm_traffic = CheckGroup("hbm_traffic", standard_traffic, tiled_traffic)
