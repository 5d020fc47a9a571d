"""Inputs for a check, drawn from the shapes in the reference's own signature.

`sized(n=5, m=7, d=4)` is a case in which every tensor of the reference is drawn at those sizes: the type hint
`Float[Tensor, "*batch n d"]` says all there is to know. Axes that are not named get sizes that are all different, so
that no shape is square by accident and a swapped axis can't hide.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

DISTINCT = (5, 3, 7, 4, 6, 8, 9, 11)


@dataclass(frozen=True)
class Case:
    """One call of the student's function: how its inputs are drawn, and what may be asked of the call itself."""

    label: str
    draw: Callable[[Callable, Generator], tuple]  # (reference, generator) -> positional arguments
    max_operations: int | None = None  # tensor operations that may be dispatched
    max_elements: int | None = None  # elements of the largest tensor that may be made
    gradient: bool = False  # compare the gradients too


def sized(label: str = "", *, scale: float = 1.0, dtype=torch.float32, max_operations=None, max_elements=None,
          gradient=False, **sizes: Any) -> Case:  # fmt: skip
    """A case whose inputs are drawn for the reference's signature.

    sizes: axis name -> size; `batch=(2, 3)` for `*batch`; a parameter without a shape takes the value of its own name.
    scale: standard deviation of floating-point inputs.
    """
    words = label or ", ".join(f"{axis} = {_brief(size)}" for axis, size in sizes.items())
    return Case(words, lambda reference, generator: _draw(reference, sizes, scale, dtype, generator), max_operations,
                max_elements, gradient)  # fmt: skip


def given(label: str, *args: Any, **limits: Any) -> Case:
    """A case with these inputs; an argument that is a `Drawn` is made anew at each call."""
    return Case(label, lambda _, generator: tuple(_value(arg, generator) for arg in args), **limits)


@dataclass(frozen=True)
class Drawn:
    """An argument of `given` that is drawn at each call: `Drawn(lambda g: torch.randn(3, generator=g))`."""

    make: Callable[[Generator], Any]


def _value(arg: Any, generator: Generator) -> Any:
    return arg.make(generator) if isinstance(arg, Drawn) else arg


def _brief(size: Any) -> str:
    return "×".join(map(str, size)) if isinstance(size, tuple) else str(size)


def _draw(reference: Callable, sizes: dict, scale: float, dtype: torch.dtype, generator: Generator) -> tuple:
    sizes, spare = dict(sizes), iter(DISTINCT)

    def size_of(axis: str) -> tuple[int, ...]:
        if axis.isdigit():
            return (int(axis),)
        if axis.startswith(("*", "...")):
            return tuple(sizes.get(axis.lstrip("*."), ()))
        if axis not in sizes:
            sizes[axis] = next(size for size in spare if size not in sizes.values())
        return (sizes[axis],)

    def argument(parameter: inspect.Parameter) -> Any:
        hint = parameter.annotation
        if not hasattr(hint, "dim_str"):
            return sizes[parameter.name]
        shape = [size for axis in hint.dim_str.split() for size in size_of(axis)]
        return _tensor(hint.dtypes, shape, scale, dtype, generator)

    return tuple(argument(parameter) for parameter in inspect.signature(reference).parameters.values())


def _tensor(
    dtypes: tuple[str, ...], shape: list[int], scale: float, dtype: torch.dtype, generator: Generator
) -> Tensor:
    if "float32" in dtypes:
        return (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)
    if "bool" in dtypes:
        return torch.rand(shape, generator=generator) < 0.5
    return torch.randint(10, shape, generator=generator)
