"""BERT's objective: tokens are hidden, and the model, which sees both sides, is asked for them (Devlin et al., 2019,
section 3.1)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

IGNORED = -100


def masked_lm_objective(
    tokens: Int[Tensor, "b n"],
    real: Bool[Tensor, "b n"],
    chance: Float[Tensor, "b n"],
    other: Int[Tensor, "b n"],
    mask_token: int,
) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """Inputs and targets. A real token with chance < 0.15 is asked for: of these, chance < 0.12 is replaced by the mask
    token, 0.12 ≤ chance < 0.135 by `other`, and the rest stay. Nothing else is changed, nothing else is a target
    (−100)."""
    asked = real & (chance < 0.15)
    inputs = torch.where(asked & (chance < 0.135), other, tokens)
    inputs = inputs.masked_fill(asked & (chance < 0.12), mask_token)
    return inputs, tokens.masked_fill(~asked, IGNORED)
