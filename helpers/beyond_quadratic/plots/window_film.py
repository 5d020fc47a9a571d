"""Windows and global tokens, a film: the pairs each pattern allows, and the layers that news needs from end to end."""

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool
from torch import Tensor

from helpers.film import film, play
from helpers.style import MASK

from ..sparse import band_with_globals

__all__ = ["window_film"]

TOKENS, LAYERS = 16, 15
SETTINGS = ((1, 0), (2, 0), (4, 0), (8, 0), (1, 1), (2, 1), (2, 2), (2, 4))
"""Window w and global tokens g of each frame."""


def window_film() -> None:
    """The mask of a window w with g global tokens, and which tokens have reached the last one after each layer."""
    play(_film())


def heard(mask: Bool[Tensor, "n n"]) -> Bool[Tensor, "layers n"]:
    """Whom the last token has heard of after 1, 2, … layers with this mask, until it is all."""
    rows = [mask[-1]]
    while not rows[-1].all():
        rows.append(mask[rows[-1]].any(dim=0))
    return torch.stack(rows)


def _film() -> str:
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.5), layout="none")
    figure.subplots_adjust(left=0.07, right=0.98, top=0.9, bottom=0.13)

    def frame(setting: tuple[int, int]) -> str:
        mask = band_with_globals(TOKENS, *setting)
        reached = heard(mask)
        shown = torch.zeros(LAYERS, TOKENS, dtype=torch.bool)
        shown[: len(reached)] = reached
        for axis, cells, title in zip(
            axes, (mask, shown), ("who reads whom", "which tokens have reached the last one"), strict=True
        ):
            axis.clear()
            axis.pcolormesh(cells.float(), cmap=MASK, vmin=0, vmax=1, edgecolors="white", linewidth=0.6)
            axis.invert_yaxis()
            axis.set(title=title, xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        axes[0].set(xlabel="key", ylabel="query", aspect="equal")
        axes[1].set(xlabel="token", ylabel="after layer", yticks=[0.5, 4.5, 9.5, 14.5], yticklabels=[1, 5, 10, 15])
        return _said(*setting, mask, len(reached))

    described = (
        "Masks of a window with and without global tokens; beside each, layer by layer, which tokens have reached "
        "the last one. A wider window needs fewer layers, one global token needs two."
    )
    return film(figure, frame, SETTINGS, described, milliseconds=3000)


def _said(w: int, g: int, mask: Tensor, layers: int) -> str:
    pairs = f"{int(mask.sum())} of {mask.numel()} pairs"
    globals_ = "no global token" if g == 0 else "one global token" if g == 1 else f"{g} global tokens"
    return f"w = {w}, {globals_}: {pairs}. After {layers} layers all tokens have reached the last one."
