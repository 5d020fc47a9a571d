"""Pictures of the memory of score matrices."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.measuring.devices import Device
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, show, waits_for

__all__ = ["context_limits"]


@waits_for("score_memory", "longest_context")
def context_limits(
    score_memory: Callable, longest_context: Callable, devices: Sequence[Device], models: dict[str, tuple[int, int]]
) -> None:
    """Bytes of the scores over n in float16, for models of (heads, layers); the longest context on each device."""
    lengths = [2**power for power in range(6, 18)]
    figure, axis = plt.subplots(figsize=(8, 4.2))
    for (name, (h, layers)), colour in zip(models.items(), (QUERY, KEY, VALUE, WEIGHT)):
        axis.loglog(
            lengths, [score_memory(1, n, h, layers, torch.float16) for n in lengths], base=2, color=colour, label=name
        )
        for machine in devices:
            n = longest_context(int(machine.memory), 1, h, layers, torch.float16)
            axis.plot(n, machine.memory, "o", color=colour)
            axis.text(n / 1.1, machine.memory * 1.3, f"{n:,}", ha="right", fontsize=8.5, color=as_text(colour))
    for machine in devices:
        axis.axhline(machine.memory, color=OUTPUT, ls=":", lw=1)
        words = f"{machine.name}: {machine.memory / 1e9:.0f} GB"
        axis.text(lengths[0], machine.memory * 1.2, words, fontsize=8.5, color=OUTPUT)
    powers = {2.0**20: "1 MB", 2.0**30: "1 GB", 2.0**40: "1 TB"}
    axis.set_yticks(list(powers), powers.values())
    axis.minorticks_off()
    axis.set(xlabel="context n, one sequence", title="all score matrices, float16")
    axis.legend(frameon=False, loc="lower right")
    show()
