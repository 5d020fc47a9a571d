"""Watch kernels being launched: count them, and stop an interpreted one that reads or writes outside its tensors.

Such a pointer would end the process, or quietly fetch a neighbour's numbers. Functions of Triton's interpreter are
wrapped while a call is observed; where a version of Triton has no such function, that part of the guard is left out.
"""

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from helpers.environment import interpreted

from . import autotuned_kernels

NEAR = 256  # rows past the end: that far, an unmasked tile reaches; what is farther out went astray


class UnmaskedRead(IndexError):
    """A kernel read a little past the end of a tensor."""


class UnmaskedWrite(IndexError):
    """A kernel wrote a little past the end of a tensor."""


class StrayPointer(IndexError):
    """A kernel read or wrote somewhere else altogether."""


class NotInterpretable(RuntimeError):
    """A kernel uses what only a GPU has; grading interprets kernels."""


CERTAIN = (UnmaskedRead.__name__, UnmaskedWrite.__name__)  # errors that say which slip it is, wherever they come up


@dataclass(frozen=True)
class _Launch:
    """A kernel while it runs, and its tensors by the names of its arguments."""

    kernel: str
    tensors: tuple[tuple[str, Tensor], ...]
    spans: np.ndarray  # (tensors, 2): the addresses of each tensor's first byte and of the one after its last


@contextlib.contextmanager
def watched(count: Callable[[], None]) -> Iterator[None]:
    """Inside, `count` is called for every launch of a kernel, and interpreted kernels stay inside their tensors."""
    launches: list[_Launch] = []
    patched: set[int] = set()
    with ExitStack() as stack:
        for name, kind in (("jit", "JITFunction"), ("interpreter", "InterpretedFunction")):
            _wrap(stack, _of_triton(name, kind), "run", lambda run: _counting(run, count))
        _wrap(
            stack,
            _of_triton("interpreter", "GridExecutor"),
            "_init_args_hst",
            lambda init: _noting(init, launches, patched),
        )
        if interpreted():
            _wrap(stack, _of_triton("autotuner", "Autotuner"), "run", autotuned_kernels.comparing)
        builder = _of_triton("interpreter", "InterpreterBuilder")
        _wrap(stack, sys.modules.get("triton.runtime.interpreter"), "_patch_lang", lambda patch: _once(patch, patched))
        for name, pointer, mask, reads in _ACCESSES:
            _wrap(stack, builder, name, lambda access, p=pointer, m=mask, r=reads: _guarding(access, launches, p, m, r))
        yield


# Of the interpreter: name, place of the pointers and of the mask among its arguments, whether it reads.
_ACCESSES = (
    ("create_masked_load", 0, 1, True),
    ("create_masked_store", 0, 2, False),
    ("create_atomic_rmw", 1, 3, False),
    ("create_atomic_cas", 0, None, False),
)


def _of_triton(module: str, name: str) -> Any:
    return getattr(sys.modules.get(f"triton.runtime.{module}"), name, None)


def _wrap(stack: ExitStack, owner: Any, name: str, wrapper: Callable) -> None:
    """Puts `wrapper(function)` in the place of a class's or module's function, until the stack is left."""
    function = getattr(owner, name, None)
    if function is not None:
        setattr(owner, name, wrapper(function))
        stack.callback(setattr, owner, name, function)


def _counting(run: Callable, count: Callable[[], None]) -> Callable:
    def counted(self, *args, **kwargs) -> Any:
        if not kwargs.get("warmup"):
            count()
        if found := _GPU_ONLY.search(source_of(self)):
            raise NotInterpretable(
                f"`{found[0]}` runs only on a GPU, and grading interprets kernels on a CPU: write it with functions "
                "of `tl`."
            )
        sources.add(source_of(self))
        with (
            _disable_current_modes()
        ):  # what Triton does with tensors to launch a kernel is no operation of the student's
            return run(self, *args, **kwargs)

    return counted


_GPU_ONLY = re.compile(r"\blibdevice\.\w+|\binline_asm_elementwise\b|\bextern_elementwise\b")
sources: set[str] = set()
"""Of kernels that were launched while somebody watched."""


@functools.lru_cache(maxsize=100)
def source_of(kernel: Any) -> str:
    """Of a kernel and of the functions of the same file or notebook that it calls; "" where that can't be read."""
    with contextlib.suppress(OSError, TypeError):
        text = inspect.getsource(kernel.fn)
        called = (kernel.fn.__globals__.get(name) for name in kernel.fn.__code__.co_names)
        return text + "".join(source_of(one) for one in called if type(one) is type(kernel) and one is not kernel)
    return ""


def _noting(init: Callable, launches: list[_Launch], patched: set[int]) -> Callable:
    """The interpreter copies the arguments to the CPU first: these are the tensors that the kernel sees."""

    def noted(self, *given) -> Any:
        on_host = init(self, *given)
        launches.clear()
        patched.clear()
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # of a Triton in which this looks otherwise
            launches.append(_launch(self, *on_host))
        return on_host

    return noted


def _launch(executor: Any, args: list, by_name: dict) -> _Launch:
    named = [*zip(executor.arg_names, args, strict=False), *by_name.items()]
    tensors = tuple((name, value) for name, value in named if isinstance(value, Tensor) and value.numel())
    spans = np.array([_span(tensor) for _, tensor in tensors], dtype=np.uint64).reshape(-1, 2)
    return _Launch(executor.fn.__name__, tensors, spans)


def _once(patch: Callable, patched: set[int]) -> Callable:
    """The interpreter patches its language anew for every call inside a kernel, half of its time: once is enough."""

    def patch_once(fn) -> Any:
        if id(fn.__globals__) in patched:
            return None
        patched.add(id(fn.__globals__))
        return patch(fn)

    return patch_once


def _guarding(access: Callable, launches: list[_Launch], pointer: int, mask: int | None, reads: bool) -> Callable:
    def guarded(self, *args, **kwargs) -> Any:
        if launches and launches[0].tensors:
            _check(launches[0], _places(args, pointer, mask), reads)
        return access(self, *args, **kwargs)

    return guarded


def _places(args: tuple, pointer: int, mask: int | None) -> np.ndarray:
    """The addresses that are read or written; none where Triton hands them over in another form."""
    try:
        places = np.asarray(args[pointer].data)
        if mask is None:
            return places
        masked = np.asarray(args[mask].data).astype(bool)  # `(columns < d) & exists` comes as whole numbers
        return places[np.broadcast_to(masked, places.shape)]
    except (AttributeError, IndexError, ValueError):
        return np.empty(0, dtype=np.uint64)


def _check(launch: _Launch, places: np.ndarray, reads: bool) -> None:
    """Raises if one of the places is in none of the tensors."""
    places = places.reshape(-1, 1)
    inside = ((places >= launch.spans[:, 0]) & (places < launch.spans[:, 1])).any(1)
    if not inside.all():
        raise _complaint(launch, places[~inside, 0].tolist(), reads)


def _span(tensor: Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _complaint(launch: _Launch, places: list[int], reads: bool) -> IndexError:
    """The error. For each place a tensor was meant (see `_meant`); of those, the likeliest of all is spoken of."""
    meant = [min(_meant(tensor, name, place) for name, tensor in launch.tensors) for place in places]
    *_, name = min(meant)
    furthest = max((distance for *_, distance, other in meant if other == name), key=abs)
    verb = "reads" if reads else "writes"
    tensor, mine = dict(launch.tensors)[name], [place for place, (*_, other) in zip(places, meant) if other == name]
    words = _in_words(tensor, mine, furthest)
    if furthest < 0 or _rows(tensor, furthest) > NEAR:
        side = "past the end" if furthest > 0 else "before the start"
        return StrayPointer(f"`{launch.kernel}` {verb} {words} {side} of `{name}`: check its strides and offsets.")
    kind = UnmaskedRead if reads else UnmaskedWrite
    return kind(
        f"`{launch.kernel}` {verb} {words} past the end of `{name}`. "
        "Is the tail of the last tile masked, and are these its own strides?"
    )


def _meant(tensor: Tensor, name: str, place: int) -> tuple[bool, int, int, str]:
    """How unlikely it is that a place was meant to be in this tensor, least first: (not a little past its end, how far,
    distance, name). Where tensors lie in memory is chance: just before the start of one is often just past the end of
    another."""
    distance = _distance(tensor, place)
    past = distance > 0 and _rows(tensor, distance) <= NEAR
    return not past, abs(distance), distance, name


def _distance(tensor: Tensor, place: int) -> int:
    """In elements: how far past the end of the tensor a place is, or (negative) before its start."""
    first, end = _span(tensor)
    size = tensor.element_size()
    return (place - end) // size + 1 if place >= end else -((first - place + size - 1) // size)


def _rows(tensor: Tensor, elements: int) -> int:
    """A distance in rows, or in columns where these lie one after the other, rounded up."""
    return -(-elements // max(tensor.stride(_long_axis(tensor)), 1)) if tensor.dim() > 1 else elements


def _long_axis(tensor: Tensor) -> int:
    """Along which of the last two axes the next one is farther away: that of the rows, or that of the columns."""
    return -2 if tensor.stride(-2) >= tensor.stride(-1) else -1


def _in_words(tensor: Tensor, places: list[int], furthest: int) -> str:
    """How far outside: "3 rows" or "3 columns" where that is the whole truth, else in elements."""
    rows = _whole_rows(tensor, places) if tensor.dim() > 1 else 0
    if rows:
        return _counted(rows, "row" if _long_axis(tensor) == -2 else "column")
    return _counted(abs(furthest), "element")


def _whole_rows(tensor: Tensor, places: list[int]) -> int:
    """How many rows (or columns) past the end the places go through, if through each from the end on and alike in all;
    else 0. What lies beyond the width is no row, though the next row may begin there."""
    found: dict[int, set[int]] = {}
    for place in places:
        row, within = _row_past_the_end(tensor, place)
        found.setdefault(row, set()).add(within)
    first, short = found.get(1, set()), -3 - _long_axis(tensor)
    size = tensor.shape[short]
    alike = all(within == first for within in found.values()) and max(first) < size * max(tensor.stride(short), 1)
    one_by_one = sorted(found) == [*range(1, len(found) + 1)] and (len(found) > 1 or len(first) == size)
    return len(found) if alike and one_by_one else 0


def _row_past_the_end(tensor: Tensor, place: int) -> tuple[int, int]:
    """In which row (or column) past the end a place lies, from 1, and how many elements after its start; of the last
    head and sequence."""
    before = sum((size - 1) * stride for size, stride in zip(tensor.shape[:-2], tensor.stride()[:-2], strict=True))
    elements = (place - tensor.data_ptr()) // tensor.element_size() - before
    row, within = divmod(elements, max(tensor.stride(_long_axis(tensor)), 1))
    return row - tensor.shape[_long_axis(tensor)] + 1, within


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)
