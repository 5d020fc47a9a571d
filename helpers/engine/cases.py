"""Inputs for a check, drawn from the shapes in the reference's own signature.

`random_case(n=5, m=7, d=4)` is a case in which every tensor of the reference is drawn at those sizes: the type hint
`Float[Tensor, "*batch n d"]` says all there is to know. Axes that are not named get sizes that are all different, so
that no shape is square by accident and a swapped axis can't hide.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_map

from .compare import in_float64

DISTINCT = (5, 3, 7, 4, 6, 8, 9, 11)


@dataclass(frozen=True)
class Case:
    """One call of the student's function: how its inputs are drawn, and what may be asked of the call itself.

    Elements are those of one tensor, FLOPs those of matrix products. Limits on the way back need `gradient`.
    """

    label: str
    draw: Callable[[Callable, Generator], tuple]  # (reference, generator) -> positional arguments
    max_operations: int | None = None  # tensor operations that may be dispatched
    max_elements: int | None = None  # elements of the largest tensor that may be made
    max_living: int | None = None  # elements of all tensors that may be held at one time, inputs left out
    max_elementwise: int | None = None  # elements that operations may go through one by one
    gradient: bool = False  # compare the gradients too
    max_flops: int | None = None
    max_saved: int | None = None  # elements that may be kept for the way back, inputs left out
    max_backward_operations: int | None = None
    max_backward_elements: int | None = None
    max_backward_flops: int | None = None

    @property
    def limited(self) -> bool:
        """Whether the way to the output is judged, not the output alone."""
        return any(getattr(self, name) is not None for name in LIMITS)


LIMITS = tuple(name for name in Case.__dataclass_fields__ if name.startswith("max_"))


def random_case(
    label: str = "", *, scale: float = 1.0, dtype: torch.dtype = torch.float32, gradient: bool = False, **sizes: Any
) -> Case:
    """A case whose inputs are drawn for the reference's signature.

    scale: standard deviation of floating-point inputs.
    sizes: axis name -> size; `batch=(2, 3)` for `*batch`; a parameter without a shape takes the value of its own name.
    Among them may stand the limits of a `Case`, such as `max_elements=900`.
    """
    limits = {name: sizes.pop(name) for name in LIMITS if name in sizes}
    words = label or ", ".join(f"{axis} = {_brief(size)}" for axis, size in sizes.items())
    words += ", in float64" * (dtype == torch.float64 and not label)

    def draw(reference: Callable, generator: Generator) -> tuple:
        return _draw(reference, sizes, scale, dtype, generator)

    return Case(words, draw, gradient=gradient, **limits)


def explicit_case(label: str, *args: Any, **limits: Any) -> Case:
    """A case with these inputs; an argument that is a `RandomArg` is made anew at each call."""
    return Case(label, lambda _, generator: tuple(_value(arg, generator) for arg in args), **limits)


def as_float64(case: Case) -> Case:
    """The same case with all floating-point inputs in float64: an answer that goes by way of float32 is found."""
    return replace(case, label=f"{case.label}, in float64", draw=lambda *how: tree_map(in_float64, case.draw(*how)))


def on_levels(case: Case, *levels: float) -> Case:
    """The same case with all scores of query i moved to level i, by turns. That changes no weight; but a softmax that
    doesn't subtract each row's own maximum overflows, or finds nothing left to divide by. q and k are the first
    arguments, d is their last axis. For cases in float64: in float32 a score of 300 is rounded by 0.00002, and so are
    the weights of a right answer."""

    def draw(reference: Callable, generator: Generator) -> tuple:
        q, k, *rest = case.draw(reference, generator)
        turns = torch.tensor(levels, dtype=q.dtype).repeat(q.shape[-2])[: q.shape[-2]]
        k[..., 0], q[..., 0] = KEYS_IN_LINE, turns * q.shape[-1] ** 0.5 / KEYS_IN_LINE
        return q, k, *rest

    near = " and ".join(f"{level:g}".replace("-", "−") for level in levels)
    return replace(case, label=f"{case.label}, scores near {near}", draw=draw)


KEYS_IN_LINE = 8.0  # what all keys have in common, so that a query can move its scores as a whole


@dataclass(frozen=True)
class RandomArg:
    """An argument of `given` that is drawn at each call: `RandomArg(lambda g: torch.randn(3, generator=g))`."""

    make: Callable[[Generator], Any]


def normal(*shape: int, scale: float = 1.0, mean: float = 0.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """A tensor of normally distributed numbers."""
    return RandomArg(lambda generator: (mean + scale * torch.randn(shape, generator=generator)).to(dtype))


def whole(*shape: int, most: int = 24) -> RandomArg:
    """A float32 tensor of whole numbers from −most to most: their dot products run into the hundreds, and are exact."""
    return RandomArg(lambda generator: torch.randint(-most, most + 1, shape, generator=generator).float())


def _value(arg: Any, generator: Generator) -> Any:
    return arg.make(generator) if isinstance(arg, RandomArg) else arg


def _brief(size: Any) -> str:
    return "×".join(map(str, size)) if isinstance(size, tuple) else str(size)


def _draw(reference: Callable, sizes: dict, scale: float, dtype: torch.dtype, generator: Generator) -> tuple:
    parameters = inspect.signature(reference).parameters.values()
    _refuse_unknown(reference, sizes, {axis for parameter in parameters for axis in _axes(parameter)})
    sizes, spare = dict(sizes), iter(DISTINCT)

    def argument(parameter: inspect.Parameter) -> Any:
        hint = parameter.annotation
        if not hasattr(hint, "dim_str"):
            return sizes[parameter.name]
        shape = [size for axis in hint.dim_str.split() for size in _sizes(axis, sizes, spare)]
        return _tensor(hint.dtypes, shape, scale, dtype, generator)

    return tuple(map(argument, parameters))


def _axes(parameter: inspect.Parameter) -> list[str]:
    """The names that sizes may be given to: the axes of a tensor, or the parameter itself."""
    hint = parameter.annotation
    return [axis.lstrip("*.") for axis in hint.dim_str.split()] if hasattr(hint, "dim_str") else [parameter.name]


def _refuse_unknown(reference: Callable, sizes: dict, known: set[str]) -> None:
    unknown = sorted(sizes.keys() - known)
    if unknown:
        there = ", ".join(sorted(name for name in known if name and not name.isdigit()))
        raise ValueError(
            f"random_case({unknown[0]}=…): `{reference.__name__}` has no axis of that name; it has {there}."
        )


def _sizes(axis: str, sizes: dict, spare: Iterator[int]) -> tuple[int, ...]:
    """The sizes of an axis (of several for `*batch`); one that has none yet gets a size that no other has."""
    if axis.isdigit():
        return (int(axis),)
    if axis.startswith(("*", "...")):
        return tuple(sizes.get(axis.lstrip("*."), ()))
    if axis not in sizes:
        sizes[axis] = next(size for size in spare if size not in sizes.values())
    return (sizes[axis],)


def _tensor(
    dtypes: tuple[str, ...], shape: list[int], scale: float, dtype: torch.dtype, generator: Generator
) -> Tensor:
    if "float32" in dtypes:
        return (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)
    if "bool" in dtypes:
        return torch.rand(shape, generator=generator) < 0.5
    return torch.randint(10, shape, generator=generator)
