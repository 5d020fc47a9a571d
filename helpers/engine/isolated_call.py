"""Call a function that launches kernels: in a process of its own, on tensors that lie in memory as real ones do.

A pointer gone astray kills the process that follows it: here that is a fork, and it costs one call. Real tensors are
views of larger ones, and what lies around them is not zero: here it is NaN before the first row and after the last, so
a tile that reads too far shows, and between rows it is a number like any other, so wrong strides give wrong values that
can be told apart. On a GPU nothing is forked (CUDA forbids it).
"""

import contextlib
import ctypes
import io
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

MARGIN = 1 << 14  # elements of NaN before and after a tensor: more than any tile without a mask reaches
SOMEBODY_ELSES = 3  # what stands between the rows of a tensor

LAYOUTS = {"dense": ((), 0), "gaps": ((), 1), "columns": ((-2, -1), 70), "heads inside": ((-3, -2), 1)}
"""How a tensor can lie in memory: the two axes that change places there, and how many elements lie after each row of
each axis. So many after columns that a tensor of columns, read with another's strides, gives wrong values, no error
yet."""


class Died(Exception):
    """The process of a call ended before the call did; the message says how."""


def laid_out(args: Sequence[Any], layouts: Sequence[str], device: torch.device) -> tuple:
    """Copies of the arguments on `device`; the tensors among them, in this order, laid out by these names (LAYOUTS)."""
    names = iter(layouts)
    return tuple(
        _placed(arg, *LAYOUTS[next(names, "dense")], device) if isinstance(arg, Tensor) else arg for arg in args
    )


def _placed(x: Tensor, swapped: tuple[int, ...], gap: int, device: torch.device) -> Tensor:
    order = list(range(x.dim()))
    if swapped and x.dim() >= -swapped[0]:
        order[swapped[0]], order[swapped[1]] = order[swapped[1]], order[swapped[0]]
    sizes = [x.shape[axis] for axis in order]
    room = [size + gap * (place > 0) for place, size in enumerate(sizes)]
    filler = torch.nan if x.is_floating_point() else 0
    size = len(x) * (gap + 1) if x.dim() == 1 else torch.Size(room).numel()
    storage = torch.full((size + 2 * MARGIN,), filler, dtype=x.dtype, device=device)
    if x.dim() == 1 and gap:  # a row of numbers: a column of a matrix
        return storage[MARGIN:-MARGIN].fill_(SOMEBODY_ELSES)[: len(x) * (gap + 1) : gap + 1].copy_(x)
    inner = (
        storage[MARGIN : len(storage) - MARGIN].fill_(SOMEBODY_ELSES).view(room)[tuple(slice(size) for size in sizes)]
    )
    return inner.permute(order).copy_(x)  # an exchange of two axes is its own inverse


@contextlib.contextmanager
def nothing_left_over() -> Iterator[None]:
    """Inside, `torch.empty` is full of NaN, not of what lay there before: a value that no kernel wrote shows."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # that PyTorch fills new memory is a part of this mode
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def in_own_process(call: Callable[[], Any]) -> Any:
    """What `call()` returns, from a forked process; its prints come out here. Died if that process ends first."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(call, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:
            answer = pipe.read()
    except BaseException:  # the stop button
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    try:
        printed, problem, result = pickle.loads(answer)
    except Exception:
        raise Died(_cause(os.waitstatus_to_exitcode(status))) from None
    print(printed, end="")
    if problem:
        raise Died(problem)
    return result


def _answer(call: Callable[[], Any], writing: int) -> None:
    """In the fork: make the call, send what came of it, and end."""
    try:
        _settle()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = call()
        with open(writing, "wb") as pipe:
            pipe.write(_packed(printed.getvalue(), result))
    finally:
        os._exit(0)


def _settle() -> None:
    """A fork has one thread (to wait for others would hang), dies with its parent and quietly."""
    import faulthandler
    import resource

    torch.set_num_threads(1)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _packed(printed: str, result: Any) -> bytes:
    try:
        return pickle.dumps((printed, "", result))
    except Exception:  # a lambda, an open file, …: whatever it is, no kernel wrote it
        return pickle.dumps((printed, "it returns something that is neither a tensor nor a plain value.", None))


def _cause(code: int) -> str:
    if code in (-signal.SIGSEGV, -signal.SIGBUS):
        return "a kernel followed a pointer to memory that is not there: check masks, strides and offsets."
    if code < 0:
        return f"the call ended the process it ran in (signal {signal.Signals(-code).name})."
    return "the call ended the process it ran in."
