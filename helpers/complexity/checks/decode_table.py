"""decode_table: what one layer costs for one new token in each of b sequences, with a cache."""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.table_check import Table, column_sums
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from ..costs import decode_table as reference
from .costs import LAYERS, PARTS, Layer, but, in_products, in_row, kept, one_dict, summed, sums_go_on, training

__all__ = ["decode_table"]


@dataclass(frozen=True)
class Decode:
    """How often something counts."""

    madd: Callable = lambda s: 2
    heads: Callable = lambda s: s.h
    seen: Callable = lambda s: s.n
    cached: Callable = lambda s, seen: s.b * seen  # keys that are read, and values
    weights: Callable = lambda s: 1
    queries: Callable = lambda s: 1
    projected: Callable = lambda s: 1
    ffn_tokens: Callable = lambda s: 1
    hidden: Callable = lambda s: s.d_ff


@composable
def decode(**changed: Callable) -> Callable:
    knobs = Decode(**changed)

    def table(b, n, d, h, d_ff):
        s = Layer(b, n, d, h, d_ff)
        madd, seen, queries, projected, hidden = (
            knob(s) for knob in (knobs.madd, knobs.seen, knobs.queries, knobs.projected, knobs.hidden)
        )
        x, w, pairs = b * d, knobs.weights(s) * d * d, b * knobs.heads(s) * queries * seen
        mix, cached, tokens = madd * b * queries * seen * d, knobs.cached(s, seen) * d, b * knobs.ffn_tokens(s)
        both = 2 * knobs.weights(s) * d * hidden
        return summed(
            {
                "qkv": (3 * madd * projected * x * d, 3 * (2 * projected * x + w)),
                "scores": (mix, queries * x + cached + pairs),
                "softmax": (0, 2 * pairs),
                "weighted_sum": (mix, pairs + cached + queries * x),
                "output": (madd * x * d, 2 * x + w),
                "ffn": (2 * madd * tokens * d * hidden, 2 * tokens * d + both + 2 * tokens * hidden),
            }
        )

    return table


def moved_less(rows, less, *names):
    return {row: (rows[row][0], rows[row][1] - less) for row in names}


def old_keys_projected_again(rows, s):
    """And old values."""
    (query, key), (new, old) = (
        (2 * t * s.d * s.d for t in (s.b, s.b * s.n)),
        (2 * t * s.d + s.d * s.d for t in (s.b, s.b * s.n)),
    )
    return {"qkv": (query + 2 * key, new + 2 * old)}


def rows_of_one_sequence(rows, s):
    alone = decode()(1, s.n, s.d, s.h, s.d_ff)
    return {row: (rows[row][0], alone[row][1]) for row in ("qkv", "output", "ffn")}


def old_total(s):
    """That of the table of a forward pass over one token."""
    return training()(s.b, 1, s.d, s.h, s.d_ff)["total"]


def with_old_total(rows, s):
    return {"total": tuple(one + other for one, other in zip(rows["total"], old_total(s), strict=True))}


decode_table = Table(
    reference=reference,
    columns=PARTS,
    follows={"total": column_sums},
    drive=kept,
    cases=LAYERS,
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        sums_go_on(reference),
        one_dict(reference),
        quadratic=in_row("softmax", decode(queries=lambda s: s.n)),
        all_over_again=in_row("output", training()),
        old_tokens_projected=in_row("qkv", decode(projected=lambda s: s.n)),
        ffn_of_all_tokens=in_row("ffn", decode(ffn_tokens=lambda s: s.n)),
        cache_for_free=in_row("scores", decode(cached=lambda s, seen: 0)),
        one_cache=in_row("scores", decode(cached=lambda s, seen: s.n)),
        only_itself=in_row("scores", decode(seen=lambda s: 1)),
        one_key_more=in_row("scores", decode(seen=lambda s: s.n + 1)),
        one_key_less=in_row("scores", decode(seen=lambda s: s.n - 1)),
        own_key_free=in_row(
            "scores", but(decode(), lambda rows, s: moved_less(rows, s.b * s.d, "scores", "weighted_sum"))
        ),
        softmax_of_one_key=in_row("softmax", but(decode(), lambda rows, s: {"softmax": (0, 2 * s.b * s.h)})),
        softmax_read_alone=in_row("softmax", but(decode(), lambda rows, s: {"softmax": (0, s.b * s.h * s.n)})),
        old_keys_projected_again=in_row("qkv", but(decode(), old_keys_projected_again)),
        cache_written=in_row("qkv", but(decode(), lambda rows, s: moved_less(rows, -2 * s.b * s.d, "qkv"))),
        old_total=in_row("total", but(decode(), lambda rows, s: {"total": old_total(s)})),
        old_total_among_rows=in_row("total", but(decode(), with_old_total)),
        no_heads=in_row("softmax", decode(heads=lambda s: 1)),
        width_of_head=in_row("softmax", decode(heads=lambda s: s.d // s.h)),
        usual_ffn=in_row("ffn", decode(hidden=lambda s: 4 * s.d)),
        weights_for_each_sequence=in_products(reference, decode(weights=lambda s: s.b)),
        rows_of_one_sequence=in_products(reference, but(decode(), rows_of_one_sequence)),
        no_2=in_row("output", decode(madd=lambda s: 1)),
    ),
)
