"""Multi-head latent attention (DeepSeek-V2: DeepSeek-AI, 2024, arXiv 2405.04434, section 2.1), without its rotary part:
the cache holds one short vector a token, and the matrices that would make keys and values of it move into the query and
the output.

Row vectors, and every matrix with an axis for the heads: where the paper writes W^UK c, this is c @ w_uk[i] for head i.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def latent_attention(
    x: Float[Tensor, "b d"],
    latents: Float[Tensor, "b m d_c"],
    w_dkv: Float[Tensor, "d d_c"],
    w_q: Float[Tensor, "h d d_h"],
    w_uk: Float[Tensor, "h d_c d_h"],
    w_uv: Float[Tensor, "h d_c d_h"],
    w_o: Float[Tensor, "h d_h d"],
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b m+1 d_c"]]:
    """One decoding step: the output of one new token after m others (m may be 0), and the latents of all m + 1.

    Equations 9 to 11, w_uk absorbed into the query, w_uv into the output (section 2.1.2): no key or value is made.
    """
    latents = _joined(latents, x @ w_dkv)
    q = torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk)  # the query of each head in the space of the latents
    scores = q @ latents.mT / math.sqrt(w_q.shape[-1])  # (b, h, m + 1)
    mixed = scores.softmax(dim=-1) @ latents  # (b, h, d_c)
    return torch.einsum("bhc,hce,hed->bd", mixed, w_uv, w_o), latents


def with_keys_and_values(x, latents, w_dkv, w_q, w_uk, w_uv, w_o) -> tuple[Tensor, Tensor]:
    """The same as equations 7 to 11 say it: keys and values of all tokens and heads are made anew in every step."""
    latents = _joined(latents, x @ w_dkv)
    q = torch.einsum("bd,hde->bhe", x, w_q)
    keys, values = (torch.einsum("bmc,hce->bhme", latents, w) for w in (w_uk, w_uv))  # (b, h, m + 1, d_h)
    scores = torch.einsum("bhe,bhme->bhm", q, keys) / math.sqrt(w_q.shape[-1])
    heads = torch.einsum("bhm,bhme->bhe", scores.softmax(dim=-1), values)
    return torch.einsum("bhe,hed->bd", heads, w_o), latents


def _joined(latents: Tensor, new: Float[Tensor, "b d_c"]) -> Float[Tensor, "b m+1 d_c"]:
    return torch.cat([latents, new[:, None]], dim=1)
