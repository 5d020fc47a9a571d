"""The tables of a layer with one thing or another done wrong: FLOPs of its products, and elements moved."""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.engine.cases import random_case
from helpers.engine.table_check import in_rows, in_some_row
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, shared

PRODUCTS = (random_case(n=2, m=3, k=4), random_case(n=64, m=7, k=1), random_case(n=100, m=300, k=50))
PARTS = ("FLOPs", "elements moved")


@dataclass(frozen=True)
class Layer:
    b: int
    n: int
    d: int
    h: int
    d_ff: int


@dataclass(frozen=True)
class Training:
    """How often something counts in the table of a forward pass over all tokens."""

    madd: Callable = lambda s: 2
    heads: Callable = lambda s: s.h  # of the score matrices in memory
    wide: Callable = lambda s: 1
    hidden: Callable = lambda s: s.d_ff
    three: Callable = lambda s: 3
    weights: Callable = lambda s: 1
    written: Callable = lambda s: 1
    soft: Callable = lambda s: 2
    powers: Callable = lambda s: 0


@composable
def training(**changed: Callable) -> Callable:
    knobs = Training(**changed)

    def table(b, n, d, h, d_ff):
        s = Layer(b, n, d, h, d_ff)
        madd, three, written, hidden = knobs.madd(s), knobs.three(s), knobs.written(s), b * n * knobs.hidden(s)
        x, pairs, w = b * n * d, b * knobs.heads(s) * n * n, knobs.weights(s) * d * d
        mix = madd * b * n * n * d * knobs.wide(s)
        both = knobs.weights(s) * 2 * d * knobs.hidden(s)
        return summed(
            {
                "qkv": (three * madd * x * d, three * (x + w + written * x)),
                "scores": (mix, 2 * x + written * pairs),
                "softmax": (knobs.powers(s) * b * h * n * n, knobs.soft(s) * pairs),
                "weighted_sum": (mix, pairs + x + written * x),
                "output": (madd * x * d, x + w + written * x),
                "ffn": (2 * madd * hidden * d, x + hidden + both + written * (x + hidden)),
            }
        )

    return table


def summed(rows):
    return {**rows, "total": (sum(row[0] for row in rows.values()), sum(row[1] for row in rows.values()))}


def but(table: Callable, others: Callable) -> Callable:
    """others: (rows, sizes) → rows in place of the table's own; the total is that of all, or among them."""

    def changed(b, n, d, h, d_ff):
        rows = table(b, n, d, h, d_ff)
        new = others(rows, Layer(b, n, d, h, d_ff))
        return {**summed({row: new.get(row, rows[row]) for row in rows if row != "total"}), **new}

    return changed


def in_row(row: str, table: Callable) -> Wrong:
    """A wrong table, which this row tells."""
    return Wrong(table, recognise=in_rows(table, row))


def in_products(reference: Callable, table: Callable) -> Wrong:
    """A wrong table that one of the products with a weight matrix tells."""
    return Wrong(table, recognise=in_some_row(table, reference, "qkv", "output", "ffn"))


# --------------------------------------------------------------------------------------------------- from call to call

CHANGES = "the same sizes, another table"


def kept(table, *sizes):
    """A table after the function has been called for a larger layer: a later call leaves it as it is. Beside its rows
    stands CHANGES if the same sizes give other rows then, be it in the last digit: sums that go on are huge after a
    huge layer."""
    rows = table(*sizes)
    table(*(2 * size for size in sizes))
    rows = dict(rows) if isinstance(rows, dict) else rows
    return {**rows, CHANGES: True} if isinstance(rows, dict) and repr(table(*sizes)) != repr(rows) else rows


def one_dict(table: Callable) -> Wrong:
    """The same dict at every call: a later one changes what an earlier one has returned."""
    rows = {}

    def filled(*sizes):
        rows.update(table(*sizes))
        return rows

    shown = in_rows(lambda *sizes: table(*(2 * size for size in sizes)), "qkv", "scores", "softmax")
    return shared(__file__, "one_dict", filled, recognise=shown)


def sums_go_on(table: Callable) -> Wrong:
    """The total goes on from that of the call before."""
    sums = [0, 0]

    def go_on(*sizes):
        rows = table(*sizes)
        sums[:] = (old + new for old, new in zip(sums, rows["total"], strict=True))
        return {**rows, "total": tuple(sums)}

    return shared(__file__, "sums_go_on", go_on, recognise=lambda seen: CHANGES in seen.output)


LAYERS = [
    *(
        random_case(b=b, n=n, d=d, h=h, d_ff=d_ff)
        for b, n, d, h, d_ff in (
            (2, 5, 12, 3, 40),
            (3, 50, 8, 2, 20),
            (5, 7, 32, 8, 128),
            (4, 5, 12, 3, 40),
            (2, 9, 12, 3, 40),
            (2, 5, 24, 3, 40),
            (2, 5, 12, 4, 40),
            (2, 5, 12, 3, 30),
        )
    ),
    random_case(b=100_003, n=3_000_000_017, d=40_000, h=8, d_ff=100_003, label="large: 12 digits count"),
]
