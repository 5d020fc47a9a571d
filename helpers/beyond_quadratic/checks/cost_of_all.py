"""cost_of_all: FLOPs of the matrix products of every kind of attention, exact to the digit."""

import math

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.wrong_answers import wrong_answers

from .. import variant_costs as reference

__all__ = ["cost_of_all"]


def formula(reference, sizes, **wrong):
    cases = [random_case(**one) for one in sizes]
    return Check(reference=reference, cases=cases, within=EXACT, misconceptions=wrong_answers(__file__, **wrong))


local_flops = formula(
    reference.local_flops,
    [dict(n=100, d=16, w=4), dict(n=4096, d=64, w=128), dict(n=7, d=3, w=5)],
    local_squared=lambda n, d, w: 4 * n**2 * d,
    w_slots=lambda n, d, w: 4 * n * w * d,
    itself_not_counted=lambda n, d, w: 8 * n * w * d,
    no_2=lambda n, d, w: 2 * n * (2 * w + 1) * d,
    window_cut_to_text=lambda n, d, w: 4 * n * min(2 * w + 1, n) * d,
    ends_cut_off=lambda n, d, w: 4 * d * (n * (2 * w + 1) - w * (w + 1)),
)

global_local_flops = formula(
    reference.global_local_flops,
    [dict(n=100, d=16, w=4, g=2), dict(n=4096, d=64, w=128, g=16), dict(n=9, d=3, w=6, g=2)],
    global_squared=lambda n, d, w, g: 4 * n**2 * d,
    no_global_rows=lambda n, d, w, g: 4 * d * (n - g) * (2 * w + 1 + g),
    globals_like_others=lambda n, d, w, g: 4 * d * n * (2 * w + 1 + g),
    no_global_columns=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1) + g * n),
    window_for_globals_too=lambda n, d, w, g: 4 * d * (n * (2 * w + 1 + g) + g * n),
    globals_keep_window=lambda n, d, w, g: 4 * d * (n * (2 * w + 1) + 2 * g * (n - g)),
    no_2=lambda n, d, w, g: 2 * d * ((n - g) * (2 * w + 1 + g) + g * n),
    globals_without_each_other=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1 + g) + g * (n - g)),
    other_windows_cut_to_text=lambda n, d, w, g: 4 * d * ((n - g) * (g + min(2 * w + 1, n)) + g * n),
    window_of_g=lambda n, d, w, g: 4 * d * ((n - g) * (3 * g + 1) + g * n),
    no_w=lambda n, d, w, g: 4 * d * ((n - g) * (2 * g + 1) + g * n),
    two_w_slots=lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + g) + g * n),
)

strided_flops = formula(
    reference.strided_flops,
    [dict(n=100, d=16), dict(n=4096, d=64), dict(n=25, d=3)],
    strided_squared=lambda n, d: 4 * n**2 * d,
    only_window=lambda n, d: 4 * n * (2 * math.isqrt(n) - 1) * d,
    only_column=lambda n, d: 4 * n * math.isqrt(n) * d,
    itself_twice=lambda n, d: 4 * n * (3 * math.isqrt(n) - 1) * d,
    about_3_roots=lambda n, d: 12 * n * math.isqrt(n) * d,
    no_2=lambda n, d: 2 * n * (3 * math.isqrt(n) - 2) * d,
)

low_rank_flops = formula(
    reference.low_rank_flops,
    [dict(n=100, d=16, r=4), dict(n=4096, d=64, r=128), dict(n=9, d=3, r=2)],
    low_rank_squared=lambda n, d, r: 4 * n**2 * d,
    no_projections=lambda n, d, r: 4 * n * r * d,
    one_projection=lambda n, d, r: 6 * n * r * d,
    features_projected=lambda n, d, r: 4 * n**2 * r + 6 * n * d * r,
    attention_on_top=lambda n, d, r: 8 * n * r * d + 4 * n**2 * d,
    d_d_projections=lambda n, d, r: 4 * n * d**2 + 4 * n * r * d,
    r_r_projections=lambda n, d, r: 4 * r**2 * d + 4 * n * r * d,
)

linear_flops = formula(
    reference.linear_flops,
    [dict(n=100, d=16), dict(n=4096, d=64), dict(n=9, d=3)],
    linear_squared=lambda n, d: 4 * n**2 * d,
    one_product=lambda n, d: 2 * n * d**2,
    linear_in_d=lambda n, d: 4 * n * d,
    read_once=lambda n, d: 2 * n * d**2 + 2 * d**2,
    normaliser_too=lambda n, d: 4 * n * d**2 + 2 * n * d,
    n_d_squared=lambda n, d: n * d**2,
)

chunked_flops = formula(
    reference.chunked_flops,
    [dict(n=96, d=16, c=8), dict(n=4096, d=64, c=128), dict(n=12, d=5, c=3)],
    chunks_squared=lambda n, d, c: 4 * n**2 * d,
    no_state=lambda n, d, c: 4 * n * c * d,
    no_squares=lambda n, d, c: 4 * n * d**2,
    one_square=lambda n, d, c: 4 * n * d**2 + 4 * c**2 * d,
    n_squares=lambda n, d, c: 4 * n * d**2 + 4 * n * c**2 * d,
    c_chunks=lambda n, d, c: c * (4 * c * c * d + 4 * c * d**2),
    half_square=lambda n, d, c: 4 * n * d**2 + 2 * n * (c + 1) * d,
    never_read=lambda n, d, c: 2 * n * d**2 + 4 * n * c * d,
    first_reading_left_out=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 2 * c * d**2,
    first_and_last_left_out=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 4 * c * d**2,
    normalisers_too=lambda n, d, c: 4 * n * d**2 + 4 * n * c * d + 2 * n * d,
)

cost_of_all = CheckGroup(
    "cost_of_all", local_flops, global_local_flops, strided_flops, low_rank_flops, linear_flops, chunked_flops
)
