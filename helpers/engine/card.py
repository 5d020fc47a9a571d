"""Draw a score: as HTML for notebooks and feedback, as text for terminals.

The HTML brings an opaque ground and a colour of its own for every text, in `style` attributes: they are what
JupyterLab, Colab, VS Code, nbconvert and nbgrader's pages all leave in place, so a card can be read on any page. A
class turns it over where the page is dark (see helpers/paper.py).
What happened comes first, the cases after it; those that passed and all but two of the others are folded away.
Everything that comes from a student is escaped.
"""

import re
from dataclasses import dataclass
from html import escape
from typing import Protocol

from helpers import paper
from helpers.sections import heading

from . import card_picture
from .card_picture import Picture
from .card_style import AMBER, GREEN, GREY, INK, PAPER, RED, SHADE, style

CROSSES = 2  # that aren't folded
__all__ = ["Item", "Picture", "Result", "html", "text", "title"]


@dataclass(frozen=True)
class Item:
    """One line of the card. `counts` is False for a line that only informs."""

    label: str
    passed: bool
    note: str = ""
    counts: bool = True


class Result(Protocol):
    """What a card is drawn of: a number of points, and what led to it (see `Score`)."""

    exercise: str
    points: float
    items: tuple[Item, ...]
    diagnosis: str | None
    message: str
    pictures: tuple[Picture, ...]

    @property
    def parts(self) -> tuple["Result", ...]: ...

    @property
    def full(self) -> bool: ...

    def __float__(self) -> float: ...


def text(score: Result) -> str:
    """The card in plain text: the same words and tables, in the same order."""
    lines = [f"{title(score.exercise)} · {_points(score)}"]
    for part in score.parts or (score,):
        lines += [f"  {part.exercise} · {_share(part)}"] if score.parts else []
        lines += [f"  {line}" for line in part.message.split("\n") if line]
        lines += [f"  {line}" for picture in part.pictures for line in card_picture.text(picture)]
        lines += [f"  {_mark(item)} {item.label}" for item in _failed(part) + _passed(part)]
    return "\n".join(lines)


def html(score: Result) -> str:
    """The card as self-contained HTML."""
    colour = _colour(score)
    body = "".join(_part_title(part) + _body(part) for part in score.parts) if score.parts else _body(score)
    frame = style(
        colour=INK,
        ground=PAPER,
        border="1px solid #dadce0",
        border_left=f"6px solid {colour}",
        border_radius="6px",
        padding="10px 14px",
        margin="6px 0",
        max_width="52rem",
        font="14px/1.5 system-ui,sans-serif",
        text_align="left",
    )
    around = f'role="group" aria-label="{escape(title(score.exercise))}" class="{paper.CLASS}"'
    return f"{paper.TURNED}<div {around} {frame}>{_headline(score)}{body}</div>"


def title(exercise: str) -> str:
    """The section's number and heading; the exercise's name where it stands in no section."""
    return heading(exercise) or exercise


def _headline(score: Result) -> str:
    sign = {GREEN: "✓", GREY: "○"}.get(_colour(score), "✗")
    words = f"{sign} {escape(title(score.exercise))} · {_points(score)}"
    return f"<div {style(colour=_colour(score), ground=PAPER, font_weight='600')}>{words}</div>"


def _part_title(part: Result) -> str:
    words = f"{_code(part.exercise)} · {_share(part)}"
    return f"<div {style(colour=_colour(part), ground=PAPER, font_weight='600', margin_top='10px')}>{words}</div>"


def _points(score: Result) -> str:
    plural = "" if score.points == 1 else "s"
    return f"{_number(float(score))} of {_number(score.points)} point{plural}"


def _share(part: Result) -> str:
    """A part's points; in words where its share is no quarter of a point: rounded, such shares don't add up."""
    if (4 * part.points).is_integer():
        return _points(part)
    if part.diagnosis == "not attempted":
        return part.diagnosis
    return "right" if part.full else "partly right" if float(part) > 0 else "not right"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _colour(score: Result) -> str:
    if score.full:
        return GREEN
    return GREY if score.diagnosis == "not attempted" else AMBER if float(score) > 0 else RED


def _body(score: Result) -> str:
    message = _message(score) if score.message else ""
    return message + "".join(map(card_picture.html, score.pictures)) + _cases(score)


def _message(score: Result) -> str:
    words = escape(score.message).replace("\n", "<br>")
    if score.diagnosis and score.diagnosis in score.message:
        name = escape(score.diagnosis)
        words = words.replace(name, _bold(name), 1)
    words = re.sub(r"\*(\w[^*\n]*)\*", r"<i>\1</i>", words)
    words = re.sub("`([^`\n]+)`", lambda match: _code(match[1], escaped=True), words)
    lead = "" if score.full or score.diagnosis == "not attempted" else f"{_bold('What happened.')} "
    look = style(colour=INK, ground=SHADE, margin_top="8px", border_radius="4px", padding="8px 10px")
    return f"<div {look}>{lead}{words}</div>"


def _bold(escaped: str) -> str:
    return f"<b {style(colour=INK, ground=SHADE, font_weight='700')}>{escaped}</b>"


def _code(words: str, escaped: bool = False) -> str:
    look = style(colour=INK, ground="#e8eaed", padding="0 3px", border_radius="3px", border="0", font_size="13px")
    return f"<code {look}>{words if escaped else escape(words)}</code>"


# ------------------------------------------------------------------------------------------------------------ the cases


def _failed(score: Result) -> list[Item]:
    return [item for item in score.items if not item.passed]


def _passed(score: Result) -> list[Item]:
    return [item for item in score.items if item.passed]


def _mark(item: Item) -> str:
    return "✓" if item.passed else "✗"


def _cases(score: Result) -> str:
    failed, passed = _failed(score), _passed(score)
    first, more = failed[:CROSSES], failed[CROSSES:]
    lines = f"<div {style(colour=INK, ground=PAPER, margin_top='8px')}>{''.join(map(_item, first))}</div>"
    every = "all " * (not failed and len(passed) > 1)
    return (
        lines * bool(first)
        + _folded(f"✗ {len(more)} more", RED, more)
        + _folded(f"✓ {every}{len(passed)} passed", GREEN, passed)
    )


def _folded(words: str, colour: str, items: list[Item]) -> str:
    look = style(colour=INK, ground=PAPER, margin_top="6px", padding="0", border="0")
    summary = style(colour=colour, ground=PAPER, cursor="pointer", display="list-item", padding="0")
    fold = f"<details {look}><summary {summary}>{words}</summary>{''.join(map(_item, items))}</details>"
    return fold * bool(items)


def _item(item: Item) -> str:
    mark = style(colour=GREEN if item.passed else RED, ground=PAPER, font_weight="700")
    line = style(colour=INK, ground=PAPER, display="inline-block", margin_right="16px")
    return f"<span {line}><span {mark}>{_mark(item)}</span> {escape(item.label)}</span>"
