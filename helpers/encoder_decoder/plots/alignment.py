"""Pictures of training and of what it leads to: curves, and the alignment that cross-attention has learned."""

import contextlib
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.board import Board, faint
from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, heatmap, show, waits_for

from .. import tasks
from ..alignment import cross_attention
from ..decoding import greedy_decode, steps_of
from ..model import START
from ..training import Trained, accuracy

__all__ = ["alignment_film", "alignment_maps", "reversal_learned", "training_curves"]


@waits_for("EncoderDecoder", "train_reversal")
def reversal_learned(train_reversal: Callable, letters: int = 8, n: int = 5, steps: int = 250) -> None:
    """Trains your model on strings of n letters: the loss, some strings it never saw, its cross-attention on one."""
    strings = torch.randint(3, letters + 3, (3 * steps * 64, n), generator=torch.Generator().manual_seed(0))
    new = strings.sum(dim=1) % 7 == 0
    sources, unseen = strings[~new][: steps * 64].view(steps, 64, n), strings[new][:200]
    model, losses = train_reversal(sources, sources.flip(-1), letters + 3)
    share = accuracy(model, unseen, unseen.flip(-1))
    print(f"{share:.0%} of {len(unseen)} strings that it has never seen come out backwards, letter for letter.")
    source, inputs = unseen[0], torch.cat([torch.tensor([START]), unseen[0].flip(0)])
    names = ["abcdefghijklmnop"[token - 3] for token in source.tolist()]
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3), width_ratios=[1.6, 1])
    axes[0].plot([float(loss) for loss in losses], color=QUERY)
    axes[0].set(xlabel="batch", ylabel="loss", ylim=(0, None), title="teacher-forced loss")
    heatmap(
        axes[1],
        cross_attention(model, source, inputs)[-1].mean(dim=0),
        "cross-attention, mean of the heads",
        columns="source",
        rows="writes",
        vmin=0,
        vmax=1,
    )
    axes[1].set_xticks(range(n), names)
    axes[1].set_yticks(range(n + 1), [*names[::-1], "<end>"])
    show()


def training_curves(trained: Trained) -> None:
    """Loss of every batch, and exact match on held-out pairs when the model writes by itself."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.6))
    axes[0].plot(trained.losses, color=QUERY)
    axes[0].set(xlabel="batch", ylabel="loss", yscale="log", title="teacher-forced loss")
    steps, shares = zip(*trained.matches, strict=True)
    axes[1].plot(steps, [100 * share for share in shares], "o-", color=KEY)
    axes[1].set(xlabel="batch", ylabel="right sentences (%)", ylim=(0, 103), title="held out, written greedily")
    show()


def _written(trained: Trained, source: Tensor, search: Callable = greedy_decode) -> Tensor:
    encode, step = steps_of(trained.model)
    return search(encode, step, source, 12)


def _writer(trained: Trained, sentence: str, search: Callable) -> str:
    """Whether a student's search writes what ours does, in words."""
    source = tasks.numbered([tuple(sentence.split())], tasks.ENGLISH)
    with contextlib.suppress(Exception):  # of a search that isn't right yet
        if torch.equal(_written(trained, source, search), _written(trained, source)):
            return "Written by your greedy_decode."
    return "Written by our greedy_decode: yours isn't there yet, or writes something else."


def _said(trained: Trained, sentence: str) -> tuple[Tensor, Tensor, list[str]]:
    """Source tokens, the decoder's inputs, and the words that it writes."""
    source = tasks.numbered([tuple(sentence.split())], tasks.ENGLISH)
    written = _written(trained, source)[0]
    words = [*tasks.words(written, tasks.ESPERANTO), "<end>"]
    inputs = torch.cat([torch.tensor([START]), written[: len(words) - 1]])
    return source[0], inputs, words


def alignment_maps(trained: Trained, sentence: str) -> None:
    """One map per decoder layer: what is written down the side, the source along the bottom."""
    source, inputs, words = _said(trained, sentence)
    weights = cross_attention(trained.model, source, inputs).mean(dim=1)
    figure, axes = plt.subplots(1, len(weights), figsize=(4.6 * len(weights), 3.6), squeeze=False)
    for layer, (axis, grid) in enumerate(zip(axes[0], weights, strict=True), start=1):
        heatmap(axis, grid, f"decoder layer {layer}", vmin=0, vmax=1)
        axis.set_xticks(range(len(source)), sentence.split(), rotation=45)
        axis.set_yticks(range(len(words)), words)
        axis.set_xlabel("source")
    axes[0, 0].set_ylabel("written")
    show(f"Cross-attention of {len(weights)} layers. In the last one {_most_looked_at(weights[-1], sentence, words)}.")


def _most_looked_at(weights: Tensor, sentence: str, words: Sequence[str]) -> str:
    """What each word looks at most."""
    source = sentence.split()
    return ", ".join(f"{word} looks at {source[at]}" for word, at in zip(words, weights.argmax(-1).tolist()))


def alignment_film(trained: Trained, sentence: str, search: Callable = greedy_decode, layer: int = -1) -> None:
    """The same word by word, with a player: line widths are the weights of the cross-attention. search: yours."""
    print(_writer(trained, sentence, search))
    source, inputs, words = _said(trained, sentence)
    weights = cross_attention(trained.model, source, inputs)[layer].mean(dim=0)  # (n, m)
    play(_film(weights, sentence.split(), words))


def _film(weights: Tensor, source: Sequence[str], words: Sequence[str]) -> str:
    board = Board(19.4, 6.4)
    above = [19.4 * (place + 0.5) / len(source) for place in range(len(source))]
    below = [19.4 * (place + 0.5) / len(words) for place in range(len(words))]

    def frame(now: int) -> str:
        board.wipe()
        for place, word in enumerate(source):
            shade = float(weights[now, place])
            board.text(above[place], 0.7, word, size=11, colour=KEY if shade > 0.3 else OUTPUT)
            board.line(
                (above[place], 1.3),
                (below[now], 5.1),
                colour=faint(KEY, 0.35 + 0.65 * shade),
                width=round(0.4 + 9 * shade, 1),
            )
        for place, word in enumerate(words[: now + 1]):
            board.text(below[place], 5.7, word, size=11, colour=QUERY, bold=place == now)

        most = int(weights[now].argmax())
        return (
            f"For “{words[now]}” the decoder reads “{source[most]}” with weight {float(weights[now, most]):.2f}, "
            f"the largest of {len(source)}."
        )

    described = (
        "A translation word by word: lines from each word that is written to the source words, as wide as "
        "their weights."
    )
    return film(board, frame, range(len(words)), described, milliseconds=1200)
