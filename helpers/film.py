"""One player for all films: pictures with a sentence each, to play or to step through, as HTML that needs neither a
server nor a network.

Where scripts don't run (a page that was cleaned, a notebook that isn't trusted) one picture and its sentence stand
there instead. Matplotlib has a player, too (`to_jshtml`): its pictures have no text that a screen reader could read,
its buttons are letters of a font on the web, no key moves it, and without scripts it is empty."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Protocol

from .paper import CLASS, TURNED, address

LIMIT = 100_000
"""Characters that the HTML of a film may have: a feedback page shows no more of a cell."""
PLAYER = Path(__file__).with_name("film.html")


def play(html: str) -> None:
    """Show a film in the notebook."""
    from IPython.display import HTML, display  # there in every notebook, and needed nowhere else

    display(HTML(html))


class Drawing(Protocol):
    """What draws itself as SVG, such as a `Board`. width: in pixels of the page."""

    @property
    def width(self) -> int: ...
    def svg(self) -> str: ...


def film(
    drawing: Drawing,
    draw: Callable[[Any], str],
    frames: Iterable,
    described: str,
    *,
    milliseconds: int = 2000,
    still: int = -1,
    middle: tuple[float, float] | None = None,
    along: Sequence[float] | None = None,
) -> str:
    """The HTML of a film. `draw(frame)` changes the drawing for each of `frames` and returns what is to be seen, in a
    sentence or two.

    described: what the film shows, for those who can't see it. milliseconds: how long a frame stays when the film
        plays.
    middle: a place, in shares of the picture's width and height, around which a finger or mouse turns through the
        frames, counterclockwise from the right; without one they drag to and fro.
    along: for each frame how far to the right it lies, in shares of the picture's width: where what is dragged stands.
    still: the frame (its number) with which the film opens, and which stands there where scripts don't run."""
    captions, pictures = map(list, zip(*((draw(frame), drawing.svg()) for frame in frames), strict=True))
    elements, numbers = _shared(pictures)
    return Template(PLAYER.read_text(encoding="utf-8")).substitute(
        name=hashlib.sha256("".join([*captions, *pictures]).encode()).hexdigest()[:12],  # the same film, the same bytes
        described=escape(described),
        paper=CLASS,
        turned=TURNED,
        width=drawing.width,
        still=address(pictures[still].encode()),
        opens_with=still % len(pictures),
        caption=escape(captions[still]),
        elements=_script(elements),
        pictures=json.dumps(numbers, separators=(",", ":")),
        captions=_script(captions),
        milliseconds=milliseconds,
        middle=json.dumps(middle),
        along=json.dumps(along and [round(share, 4) for share in along]),
    )


def _shared(pictures: list[str]) -> tuple[list[str], list[list[int]]]:
    """All elements of the pictures, each once, and the numbers of those in each picture: frames are much alike."""
    elements: dict[str, int] = {}
    numbers = [[elements.setdefault(one, len(elements)) for one in picture.split("<")[1:]] for picture in pictures]
    return list(elements), numbers


def _script(texts: list[str]) -> str:
    """As JavaScript that can stand in a page: nothing in it ends the script."""
    return json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
