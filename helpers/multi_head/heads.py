"""Several attentions side by side, each in a slice of the width: "Attention Is All You Need" (Vaswani et al., 2017),
section 3.2.2."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from helpers.qkv_attention.attention import scaled_dot_product_attention


def split_heads(x: Float[Tensor, "b n d"], h: int) -> Float[Tensor, "b h n d_h"]:
    """Head i gets features i·d_h … (i+1)·d_h − 1 of every token. h divides d."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "b h n d_h"]) -> Float[Tensor, "b n d"]:
    """The way back: the heads' features side by side, a token a row; d = h·d_h."""
    return x.transpose(1, 2).flatten(2)


def multi_head_loop(
    x: Float[Tensor, "b n d"],
    memory: Float[Tensor, "b m d"],
    w_q: Float[Tensor, "h d d_h"],
    w_k: Float[Tensor, "h d d_h"],
    w_v: Float[Tensor, "h d d_h"],
    w_o: Float[Tensor, "h*d_h d"],
    mask: Bool[Tensor, "n m"],
) -> Float[Tensor, "b n d"]:
    """Concat(head_1, …, head_h) W_O with head_i = attention(x W_Q[i], memory W_K[i], memory W_V[i]); the mask holds for
    all heads."""
    heads = []
    for q, k, v in zip(w_q, w_k, w_v, strict=True):
        scores = (x @ q) @ (memory @ k).mT / math.sqrt(q.shape[-1])
        heads.append(scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


class MultiHeadAttention(nn.Module):
    """Self- and cross-attention with h heads of width d/h and projections w_q, w_k, w_v, w_o: `nn.Linear(d, d)`."""

    def __init__(self, d: int, h: int):
        super().__init__()
        self.h = h
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d) for _ in range(4))

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"] | None = None,
        mask: Bool[Tensor, "*b n m"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Queries from `x`, keys and values from `memory` (from `x` where there is none). mask: True = may attend."""
        memory = x if memory is None else memory
        q, k, v = (split_heads(t, self.h) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        if mask is None:
            return self.w_o(merge_heads(scaled_dot_product_attention(q, k, v)))
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (b, h, n, m)
        weights = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf).softmax(dim=-1)
        return self.w_o(merge_heads(weights @ v))


def unpacked(layer: nn.MultiheadAttention) -> dict[str, Tensor]:
    """The weights of PyTorch's layer, which packs the three input projections into one, under the names of ours."""
    weights = dict(zip(("w_q.weight", "w_k.weight", "w_v.weight"), layer.in_proj_weight.detach().chunk(3), strict=True))
    biases = dict(zip(("w_q.bias", "w_k.bias", "w_v.bias"), layer.in_proj_bias.detach().chunk(3), strict=True))
    return weights | biases | {"w_o.weight": layer.out_proj.weight.detach(), "w_o.bias": layer.out_proj.bias.detach()}


def head_parameters(d: int, h: int, d_h: int) -> int:
    """Weights and biases of the projections d → h·d_h (three of them) and h·d_h → d."""
    return 3 * (d * h * d_h + h * d_h) + (h * d_h * d + d)


def head_flops(n: int, d: int, h: int, d_h: int) -> int:
    """FLOPs of the matrix products of self-attention over n tokens; one multiply-add is 2 FLOPs."""
    projections = 4 * 2 * n * d * (h * d_h)  # Q, K, V and the output
    attention = 2 * h * 2 * n * n * d_h  # scores, then the weighted sum
    return projections + attention


def heads_as_sum(
    heads: Float[Tensor, "b h n d_h"], w_o: Float[Tensor, "h*d_h d"]
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b n d"]]:
    """What each head adds to the output, head_i W_O[i] W_O[i] the i-th block of d_h rows, and the sum over heads."""
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, parts.sum(dim=1)
