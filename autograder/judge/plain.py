"""What a student's kernel sent becomes outputs of a notebook: known kinds, known MIME types, and no script in any of them,
for instructors read autograded notebooks in a browser that is logged in."""

import re
from typing import Any

import bleach
from nbformat import NotebookNode
from nbformat.v4 import new_output

PICTURES = {"image/png", "image/jpeg", "image/gif"}
MARKUP = {"text/html", "text/latex"}  # pages show both as they are
TAGS = {*bleach.ALLOWED_TAGS, "p", "div", "span", "pre", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "caption",
        "h1", "h2", "h3", "h4", "h5", "h6", "img", "details", "summary", "sub", "sup", "del"}  # fmt: skip
ATTRIBUTES = {
    "*": ["class", "title", "colspan", "rowspan", "align"],
    "a": ["href"],
    "img": ["src", "alt", "width", "height"],
}
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")  # a page puts it into an attribute, unescaped
PROTOCOLS = ["http", "https", "mailto", "data"]


def plain_outputs(before: list[NotebookNode], raw: Any, trusted: bool) -> list[NotebookNode]:
    """`before` and the outputs in `raw`; consecutive prints are joined. What has no known form is left out."""
    after = list(before)
    for item in raw if isinstance(raw, list) else []:
        output = _output(item, trusted) if isinstance(item, dict) else None
        if (
            output
            and after
            and output.output_type == "stream" == after[-1].output_type
            and output.name == after[-1].name
        ):
            after[-1].text += output.text
        elif output:
            after.append(output)
    return after


def _output(raw: dict, trusted: bool) -> NotebookNode | None:
    kind = raw.get("output_type")
    if kind == "stream":
        return new_output(
            "stream", name="stderr" if raw.get("name") == "stderr" else "stdout", text=str(raw.get("text", ""))
        )
    if kind == "error":
        trace = [str(line) for line in raw.get("traceback") or []] if isinstance(raw.get("traceback"), list) else []
        return new_output("error", ename=str(raw.get("ename")), evalue=str(raw.get("evalue")), traceback=trace)
    if kind in ("display_data", "execute_result") and isinstance(raw.get("data"), dict):
        more = {"execution_count": raw["execution_count"]} if type(raw.get("execution_count")) is int else {}
        data = raw["data"] if trusted else cleaned(raw["data"])
        return new_output(kind, data=data, **(more if kind == "execute_result" else {}))
    return None


def cleaned(data: dict) -> dict:
    """A display of a student's without what a browser would run."""
    texts = {str(mime): value for mime, value in data.items() if isinstance(value, str)}
    kept = {mime: value for mime, value in texts.items() if mime in PICTURES and _BASE64.fullmatch(value)}
    kept |= {mime: clean_html(value) for mime, value in texts.items() if mime in MARKUP}
    if plain := texts.get("text/markdown") or texts.get("text/plain"):  # markdown as its source: it may hold any HTML
        kept["text/plain"] = plain
    if not kept:
        kept["text/plain"] = f"(not shown: {', '.join(sorted(map(str, data)))[:200]})"
    return kept


def clean_html(text: str) -> str:
    """HTML with harmless tags and attributes only; pictures only where they are part of the page itself."""
    return bleach.clean(text, tags=TAGS, attributes=ATTRIBUTES, protocols=PROTOCOLS, strip=True, strip_comments=True)
