"""A beam search as a tree: what was alive at each step, what was dropped, what was chosen in the end."""

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import EDGE, KEY, OUTPUT, QUERY, VALUE, as_text, show, waits_for

from .. import tasks
from ..decoding import next_log_probs_of
from ..model import END, START
from ..training import Trained

__all__ = ["beam_of_a_tree", "beam_of_a_translation"]

# A little language: after "la" two birds are likely, and each wants other words. Made so that the best first word is
# not the best beginning.
NAMES = {END: "<end>", 3: "la", 4: "birdo", 5: "kantas", 6: "blua", 7: "flugas"}
CHANCES = {
    (): {3: 0.55, 4: 0.45},
    (3,): {4: 0.4, 6: 0.35, 7: 0.25},
    (4,): {5: 0.9, 7: 0.1},
    (3, 4): {5: 0.5, 7: 0.5},
    (3, 6): {4: 0.9, 7: 0.1},
    (3, 7): {END: 1.0},
    (3, 6, 4): {5: 0.6, 7: 0.4},
}


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
        axis.set_title(f"k = {width}: score {_signed(float(score))}", fontsize=11)
    _key(figure)
    plt.tight_layout(rect=(0, 0.06, 1, 1))
    show()


@waits_for("beam_search")
def beam_of_a_translation(beam_search: Callable, trained: Trained, sentence: str, k: int = 3) -> None:
    """Your search in a trained model: the hypotheses that were alive, and the best two continuations of each."""
    source = tasks.numbered([tuple(sentence.split())], tasks.ENGLISH)[0]
    model, asked, known = next_log_probs_of(trained.model, source), [], {}

    def next_log_probs(prefixes):
        log_p = model(prefixes)
        rows = [tuple(row) for row in prefixes.tolist()]
        asked.extend(rows)
        known.update(zip(rows, log_p.clone(), strict=True))
        return log_p

    tokens, score = beam_search(next_log_probs, k, 10, 0.6)
    figure, axis = plt.subplots(figsize=(11.5, 3.9))
    names, chosen = dict(enumerate(tasks.ESPERANTO)), [START, *(int(token) for token in tokens)]
    nodes = _draw(axis, asked, chosen, lambda prefix: known[prefix], names, 2)
    title = f"“{sentence}”: score {_signed(float(score))}"
    rivals = [total for node, total in nodes.items() if node[-1] == END and node != tuple(chosen)]
    if rivals and tuple(chosen) in nodes:
        times = math.exp(min(50, nodes[tuple(chosen)] - max(rivals)))
        title += f". The next best sentence is {_rounded(times)} times less likely"
    axis.set_title(title, fontsize=10.5, loc="left")
    _key(figure)
    plt.tight_layout(rect=(0, 0.06, 1, 1))
    show()


def _rounded(times: float) -> str:
    """Two digits: 1,300."""
    return f"{float(f'{times:.2g}'):,.0f}" if times < 1e6 else "over a million"


def _draw(axis, asked: Sequence[tuple], chosen: list[int], after: Callable, names: dict[int, str], shown: int) -> dict:
    """The tree of hypotheses, the chosen one straight along the top. Returns every node's sum of log-probabilities.

    asked: the prefixes that were alive. shown: how many continuations of each are drawn, if not dropped for certain."""
    live, path = set(asked), {tuple(chosen[: end + 1]) for end in range(len(chosen))}
    nodes = _nodes(asked, live | path, after, shown)
    lanes = _lanes(nodes, path, live)
    looks = {
        "chosen": (VALUE, 2.4, "bold"),
        "alive": (QUERY, 1.2, "normal"),
        "finished": (KEY, 1.2, "normal"),
        "dropped": (EDGE, 0.9, "normal"),
    }
    for node in nodes:
        kind = _kind(node, nodes, live, path)
        colour, width, weight = looks[kind]
        x, y = len(node), -lanes[node]
        if len(node) > 1:
            axis.plot([x - 0.68, x - 0.4, x], [-lanes[node[:-1]], y, y], color=colour, lw=width, zorder=1)
            axis.plot([x - 1, x - 0.68], [-lanes[node[:-1]]] * 2, color=colour, lw=width, zorder=1 + (kind == "chosen"))
        words = "<start>" if len(node) == 1 else f"{names[node[-1]]}\n{_signed(nodes[node])}"
        axis.text(
            x,
            y,
            words,
            ha="center",
            va="center",
            fontsize=8,
            color=as_text(OUTPUT if kind == "dropped" else colour),
            weight=weight,
            bbox={"boxstyle": "square,pad=0.12", "fc": "white", "ec": "none"},
            zorder=3,
        )
    axis.set(xlim=(0.5, max(map(len, nodes)) + 0.5), ylim=(-max(lanes.values()) - 0.55, 0.55))
    axis.axis("off")
    return nodes


def _nodes(asked: Sequence[tuple], kept: set[tuple], after: Callable, shown: int) -> dict[tuple, float]:
    """What was alive, and its likeliest continuations: token by token, with the sum of the log-probabilities."""
    nodes = {(START,): 0.0}
    for prefix in asked:
        log_p = after(prefix)
        best = log_p.topk(shown).indices.tolist()
        for token in range(len(log_p)):
            if (*prefix, token) in kept or (token in best and log_p[token] > -5):
                nodes[(*prefix, token)] = nodes[prefix] + float(log_p[token])
    return nodes


def _lanes(nodes: dict[tuple, float], path: set[tuple], live: set[tuple]) -> dict[tuple, int]:
    """The height of each node, from the top: a hypothesis goes on in its lane, other continuations get one below."""
    lanes, count = {(START,): 0}, 0
    waiting = [(START,)]
    while waiting:
        node = waiting.pop()
        if node not in lanes:
            count += 1
            lanes[node] = count
        children = [child for child in nodes if child[:-1] == node]
        children.sort(key=lambda child: (child in path, child in live, nodes[child]), reverse=True)
        if children:
            lanes[children[0]] = lanes[node]
        waiting += [*reversed(children[1:]), *children[:1]]
    return lanes


def _kind(node: tuple, nodes: dict[tuple, float], live: set[tuple], path: set[tuple]) -> str:
    """chosen, alive, finished (its end came while it was among the best) or dropped."""
    if node in path or node in live:
        return "chosen" if node in path else "alive"
    beside = [nodes[other] for other in nodes if len(other) == len(node) and other in live]
    ends = [nodes[other] for other in nodes if len(other) == len(node) and other[-1] == END]
    return "finished" if node[-1] == END and nodes[node] >= min(beside, default=max(ends, default=0.0)) else "dropped"


def _signed(number: float) -> str:
    return f"{number + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _key(figure) -> None:
    """What the colours and numbers mean, below the trees."""
    words = (
        ("chosen", VALUE, 0.02),
        ("alive", QUERY, 0.1),
        ("finished, not the best", KEY, 0.165),
        ("dropped", OUTPUT, 0.325),
    )
    for word, colour, x in words:
        figure.text(x, 0.02, word, fontsize=9, color=as_text(colour), weight="bold" if word == "chosen" else "normal")
    figure.text(0.41, 0.02, "number: sum of log-probabilities, 0 is certain", fontsize=9, color=OUTPUT)
