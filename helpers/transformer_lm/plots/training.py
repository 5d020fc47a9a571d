"""Pictures of a model that learns the stories: the loss with its floor, and what it writes."""

import io
import random
import textwrap
from collections.abc import Callable
from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from helpers import paper
from helpers.sections import heading
from helpers.style import KEY, OUTPUT, QUERY, SHARP, waits_for
from helpers.waiting import Waiting

from .. import grammar
from ..ablations import SIZE, STEPS, own_model, own_rates, rates, story_model
from ..training import held_out_by_kind, losses_by_kind, stories

__all__ = ["story_examples", "story_samples", "train_on_stories"]

DRAW_EVERY, SMOOTH = 50, 25  # steps
WIDTH = 100  # characters of a printed line
FLOOR = grammar.entropy_per_token()
LONGEST = 76  # tokens of a story, with its end
TEXTS = 25  # that are written at each temperature: the student's loop reads every text anew for each word


def story_examples(count: int = 4, seed: int = 1) -> None:
    """A few stories of the grammar, and how much of them is chance."""
    chance = random.Random(seed)
    for _ in range(count):
        print(_paragraph(" ".join(grammar.story(chance))))
    nats, tokens = grammar.expected_nats_and_tokens()
    print(
        f"\nOn average {tokens:.1f} tokens and {nats:.1f} nats of chance per story: {nats / tokens:.3f} nats per token."
    )


def _paragraph(text: str, indent: str = "") -> str:
    """Lines that fit on a page: the first stands further left where nothing indents them all."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "    ")


@waits_for("train")
def train_on_stories(
    train: Callable,
    model: Callable | None = None,
    rotate: Callable | None = None,
    rate: Callable | None = None,
    *,
    steps: int = STEPS,
    seed: int = 2,
    without: str = "",
) -> None:
    """Train a model with the student's loop, draw its loss as it falls, and keep it for the pictures below.

    model, rotate, rate: the student's own. What is wrong or missing is the course's, and a line says so.
    without: "attention", "positions" or "residuals": the course's model without that part, which is not kept. What this
    kernel has trained before is shown beside it: the curve of the whole model, and the losses of all.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = f"without {without}" if without else WHOLE
    course = story_model(seed, without).to(device)
    tried, _ = next(stories(2, seed, device))
    own = own_model(model, rotate, course, tried) if model and rotate and not without else None
    own_schedule = own_rates(rate, steps) if rate else None
    learner, schedule = own or course, own_schedule or rates(steps)
    _CURVES[name] = losses = []
    where = f"training on the {'GPU' if device == 'cuda' else 'CPU'}"
    line, live = Waiting(where, steps), _Live(name, steps)

    def watch(step: int, loss: float) -> None:
        losses.append(loss)
        line.step()
        if len(losses) % DRAW_EVERY == 0:
            live.show()

    train(stories(SIZE, seed, device), schedule, 0.1, 1.0, learner, watch)
    kept = story_model(seed, without).to(device)
    kept.load_state_dict(learner.state_dict(), strict=False)  # a student's model may have its head under another name
    if model and not without:
        print(_whose({"train": True, "DecoderLM": own is not None, "learning_rate": own_schedule is not None}))
    _MEASURED[name] = held_out_by_kind(kept)
    print(losses_by_kind(_MEASURED))
    if not without:
        _TRAINED["model"] = kept.cpu().eval()


def _whose(parts: dict[str, bool]) -> str:
    """Which exercises' answers are the student's own in this training."""
    yours, missing = ([name for name, own in parts.items() if own is wanted] for wanted in (True, False))
    said = f"Trained with your own {', '.join(yours)}."
    if missing:
        numbers = ", ".join(f"{name} ({heading(name).partition(' ')[0]})" for name in missing)
        said += f" The course's, because yours isn't right yet or doesn't run on this device: {numbers}."
    return said + "\n"


WHOLE = "whole"
_TRAINED: dict[str, nn.Module] = {}
_CURVES: dict[str, list[float]] = {}  # of every model that this process has trained: the loss of every step,
_MEASURED: dict[str, dict] = {}  # and what `held_out_by_kind` says


def trained_model() -> nn.Module | None:
    """The model that this process has trained, or a line that says how to get one."""
    if not _TRAINED:
        print("Train the model first: run the cell of exercise 5.15.")
    return _TRAINED.get("model")


class _Live:
    """One picture that is drawn again in its place, with what it shows in words."""

    def __init__(self, name: str, steps: int):
        self.names = [name] if name == WHOLE or WHOLE not in _CURVES else [WHOLE, name]
        self.steps, self.handle = steps, None

    def show(self) -> None:
        """Draw the losses so far."""
        from IPython.display import display

        figure, axis = plt.subplots(figsize=(8, 3.4))
        for name, color in zip(reversed(self.names), (QUERY, KEY)):
            axis.plot(_CURVES[name], color=color, lw=0.8, alpha=0.4)
            axis.plot(_smooth(_CURVES[name]), color=color, lw=2, label=f"{name} model" if name == WHOLE else name)
        axis.legend(frameon=False, title=f"thin: each step; thick: mean of {SMOOTH}")
        axis.axhline(FLOOR, color=OUTPUT, ls=":")
        axis.text(0, 0.96 * FLOOR, f" what is left to chance: {FLOOR:.3f}", va="top", color=OUTPUT)
        axis.set(xlim=(0, self.steps), ylim=(0.38, 9), yscale="log", xlabel="step", ylabel="loss (nats per token)")
        axis.set_yticks([0.5, 1, 2, 4, 8], [0.5, 1, 2, 4, 8])
        axis.minorticks_off()
        words = f"The loss while training: {'; '.join(map(_fall, self.names))}. {FLOOR:.3f} is left to chance."
        picture = {"text/html": paper.image(_png(figure), words, SHARP), "text/plain": words}
        if self.handle:
            self.handle.update(picture, raw=True)
        else:
            self.handle = display(picture, raw=True, display_id=True)


def _fall(name: str) -> str:
    losses = _CURVES[name]
    return f"{name}, from {losses[0]:.2f} to {_smooth(losses)[-1]:.3f} after {len(losses)} steps"


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, dpi=SHARP * figure.get_dpi(), facecolor="white")
    plt.close(figure)
    return file.getvalue()


def _smooth(losses: list[float]) -> list[float]:
    """The mean of each loss and its SMOOTH − 1 neighbors, half on each side, or as many as there are: with only those
    before it the curve would lag behind."""
    half = SMOOTH // 2
    return [sum(part) / len(part) for i in range(len(losses)) for part in [losses[max(0, i - half) : i + half + 1]]]


@cache
def _untrained() -> nn.Module:
    return story_model(0).eval()


@waits_for("generate")
@torch.no_grad()
def story_samples(
    probabilities: Callable, generate: Callable, temperatures: tuple[float, ...] = (0.0, 0.7, 1.0, 1.5)
) -> None:
    """Stories of the untrained and of the trained model, at several temperatures; how many of 25 are grammatical."""
    if not (model := trained_model()):
        return
    torch.manual_seed(3)
    _write("untrained, T = 1", _untrained(), probabilities, generate, 1.0)
    for temperature in temperatures:
        _write(f"trained, T = {temperature:g}", model, probabilities, generate, temperature)


def _write(
    title: str, model: nn.Module, probabilities: Callable, generate: Callable, temperature: float, count: int = TEXTS
) -> None:
    def choose(logits: Tensor) -> Tensor:
        return torch.multinomial(torch.as_tensor(probabilities(logits, temperature, None, None)), 1)[:, 0]

    start = torch.full((count, 1), grammar.END)
    texts = [grammar.words(row) for row in torch.as_tensor(generate(model, start, LONGEST, LONGEST, choose)).tolist()]
    right = sum(map(grammar.is_story, texts))
    different = len(set(map(tuple, texts)))
    found = f"{different} different text{'s' * (different != 1)}"
    print(f"{title}: {right} of {count} are stories of the grammar; {found}. The first:")
    first = " ".join(texts[0][:40]) + " …" * (len(texts[0]) > 40)
    print(_paragraph(first or "(no word: it ends at once)", indent="    ") + "\n")
