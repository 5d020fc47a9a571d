"""The check of `associative_scan`: two steps in one, then all partial results at a depth of log2 n."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case
from helpers.engine.check import Behaviour, Check, CheckGroup
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import recurrence

__all__ = ["associative_scan"]


def _step(combined: Callable, dim: int = -1) -> Callable:
    """The pair that `combined(a1, b1, a2, b2)` gives, put at the axis `dim`."""
    return lambda first, second: torch.stack(combined(*first.unbind(-1), *second.unbind(-1)), dim=dim)


def columns_of_a_table(first, second) -> Tensor:
    a, b = first[:, 0] * second[:, 0], second[:, 0] * first[:, 1] + second[:, 1]
    return torch.stack([a, b], dim=1)


def first_axis(first, second) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(), second.unbind()
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)


combine = Check(
    reference=recurrence.combine,
    cases=[
        random_case(k=(), label="one pair of steps"),
        random_case(k=(5,)),
        random_case(k=(3, 4), dtype=torch.float64),
        explicit_case("double, then add 1", torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0])),
        random_case(k=(4,), dtype=torch.float64, label="k = 4, in float64"),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(recurrence.combine),
        swapped=_step(lambda a1, b1, a2, b2: (a2 * b1 + b2, a1 * a2)),
        second_first=_step(lambda a1, b1, a2, b2: (a1 * a2, a1 * b2 + b1)),
        not_associative=_step(lambda a1, b1, a2, b2: (a2, a2 * b1 + b2)),
        tanh_inside=_step(lambda a1, b1, a2, b2: (a1 * a2, torch.tanh(a2 * b1 + b2))),
        b1_as_it_is=_step(lambda a1, b1, a2, b2: (a1 * a2, b1 + b2)),
        b1_by_a1=_step(lambda a1, b1, a2, b2: (a1 * a2, a1 * b1 + b2)),
        b1_by_both=_step(lambda a1, b1, a2, b2: (a1 * a2, a1 * a2 * b1 + b2)),
        crosswise=_step(lambda a1, b1, a2, b2: (a1 * a2, a1 * b2 + a2 * b1)),
        factors_added=_step(lambda a1, b1, a2, b2: (a1 + a2, a2 * b1 + b2)),
        all_multiplied=lambda first, second: first * second,
        all_added=lambda first, second: first + second,
        at_axis_1=Wrong(_step(lambda a1, b1, a2, b2: (a1 * a2, a2 * b1 + b2), dim=1), raises="IndexError"),
        columns=Wrong(columns_of_a_table, raises="IndexError"),
        first_axis=Wrong(first_axis, raises="ValueError"),
    ),
)


def _counting(operator) -> Callable:
    """The operator on all columns but the last; in the last, its nesting depth."""

    def counted(first: Tensor, second: Tensor) -> Tensor:
        if first.shape != second.shape:
            shapes = f"`{tuple(first.shape)}` and `{tuple(second.shape)}`"
            raise ValueError(f"the operator takes two tensors of one shape, and got {shapes}.")
        depth = torch.maximum(first[..., -1:], second[..., -1:]) + 1
        return torch.cat([operator(first[..., :-1], second[..., :-1]), depth], dim=-1)

    return counted


def matrix_product(first: Tensor, second: Tensor) -> Tensor:
    return (first.unflatten(-1, (2, 2)) @ second.unflatten(-1, (2, 2))).flatten(-2)


def plain_sum(first: Tensor, second: Tensor) -> Tensor:
    return first + second


def _elements(n: int, width: int) -> RandomArg:
    """Elements near 1 in size, so that long products neither vanish nor explode; in the last column the depth, 0."""

    def make(generator: Generator) -> Tensor:
        angles = 6.3 * torch.rand(n, 1, generator=generator)
        turns = torch.cat([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], dim=1)  # 2×2 rotations
        factors, terms, sums = (draw(n, 1, generator=generator) for draw in (torch.rand, torch.randn, torch.randn))
        values = {
            1: sums,
            2: torch.cat([0.9 - 1.8 * factors, terms], dim=1),
            4: turns + 0.1 * torch.randn(n, 4, generator=generator),
        }
        return torch.cat([values[width], torch.zeros(n, 1)], dim=1)

    return RandomArg(make)


def scan_case(what: str, operator, width: int, n: int) -> Case:
    counted = RandomArg(lambda _: _counting(operator))
    return explicit_case(f"{what}, n = {n}", counted, _elements(n, width))


def _depth(seen: Observation) -> int:
    return int(seen.output[..., -1].max())


def _n(seen: Observation) -> int:
    return len(seen.args[1])


def _allowed(seen: Observation) -> int:
    """Twice ⌈log2 n⌉ and one: what a scan with the fewest operations (Blelloch) needs, up the tree and down again."""
    return 2 * math.ceil(math.log2(_n(seen))) + 1


def scan_one_by_one(operator, elements) -> Tensor:
    rows = [elements[0]]
    for element in elements[1:]:
        rows.append(operator(rows[-1], element))
    return torch.stack(rows)


def scan_by_blocks(operator, elements) -> Tensor:
    size = math.ceil(math.sqrt(len(elements)))
    blocks = [scan_one_by_one(operator, block) for block in elements.split(size)]
    rows, carry = [blocks[0]], blocks[0][-1]
    for block in blocks[1:]:
        rows.append(operator(carry.expand_as(block), block))
        carry = operator(carry, block[-1])
    return torch.cat(rows)


def _powers(n: int) -> list[int]:
    return [2**power for power in range(math.ceil(math.log2(n)))]


def _by_rounds(reaches: Callable) -> Callable:
    """One round for each of `reaches(n)`: every row takes in the row that lies so far before it."""

    def scan(operator, elements) -> Tensor:
        for reach in reaches(len(elements)):
            elements = torch.cat([elements[:reach], operator(elements[:-reach], elements[reach:])])
        return elements

    return scan


def _filled(nothing: Callable) -> Callable:
    """A scan in which `nothing(rows)` stands for the neighbours of the first rows, which have none."""

    def scan(operator, elements) -> Tensor:
        for reach in _powers(len(elements)):
            elements = operator(torch.cat([nothing(elements[:reach]), elements[:-reach]]), elements)
        return elements

    return scan


def identity_steps(rows) -> Tensor:
    """(1, 0), the step that changes nothing."""
    steps = torch.zeros_like(rows)
    steps[:, 0] = 1
    return steps


def in_wrong_order(operator, elements) -> Tensor:
    return recurrence.associative_scan(lambda first, second: operator(second, first), elements)


def exclusive(operator, elements) -> Tensor:
    rows = recurrence.associative_scan(operator, elements)
    return torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])


def any_width(a, b) -> Tensor:
    return torch.cat([a[..., :1] * b[..., :1], b[..., :1] * a[..., 1:] + b[..., 1:]], -1)


def two_numbers(a, b) -> Tensor:
    return torch.stack([a[..., 0] * b[..., 0], b[..., 0] * a[..., 1] + b[..., 1]], dim=-1)


def halves_with_one_row(operator, elements) -> Tensor:
    if len(elements) == 1:
        return elements
    left, right = (halves_with_one_row(operator, half) for half in elements.tensor_split([len(elements) // 2]))
    return torch.cat([left, operator(left[-1:], right)])


def pairs_of_even_rows(operator, elements) -> Tensor:
    if len(elements) == 1:
        return elements
    pairs = pairs_of_even_rows(operator, operator(elements[0::2], elements[1::2]))
    rows = elements.clone()
    rows[1::2] = pairs
    rows[2::2] = operator(pairs[:-1], elements[2::2])
    return rows


def scan_that_reads_new_values(operator, elements) -> Tensor:
    rows = elements.clone()
    for reach in _powers(len(rows)):
        for i in range(reach, len(rows)):
            rows[i] = operator(rows[i - reach], rows[i])
    return rows


scan = Check(
    reference=recurrence.associative_scan,
    cases=[
        scan_case("linear steps", recurrence.combine, 2, 8),
        as_float64(scan_case("sums", plain_sum, 1, 5)),
        scan_case("linear steps", recurrence.combine, 2, 13),
        scan_case("2×2 matrices", matrix_product, 4, 40),
        scan_case("linear steps", recurrence.combine, 2, 1),
        scan_case("linear steps", recurrence.combine, 2, 2),
        scan_case("linear steps", recurrence.combine, 2, 11),
        # Blocks of up to 128 rows, one after the other, make too long a chain here.
        as_float64(scan_case("sums", plain_sum, 1, 2_500)),
    ],
    counts=False,  # the elements count their depth themselves
    view=lambda output: output[:, :-1],  # how deep the values were computed stands in the last column
    behaviours=[
        Behaviour(
            "made by the operator that was handed over",
            lambda seen: _depth(seen) >= math.ceil(math.log2(_n(seen))),
            "The `operator` that is handed over counts its own nesting in the last column. Yours is below ⌈log2 n⌉, "
            "and so few steps can't combine n elements: is something left out, or made without it?",
        ),
        Behaviour(
            "depth about log2 n",
            lambda seen: _depth(seen) <= _allowed(seen),
            "Some of your values come out of a chain of operators that is longer than "
            "2⌈log2 n⌉ + 1 (the check's operator counts its own nesting).",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        one_by_one=Wrong(scan_one_by_one, cost=lambda seen: _depth(seen) >= _n(seen) - 1 > _allowed(seen)),
        blocks=Wrong(scan_by_blocks, cost=lambda seen: _allowed(seen) < _depth(seen) < _n(seen) - 1),
        exclusive=exclusive,
        wrong_order=in_wrong_order,
        round_too_few=_by_rounds(lambda n: _powers(n)[:-1]),
        not_doubled=_by_rounds(lambda n: [1] * len(_powers(n))),
        squared=_by_rounds(lambda n: [reach for reach in (1, 2, 4, 16) if reach < n]),
        last_row_only=lambda operator, elements: recurrence.associative_scan(operator, elements)[-1],
        grown_by_one=_by_rounds(lambda n: range(1, n)),
        from_the_end=lambda operator, elements: in_wrong_order(operator, elements.flip(0)).flip(0),
        total_in_every_row=lambda operator, elements: (
            recurrence.associative_scan(operator, elements)[-1:].expand_as(elements).clone()
        ),
        new_values_read=scan_that_reads_new_values,
        rounded_down=_by_rounds(lambda n: [2**power for power in range(int(math.log2(n)))]),
        rounded_to_nearest=_by_rounds(lambda n: [2**power for power in range(round(math.log2(n)))]),
        zeros_for_missing=_filled(torch.zeros_like),
        steps_for_missing=_filled(identity_steps),
        pairs_for_missing=Wrong(
            _filled(lambda rows: rows.new_tensor([1.0, 0.0]).repeat(len(rows), 1)), raises="RuntimeError"
        ),
        less_than_n_minus_1=_by_rounds(lambda n: [reach for reach in _powers(n) if reach < n - 1]),
        combine=Wrong(
            lambda operator, elements: recurrence.associative_scan(two_numbers, elements), raises="RuntimeError"
        ),
        combine_of_any_width=lambda operator, elements: recurrence.associative_scan(any_width, elements),
        one_row_for_many=Wrong(halves_with_one_row, raises="ValueError"),
        even_rows_only=Wrong(pairs_of_even_rows, raises="ValueError"),
        first_row_kept=lambda operator, elements: torch.cat([elements[:1], exclusive(operator, elements)[1:]]),
    ),
)

associative_scan = CheckGroup("associative_scan", combine, scan)
