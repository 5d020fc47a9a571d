"""The sizes of models whose authors published them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Layers, query heads, key/value heads, width, the longest context of the released model, and the window of its
    cache if it has one."""

    layers: int
    h: int
    h_kv: int
    d: int
    context: int
    window: int | None = None


MODELS = {
    "GPT-2 XL": Shape(
        layers=48, h=25, h_kv=25, d=1600, context=1024
    ),  # Radford et al., 2019, table 2; 25 heads: released config
    "Llama 2 7B": Shape(layers=32, h=32, h_kv=32, d=4096, context=4096),  # Touvron et al., 2023; released config
    "Mistral 7B": Shape(
        layers=32, h=32, h_kv=8, d=4096, context=8192, window=4096
    ),  # Jiang et al., 2023, table 1; the cache is a ring of 4096 (section 2)
    "Llama 3 70B": Shape(
        layers=80, h=64, h_kv=8, d=8192, context=8192
    ),  # Grattafiori et al., 2024, table 3; first release
}


@dataclass(frozen=True)
class LatentShape:
    """Layers, heads, the width of a head, of the latent, and of the key that carries positions."""

    layers: int
    h: int
    d_h: int
    d_c: int
    d_rotary: int


DEEPSEEK_V2 = LatentShape(layers=60, h=128, d_h=128, d_c=512, d_rotary=64)
"""DeepSeek-AI, 2024 (arXiv 2405.04434), section 3.1.2; table 1 compares what kinds of attention store."""
