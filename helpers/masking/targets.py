"""What a language model is trained to say: the next token at every position, and nothing at padding."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

IGNORED = -100  # PyTorch's `ignore_index`: no loss at this position


def shift_targets(
    tokens: Int[Tensor, "b n"], lengths: Int[Tensor, "b"], end: int
) -> tuple[Int[Tensor, "b n+1"], Int[Tensor, "b n+1"]]:
    """Inputs: `end`, then the tokens. Targets: the tokens, then `end` after the last real one, then −100."""
    edge = torch.full_like(tokens[:, :1], end)
    place = torch.arange(tokens.shape[1] + 1)
    targets = torch.cat([tokens, edge], dim=1)
    targets = targets.masked_fill(place == lengths[:, None], end).masked_fill(place > lengths[:, None], IGNORED)
    return torch.cat([edge, tokens], dim=1), targets


def next_token_loss(logits: Float[Tensor, "b n vocab"], targets: Int[Tensor, "b n"]) -> Float[Tensor, ""]:
    """The mean of −log p(target) over all positions whose target is not −100."""
    counts = targets != IGNORED
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    picked = log_p.gather(-1, targets.clamp_min(0)[..., None])[..., 0]
    return -(picked * counts).sum() / counts.sum()
