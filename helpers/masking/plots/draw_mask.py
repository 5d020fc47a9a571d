"""A mask to be drawn by hand, in the page: it needs no kernel."""

import hashlib
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from helpers.film import play
from helpers.palette import HALF_WEIGHT

__all__ = ["draw_mask"]

PAGE = Path(__file__).with_name("draw_mask.html")


def draw_mask(words: Sequence[str], queries: int) -> None:
    """A cell for each of the last `queries` words and each word, to be pressed where the one may look at the other."""
    play(_page(words, queries))


def _page(words: Sequence[str], queries: int) -> str:
    listed = json.dumps(list(words)).replace("<", "\\u003c")
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        name=hashlib.sha256(f"{listed} {queries}".encode()).hexdigest()[:12],
        described=escape(f"Draw the causal mask of the last {queries} of {len(words)} words"),
        words=listed,
        queries=queries,
        shown=HALF_WEIGHT,
    )
