"""`triton` and `tl` for every machine: compiled where there is a GPU, interpreted on the CPU where there is none.

Triton decides that when it is first imported, so import it from here. Where it can't be installed (macOS, Windows)
stand-ins take its place: kernels can be defined, and launching one says what to do.
"""

from collections.abc import Callable
from typing import Any

import torch

from helpers.environment import interpreted, settle_triton

INSTALL = (
    "Triton isn't installed here. On Linux run `pip install triton`; on Windows use WSL, on a Mac use Colab. All "
    "exercises but the kernels work without it."
)
TOO_LATE = (
    "Triton was imported before `helpers`, in the mode for a GPU. Restart the kernel and run the setup cell first."
)


class KernelsUnavailable(RuntimeError):
    """A kernel was launched where none can run; the message says what to do."""


class _NoKernel:
    """What `triton.jit` makes of a function where no kernel can run."""

    def __init__(self, fn: Any, reason: str):
        self.fn, self.__name__, self.reason = fn, fn.__name__, reason

    def __getitem__(self, grid: Any) -> "_NoKernel":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise KernelsUnavailable(self.reason)


class _NoTriton:
    """Stands for `triton` where no kernel can run."""

    def __init__(self, reason: str):
        self.reason = reason

    def jit(self, fn: Any) -> _NoKernel:
        return _NoKernel(fn, self.reason)

    def autotune(self, *args: Any, **kwargs: Any) -> Callable[[_NoKernel], _NoKernel]:
        return lambda kernel: kernel

    heuristics = autotune

    def Config(self, *args: Any, **kwargs: Any) -> None:
        """Of no use: nothing is tuned."""

    @staticmethod
    def cdiv(x: int, y: int) -> int:
        return -(-x // y)

    @staticmethod
    def next_power_of_2(n: int) -> int:
        return 1 << (n - 1).bit_length()


class _NoLanguage:
    """Stands for `triton.language`: kernels are defined and never run, so any name will do."""

    def constexpr(self, value: Any) -> Any:
        return value

    def __getattr__(self, name: str) -> Any:
        return object()


def _import_triton() -> tuple[Any, Any, str]:
    """`triton`, `triton.language`, and why no kernel can run here ("" if they can)."""
    settle_triton()
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return _NoTriton(INSTALL), _NoLanguage(), INSTALL
    if interpreted() and type(tl.sum).__name__ == "JITFunction":  # the language's own functions are of the other mode
        return _NoTriton(TOO_LATE), tl, TOO_LATE
    if interpreted():
        from helpers import interpreter_patches

        interpreter_patches.apply()
    return triton, tl, ""


def device() -> torch.device:
    """Where the tensors of a launch must lie: on the GPU, or on the CPU where kernels are interpreted."""
    return torch.device("cpu" if interpreted() or UNAVAILABLE else "cuda")


triton, tl, UNAVAILABLE = _import_triton()


@triton.jit
def _nothing_kernel(number, WIDTH: tl.constexpr):  # type: ignore[name-defined]  # `tl` may be a stand-in
    tl.arange(0, WIDTH)


def warm_up() -> None:
    """Launches a kernel that does nothing: the first launch of a process imports the rest of Triton."""
    if not UNAVAILABLE:
        _nothing_kernel[(1,)](2, WIDTH=2)


__all__ = ["KernelsUnavailable", "UNAVAILABLE", "device", "interpreted", "tl", "triton", "warm_up"]
