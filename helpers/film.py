"""One player for all films: pictures with a sentence each, to play or to step through, as HTML that needs neither a
server nor a network.

Where scripts don't run (a page that was cleaned, a notebook that isn't trusted) one picture and its sentence stand
there instead. Matplotlib has a player, too (`to_jshtml`): its pictures have no text that a screen reader could read,
its buttons are letters of a font on the web, no key moves it, and without scripts it is empty."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Protocol

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image  # matplotlib brings it along

from .paper import CLASS, TURNED, address

LIMIT = 600_000
"""Characters that the HTML of a film may have: notebooks are kept, sent and handed in with their outputs."""
PLAYER = Path(__file__).with_name("film.html")
CSS_DPI, SHARP = 96, 1.5
"""Pixels of a page to an inch, and of a picture to one of the page: a screen twice as fine shows sharp letters."""
COLOURS = 160


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
    figure: Figure | Drawing,
    draw: Callable[[Any], str],
    frames: Iterable,
    described: str,
    *,
    milliseconds: int = 2000,
    still: int = -1,
    middle: tuple[float, float] | None = None,
    along: Sequence[float] | None = None,
) -> str:
    """The HTML of a film. `draw(frame)` draws the figure for each of `frames` and returns what is to be seen, in a
    sentence or two.

    described: what the film shows, for those who can't see it. milliseconds: how long a frame stays when the film
        plays.
    middle: a place, in shares of the picture's width and height, around which a finger or mouse turns through the
        frames, counterclockwise from the right; without one they drag to and fro.
    along: for each frame how far to the right it lies, in shares of the picture's width: where what is dragged stands.
    still: the frame (its number) with which the film opens, and which stands there where scripts don't run. The figure
        is closed."""
    if isinstance(figure, Figure):
        with plt.rc_context({"figure.autolayout": False}):  # nothing may move from frame to frame
            made = [(draw(frame), _picture(figure)) for frame in frames]
        plt.close(figure)
        width, pictures = round(figure.get_figwidth() * CSS_DPI), _packed([picture for _, picture in made])
    else:
        made = [(draw(frame), figure.svg()) for frame in frames]
        width, pictures = figure.width, [picture for _, picture in made]
    captions = [caption for caption, _ in made]
    return Template(PLAYER.read_text(encoding="utf-8")).substitute(
        name=hashlib.sha256("".join([*captions, *pictures]).encode()).hexdigest()[:12],  # the same film, the same bytes
        described=escape(described),
        paper=CLASS,
        turned=TURNED,
        width=width,
        still=_as_address(pictures[still]),
        opens_with=still % len(pictures),
        caption=escape(captions[still]),
        pictures=_script(pictures),
        captions=_script(captions),
        milliseconds=milliseconds,
        middle=json.dumps(middle),
        along=json.dumps(along and [round(share, 4) for share in along]),
    )


def _picture(figure: Figure) -> Image.Image:
    file, dpi = io.BytesIO(), CSS_DPI * SHARP
    figure.savefig(file, format="rgba", dpi=dpi)
    size = tuple(int(inches * dpi) for inches in figure.get_size_inches())
    return Image.frombytes("RGBA", size, file.getvalue()).convert("RGB")


def _packed(pictures: list[Image.Image]) -> list[str]:
    """The pictures as addresses that hold them."""
    palette = _palette(pictures)
    return [_address(picture.quantize(palette=palette, dither=Image.Dither.NONE)) for picture in pictures]


def _palette(pictures: list[Image.Image]) -> Image.Image:
    """One for all, for colours must not change between frames: the commonest as they are, and shades of the rest."""
    small = [
        picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.NEAREST) for picture in pictures
    ]
    sheet = Image.new("RGB", (small[0].width, sum(one.height for one in small)))
    for row, one in enumerate(small):
        sheet.paste(one, (0, row * one.height))
    common = [colour for _, colour in sorted(sheet.getcolors(sheet.width * sheet.height), reverse=True)[:COLOURS]]
    shades = zip(*[iter(sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT).getpalette())] * 3)
    chosen: list[tuple[int, int, int]] = []
    for colour in [*common, *shades]:
        if all(_apart(colour, other) for other in chosen):
            chosen.append(colour)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in chosen[:256] for part in colour])
    return palette


def _apart(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Far enough that Pillow, which looks colours up in steps of a few units, takes neither for the other."""
    return max(abs(a - b) for a, b in zip(one, other)) > 8


def _as_address(picture: str) -> str:
    return address(picture.encode()) if picture.startswith("<") else picture


def _address(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=9)
    return address(file.getvalue())


def _script(texts: list[str]) -> str:
    """As JavaScript that can stand in a page: nothing in it ends the script."""
    return json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
