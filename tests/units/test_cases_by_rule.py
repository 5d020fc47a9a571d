"""Rules that the cases of every check keep, those that students see and the hidden ones together: sizes that differ, so
that a swapped axis can't hide; one case with two axes of one size, so that nothing is told by its size; float64, so
that a dtype that is lost on the way is found; scores whose exponentials overflow. Exceptions stand below with their
reasons."""

import contextlib
import inspect
from functools import cache

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograder.course.exercises import exercises
from helpers.engine.check import Check
from helpers.engine.isolated_call import laid_out
from helpers.engine.kernel_check import KernelCheck

ONE_SIZE = {  # no case has two axes of one size
    "same_output_other_weights": "n ≤ d + 1 leaves no other weights",
    "positions_and_mask": "rows of a batch are told apart by what they hold",
    "masked_lm_objective": "the same",
    "associative_scan": "a row is a step, and its width is the operator's",
}
SINGLE = {  # no case is in float64
    "attention_weights": "weights put together number by number in Python are right, and those are float32",
    "attend": "the same",
    "query_for_pair": "the same: the query is made by hand",
    "same_output_other_weights": "properties decide, with a tolerance of their own",
    "leaks_future": "a truth value is asked for",
    "flash_attention_forward of causal_tiles": "what is counted there; its values are asked for in float64 in the "
    "exercise before",
    "next_token_probabilities": "probabilities to draw from, in any dtype",
    "triton_rows": "Triton's kernels compute in float32",
    "triton_forward": "the same",
    "triton_backward": "the same",
}
MODERATE = {  # no exponential of a large number
    "chunked_attention": "joins the rows of a function that is given",
    "permutation_equivariance": "measures a function that is given",
    "leaks_future": "judges a model that is given",
    "bidirectional_cannot_cache": "measures a layer that is given",
    "EncoderLayer": "its attention is the course's",
    "DecoderLayer": "the same",
    "EncoderDecoder": "the same",
    "beam_search": "ranks what a model that is given says",
    "previous_token_head": "how large the scores are is the answer",
    "first_token_head": "the same",
    "train": "trains a small model that is given",
    "mqa_gqa_cache": "how heads share a cache; the scores are those of 8.5",
    "flash_attention_forward of causal_tiles": "which tiles are skipped; large scores come in the exercise before",
    "online_softmax": "its reference never takes the exponential of a large number: that is its point. Its scores "
    "reach ±1,000",
    "flash_attention": "gradients of scores within float64's reach; large ones come in the forward pass",
}
LARGE = 60.0  # e^−60 is nothing beside 1 in float32
EXPONENTIALS = ("_softmax", "_log_softmax", "exp", "exp2", "logsumexp")


class Exponents(TorchDispatchMode):
    """Watches the largest finite number that an exponential is taken of."""

    def __init__(self) -> None:
        super().__init__()
        self.largest: float | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in EXPONENTIALS:
            sizes = args[0].detach().abs().double()
            found = sizes.where(sizes.isfinite(), 0.0).max().item() if sizes.numel() else 0.0
            self.largest = max(self.largest or 0.0, found)
        return func(*args, **(kwargs or {}))


@cache
def checks(course) -> dict[str, tuple[Check, tuple]]:
    """Every check that isn't a quiz, and all its cases, under its exercise's name."""
    found: dict = {}
    for unit in course.chosen([]):
        for exercise in exercises(course, unit):
            hidden = exercise.hidden_cases() or ()
            for check in getattr(exercise.check, "parts", {"": exercise.check}).values():
                more = hidden.get(check.exercise, ()) if isinstance(hidden, dict) else hidden
                name = check.exercise if check.exercise not in found else f"{check.exercise} of {exercise.id}"
                if not check.quiz:
                    found[name] = check, (*check.cases, *more)
    return found


@cache
def draws(course) -> dict[str, list[tuple]]:
    """What the cases of every check are called with."""
    return {
        name: [case.draw(check.reference, Generator().manual_seed(i)) for i, case in enumerate(cases)]
        for name, (check, cases) in checks(course).items()
    }


def axes(check: Check, args: tuple) -> dict[str, int]:
    """The sizes of the axes that the reference's signature names, but for those of a batch (`*batch`)."""
    sizes: dict[str, int] = {}
    for parameter, arg in zip(inspect.signature(check.reference).parameters.values(), args, strict=False):
        if isinstance(arg, Tensor) and hasattr(parameter.annotation, "dim_str"):
            names = parameter.annotation.dim_str.split()
            stars = next((i for i, name in enumerate(names) if name.startswith(("*", "..."))), len(names))
            after = names[stars + 1 :]
            sizes |= dict(zip(names[:stars], arg.shape)) | dict(zip(after, arg.shape[arg.dim() - len(after) :]))
    return {name: size for name, size in sizes.items() if name.isidentifier()}


def floats(args: tuple) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def missing(course, holds, excused: dict) -> set[str]:
    """The checks that don't keep a rule; those that are excused and keep it are to be taken off the list."""
    broken = {name for name, (check, _) in checks(course).items() if not holds(check, draws(course)[name])}
    assert not excused.keys() - broken, f"needs no excuse any more: {sorted(excused.keys() - broken)}"
    return broken - excused.keys()


def named(check: Check, drawn: list[tuple]) -> list[list[int]]:
    """The sizes of all cases, where there is more than one axis."""
    return [sizes for args in drawn if len(sizes := list(axes(check, args).values())) > 1]


def test_some_case_has_sizes_that_all_differ(real_course):
    def differ(check, drawn):
        sizes = named(check, drawn)
        return not sizes or any(len(set(one)) == len(one) and min(one) > 1 for one in sizes)

    assert not missing(real_course, differ, {})


def test_some_case_has_two_axes_of_one_size(real_course):
    def square(check, drawn):
        sizes = named(check, drawn)
        return not sizes or any(
            len({size for size in one if size > 1}) < len([size for size in one if size > 1]) for one in sizes
        )

    assert not missing(real_course, square, ONE_SIZE)


def test_some_case_is_in_float64(real_course):
    def double(check, drawn):
        found = [leaf.dtype for args in drawn for leaf in floats(args)]
        return not found or torch.float64 in found

    assert not missing(real_course, double, SINGLE)


def test_some_scores_overflow_without_a_maximum(real_course):
    """Of references that take exponentials; interpreted kernels can't be watched, nor what trains for minutes."""

    def large(check, drawn):
        if isinstance(check, KernelCheck) or check.exercise == "train_reversal":
            return True
        watch = Exponents()
        for args in drawn:
            with watch, contextlib.suppress(Exception):
                check.drive(check.reference, *args) if check.drive else check.reference(*args)
            if (watch.largest or 0.0) >= LARGE:
                break
        return watch.largest is None or watch.largest >= LARGE

    assert not missing(real_course, large, MODERATE)


@pytest.mark.parametrize("layout", ["columns", "gaps", "heads inside"])
def test_tensors_of_kernels_do_not_lie_row_by_row(real_course, layout):
    """Everywhere else `view` on an input is a right style: nothing in PyTorch's part of the course asks for strides."""
    kernels = [check for check, _ in checks(real_course).values() if isinstance(check, KernelCheck)]
    assert kernels and all({"columns", "gaps"} <= set(check.layouts) for check in kernels)
    tensor = torch.rand(2, 3, 4, 5)
    (other,) = laid_out((tensor,), (layout,), torch.device("cpu"))
    assert not other.is_contiguous() and torch.equal(other, tensor)


def test_cases_of_a_table_differ_in_each_argument_alone(real_course):
    """A table that is kept under a part of its arguments is wrong only where two calls agree in that part. (Of
    functions that take nothing but numbers: other tensors of the same sizes come with the case that is asked twice.)"""

    def alone(check, drawn):
        numbers = all(isinstance(arg, (int, float)) for args in drawn for arg in args)
        output = check.reference(*drawn[0]) if numbers else None
        if not (isinstance(output, dict) or any(isinstance(leaf, Tensor) for leaf in tree_leaves(output))):
            return True
        shown = drawn[: len(check.cases)]  # hidden cases meet another copy of the answer
        return all(any(differ_in(a, b) == {i} for a in shown for b in shown) for i in range(max(map(len, shown))))

    def differ_in(a: tuple, b: tuple) -> set[int]:
        return {i for i, (one, other) in enumerate(zip(a, b)) if one != other} if len(a) == len(b) else set()

    growth = {"layer_types": "how it grows is asked by calls that differ in one size"}
    assert not missing(real_course, alone, growth)


def test_all_cases_of_a_check_have_names_of_their_own(real_course):
    for name, (_, cases) in checks(real_course).items():
        labels = [case.label for case in cases]
        assert len(set(labels)) == len(labels), (name, sorted(label for label in labels if labels.count(label) > 1))
