"""The small parts of a block as functions: norms, feed-forward networks, the residual stream, and their order."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def layer_norm(
    x: Float[Tensor, "*batch d"], weight: Float[Tensor, "d"], bias: Float[Tensor, "d"], eps: float = 1e-5
) -> Float[Tensor, "*batch d"]:
    """weight · (x − mean) / √(variance + ε) + bias over the features of each token (Ba et al., 2016, equation 4); the
    variance divides by d."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return weight * centred / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps) + bias


def rms_norm(x: Float[Tensor, "*batch d"], weight: Float[Tensor, "d"], eps: float = 1e-5) -> Float[Tensor, "*batch d"]:
    """weight · x / √(mean of x² + ε) over the features of each token (Zhang & Sennrich, 2019, equation 4)."""
    return weight * x / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + eps)


def feed_forward(
    x: Float[Tensor, "*batch d"],
    w_1: Float[Tensor, "d d_ff"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_ff d"],
    b_2: Float[Tensor, "d"],
) -> Float[Tensor, "*batch d"]:
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al., 2017, equation 2)."""
    return torch.relu(x @ w_1 + b_1) @ w_2 + b_2


def swiglu(
    x: Float[Tensor, "*batch d"],
    w_gate: Float[Tensor, "d d_ff"],
    w_up: Float[Tensor, "d d_ff"],
    w_down: Float[Tensor, "d_ff d"],
) -> Float[Tensor, "*batch d"]:
    """(silu(x W_gate) ∘ x W_up) W_down (Shazeer, 2020, equation 6)."""
    return (F.silu(x @ w_gate) * (x @ w_up)) @ w_down


def residual(x: Float[Tensor, "*batch n d"], layers: Sequence[Callable]) -> Float[Tensor, "L+1 *batch n d"]:
    """The stream before and after each layer: x_0 = x, x_{l+1} = x_l + layer_l(x_l) (He et al., 2016, equation 1)."""
    stream = [x]
    for layer in layers:
        stream.append(stream[-1] + layer(stream[-1]))
    return torch.stack(stream)


def transformer_block(
    x: Float[Tensor, "*batch n d"],
    attention: Callable,
    feed_forward: Callable,
    norm_1: Callable,
    norm_2: Callable,
    pre_norm: bool,
) -> Float[Tensor, "*batch n d"]:
    """Pre-norm: x + f(norm(x)), post-norm: norm(x + f(x)); first with attention and norm_1, then with feed_forward and
    norm_2 (Xiong et al., 2020, table 1)."""
    for layer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = x + layer(norm(x)) if pre_norm else norm(x + layer(x))
    return x
