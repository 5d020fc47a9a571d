"""The two layers of "Attention Is All You Need" (Vaswani et al., 2017, section 3.1 and figure 1).

Each sublayer is wrapped in the same way: LayerNorm(x + Dropout(sublayer(x))), the norm *after* the sum (post-norm).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from helpers.multi_head.heads import MultiHeadAttention, unpacked


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network on every token by itself."""

    def __init__(self, d: int, h: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "b m d"], mask: Bool[Tensor, "*b m m"] | None = None) -> Float[Tensor, "b m d"]:
        """mask: who may attend to whom, True = may; anything that spreads to (b, m, m)."""
        x = self.norm1(x + self.dropout(self.self_attn(x, mask=mask)))
        return self.norm2(x + self.dropout(self.linear2(self.linear1(x).relu())))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, then the feed-forward network."""

    def __init__(self, d: int, h: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        self.self_attn, self.cross_attn = MultiHeadAttention(d, h), MultiHeadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"],
        mask: Bool[Tensor, "*b n n"] | None = None,
        memory_mask: Bool[Tensor, "*b n m"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """mask: among the target's tokens; memory_mask: which tokens of the memory each may read. True = may attend."""
        x = self.norm1(x + self.dropout(self.self_attn(x, mask=mask)))
        x = self.norm2(x + self.dropout(self.cross_attn(x, memory, memory_mask)))
        return self.norm3(x + self.dropout(self.linear2(self.linear1(x).relu())))


def from_pytorch(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> dict[str, Tensor]:
    """The weights of PyTorch's layer under the names of ours (its cross-attention is called `multihead_attn`)."""
    attentions = {"self_attn": "self_attn", "cross_attn": "multihead_attn"}
    found = {
        f"{ours}.{name}": weight
        for ours, theirs in attentions.items()
        if hasattr(layer, theirs)
        for name, weight in unpacked(getattr(layer, theirs)).items()
    }
    return found | {name: weight.detach() for name, weight in layer.state_dict().items() if "attn" not in name}


def causal_mask(n: int, device: torch.device | None = None) -> Bool[Tensor, "n n"]:
    """Token i may attend to tokens 0 … i."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()
