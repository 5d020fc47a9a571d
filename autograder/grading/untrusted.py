"""A student's own text, cleaned: instructors read autograded notebooks in a browser that is logged in."""

import re

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_locked

from autograder.judge.plain import TAGS

SAFE = {*TAGS} - {"img"}
_TAG = re.compile(
    rf"</?(?:{'|'.join(sorted(SAFE))})(?:\s+(?:class|title|open)(?:=\"[\w \-]*\")?)*\s*/?>", re.IGNORECASE
)
_LINK = re.compile(r"<a\s+href=\"(?:https?://|#)[^\"<>\s]*\"\s*>", re.IGNORECASE)
_OPENS = re.compile(r"<(?=[a-zA-Z/!?])")  # what a browser could take for the beginning of a tag


def clean_markdown(text: str) -> str:
    """Markdown in which only plain, harmless tags are tags; every other `<` that could begin one is shown as it is."""

    def kept(found: re.Match) -> str:
        harmless = _TAG.match(text, found.start()) or _LINK.match(text, found.start())
        return "<" if harmless else "&lt;"

    return _OPENS.sub(kept, text)


class CleanText(NbGraderPreprocessor):
    """A sanitising step of nbgrader's: formgrader and feedback show markdown as the HTML it holds."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        if cell.cell_type != "code" and not is_locked(cell):
            cell.source = clean_markdown(cell.source)
        return cell, resources

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.metadata.pop("widgets", None)  # pages would hand it to a script
        return super().preprocess(nb, resources)
