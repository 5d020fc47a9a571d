"""Pictures of a model that learns the stories: the live loss with its floor, what it writes, and where its heads look."""

import random
from collections.abc import Callable
from functools import cache

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.style import KEY, OUTPUT, QUERY, heatmap, show, waits_for

from .. import grammar
from ..ablations import STORIES, rates, story_model
from ..positions import rotary_embedding
from ..training import held_out_loss, stories

__all__ = ["trained_heads", "story_examples", "story_samples", "train_on_stories"]

STEPS, SIZE, DRAW_EVERY = 1_000, 64, 50  # half the steps of ablations.STEPS, twice the stories in each


def story_examples(count: int = 4, seed: int = 1) -> None:
    """A few stories of the grammar, and how much of them is chance."""
    chance = random.Random(seed)
    for _ in range(count):
        print(" ".join(grammar.story(chance)))
    nats, tokens = grammar.expected_nats_and_tokens()
    print(
        f"\nOn average {tokens:.1f} tokens and {nats:.1f} nats of chance a story: {nats / tokens:.3f} nats per token."
    )


@waits_for("train")
def train_on_stories(train: Callable, steps: int = STEPS, seed: int = 2, without: str = "") -> None:
    """Train the course's model with the student's loop, draw its loss as it falls, and keep it for the pictures below.

    without: "attention", "positions" or "residuals": the model without that part, which is not kept.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, losses = story_model(seed, without).to(device), []
    with tqdm(total=steps, desc=f"training on the {'GPU' if device == 'cuda' else 'CPU'}") as bar, _Live() as live:

        def watch(step: int, loss: float) -> None:
            losses.append(loss)
            bar.update()
            if len(losses) % DRAW_EVERY == 0:
                live.show(losses, steps)

        train(stories(SIZE, seed, device), rates(steps), 0.1, 1.0, model, watch)
    loss, floor = held_out_loss(model), grammar.entropy_per_token()
    print(f"Held-out loss {loss:.3f} nats per token. The grammar's entropy is {floor:.3f}: {loss / floor - 1:+.1%}.")
    if not without:
        _TRAINED["model"] = model.cpu().eval()


_TRAINED: dict[str, nn.Module] = {}


class _Live:
    """One figure that is drawn again in its place, and closed with its last state shown."""

    def __enter__(self) -> "_Live":
        self.handle = None
        return self

    def __exit__(self, *_) -> None:
        plt.close("all")

    def show(self, losses: list[float], steps: int) -> None:
        """Draw the losses so far over the one figure."""
        from IPython.display import display

        figure, axis = plt.subplots(figsize=(8, 3))
        axis.plot(losses, color=QUERY, lw=0.8)
        floor = grammar.entropy_per_token()
        axis.axhline(floor, color=OUTPUT, ls=":")
        axis.text(steps, floor - 0.03, f"what is left to chance: {floor:.3f}", ha="right", va="top", color=OUTPUT)
        axis.set(xlim=(0, steps), ylim=(0.5, 3), xlabel="step", ylabel="loss (nats per token)")
        plt.close(figure)
        if self.handle is None:
            self.handle = display(figure, display_id=True)
        elif self.handle:
            self.handle.update(figure)


@cache
def _untrained() -> nn.Module:
    return story_model(0).eval()


@waits_for("generate")
@torch.no_grad()
def story_samples(
    probabilities: Callable, generate: Callable, temperatures: tuple[float, ...] = (0.0, 0.7, 1.0, 1.5)
) -> None:
    """Stories of the untrained model and of the trained one, at several temperatures; how many of 50 the grammar could have made."""
    if not _TRAINED:
        print("Train the model first: run the cell of exercise 5.15.")
        return
    torch.manual_seed(3)
    _write("untrained, T = 1", _untrained(), probabilities, generate, 1.0)
    for temperature in temperatures:
        _write(f"trained, T = {temperature:g}", _TRAINED["model"], probabilities, generate, temperature)


def _write(
    title: str, model: nn.Module, probabilities: Callable, generate: Callable, temperature: float, count: int = 50
) -> None:
    def choose(logits: Tensor) -> Tensor:
        return torch.multinomial(torch.as_tensor(probabilities(logits, temperature, None, None)), 1)[:, 0]

    start = torch.full((count, 1), grammar.END)
    texts = [grammar.words(row) for row in torch.as_tensor(generate(model, start, 62, 64, choose)).tolist()]
    right = sum(map(grammar.is_story, texts))
    print(f"{title}: {right} of {count} are stories of the grammar, {len(set(map(tuple, texts)))} different ones")
    print(f"    {' '.join(texts[0][:40])}{' …' if len(texts[0]) > 40 else ''}\n")


@torch.no_grad()
def trained_heads(story: str = "") -> None:
    """Attention of all trained heads on one story, and each head's induction score: its weight, at the second mention of a first name,
    on the token after the first mention (Olsson et al., 2022)."""
    if not _TRAINED:
        print("Train the model first: run the cell of exercise 5.15.")
        return
    words = (
        story or "Ada Stone meets Leo Hill . Leo Hill sees two dogs ( old ) that sleep . so says Ada Stone"
    ).split()
    maps, scores = attention_maps(_TRAINED["model"], words), induction_scores(_TRAINED["model"])
    figure, axes = plt.subplots(STORIES.layers, STORIES.h, figsize=(12, 6.6))
    for layer, row in enumerate(axes):
        for head, axis in enumerate(row):
            found = scores[layer][head]
            heatmap(axis, maps[layer][head], f"layer {layer}, head {head}: {found:.2f}", vmin=0, vmax=1)
            axis.title.set_color(KEY if found > 0.5 else "black")
            axis.title.set_fontsize(9)
            if head == 0:
                axis.set_yticks(range(len(words) + 1), ["<end>", *words], fontsize=6)
            if layer == STORIES.layers - 1:
                axis.set_xticks(range(len(words) + 1), ["<end>", *words], fontsize=6, rotation=90)
    figure.suptitle("row: who looks; column: at whom; number: induction score (1 = always)", fontsize=10)
    plt.tight_layout()
    show()


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


def induction_scores(model: nn.Module, count: int = 40, seed: int = 5) -> list[list[float]]:
    """For every head, the mean weight from a name's second mention to the token after its first one, over `count` new stories."""
    chance, total, seen = random.Random(seed), torch.zeros(STORIES.layers, STORIES.h), 0
    for _ in range(count):
        words = grammar.story(chance)
        maps = torch.stack(attention_maps(model, words))
        for place, word in enumerate(words):
            if word in grammar.FIRST and words.index(word) < place:
                total += maps[:, :, place + 1, words.index(word) + 2]  # <end> stands before the words
                seen += 1
    return (total / seen).tolist()
