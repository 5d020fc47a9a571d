"""Checks of what matrix products and whole layers cost: FLOPs, elements moved, and where one part passes another."""

from helpers.engine.cases import random_case
from helpers.engine.check import Misconception

PRODUCTS = (random_case(n=2, m=3, k=4), random_case(n=64, m=7, k=1), random_case(n=100, m=300, k=50))


def _summed(rows):
    return {**rows, "total": (sum(row[0] for row in rows.values()), sum(row[1] for row in rows.values()))}


def _training(b, n, d, h, d_ff, *, madd=2, heads=None, wide=1, three=3, weights=1, written=1, soft=2, powers=0):
    """The training table with one thing or another done wrong."""
    heads = h if heads is None else heads  # of the score matrices in memory
    x, s, w = b * n * d, b * heads * n * n, weights * d * d
    mix = madd * b * n * n * d * wide
    return _summed(
        {
            "qkv": (three * madd * x * d, three * (x + w + written * x)),
            "scores": (mix, 2 * x + written * s),
            "softmax": (powers * b * h * n * n, soft * s),
            "weighted_sum": (mix, s + x + written * x),
            "output": (madd * x * d, x + w + written * x),
            "ffn": (2 * madd * x * d_ff, x + b * n * d_ff + 2 * weights * d * d_ff + written * (x + b * n * d_ff)),
        }
    )


def _with(rows, **other):
    """A table with other rows in place of its own, and the total of all."""
    return _summed({row: other.get(row, rows[row]) for row in rows if row != "total"})


PARTS = ("FLOPs", "elements moved")

CHANGES = "the same sizes, another table"


def _kept(table, *sizes):
    """A table after the function has been called for a larger layer: a later call leaves it as it is. Beside its rows stands CHANGES
    if the same sizes give other rows then, be it in the last digit: sums that go on are huge after a huge layer."""
    rows = table(*sizes)
    table(*(2 * size for size in sizes))
    rows = dict(rows) if isinstance(rows, dict) else rows
    return {**rows, CHANGES: True} if isinstance(rows, dict) and repr(table(*sizes)) != repr(rows) else rows


def _doubled(table):
    return lambda *sizes: table(*(2 * size for size in sizes))


def _one_dict(table):
    """The same dict at every call: a later one changes what an earlier one has returned."""
    rows = {}

    def filled(*sizes):
        rows.update(table(*sizes))
        return rows

    return filled


def _sums_kept(table):
    """The total goes on from that of the call before."""
    sums = [0, 0]

    def summed(*sizes):
        rows = table(*sizes)
        sums[:] = (old + new for old, new in zip(sums, rows["total"], strict=True))
        return {**rows, "total": tuple(sums)}

    return summed


def _kept_sums(table):
    return Misconception(
        "sums that go on from call to call",
        _sums_kept(table),
        "Called twice with the same sizes, your function returns two different tables: it adds to sums of the earlier call. Start every dict, "
        "list and sum inside the function.",
        lambda seen: CHANGES in seen.output,
    )


LAYERS = [
    random_case(b=2, n=5, d=12, h=3, d_ff=40),
    random_case(b=3, n=50, d=8, h=2, d_ff=20),
    random_case(b=5, n=7, d=32, h=8, d_ff=128),
    random_case(b=4, n=5, d=12, h=3, d_ff=40),
    random_case(b=2, n=9, d=12, h=3, d_ff=40),
    random_case(b=2, n=5, d=24, h=3, d_ff=40),
    random_case(b=2, n=5, d=12, h=4, d_ff=40),
    random_case(b=2, n=5, d=12, h=3, d_ff=30),
    random_case(b=100_003, n=3_000_000_017, d=40_000, h=8, d_ff=100_003, label="large: every digit counts"),
]
