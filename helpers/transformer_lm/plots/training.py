"""Pictures of a model that learns the stories: the loss with its floor, what it writes, and where its heads look."""

import random
import textwrap
from collections.abc import Callable, Sequence
from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Arc
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.sections import heading
from helpers.style import EDGE, KEY, OUTPUT, QUERY, WEIGHT, as_text, show, waits_for

from .. import grammar
from ..ablations import SIZE, STEPS, STORIES, own_model, own_rates, rates, story_model
from ..positions import rotary_embedding
from ..training import held_out_by_kind, losses_by_kind, stories

__all__ = ["trained_heads", "story_examples", "story_samples", "train_on_stories"]

DRAW_EVERY, SMOOTH = 50, 25  # steps
WIDTH = 100  # characters of a printed line
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
    with tqdm(total=steps, desc=where, delay=1) as bar, _Live(name) as live:  # none for a stub that ends at once

        def watch(step: int, loss: float) -> None:
            losses.append(loss)
            bar.update()
            if len(losses) % DRAW_EVERY == 0:
                live.show(steps)

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


class _Live:
    """One figure that is drawn again in its place, and closed with its last state shown."""

    def __init__(self, name: str):
        self.names = [name] if name == WHOLE or WHOLE not in _CURVES else [WHOLE, name]

    def __enter__(self) -> "_Live":
        self.handle = None
        return self

    def __exit__(self, *_) -> None:
        plt.close("all")

    def show(self, steps: int) -> None:
        """Draw the losses so far over the one figure."""
        from IPython.display import display

        figure, axis = plt.subplots(figsize=(8, 3))
        for name, color in zip(reversed(self.names), (QUERY, KEY)):
            axis.plot(_CURVES[name], color=color, lw=0.6, alpha=0.3)
            axis.plot(_smooth(_CURVES[name]), color=color, lw=1.4, label=f"{name} model" if name == WHOLE else name)
        axis.legend(frameon=False, loc="upper right", title=f"thin: each step; thick: mean of {SMOOTH}")
        floor = grammar.entropy_per_token()
        axis.axhline(floor, color=OUTPUT, ls=":")
        axis.text(steps, floor - 0.03, f"what is left to chance: {floor:.3f}", ha="right", va="top", color=OUTPUT)
        axis.set(xlim=(0, steps), ylim=(0.3, 2.5), xlabel="step", ylabel="loss (nats per token)")
        plt.close(figure)
        if self.handle is None:
            self.handle = display(figure, display_id=True)
        elif self.handle:
            self.handle.update(figure)


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
    if not _TRAINED:
        print("Train the model first: run the cell of exercise 5.15.")
        return
    torch.manual_seed(3)
    _write("untrained, T = 1", _untrained(), probabilities, generate, 1.0)
    for temperature in temperatures:
        _write(f"trained, T = {temperature:g}", _TRAINED["model"], probabilities, generate, temperature)


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


@torch.no_grad()
def trained_heads(story: str = "") -> None:
    """Attention on one story of the four trained heads that look most where `looks` says, as arcs over its words: one
    of them is an induction head (Olsson et al., 2022). The number is the head's mean weight on these, over 40 other
    stories."""
    if not _TRAINED:
        print("Train the model first: run the cell of exercise 5.15.")
        return
    words = (story or TOLD).split()
    maps, scores, places = attention_maps(_TRAINED["model"], words), head_scores(_TRAINED["model"]), looks(words)
    figure, axes = plt.subplots(len(scores), 1, figsize=(11, 2.6 * len(scores)))
    for axis, (place, found) in zip(axes, scores.items()):
        layer, head = divmod(int(found.argmax()), STORIES.h)
        _arcs(axis, maps[layer][head], ["<end>", *words], places[place])
        title = f"{place}: mean weight {found.max():.2f} (layer {layer}, head {head})"
        axis.set_title(title, fontsize=11, loc="left", pad=4)
    said = (
        "An arc leads from a word back to one that it looks at; the darker, the more weight. In color: the "
        "places of the title (blue looks at orange). Gray: the rest, from 0.1 on."
    )
    figure.suptitle(said, fontsize=9.5, x=0.01, ha="left", color=OUTPUT)
    plt.tight_layout(rect=(0, 0, 1, 0.995), h_pad=1.2)
    show()


def _arcs(axis, weights: Tensor, words: Sequence[str], framed: Sequence[tuple[int, int]]) -> None:
    """A head's weights (n, n) as arcs over the words. framed: (row, column) of those to see; their words are bold."""
    reach = len(words) ** 0.5
    for row, column in (weights > 0.1).nonzero().tolist():
        if row != column and (row, column) not in framed:
            _arc(axis, row, column, EDGE, weights[row, column].item(), 1.2)
    for row, column in framed:
        _arc(axis, row, column, WEIGHT, max(0.12, weights[row, column].item()), 2.4)
    colours = {at: colour for pair in framed for at, colour in zip(pair, (QUERY, KEY))}
    for at, word in enumerate(words):
        axis.text(
            at,
            -0.04 * reach,
            word,
            rotation=90,
            ha="center",
            va="top",
            fontsize=8.5,
            color=as_text(colours.get(at, OUTPUT)),
            weight="bold" if at in colours else "normal",
        )
    axis.set(xlim=(-0.7, len(words) - 0.3), ylim=(-0.42 * reach, 1.06 * reach))
    axis.axis("off")


def _arc(axis, row: int, column: int, colour: str, weight: float, width: float) -> None:
    middle, across = (row + column) / 2, abs(row - column)
    arc = Arc((middle, 0), across, 2 * across**0.5, theta1=0, theta2=180, color=colour, lw=width, alpha=weight)
    axis.add_patch(arc)  # as high as the root of its width: long ones fit in, and short ones can be seen
    if colour == WEIGHT:
        axis.plot(column, 0, "o", ms=4.5, color=KEY, mec="white", mew=0.5, zorder=3)


TOLD = (
    "Ada Stone meets Leo Hill . Leo Hill sees two dogs ( old ) that hop left left right left right right right left "
    "again left left right left right right right left . so say Ada Stone and Leo Hill"
)


@torch.no_grad()
def attention_maps(model: nn.Module, words: list[str]) -> list[Tensor]:
    """The attention weights (h, n, n) of every layer on <end> and these words."""
    tokens = torch.tensor([[grammar.END, *(grammar.NUMBER[word] for word in words)]])
    inputs: list[Tensor] = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda _, args: inputs.append(args[0])) for block in model.blocks
    ]
    model(tokens)
    for hook in hooks:
        hook.remove()
    where, n = torch.arange(tokens.shape[1]), tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    maps = []
    for block, x in zip(model.blocks, inputs):
        layer = block.attention
        q, k = (rotary_embedding(layer.heads(project(x)), where) for project in (layer.w_q, layer.w_k))
        maps.append((q @ k.mT / layer.d_h**0.5).masked_fill(later, -torch.inf).softmax(-1)[0])
    return maps


def head_scores(model: nn.Module, count: int = 40, seed: int = 5) -> dict[str, Tensor]:
    """For every head (layers, h), its mean weight on the places of `looks`, over `count` new stories."""
    chance, total, seen = random.Random(seed), {}, {}
    for _ in range(count):
        words = grammar.story(chance)
        maps = torch.stack(attention_maps(model, words))  # (layers, h, n, n)
        for place, pairs in looks(words).items():
            rows, columns = zip(*pairs)
            total[place] = total.get(place, 0) + maps[:, :, rows, columns].sum(-1)
            seen[place] = seen.get(place, 0) + len(pairs)
    return {place: weights / seen[place] for place, weights in total.items()}


def looks(words: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Who should look at whom: (row, column) of tokens, of which <end> is number 0 and word number i is token i + 1."""
    tokens = list(enumerate(words, start=1))
    names = [token for token, word in tokens if word in grammar.FIRST]
    first = {name: words.index(words[name - 1]) + 1 for name in names}
    again = [place for place, kind in enumerate(grammar.kinds(words)) if kind == "a step again"]
    return {
        "from a new surname at its first name": [(name + 1, name) for name in names if first[name] == name],
        "from a first name at the surname it had": [(name, first[name] + 1) for name in names if first[name] != name],
        "from “that” at one or two": [
            (token, max(at for at, number in tokens[:token] if number in grammar.NOUNS))
            for token, word in tokens
            if word == "that"
        ],
        f"{grammar.DANCE} tokens back, at the step that comes next": [
            (place, place - grammar.DANCE) for place in again
        ],
    }
