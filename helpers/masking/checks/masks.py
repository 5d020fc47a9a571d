"""What several checks of masks share."""

import torch
from torch import Tensor


def _ones(n, m) -> Tensor:
    return torch.ones(n, m, dtype=torch.bool)


def axis_guessed(scores) -> int:
    """The axis that `F.softmax` takes where none is given."""
    return 0 if scores.dim() in (0, 1, 3) else 1
