"""A picture of published training runs: how large, on how much text, for how many FLOPs."""

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, show, waits_for

__all__ = ["published_runs"]

A100 = 312e12  # FLOP/s in bfloat16


@dataclass(frozen=True)
class Run:
    """stated: FLOPs that the paper gives, 0 where it gives none; gpu_hours: on A100s, 0 where it gives none."""

    name: str
    parameters: float
    tokens: float
    colour: str
    stated: float = 0
    gpu_hours: float = 0


RUNS = (
    Run("GPT-3", 174.6e9, 300e9, QUERY, stated=3.14e23),  # Brown et al. (2020), appendix D
    Run("Chinchilla", 70e9, 1.4e12, VALUE),  # Hoffmann et al. (2022), table 4
    Run("LLaMA 65B", 65.2e9, 1.4e12, WEIGHT, gpu_hours=1_022_362),  # Touvron et al. (2023), tables 2 and 15
    Run("Llama 3 405B", 405e9, 15.6e12, KEY, stated=3.8e25),  # Grattafiori et al. (2024)
)
PLACES = {"GPT-3": (12, -12), "Chinchilla": (12, -34), "LLaMA 65B": (-70, 28), "Llama 3 405B": (-60, 14)}


@waits_for("training_run")
def published_runs(training_run: Callable) -> None:
    """Tokens over parameters for four models, with the FLOPs of your function and of the papers; Chinchilla's line."""
    figure, axis = plt.subplots(figsize=(8.5, 5), layout="constrained")
    sizes = (3e10, 1e12)
    line = [training_run(size, 1, 1, A100, 1.0)["chinchilla_tokens"] for size in sizes]
    axis.loglog(sizes, line, color=OUTPUT, lw=1.5)
    axis.text(sizes[1] / 1.05, line[1] / 2.9, "your chinchilla_tokens", ha="right", fontsize=9, color=OUTPUT)
    for run in RUNS:
        axis.plot(run.parameters, run.tokens, "o", color=run.colour, ms=9)
        axis.annotate(
            _words(run, training_run),
            (run.parameters, run.tokens),
            xytext=PLACES[run.name],
            textcoords="offset points",
            fontsize=9,
            color=as_text(run.colour),
        )
    axis.set_xticks([3e10, 1e11, 3e11, 1e12], ["30 billion", "100", "300", "1,000 billion"])
    axis.set_yticks([1e11, 1e12, 1e13], ["100 billion", "1,000", "10,000 billion"])
    axis.minorticks_off()
    axis.set(
        xlim=sizes,
        ylim=(1e11, 6e13),
        xlabel="parameters",
        ylabel="tokens",
        title="below the line: too little text for the size",
    )
    show()


def _words(run: Run, training_run: Callable) -> str:
    rows = training_run(run.parameters, run.tokens, 1, A100, 1.0)
    lines = [run.name, f"your FLOPs: {rows['flops']:.3g}"]
    if run.stated:
        lines.append(f"the paper's: {run.stated:.3g}")
    if run.gpu_hours:
        lines.append(f"{run.gpu_hours:,} A100 hours: MFU {24 * rows['days'] / run.gpu_hours:.2f}")
    return "\n".join(lines)
