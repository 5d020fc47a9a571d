"""Pictures as HTML: on white paper, with words for those who can't see them, and turned over where the page is dark."""

import base64
import re
import struct
from html import escape

SVG_SIZE = re.compile(rb'<svg [^>]*?width="(\d+)" height="(\d+)"')
COLUMN = 768
"""Pixels that a page surely has for a picture: a wider one is made smaller there, and its letters with it. Where there
are fewer, as on a phone, it scrolls sideways."""
CLASS = "attention-paper"
_DARK_PAGES = "[data-jp-theme-light=false] .vscode-dark .vscode-high-contrast [theme=dark] [data-theme=dark]".split()
"""JupyterLab and nbconvert, VS Code (two), Colab, the pages of `attn site`."""
TURNED = (
    f"<style>@media screen{{{','.join(f'{page} .{CLASS}' for page in _DARK_PAGES)}"
    "{filter:invert(.93) hue-rotate(180deg)}}</style>"
)
"""White becomes nearly black, and colors keep their hue. Where a page takes styles away, the paper stays white."""


def image(picture: bytes, words: str, sharp: float) -> str:
    """A PNG or SVG, no wider than its column. sharp: pixels of a PNG to one of the page."""
    width, height = _size(picture, sharp)
    return (
        f'{TURNED}<img src="{address(picture)}" alt="{escape(words)}" width="{width}" height="{height}" '
        f'class="{CLASS}" style="max-width:max(100%,{COLUMN}px);height:auto;background:#ffffff">'
    )


def svg(drawn: str, width: int, height: int) -> str:
    """What was drawn as SVG, on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="DejaVu Sans,Verdana,sans-serif"><path fill="#fff" d="M0 0H{width}V{height}H0z"/>{drawn}</svg>'
    )


def address(picture: bytes) -> str:
    """An address that holds the PNG or SVG itself."""
    kind = "svg+xml" if picture.startswith(b"<svg") else "png"
    return f"data:image/{kind};base64," + base64.b64encode(picture).decode()


def _size(picture: bytes, sharp: float) -> tuple[int, int]:
    """Pixels of the page."""
    if found := SVG_SIZE.match(picture):
        return int(found[1]), int(found[2])
    width, height = struct.unpack(">II", picture[16:24])  # of the PNG's first chunk
    return round(width / sharp), round(height / sharp)
