"""Markdown and code as HTML: formulas as MathML, headings with names to link to."""

import re
from dataclasses import dataclass
from functools import cache

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES

ABOUT = re.compile(r"^(?P<title>.*?)  +(?P<about>[●○]{3}.*)$")
SUBHEADING = re.compile(r"^(?P<number>\d+\.\d+) ")
THEMES = "default", "github-dark"


@dataclass(frozen=True)
class Heading:
    """A heading of a page: `name` is what a link says after the #."""

    level: int
    title: str
    name: str


def html(markdown: str) -> tuple[str, list[Heading]]:
    """A markdown cell as HTML, and its headings."""
    parser = _parser()
    tokens = parser.parse(markdown)
    headings = [
        _named(opening, inline)
        for opening, inline in zip(tokens, tokens[1:], strict=False)
        if opening.type == "heading_open"
    ]
    return parser.renderer.render(tokens, parser.options, {}), headings


def code(source: str) -> str:
    """Python as colored HTML, which a keyboard can scroll."""
    return highlight(source, PythonLexer(), HtmlFormatter(cssclass="code")).replace("<pre>", '<pre tabindex="0">', 1)


def colours() -> str:
    """The style sheet of `code`, light and dark."""
    styles, rules = [get_style_by_name(name) for name in THEMES], []
    for token, name in STANDARD_TYPES.items():
        light, dark = (f"#{found}" if (found := style.style_for_token(token)["color"]) else "" for style in styles)
        if name and (light or dark):
            rules.append(f".code .{name} {{ color: light-dark({light or 'currentcolor'}, {dark or 'currentcolor'}) }}")
    return "\n".join(rules) + "\n"


def plain(page: str) -> str:
    """The words of a piece of HTML, for search."""
    without = re.sub(r"<(math|svg|style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", without).split())


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return parser.use(dollarmath_plugin, renderer=_formula, allow_digits=True)


def _formula(latex: str, options: dict) -> str:
    latex = latex.replace("{aligned}", "{split}")  # the same, and the only one of the two that latex2mathml knows
    return convert(latex, display="block" if options.get("display_mode") else "inline")


def _named(opening: Token, inline: Token) -> Heading:
    """Gives a heading its name; difficulty, time and points become a line of their own look."""
    found = ABOUT.match(inline.content)
    title = found["title"] if found else inline.content
    number = SUBHEADING.match(title)
    name = f"s{number['number'].replace('.', '-')}" if number else re.sub(r"\W+", "-", title.lower()).strip("-")
    opening.attrSet("id", name)
    if found:
        inline.children = [
            child for child in inline.children or [] if child.type != "text" or found["about"] not in child.content
        ]
        inline.children += _parser().parseInline(title)[0].children or []
        inline.children.append(Token("html_inline", "", 0, content=f' <span class="about">{found["about"]}</span>'))
    return Heading(int(opening.tag[1]), title, name)
