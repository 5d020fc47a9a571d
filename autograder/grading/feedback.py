"""Feedback pages: nbgrader's, with a Content-Security-Policy. What students wrote has been cleaned before (see untrusted.py and
judge/plain.py); the policy is a second wall: a page runs the scripts of its template and loads MathJax, and nothing else."""

import base64
import hashlib
import re
from functools import cached_property

from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode

MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/"
_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTML exporter; every page says what it may do."""

    def from_notebook_node(self, nb: NotebookNode, resources: dict | None = None, **more) -> tuple[str, dict]:
        page, resources = super().from_notebook_node(nb, resources, **more)
        tag = f'<meta http-equiv="Content-Security-Policy" content="{self.policy}">'
        return page.replace("<head>", f"<head>\n{tag}", 1), resources

    @cached_property
    def policy(self) -> str:
        """Scripts of the template, by their hashes, and MathJax, which reads its settings with `eval`; pictures within the page."""
        scripts = " ".join(f"'sha256-{_hash(text)}'" for text in _SCRIPT.findall(self._template_text()))
        return (f"default-src 'none'; script-src {MATHJAX} 'unsafe-eval' {scripts}; style-src 'unsafe-inline' {MATHJAX}; "
                f"img-src data:; font-src data: {MATHJAX}; base-uri 'none'; form-action 'none'")  # fmt: skip

    def _template_text(self) -> str:
        """A page without a notebook."""
        empty = {"nbgrader": {"notebook": "", "score": 0, "max_score": 0, "late_penalty": 0}}
        return HTMLExporter(config=self.config).from_notebook_node(
            NotebookNode(nbformat=4, nbformat_minor=5, metadata={}, cells=[]), empty
        )[0]


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
