"""Take a new snapshot of the course's prose, and write it to helpers/transformer_lm/course_text.txt.gz.

python -m autograder.bench.course_text

Of the released notebooks, so that no mark scheme and no model answer is in it: the sentences of their text cells that
can be written with plain characters, a paragraph a line. What has formulas, code or tables in it is left out. To run
again before `train_course_writer` is, never without: the weights belong to their text."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from autograder import notebooks
from helpers.transformer_lm import course_writer

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
APART = re.compile(r"```.*?```|\$\$.*?\$\$|<!--.*?-->|<summary>.*?</summary>|</?details>", re.DOTALL)
LINES = re.compile(r"^(?: *\||#|\*Your answer).*$", re.MULTILINE)
"""Rows of tables, headings, places for answers."""
ITEMS = re.compile(r"^ *(?:[-*>]|\d+\.) +", re.MULTILINE)
SENTENCE_ENDS = re.compile(r"(?<=[.?!:)]) (?=[A-Z(\"])")
PLAIN = re.compile(r"[A-Za-z0-9 .,;:?!'\"()–%/=+×-]{15,}[.?!:)]")
IN_PLACE_OF = {
    r"\[([^\]]*)\]\([^)]*\)": r"\1",  # a link
    r"\$([A-Za-z0-9 =+,.]+)\$": r"\1",  # a formula that is plain
    r"`([A-Za-z ]+)`": r"\1",  # a name
    r"\*": "",
    "[“”]": '"',
    "’": "'",
    "…": "...",
}


def main() -> int:
    """Writes, and says how much."""
    lines = list(dict.fromkeys(paragraph for path in sorted(NOTEBOOKS.glob("*/*.ipynb")) for paragraph in _prose(path)))
    text = "".join(f"{line}\n" for line in lines)
    course_writer.TEXT.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(
        f"{len(lines)} paragraphs, {len(text):,} characters, {course_writer.TEXT.stat().st_size / 1000:.0f} kB packed"
    )
    return 0


def _prose(path: Path) -> Iterator[str]:
    """The paragraphs of a notebook, each on one line."""
    for cell in notebooks.read(path).cells:
        if cell.cell_type == "markdown":
            yield from filter(None, map(plain, paragraphs(cell.source)))


def paragraphs(markdown: str) -> list[str]:
    """The paragraphs and items of a text cell."""
    for apart in (APART, LINES, ITEMS):
        markdown = apart.sub("\n\n", markdown)
    return re.split(r"\n\s*\n", markdown)


def plain(paragraph: str) -> str:
    """Its plain sentences."""
    text = " ".join(paragraph.split())
    for pattern, replacement in IN_PLACE_OF.items():
        text = re.sub(pattern, replacement, text)
    return " ".join(filter(PLAIN.fullmatch, SENTENCE_ENDS.split(text)))


if __name__ == "__main__":
    raise SystemExit(main())
