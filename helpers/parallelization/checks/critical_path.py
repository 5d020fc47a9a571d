"""The check of `critical_path`."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import schedules

__all__ = ["critical_path"]

LONG = 10_000  # tokens: too many for a call inside a call for each


def a_call_for_each_token(n) -> int:
    return 1 if n == 1 else a_call_for_each_token(n - 1) + 1


def a_call_for_each_token_read(n, layers) -> int:
    return layers if n == 1 else a_call_for_each_token_read(n - 1, layers) + 1


def a_call_for_each_token_written(n, layers) -> int:
    return layers if n == 1 else a_call_for_each_token_written(n - 1, layers) + layers


rnn_steps = Check(
    reference=schedules.rnn_steps,
    cases=[random_case(n=7), random_case(n=LONG), random_case(n=1)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        with_1_rnn=lambda n: 1,
        arrows_counted_instead_steps=lambda n: n - 1,
        tree_over_tokens=lambda n: max(1, (n - 1).bit_length()),
        all_pairs_tokens=lambda n: n * n,
        call_inside_call_every_token=Wrong(a_call_for_each_token, raises="RecursionError"),
    ),
)

stacked_rnn_steps = Check(
    reference=schedules.stacked_rnn_steps,
    cases=[
        random_case(n=7, layers=4),
        random_case(n=3, layers=5),
        random_case(n=LONG, layers=2),
        random_case(n=1, layers=6),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        n_l_stacked_rnn=lambda n, layers: n * layers,
        one_step_too_many_at_corner=lambda n, layers: n + layers,
        arrows_counted_instead_steps_2=lambda n, layers: n + layers - 2,
        all_layers_at_once=lambda n, layers: n,
        longer_two_sides=lambda n, layers: max(n, layers),
        with_2n_minus_l_which_fits_picture=lambda n, layers: 2 * n - layers,
        with_2l_1_which_fits_picture=lambda n, layers: 2 * layers + 1,
        with_2n_minus_3_which_fits_picture=lambda n, layers: 2 * n - 3,
        l_4_which_fits_picture=lambda n, layers: layers + 4,
        n_2_which_fits_picture=lambda n, layers: n + 2,
        no_more_layers_than_tokens_counted=lambda n, layers: n + min(n, layers) - 1,
        twice_longer_side_less_one=lambda n, layers: 2 * max(n, layers) - 1,
        longer_side_plus_l_minus_1=lambda n, layers: max(n, layers) + layers - 1,
        call_inside_call_every_token=Wrong(a_call_for_each_token_read, raises="RecursionError"),
    ),
)

encoder_steps = Check(
    reference=schedules.encoder_steps,
    cases=[
        random_case(n=7, layers=4),
        random_case(n=3, layers=5),
        random_case(n=LONG, layers=2),
        random_case(n=1, layers=6),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        with_1_all_layers_transformer=lambda n, layers: 1,
        tokens_one_after_other=lambda n, layers: n,
        n_l_transformer_that_reads=lambda n, layers: n * layers,
        wavefront_transformer=lambda n, layers: n + layers - 1,
        arrows_counted_instead_steps_3=lambda n, layers: layers - 1,
        one_step_single_token=lambda n, layers: layers if n > 1 else 1,
        n_minus_2_which_fits_picture=lambda n, layers: max(n - 2, 1),
        tree_over_tokens_2=lambda n, layers: math.ceil(math.log2(n)),
        half_tokens=lambda n, layers: (n + 1) // 2,
        shorter_two_sides=lambda n, layers: min(n, layers),
    ),
)

decoder_steps = Check(
    reference=schedules.decoder_steps,
    cases=[
        random_case(n=7, layers=4),
        random_case(n=3, layers=5),
        random_case(n=LONG, layers=2),
        random_case(n=1, layers=6),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        writing_taken_reading=lambda n, layers: layers,
        one_step_each_token_written=lambda n, layers: n,
        wavefront_writing=lambda n, layers: n + layers - 1,
        every_token_written_again_at_every_pass=lambda n, layers: layers * n * (n + 1) // 2,
        passes_layers_added=lambda n, layers: n + layers,
        with_1_2_n=lambda n, layers: n * (n + 1) // 2,
        pass_start_token=lambda n, layers: (n + 1) * layers,
        five_steps_each_layer=lambda n, layers: 5 * layers,
        three_steps_each_token=lambda n, layers: 3 * n,
        arrows_counted_instead_steps_4=lambda n, layers: n * layers - 1,
        no_pass_first_token=lambda n, layers: max(n - 1, 1) * layers,
        call_inside_call_every_token=Wrong(a_call_for_each_token_written, raises="RecursionError"),
    ),
)

critical_path = CheckGroup("critical_path", rnn_steps, stacked_rnn_steps, encoder_steps, decoder_steps)
