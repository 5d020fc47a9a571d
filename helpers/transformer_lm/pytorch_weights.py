"""The weights of PyTorch's own layer under the names of ours, and back. The same numbers then give the same outputs."""

import torch
from torch import Tensor, nn

from helpers.multi_head.heads import unpacked

from .transformer import Block

SAME = {"norm_1": "norm1", "norm_2": "norm2", "mlp.up": "linear1", "mlp.down": "linear2"}


def from_torch(layer: nn.TransformerEncoderLayer) -> dict[str, Tensor]:
    """For a `Block(d, h, h, bias=True, rotary=False)`; the layer is made with norm_first=True and activation="gelu"."""
    attention = {f"attention.{name}": value for name, value in unpacked(layer.self_attn).items()}
    theirs = layer.state_dict()
    rest = {f"{our}.{part}": theirs[f"{name}.{part}"] for our, name in SAME.items() for part in ("weight", "bias")}
    return attention | rest


def to_torch(block: Block) -> dict[str, Tensor]:
    """For an `nn.TransformerEncoderLayer(d, h, 4 * d, activation="gelu", norm_first=True)`: the way back."""
    ours = block.state_dict()
    weights = {f"{name}.{part}": ours[f"{our}.{part}"] for our, name in SAME.items() for part in ("weight", "bias")}
    for part in ("weight", "bias"):
        joined = torch.cat([ours[f"attention.{name}.{part}"] for name in ("w_q", "w_k", "w_v")])
        weights[f"self_attn.in_proj_{part}"] = joined
        weights[f"self_attn.out_proj.{part}"] = ours[f"attention.w_o.{part}"]
    return weights
