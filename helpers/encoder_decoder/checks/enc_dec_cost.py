"""The check of `enc_dec_cost`."""

from collections.abc import Callable

from helpers.engine.cases import random_case
from helpers.engine.table_check import Table
from helpers.engine.wrong_answers import wrong_answers

from .. import cost as reference

__all__ = ["enc_dec_cost"]


def changed(rows: Callable) -> Callable:
    """The right table with some of its rows replaced by those of `rows(n, m, d)`."""
    return lambda n, m, d: reference.enc_dec_cost(n, m, d) | rows(n, m, d)


def halved(half: Callable) -> Callable:
    """All rows (scores, weights) through `half`."""
    return lambda n, m, d: {row: half(*costs) for row, costs in reference.enc_dec_cost(n, m, d).items()}


def cross(scores: Callable, weights: Callable) -> Callable:
    """Another cross-attention; weights: how often d² is multiplied, by tokens of the target and of the memory."""
    return changed(lambda n, m, d: {"cross_attention": (scores(n, m) * d, weights(n, m) * d * d)})


def feed(encoder: Callable, decoder: Callable) -> Callable:
    """Other feed-forward networks, by how often d² is multiplied."""
    return changed(
        lambda n, m, d: {
            "encoder_feed_forward": (0, encoder(n, m) * d * d),
            "decoder_feed_forward": (0, decoder(n, m) * d * d),
        }
    )


def all_scores(n, m):
    return 4 * n * m


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
        multiply_adds=halved(lambda scores, weights: (scores // 2, weights // 2)),
        no_mixing=halved(lambda scores, weights: (scores // 2, weights)),
        lengths_swapped=lambda n, m, d: reference.enc_dec_cost(m, n, d),
        no_cross=cross(lambda n, m: 0, lambda n, m: 0),
        n_squared_scores=cross(lambda n, m: 4 * n * n, lambda n, m: 4 * n + 4 * m),
        m_squared_scores=cross(lambda n, m: 4 * m * m, lambda n, m: 4 * n + 4 * m),
        all_of_the_target=cross(all_scores, lambda n, m: 8 * n),
        all_of_the_memory=cross(all_scores, lambda n, m: 8 * m),
        one_of_the_memory=cross(all_scores, lambda n, m: 6 * n + 2 * m),
        three_of_the_memory=cross(all_scores, lambda n, m: 2 * n + 6 * m),
        no_keys_and_values=cross(all_scores, lambda n, m: 4 * n),
        no_projections=cross(all_scores, lambda n, m: 0),
        memory_projected_again=cross(all_scores, lambda n, m: 4 * n + 4 * n * m),
        three_projections=changed(
            lambda n, m, d: {
                "encoder_self_attention": (4 * m * m * d, 6 * m * d * d),
                "decoder_self_attention": (4 * n * n * d, 6 * n * d * d),
                "cross_attention": (4 * n * m * d, 2 * n * d * d + 4 * m * d * d),
            }
        ),
        causal_half=changed(lambda n, m, d: {"decoder_self_attention": (2 * n * (n + 1) * d, 8 * n * d * d)}),
        source_and_target_as_one=changed(
            lambda n, m, d: {"decoder_self_attention": (4 * (n + m) ** 2 * d, 8 * (n + m) * d * d)}
        ),
        feed_of_width_d=feed(lambda n, m: 4 * m, lambda n, m: 4 * n),
        one_product=feed(lambda n, m: 8 * m, lambda n, m: 8 * n),
        one_product_in_encoder=feed(lambda n, m: 8 * m, lambda n, m: 16 * n),
        one_product_in_decoder=feed(lambda n, m: 16 * m, lambda n, m: 8 * n),
        feed_of_the_other_length=feed(lambda n, m: 16 * n, lambda n, m: 16 * m),
    ),
)
