"""What Triton's interpreter can't do, or does wrongly, and kernels that students write need.

- `@triton.autotune` asks a GPU for times; where there is none the first configuration that `prune_configs_by` leaves is
  taken (triton-lang/triton#6150).
- bfloat16 lies in whole numbers of 16 bits, and these were multiplied and added (triton-lang/triton#11584): here such
  values become float32, and the results of arithmetic bfloat16 again, rounded to the nearest.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.runtime import autotuner, interpreter

tl = interpreter.tl


def apply() -> None:
    """Changes the interpreter of this process, for all its kernels."""
    autotuner.Autotuner.do_bench = property(lambda _: _same_time_for_all)  # the earliest of the quickest is chosen
    builder = interpreter.InterpreterBuilder
    builder.cast_impl = _to_nearest(builder.cast_impl)
    builder.create_dot = _of_float32(builder.create_dot)
    builder.get_bf16 = lambda self, value: self.cast_impl(self.get_fp32(value), tl.bfloat16)
    builder.binary_op = _rounded(_of_float32(builder.binary_op))


def _same_time_for_all(kernel_call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
    return [0.0] * len(quantiles)


def _to_nearest(cast: Callable) -> Callable:
    """A cast that rounds float32 to the nearest bfloat16, as a GPU does; the interpreter cuts off."""

    def rounding(self, x, dst_type) -> Any:
        if dst_type.scalar == tl.bfloat16 and x.dtype.scalar == tl.float32:
            bits = x.data.view(np.uint32)
            halfway = np.where(np.isnan(x.data), 0, 0x7FFF + (bits >> 16 & 1)).astype(np.uint32)
            x = interpreter.TensorHandle((bits + halfway).view(np.float32), tl.float32)
        return cast(self, x, dst_type)

    return rounding


def _of_float32(operation: Callable) -> Callable:
    """An operation on two tensors, its first arguments, that sees float32 where they are bfloat16."""

    def converted(self, lhs, rhs, *rest) -> Any:
        return operation(self, *(self.cast_impl(x, tl.float32) if _is_bfloat16(x) else x for x in (lhs, rhs)), *rest)

    return converted


def _rounded(operation: Callable) -> Callable:
    """One whose result, if it is a number, is bfloat16 as its first argument is."""

    def narrowed(self, lhs, rhs, *rest) -> Any:
        result = operation(self, lhs, rhs, *rest)
        return self.cast_impl(result, tl.bfloat16) if _is_bfloat16(lhs) and result.data.dtype == np.float32 else result

    return narrowed


def _is_bfloat16(x: Any) -> bool:
    return x.dtype.scalar == tl.bfloat16
