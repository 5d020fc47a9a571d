"""What a class shows: how hard each exercise was and whom it tells apart, who holds which misconception, which wrong
answers behave alike, and which are alike. Read from the gradebook and the graded notebooks; nothing is judged again."""

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.paths import Course
from autograder.course.visibility import companion_files
from autograder.gradebook import grades
from autograder.gradebook.database import open_gradebook
from autograder.gradebook.grades import MISSING, Grade
from autograder.grading.grade import NO_MISTAKE
from autograder.judge.outputs import MIME
from autograder.reports import similarity, suspicious_code
from autograder.reports.oral_questions import oral_questions
from autograder.reports.similarity import Pair


@dataclass(frozen=True)
class ExerciseStatistics:
    """An exercise. `difficulty`: the mean share of its points, of those who were graded (1: everybody has all).
    `discrimination`: the correlation of its points with the sum of all others (with 0 and 1 alone it is called
    point-biserial); None where one of the two is the same for everybody."""

    id: str
    points: float
    difficulty: float
    discrimination: float | None
    full: int
    none: int
    open: int


@dataclass(frozen=True)
class SimilarFailures:
    """Wrong answers to an exercise that fail in the same way; `said`: what their cards say; `example`: one of them."""

    exercise: str
    said: str
    failed: tuple[str, ...]
    students: tuple[str, ...]
    example: str


@dataclass
class UnitStatistics:
    """A unit."""

    unit: str
    grades: list[Grade]
    items: list[ExerciseStatistics]
    misconceptions: list[tuple[str, str, list[str]]]
    unnamed: list[SimilarFailures]
    equal: list[tuple[str, list[str], str]]
    pairs: list[Pair]
    codes: dict[str, str] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)
    """Student → the exercises that did not earn all points."""
    repairs: list[tuple[str, list[str]]] = field(default_factory=list)
    """What was mended in hand-ins before they were graded, and whose."""
    beyond: list[tuple[str, list[str]]] = field(default_factory=list)
    """Student → lines that reach for more than an exercise needs (see suspicious_code.py)."""
    questions: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Student → lines of the answers, and what to ask about them (see oral_questions.py)."""

    @property
    def scores(self) -> list[float]:
        return [one.score for one in self.grades if one.score is not None]

    @property
    def missing(self) -> list[str]:
        return [one.student.student_id for one in self.grades if one.status == MISSING]


def class_statistics(course: Course, unit: str) -> UnitStatistics:
    """Raises CourseError where the unit has no grades."""
    found = grades.grades(course, unit)
    solved, released = notebooks.read(course.solved(unit)), notebooks.read(course.released(unit))
    points, most, waiting = _points(course, unit, solved)
    answers = {student: _Answers(course, student, unit) for student in points}
    stubs = _code(released)
    known = [_code(solved), stubs, _alternatives(unit)]
    codes = {student: one.code for student, one in answers.items() if one.code}
    pairs = similarity.similar_pairs(codes, known)[: similarity.MOST_PAIRS]
    return UnitStatistics(
        unit,
        found,
        [_item(name, points, most[name], waiting[name]) for name in most],
        _misconceptions(answers),
        _unnamed(answers),
        _equal(answers, released, solved),
        pairs,
        {name: codes[name] for pair in pairs for name in (pair.first, pair.second)},
        {student: [name for name in most if one.get(name, 0.0) < most[name]] for student, one in points.items()},
        _repairs(answers),
        _beyond(answers, released, solved),
        {student: oral_questions(code, stubs.splitlines()) for student, code in sorted(codes.items())},
    )


# ---------------------------------------------------------------- from the gradebook


def _points(
    course: Course, unit: str, solved: NotebookNode
) -> tuple[dict[str, dict[str, float]], dict[str, float], dict[str, int]]:
    """Student → exercise → points; exercise → its maximum, in order; exercise → answers that wait for a mark."""
    from nbgrader.api import Assignment, SubmittedAssignment, SubmittedNotebook
    from nbgrader.api import Grade as Cell

    cells = [cell for cell in solved.cells if notebooks.flag(cell, "grade")]
    most = {notebooks.exercise_id(cell): notebooks.points(cell) for cell in cells}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    waiting = dict.fromkeys(most, 0)
    with open_gradebook(course) as book:
        rows = (
            book.db.query(SubmittedAssignment.student_id, Cell)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Cell, Cell.notebook_id == SubmittedNotebook.id)
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .filter(Assignment.name == unit)
        )
        for student, cell in rows:
            name = cell.name.removesuffix("_test")
            score = cell.auto_score if cell.manual_score is None else cell.manual_score
            found[student][name] = score or 0.0
            if cell.needs_manual_grade and name in waiting:
                waiting[name] += 1
    return found, most, waiting


def _item(name: str, points: dict[str, dict[str, float]], most: float, waiting: int) -> ExerciseStatistics:
    own = [one.get(name, 0.0) for one in points.values()]
    rest = [sum(one.values()) - one.get(name, 0.0) for one in points.values()]
    share = statistics.fmean(own) / most if own and most else 0.0
    full, none = sum(score >= most for score in own), sum(score <= 0 for score in own)
    return ExerciseStatistics(name, most, share, correlation(own, rest), full, none, waiting)


def correlation(first: list[float], second: list[float]) -> float | None:
    """Pearson's; None where one of the two does not vary."""
    try:
        return statistics.correlation(first, second)
    except statistics.StatisticsError:
        return None


# ---------------------------------------------------------------- from the graded notebooks


class _Answers:
    """What one student answered, and what the checks said."""

    def __init__(self, course: Course, student: str, unit: str) -> None:
        try:
            notebook = json.loads(course.graded(student, unit).read_text(encoding="utf-8"))
            cells, self.repairs = notebook["cells"], notebook["metadata"].get(notebooks.STAMP, {}).get("repairs", [])
        except (OSError, ValueError, KeyError):
            cells, self.repairs = [], []
        marked = [(cell.get("metadata", {}).get("nbgrader", {}), cell) for cell in cells]
        self.texts = {
            marks["grade_id"]: _source(cell) for marks, cell in marked if marks.get("solution") and "grade_id" in marks
        }
        written = {
            marks["grade_id"] for marks, cell in marked if marks.get("solution") and cell["cell_type"] == "markdown"
        }
        self.written = {name: text for name, text in self.texts.items() if name in written}
        self.code = similarity.BETWEEN.join(text for name, text in self.texts.items() if name not in written)
        given = [
            marks for marks, _ in marked if marks.get("locked") or (marks.get("grade") and not marks.get("solution"))
        ]
        self.own = [_source(cell) for marks, cell in marked if cell["cell_type"] == "code" and marks not in given]
        self.said = {
            marks["grade_id"].removesuffix("_test"): _said(cell)
            for marks, cell in marked
            if marks.get("grade") and not marks.get("solution") and cell["cell_type"] == "code"
        }


def _source(cell: dict) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def _said(cell: dict) -> dict[str, Any]:
    """The score in a test cell's output; of an error its name and text."""
    for output in cell.get("outputs", ()):
        if output.get("output_type") == "error":
            return {"score": 0.0, "points": 1.0, "message": f"{output.get('ename')}: {output.get('evalue')}"}
        if found := output.get("data", {}).get(MIME):
            return found
    return {}


def _misconceptions(answers: dict[str, _Answers]) -> list[tuple[str, str, list[str]]]:
    """Exercise, misconception and who holds it, the most frequent first."""
    found = defaultdict(list)
    for student, one in sorted(answers.items()):
        for exercise, said in one.said.items():
            if said.get("diagnosis") not in NO_MISTAKE:
                found[exercise, said["diagnosis"]].append(student)
    return sorted(((*key, who) for key, who in found.items()), key=lambda row: (-len(row[2]), row[:2]))


def _unnamed(answers: dict[str, _Answers]) -> list[SimilarFailures]:
    """Wrong answers without a name. The judge gives every submission the same inputs, so the same failed cases and the
    same numbers on the card are the same behaviour, as far as it was looked at."""
    found = defaultdict(list)
    for student, one in sorted(answers.items()):
        for exercise, said in one.said.items():
            wrong = said and said.get("score", 0.0) < said.get("points", 0.0) and not said.get("diagnosis")
            if wrong:
                found[exercise, said.get("message", ""), tuple(sorted(said.get("failed", ())))].append(student)
    made = [
        SimilarFailures(exercise, message, failed, tuple(who), _example(answers[who[0]], exercise))
        for (exercise, message, failed), who in found.items()
    ]
    return sorted(made, key=lambda one: (-len(one.students), one.exercise, one.said))


def _example(answers: _Answers, exercise: str) -> str:
    return answers.texts.get(exercise, "")


def _repairs(answers: dict[str, _Answers]) -> list[tuple[str, list[str]]]:
    """The most frequent first; a student in whose notebook one thing was mended twice stands there once."""
    found = defaultdict(list)
    for student, one in sorted(answers.items()):
        for line in dict.fromkeys(one.repairs):
            found[line].append(student)
    return sorted(found.items(), key=lambda row: (-len(row[1]), row[0]))


def _beyond(answers: dict[str, _Answers], released: NotebookNode, solved: NotebookNode) -> list[tuple[str, list[str]]]:
    known = [line for notebook in (released, solved) for cell in notebook.cells for line in cell.source.splitlines()]
    seen: dict[str, list[str]] = {}
    found = {}
    for student, one in sorted(answers.items()):
        for code in one.own:
            if code not in seen:
                seen[code] = suspicious_code.suspicious_lines(code, known)
        found[student] = [line for code in one.own for line in seen[code]]
    return [(student, lines) for student, lines in found.items() if lines]


def _equal(answers: dict[str, _Answers], released, solved) -> list[tuple[str, list[str], str]]:
    """Exercise, students and text, where a written answer is the same, or the code of all answers together."""
    rows, stubs, models = [], notebooks.by_id(released), notebooks.by_id(solved)
    known = [stubs, models]
    names = {name for one in answers.values() for name in one.written}
    for name in sorted(names):
        texts = {student: one.written.get(name, "") for student, one in answers.items()}
        usual = [cells[name].source for cells in known if name in cells]
        rows += [(name, group, texts[group[0]]) for group in similarity.identical_groups(texts, usual)]
    codes = {student: one.code for student, one in answers.items()}
    groups = similarity.identical_groups(codes, [_code(released), _code(solved)])
    return [("all code", group, codes[group[0]].replace(similarity.BETWEEN, "\n\n")) for group in groups] + rows


def _code(notebook) -> str:
    """The answer cells, without the markers."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code" and notebooks.flag(cell, "solution")]
    lines = similarity.BETWEEN.join(cells).split("\n")
    return "\n".join(line for line in lines if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line)


def _alternatives(unit: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in companion_files("alternatives", unit))
