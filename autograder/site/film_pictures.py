"""Every live figure of the course as pictures, to be looked at: three states of each, light and dark, on a desktop and
on a telephone.

    attn site site && python -m autograder.site.film_pictures site films

It prints the characters of each film. It needs Chromium, driven by Playwright."""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from autograder.site.browser import chromium

THEMES, WIDTHS = ("light", "dark"), (1280, 390)
KEYS = ("ArrowLeft", "Home", "End")
"""To the frame before that with which a film opens, to the first, to the last."""


def photograph(site: Path, into: Path) -> Iterator[str]:
    """A line for each film: its page, its place there and its characters."""
    into.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for path, theme, width in product(sorted(site.rglob("index.html")), THEMES, WIDTHS):
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
            page.goto(path.resolve().as_uri())
            for place, film in enumerate(page.locator("[data-film]").all(), start=1):
                name = f"{path.parent.name}-{place}"
                if (theme, width) == (THEMES[0], WIDTHS[0]):
                    yield f"{name}: {_size(film):,}"
                for key in KEYS:
                    film.press(key)
                    film.screenshot(path=into / f"{name}-{key.lower()}-{theme}-{width}.png")
            page.close()


def _size(film: Any) -> int:
    """Characters of a film's HTML with its script, as a notebook holds them."""
    return film.evaluate("film => film.outerHTML.length + (film.nextElementSibling?.outerHTML.length ?? 0)")


if __name__ == "__main__":
    for line in photograph(*map(Path, sys.argv[1:3])):
        print(line)
