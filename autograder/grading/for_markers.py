"""What a marker needs beside an answer: the model answer, and one that earns a part of the points
(solutions/calibrated.toml). Both stand folded above each written answer in formgrader, and in no feedback page. Markers
know them by fold and color: nothing that a student writes has any (see sanitize_html.py)."""

import tomllib
from functools import cache
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder import notebooks
from autograder.course.paths import CALIBRATED
from autograder.grading.feedback import EARLIER, FOR_MARKERS

STYLE = "border-left: 4px solid #0b5cad; background: #eaf3fc; color: #1b1b1b; padding: 0.3em 1em"


class ForMarkers(NbGraderPreprocessor):
    """A step of nbgrader's autograde, after the scores have been saved."""

    solutions = Unicode(help="The folder of the course's solutions.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        unit = resources["nbgrader"]["assignment"]
        models, partly = _models(Path(self.solutions) / unit / f"{unit}.ipynb"), _calibrated(Path(self.solutions))
        for index in reversed(range(len(nb.cells))):
            name = notebooks.grade_id(nb.cells[index])
            if name in models and notebooks.is_written(nb.cells[index]):
                text = _text(notebooks.points(nb.cells[index]), models[name], partly.get(name))
                place = index - (EARLIER in nb.cells[index - 1].metadata.get("tags", []))
                nb.cells.insert(place, new_markdown_cell(text, metadata={"tags": [FOR_MARKERS]}))
        return nb, resources


def _text(points: float, model: str, partly: dict | None) -> str:
    """Two folded examples; blank lines, so that what stands between the tags is read as Markdown."""
    shown = [_folded(f"▸ For the marker: worth {points:g}", model)]
    if partly:
        shown.append(
            _folded(f"▸ For the marker: worth {partly['points']:g}", f"“{partly['answer']}”\n\n*{partly['why']}*")
        )
    return "\n\n".join(shown)


def _folded(title: str, text: str) -> str:
    return f'<details style="{STYLE}"><summary>{title}</summary>\n\n{text}\n\n</details>'


@cache
def _models(path: Path) -> dict[str, str]:
    """The written answers of a solution notebook."""
    try:
        cells = notebooks.read(path).cells
    except (OSError, ValueError):
        return {}
    return {notebooks.grade_id(cell): cell.source for cell in cells if notebooks.is_written(cell)}


@cache
def _calibrated(folder: Path) -> dict[str, dict]:
    path = folder / CALIBRATED
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
