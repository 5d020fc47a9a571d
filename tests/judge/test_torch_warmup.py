"""The calls that a warm process makes for its kernels."""

import pytest
import torch

from autograder.judge.torch_warmup import CALLS
from helpers.engine.observe import observe


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_go_through_there_and_back(call, dtype):
    """One that stopped half-way would leave the rest to every kernel, and nobody would notice."""
    seen = observe(call, (torch.linspace(0.1, 1, 32, dtype=dtype).view(2, 4, 4),), gradient=True)
    assert not seen.error and not seen.backward_error and len(seen.operations) > 3
