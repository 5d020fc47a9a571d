"""Where trained heads look: the words of a story in a row, and arcs from the word that asks."""

import random
from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor, nn

from helpers import paper
from helpers.film import film, play
from helpers.style import KEY, OCHRE, OUTPUT, PINK, QUERY, RED, SKY, as_text

from .. import grammar
from ..ablations import STORIES
from ..positions import rotary_embedding
from .training import trained_model

__all__ = ["trained_heads"]

PITCH, LETTER, LINE, LEAST = 22, 17, 25, 0.1
"""Pixels from word to word, of a letter, from line to line of the list of heads; the smallest weight with an arc."""
COLORS = SKY, RED, OCHRE, PINK
GROUND, DEEP = 4 * LINE + 220, 75
"""Where the arcs stand, and how far the words reach below: pixels."""


@torch.no_grad()
def trained_heads(story: str = "") -> None:
    """The four trained heads that look most where `looks` says, on one story, as a film: one word asks in each frame.
    One of them is an induction head (Olsson et al., 2022). The number of a head is its mean weight on its places, over
    40 other stories."""
    if not (model := trained_model()):
        return
    words, scores = (story or TOLD).split(), head_scores(model)
    chosen = [divmod(int(found.argmax()), STORIES.h) for found in scores.values()]
    maps = attention_maps(model, words)
    names = [
        f"{place} (layer {layer}, head {head}; on average {found.max():.2f})"
        for (layer, head), (place, found) in zip(chosen, scores.items())
    ]
    places = [looks(words)[place] for place in scores]
    play(_film(torch.stack([maps[layer][head] for layer, head in chosen]), ["<end>", *words], names, places))


def _film(weights: Tensor, words: Sequence[str], names: Sequence[str], places: Sequence[Sequence]) -> str:
    """weights: (heads, n, n). places: for each head the pairs (row, column) for which it was chosen."""
    row = _Row(weights, words, names, [{asks for asks, _ in pairs} for pairs in places])
    described = (
        "The words of a story in a row. From the word that asks, arcs lead to the words it looks at, as thick as the "
        "weights, in one color for each of four heads."
    )
    along = [(place + 0.5) / len(words) for place in range(len(words))]
    still = _farthest(weights, places)
    return film(row, row.ask, range(len(words)), described, milliseconds=1000, still=still, along=along)


def _farthest(weights: Tensor, places: Sequence[Sequence]) -> int:
    """The word that looks farthest back where it should: weight times distance."""
    reach = torch.zeros(weights.shape[1])
    for grid, pairs in zip(weights, places):
        for asks, found in pairs:
            reach[asks] += grid[asks, found] * (asks - found)
    return int(reach.argmax())


class _Row:
    """The drawing: a list of the heads, the words below, arcs in between."""

    def __init__(self, weights: Tensor, words: Sequence[str], names: Sequence[str], due: Sequence[set[int]]) -> None:
        self.weights, self.words, self.names, self.due, self.asking = weights, words, names, due, 0
        self.width = PITCH * len(words)

    def ask(self, asking: int) -> str:
        """Let a word ask, and say where its heads look most."""
        self.asking = asking
        found = [(*grid[asking].max(dim=0), letter) for grid, letter in zip(self.weights, "ABCD")]
        found.sort(key=lambda one: -one[0])
        listed = [f"{self._named(int(at))} (head {letter}: {weight:.2f})" for weight, at, letter in found]
        return f"“{self.words[asking]}” looks most at {', '.join(listed)}."

    def _named(self, at: int) -> str:
        return f"“{self.words[at]}” {self.asking - at} back" if at < self.asking else "itself"

    def svg(self) -> str:
        """The word that asks, with the arcs of all heads."""
        heads = [self._head(head, color) for head, color in enumerate(COLORS[: len(self.weights)])]
        return paper.svg("".join([*heads, self._words()]), self.width, GROUND + DEEP)

    def _head(self, head: int, color: str) -> str:
        """Its line in the list, bold where this word is one of its places; its arcs; its letter on the thickest."""
        row, letter = self.weights[head, self.asking], "ABCD"[head]
        bold = "bold" if self.asking in self.due[head] else "normal"
        arcs = "".join(self._arc(at, row[at].item(), head) for at in (row > LEAST).nonzero().flatten().tolist())
        most = int(row.argmax())
        top, middle = GROUND - self._height(most, head), (most + self.asking + 1) / 2 * PITCH
        return (
            f'<g fill="none" stroke="{color}" stroke-opacity=".8">{arcs}</g>'
            f'<g fill="{as_text(color)}" font-size="{LETTER}" font-weight="{bold}" stroke="#fff" stroke-width="4" '
            f'paint-order="stroke"><text x="4" y="{LINE * head + 19}">{letter}: {escape(self.names[head])}</text>'
            f'<text x="{middle:g}" y="{top + 6:.0f}" text-anchor="middle">{letter}</text></g>'
        )

    def _height(self, at: int, head: int) -> float:
        """As the root of its width: long arcs fit in, and short ones can be seen. A head's own, where two agree."""
        return 24 * max(0.5, self.asking - at) ** 0.5 + 17 * head

    def _arc(self, at: int, weight: float, head: int) -> str:
        start, end = (self.asking + 0.5) * PITCH, (at + 0.5) * PITCH
        if at == self.asking:
            start, end = start + PITCH / 3, end - PITCH / 3
        across, up = (start - end) / 2, self._height(at, head)
        path = f"M{start:.4g} {GROUND}A{across:.4g} {up:.0f} 0 0 0 {end:.4g} {GROUND}"
        return f'<path stroke-width="{8 * weight:.1f}" d="{path}"/>'

    def _words(self) -> str:
        """Upwards, each below its place: the one that asks is blue, those that it looks at are orange."""
        seen = self.weights[:, self.asking].amax(dim=0) > 0.2
        written = []
        for at, word in enumerate(self.words):
            color = QUERY if at == self.asking else KEY if seen[at] else ""
            look = f' fill="{as_text(color)}" font-weight="bold"' if color else ""
            written.append(f'<text x="{-GROUND - 8}" y="{(at + 0.5) * PITCH + 6:g}"{look}>{escape(word)}</text>')
        group = f'fill="{OUTPUT}" font-size="{LETTER}" text-anchor="end" transform="rotate(-90)"'
        return f"<g {group}>{''.join(written)}</g>"


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
