"""One player for all films: pictures with a sentence each, to play or to step through, as HTML that needs neither a
server nor a network.

Where scripts don't run (a page that was cleaned, a notebook that isn't trusted) one picture and its sentence stand
there instead. Matplotlib has a player, too (`to_jshtml`): its pictures have no text that a screen reader could read,
its buttons are letters of a font on the web, no key moves it, and without scripts it is empty."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Protocol

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .drawing import figure_as_svg
from .paper import CLASS, TURNED, address

LIMIT = 600_000
"""Characters that the HTML of a film may have: notebooks are kept, sent and handed in with their outputs."""
PLAYER = Path(__file__).with_name("film.html")


def play(html: str) -> None:
    """Show a film in the notebook."""
    from IPython.display import HTML, display  # there in every notebook, and needed nowhere else

    display(HTML(html))


class Drawing(Protocol):
    """What draws itself as SVG, such as a `Board`."""

    def svg(self) -> str: ...


def film(
    figure: Figure | Drawing,
    draw: Callable[[Any], str],
    frames: Iterable,
    described: str,
    *,
    milliseconds: int = 2000,
    still: int = -1,
    middle: tuple[float, float] | None = None,
) -> str:
    """The HTML of a film. `draw(frame)` draws the figure for each of `frames` and returns what is to be seen, in a
    sentence or two.

    described: what the film shows, for those who can't see it. milliseconds: how long a frame stays when the film
        plays.
    middle: a place, in shares of the picture's width and height, around which a finger or mouse turns through the
        frames, counterclockwise from the right; without one they drag to and fro.
    still: the frame (its number) with which the film opens, and which stands there where scripts don't run. The figure
        is closed."""
    svg = partial(figure_as_svg, figure) if isinstance(figure, Figure) else figure.svg
    with plt.rc_context({"figure.autolayout": False}):  # nothing may move from frame to frame
        made = [(draw(frame), svg()) for frame in frames]
    if isinstance(figure, Figure):
        plt.close(figure)
    captions, pictures = map(list, zip(*made, strict=True))
    elements, numbers = _shared(pictures)
    return Template(PLAYER.read_text(encoding="utf-8")).substitute(
        name=hashlib.sha256("".join([*captions, *pictures]).encode()).hexdigest()[:12],  # the same film, the same bytes
        described=escape(described),
        paper=CLASS,
        turned=TURNED,
        width=re.findall(r'width="(\d+)"', pictures[0])[0],
        still=address(pictures[still].encode()),
        opens_with=still % len(pictures),
        caption=escape(captions[still]),
        elements=_script(elements),
        pictures=json.dumps(numbers, separators=(",", ":")),
        captions=_script(captions),
        milliseconds=milliseconds,
        middle=json.dumps(middle),
    )


def _shared(pictures: list[str]) -> tuple[list[str], list[list[int]]]:
    """The elements of all pictures, each of them once, and their numbers for every picture: frames are much alike."""
    elements: dict[str, int] = {}
    numbers = [[elements.setdefault(one, len(elements)) for one in picture.split("<")[1:]] for picture in pictures]
    return list(elements), numbers


def _script(texts: list[str]) -> str:
    """As JavaScript that can stand in a page: nothing in it ends the script."""
    return json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
