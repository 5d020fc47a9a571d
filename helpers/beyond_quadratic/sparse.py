"""Attention that leaves pairs out: a band, a band with global tokens, a strided pattern, or any list of keys.

Each costs what its allowed pairs cost, and equals full attention under the matching mask.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def local_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"], w: int
) -> Float[Tensor, "*batch n d_v"]:
    """Token i reads the tokens j with |i − j| ≤ w: O(n w d) (Beltagy et al., 2020, section 3.1)."""
    scores = _window_scores(q, k, w).softmax(-1)  # (*batch, n, 2w + 1)
    return (scores[..., None, :] @ _windows(v, w)).squeeze(-2)


def global_local_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"], w: int, g: int
) -> Float[Tensor, "*batch n d_v"]:
    """The first g tokens read all and are read by all; the others read a window (Beltagy et al., 2020, section 3.1)."""
    first = torch.softmax(q[..., :g, :] @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v  # (*batch, g, d_v)
    near = _window_scores(q, k, w, first=g)  # (*batch, n − g, 2w + 1), without the global keys
    far = q[..., g:, :] @ k[..., :g, :].mT / math.sqrt(q.shape[-1])  # (*batch, n − g, g)
    weights = torch.cat([far, near], dim=-1).softmax(-1)  # one softmax over both
    mixed = (weights[..., None, g:] @ _windows(v, w)[..., g:, :, :]).squeeze(-2)
    return torch.cat([first, weights[..., :g] @ v[..., :g, :] + mixed], dim=-2)


def _windows(x: Tensor, w: int) -> Tensor:
    """(*batch, n, d) → (*batch, n, 2w + 1, d): rows i − w … i + w of x, zeros beyond the ends. A view of one copy."""
    return F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1).mT


def _window_scores(q: Tensor, k: Tensor, w: int, first: int = 0) -> Tensor:
    """Scores of the tokens from `first` on: slot s of token i is key i − w + s; −∞ where there is none."""
    n = q.shape[-2]
    scores = (q[..., first:, None, :] @ _windows(k, w)[..., first:, :, :].mT).squeeze(-2) / math.sqrt(q.shape[-1])
    keys = torch.arange(first, n)[:, None] + torch.arange(-w, w + 1)
    return scores.masked_fill((keys < first) | (keys >= n), -math.inf)


def strided_keys(n: int) -> list[list[int]]:
    """The keys that each of n tokens reads: a window of ⌈√n⌉ − 1 to both sides, and every ⌈√n⌉-th token: its column.

    Child et al. (2019), section 4.3, without the causal mask. Two layers connect every pair.
    """
    stride = math.isqrt(n - 1) + 1  # ⌈√n⌉
    return [[j for j in range(n) if abs(i - j) < stride or (i - j) % stride == 0] for i in range(n)]


def gathered_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    keys: Int[Tensor, "n c"],
    allowed: Bool[Tensor, "n c"],
) -> Float[Tensor, "*batch n d_v"]:
    """Query i reads the keys in row i of `keys`, in the slots that are allowed: O(n c d)."""
    scores = (k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])  # (*batch, n, c)
    weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def as_table(lists: list[list[int]]) -> tuple[Int[Tensor, "n c"], Bool[Tensor, "n c"]]:
    """Lists of unequal length as one table of indices, and which of its slots are taken."""
    width = max(map(len, lists))
    keys = torch.tensor([row + [0] * (width - len(row)) for row in lists])
    return keys, torch.arange(width) < torch.tensor([[len(row)] for row in lists])


def as_mask(lists: list[list[int]]) -> Bool[Tensor, "n n"]:
    """The same lists as a mask: True where token i reads token j."""
    mask = torch.zeros(len(lists), len(lists), dtype=torch.bool)
    for i, row in enumerate(lists):
        mask[i, row] = True
    return mask


def band(n: int, w: int) -> Bool[Tensor, "n n"]:
    """True where |i − j| ≤ w."""
    place = torch.arange(n)
    return (place[:, None] - place).abs() <= w


def band_with_globals(n: int, w: int, g: int) -> Bool[Tensor, "n n"]:
    """A band, and the first g rows and columns."""
    mask = band(n, w)
    mask[:g] = mask[:, :g] = True
    return mask
