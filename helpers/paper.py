"""Pictures as HTML: on white paper, with words for those who can't see them, and turned over where the page is dark."""

import base64
import struct
from html import escape

CLASS = "attention-paper"
_DARK_PAGES = "[data-jp-theme-light=false] .vscode-dark .vscode-high-contrast [theme=dark] [data-theme=dark]".split()
"""JupyterLab and nbconvert, VS Code (two), Colab, the pages of `attn site`."""
TURNED = (
    f"<style>@media screen{{{','.join(f'{page} .{CLASS}' for page in _DARK_PAGES)}"
    "{filter:invert(.93) hue-rotate(180deg)}}</style>"
)
"""White becomes nearly black, and colors keep their hue. Where a page takes styles away, the paper stays white."""


def image(png: bytes, words: str, sharp: float) -> str:
    """A picture, never wider than its column. sharp: its pixels to one of the page."""
    width, height = (round(pixels / sharp) for pixels in struct.unpack(">II", png[16:24]))  # of the PNG's first chunk
    return (
        f'{TURNED}<img src="{address(png)}" alt="{escape(words)}" width="{width}" height="{height}" class="{CLASS}" '
        'style="max-width:100%;height:auto;background:#ffffff">'
    )


def address(png: bytes) -> str:
    """An address that holds the picture itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode()
