"""One player for all films: a figure drawn again and again, as HTML with buttons of its own that needs no network."""

import re
from collections.abc import Callable, Iterable

import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation
from matplotlib.figure import Figure

SIGNS = {
    "fa-minus": "−", "fa-fast-backward": "|◀", "fa-step-backward": "‹", "fa-play fa-flip-horizontal": "◀", "fa-pause": "||",
    "fa-play": "▶", "fa-step-forward": "›", "fa-fast-forward": "▶|", "fa-plus": "+",
}  # fmt: skip


def film(figure: Figure, frame: Callable[[int], None], frames: Iterable[int], milliseconds: int) -> str:
    """The HTML of a film. `frame(i)` draws the figure for each i of `frames`; the figure is closed afterwards."""
    html = FuncAnimation(figure, frame, frames=frames, interval=milliseconds).to_jshtml(default_mode="once")
    plt.close(figure)
    return _without_downloads(html)


def _without_downloads(html: str) -> str:
    """Matplotlib takes the signs on its buttons from a font on the web: write them as letters, for who is offline."""
    for name, sign in SIGNS.items():
        html = html.replace(f'<i class="fa {name}"></i>', sign)
    return re.sub(r"<link[^>]*>", "", html)
