"""A state that is corrected, not added to: DeltaNet (Schlag et al., 2021; Yang et al., 2024, arXiv 2406.06484)."""

import torch
from jaxtyping import Float
from torch import Tensor


def delta_rule(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    beta: Float[Tensor, "*batch n"],
) -> Float[Tensor, "*batch n d_v"]:
    """S_t = S_{t−1} + β_t k_tᵀ (v_t − k_t S_{t−1}) and out_t = q_t S_t, the keys divided by their length first.

    The update is that of Schlag et al., 2021, equation 24; keys of length 1 are those of Yang et al., 2024.
    beta: 0 ≤ β_t ≤ 1; with 1 the new value replaces what stood under its key.
    """
    k = k / k.norm(dim=-1, keepdim=True)
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        wrong_by = v_t - k_t @ state  # (*batch, 1, d_v): the new value less what the state holds under this key
        state = state + beta[..., t, None, None] * (k_t.mT @ wrong_by)  # (*batch, d, d_v)
        outputs.append(q_t @ state)
    return torch.cat(outputs, dim=-2)
