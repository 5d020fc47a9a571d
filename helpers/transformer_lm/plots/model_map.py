"""The whole language model on one page: its parts on the way of a text, and the sections in which each is built."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from helpers.sections import heading
from helpers.style import EDGE, KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT, as_text, ink, show

from .. import grammar
from ..ablations import STORIES

__all__ = ["model_map"]

READ = ("Ada", "Stone", "meets")
NEXT = [name for name in grammar.FIRST if name != READ[0]]
"""What the grammar lets follow on `READ`, each as likely as the others."""
STREAM = 2.0


def model_map() -> None:
    """This unit's model from left to right: words, embedding, blocks that add to a stream, norm, head, next word."""
    _, axis = plt.subplots(figsize=(10.8, 3.9), layout="none")
    axis.set_position((0, 0, 1, 1))
    axis.set(xlim=(-0.1, 12.7), ylim=(-0.15, 4.55))
    axis.axis("off")
    _stream(axis)
    _block(axis)
    _ends(axis)
    _around(axis)
    show(
        f"The language model as a line of parts: the words {' '.join(READ)}, the embedding, {STORIES.layers} blocks in "
        "which attention and a small network each read the stream through a norm and add to it, a last norm, the head, "
        f"and the chances of the next word: {', '.join(NEXT)} with one third each. With every part stands the section "
        "that builds it."
    )


def _number(exercise: str) -> str:
    return heading(exercise).partition(" ")[0]


def _stream(axis: Axes) -> None:
    axis.annotate(
        "",
        (9.0, STREAM),
        (1.0, STREAM),
        arrowprops={"arrowstyle": "-|>", "lw": 5, "color": EDGE, "shrinkA": 0, "shrinkB": 0},
    )
    axis.text(2.98, STREAM - 0.22, f"stream\n{_number('residual')}", ha="center", va="top", fontsize=9, color=OUTPUT)


def _part(axis: Axes, x: float, y: float, words: str, number: str, colour: str, width: float = 1.3) -> None:
    """A box with the part's name, and the section that builds it in bold below the name."""
    axis.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - 0.37), width, 0.74, boxstyle="round,pad=0.04", fc=colour, ec="none", zorder=3
        )
    )
    axis.text(x, y + 0.15, words, ha="center", va="center", fontsize=9.5, color=ink(colour), zorder=4)
    axis.text(x, y - 0.18, number, ha="center", va="center", fontsize=9.5, color=ink(colour), weight="bold", zorder=4)


def _block(axis: Axes) -> None:
    """The block: twice a branch that leaves the stream, and comes back at a plus sign."""
    frame = FancyBboxPatch((3.5, 1.35), 5.2, 2.55, boxstyle="round,pad=0.08", fc=MASKED, ec=EDGE, lw=1.2, zorder=0)
    axis.add_patch(frame)
    title = f"the block, {_number('transformer_block')}: {STORIES.layers} of them, one after another"
    axis.text(6.1, 1.55, title, fontsize=9.5, color=OUTPUT, va="center", ha="center")
    norms = f"{_number('layer_norm')}, {_number('rms_norm')}"
    for start, layer, made, colour in (
        (3.62, "attention", "unit 04", QUERY),
        (6.2, "small network", _number("feed_forward"), VALUE),
    ):
        plus, norm = start + 2.35, start + 0.55
        axis.plot([start, start, plus, plus], [STREAM, 3.1, 3.1, STREAM + 0.16], color=OUTPUT, lw=1.5, zorder=1)
        _part(axis, norm, 3.1, "norm", norms, KEY, 0.78)
        _part(axis, norm + 1.15, 3.1, layer, made, colour, 1.12)
        axis.text(
            plus,
            STREAM,
            "+",
            ha="center",
            va="center",
            fontsize=12,
            zorder=4,
            bbox={"boxstyle": "circle,pad=0.2", "fc": "white", "ec": OUTPUT},
        )


def _ends(axis: Axes) -> None:
    """What goes in on the left, and what comes out on the right."""
    for row, word in enumerate(READ):
        axis.text(0.45, STREAM + 0.5 * (1 - row), word, ha="center", va="center", fontsize=11)
    _part(axis, 1.9, STREAM, "embedding", _number("DecoderLM"), OUTPUT, 1.15)
    _part(axis, 9.45, STREAM, "norm", _number("layer_norm"), KEY, 0.75)
    _part(axis, 10.5, STREAM, "head", _number("DecoderLM"), OUTPUT, 0.85)
    axis.annotate("", (11.35, STREAM), (11.0, STREAM), arrowprops={"arrowstyle": "-|>", "lw": 2, "color": EDGE})
    for row, name in enumerate(NEXT):
        y = STREAM + 0.5 * (1 - row)
        axis.barh(y, 0.45, left=11.95, height=0.34, color=WEIGHT)
        axis.text(11.88, y, name, ha="right", va="center", fontsize=10)
        axis.text(12.45, y, "⅓", va="center", fontsize=10)


def _around(axis: Axes) -> None:
    """Positions, the loss and training, and the word that comes back as input."""
    first, last = _number("binary_positions"), _number("rotary_embedding")
    axis.text(
        5.32,
        4.38,
        f"where each token stands: {first} to {last}",
        ha="center",
        va="center",
        fontsize=9.5,
        color=as_text(QUERY),
    )
    axis.annotate("", (5.32, 3.52), (5.32, 4.24), arrowprops={"arrowstyle": "-|>", "color": QUERY, "lw": 1.3}, zorder=5)
    loss = (
        f"how wrong is that? the loss {_number('next_token_loss')}\ntraining {_number('learning_rate')}, "
        f"{_number('train')}"
    )
    axis.text(12.6, 3.42, loss, ha="right", va="center", fontsize=9.5, color=as_text(WEIGHT), linespacing=1.5)
    back = FancyArrowPatch(
        (12.1, 1.15),
        (0.45, 1.15),
        connectionstyle="bar,fraction=-0.06",
        arrowstyle="-|>",
        mutation_scale=14,
        color=OUTPUT,
        lw=1.3,
    )
    axis.add_patch(back)
    writing = f"writing {_number('generate')}: one word is drawn and comes back as input"
    axis.text(6.3, 0.12, writing, ha="center", va="center", fontsize=9.5, color=OUTPUT)
