"""Does a model look into the future? Change the future, and see whether the past notices."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 1e-5


def leaks_future(model: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"]) -> bool:
    """Whether an output of `model`, (n, d) → (n, d_out), depends on a later token. The model is a black box."""
    before = model(x)
    for t in range(len(x) - 1):
        probe = x.clone()
        probe[t + 1 :] = torch.randn_like(x[t + 1 :])
        if (model(probe) - before)[: t + 1].abs().max().item() > ROUNDING:
            return True
    return False
