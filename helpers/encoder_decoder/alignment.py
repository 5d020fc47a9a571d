"""What cross-attention looks at while a trained model writes."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from helpers.multi_head.heads import MultiHeadAttention, split_heads

from .model import PAD


@torch.no_grad()
def cross_attention(
    model: nn.Module, source: Int[Tensor, "m"], inputs: Int[Tensor, "n"]
) -> Float[Tensor, "layers h n m"]:
    """The weights of every decoder layer's `cross_attn` while the model reads `inputs`: row i when it writes the token
    after input i."""
    found: list[Tensor] = []

    def look(attention: MultiHeadAttention, given: tuple, named: dict, _: Tensor) -> None:
        x, memory, *rest = (*given, *(named[name] for name in ("memory", "mask") if name in named))
        q, k = split_heads(attention.w_q(x), attention.h), split_heads(attention.w_k(memory), attention.h)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        mask = rest[0].unsqueeze(-3) if rest and rest[0] is not None else torch.ones((), dtype=torch.bool)
        found.append(scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)[0])

    hooks = [layer.cross_attn.register_forward_hook(look, with_kwargs=True) for layer in model.decoder]
    try:
        model.eval()
        real = source[None] != PAD
        model.decode(inputs[None], model.encode(source[None], real), real)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(found)
