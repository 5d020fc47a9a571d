"""Draw a score: as HTML for notebooks and feedback, as text for everything else.

The HTML is self-contained and brings its own colours, so that it reads the same in JupyterLab, Colab, a dark theme and
nbgrader's feedback pages. Everything that comes from a student is escaped.
"""

import re
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import torch
from torch import Tensor

GREEN, AMBER, RED, GREY = "#1a7f4b", "#b26a00", "#b3261e", "#5f6368"
ACRONYMS = {
    word.lower(): word for word in ("RNN", "QKV", "GFLOPs", "FLOPs", "IO", "KV", "MQA", "GQA", "ViT", "HBM", "LM")
}
LARGEST_DRAWN = 8  # rows and columns of a matrix that are still readable as numbers


@dataclass(frozen=True)
class Item:
    """One line of the card. `counts` is False for a line that only informs."""

    label: str
    passed: bool
    note: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Picture:
    """The first failing case, for the card to draw: two tensors of one shape."""

    label: str
    expected: Any
    got: Any


class Result(Protocol):
    """What a card is drawn of: a number of points, and what led to it (see `Score`)."""

    exercise: str
    points: float
    items: tuple[Item, ...]
    diagnosis: str | None
    message: str
    pictures: tuple[Picture, ...]
    parts: tuple["Result", ...]

    @property
    def full(self) -> bool: ...

    def __float__(self) -> float: ...


def text(score: Result) -> str:
    """The card in plain text."""
    lines = [_headline(score)]
    for part in score.parts or (score,):
        lines += [f"  {part.exercise}: {_points(part)}"] if score.parts else []
        lines += [f"  {_mark(item)} {item.label}" for item in part.items]
    return "\n".join([*lines, *([score.message] if score.message else [])])


def html(score: Result) -> str:
    """The card as self-contained HTML."""
    body = "".join(_part(part, titled=True) for part in score.parts) if score.parts else _part(score, titled=False)
    colour = _colour(score)
    return (
        f'<div style="border:1px solid #dadce0;border-left:6px solid {colour};border-radius:6px;padding:10px 14px;margin:6px 0;'
        'max-width:52rem;background:#fff;color:#202124;font:14px/1.5 system-ui,sans-serif">'
        f'<div style="font-weight:600;color:{colour}">{escape(_headline(score))}</div>{body}</div>'
    )


def title(exercise: str) -> str:
    """`rnn_encoder` → `RNN encoder`; a class name stays as it is."""
    if not exercise.islower():
        return exercise
    words = [ACRONYMS.get(word, word) for word in exercise.split("_")]
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


def _headline(score: Result) -> str:
    return f"{title(score.exercise)} · {_points(score)}"


def _points(score: Result) -> str:
    plural = "" if score.points == 1 else "s"
    return f"{_number(float(score))} of {_number(score.points)} point{plural}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _colour(score: Result) -> str:
    if score.full:
        return GREEN
    return GREY if score.diagnosis == "not attempted" else AMBER if float(score) > 0 else RED


def _mark(item: Item) -> str:
    return "✓" if item.passed else "✗"


def _part(score: Result, *, titled: bool) -> str:
    head = f'<div style="margin-top:6px;font-weight:600">{escape(_headline(score))}</div>' if titled else ""
    items = "".join(_item(item) for item in score.items)
    message = _message(score) if score.message else ""
    return head + f'<div style="margin-top:4px">{items}</div>' + message + "".join(map(_picture, score.pictures))


def _item(item: Item) -> str:
    colour = GREEN if item.passed else RED
    return (
        f'<span style="display:inline-block;margin-right:16px"><span style="color:{colour};font-weight:700">{_mark(item)}</span> '
        f"{escape(item.label)}</span>"
    )


def _message(score: Result) -> str:
    words = escape(score.message).replace("\n", "<br>")
    if score.diagnosis and score.diagnosis in score.message:
        name = escape(score.diagnosis)
        words = words.replace(name, f"<b>{name}</b>", 1)
    words = re.sub(r"\*(\w[^*\n]*)\*", r"<i>\1</i>", words)
    words = re.sub("`([^`\n]+)`", r'<code style="background:#e8eaed;padding:0 3px;border-radius:3px">\1</code>', words)
    lead = "" if score.diagnosis == "not attempted" else "<b>What happened.</b> "
    return f'<div style="margin-top:8px;background:#f6f7f9;border-radius:4px;padding:8px 10px">{lead}{words}</div>'


def _picture(picture: Picture) -> str:
    expected, got = _matrices(picture.expected), _matrices(picture.got)
    window = _worst(expected, got) if expected.shape == got.shape else (0, 0, 0)
    expected, got = _window(expected, *window), _window(got, *window)
    tables = [_table("expected", expected), _table("yours", got)]
    if picture.expected.shape == picture.got.shape:
        tables.append(_table("difference", got - expected))
    row = "".join(f'<div style="display:inline-block;vertical-align:top;margin:0 18px 4px 0">{t}</div>' for t in tables)
    return f'<div style="margin-top:8px;overflow-x:auto"><div style="color:{GREY}">{escape(picture.label)}</div>{row}</div>'


def _matrices(tensor: Tensor) -> Tensor:
    """A tensor of any rank as a stack of matrices in float64, (k, rows, columns)."""
    tensor = tensor.detach().cpu()
    tensor = (tensor.abs() if tensor.is_complex() else tensor).to(torch.float64)
    return tensor.reshape(1, 1, -1) if tensor.dim() < 2 else tensor.reshape(-1, *tensor.shape[-2:])


def _worst(expected: Tensor, got: Tensor) -> tuple[int, int, int]:
    """Which matrix, and which corner of it, to draw so that the largest difference is in sight."""
    gap = (got - expected).abs().nan_to_num(torch.inf)
    which, row, column = (int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
    return which, *(max(0, min(i - LARGEST_DRAWN // 2, size - LARGEST_DRAWN))
                    for i, size in zip((row, column), gap.shape[1:], strict=True))  # fmt: skip


def _window(matrices: Tensor, which: int, row: int, column: int) -> Tensor:
    return matrices[which, row : row + LARGEST_DRAWN, column : column + LARGEST_DRAWN]


def _table(name: str, matrix: Tensor) -> str:
    finite = matrix[matrix.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    rows = "".join("<tr>" + "".join(_cell(value, largest) for value in row) + "</tr>" for row in matrix.tolist())
    return (
        f'<div style="color:{GREY};font-size:12px">{name} {"×".join(map(str, matrix.shape))}</div>'
        f'<table style="border-collapse:collapse;margin:0;border:0">{rows}</table>'
    )


def _cell(value: float, largest: float) -> str:
    """Blue for positive, orange for negative, deeper for larger; red where there is no number."""
    finite = abs(value) != float("inf") and value == value
    strength = abs(value) / largest if finite and largest else 0.0
    colour = f"rgba({'33,102,172' if value > 0 else '214,96,17'},{0.75 * strength:.2f})" if finite else "#f28b82"
    return (
        f'<td style="background:{colour};color:#202124;border:1px solid #e8eaed;padding:1px 5px;text-align:right;'
        f'font:12px ui-monospace,monospace">{value:.2f}</td>'
    )
