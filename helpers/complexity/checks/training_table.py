"""The check of `training_table`."""

from helpers.engine.common_misconceptions import EXACT
from helpers.engine.table_check import Table, column_sums, in_rows, in_some_row
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs
from .costs import LAYERS, PARTS, _doubled, _kept, _kept_sums, _one_dict, _summed, _training, _with

__all__ = ["training_table"]


def _no_two(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, madd=1)


def _no_heads(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, heads=1)


def _full_width_heads(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, wide=h)


def _width_of_a_head(b, n, d, h, d_ff):
    return _training(b, n, d, d // h, d_ff)


def _usual_ffn(b, n, d, h, d_ff):
    return _training(b, n, d, h, 4 * d)


def _one_projection(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, three=1)


def _weights_for_each_sequence(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, weights=b)


def _no_weights(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, weights=0)


def _nothing_written(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, written=0, soft=1)


def _softmax_once(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, soft=1)


def _softmax_flops(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, powers=3)


def _swapped(b, n, d, h, d_ff):
    right = _training(b, n, d, h, d_ff)
    square, narrow = 2 * b * n * n * d, 2 * b * n * d * d
    return _summed(
        {
            "qkv": (3 * square, right["qkv"][1]),
            "scores": (narrow, right["scores"][1]),
            "softmax": right["softmax"],
            "weighted_sum": (narrow, right["weighted_sum"][1]),
            "output": (square, right["output"][1]),
            "ffn": right["ffn"],
        }
    )


def _one_layer_ffn(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    rows.pop("total")
    return _summed({**rows, "ffn": (2 * b * n * d * d_ff, b * n * d + d * d_ff + b * n * d_ff)})


def _hidden_layer_for_free(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    rows.pop("total")
    return _summed({**rows, "ffn": (rows["ffn"][0], 2 * b * n * d + 2 * d * d_ff)})


def _with_backward(b, n, d, h, d_ff):
    return {row: (3 * flops, moved) for row, (flops, moved) in _training(b, n, d, h, d_ff).items()}


def _one_wide_product(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], 4 * b * n * d + 3 * d * d))


def _scores_of_one_head(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, scores=(rows["scores"][0], 2 * b * n * d + b * n * n))


def _mixed_by_one_head(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, weighted_sum=(rows["weighted_sum"][0], 2 * b * n * d + b * n * n))


def _keys_of_one_head(b, n, d, h, d_ff):
    rows, less = _training(b, n, d, h, d_ff), b * n * d - n * d // h
    return _with(rows, **{row: (rows[row][0], rows[row][1] - less) for row in ("scores", "weighted_sum")})


def _hidden_layer_once(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, ffn=(rows["ffn"][0], 2 * b * n * d + 2 * d * d_ff + b * n * d_ff))


def _activation_apart(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, ffn=(rows["ffn"][0], rows["ffn"][1] + 2 * b * n * d_ff))


def _visible_pairs(b, n, d, h, d_ff):
    rows, mix = _training(b, n, d, h, d_ff), b * n * (n + 1) * d
    return _with(rows, scores=(mix, rows["scores"][1]), weighted_sum=(mix, rows["weighted_sum"][1]))


def _heads_copied(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, output=(rows["output"][0], rows["output"][1] + 2 * b * n * d))


def _every_head_projected(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], 3 * (b * n * d * h + d * d + b * n * d)))


def _total_without_softmax(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (rows["total"][0], rows["total"][1] - rows["softmax"][1])}


def _total_of_totals(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (2 * rows["total"][0], 2 * rows["total"][1])}


def _total_without_ffn(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (rows["total"][0] - rows["ffn"][0], rows["total"][1] - rows["ffn"][1])}


training_table = Table(
    reference=costs.training_table,
    columns=PARTS,
    follows={"total": column_sums},
    drive=_kept,
    cases=LAYERS,
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        _kept_sums(costs.training_table),
        n_m_k_without_2=Wrong(_no_two, recognise=in_rows(_no_two, "qkv")),
        score_matrices_without_heads=Wrong(_no_heads, recognise=in_rows(_no_heads, "softmax")),
        heads_full_width=Wrong(_full_width_heads, recognise=in_rows(_full_width_heads, "scores")),
        h_taken_width_head=Wrong(_width_of_a_head, recognise=in_rows(_width_of_a_head, "softmax")),
        with_4d_whatever_d_ff=Wrong(_usual_ffn, recognise=in_rows(_usual_ffn, "ffn")),
        n_d_swapped=Wrong(_swapped, recognise=in_rows(_swapped, "output")),
        one_projection_instead_three=Wrong(_one_projection, recognise=in_rows(_one_projection, "qkv")),
        weights_read_once_each_sequence=Wrong(
            _weights_for_each_sequence,
            recognise=in_some_row(_weights_for_each_sequence, costs.training_table, "qkv", "output", "ffn"),
        ),
        weights_that_come_free=Wrong(_no_weights, recognise=in_rows(_no_weights, "output")),
        results_not_written=Wrong(_nothing_written, recognise=in_rows(_nothing_written, "output")),
        softmax_that_moves_matrix_once=Wrong(_softmax_once, recognise=in_rows(_softmax_once, "softmax")),
        flops_softmax=Wrong(
            _softmax_flops,
            recognise=lambda seen: (
                bool(seen.output["softmax"][0]) and isinstance(seen.output["softmax"][0], (int, float))
            ),
        ),
        ffn_one_product=Wrong(_one_layer_ffn, recognise=in_rows(_one_layer_ffn, "ffn")),
        hidden_layer_that_moves_nothing=Wrong(_hidden_layer_for_free, recognise=in_rows(_hidden_layer_for_free, "ffn")),
        backward_pass_counted_too=Wrong(_with_backward, recognise=in_rows(_with_backward, "qkv")),
        total_without_ffn=Wrong(_total_without_ffn, recognise=in_rows(_total_without_ffn, "total")),
        one_dict_all_calls=Wrong(
            _one_dict(costs.training_table),
            recognise=in_rows(_doubled(costs.training_table), "qkv", "scores", "softmax"),
        ),
        one_wide_product_q_k_v=Wrong(_one_wide_product, recognise=in_rows(_one_wide_product, "qkv")),
        scores_written_one_head_only=Wrong(_scores_of_one_head, recognise=in_rows(_scores_of_one_head, "scores")),
        keys_values_one_head_only=Wrong(_keys_of_one_head, recognise=in_rows(_keys_of_one_head, "scores")),
        attention_weights_read_one_head_only=Wrong(
            _mixed_by_one_head, recognise=in_rows(_mixed_by_one_head, "weighted_sum")
        ),
        hidden_layer_that_moves_once=Wrong(_hidden_layer_once, recognise=in_rows(_hidden_layer_once, "ffn")),
        activation_that_moves_hidden_layer=Wrong(_activation_apart, recognise=in_rows(_activation_apart, "ffn")),
        visible_pairs_only=Wrong(_visible_pairs, recognise=in_rows(_visible_pairs, "scores")),
        heads_copied_side_by_side_first=Wrong(_heads_copied, recognise=in_rows(_heads_copied, "output")),
        x_read_again_by_every_head=Wrong(_every_head_projected, recognise=in_rows(_every_head_projected, "qkv")),
        total_without_softmax=Wrong(_total_without_softmax, recognise=in_rows(_total_without_softmax, "total")),
        total_that_counts_everything_twice=Wrong(_total_of_totals, recognise=in_rows(_total_of_totals, "total")),
    ),
)
