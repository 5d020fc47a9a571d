"""Checks of masks: who may attend to whom, and how many pairs that makes."""

import torch
from torch import Tensor


def _ones(n, m) -> Tensor:
    return torch.ones(n, m, dtype=torch.bool)
