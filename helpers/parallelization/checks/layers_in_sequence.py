"""The check of `layers_in_sequence`: in which step each cell of a network runs."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import EXACT, axes_of_size_1_dropped
from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

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
    "The numbers are right, but the table holds floats: a step is a whole number. `torch.ones(…)` and "
    "`torch.zeros(…)` make floats unless you give `dtype=torch.long`.",
)


def _schedule(reference: Callable, **own: Callable) -> Check:
    return Check(
        reference=reference,
        cases=GRIDS,
        properties=[WHOLE_NUMBERS],
        within=EXACT,
        misconceptions=wrong_answers(
            __file__,
            axes_of_size_1_dropped(reference),
            floats=Wrong(
                lambda layers, n: reference(layers, n).float(), recognise=lambda seen: seen.output.is_floating_point()
            ),
            few_bits=Wrong(
                lambda layers, n: reference(layers, n).to(torch.int16),
                recognise=lambda seen: seen.output.dtype in (torch.int8, torch.uint8, torch.int16),
            ),
            **own,
        ),
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


def rows_that_are_one(layers, n) -> Tensor:
    steps = [[0] * n] * layers
    for layer in range(layers):
        for token in range(n):
            before = steps[layer - 1][token] if layer else 0, steps[layer][token - 1] if token else 0
            steps[layer][token] = 1 + max(before)
    return torch.tensor(steps)


rnn_schedule = _schedule(
    schedules.rnn_schedule,
    layer_after_layer=row_after_row,
    token_after_token=column_after_column,
    counted_from_0=lambda layers, n: wavefront(layers, n) - 1,
    swapped=lambda layers, n: wavefront(n, layers),
    reshaped=lambda layers, n: wavefront(n, layers).reshape(layers, n),
    all_layers_at_once=columns_in_order,
    all_tokens_at_once=rows_in_order,
    multiplied=lambda layers, n: torch.arange(1, layers + 1)[:, None] * torch.arange(1, n + 1),
    later_of_two=lambda layers, n: torch.maximum(rows_in_order(layers, n), columns_in_order(layers, n)),
    first_layer_last=lambda layers, n: row_after_row(layers, n).flip(0),
    last_layer_first=lambda layers, n: wavefront(layers, n).flip(0),
    one_list=rows_that_are_one,
)

transformer_schedule = _schedule(
    schedules.transformer_schedule,
    one_step_for_all=lambda layers, n: torch.ones(layers, n, dtype=torch.long),
    wavefront=wavefront,
    tokens_in_turn=columns_in_order,
    cell_by_cell=row_after_row,
    counted_from_0=lambda layers, n: rows_in_order(layers, n) - 1,
    top_layer_first=lambda layers, n: rows_in_order(layers, n).flip(0),
    one_column=lambda layers, n: rows_in_order(layers, 1),
    repeated=lambda layers, n: torch.arange(1, layers + 1).repeat(n).view(layers, n),
    tokens_in_turn_in_one_layer=lambda layers, n: (columns_in_order if layers == 1 else rows_in_order)(layers, n),
    swapped=lambda layers, n: rows_in_order(layers, n).mT.contiguous(),
)

writing_schedule = _schedule(
    schedules.writing_schedule,
    reading=rows_in_order,
    wavefront_in_writing=wavefront,
    layer_after_layer_in_writing=row_after_row,
    all_layers_at_once_in_writing=columns_in_order,
    counted_from_0=lambda layers, n: column_after_column(layers, n) - 1,
    layers_less_one=lambda layers, n: torch.arange(layers)[:, None] + (layers - 1) * torch.arange(n) + 1,
    swapped=lambda layers, n: column_after_column(layers, n).mT.contiguous(),
    row_cut=lambda layers, n: torch.arange(1, layers * n + 1).view(layers, n).mT.contiguous(),
    n_steps=lambda layers, n: torch.arange(layers)[:, None] + n * torch.arange(n) + 1,
    last_layer_first=lambda layers, n: column_after_column(layers, n).flip(0),
)

layers_in_sequence = CheckGroup("layers_in_sequence", rnn_schedule, transformer_schedule, writing_schedule)
