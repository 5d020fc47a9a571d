"""Pictures of unit 03: the model that copies, beside the same model with a mask."""

import matplotlib.pyplot as plt
import torch

from helpers.style import KEY, OUTPUT, QUERY, as_text, heatmap, show

from ..copying import END, VOCABULARY, Trained, entropy_per_token

__all__ = ["loss_curves", "who_looks_where"]


def loss_curves(trained: dict[str, Trained]) -> None:
    """Training losses on one axis, with the floor below which no model can go that sees only the past."""
    figure, axis = plt.subplots(figsize=(8, 3))
    for (name, run), colour in zip(trained.items(), (QUERY, KEY), strict=True):
        axis.plot(run.losses, color=colour, label=name)
        axis.annotate(
            f" {run.losses[-1]:.3g}", (len(run.losses) - 1, run.losses[-1]), color=as_text(colour), va="center"
        )
    ends, floor = [0, len(run.losses) - 1], [entropy_per_token()] * 2  # not through the number at the end of the curve
    axis.plot(ends, floor, color=OUTPUT, ls=":", label="what is left to chance in the grammar")
    axis.set(xlabel="step", ylabel="loss (nats per token)", ylim=(-0.1, 3.4))
    axis.legend(frameon=False)
    show()


@torch.no_grad()
def who_looks_where(trained: dict[str, Trained], sentence: str) -> None:
    """The first layer's attention on one sentence."""
    words = ["<end>", *sentence.split()]
    tokens = torch.tensor([[END, *map(VOCABULARY.index, sentence.split())]])
    figure, axes = plt.subplots(1, len(trained), figsize=(8.5, 3.5))
    for axis, (name, run) in zip(axes, trained.items(), strict=True):
        heatmap(axis, run.model(tokens)[1][0][0], f"{name}: first layer", columns="key", rows="query", vmin=0, vmax=1)
        axis.set_xticks(range(len(words)), words, rotation=45, ha="right", rotation_mode="anchor", fontsize=9)
        axis.set_yticks(range(len(words)), words, fontsize=9)
    show()
