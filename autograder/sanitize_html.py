"""HTML of strangers, made harmless after it has been rendered: pages that show it are read by instructors who are
logged in.

Tags and attributes that only format; links to mailto, to places on the page, and to http and https of public names;
pictures only where they are part of the page itself, made of pixels or of plain paths and words. Nothing is loaded from
elsewhere, nothing runs, nothing folds and nothing is styled: boxes, colours and folds are the course's own."""

import base64
import re
from html import escape
from html.parser import HTMLParser

import nh3
from pygments.token import STANDARD_TYPES

from autograder import size_limits

TAGS = set(
    "a abbr b blockquote br caption code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li mark ol p "
    "pre s small span strong sub sup table tbody td tfoot th thead tr u ul".split()
)
ATTRIBUTES = {
    "*": {"class", "title", "colspan", "rowspan", "align"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "table": {"border"},
}
VOID = {"br", "hr", "img"}
MOST_TAGS = 10_000
_LINK = re.compile(r"(?:mailto:|#).*|https?://([\w.-]+)(?::\d+)?(?:[/?#].*)?", re.ASCII | re.DOTALL | re.IGNORECASE)
"""The host as it is written: no user name, backslash or percent sign, of which a browser makes another one."""
_PRIVATE = set(
    "arpa belkin box consul corp docker home internal intra intranet invalid lan local localdomain localhost localnet "
    "private svc test workgroup".split()
)
"""Ends of names that lead into one's own network."""
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_SVG = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]*)")
_DRAWING = re.compile(
    r"(?:<(?:svg|g|path|text)(?: (?:xmlns|width|height|viewBox|font-(?:family|size|weight)|fill|fill-opacity|stroke"
    r'|stroke-width|text-anchor|x|y|d)="[\w\s#.,:/-]*")*/?>|</(?:svg|g|text)>|[^<>]+)*+'
)
"""Without styles, links, definitions or anything that is used twice: no few lines of it keep a browser busy."""
_NO_PICTURE = re.compile(r'<img(?! [^>]*\bsrc=")[^>]*>')  # nh3 writes > in an attribute as &gt;
NO_PICTURE = "(A picture is not shown here: only PNG, JPEG, GIF and WebP that are part of the notebook are.)"
_CLASS = re.compile(r"language-[\w+-]{1,20}")
_CLASSES = {"highlight", "dataframe", *STANDARD_TYPES.values()}
"""Of pygments and pandas. Others could dress up as a part of the page: formgrader looks for `score` and `comment`."""


def sanitize_html(text: str) -> str:
    """The harmless part of some HTML. Takes a time that grows with the square of the number of tags: see `problem`."""
    cleaned = nh3.clean(
        text,
        tags=TAGS,
        clean_content_tags={"script", "style", "svg"},
        attributes=ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes={"http", "https", "mailto", "data"},
    )
    return _NO_PICTURE.sub(f"<em>{NO_PICTURE}</em>", cleaned)


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if is_public(value) else None
    if name == "src":
        return value if _PICTURE.fullmatch(value) or _is_drawing(value) else None
    if name == "class":
        return " ".join(word for word in value.split() if word in _CLASSES or _CLASS.fullmatch(word)) or None
    return value


def _is_drawing(address: str) -> bool:
    """Whether it holds an SVG of nothing but paths and words, such as the course's own films draw."""
    found = _SVG.fullmatch(address)
    try:
        return bool(found and _DRAWING.fullmatch(base64.b64decode(found[1], validate=True).decode()))
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether a link may stay one. Numbers (127.0.0.1, 2130706433, 0x7f.1) and names that mean something in one's own
    network alone may not: the server that shows the page is there."""
    found = _LINK.fullmatch(address)
    if found is None or found[1] is None:
        return found is not None
    *labels, last = found[1].lower().removesuffix(".").split(".")
    named = last.replace("-", "").isalnum() and not last[0].isdigit()  # nothing but a number ends in one that starts so
    return all(labels) and bool(labels) and named and last not in _PRIVATE


def sanitize_or_explain(text: str) -> str:
    """The harmless part of some HTML, or a line that says why it is not shown."""
    if reason := problem(text):
        return f"<p>(Not shown: {reason}.)</p>"
    cleaned = sanitize_html(text)
    if depth(cleaned) > size_limits.DEPTH:
        return f"<p>(Not shown: HTML with more than {size_limits.DEPTH} tags within each other.)</p>"
    return cleaned


def problem(text: str) -> str:
    """Why some HTML is not even looked at; empty where it is."""
    if (size := len(_without_pictures(text))) > size_limits.HTML:
        return f"{size:,} characters of HTML, more than {size_limits.HTML:,}"
    if (tags := text.count("<")) > MOST_TAGS:
        return f"{tags:,} tags, more than {MOST_TAGS:,}"
    return ""


def depth(cleaned: str) -> int:
    """How many tags stand within each other at most, in HTML as `sanitize_html` writes it."""
    counter = _Depth()
    counter.feed(cleaned)
    return counter.most


def text_as_html(text: str) -> str:
    """Plain text as HTML of one line: what `sanitize_or_explain` gives for it is the same."""
    return f"<pre>{escape(text, quote=False)}</pre>"


def _without_pictures(text: str) -> str:
    return _PICTURE.sub("", text) if "data:image/" in text else text


class _Depth(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if tag not in VOID:
            self.now += 1
            self.most = max(self.most, self.now)

    def handle_endtag(self, tag: str) -> None:
        self.now -= 1
