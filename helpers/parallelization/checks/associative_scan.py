"""The check of `associative_scan`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case
from helpers.engine.check import Behaviour, Check, CheckGroup
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import recurrence

__all__ = ["associative_scan"]


def _pair(a, b) -> Tensor:
    return torch.stack([a, b], dim=-1)


def _combined(first, second, axis) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=axis)


def columns_of_a_table(first, second) -> Tensor:
    a, b = first[:, 0] * second[:, 0], second[:, 0] * first[:, 1] + second[:, 1]
    return torch.stack([a, b], dim=1)


def unbound_along_the_first_axis(first, second) -> Tensor:
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
        b_swapped=lambda first, second: _pair(
            second[..., 0] * first[..., 1] + second[..., 1], first[..., 0] * second[..., 0]
        ),
        second_step_done_first=lambda first, second: _pair(
            first[..., 0] * second[..., 0], first[..., 0] * second[..., 1] + first[..., 1]
        ),
        operator_that_not_associative=lambda first, second: _pair(
            second[..., 0], second[..., 0] * first[..., 1] + second[..., 1]
        ),
        tanh_inside=lambda first, second: _pair(
            first[..., 0] * second[..., 0], torch.tanh(second[..., 0] * first[..., 1] + second[..., 1])
        ),
        b1_not_multiplied=lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 1] + second[..., 1]),
        b1_multiplied_by_own=lambda first, second: _pair(
            first[..., 0] * second[..., 0], first[..., 0] * first[..., 1] + second[..., 1]
        ),
        b1_multiplied_by_both_factors=lambda first, second: _pair(
            first[..., 0] * second[..., 0], first[..., 0] * second[..., 0] * first[..., 1] + second[..., 1]
        ),
        both_terms_multiplied_crosswise=lambda first, second: _pair(
            first[..., 0] * second[..., 0], first[..., 0] * second[..., 1] + second[..., 0] * first[..., 1]
        ),
        factors_added=lambda first, second: _pair(
            first[..., 0] + second[..., 0], second[..., 0] * first[..., 1] + second[..., 1]
        ),
        everything_multiplied=lambda first, second: first * second,
        everything_added=lambda first, second: first + second,
        pair_put_at_axis_1=Wrong(lambda first, second: _combined(first, second, 1), raises="IndexError"),
        columns_plain_list_pairs=Wrong(columns_of_a_table, raises="IndexError"),
        taken_apart_along_first_axis=Wrong(unbound_along_the_first_axis, raises="ValueError"),
    ),
)


def _counting(operator) -> Callable:
    """The operator on all columns but the last; in the last, its nesting depth."""

    def counted(first: Tensor, second: Tensor) -> Tensor:
        if first.shape != second.shape:
            raise ValueError(
                f"the operator takes two tensors of one shape, and got `{tuple(first.shape)}` and `{tuple(second.shape)}`."
            )
        depth = torch.maximum(first[..., -1:], second[..., -1:]) + 1
        return torch.cat([operator(first[..., :-1], second[..., :-1]), depth], dim=-1)

    return counted


def affine_step(first: Tensor, second: Tensor) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)


def matrix_product(first: Tensor, second: Tensor) -> Tensor:
    return (first.unflatten(-1, (2, 2)) @ second.unflatten(-1, (2, 2))).flatten(-2)


def plain_sum(first: Tensor, second: Tensor) -> Tensor:
    return first + second


def _elements(n: int, width: int) -> RandomArg:
    """Elements near 1 in size, so that long products neither vanish nor explode, with a zero depth in the last column."""

    def make(generator: Generator) -> Tensor:
        angles = 6.3 * torch.rand(n, 1, generator=generator)
        turns = torch.cat([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], dim=1)  # 2×2 rotations
        steps = torch.cat(
            [0.9 - 1.8 * torch.rand(n, 1, generator=generator), torch.randn(n, 1, generator=generator)], dim=1
        )
        values = {
            1: torch.randn(n, 1, generator=generator),
            2: steps,
            4: turns + 0.1 * torch.randn(n, 4, generator=generator),
        }
        return torch.cat([values[width], torch.zeros(n, 1)], dim=1)

    return RandomArg(make)


def scan_case(what: str, operator, width: int, n: int) -> Case:
    counted = RandomArg(lambda _: _counting(operator))
    return explicit_case(f"{what}, n = {n}", counted, _elements(n, width))


def _depth(output: Tensor) -> int:
    return int(output[..., -1].max())


def _allowed(n: int) -> int:
    """Twice ⌈log2 n⌉ and one: what a scan with the fewest operations (Blelloch) needs, up the tree and down again."""
    return 2 * math.ceil(math.log2(n)) + 1


def _made_by_the_operator(seen: Observation) -> bool:
    return _depth(seen.output) >= math.ceil(math.log2(len(seen.args[1])))


def _shallow(seen: Observation) -> bool:
    return _depth(seen.output) <= _allowed(len(seen.args[1]))


def _one_by_one(seen: Observation) -> bool:
    return _depth(seen.output) >= len(seen.args[1]) - 1 > _allowed(len(seen.args[1]))


def _block_by_block(seen: Observation) -> bool:
    n = len(seen.args[1])
    return _allowed(n) < _depth(seen.output) < n - 1


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


def _rounds(operator, elements, reaches) -> Tensor:
    """One round for each reach: every row takes in the row that lies so far before it."""
    for reach in reaches:
        elements = torch.cat([elements[:reach], operator(elements[:-reach], elements[reach:])])
    return elements


def _powers(n):
    return [2**power for power in range(math.ceil(math.log2(n)))]


def scan_exclusive(operator, elements) -> Tensor:
    rows = _rounds(operator, elements, _powers(len(elements)))
    return torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])


def scan_in_the_wrong_order(operator, elements) -> Tensor:
    return _rounds(lambda first, second: operator(second, first), elements, _powers(len(elements)))


def scan_one_round_short(operator, elements) -> Tensor:
    return _rounds(operator, elements, _powers(len(elements))[:-1])


def scan_with_steps_of_one(operator, elements) -> Tensor:
    return _rounds(operator, elements, [1 for _ in _powers(len(elements))])


def scan_from_the_end(operator, elements) -> Tensor:
    rows = _rounds(lambda first, second: operator(second, first), elements.flip(0), _powers(len(elements)))
    return rows.flip(0)


def scan_all(operator, elements) -> Tensor:
    return _rounds(operator, elements, _powers(len(elements)))


def _first_powers(count: int) -> list[int]:
    return [2**power for power in range(count)]


def zeros_for_missing_neighbours(operator, elements) -> Tensor:
    for reach in _powers(len(elements)):
        left = torch.zeros_like(elements)
        left[reach:] = elements[:-reach]
        elements = operator(left, elements)
    return elements


def steps_for_missing_neighbours(operator, elements) -> Tensor:
    """The first rows are combined with (1, 0), the step that changes nothing."""
    for reach in _powers(len(elements)):
        left = torch.zeros_like(elements)
        left[:reach, 0] = 1
        left[reach:] = elements[:-reach]
        elements = operator(left, elements)
    return elements


def rows_of_two_put_before(operator, elements) -> Tensor:
    for reach in _powers(len(elements)):
        nothing = elements.new_tensor([1.0, 0.0]).repeat(reach, 1)
        elements = operator(torch.cat([nothing, elements[:-reach]]), elements)
    return elements


def scan_with_combine(operator, elements) -> Tensor:
    return scan_all(lambda a, b: _pair(a[..., 0] * b[..., 0], b[..., 0] * a[..., 1] + b[..., 1]), elements)


def scan_with_combine_of_any_width(operator, elements) -> Tensor:
    return scan_all(
        lambda a, b: torch.cat([a[..., :1] * b[..., :1], b[..., :1] * a[..., 1:] + b[..., 1:]], -1), elements
    )


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


def total_everywhere(operator, elements) -> Tensor:
    rows = _rounds(operator, elements, _powers(len(elements)))
    return rows[-1:].expand_as(rows).clone()


def scan_that_reads_new_values(operator, elements) -> Tensor:
    rows = elements.clone()
    for reach in _powers(len(rows)):
        for i in range(reach, len(rows)):
            rows[i] = operator(rows[i - reach], rows[i])
    return rows


scan = Check(
    reference=recurrence.associative_scan,
    cases=[
        scan_case("linear steps", affine_step, 2, 8),
        as_float64(scan_case("sums", plain_sum, 1, 5)),
        scan_case("linear steps", affine_step, 2, 13),
        scan_case("2×2 matrices", matrix_product, 4, 40),
        scan_case("linear steps", affine_step, 2, 1),
        scan_case("linear steps", affine_step, 2, 2),
        scan_case("linear steps", affine_step, 2, 11),
        as_float64(
            scan_case("sums", plain_sum, 1, 2_500)
        ),  # blocks of up to 128 rows, one after the other, make too long a chain here
    ],
    counts=False,  # the elements count their depth themselves
    view=lambda output: output[:, :-1],  # how deep the values were computed stands in the last column
    behaviours=[
        Behaviour(
            "made by the operator that was handed over",
            _made_by_the_operator,
            "The values are right, but they weren't made by the `operator` that was handed over, or not by it alone: it counts its own nesting in the last "
            "column, and n elements can't be combined at less than ⌈log2 n⌉.",
        ),
        Behaviour(
            "depth about log2 n",
            _shallow,
            "The values are right, but some of them come out of a chain of operators that is longer than 2⌈log2 n⌉ + 1 (the check's operator "
            "counts its own nesting).",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        one_element_after_other=Wrong(scan_one_by_one, cost=_one_by_one),
        blocks_one_after_other=Wrong(scan_by_blocks, cost=_block_by_block),
        exclusive_instead_inclusive=scan_exclusive,
        operands_wrong_order=scan_in_the_wrong_order,
        one_round_too_few=scan_one_round_short,
        reach_that_does_not_double=scan_with_steps_of_one,
        reach_that_squared=lambda operator, elements: _rounds(
            operator, elements, [reach for reach in (1, 2, 4, 16) if reach < len(elements)]
        ),
        only_last_row=lambda operator, elements: scan_all(operator, elements)[-1],
        reach_that_grows_by_one=lambda operator, elements: _rounds(operator, elements, range(1, len(elements))),
        scanned_from_end=scan_from_the_end,
        total_every_row=total_everywhere,
        values_read_that_this_round_has_changed=scan_that_reads_new_values,
        log2_n_rounds=lambda operator, elements: _rounds(
            operator, elements, _first_powers(int(math.log2(len(elements))))
        ),
        log2_n_rounded_nearest=lambda operator, elements: _rounds(
            operator, elements, _first_powers(round(math.log2(len(elements))))
        ),
        zeros_neighbours_that_missing=zeros_for_missing_neighbours,
        neutral_element_taken_granted=steps_for_missing_neighbours,
        rows_two_numbers_put_before_first=Wrong(rows_of_two_put_before, raises="RuntimeError"),
        round_too_few_where_n_one_more_than=lambda operator, elements: _rounds(
            operator, elements, [reach for reach in _powers(len(elements)) if reach < len(elements) - 1]
        ),
        combine_place_operator=Wrong(scan_with_combine, raises="RuntimeError"),
        combine_rows_any_width_place_operator=scan_with_combine_of_any_width,
        one_row_against_many=Wrong(halves_with_one_row, raises="ValueError"),
        pairs_even_numbers_rows_only=Wrong(pairs_of_even_rows, raises="ValueError"),
        exclusive_with_first_row_kept=lambda operator, elements: torch.cat(
            [elements[:1], scan_all(operator, elements)[:-1]]
        ),
    ),
)

associative_scan = CheckGroup("associative_scan", combine, scan)
