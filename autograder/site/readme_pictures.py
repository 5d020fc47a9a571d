"""The pictures of README.md, made of the real thing: a card that a check gives, and a frame of a film.

    python -m autograder.site.readme_pictures        writes docs/card.png and docs/film.png

It needs Chromium, driven by Playwright."""

import base64
from pathlib import Path

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import sync_playwright

from autograder.course.paths import find_course
from autograder.site.browser import CHROMIUM
from autograder.site.cells import PICTURE

CARD = """
from helpers import check

def scaled_dot_product_attention(q, k, v):
    return (q @ k.mT).softmax(dim=-1) @ v

check.scaled_dot_product_attention(scaled_dot_product_attention, points=4, seed=3)
"""
FRAME = "from helpers import plots, setup\nsetup()\nplots.tile_walk_still()"
PAGE = (
    '<body style="margin:16px;background:#fff"><div id="shot" style="width:max-content;max-width:760px">{}</div></body>'
)


def outputs(source: str) -> list[dict]:
    """What a cell with this source shows, by MIME type."""
    notebook = NotebookClient(new_notebook(cells=[new_code_cell(source)])).execute()
    return [output.data for output in notebook.cells[0].outputs if "data" in output]


def main() -> None:
    """Writes both pictures."""
    folder = find_course().root / "docs"
    folder.mkdir(exist_ok=True)
    card = next(data["text/html"] for data in reversed(outputs(CARD)) if data.get("text/html"))
    _photograph(PAGE.format(card), folder / "card.png")
    frame = next(found[2] for data in outputs(FRAME) if (found := PICTURE.search(data.get("text/html", ""))))
    (folder / "film.png").write_bytes(base64.b64decode(frame))


def _photograph(page: str, path: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(device_scale_factor=2)
        opened.set_content(page)
        opened.locator("#shot").screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main()
