"""A beam search as a tree: what was alive at each step, what was dropped, what was chosen in the end."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import OUTPUT, QUERY, VALUE, as_text, show, waits_for

from .. import tasks
from ..decoding import next_log_probs_of
from ..model import END, START
from ..training import Trained

__all__ = ["beam_of_a_tree", "beam_of_a_translation"]

# A little language: after "la" two birds are likely, and each wants other words. Made so that the best first word is not the best beginning.
NAMES = {END: "<end>", 3: "la", 4: "birdo", 5: "kantas", 6: "blua", 7: "flugas"}
CHANCES = {(): {3: 0.55, 4: 0.45}, (3,): {4: 0.4, 6: 0.35, 7: 0.25}, (4,): {5: 0.9, 7: 0.1}, (3, 4): {5: 0.5, 7: 0.5},
           (3, 6): {4: 0.9, 7: 0.1}, (3, 7): {END: 1.0}, (3, 6, 4): {5: 0.6, 7: 0.4}}  # fmt: skip


def _after(prefix: tuple[int, ...]) -> Tensor:
    chances = torch.full((8,), 1e-6, dtype=torch.float64)
    for token, chance in CHANCES.get(prefix[1:], {END: 1.0}).items():
        chances[token] = chance
    return (chances / chances.sum()).log()


@waits_for("beam_search")
def beam_of_a_tree(beam_search: Callable, k: int = 2, alpha: float = 0.6) -> None:
    """Your search on a tree of six words, once with one hypothesis and once with k."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.6))
    for axis, width in zip(axes, (1, k), strict=True):
        asked: list[tuple[int, ...]] = []

        def next_log_probs(prefixes, asked=asked):
            asked += [tuple(row) for row in prefixes.tolist()]
            return torch.stack([_after(tuple(row)) for row in prefixes.tolist()]).float()

        tokens, score = beam_search(next_log_probs, width, 6, alpha)
        _draw(axis, asked, [START, *(int(token) for token in tokens)], _after, NAMES, 3)
        axis.set_title(f"k = {width}: score {float(score):.2f}", fontsize=11)
    show()


@waits_for("beam_search")
def beam_of_a_translation(beam_search: Callable, trained: Trained, sentence: str, k: int = 3) -> None:
    """Your search in a trained model. Only hypotheses that were alive, and the best two continuations of each, are drawn."""
    source = tasks.numbered([tuple(sentence.split())], tasks.ENGLISH)[0]
    model, asked, known = next_log_probs_of(trained.model, source), [], {}

    def next_log_probs(prefixes):
        log_p = model(prefixes)
        rows = [tuple(row) for row in prefixes.tolist()]
        asked.extend(rows)
        known.update(zip(rows, log_p, strict=True))
        return log_p

    tokens, score = beam_search(next_log_probs, k, 10, 0.6)
    figure, axis = plt.subplots(figsize=(11, 3.4))
    names = dict(enumerate(tasks.ESPERANTO))
    _draw(axis, asked, [START, *(int(token) for token in tokens)], lambda prefix: known[prefix], names, 2)
    axis.set_title(f"{sentence}   (score {float(score):.2f})", fontsize=11)
    show()


def _draw(axis, asked: Sequence[tuple], chosen: list[int], after: Callable, names: dict[int, str], shown: int) -> None:
    """Blue: alive. Green: chosen. Grey: dropped. A node's number is its sum of log-probabilities."""
    live = set(asked)
    path = {tuple(chosen[: end + 1]) for end in range(len(chosen))}
    nodes = {(START,): 0.0}
    for prefix in asked:
        log_p = after(prefix)
        best = log_p.topk(shown).indices.tolist()
        wanted = [
            token
            for token in range(len(log_p))
            if (*prefix, token) in live | path or (token in best and log_p[token] > -5)
        ]
        nodes |= {(*prefix, token): nodes[prefix] + float(log_p[token]) for token in wanted}
    depths: dict[int, list] = {}
    for node in sorted(nodes):
        depths.setdefault(len(node), []).append(node)
    place = {
        node: (len(node), -(row - (len(level) - 1) / 2)) for level in depths.values() for row, node in enumerate(level)
    }
    for node, (x, y) in place.items():
        colour = VALUE if node in path else QUERY if node in live else OUTPUT
        if len(node) > 1:
            before = place[node[:-1]]
            axis.plot(
                [before[0] + 0.33, x - 0.33],
                [before[1], y],
                color=colour,
                lw=2.2 if node in path else 1,
                alpha=0.9 if node in live | path else 0.5,
            )
        text = "<start>" if len(node) == 1 else f"{names[node[-1]]}\n{nodes[node]:.2f}"
        axis.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=as_text(colour),
            weight="bold" if node in path else "normal",
        )
    highest = max(len(level) for level in depths.values()) / 2
    axis.set(xlim=(0.5, max(depths) + 0.6), ylim=(-highest - 0.1, highest + 0.1))
    axis.axis("off")
