"""Whether kernels are watched here: the guard of `kernel_bounds.py` holds on to the inside of Triton's interpreter,
which may look otherwise in the next version. Then a kernel that reads past its tensors is right by luck."""

import torch
from torch import Tensor

from helpers.kernels import device, interpreted, tl, triton

from .observe import observe


@triton.jit
def _copying_kernel(x_ptr, out_ptr, n, READS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = places < n
    if READS == "unmasked":
        x = tl.load(x_ptr + places)
    else:
        x = tl.load(x_ptr + places, mask=exists)
    if WRITES == "unmasked":
        tl.store(out_ptr + places, x)
    else:
        tl.store(out_ptr + places, x, mask=exists)


def copied(x: Tensor, reads: str = "masked", writes: str = "masked") -> Tensor:
    """x (n) by a kernel whose loads, or stores, may be `unmasked`."""
    out = torch.empty_like(x)
    _copying_kernel[(triton.cdiv(len(x), 16),)](x, out, len(x), READS=reads, WRITES=writes, BLOCK=16)
    return out


def unwatched() -> str:
    """What a kernel may do here that grading ought to see, in words; "" where all is watched, and on a GPU, where
    nobody can watch."""
    if not interpreted():
        return ""
    loads, stores = (
        observe(lambda x, how=how: copied(x, **how), (torch.ones(21, device=device()),), layouts=("dense",)).error
        for how in ({"reads": "unmasked"}, {"writes": "unmasked"})
    )
    missed = [
        word for word, error in (("reads", loads), ("writes", stores)) if not (error and "past the" in str(error))
    ]
    return f"{' and '.join(missed)} outside a tensor" if missed else ""
