"""The check of `layers_in_sequence`."""

import torch
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import EXACT, axes_of_size_1_dropped
from helpers.engine.wrong_answers import wrong_answers

from .. import schedules

__all__ = ["layers_in_sequence"]

GRIDS = (
    random_case(layers=3, n=5),
    random_case(layers=4, n=2),
    random_case(layers=3, n=3),
    random_case(layers=1, n=5),
    random_case(layers=2, n=300),
)

WHOLE_NUMBERS = Property(
    "whole numbers",
    lambda table, *_: not table.is_floating_point(),
    "The numbers are right, but the table holds floats: a step is a whole number. `torch.ones(…)` and `torch.zeros(…)` make floats unless "
    "you give `dtype=torch.long`.",
)


def as_floats(schedule) -> Misconception:
    return Misconception(
        "a table of floats",
        lambda layers, n: schedule(layers, n).float(),
        "A step is a whole number, and the table is `Int[Tensor, …]`.",
        lambda seen: seen.output.is_floating_point(),
    )


def in_few_bits(schedule) -> Misconception:
    return Misconception(
        "whole numbers of too few bits",
        lambda layers, n: schedule(layers, n).to(torch.int16),
        "`int8` ends at 127, `uint8` at 255, `int16` at 32,767, and then they begin again from below. Long texts have more steps: leave it at the 64 "
        "bits of `torch.arange`.",
        lambda seen: seen.output.dtype in (torch.int8, torch.uint8, torch.int16),
    )


def wavefront(layers, n) -> Tensor:
    return torch.arange(layers)[:, None] + torch.arange(n) + 1


def rows_in_order(layers, n) -> Tensor:
    return torch.arange(1, layers + 1)[:, None].expand(layers, n).clone()


def columns_in_order(layers, n) -> Tensor:
    return torch.arange(1, n + 1).expand(layers, n).clone()


def column_after_column(layers, n) -> Tensor:
    return torch.arange(n) * layers + torch.arange(1, layers + 1)[:, None]


def row_after_row(layers, n) -> Tensor:
    return torch.arange(1, layers * n + 1).view(layers, n)


def one_layer_token_by_token(layers, n) -> Tensor:
    return (columns_in_order if layers == 1 else rows_in_order)(layers, n)


def rows_that_are_one(layers, n) -> Tensor:
    steps = [[0] * n] * layers
    for layer in range(layers):
        for token in range(n):
            steps[layer][token] = 1 + max(
                steps[layer - 1][token] if layer else 0, steps[layer][token - 1] if token else 0
            )
    return torch.tensor(steps)


rnn_schedule = Check(
    reference=schedules.rnn_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        as_floats(schedules.rnn_schedule),
        axes_of_size_1_dropped(schedules.rnn_schedule),
        in_few_bits(schedules.rnn_schedule),
        layer_after_layer=row_after_row,
        token_after_token=column_after_column,
        steps_counted_from_0=lambda layers, n: wavefront(layers, n) - 1,
        tokens_layers_swapped=lambda layers, n: wavefront(n, layers),
        reshaped_where_axes_should_be_swapped=lambda layers, n: wavefront(n, layers).reshape(layers, n),
        all_layers_token_at_once=columns_in_order,
        all_tokens_layer_at_once=rows_in_order,
        two_numbers_multiplied=lambda layers, n: torch.arange(1, layers + 1)[:, None] * torch.arange(1, n + 1),
        later_two=lambda layers, n: torch.maximum(rows_in_order(layers, n), columns_in_order(layers, n)),
        no_two_cells_one_step_first_layer_last=lambda layers, n: row_after_row(layers, n).flip(0),
        last_layer_row_0=lambda layers, n: wavefront(layers, n).flip(0),
        rows_that_one_same_list=rows_that_are_one,
    ),
)

transformer_schedule = Check(
    reference=schedules.transformer_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        as_floats(schedules.transformer_schedule),
        in_few_bits(schedules.transformer_schedule),
        axes_of_size_1_dropped(schedules.transformer_schedule),
        cells_different_layers_one_step=lambda layers, n: torch.ones(layers, n, dtype=torch.long),
        wavefront_transformer=wavefront,
        tokens_one_after_other=columns_in_order,
        layer_after_layer_token_after_token=row_after_row,
        steps_counted_from_0=lambda layers, n: rows_in_order(layers, n) - 1,
        top_layer_first=lambda layers, n: rows_in_order(layers, n).flip(0),
        one_column_all_tokens=lambda layers, n: rows_in_order(layers, 1),
        with_1_l_written_out_again_again=lambda layers, n: torch.arange(1, layers + 1).repeat(n).view(layers, n),
        tokens_one_after_other_single_layer=one_layer_token_by_token,
        tokens_layers_swapped=lambda layers, n: rows_in_order(layers, n).mT.contiguous(),
    ),
)

writing_schedule = Check(
    reference=schedules.writing_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        as_floats(schedules.writing_schedule),
        axes_of_size_1_dropped(schedules.writing_schedule),
        in_few_bits(schedules.writing_schedule),
        writing_taken_reading=rows_in_order,
        wavefront_writing=wavefront,
        layer_after_layer_2=row_after_row,
        all_layers_token_at_once_2=columns_in_order,
        steps_counted_from_0=lambda layers, n: column_after_column(layers, n) - 1,
        l_minus_1_steps_from_token_token=lambda layers, n: (
            torch.arange(layers)[:, None] + (layers - 1) * torch.arange(n) + 1
        ),
        tokens_layers_swapped=lambda layers, n: column_after_column(layers, n).mT.contiguous(),
        row_cut_where_column_should_be=lambda layers, n: (
            torch.arange(1, layers * n + 1).view(layers, n).mT.contiguous()
        ),
        n_steps_from_token_token=lambda layers, n: torch.arange(layers)[:, None] + n * torch.arange(n) + 1,
        last_layer_row_0=lambda layers, n: column_after_column(layers, n).flip(0),
    ),
)

layers_in_sequence = CheckGroup("layers_in_sequence", rnn_schedule, transformer_schedule, writing_schedule)
