"""The check of `head_flops`: the FLOPs of multi-head attention, from its sizes."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from ..heads import head_flops as reference

__all__ = ["head_flops"]

head_flops = Check(
    reference=reference,
    cases=[
        random_case(n=5, d=12, h=3, d_h=4),
        random_case(n=100, d=8, h=4, d_h=8),
        random_case(n=7, d=10, h=3, d_h=6),
        random_case(n=1024, d=512, h=8, d_h=64),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        one_each=lambda n, d, h, d_h: 4 * n * d * h * d_h + 2 * n * n * h * d_h,
        no_output_projection=lambda n, d, h, d_h: 6 * n * d * h * d_h + 4 * n * n * h * d_h,
        half_attention=lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * n * h * d_h,
        causal_pairs=lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * (n + 1) * h * d_h,
        one_score_head=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d_h,
        scores_of_width_d=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d,
        linear_in_n=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * h * d_h,
        one_token=lambda n, d, h, d_h: 8 * d * h * d_h + 4 * n * n * h * d_h,
        one_head=lambda n, d, h, d_h: 8 * n * d * d_h + 4 * n * n * h * d_h,
        features_of_one_head=lambda n, d, h, d_h: 6 * n * h * d_h * d_h + 2 * n * h * d_h * d + 4 * n * n * h * d_h,
        d_over_h=lambda n, d, h, d_h: 8 * n * d * d + 4 * n * n * d,
        d_by_d=lambda n, d, h, d_h: 8 * n * d * d + 4 * n * n * h * d_h,
        d_for_all_heads=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d,
        one_addition_less=lambda n, d, h, d_h: (
            3 * n * h * d_h * (2 * d - 1)
            + h * n * n * (2 * d_h - 1)
            + h * n * d_h * (2 * n - 1)
            + n * d * (2 * h * d_h - 1)
        ),
        n_halved=lambda n, d, h, d_h: 8 * n * h * d_h * (d + n // 2),
        heads_of_width_d=lambda n, d, h, d_h: 8 * n * d * h * d + 4 * n * n * h * d_h,
        d_by_d_output=lambda n, d, h, d_h: 6 * n * d * h * d_h + 2 * n * d * d + 4 * n * n * h * d_h,
        biases=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + n * (3 * h * d_h + d),
        softmax_counted=lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + 3 * h * n * n,
    ),
)
