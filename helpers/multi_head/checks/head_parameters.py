"""The check of `head_parameters`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import heads as multi_head

__all__ = ["head_parameters"]

SIZES = [
    random_case(d=12, h=3, d_h=4),
    random_case(d=8, h=4, d_h=8),
    random_case(d=10, h=3, d_h=7),
    random_case(d=512, h=8, d_h=64),
]

head_parameters = Check(
    reference=multi_head.head_parameters,
    cases=SIZES,
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        no_biases=lambda d, h, d_h: 4 * d * h * d_h,
        no_output_projection=lambda d, h, d_h: 3 * (d + 1) * h * d_h,
        one_number_each_bias=lambda d, h, d_h: 4 * d * h * d_h + 4,
        parameters_one_head=lambda d, h, d_h: 4 * d * d_h + 3 * d_h + d,
        four_d_d_projections_whatever_d_h=lambda d, h, d_h: 4 * d * (d + 1),
        heads_that_all_have_width_d=lambda d, h, d_h: 3 * (d + 1) * h * d + (h * d + 1) * d,
        output_bias_width_h_d_h=lambda d, h, d_h: 4 * (d + 1) * h * d_h,
        four_biases_d_numbers=lambda d, h, d_h: 4 * d * h * d_h + 4 * d,
        q_k_v_one_head_alone=lambda d, h, d_h: 3 * (d * d_h + d_h) + h * d_h * d + d,
        heads_that_read_d_h_features_token=lambda d, h, d_h: 3 * (d_h + 1) * h * d_h + (h * d_h + 1) * d,
        three_d_d_projections_wide_output=lambda d, h, d_h: 3 * d * (d + 1) + h * d_h * d + d,
        output_bias_each_head=lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * (d_h + 1) * d,
        no_bias_output_projection=lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * d_h * d,
    ),
)
