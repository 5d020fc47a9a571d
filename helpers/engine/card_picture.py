"""Draw the first wrong tensor beside the right one: as tables of HTML, and as text.

One scale of colours for expected, yours and difference together; a difference within the tolerance has none, nor have
whole numbers, which are names of tokens and places more often than amounts. What is off has a red border and bold type.
Truth values are cells that are filled or empty. Where an output only moves numbers of its input about, every number
goes by its place there: a0 is the first number of the first row.
"""

import math
import string
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

from helpers.palette import MASKED, MAY_ATTEND

from .card_style import GREY, INK, NO_NUMBER, PAPER, RED, SHADE, style, tint
from .compare import same_kind_of_numbers

LONGEST_SIDE, MOST_NUMBERS = 16, 96  # of a matrix that is drawn whole
WINDOW = 8  # rows and columns that are drawn of a larger one; of a mask as many as its longest side
LETTERS = string.ascii_letters
FILLED, EMPTY = MAY_ATTEND, MASKED
MOST_DECIMALS = 6


@dataclass(frozen=True)
class Picture:
    """A failing case, for the card to draw.

    within: (relative, absolute) tolerance. axes: what the last axes of the tensors are called, in the plural, as far as
    that is known. source: the input whose numbers the output holds in another order, if it is that kind of answer.
    """

    label: str
    expected: Tensor
    got: Tensor
    within: tuple[float, float] = (0.0, 0.0)
    axes: tuple[str, ...] = ()
    source: Tensor | None = None


@dataclass(frozen=True)
class Panel:
    """One table: its cells as words, what colours them, which are off, and the numbers of its first row and column
    (None for a single number, and for the one row of a vector).

    cut: what of rows and columns is drawn, if not all. alien: its shape or kind of number is not the expected one."""

    name: str
    size: str
    cells: list[list[str]]
    grounds: list[list[str]]
    off: list[list[bool]]
    first: tuple[int | None, int] | None
    cut: str = ""
    alien: bool = False

    @property
    def title(self) -> str:
        return f"{self.name} {self.size}".rstrip()


def html(picture: Picture) -> str:
    """The tables side by side, under a line that says what they show."""
    block = style(colour=INK, ground=PAPER, display="inline-block", vertical_align="top", margin="0 18px 6px 0")
    drawn = panels(picture)
    words = [word for panel in drawn for row in panel.cells for word in row]
    width = max(map(len, words), default=0)  # one for all, so that columns stand below each other
    tables = "".join(f"<div {block}>{_table(panel, width)}</div>" for panel in drawn)
    about = f"<div {style(colour=GREY, ground=PAPER)}>{escape(caption(picture))}</div>"
    around = style(colour=INK, ground=PAPER, margin_top="8px", overflow_x="auto")
    return f'<div tabindex="0" {around}>{about}{tables}</div>'  # where it is too wide, a keyboard scrolls it


def text(picture: Picture) -> list[str]:
    """The same in lines of text; a star stands at what is off."""
    lines = [caption(picture)]
    for panel in panels(picture):
        words = [
            [cell + "*" * off for cell, off in zip(*row, strict=True)]
            for row in zip(panel.cells, panel.off, strict=True)
        ]
        width = max((len(word) for row in words for word in row), default=0)
        lines += [
            panel.title + "*" * panel.alien + f" · only {panel.cut}" * bool(panel.cut),
            *("  " + " ".join(word.rjust(width) for word in row) for row in words),
        ]
    return lines


def caption(picture: Picture) -> str:
    """The case, what rows and columns are, which matrix of several is shown, and what a0 means."""
    which = _place(picture)[0]
    words = [picture.label]
    rows, columns = ("", "", *picture.axes)[-2:]
    named = [f"{what} are {axis}" for what, axis in (("rows", rows), ("columns", columns)) if len(axis) > 1]
    if named and picture.expected.dim() > 1:
        other = "expected: " * (picture.expected.shape != picture.got.shape)  # what yours are nobody knows
        words.append(other + ", ".join(named).replace(", columns are", ", columns"))
    elif len(columns) > 1 and picture.expected.dim() == 1:
        words.append(f"columns are {columns}")
    if picture.expected.dim() > 2 and picture.expected.shape == picture.got.shape:
        shown = _shown(picture, which)
        words += [f"shown: {shown}"] * bool(shown)
    if picture.source is not None:
        words.append("a0 is the first number of the first row of the input, b0 that of the second")
    return " · ".join(words)


def panels(picture: Picture) -> list[Panel]:
    """Expected, yours and, where it can be taken and says more, their difference."""
    expected, got, comparable = _windows(picture)
    first = None if expected.numel() == got.numel() == 1 else _place(picture)[1:] if comparable else (0, 0)
    off = _off(expected, got, picture.within) if comparable else None
    names = _names(picture.source) if picture.source is not None else None
    same_shape = picture.expected.shape == picture.got.shape
    kinds = _kinds(picture)
    write, largest = _writer(expected, got, off), max(_largest(expected), _largest(got))

    def panel(
        name: str, matrix: Tensor, size: torch.Size, marked: Tensor | None, word: Callable, ground: Callable
    ) -> Panel:
        rows = matrix.tolist()
        wrong = marked.tolist() if marked is not None else [[False] * len(row) for row in rows]
        shaded = name != "difference"  # an infinity that is right is no alarm
        grounds = [
            [SHADE if shaded and math.isinf(x) and not bad else ground(x) for x, bad in zip(*line)]
            for line in zip(rows, wrong, strict=True)
        ]
        return Panel(
            name,
            " ".join(filter(None, (_size(size) or "()" * (not same_shape), kinds.get(name)))),
            [[word(x) for x in row] for row in rows],
            grounds,
            wrong,
            (None, first[1]) if first and len(size) == 1 else first,
            _cut(size, rows, first),
            alien=name == "yours" and bool(kinds or not same_shape),
        )

    scaled = picture.expected.is_floating_point() and got.dtype != torch.bool
    shade = (lambda x: _ground(x, largest)) if scaled else (lambda x: PAPER)
    both = (("expected", expected, picture.expected.shape, None), ("yours", got, picture.got.shape, off))
    if names:
        return [panel(*one, lambda x: names.get(x) or write(x), lambda _: PAPER) for one in both]
    drawn = [panel(*one, *((_truth, _fill) if one[1].dtype == torch.bool else (write, shade))) for one in both]
    if comparable and scaled and same_shape:
        gap = (got - expected).where(off, torch.tensor(0.0, dtype=torch.float64))
        drawn.append(
            panel("difference", gap, picture.got.shape, None, _gap_writer(write), lambda x: _ground(x, largest))
        )
    return drawn


# ---------------------------------------------------------------------------------------------------- what is looked at


def _size(size: torch.Size) -> str:
    """2×3 of a matrix, (3,) of a vector, as PyTorch writes it, for a 3 alone looks like a number; of a number
    nothing."""
    return "×".join(map(str, size)) if len(size) > 1 else str(tuple(size)) if size else ""


def _kinds(picture: Picture) -> dict[str, str]:
    """The dtypes of both, where they are no numbers of the same kind. (Of any float what is expected is in float64.)"""
    if same_kind_of_numbers(picture.got, picture.expected):
        return {}
    kinds = {"expected": picture.expected.dtype, "yours": picture.got.dtype}
    return {name: str(kind).removeprefix("torch.") for name, kind in kinds.items()}


def _cut(size: torch.Size, drawn: list[list], first: tuple[int, int] | None) -> str:
    """Which rows and columns of a larger matrix are drawn, counted from 0 as they are on the table: "rows 0–7 of 12,
    columns 4–11 of 40"."""
    whole = (1, *size)[-2:]
    parts = zip(("rows", "columns"), whole, (len(drawn), len(drawn[0]) if drawn else 0), first or (0, 0))
    return ", ".join(
        f"{what} {start}–{start + shown - 1} of {all_}" for what, all_, shown, start in parts if 0 < shown < all_
    )


def _matrices(tensor: Tensor) -> Tensor:
    """A tensor of any rank and kind as matrices (…, rows, columns), of truth values or in float64."""
    tensor = tensor.detach().cpu()
    tensor = (
        tensor.dequantize() if tensor.is_quantized else tensor.to_dense() if tensor.layout != torch.strided else tensor
    )
    tensor = tensor.abs() if tensor.is_complex() else tensor
    tensor = tensor if tensor.dtype == torch.bool else tensor.to(torch.float64)
    return tensor.reshape(1, -1) if tensor.dim() < 2 else tensor


def _place(picture: Picture) -> tuple[tuple[int, ...], int, int]:
    """Which matrix, and which corner of it, to draw so that the largest difference is in sight; the first that is off
    where numbers were only moved about."""
    expected, got = _matrices(picture.expected), _matrices(picture.got)
    if expected.shape != got.shape:
        return (0,) * (expected.dim() - 2), 0, 0
    same = (got == expected) | (got.isnan() & expected.isnan())  # ∞ − ∞ is NaN, and no difference
    gap = (got.double() - expected.double()).abs().nan_to_num(torch.inf).masked_fill(same, 0)
    gap = gap if picture.source is None else (gap > 0).double()
    *which, row, column = (int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
    sides = zip((row, column), gap.shape[-2:], _drawn(picture, gap), strict=True)
    return tuple(which), *(max(0, min(i - most // 2, size - most)) for i, size, most in sides)


def _drawn(picture: Picture, matrices: Tensor) -> tuple[int, int]:
    """How many rows and columns of a matrix are drawn."""
    rows, columns = matrices.shape[-2:]
    if picture.expected.dtype == picture.got.dtype == torch.bool:
        return LONGEST_SIDE, LONGEST_SIDE
    whole = rows * columns <= MOST_NUMBERS and max(rows, columns) <= LONGEST_SIDE
    return (rows, columns) if whole else (WINDOW, WINDOW)


def _windows(picture: Picture) -> tuple[Tensor, Tensor, bool]:
    """The parts of both that are drawn, and whether they can be compared place by place."""
    expected, got = _matrices(picture.expected), _matrices(picture.got)
    if expected.shape != got.shape:
        return *(_corner(m[(0,) * (m.dim() - 2)], 0, 0, *_drawn(picture, m)) for m in (expected, got)), False
    which, row, column = _place(picture)
    return *(_corner(m[which], row, column, *_drawn(picture, m)) for m in (expected, got)), True


def _corner(matrix: Tensor, row: int, column: int, rows: int, columns: int) -> Tensor:
    return matrix[row : row + rows, column : column + columns]


def _off(expected: Tensor, got: Tensor, within: tuple[float, float]) -> Tensor:
    return ~torch.isclose(got.double(), expected.double(), rtol=within[0], atol=within[1], equal_nan=True)


def _largest(matrix: Tensor) -> float:
    finite = matrix[matrix.isfinite()].double().abs()
    return finite.max().item() if finite.numel() else 0.0


def _shown(picture: Picture, which: tuple[int, ...]) -> str:
    """Which matrix of several: "sequence 0, head 2"; as one writes it in Python where an axis has no name."""
    named = picture.axes[:-2][-len(which) :]
    sizes = picture.expected.shape[: len(which)]
    if max(sizes) == 1:  # there is no choice to be told of
        return ""
    if len(named) < len(which):
        return f"yours[{', '.join(map(str, which))}]"
    return ", ".join(f"{_singular(axis)} {i}" for axis, i, size in zip(named, which, sizes, strict=True) if size > 1)


def _singular(plural: str) -> str:
    return {"queries": "query"}.get(plural, plural.removesuffix("s"))


# ------------------------------------------------------------------------------------------------------- cells as words


def _names(source: Tensor) -> dict[float, str]:
    """Number → where it stands in the input: a letter for its row, its column."""
    rows = source.detach().cpu().reshape(-1, source.shape[-1])
    return {value: f"{LETTERS[i]}{j}" for i, row in enumerate(rows.tolist()) for j, value in enumerate(row)}


def traceable(source: Tensor, *outputs: Tensor) -> bool:
    """Whether outputs hold numbers of this input alone, all of them different, in few enough rows for a letter each."""
    if (
        source.dim() < 2
        or not source.numel()
        or not source.is_floating_point()
        or source.numel() // source.shape[-1] > len(LETTERS)
    ):
        return False
    there = set(source.flatten().tolist())
    return len(there) == source.numel() > 1 and all(
        output.is_floating_point() and there.issuperset(output.flatten().tolist()) for output in outputs
    )


def _writer(expected: Tensor, got: Tensor, off: Tensor | None) -> Callable:
    """How to write numbers down: whole ones whole, others with as many decimals as tell wrong from right."""
    finite = torch.cat([m[m.isfinite()].double() for m in (expected, got)])
    if bool((finite == finite.round()).all()) and _top(finite) < 1e6:
        return lambda x: _special(x) or f"{int(x)}".replace("-", "−")
    if _top(finite) >= 1e5:
        return lambda x: _special(x) or f"{x:.3g}".replace("-", "−")
    if 0 < _top(finite) < 0.01:
        return lambda x: _special(x) or (f"{x:.1e}".replace("-", "−") if x else "0")
    decimals = next((n for n in range(2, MOST_DECIMALS) if _told_apart(expected, got, off, n)), MOST_DECIMALS)
    return lambda x: _special(x) or (f"{round(x, decimals) + 0.0:.{decimals}f}".replace("-", "−") if x else "0")


def _top(finite: Tensor) -> float:
    return finite.abs().max().item() if finite.numel() else 0.0


def readable(expected: Tensor, got: Tensor, within: tuple[float, float]) -> bool:
    """Whether a table would show anything: another shape or kind of number, or a number that reads differently."""
    if expected.shape != got.shape or not same_kind_of_numbers(got, expected):
        return True
    expected, got = _matrices(expected), _matrices(got)
    if expected.dtype == torch.bool or 0 < _top(expected[expected.isfinite()].double()) < 0.01:
        return True
    return _told_apart(expected, got, _off(expected, got, within), MOST_DECIMALS)


def _told_apart(expected: Tensor, got: Tensor, off: Tensor | None, decimals: int) -> bool:
    """Whether at least one place that is off reads differently with so many decimals."""
    if off is None or not off.any():
        return True
    pairs = zip(expected[off].double().tolist(), got[off].double().tolist(), strict=True)
    return any(f"{a:.{decimals}f}" != f"{b:.{decimals}f}" for a, b in pairs)


def _gap_writer(write: Callable) -> Callable:
    """A difference as the numbers it is one of; by its power of ten where that would read as nothing."""

    def written(gap: float) -> str:
        if gap == 0:
            return "0"
        words = write(gap)
        return f"{gap:.1g}".replace("-", "−") if not words.strip("−0.") else words

    return written


def _special(x: float) -> str:
    return "NaN" if x != x else "" if math.isfinite(x) else "∞" if x > 0 else "−∞"


def _truth(x: bool) -> str:
    return "1" if x else "0"


def _fill(x: bool) -> str:
    return FILLED if x else EMPTY


def _ground(x: float, largest: float) -> str:
    """Blue for positive, orange for negative, deeper for larger; pink for no number, or an infinity that is wrong."""
    if not isinstance(x, bool) and not math.isfinite(x):
        return NO_NUMBER
    return tint(x / largest) if largest else PAPER


# ------------------------------------------------------------------------------------------------------- tables as HTML


def _table(panel: Panel, width: int) -> str:
    words = panel.title + f"<br>only {panel.cut}" * bool(panel.cut)
    alarm = {"colour": RED, "font_weight": "700"} if panel.alien else {"colour": GREY}
    name = f"<div {style(ground=PAPER, font_size='12px', **alarm)}>{words}</div>"
    look = style(
        colour=INK,
        ground=PAPER,
        border_collapse="collapse",
        margin="0",
        border="0",
        width="auto",
        display="table",
        table_layout="auto",
    )
    lines = zip(panel.cells, panel.grounds, panel.off, strict=True)
    body = "".join(_row(panel, i, "".join(map(_cell, *line))) for i, line in enumerate(lines))
    return f'{name}<table aria-label="{panel.name}" {look}>{_column_numbers(panel, width)}{body}</table>'


def _column_numbers(panel: Panel, width: int) -> str:
    if panel.first is None or not panel.cells:
        return ""
    numbers = "".join(_header(str(panel.first[1] + j), width=width) for j in range(len(panel.cells[0])))
    return f"<tr {style(colour=GREY, ground=PAPER)}>{_header('')}{numbers}</tr>"


def _row(panel: Panel, i: int, cells: str) -> str:
    number = _header("" if panel.first[0] is None else str(panel.first[0] + i), "row") if panel.first else ""
    return f"<tr {style(colour=INK, ground=PAPER)}>{number}{cells}</tr>"


def _header(words: str, scope: str = "col", width: int = 0) -> str:
    look = style(
        colour=GREY,
        ground=PAPER,
        border="0",
        padding="0 5px",
        text_align="right" if scope == "row" else "center",
        font="11px ui-monospace,monospace",
        min_width=f"{width}ch",
    )
    return f'<th scope="{scope}" {look}>{words}</th>'


def _cell(word: str, ground: str, off: bool) -> str:
    filled = ground == FILLED
    look = style(
        colour="#ffffff" if filled else INK,
        ground=ground,
        border=f"2px solid {RED}" if off else "1px solid #dadce0",
        padding="1px 5px",
        text_align="right",
        white_space="nowrap",
        font=f"{'700 ' if off else ''}12px ui-monospace,monospace",
    )
    return f"<td {look}>{escape(word)}</td>"
