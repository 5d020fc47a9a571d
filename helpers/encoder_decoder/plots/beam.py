"""A beam search as a film: a row of hypotheses a step, the kept ones in their places, the dropped ones struck out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from helpers.board import Board, faint
from helpers.film import film, play
from helpers.style import EDGE, FAINT_QUERY, OUTPUT, QUERY, VALUE, waits_for

from .. import tasks
from ..decoding import length_penalty, next_log_probs_of
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
ACROSS, DOWN, TOP = 2.25, 1.75, 1.8  # from hypothesis to hypothesis, from step to step, above the first: in cells
LONGEST = tasks.LONGEST + 1  # tokens of a translation, with its end
DROPPED, UNLIKELY = 2, -12.0  # how many are shown in each step, and from which sum on
Rows = dict[tuple[int, ...], Tensor]
"""Log-probabilities of the next token, by prefix."""


def _after(prefix: tuple[int, ...]) -> Tensor:
    chances = torch.full((8,), 1e-6)
    for token, chance in CHANCES.get(prefix[1:], {END: 1.0}).items():
        chances[token] = chance
    return (chances / chances.sum()).log()


@waits_for("beam_search")
def beam_of_a_tree(beam_search: Callable, k: int = 2, alpha: float = 0.6) -> None:
    """Your search on a tree of six words, once with one hypothesis and once with k."""

    def next_log_probs(prefixes: Tensor) -> Tensor:
        return torch.stack([_after(tuple(row)) for row in prefixes.tolist()])

    play(_film([_watched(beam_search, next_log_probs, places, 6, alpha) for places in (1, k)], NAMES))


@waits_for("beam_search")
def beam_of_a_translation(beam_search: Callable, trained: Trained, sentence: str, k: int = 3) -> None:
    """Your search in a trained model, on the sentence without one word: one without which one hypothesis and k find
    different sentences, or else the one that leaves the model in most doubt."""
    words = sentence.split()
    found = []
    for place in range(len(words)):
        source = tasks.numbered([(*words[:place], *words[place + 1 :])], tasks.ENGLISH)[0]
        model = next_log_probs_of(trained.model, source)
        found.append([_watched(beam_search, model, places, LONGEST, 0.6) for places in (1, k)])
    place = min(range(len(words)), key=lambda i: (found[i][0].tokens == found[i][1].tokens, found[i][0].score))
    greedy, wide = found[place]
    names = dict(enumerate(tasks.ESPERANTO))
    said = f"“{' '.join([*words[:place], '…', *words[place + 1 :]])}”. "
    with_one = f" With k = 1 your search returns {_named(greedy.tokens, names)}, score {_signed(greedy.score)}."
    play(_film([wide], names, said, with_one))


@dataclass(frozen=True)
class Search:
    """What a search asked in each step, and what it returned."""

    k: int
    alpha: float
    asked: list[Rows]
    tokens: tuple[int, ...]
    score: float


def _watched(search: Callable, model: Callable, k: int, longest: int, alpha: float) -> Search:
    asked: list[Rows] = []

    def next_log_probs(prefixes: Tensor) -> Tensor:
        log_p = model(prefixes)
        asked.append(dict(zip(map(tuple, prefixes.tolist()), log_p.clone(), strict=True)))
        return log_p

    tokens, score = search(next_log_probs, k, longest, alpha)
    return Search(k, alpha, asked, (START, *(int(token) for token in tokens)), float(score))


@dataclass(frozen=True)
class Node:
    """A hypothesis: its tokens, the sum of their log-probabilities, its place in the row of its step."""

    tokens: tuple[int, ...]
    total: float
    place: int
    kept: bool


def _steps(search: Search) -> list[list[Node]]:
    """The hypotheses of each step. What ends keeps its place for good; what is dropped stands beyond the k places."""
    steps, taken = [[Node((START,), 0.0, 0, True)]], set[int]()
    for step in range(len(search.asked)):
        kept, dropped = _divided(search, step, steps[-1], search.k - len(taken))
        free = (place for place in count() if place not in taken)
        row = [Node(tokens, total, next(free), True) for total, tokens in kept]
        beyond = count(max([search.k, *(node.place + 1 for node in row)]))
        steps.append(row + [Node(tokens, total, next(beyond), False) for total, tokens in dropped])
        taken |= {node.place for node in row if node.tokens[-1] == END}
    return steps


def _divided(search: Search, step: int, before: Sequence[Node], places: int) -> tuple[list, list]:
    """Of the continuations, as (sum, tokens) from the best on: those that were asked next or have ended in a free place
    (after the last step: the best), and the best of the others."""
    rows, asked = search.asked[step], search.asked[step + 1 : step + 2]
    continued = [
        (node.total + log_p, (*node.tokens, token))
        for node in before
        if node.tokens in rows
        for token, log_p in enumerate(rows[node.tokens].tolist())
    ]
    found = sorted(continued, reverse=True)
    best = found[: max(0, places)]
    kept = [one for one in found if one in best and one[1][-1] == END or one[1] in asked[0]] if asked else best
    return kept, [one for one in found if one not in kept and one[0] > UNLIKELY][:DROPPED]


def _film(searches: Sequence[Search], names: dict[int, str], before: str = "", after: str = "") -> str:
    """The searches side by side, a frame a step, and one for the scores. before, after: words of the captions."""
    trees, left = [], 0.0
    for search in searches:
        trees.append(Tree(search, _steps(search), names, left))
        left = trees[-1].right + 0.4
    depth = max(len(tree.steps) for tree in trees)
    board = Board(left - 0.4, TOP + DOWN * depth + 1)

    def frame(step: int) -> str:
        board.wipe()
        for tree in trees:
            tree.draw(board, min(step, len(tree.steps) - 1), depth, scored=step == depth)
        if step == depth:
            return f"{before}{' '.join(tree.returned() for tree in trees)}{after}"
        return f"{before}Step {step}. {' '.join(tree.said(step) for tree in trees)}"

    described = (
        "A beam search step by step: a row for each step, with the hypotheses that are kept in bold, those that are "
        "dropped struck out, and in the end the scores of all that are left."
    )
    return film(board, frame, range(1, depth + 1), described)


@dataclass(frozen=True)
class Tree:
    """One search on the board. left: its place there, in cells."""

    search: Search
    steps: list[list[Node]]
    names: dict[int, str]
    left: float

    @property
    def right(self) -> float:
        return self._x(max(node.place for row in self.steps for node in row)) + ACROSS / 2

    def left_over(self, step: int) -> list[Node]:
        """What has ended until this step, and what is alive in it."""
        kept = [node for row in self.steps[: step + 1] for node in row if node.kept]
        return [node for node in kept if node.tokens[-1] == END or node in self.steps[step]]

    def draw(self, board: Board, step: int, depth: int, scored: bool) -> None:
        """All steps up to this one. depth: where the scores stand."""
        self._ground(board, depth)
        left_over = self.left_over(step)
        colors = {node.tokens[:end]: QUERY for node in left_over for end in range(1, len(node.tokens) + 1)}
        if scored:
            colors |= {self.search.tokens[:end]: VALUE for end in range(1, len(self.search.tokens) + 1)}
        places = {node.tokens: node.place for row in self.steps for node in row if node.kept}
        for y, row in enumerate(self.steps[: step + 1]):
            for node in row:
                self._node(board, node, y, colors.get(node.tokens, EDGE), places.get(node.tokens[:-1]))
        for node in left_over if scored else ():
            self._score(board, node, depth, colors[node.tokens])

    def _x(self, place: int) -> float:
        return self.left + (place + 0.5) * ACROSS

    def _ground(self, board: Board, depth: int) -> None:
        k, bottom = self.search.k, TOP + DOWN * depth + 1
        right = self.left + k * ACROSS
        board.box(self.left, 0, right - self.left, bottom, faint(FAINT_QUERY, 0.35))
        board.text((self.left + right) / 2, 0.6, f"k = {k}", size=11)
        if self.right > right:
            board.text((right + self.right) / 2, 0.6, "dropped", size=11)

    def _node(self, board: Board, node: Node, step: int, color: str, parent: int | None) -> None:
        x, y, bold = self._x(node.place), TOP + DOWN * step, color != EDGE
        word = self.names[node.tokens[-1]] if step else "<start>"
        if parent is not None:
            board.line(
                (self._x(parent), y - DOWN + (0.75 if step > 1 else 0.4)),
                (x, y - 0.4),
                colour=color,
                width=2.4 if bold else 1.0,
            )
        board.text(x, y, word, colour=color if bold else OUTPUT, size=10.5, bold=bold)
        if step:
            board.text(x, y + 0.5, _signed(node.total), colour=color if bold else OUTPUT, size=9)
        if not node.kept:
            board.line(
                (x - 0.1 * len(word) - 0.2, y + 0.03), (x + 0.1 * len(word) + 0.2, y + 0.03), colour=OUTPUT, width=1.2
            )

    def _score(self, board: Board, node: Node, depth: int, color: str) -> None:
        """The sum over the length penalty, at the foot of the place."""
        x, y, length = self._x(node.place), TOP + DOWN * depth, len(node.tokens) - 1
        penalty = length_penalty(length, self.search.alpha)
        board.line((x, TOP + DOWN * length + 0.75), (x, y - 0.4), colour=color, width=1.0)
        board.text(x, y, f"{_signed(node.total)} ÷ {penalty:.2f}", colour=color, size=9)
        board.text(x, y + 0.5, f"= {_signed(node.total / penalty)}", colour=color, size=10.5, bold=True)

    def said(self, step: int) -> str:
        """What is kept in a step, and the best that is dropped."""
        if step >= len(self.steps):
            return f"k = {self.search.k} has ended."
        listed = [
            [
                f"{_named(node.tokens, self.names)} {_signed(node.total)}"
                for node in self.steps[step]
                if node.kept is kept
            ]
            for kept in (True, False)
        ]
        kept, dropped = listed
        return f"k = {self.search.k} keeps {', '.join(kept)}" + (f" and drops {dropped[0]}." if dropped else ".")

    def returned(self) -> str:
        return (
            f"k = {self.search.k} returns {_named(self.search.tokens, self.names)}, score {_signed(self.search.score)}."
        )


def _named(tokens: Sequence[int], names: dict[int, str]) -> str:
    """The words of a hypothesis, the last three at most."""
    words = [names[token] for token in tokens[1:]]
    return f"“{'… ' * (len(words) > 3)}{' '.join(words[-3:])}”"


def _signed(number: float) -> str:
    return f"{number + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")
