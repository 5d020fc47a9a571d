"""The check of `head_parameters`: the parameters of multi-head attention, from its sizes."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from ..heads import head_parameters as reference

__all__ = ["head_parameters"]

head_parameters = Check(
    reference=reference,
    cases=[random_case(d=d, h=h, d_h=d_h) for d, h, d_h in ((12, 3, 4), (8, 4, 8), (10, 3, 7), (512, 8, 64))],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        no_biases=lambda d, h, d_h: 4 * d * h * d_h,
        no_output_projection=lambda d, h, d_h: 3 * (d + 1) * h * d_h,
        one_number_a_bias=lambda d, h, d_h: 4 * d * h * d_h + 4,
        one_head=lambda d, h, d_h: 4 * d * d_h + 3 * d_h + d,
        d_by_d=lambda d, h, d_h: 4 * d * (d + 1),
        heads_of_width_d=lambda d, h, d_h: 3 * (d + 1) * h * d + (h * d + 1) * d,
        narrow_output_bias=lambda d, h, d_h: 4 * (d + 1) * h * d_h,
        biases_of_d=lambda d, h, d_h: 4 * d * h * d_h + 4 * d,
        qkv_of_one_head=lambda d, h, d_h: 3 * (d * d_h + d_h) + h * d_h * d + d,
        features_of_one_head=lambda d, h, d_h: 3 * (d_h + 1) * h * d_h + (h * d_h + 1) * d,
        d_by_d_but_output=lambda d, h, d_h: 3 * d * (d + 1) + h * d_h * d + d,
        output_bias_a_head=lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * (d_h + 1) * d,
        no_output_bias=lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * d_h * d,
    ),
)
