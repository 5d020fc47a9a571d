"""The two ceilings of a device: how fast it multiplies, how fast its memory is. Three of datasheets, one measured."""

from dataclasses import dataclass

import torch

from helpers.environment import device

from .timing import seconds


@dataclass(frozen=True)
class Device:
    """peak: FLOP/s of matrix products in `dtype`; bandwidth and memory: bytes/s and bytes."""

    name: str
    dtype: torch.dtype
    peak: float
    bandwidth: float
    memory: float = 0.0

    @property
    def ridge(self) -> float:
        """FLOPs per byte at which the two ceilings meet."""
        return self.peak / self.bandwidth


# NVIDIA's datasheets: tensor cores, 16-bit inputs, without sparsity. (Some of the T4's say 300 GB/s.)
T4 = Device("T4", torch.float16, 65e12, 320e9, 16e9)
A100 = Device("A100 (SXM, 80 GB)", torch.bfloat16, 312e12, 2039e9, 80e9)
H100 = Device("H100 (SXM)", torch.bfloat16, 989e12, 3350e9, 80e9)
DATASHEETS = (T4, A100, H100)


def this_machine() -> Device:
    """Both ceilings of this machine, measured in about a second: in float16 on a GPU, in float32 on a CPU."""
    gpu = device().type == "cuda"
    dtype, width = (torch.float16, 8192) if gpu else (torch.float32, 1024)
    return Device("this machine", dtype, _peak(dtype, width), _bandwidth(2**28 if gpu else 2**25))


def _peak(dtype: torch.dtype, width: int) -> float:
    """FLOP/s of the best of several square products: large enough to be limited by arithmetic."""
    a, b = (torch.randn(width, width, device=device(), dtype=dtype) for _ in range(2))
    return 2 * width**3 / seconds(lambda: a @ b, tries=12)


def _bandwidth(elements: int) -> float:
    """Bytes/s of a copy, which reads and writes every element; far larger than any cache."""
    source = torch.ones(elements, device=device())
    target = torch.empty_like(source)
    return 2 * source.numel() * source.element_size() / seconds(lambda: target.copy_(source), tries=12)
