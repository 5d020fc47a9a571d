"""The pictures of README.md, made of the real thing: a card that a check gives, and a frame of a film.

    python -m autograder.site.readme_pictures        writes docs/card.png and docs/film.svg

It needs Chromium, driven by Playwright."""

import base64
import hashlib
from pathlib import Path

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from autograder.course.paths import find_course
from autograder.site.browser import chromium
from autograder.site.cells import PICTURE
from helpers import check

SHOWS = "shows"
FRAME = "from helpers import plots, setup\nsetup()\nplots.tile_walk_still()"
PAGE = (
    '<body style="margin:16px;background:#fff"><div id="shot" style="width:max-content;max-width:760px">{}</div></body>'
)


def card() -> str:
    """The HTML of the card of an attention without its scale."""

    def scaled_dot_product_attention(q, k, v):
        return (q @ k.mT).softmax(dim=-1) @ v

    score = check.scaled_dot_product_attention(scaled_dot_product_attention, points=4, seed=3)
    return score._repr_mimebundle_()["text/html"]


def digest(html: str) -> str:
    """What a picture remembers of the HTML that it shows."""
    return hashlib.sha256(html.encode()).hexdigest()


def main() -> None:
    """Writes both pictures."""
    folder = find_course().root / "docs"
    folder.mkdir(exist_ok=True)
    _photograph(PAGE.format(html := card()), folder / "card.png")
    _sign(folder / "card.png", digest(html))
    notebook = NotebookClient(new_notebook(cells=[new_code_cell(FRAME)])).execute()
    shown = "".join(output.get("data", {}).get("text/html", "") for output in notebook.cells[0].outputs)
    frame = next(PICTURE.finditer(shown))[2]
    (folder / "film.svg").write_bytes(base64.b64decode(frame))


def _sign(path: Path, words: str) -> None:
    about = PngInfo()
    about.add_text(SHOWS, words)
    Image.open(path).save(path, pnginfo=about, optimize=True)


def _photograph(page: str, path: Path) -> None:
    with chromium() as browser:
        opened = browser.new_page(device_scale_factor=2)
        opened.set_content(page)
        opened.locator("#shot").screenshot(path=path)


if __name__ == "__main__":
    main()
