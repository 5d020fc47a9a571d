"""The step that stands in the place of nbgrader's SaveAutoGrades (see nbgrader_config.py). nbgrader opens every mark
again whenever a notebook is graded anew; here a mark on an unchanged answer stays done. Where the answer has changed,
the marker sees the old text and its mark beside the new one. Changed scores go to `regrades.csv`."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Grade
from nbgrader.preprocessors import SaveAutoGrades
from traitlets import Unicode

from autograder import notebooks
from autograder.grading import regrade_log
from autograder.grading.feedback import EARLIER
from autograder.grading.open_gradebook import OPEN
from autograder.whole_files import write_whole


@dataclass
class Answers:
    """What one student answered in one unit when it was last graded. texts: of every answer cell; rest: a hash of the
    cells that belong to nobody's exercise; marked: of answers changed after being marked, {"text", "score"}."""

    texts: dict[str, str] = field(default_factory=dict)
    rest: str = ""
    marked: dict[str, dict] = field(default_factory=dict)


class KeptMarks(SaveAutoGrades):
    """A subclass of nbgrader's step: scores are saved as nbgrader saves them."""

    answers = Unicode(help="The folder of what was answered when it was last graded.").tag(config=True)
    log_file = Unicode(help="The CSV file of changes of earlier scores.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        place = resources["nbgrader"]
        path = Path(self.answers) / place["student"] / f"{place['assignment']}.json"
        self.before, self.now = _load(path), Answers(_texts(nb), _rest(nb))
        self.changes: list[regrade_log.Change] = []
        nb, resources = super().preprocess(nb, resources)
        _show_earlier(nb, self.now.marked)
        write = partial(_write, Path(self.log_file), self.changes, path, self.now)
        if OPEN:
            OPEN[-1].when_kept(write)
        else:  # nbgrader's own command has committed every cell by now
            write()
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: dict) -> None:
        grade = self.gradebook.find_grade(
            notebooks.grade_id(cell), self.notebook_id, self.assignment_id, self.student_id
        )
        old, was_open = _points(grade), grade.needs_manual_grade
        super()._add_score(cell, resources)
        name = self._answer(cell)
        if grade.manual_score is not None:
            self._keep_mark(grade, name, was_open)
        reopened = grade.manual_score is not None and grade.needs_manual_grade and not was_open
        if old is not None and (reopened or old != _points(grade)):
            new, why = None if reopened else _points(grade), self._why(name)
            self._note(notebooks.exercise_id(cell), old, new, why)

    def _keep_mark(self, grade: Grade, name: str | None, was_open: bool) -> None:
        """A mark that was done stays done where nothing has changed; else what it was given for is kept."""
        if was_open:
            if name in self.before.marked:
                self.now.marked[name] = self.before.marked[name]
        elif self._is_unchanged(name):
            grade.needs_manual_grade = False
            self.gradebook.db.commit()
        elif name in self.before.texts:
            self.now.marked[name] = {"text": self.before.texts[name], "score": grade.manual_score}

    def _answer(self, cell: NotebookNode) -> str | None:
        """The answer cell that a grade is for; None where several cells make the answer."""
        names = notebooks.grade_id(cell), notebooks.exercise_id(cell)
        return next((name for name in names if name in self.now.texts), None)

    def _is_unchanged(self, name: str | None) -> bool:
        if name is None:
            return bool(self.before.texts) and self.before.texts == self.now.texts
        return name in self.before.texts and self.before.texts[name] == self.now.texts[name]

    def _why(self, name: str | None) -> str:
        if not self.before.texts:
            return "graded anew"
        if name is not None and not self._is_unchanged(name):
            return "the answer was changed"
        same = self.before.texts == self.now.texts and self.before.rest == self.now.rest
        return "the grader was changed" if same else "other cells of the notebook were changed"

    def _note(self, exercise: str, old: float, new: float | None, why: str) -> None:
        time = datetime.now(UTC)
        self.changes.append(regrade_log.Change(time, self.assignment_id, self.student_id, exercise, old, new, why))


def _write(log: Path, changes: list[regrade_log.Change], path: Path, now: Answers) -> None:
    """The log first: where this is broken off, an answer may wait for its marker again, but no change goes unsaid."""
    regrade_log.add(log, changes)
    write_whole(path, json.dumps(vars(now), ensure_ascii=False))


def _points(grade: Grade) -> float | None:
    """The points that count; None where there are none yet."""
    return grade.auto_score if grade.manual_score is None else grade.manual_score


def _texts(nb: NotebookNode) -> dict[str, str]:
    return {notebooks.grade_id(cell): cell.source for cell in nb.cells if notebooks.flag(cell, "solution")}


def _rest(nb: NotebookNode) -> str:
    flags = ("solution", "locked", "grade")
    own = [cell.source for cell in nb.cells if not any(notebooks.flag(cell, name) for name in flags)]
    return hashlib.sha256("\0".join(own).encode()).hexdigest()


def _show_earlier(nb: NotebookNode, marked: dict[str, dict]) -> None:
    """Puts the old text and its mark before each answer that was changed since."""
    for index in reversed(range(len(nb.cells))):
        old = marked.get(notebooks.grade_id(nb.cells[index]) or "")
        if old:
            text = f"**An earlier answer, marked {old['score']:g}:**\n\n<pre>{escape(old['text'])}</pre>"
            nb.cells.insert(index, new_markdown_cell(text, metadata={"tags": [EARLIER]}))


def _load(path: Path) -> Answers:
    try:
        return Answers(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Answers()
