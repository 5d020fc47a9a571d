"""Every live figure of the course as pictures, to be looked at: three states of each, light and dark, on a desktop and
on a telephone.

    attn site site && python -m autograder.site.film_pictures site films

It prints the characters of each film. It needs Chromium, driven by Playwright."""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from autograder.site.browser import CHROMIUM

THEMES, WIDTHS = ("light", "dark"), (1280, 390)
STATES = ("Home", "ArrowLeft", "End")  # keys: the first frame, the one before that where it opened, the last


def photograph(site: Path, into: Path) -> Iterator[str]:
    """A line for each film: its page and its characters."""
    into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for path, (theme, width) in product(sorted(site.glob("*.html")), product(THEMES, WIDTHS)):
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
            page.goto(path.resolve().as_uri())
            films = page.locator("[data-film]").all()
            for number, film in enumerate(films, start=1):
                _three_states(film, into, f"{path.stem}-{number}-{{}}-{theme}-{width}.png")
            if (theme, width) == (THEMES[0], WIDTHS[0]):
                yield from (f"{path.stem}-{number}: {_size(film):,}" for number, film in enumerate(films, start=1))
            page.close()
        browser.close()


def _three_states(film: Any, into: Path, name: str) -> None:
    for key in (STATES[1], STATES[0], STATES[2]):
        film.press(key)
        film.screenshot(path=into / name.format(key.lower()))


def _size(film: Any) -> int:
    """Characters of a film's HTML with its script, as a notebook holds them."""
    return film.evaluate("film => film.outerHTML.length + (film.nextElementSibling?.outerHTML.length ?? 0)")


if __name__ == "__main__":
    for line in photograph(*map(Path, sys.argv[1:3])):
        print(line)
