"""What formgrader's page of a submission and feedback pages have in common. Both are nbconvert's HTML of a notebook
that has been cleaned before (see sanitize_text.py and judge/sanitize_outputs.py); their templates are nbgrader's."""

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from jinja2 import BaseLoader, Environment
from nbconvert.exporters import HTMLExporter, html
from nbformat import NotebookNode

MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/"
_CONFIG = "MathJax.Hub.Config({"
_SAFE = 'Safe: {allow: {URLs: "none", classes: "none", cssIDs: "none", styles: "none", require: "none"}}, '
"""Formulas are not cleaned: TeX can make links, too, and clothe its parts."""
_STYLE = """<style>
.rendered_html, .output_area {overflow: auto} a:not([href]) {color: inherit}
summary {display: list-item} .anchor-link {display: none}
pre {background: #ffffff !important} a[href] {color: #1d5a96; text-decoration: underline}
a[href="#top"] {color: #ffffff !important}
</style>
"""
"""TeX can move its parts anywhere: what leaves its own box is out of sight."""
_PICTURE = re.compile(r"<img\b(?![^>]*\salt=)", re.IGNORECASE)


class PageExporter(HTMLExporter):
    """nbconvert's HTML exporter, without what takes long for texts of strangers."""

    def from_notebook_node(self, nb: NotebookNode, resources: dict | None = None, **more) -> tuple[str, dict]:
        with patch.object(html, "BeautifulSoup", _Page):
            return super().from_notebook_node(nb, resources, **more)

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.loader = ChangedTemplates(environment.loader, self.changed)
        return environment

    def changed(self, template: str) -> str:
        """A template as it is used."""
        template = template.replace(_CONFIG, _CONFIG + _SAFE).replace("</head>", f"{_STYLE}</head>")
        return template.replace("<html>", '<html lang="en">')

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "strip_files_prefix", lambda text: text  # for links of old notebooks; square in the number of brackets


class ChangedTemplates(BaseLoader):
    """Somebody else's templates, with a change in each."""

    def __init__(self, loader: Any, change: Callable[[str], str]) -> None:
        self.loader, self.change = loader, change

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable | None]:
        source, *rest = self.loader.get_source(environment, template)
        return self.change(source), *rest


class _Page:
    """Does to a page what nbconvert does with BeautifulSoup, without taking half a megabyte apart: pictures get a text
    that says that they have none. (The other two things are about classes that the templates have not.)"""

    def __init__(self, text: str, features: str) -> None:
        self.text = text

    def select(self, selector: str) -> list:
        return []

    def __str__(self) -> str:
        return _PICTURE.sub('<img alt="No description has been provided for this image"', self.text)
