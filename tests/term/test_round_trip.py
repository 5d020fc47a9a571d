"""Any class: downloads → submitted/ → gradebook → exports. Nobody is lost, swapped or given another number."""

import csv
import io
import re
import shutil
import string
from dataclasses import astuple

import pytest
from conftest import UNIT
from downloads import gradescope, notebook, put, zipped
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autograder import csv_files
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.exports.export import export
from autograder.gradebook import roster as rosters
from autograder.grading import gradebook_writer
from autograder.lms.collect import collect
from autograder.lms.identify_student import name_key

ODD = "äöüßéèñçøåłšžğıİÅÄÖæœ李明王小Ωλжю'-"
LETTERS = st.text(st.sampled_from(string.ascii_letters + ODD), min_size=1, max_size=10)
NAMES = (
    st.lists(LETTERS, min_size=1, max_size=2).map(" ".join).filter(lambda name: name_key(name) and name.strip("-' "))
)
IDS = st.text(st.sampled_from(string.ascii_lowercase + string.digits + "äß._-@=+"), min_size=1, max_size=12).filter(
    lambda one: not rosters.why_unusable(one)
)
POINTS = st.floats(0, 3, allow_nan=False, allow_subnormal=False)


@st.composite
def classes(draw):
    """Students, each with what the LMS knows and with points; names may come twice, where a number tells them apart."""
    ids = draw(st.lists(IDS, min_size=1, max_size=5, unique_by=(str.casefold, name_key)))
    numbers = draw(st.lists(st.integers(100, 10**9), min_size=len(ids), max_size=len(ids), unique=True))
    people = []
    for name, number in zip(ids, numbers, strict=True):
        student = rosters.Student(
            csv_files.normalize_unicode(name), draw(NAMES), draw(NAMES), f"s{number}@x.org", str(number), f"S{number}"
        )
        people.append((student, tuple(draw(POINTS) for _ in range(4)), draw(st.booleans())))
    return people


def _canvas(student, at):
    name = re.sub(r"\W", "", f"{student.last_name}{student.first_name}".lower())
    return {f"{name}_{student.canvas_id}_{at}_any name.ipynb": None}


def _moodle(student, at):
    return {f"{student.first_name} {student.last_name}_{student.canvas_id}_assignsubmission_file/any.ipynb": None}


def _brightspace(student, at):
    return {f"1-{at} - {student.first_name} {student.last_name} - Nov 20, 2026 1159 PM/any.ipynb": None}


def _gradescope(student, at):
    return {f"submission_{at}/any.ipynb": None}


def _plain(student, at):
    return {f"{student.student_id}/{UNIT}/{UNIT}.ipynb": None}


MAKERS = {"canvas": _canvas, "moodle": _moodle, "brightspace": _brightspace, "gradescope": _gradescope, "plain": _plain}


@pytest.fixture(scope="module")
def registered(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("registered")
    shutil.copytree(built.root, folder / "course", ignore=shutil.ignore_patterns("class"))
    course = Course((folder / "course").resolve())
    gradebook_writer.register(course, UNIT)
    return course


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(people=classes(), lms=st.sampled_from(sorted(MAKERS)))
def test_collected_graded_exported(registered, tmp_path_factory, people, lms):
    if lms in ("moodle", "brightspace"):
        assume(_names_tell_apart([student for student, *_ in people]))
    folder = tmp_path_factory.mktemp("class")
    shutil.copytree(registered.root, folder / "course")
    course = Course((folder / "course").resolve())
    handed_in = {}
    files, metadata = {}, {}
    for at, (student, _, hands_in) in enumerate(people, 1):
        if hands_in:
            handed_in[student.student_id] = notebook(course, f"answer {at}")
            files |= dict.fromkeys(MAKERS[lms](student, at), handed_in[student.student_id])
            metadata[f"submission_{at}"] = ([("Somebody", student.sis_user_id, student.email)], "2026-11-20 10:00:00 Z")
    assume(files)
    if lms == "gradescope":
        files["submission_metadata.yml"] = gradescope(metadata)
    lines = [astuple(student) for student, *_ in people]
    roster = put(folder / "roster.csv", csv_files.to_csv(rosters.COLUMNS, lines).encode())
    download = put(folder / "in.zip", zipped(files))
    plan = collect(course, [download], roster)

    assert plan.problems == []
    assert {path.parts[-3]: path.read_bytes() for path in course.submitted.glob("*/*/*.ipynb")} == handed_in
    assert {name for name, _ in plan.missing} == {one.student_id for one, *_ in people} - set(handed_in)
    assert (
        collect(course, [download])
        .summary()
        .startswith(f"{len(handed_in)} collected (0 new, 0 replaced, {len(handed_in)} same)")
    )

    points = {student.student_id: values for student, values, hands_in in people if hands_in}
    truth = _graded(course, points)
    long = _rows(export(course, [UNIT], "csv", None, None, False).path)
    assert {csv_files.unescape_formula(row["student_id"]): row["score"] and float(row["score"]) for row in long} == {
        one.student_id: truth.get(one.student_id, "") for one, *_ in people
    }
    table = [["Student", "ID", "SIS User ID", "Unit 2 (7)"], ["    Points Possible", "", "", "9"]]
    table += [[f"{one.last_name}, {one.first_name}", one.canvas_id, "", ""] for one, *_ in people]
    out = io.StringIO()
    csv.writer(out).writerows(table)
    canvas = _rows(export(course, [UNIT], "canvas", put(folder / "g.csv", out.getvalue().encode()), None, False).path)
    scores = {row["ID"]: row["Unit 2 (7)"] and float(row["Unit 2 (7)"]) for row in canvas[1:]}
    assert scores == {one.canvas_id: truth.get(one.student_id, "") for one, *_ in people}


def _names_tell_apart(students) -> bool:
    """Where names are all that the LMS says: those who share one are the instructor's to tell apart."""
    names = [
        name
        for one in students
        for name in {name_key(one.first_name + one.last_name), name_key(one.last_name + one.first_name)}
    ]
    return len(set(names)) == len(names) and not set(names) & {name_key(one.student_id) for one in students}


def _graded(course, points) -> dict[str, float]:
    """Marks in the gradebook; returns the scores that it computes of them."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        for name, values in points.items():
            (page,) = gradebook.update_or_create_submission(UNIT, name).notebooks
            for value, cell in zip(values, page.grades, strict=True):
                cell.manual_score, cell.needs_manual_grade = value, False
        gradebook.db.commit()
        return {row["student"]: row["score"] for row in gradebook.submission_dicts(UNIT)}


def _rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
