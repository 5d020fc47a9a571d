"""A decoder-only Transformer language model in one file: pre-norm blocks (Xiong et al., 2020), rotary positions (Su et
al., 2021), grouped key/value heads (Ainslie et al., 2023), a tied head (Press & Wolf, 2017), and a door for a key/value
cache.

Reads top to bottom: norm → attention → MLP → block → config → model. `bias` and `context` make it GPT-2's shape
(Radford et al., 2019).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .positions import rotary_embedding


class Cache(Protocol):
    """What a layer wants of its cache. `helpers.kv_cache.cache` has several."""

    length: int

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of new tokens; return those of all tokens so far, oldest first."""


class LayerNorm(nn.Module):
    """(x − mean) / √(variance + ε) over the features of each token, times a gain, plus a bias (Ba et al., 2016)."""

    def __init__(self, d: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)  # ε is 1e-5, the variance divided by d


class Attention(nn.Module):
    """Masked self-attention with h query and h_kv key/value heads; query head i uses key/value head i // (h / h_kv)."""

    def __init__(self, d: int, h: int, h_kv: int, bias: bool = False, rotary: bool = True):
        super().__init__()
        self.d_h, self.group, self.rotary = d // h, h // h_kv, rotary
        self.w_q, self.w_o = nn.Linear(d, d, bias=bias), nn.Linear(d, d, bias=bias)
        self.w_k, self.w_v = (nn.Linear(d, h_kv * self.d_h, bias=bias) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        positions: Int[Tensor, "#b n"],
        mask: Float[Tensor, "#b n m"],
        cache: Cache | None = None,
    ) -> Float[Tensor, "b n d"]:
        """mask is added to the scores: 0 where a token may attend, the least number of its dtype where not (−∞ would
        leave NaN in a row without any 0)."""
        q, k, v = (self.heads(project(x)) for project in (self.w_q, self.w_k, self.w_v))  # (b, h or h_kv, n, d_h)
        if self.rotary:  # turned before they are stored: a key never moves again
            q, k = (rotary_embedding(t, positions[:, None]) for t in (q, k))
        if cache is not None:
            k, v = cache.append(k, v)  # (b, h_kv, m, d_h): the old ones and the new
        k, v = (t.repeat_interleave(self.group, dim=1) for t in (k, v))  # (b, h, m, d_h)
        weights = (q / math.sqrt(self.d_h) @ k.mT + mask[:, None]).softmax(dim=-1)  # (b, h, n, m)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))  # (b, h, n, d_h) → (b, n, h, d_h) → (b, n, d)

    def heads(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b h n d_h"]:
        """Slices of width d_h side by side → a head axis."""
        return x.unflatten(-1, (-1, self.d_h)).transpose(1, 2)  # (b, n, d) → (b, n, h, d_h) → (b, h, n, d_h)


class MLP(nn.Module):
    """Two layers on every token by itself, d_ff = 4d wide in between."""

    def __init__(self, d: int, bias: bool = False):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        return self.down(F.gelu(self.up(x)))  # (b, n, d) → (b, n, 4d) → (b, n, d)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)): the stream itself is never normalised."""

    def __init__(self, d: int, h: int, h_kv: int, bias: bool = False, rotary: bool = True):
        super().__init__()
        self.norm_1, self.attention = LayerNorm(d), Attention(d, h, h_kv, bias, rotary)
        self.norm_2, self.mlp = LayerNorm(d), MLP(d, bias)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor, cache: Cache | None = None) -> Float[Tensor, "b n d"]:
        x = x + self.attention(self.norm_1(x), positions, mask, cache)
        return x + self.mlp(self.norm_2(x))


@dataclass(frozen=True)
class Config:
    """The sizes of a model. h divides d, h_kv divides h, and d / h is even (positions turn pairs of features).

    bias: the projections and the MLP have biases. context: 0 for rotary positions; otherwise as many learned ones,
    added to an embedding that is not scaled, as in GPT-2.
    """

    vocabulary: int = 50
    d: int = 32
    h: int = 4
    h_kv: int = 2
    layers: int = 2
    bias: bool = False
    context: int = 0

    @property
    def d_h(self) -> int:
        """The width of one head."""
        return self.d // self.h

    @property
    def parameters(self) -> int:
        """Embedding (the output head too), and per block: q and o, k and v, the MLP, two norms; one norm at the end."""
        d, d_kv = self.d, self.h_kv * self.d_h
        block = 2 * d**2 + 2 * d * d_kv + 8 * d**2 + 4 * d + self.bias * (2 * d + 2 * d_kv + 5 * d)
        return (self.vocabulary + self.context) * d + self.layers * block + 2 * d


class DecoderLM(nn.Module):
    """Tokens → scores of the next token, at every position."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d)
        self.position = nn.Embedding(config.context, config.d) if config.context else None
        self.blocks = nn.ModuleList(
            Block(config.d, config.h, config.h_kv, config.bias, rotary=not config.context) for _ in range(config.layers)
        )
        self.norm = LayerNorm(config.d)
        nn.init.normal_(
            self.embedding.weight, std=config.d**-0.5
        )  # as the head: scores of size 1; as the input: times √d

    def forward(
        self, tokens: Int[Tensor, "b n"], cache: Sequence[Cache] | None = None, real: Bool[Tensor, "b m"] | None = None
    ) -> Float[Tensor, "b n v"]:
        """Logits of the n given tokens.

        cache: one a layer. The tokens come after those that it holds, and it holds them too afterwards.
        real: which of all m tokens so far (cached ones too) are no padding. Padding stands on the left: it is attended
        by nobody, and positions are counted from the first real token.
        """
        n = tokens.shape[1]
        past = cache[0].length if cache else 0
        positions, sees = _positions_and_mask(n, past, real, tokens.device)
        if self.position is None:
            x = self.embedding(tokens) * math.sqrt(self.config.d)  # (b, n, d)
        else:
            x = self.embedding(tokens) + self.position(positions)
        mask = torch.zeros_like(sees, dtype=x.dtype).masked_fill(~sees, torch.finfo(x.dtype).min)
        for index, block in enumerate(self.blocks):
            x = block(x, positions, mask, cache[index] if cache else None)
        return self.norm(x) @ self.embedding.weight.T  # (b, n, d) @ (d, v): the embedding is the head


def _positions_and_mask(n: int, past: int, real: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions (b, n) of the n newest of m tokens, and who sees whom, (b, n, m). b is 1 where nothing is padded."""
    m = past + n
    causal = torch.ones(n, m, dtype=torch.bool, device=device).tril(
        past
    )  # row i is token past + i: it sees columns 0 … past + i
    if real is None:
        return torch.arange(past, m, device=device)[None], causal[None]
    positions = (real.cumsum(dim=1) - 1).clamp_min(0)  # (b, m): the first real token is 0
    return positions[:, past:], causal & real[:, None]


GPT2_SMALL = Config(vocabulary=50_257, d=768, h=12, h_kv=12, layers=12, bias=True, context=1024)
"""The shape of GPT-2 small (Radford et al., 2019, table 2; the numbers are those of the published weights)."""


def lm_parameters(vocabulary: int, d: int, layers: int, context: int = 0, bias: bool = False) -> int:
    """Trained numbers of a model with a tied head and d_ff = 4d; see `Config` for `context` and `bias`."""
    return Config(vocabulary, d, h=1, h_kv=1, layers=layers, bias=bias, context=context).parameters
