"""The check of `decode_table`."""

from helpers.engine.common_misconceptions import EXACT
from helpers.engine.table_check import Table, column_sums, in_rows, in_some_row
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs
from .costs import LAYERS, PARTS, _doubled, _kept, _kept_sums, _one_dict, _summed, _training, _with

__all__ = ["decode_table"]


def _decode(
    b, n, d, h, d_ff, *, madd=2, heads=None, seen=None, cached=None, weights=1, queries=1, projected=1, ffn_tokens=1
):
    """The decode table with one thing or another done wrong."""
    heads, seen = h if heads is None else heads, n if seen is None else seen
    cached = b * seen * d if cached is None else cached  # elements of the keys, and of the values
    x, w, s = b * d, weights * d * d, b * heads * queries * seen
    mix = madd * b * queries * seen * d
    tokens = b * ffn_tokens
    return _summed(
        {
            "qkv": (3 * madd * projected * x * d, 3 * (2 * projected * x + w)),
            "scores": (mix, queries * x + cached + s),
            "softmax": (0, 2 * s),
            "weighted_sum": (mix, s + cached + queries * x),
            "output": (madd * x * d, 2 * x + w),
            "ffn": (2 * madd * tokens * d * d_ff, 2 * tokens * d + 2 * weights * d * d_ff + 2 * tokens * d_ff),
        }
    )


def _quadratic(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, queries=n)


def _all_over_again(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff)


def _cache_for_free(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, cached=0)


def _shared_cache(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, cached=n * d)


def _all_projected(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, projected=n)


def _only_itself(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=1)


def _decode_without_heads(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, heads=1)


def _decode_width_of_a_head(b, n, d, h, d_ff):
    return _decode(b, n, d, d // h, d_ff)


def _decode_usual_ffn(b, n, d, h, d_ff):
    return _decode(b, n, d, h, 4 * d)


def _decode_without_two(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, madd=1)


def _weights_for_each_token(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, weights=b)


def _ffn_of_all_tokens(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, ffn_tokens=n)


def _one_more_key(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=n + 1)


def _softmax_of_one_key(b, n, d, h, d_ff):
    return _with(_decode(b, n, d, h, d_ff), softmax=(0, 2 * b * h))


def _old_total(b, n, d, h, d_ff):
    return {**_decode(b, n, d, h, d_ff), "total": _training(b, 1, d, h, d_ff)["total"]}


def _old_total_among_the_rows(b, n, d, h, d_ff):
    rows, old = _decode(b, n, d, h, d_ff), _training(b, 1, d, h, d_ff)["total"]
    return {**rows, "total": (rows["total"][0] + old[0], rows["total"][1] + old[1])}


def _keys_and_values_again(b, n, d, h, d_ff):
    one, all_ = (2 * t * d * d for t in (b, b * n)), (2 * t * d + d * d for t in (b, b * n))
    (query, key), (new, old) = one, all_
    return _with(_decode(b, n, d, h, d_ff), qkv=(query + 2 * key, new + 2 * old))


def _own_key_not_read(b, n, d, h, d_ff):
    rows = _decode(b, n, d, h, d_ff)
    less = {row: (rows[row][0], rows[row][1] - b * d) for row in ("scores", "weighted_sum")}
    return _with(rows, **less)


def _one_key_less(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=n - 1)


def _cache_written(b, n, d, h, d_ff):
    rows = _decode(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], rows["qkv"][1] + 2 * b * d))


def _rows_of_one_sequence(b, n, d, h, d_ff):
    rows, alone = _decode(b, n, d, h, d_ff), _decode(1, n, d, h, d_ff)
    return _with(rows, **{row: (rows[row][0], alone[row][1]) for row in ("qkv", "output", "ffn")})


def _softmax_read_alone(b, n, d, h, d_ff):
    return _with(_decode(b, n, d, h, d_ff), softmax=(0, b * h * n))


decode_table = Table(
    reference=costs.decode_table,
    columns=PARTS,
    follows={"total": column_sums},
    drive=_kept,
    cases=LAYERS,
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        _kept_sums(costs.decode_table),
        quadratic_n=Wrong(_quadratic, recognise=in_rows(_quadratic, "softmax")),
        everything_computed_again=Wrong(_all_over_again, recognise=in_rows(_all_over_again, "output")),
        old_tokens_projected_again=Wrong(_all_projected, recognise=in_rows(_all_projected, "qkv")),
        ffn_over_all_tokens=Wrong(_ffn_of_all_tokens, recognise=in_rows(_ffn_of_all_tokens, "ffn")),
        cache_that_read_free=Wrong(_cache_for_free, recognise=in_rows(_cache_for_free, "scores")),
        one_cache_all_sequences=Wrong(_shared_cache, recognise=in_rows(_shared_cache, "scores")),
        new_token_that_sees_only_itself=Wrong(_only_itself, recognise=in_rows(_only_itself, "scores")),
        one_key_too_many=Wrong(_one_more_key, recognise=in_rows(_one_more_key, "scores")),
        one_dict_all_calls=Wrong(
            _one_dict(costs.decode_table), recognise=in_rows(_doubled(costs.decode_table), "qkv", "scores", "softmax")
        ),
        one_key_too_few=Wrong(_one_key_less, recognise=in_rows(_one_key_less, "scores")),
        new_tokens_own_key_free=Wrong(_own_key_not_read, recognise=in_rows(_own_key_not_read, "scores")),
        softmax_over_one_key=Wrong(_softmax_of_one_key, recognise=in_rows(_softmax_of_one_key, "softmax")),
        softmax_that_reads_doesnt_write=Wrong(_softmax_read_alone, recognise=in_rows(_softmax_read_alone, "softmax")),
        old_keys_values_projected_again=Wrong(_keys_and_values_again, recognise=in_rows(_keys_and_values_again, "qkv")),
        cache_written_beside_projections=Wrong(_cache_written, recognise=in_rows(_cache_written, "qkv")),
        total_another_table=Wrong(_old_total, recognise=in_rows(_old_total, "total")),
        old_total_among_rows=Wrong(_old_total_among_the_rows, recognise=in_rows(_old_total_among_the_rows, "total")),
        score_rows_without_heads=Wrong(_decode_without_heads, recognise=in_rows(_decode_without_heads, "softmax")),
        h_taken_width_head=Wrong(_decode_width_of_a_head, recognise=in_rows(_decode_width_of_a_head, "softmax")),
        with_4d_whatever_d_ff=Wrong(_decode_usual_ffn, recognise=in_rows(_decode_usual_ffn, "ffn")),
        weights_read_once_each_sequence=Wrong(
            _weights_for_each_token,
            recognise=in_some_row(_weights_for_each_token, costs.decode_table, "qkv", "output", "ffn"),
        ),
        rows_one_sequence_only=Wrong(
            _rows_of_one_sequence,
            recognise=in_some_row(_rows_of_one_sequence, costs.decode_table, "qkv", "output", "ffn"),
        ),
        n_m_k_without_2=Wrong(_decode_without_two, recognise=in_rows(_decode_without_two, "output")),
    ),
)
