"""The check of `enc_dec_cost`."""

from collections.abc import Callable

from helpers.engine.cases import random_case
from helpers.engine.table_check import Table
from helpers.engine.wrong_answers import wrong_answers

from .. import cost as reference

__all__ = ["enc_dec_cost"]


def _changed(change: Callable) -> Callable:
    """The right table with some of its rows replaced by those of `change(n, m, d)`."""

    def table(n, m, d):
        return reference.enc_dec_cost(n, m, d) | change(n, m, d)

    return table


def multiply_adds(n, m, d):
    return {row: (scores // 2, weights // 2) for row, (scores, weights) in reference.enc_dec_cost(n, m, d).items()}


def lengths_swapped(n, m, d):
    return reference.enc_dec_cost(m, n, d)


enc_dec_cost = Table(
    reference=reference.enc_dec_cost,
    columns=("scores and mixing", "products with weights"),
    cases=[
        random_case(n=5, m=7, d=4),
        random_case(n=11, m=3, d=8),
        random_case(n=100, m=640, d=64),
        random_case(n=1, m=9, d=6),
        random_case(n=5, m=3, d=8),
        random_case(n=5, m=7, d=8),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        one_flop_multiply_add=multiply_adds,
        source_target_swapped=lengths_swapped,
        cross_attention_forgotten=_changed(lambda n, m, d: {"cross_attention": (0, 0)}),
        cross_attention_with_n_squared_scores=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * n * d, 4 * n * d * d + 4 * m * d * d)}
        ),
        cross_attention_with_m_squared_scores=_changed(
            lambda n, m, d: {"cross_attention": (4 * m * m * d, 4 * n * d * d + 4 * m * d * d)}
        ),
        cross_attentions_keys_values_made=_changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 8 * n * d * d)}),
        cross_attentions_projections_all_memory=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * m * d, 8 * m * d * d)}
        ),
        one_projection_memory_three_target=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * m * d, 6 * n * d * d + 2 * m * d * d)}
        ),
        cross_attention_without_projections=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * m * d, 4 * n * d * d)}
        ),
        cross_attention_without_projections_2=_changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 0)}),
        keys_values_memory_projected_again=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * m * d, 4 * n * d * d + 4 * n * m * d * d)}
        ),
        mixing_left_out=lambda n, m, d: {row: (s // 2, w) for row, (s, w) in reference.enc_dec_cost(n, m, d).items()},
        three_projections_instead_four=_changed(
            lambda n, m, d: {
                "encoder_self_attention": (4 * m * m * d, 6 * m * d * d),
                "decoder_self_attention": (4 * n * n * d, 6 * n * d * d),
                "cross_attention": (4 * n * m * d, 2 * n * d * d + 4 * m * d * d),
            }
        ),
        half_causal_scores=_changed(lambda n, m, d: {"decoder_self_attention": (2 * n * (n + 1) * d, 8 * n * d * d)}),
        feed_forward_network_width_d=_changed(
            lambda n, m, d: {"encoder_feed_forward": (0, 4 * m * d * d), "decoder_feed_forward": (0, 4 * n * d * d)}
        ),
        one_two_products_feed_forward_network=_changed(
            lambda n, m, d: {"encoder_feed_forward": (0, 8 * m * d * d), "decoder_feed_forward": (0, 8 * n * d * d)}
        ),
        cross_attentions_output_projection_made=_changed(
            lambda n, m, d: {"cross_attention": (4 * n * m * d, 2 * n * d * d + 6 * m * d * d)}
        ),
        one_two_products_decoders_feed_forward=_changed(lambda n, m, d: {"decoder_feed_forward": (0, 8 * n * d * d)}),
        one_two_products_encoders_feed_forward=_changed(lambda n, m, d: {"encoder_feed_forward": (0, 8 * m * d * d)}),
        feed_forward_networks_that_read_other=_changed(
            lambda n, m, d: {"encoder_feed_forward": (0, 16 * n * d * d), "decoder_feed_forward": (0, 16 * m * d * d)}
        ),
        decoder_that_reads_source_target_as_one=_changed(
            lambda n, m, d: {"decoder_self_attention": (4 * (n + m) ** 2 * d, 8 * (n + m) * d * d)}
        ),
    ),
)
