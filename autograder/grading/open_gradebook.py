"""nbgrader's own steps at the pace of a class: one open gradebook in the place of the nine that they open for every
notebook, one query for all grades of a notebook, and one check of nbgrader's metadata schema in the place of one for
every cell.

The steps stay nbgrader's, and so does every row that they write (tests/grading/test_same_rows.py). What they write of
one submission reaches the file at once: a grader that is killed leaves the whole of it, or nothing."""

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from nbgrader.api import BaseCell, Comment, Grade, Gradebook

from autograder.course import nbgrader_steps
from autograder.course.paths import Course

STEPS = (
    "converters.autograde",
    "preprocessors.overwritecells",
    "preprocessors.overwritekernelspec",
    "preprocessors.saveautogrades",
    "preprocessors.latesubmissions",
    "preprocessors.getgrades",
)
"""The modules of nbgrader's that open a gradebook for a submission."""
SOURCE = ("name", "cell_type", "locked", "checksum", "source")


OPEN: list["OpenGradebook"] = []
"""The gradebook that is open now, if one is."""


class OpenGradebook(Gradebook):
    """A gradebook that stays open when a step closes it. What a step commits the next sees, and `keep` keeps."""

    def __init__(self, address: str, course_id: str):
        super().__init__(address, course_id)
        self.db.commit = self.db.flush
        self.cells: dict[tuple, Any] = {}
        self.loaded: dict[tuple, dict[str, Any]] = {}
        self.waiting: list[Callable[[], None]] = []

    def close(self) -> None:
        """Nothing a step has loaded is taken for granted by the next."""
        self.db.flush()
        self.db.expire_all()
        self.loaded.clear()

    def when_kept(self, write: Callable[[], None]) -> None:
        """Calls a function once what came since `keep` is in the file: so it never speaks of rows that are not
        there."""
        self.waiting.append(write)

    def keep(self) -> None:
        self.db().commit()
        while self.waiting:
            self.waiting.pop(0)()

    def drop(self) -> None:
        """As if what came since `keep` had not happened."""
        self.db.rollback()
        self.loaded.clear()
        self.waiting.clear()

    def end(self) -> None:
        super().close()

    def find_source_cell(self, *place: str) -> SimpleNamespace:
        """A cell as the instructors wrote it; these don't change while a class is graded."""
        return self._once("source", place, super().find_source_cell, SOURCE)

    def find_graded_cell(self, *place: str) -> SimpleNamespace:
        return self._once("graded", place, super().find_graded_cell, ("max_score",))

    def find_grade(self, cell: str, *place: str) -> Grade:
        """As nbgrader's, which asks the database for each."""
        return self._of_cells(Grade, place).get(cell) or super().find_grade(cell, *place)

    def find_comment(self, cell: str, *place: str) -> Comment:
        return self._of_cells(Comment, place).get(cell) or super().find_comment(cell, *place)

    def _of_cells(self, kind: Any, place: tuple) -> dict[str, Any]:
        """All grades, or comments, of a student's notebook by cell. place: notebook, assignment, student."""
        if (kind, place) not in self.loaded:
            cells = self.db.query(BaseCell.name, kind).join(kind, kind.cell_id == BaseCell.id)
            page = self.find_submission_notebook(*place)
            self.loaded[kind, place] = dict(cells.filter(kind.notebook_id == page.id).all())
        return self.loaded[kind, place]

    def _once(self, kind: str, place: tuple, find: Any, names: tuple[str, ...]) -> SimpleNamespace:
        if (kind, place) not in self.cells:
            found = find(*place)
            self.cells[kind, place] = SimpleNamespace(**{name: getattr(found, name) for name in names})
        return self.cells[kind, place]


@contextmanager
def open_gradebook(course: Course) -> Iterator[OpenGradebook]:
    """Within it nbgrader's steps use this gradebook."""
    with nbgrader_steps.open_gradebook(course):  # made and stamped where there is none
        pass
    with ExitStack() as stack:
        stack.enter_context(nbgrader_steps.gradebook_errors())
        course_id = nbgrader_steps.settings(course).CourseDirectory.get("course_id", "")
        gradebook = OpenGradebook(course.gradebook, course_id)
        stack.callback(gradebook.end)
        for name in STEPS:
            module = importlib.import_module(f"nbgrader.{name}")
            stack.enter_context(patch.object(module, "Gradebook", lambda *_, **__: gradebook))
        schemas = importlib.import_module("nbgrader.nbgraderformat.common")
        stack.enter_context(patch.object(schemas, "jsonschema", SimpleNamespace(validate=_validate)))
        OPEN.append(gradebook)
        stack.callback(OPEN.remove, gradebook)
        yield gradebook


def _validate(instance: Any, schema: dict) -> None:
    """As jsonschema's `validate`, which checks the schema itself every time."""
    if (error := best_match(_validator(json.dumps(schema)).iter_errors(instance))) is not None:
        raise error


@cache
def _validator(schema: str) -> Any:
    kind = validator_for(json.loads(schema))
    kind.check_schema(json.loads(schema))
    return kind(json.loads(schema))
