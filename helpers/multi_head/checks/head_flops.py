"""The check of `head_flops`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import heads as multi_head

__all__ = ["head_flops"]

head_flops = Check(
    reference=multi_head.head_flops,
    cases=[
        random_case(n=5, d=12, h=3, d_h=4),
        random_case(n=100, d=8, h=4, d_h=8),
        random_case(n=7, d=10, h=3, d_h=6),
        random_case(n=1024, d=512, h=8, d_h=64),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        one_flop_multiply_add=lambda n, d, h, d_h: 4 * n * d * h * d_h + 2 * n * n * h * d_h,
        no_output_projection=lambda n, d, h, d_h: 6 * n * d * h * d_h + 4 * n * n * h * d_h,
        half_attention=lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * n * h * d_h,
        pairs_under_causal_mask=lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * (n + 1) * h * d_h,
        scores_one_head_only=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d_h,
        scores_width_d_every_head=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d,
        attention_that_linear_n=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * h * d_h,
        projections_one_token=lambda n, d, h, d_h: 8 * d * h * d_h + 4 * n * n * h * d_h,
        projections_one_head=lambda n, d, h, d_h: 8 * n * d * d_h + 4 * n * n * h * d_h,
        heads_that_read_d_h_features_token=lambda n, d, h, d_h: (
            6 * n * h * d_h * d_h + 2 * n * h * d_h * d + 4 * n * n * h * d_h
        ),
        d_over_h_taken_width_head=lambda n, d, h, d_h: 8 * n * d * d + 4 * n * n * d,
        d_place_h_d_h_attention=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d,
        one_addition_less_every_dot_product=lambda n, d, h, d_h: (
            3 * n * h * d_h * (2 * d - 1)
            + h * n * n * (2 * d_h - 1)
            + h * n * d_h * (2 * n - 1)
            + n * d * (2 * h * d_h - 1)
        ),
        half_n_rounded_down=lambda n, d, h, d_h: 8 * n * h * d_h * (d + n // 2),
        projections_heads_width_d=lambda n, d, h, d_h: 8 * n * d * h * d + 4 * n * n * h * d_h,
        output_projection_d_d=lambda n, d, h, d_h: 6 * n * d * h * d_h + 2 * n * d * d + 4 * n * n * h * d_h,
        biases_counted=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + n * (3 * h * d_h + d),
        softmax_counted=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + 3 * h * n * n,
    ),
)
