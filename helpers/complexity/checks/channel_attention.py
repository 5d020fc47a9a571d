"""channel_attention: FLOPs of attention between patches, and between channels."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import pattern_costs

__all__ = ["channel_attention"]


def _axes(n, d, patches, channels, projections=8):
    return projections * n * d * d + patches, projections * n * d * d + channels


channel_attention = Check(
    reference=pattern_costs.channel_attention,
    cases=[
        random_case(n=256, d=512, h=1),
        random_case(n=256, d=512, h=8),
        random_case(n=100, d=12, h=3),
        random_case(n=7, d=32, h=4),
        random_case(n=3_000_017, d=4_000_040, h=8, label="large: 12 digits count"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        no_projections=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d // h, projections=0),
        projections_on_one_side=lambda n, d, h: (8 * n * d * d + 4 * n * n * d, 4 * n * d * d // h),
        channels_undivided=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d),
        h_for_width=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * h),
        patches_divided_too=lambda n, d, h: _axes(n, d, 4 * n * n * d // h, 4 * n * d * d // h),
        times_heads=lambda n, d, h: _axes(n, d, 4 * n * n * d * h, 4 * n * d * d * h),
        two_swapped=lambda n, d, h: _axes(n, d, 4 * n * d * d // h, 4 * n * n * d),
        no_weighted_sum=lambda n, d, h: _axes(n, d, 2 * n * n * d, 2 * n * d * d // h),
        width_d=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * d**3 // h),
        n_by_n_projections=lambda n, d, h: (8 * n * d * d + 4 * n * n * d, 8 * n * n * d + 4 * n * d * d // h),
        one_head=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * (d // h) ** 2),
        full_width=lambda n, d, h: _axes(n, d, 4 * n * n * d * h, 4 * n * d * d // h),
        three_projections=lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d // h, projections=6),
        multiply_adds=lambda n, d, h: _axes(n, d, 2 * n * n * d, 2 * n * d * d // h, projections=4),
    ),
)
