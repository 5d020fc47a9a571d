"""Pictures of latent attention: what a token leaves in the cache, and what a step without keys and values costs."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.style import KEY, OUTPUT, QUERY, VALUE, show, waits_for

from ..generation import Meter
from ..latent_attention import with_keys_and_values
from ..published import DEEPSEEK_V2

__all__ = ["cost_of_absorbing", "stored_per_token"]


def stored_per_token() -> None:
    """Numbers that a token leaves in one layer's cache, at DeepSeek-V2's sizes, with four kinds of attention."""
    h, d_h, model = DEEPSEEK_V2.h, DEEPSEEK_V2.d_h, DEEPSEEK_V2
    sizes = {
        f"multi-head: {h} heads, a key and a value each": 2 * h * d_h,
        "grouped: 8 key/value heads": 2 * 8 * d_h,
        f"latent: {model.d_c}, and {model.d_rotary} for positions": model.d_c + model.d_rotary,
        "multi-query: 1 key/value head": 2 * d_h,
    }
    figure, axis = plt.subplots(figsize=(9, 2))
    bars = axis.barh(list(sizes), list(sizes.values()), color=(OUTPUT, KEY, QUERY, VALUE))
    axis.bar_label(bars, [f" {size:,}" for size in sizes.values()], fontsize=9)
    axis.set(title="numbers that one token leaves in the cache of one layer", xticks=[], xlim=(0, 1.1 * 2 * h * d_h))
    axis.invert_yaxis()
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.title.set_fontsize(10)
    show()


@waits_for("latent_attention")
def cost_of_absorbing(
    step: Callable, d: int, h: int, d_h: int, d_c: int, lengths: Sequence[int] = (64, 256, 1024, 4096)
) -> None:
    """One step after n tokens, yours and one that makes all keys and values: FLOPs and the largest tensor, counted
    while they run."""
    weights = [torch.randn(shape) for shape in ((d, d_c), (h, d, d_h), (h, d_c, d_h), (h, d_c, d_h), (h, d_h, d))]
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
    for name, function, colour, marker in (
        ("yours", step, QUERY, "o-"),
        ("all keys and values made", with_keys_and_values, KEY, "s--"),
    ):
        costs = [_cost(function, torch.randn(1, d), torch.randn(1, n - 1, d_c), weights) for n in lengths]
        for axis, found in zip(axes, zip(*costs)):
            axis.plot(lengths, found, marker, color=colour, label=name)
    for axis, title in zip(axes, ("FLOPs of one step, counted", "numbers in the largest tensor, counted")):
        axis.set(xscale="log", yscale="log", xlabel="tokens", title=title)
        axis.set_xticks(lengths, lengths)
        axis.tick_params(which="minor", bottom=False, labelbottom=False)
        axis.title.set_fontsize(10)
    axes[0].legend(frameon=False, fontsize=9)
    show()


def _cost(step: Callable, x: torch.Tensor, latents: torch.Tensor, weights: list[torch.Tensor]) -> tuple[int, int]:
    with Meter() as meter:
        step(x, latents, *weights)
    return meter.flops.total(), meter.largest // x.element_size()
