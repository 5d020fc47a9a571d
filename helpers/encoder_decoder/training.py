"""Teacher forcing: in training the decoder reads the right tokens, all positions at once, and is asked for the next."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Generator, Tensor

from helpers.waiting import waiting

from . import tasks
from .decoding import greedy_decode, steps_of
from .model import END, PAD, START, EncoderDecoder


def teacher_forcing(target: Int[Tensor, "b n"]) -> tuple[Int[Tensor, "b n+1"], Int[Tensor, "b n+1"]]:
    """Inputs: START, then the target. Labels: the target, END behind its last word, then PAD.

    So label i is input i + 1: at every position the decoder knows what came before, and no more.
    """
    edge = torch.full_like(target[:, :1], START)
    lengths = (target != PAD).sum(dim=1, keepdim=True)
    labels = torch.cat([target, torch.full_like(edge, PAD)], dim=1)
    labels = labels.masked_fill(torch.arange(labels.shape[1]) == lengths, END)
    return torch.cat([edge, target], dim=1), labels


def exact_match(written: Int[Tensor, "b n"], target: Int[Tensor, "b m"]) -> float:
    """The share of rows in which all that stands before END is the target, END included. The rest doesn't count."""
    _, labels = teacher_forcing(target)
    right = [row[: row.index(END) + 1] if END in row else row for row in labels.tolist()]
    found = [row[: row.index(END) + 1] if END in row else row for row in written.tolist()]
    return sum(mine == theirs for mine, theirs in zip(found, right, strict=True)) / len(right)


def train(
    model: EncoderDecoder, batches: Iterable[tuple[Tensor, Tensor]], steps: int, lr: float = 5e-3
) -> Iterable[float]:
    """Yields the loss of each batch. Adam with β₂ = 0.98 (section 5.3), warm-up over a tenth of the steps, then down in
    a straight line."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / (0.1 * steps), 1, 1.1 * (1 - step / steps))
    )
    for source, target in batches:
        inputs, labels = teacher_forcing(target)
        loss = F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        yield loss.item()


def train_reversal(
    sources: Int[Tensor, "steps b n"], targets: Int[Tensor, "steps b n"], words: int
) -> tuple[EncoderDecoder, list[float]]:
    """A small model, trained with one step on each batch, and its losses."""
    model = EncoderDecoder(words, words, d=32, h=2, d_ff=64, layers=1, dropout=0.0)
    return model, list(train(model, zip(sources, targets, strict=True), len(sources)))


@dataclass
class Trained:
    """A model on its way: losses of all steps, and (step, exact match on held-out pairs) now and then."""

    model: EncoderDecoder
    losses: list[float] = field(default_factory=list)
    matches: list[tuple[int, float]] = field(default_factory=list)
    held_out: tuple[Tensor, ...] = ()


def accuracy(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """Exact match of what the model writes by itself, greedily."""
    encode, step = steps_of(model)
    return exact_match(greedy_decode(encode, step, source, target.shape[1] + 1), target)


def watched(trained: Trained, batches: Callable[[], tuple[Tensor, Tensor]], steps: int, every: int) -> Trained:
    """Trains under a progress bar, and looks at the held-out pairs every so many steps."""
    losses = train(trained.model, (batches() for _ in range(steps)), steps)
    for step, loss in enumerate(waiting(losses, steps, "training"), start=1):
        trained.losses.append(loss)
        if step % every == 0 or step == steps:
            trained.matches.append((step, accuracy(trained.model, *trained.held_out)))
    return trained


def reversal(seed: int = 0, steps: int = 500, longest: int = 10, letters: int = 20) -> Trained:
    """Strings of 1 to `longest` letters. Nearly all of them are new: there are 20^10 of the longest alone."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    held_out = tasks.strings(500, longest, letters, generator, shortest=longest // 2)
    seen_never = {tuple(row) for row in held_out.tolist()}

    def batch() -> tuple[Tensor, Tensor]:
        drawn = tasks.strings(64, longest, letters, generator)
        drawn = drawn[[tuple(row) not in seen_never for row in drawn.tolist()]]
        return drawn, tasks.reversed_strings(drawn)

    model = EncoderDecoder(letters + 3, letters + 3, d=64, h=4, d_ff=128, layers=2, dropout=0.0)
    trained = Trained(model, held_out=(held_out, tasks.reversed_strings(held_out)))
    return watched(trained, batch, steps, max(1, steps // 10))


def translation(seed: int = 0, steps: int = 400) -> Trained:
    """English into Esperanto; 400 sentences are held out."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    kept = [tasks.pair(chance) for _ in range(400)]
    held_out = {one.english for one in kept}

    def pairs(count: int) -> list[tasks.Pair]:
        return [one for one in (tasks.pair(chance) for _ in range(count)) if one.english not in held_out]

    model = EncoderDecoder(len(tasks.ENGLISH), len(tasks.ESPERANTO), d=64, h=1, d_ff=128, layers=2, dropout=0.0)
    trained = Trained(model, held_out=_tokens(kept))
    return watched(trained, lambda: _tokens(pairs(64)), steps, max(1, steps // 10))


def _tokens(pairs: list[tasks.Pair]) -> tuple[Tensor, Tensor]:
    return (
        tasks.numbered([one.english for one in pairs], tasks.ENGLISH),
        tasks.numbered([one.esperanto for one in pairs], tasks.ESPERANTO),
    )
