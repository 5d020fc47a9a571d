"""training_table: what one layer's forward pass over all tokens costs."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.table_check import Table, column_sums
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..costs import training_table as reference
from .costs import LAYERS, PARTS, but, in_products, in_row, kept, one_dict, sums_go_on, training

__all__ = ["training_table"]


def n_and_d_swapped(rows, s):
    square, narrow = 2 * s.b * s.n * s.n * s.d, 2 * s.b * s.n * s.d * s.d
    flops = {"qkv": 3 * square, "scores": narrow, "weighted_sum": narrow, "output": square}
    return {row: (count, rows[row][1]) for row, count in flops.items()}


def moved(row, elements):
    """elements: (sizes) → what a row moves; its FLOPs are right."""
    return but(training(), lambda rows, s: {row: (rows[row][0], elements(s))})


def moved_more(row, more):
    return but(training(), lambda rows, s: {row: (rows[row][0], rows[row][1] + more(s))})


def keys_of_one_head(rows, s):
    less = s.b * s.n * s.d - s.n * s.d // s.h
    return {row: (rows[row][0], rows[row][1] - less) for row in ("scores", "weighted_sum")}


def visible_pairs(rows, s):
    return {row: (s.b * s.n * (s.n + 1) * s.d, rows[row][1]) for row in ("scores", "weighted_sum")}


def total(part):
    """part: (rows) → the row that is missing in the total, or counted again."""
    return but(training(), lambda rows, s: {"total": tuple(a - b for a, b in zip(rows["total"], part(rows)))})


def _flops_of_softmax(seen):
    flops = seen.output["softmax"][0]
    return bool(flops) and isinstance(flops, (int, float))


training_table = Table(
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
        no_2=in_row("qkv", training(madd=lambda s: 1)),
        no_heads=in_row("softmax", training(heads=lambda s: 1)),
        heads_of_full_width=in_row("scores", training(wide=lambda s: s.h)),
        width_of_head=in_row("softmax", training(heads=lambda s: s.d // s.h)),
        usual_ffn=in_row("ffn", training(hidden=lambda s: 4 * s.d)),
        n_and_d_swapped=in_row("output", but(training(), n_and_d_swapped)),
        one_projection=in_row("qkv", training(three=lambda s: 1)),
        weights_for_each_sequence=in_products(reference, training(weights=lambda s: s.b)),
        weights_for_free=in_row("output", training(weights=lambda s: 0)),
        nothing_written=in_row("output", training(written=lambda s: 0, soft=lambda s: 1)),
        softmax_moved_once=in_row("softmax", training(soft=lambda s: 1)),
        flops_of_softmax=Wrong(training(powers=lambda s: 3), recognise=_flops_of_softmax),
        ffn_of_one_product=in_row(
            "ffn",
            but(
                training(),
                lambda rows, s: {
                    "ffn": (2 * s.b * s.n * s.d * s.d_ff, s.b * s.n * s.d + s.d * s.d_ff + s.b * s.n * s.d_ff)
                },
            ),
        ),
        backward_pass_too=in_row(
            "qkv", but(training(), lambda rows, s: {row: (3 * flops, moved) for row, (flops, moved) in rows.items()})
        ),
        hidden_layer_for_free=in_row("ffn", moved("ffn", lambda s: 2 * s.b * s.n * s.d + 2 * s.d * s.d_ff)),
        hidden_layer_once=in_row("ffn", moved_more("ffn", lambda s: -s.b * s.n * s.d_ff)),
        activation_apart=in_row("ffn", moved_more("ffn", lambda s: 2 * s.b * s.n * s.d_ff)),
        one_wide_product=in_row("qkv", moved("qkv", lambda s: 4 * s.b * s.n * s.d + 3 * s.d * s.d)),
        x_read_by_every_head=in_row("qkv", moved_more("qkv", lambda s: 3 * s.b * s.n * s.d * (s.h - 1))),
        scores_of_one_head=in_row("scores", moved("scores", lambda s: 2 * s.b * s.n * s.d + s.b * s.n * s.n)),
        keys_of_one_head=in_row("scores", but(training(), keys_of_one_head)),
        weights_of_one_head=in_row(
            "weighted_sum", moved("weighted_sum", lambda s: 2 * s.b * s.n * s.d + s.b * s.n * s.n)
        ),
        visible_pairs=in_row("scores", but(training(), visible_pairs)),
        heads_copied=in_row("output", moved_more("output", lambda s: 2 * s.b * s.n * s.d)),
        total_without_ffn=in_row("total", total(lambda rows: rows["ffn"])),
        total_without_softmax=in_row("total", total(lambda rows: rows["softmax"])),
        total_twice=in_row("total", total(lambda rows: tuple(-count for count in rows["total"]))),
    ),
)
