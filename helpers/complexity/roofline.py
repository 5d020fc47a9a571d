"""The roofline (Williams, Waterman & Patterson, 2009): a device computes no faster than its units can, and no faster
than its memory brings the numbers."""

import torch


def roofline(flops: float, elements: float, dtype: torch.dtype, peak: float, bandwidth: float) -> tuple[float, str]:
    """Attainable FLOP/s, min(peak, intensity · bandwidth), and which of the two it is: "compute" or "memory".

    peak: FLOP/s; bandwidth: bytes/s. Where both are equal it is "compute".
    """
    fed = flops / (elements * dtype.itemsize) * bandwidth  # FLOP/s for which the memory can bring the numbers
    return min(peak, fed), "memory" if fed < peak else "compute"
