"""What a student's kernel sent becomes outputs of a notebook: known kinds, known MIME types, known sizes, and no script
in any of them, for instructors read autograded notebooks in a browser that is logged in."""

import re
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import limited_process, sanitize_html, size_limits
from autograder.control_characters import clean, few_colors

PICTURES = {"image/png", "image/jpeg", "image/gif"}
MARKUP = {"text/html", "text/latex"}  # pages show both as they are
SECONDS = 1.0  # to clean one output
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")  # a page puts it into an attribute, unescaped
_FULL = f"[… left out: this notebook has shown {size_limits.NOTEBOOK_OUTPUT // 1_000_000} MB by now]\n"
_LEFT_OUT = "\n[… {:,} more characters are left out]\n"


@dataclass
class OutputRoom:
    """What a student's notebook may still show, in bytes as they are sent (and kept)."""

    left: int = size_limits.NOTEBOOK_OUTPUT

    def add(self, before: list[NotebookNode], raw: Any, size: int) -> list[NotebookNode]:
        """A cell's outputs and what it has sent, if there is room for that; else a line says so, once in a cell."""
        self.left -= size if raw else 0
        if self.left >= 0:
            return sanitize_outputs(before, raw, trusted=False)
        full = new_output("stream", name="stderr", text=_FULL)
        return before if before and before[-1] == full else [*before, full]


def sanitize_outputs(before: list[NotebookNode], raw: Any, trusted: bool) -> list[NotebookNode]:
    """`before` and the outputs in `raw`; consecutive prints are joined. What has no known form is left out, and so is
    what goes beyond the sizes of size_limits.py; a line says so. Of trusted ones the text alone is cleaned: a card
    quotes what a student's code said."""
    after = list(before)
    for item in clean(raw) if isinstance(raw, list) else []:
        output = _output(item, trusted, _markup(after)) if isinstance(item, dict) else None
        if (
            output
            and after
            and output.output_type == "stream" == after[-1].output_type
            and output.name == after[-1].name
        ):
            after[-1].text = _short(after[-1].text, output.text)
        elif output and len(after) < size_limits.OUTPUTS:
            after.append(output)
        elif output and len(after) == size_limits.OUTPUTS:
            after.append(new_output("stream", name="stderr", text="[… further outputs of this cell are left out]\n"))
    return after


def _output(raw: dict, trusted: bool, markup: int) -> NotebookNode | None:
    kind = raw.get("output_type")
    if kind == "stream":
        return new_output(
            "stream",
            name="stderr" if raw.get("name") == "stderr" else "stdout",
            text=_short("", str(raw.get("text", ""))),
        )
    if kind == "error":
        trace = raw["traceback"] if isinstance(raw.get("traceback"), list) else []
        return new_output(
            "error",
            ename=_short("", str(raw.get("ename"))),
            evalue=_short("", str(raw.get("evalue"))),
            traceback=_short("", "\n".join(map(str, trace[-100:]))).split("\n"),  # pages join the lines
        )
    if kind in ("display_data", "execute_result") and isinstance(raw.get("data"), dict):
        count = raw.get("execution_count")
        more = {"execution_count": count} if type(count) is int and 0 <= count < 1_000_000 else {}
        data = raw["data"] if trusted else sanitize_display(raw["data"], markup)
        return new_output(kind, data=data, **(more if kind == "execute_result" else {}))
    return None


def _short(before: str, more: str) -> str:
    """Both texts as one, cut at the size that an output may have."""
    room = size_limits.STREAM - len(before)
    if len(more) <= room:
        return few_colors(before + more)
    return before if room <= 0 else few_colors(before + more[:room]) + _LEFT_OUT.format(len(more) - room)


def _markup(outputs: list[NotebookNode]) -> int:
    """The characters of HTML and LaTeX in a cell's outputs so far."""
    return sum(len(output.data.get(mime, "")) for output in outputs if "data" in output for mime in MARKUP)


def sanitize_display(data: dict, before: int = 0) -> dict:
    """A student's display without what a browser would run. `before`: characters of markup that the cell shows
    already."""
    texts = {str(mime): value for mime, value in data.items() if isinstance(value, str)}
    kept = {mime: value for mime, value in texts.items() if mime in PICTURES and _BASE64.fullmatch(value)}
    if before <= size_limits.HTML:
        kept |= {mime: clean_html(value) for mime, value in texts.items() if mime in MARKUP}
    if plain := texts.get("text/markdown") or texts.get("text/plain"):  # markdown as its source: it may hold any HTML
        kept["text/plain"] = _short("", plain)
    if "image/svg+xml" in texts and not PICTURES & kept.keys():  # a program, of which a few lines stop a browser
        kept["text/plain"] = sanitize_html.NO_PICTURE
    if not kept:
        kept["text/plain"] = f"(not shown: {', '.join(sorted(map(str, data)))[:200]})"
    return kept


def clean_html(text: str) -> str:
    """HTML with harmless tags and attributes only; pictures only where they are part of the page itself. What is too
    large, or takes too long, is replaced by a line that says so."""
    if reason := sanitize_html.problem(text):
        return f"<p>(Not shown: {reason}.)</p>"
    if "<" not in text and "&" not in text:
        return text.replace(">", "&gt;")
    try:
        return limited_process.call(sanitize_html.sanitize_or_explain, text, seconds=SECONDS)
    except (limited_process.LimitExceeded, limited_process.CallFailed) as reason:
        return f"<p>(Not shown: cleaning this output failed: {reason}.)</p>"
