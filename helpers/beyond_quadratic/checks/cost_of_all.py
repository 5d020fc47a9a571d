"""Checks of the formulas: FLOPs of the matrix products of every kind of attention, exact to the digit."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import wrong_answers

from .. import variant_costs as reference

__all__ = ["cost_of_all"]

local_flops = Check(
    reference=reference.local_flops,
    cases=[random_case(n=100, d=16, w=4), random_case(n=4096, d=64, w=128), random_case(n=7, d=3, w=5)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared=lambda n, d, w: 4 * n**2 * d,
        w_slots_instead_2w_1=lambda n, d, w: 4 * n * w * d,
        token_itself_not_counted=lambda n, d, w: 8 * n * w * d,
        factor_2_lost=lambda n, d, w: 2 * n * (2 * w + 1) * d,
        window_no_wider_than_text=lambda n, d, w: 4 * n * min(2 * w + 1, n) * d,
        ends_cut_off=lambda n, d, w: 4 * d * (n * (2 * w + 1) - w * (w + 1)),
    ),
)

global_local_flops = Check(
    reference=reference.global_local_flops,
    cases=[random_case(n=100, d=16, w=4, g=2), random_case(n=4096, d=64, w=128, g=16), random_case(n=9, d=3, w=6, g=2)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared_2=lambda n, d, w, g: 4 * n**2 * d,
        rows_global_tokens_left_out=lambda n, d, w, g: 4 * d * (n - g) * (2 * w + 1 + g),
        global_tokens_that_read_no_more_than=lambda n, d, w, g: 4 * d * n * (2 * w + 1 + g),
        columns_global_tokens_left_out=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1) + g * n),
        window_global_tokens_too=lambda n, d, w, g: 4 * d * (n * (2 * w + 1 + g) + g * n),
        global_rows_that_keep_their_window_too=lambda n, d, w, g: 4 * d * (n * (2 * w + 1) + 2 * g * (n - g)),
        factor_2_lost=lambda n, d, w, g: 2 * d * ((n - g) * (2 * w + 1 + g) + g * n),
        global_tokens_that_dont_read_each_other=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1 + g) + g * (n - g)),
        window_no_wider_than_text_2=lambda n, d, w, g: 4 * d * ((n - g) * (g + min(2 * w + 1, n)) + g * n),
        window_g_each_side=lambda n, d, w, g: 4 * d * ((n - g) * (3 * g + 1) + g * n),
        with_2g_1_slots_other_tokens=lambda n, d, w, g: 4 * d * ((n - g) * (2 * g + 1) + g * n),
        with_2w_slots_window=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + g) + g * n),
    ),
)

strided_flops = Check(
    reference=reference.strided_flops,
    cases=[random_case(n=100, d=16), random_case(n=4096, d=64), random_case(n=25, d=3)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared_3=lambda n, d: 4 * n**2 * d,
        only_window=lambda n, d: 4 * n * (2 * math.isqrt(n) - 1) * d,
        only_column=lambda n, d: 4 * n * math.isqrt(n) * d,
        token_itself_counted_twice=lambda n, d: 4 * n * (3 * math.isqrt(n) - 1) * d,
        with_3root_n_round_numbers=lambda n, d: 12 * n * math.isqrt(n) * d,
        factor_2_lost=lambda n, d: 2 * n * (3 * math.isqrt(n) - 2) * d,
    ),
)

low_rank_flops = Check(
    reference=reference.low_rank_flops,
    cases=[random_case(n=100, d=16, r=4), random_case(n=4096, d=64, r=128), random_case(n=9, d=3, r=2)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared_4=lambda n, d, r: 4 * n**2 * d,
        projections_forgotten=lambda n, d, r: 4 * n * r * d,
        one_projection_instead_two=lambda n, d, r: 6 * n * r * d,
        features_projected_instead_positions=lambda n, d, r: 4 * n**2 * r + 6 * n * d * r,
        full_attention_on_top=lambda n, d, r: 8 * n * r * d + 4 * n**2 * d,
        d_d_projections=lambda n, d, r: 4 * n * d**2 + 4 * n * r * d,
        r_r_projections=lambda n, d, r: 4 * r**2 * d + 4 * n * r * d,
    ),
)

linear_flops = Check(
    reference=reference.linear_flops,
    cases=[random_case(n=100, d=16), random_case(n=4096, d=64), random_case(n=9, d=3)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared_5=lambda n, d: 4 * n**2 * d,
        one_product_instead_two=lambda n, d: 2 * n * d**2,
        linear_d_as_well=lambda n, d: 4 * n * d,
        reading_state_once_all=lambda n, d: 2 * n * d**2 + 2 * d**2,
        normaliser_counted_too=lambda n, d: 4 * n * d**2 + 2 * n * d,
        n_d_squared_all=lambda n, d: n * d**2,
    ),
)

chunked_flops = Check(
    reference=reference.chunked_flops,
    cases=[random_case(n=96, d=16, c=8), random_case(n=4096, d=64, c=128), random_case(n=12, d=5, c=3)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        still_n_squared_6=lambda n, d, c: 4 * n**2 * d,
        state_left_out=lambda n, d, c: 4 * n * c * d,
        squares_left_out=lambda n, d, c: 4 * n * d**2,
        one_square_instead_n_over_c=lambda n, d, c: 4 * n * d**2 + 4 * c**2 * d,
        n_squares_instead_n_over_c=lambda n, d, c: 4 * n * d**2 + 4 * n * c**2 * d,
        c_chunks_instead_n_over_c=lambda n, d, c: c * (4 * c * c * d + 4 * c * d**2),
        half_square=lambda n, d, c: 4 * n * d**2 + 2 * n * (c + 1) * d,
        state_updated_but_never_read=lambda n, d, c: 2 * n * d**2 + 4 * n * c * d,
        first_chunks_reading_left_out=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 2 * c * d**2,
        first_reading_last_update_left_out=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 4 * c * d**2,
        normalisers_counted_too=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d + 2 * n * d,
    ),
)

cost_of_all = CheckGroup(
    "cost_of_all", local_flops, global_local_flops, strided_flops, low_rank_flops, linear_flops, chunked_flops
)
