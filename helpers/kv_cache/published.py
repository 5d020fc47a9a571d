"""The sizes of models whose authors published them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Layers, query heads, key/value heads, width, and the longest context of the released model."""

    layers: int
    h: int
    h_kv: int
    d: int
    context: int


MODELS = {
    "GPT-2 XL": Shape(
        layers=48, h=25, h_kv=25, d=1600, context=1024
    ),  # Radford et al., 2019, table 2; 25 heads: released config
    "Llama 2 7B": Shape(layers=32, h=32, h_kv=32, d=4096, context=4096),  # Touvron et al., 2023; released config
    "Mistral 7B": Shape(
        layers=32, h=32, h_kv=8, d=4096, context=8192
    ),  # Jiang et al., 2023, table 1 (and a window of 4096)
    "Llama 3 70B": Shape(
        layers=80, h=64, h_kv=8, d=8192, context=8192
    ),  # Grattafiori et al., 2024, table 3; first release
}
