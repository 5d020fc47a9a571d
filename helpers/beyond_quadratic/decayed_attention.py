"""Linear attention that forgets: the state fades by a factor γ_t before token t is added to it.

With one constant factor a head it is RetNet's retention (Sun et al., 2023, section 2.1); with a factor that depends on
the token, the recurrence of Mamba-2 (Dao & Gu, 2024). Gated linear attention (Yang et al., 2024, arXiv 2312.06635) has
a factor for each of d rows.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def recurrent_decayed_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gamma: Float[Tensor, "*batch n"],
) -> Float[Tensor, "*batch n d_v"]:
    """S_t = γ_t S_{t−1} + k_tᵀ v_t and out_t = q_t S_t, token by token (Sun et al., 2023, equation 6, with γ constant).

    gamma: 0 < γ_t ≤ 1. There is no feature map and no normaliser.
    """
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        state = gamma[..., t, None, None] * state + k_t.mT @ v_t  # (*batch, d, d_v)
        outputs.append(q_t @ state)
    return torch.cat(outputs, dim=-2)


def chunked_decayed_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gamma: Float[Tensor, "*batch n"],
    c: int,
) -> Float[Tensor, "*batch n d_v"]:
    """The same in chunks of c tokens: a mask of decays inside, the state between (Sun et al., 2023, equation 7)."""
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for q_c, k_c, v_c, gamma_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.split(c, -1)):
        mask = decay_mask(gamma_c)  # (*batch, c, c)
        left = gamma_c.cumprod(-1).unsqueeze(-1)  # (*batch, c, 1): what each token finds of the state before the chunk
        outputs.append(left * (q_c @ state) + (q_c @ k_c.mT * mask) @ v_c)
        state = left[..., -1:, :] * state + (mask[..., -1, :, None] * k_c).mT @ v_c
    return torch.cat(outputs, dim=-2)


def decay_mask(gamma: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n n"]:
    """What is left of token s at token t: γ_{s+1} … γ_t for s ≤ t, 0 for s > t (Sun et al., 2023, equation 5: γ^(t−s)).

    Sums of logarithms, for products of many small numbers underflow. Later tokens are cut off before the exponential,
    for it would overflow there, and its gradient with it.
    """
    total = gamma.log().cumsum(-1)
    later = torch.ones(gamma.shape[-1], gamma.shape[-1], dtype=torch.bool, device=gamma.device).triu(1)
    return (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
