"""The check of `critical_path`: how many steps follow one another in four networks."""

import math
from collections.abc import Callable

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import schedules

__all__ = ["critical_path"]

LONG = 10_000  # tokens: too many for a call inside a call for each


def call_a_token(n, layers=1) -> int:
    return layers if n == 1 else call_a_token(n - 1, layers) + 1


def call_a_token_written(n, layers) -> int:
    return layers if n == 1 else call_a_token_written(n - 1, layers) + layers


def _steps(reference: Callable, **own: Callable | Wrong) -> Check:
    cases = [random_case(n=7, layers=4), random_case(n=3, layers=5), random_case(n=LONG, layers=2)]
    return Check(
        reference=reference,
        cases=[*cases, random_case(n=1, layers=6)],
        within=EXACT,
        misconceptions=wrong_answers(__file__, **own),
    )


rnn_steps = Check(
    reference=schedules.rnn_steps,
    cases=[random_case(n=7), random_case(n=LONG), random_case(n=1)],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        one_step=lambda n: 1,
        arrows=lambda n: n - 1,
        tree=lambda n: max(1, (n - 1).bit_length()),
        pairs=lambda n: n * n,
        call_a_token=Wrong(call_a_token, raises="RecursionError"),
    ),
)

stacked_rnn_steps = _steps(
    schedules.stacked_rnn_steps,
    cells=lambda n, layers: n * layers,
    corner_twice=lambda n, layers: n + layers,
    arrows_of_stack=lambda n, layers: n + layers - 2,
    all_layers_at_once=lambda n, layers: n,
    longer_side=lambda n, layers: max(n, layers),
    picture_2n_less_layers=lambda n, layers: 2 * n - layers,
    picture_2_layers_more_1=lambda n, layers: 2 * layers + 1,
    picture_2n_less_3=lambda n, layers: 2 * n - 3,
    picture_layers_more_4=lambda n, layers: layers + 4,
    picture_n_more_2=lambda n, layers: n + 2,
    layers_up_to_n=lambda n, layers: n + min(n, layers) - 1,
    twice_longer_side=lambda n, layers: 2 * max(n, layers) - 1,
    longer_side_and_layers=lambda n, layers: max(n, layers) + layers - 1,
    call_a_token=Wrong(call_a_token, raises="RecursionError"),
)

encoder_steps = _steps(
    schedules.encoder_steps,
    all_at_once=lambda n, layers: 1,
    tokens_in_turn=lambda n, layers: n,
    cells_in_turn=lambda n, layers: n * layers,
    wavefront=lambda n, layers: n + layers - 1,
    arrows_of_encoder=lambda n, layers: layers - 1,
    one_step_for_one_token=lambda n, layers: layers if n > 1 else 1,
    picture_n_less_2=lambda n, layers: max(n - 2, 1),
    picture_tree=lambda n, layers: math.ceil(math.log2(n)),
    picture_half=lambda n, layers: (n + 1) // 2,
    shorter_side=lambda n, layers: min(n, layers),
)

decoder_steps = _steps(
    schedules.decoder_steps,
    reading=lambda n, layers: layers,
    step_a_token=lambda n, layers: n,
    wavefront_in_writing=lambda n, layers: n + layers - 1,
    written_again=lambda n, layers: layers * n * (n + 1) // 2,
    added=lambda n, layers: n + layers,
    sum_to_n=lambda n, layers: n * (n + 1) // 2,
    pass_for_start=lambda n, layers: (n + 1) * layers,
    picture_5_layers=lambda n, layers: 5 * layers,
    picture_3n=lambda n, layers: 3 * n,
    arrows_of_decoder=lambda n, layers: n * layers - 1,
    first_token_free=lambda n, layers: max(n - 1, 1) * layers,
    call_a_token=Wrong(call_a_token_written, raises="RecursionError"),
)

critical_path = CheckGroup("critical_path", rnn_steps, stacked_rnn_steps, encoder_steps, decoder_steps)
