"""What would go wrong later, found in the sources: one line per problem, with the file, the cell and what to do."""

import importlib
from collections import Counter
from collections.abc import Iterator

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course import build, exercises
from autograder.course.paths import Course
from autograder.course.reach import room
from autograder.errors import CourseError

REGIONS = ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")
STUB = "### BEGIN SOLUTION"


def lint(course: Course, units: list[str]) -> list[str]:
    """The problems of the units, in the order in which they stand in the sources."""
    syllabus = course.syllabus()
    return [f"{course.source(unit).relative_to(course.root)}: {problem}"
            for unit in units for problem in _unit(course, unit, syllabus)]  # fmt: skip


def _unit(course: Course, unit: str, syllabus: dict) -> Iterator[str]:
    try:
        notebook = build.solution_notebook(course.source(unit))
    except CourseError as error:
        yield str(error)
        return
    yield from _ids(notebook)
    for cell in notebook.cells:
        yield from (f"cell {_name(cell, notebook)}: {problem}" for problem in _cell(cell))
    for cell in notebooks.tests(notebook):
        yield from (f"cell {notebooks.grade_id(cell)}: {problem}" for problem in _test_cell(cell, unit, notebook))
    if unit in syllabus:
        yield from _against_syllabus(notebook, syllabus[unit])
    else:
        yield f"syllabus.toml has no table [{unit}]: add one"


def _ids(notebook: NotebookNode) -> Iterator[str]:
    counts = Counter(notebooks.grade_id(cell) for cell in notebook.cells if notebooks.grade_id(cell))
    for name, times in counts.items():
        if times > 1:
            yield f"cell {name}: its grade_id is given {times} times; make them different"


def _cell(cell: NotebookNode) -> Iterator[str]:
    """Problems that every kind of cell can have: metadata that nbgrader refuses, markers that don't match."""
    metadata = cell.metadata.get("nbgrader")
    if metadata is not None:
        missing = {"grade", "solution", "locked", "schema_version", "grade_id"} - set(metadata)
        if missing:
            yield f"its nbgrader metadata lack {', '.join(sorted(missing))}"
        elif metadata["schema_version"] != 3:
            yield f"schema_version is {metadata['schema_version']}; write 3"
        if metadata.get("grade") and "points" not in metadata:
            yield "it is graded but has no points; add them to its metadata"
    for region in REGIONS:
        yield from _region(cell, region)


def _region(cell: NotebookNode, region: str) -> Iterator[str]:
    """Markers as nbgrader takes them: a line that has the words. Two forms are ours: a comment in code, and in
    markdown, where ### would be a heading, an HTML comment."""
    lines = [line.strip() for line in cell.source.split("\n")]
    forms = [{f"### {word} {region}", f"<!-- {word} {region} -->"} for word in ("BEGIN", "END")]
    marks = ["BEGIN" if line in forms[0] else "END" for line in lines if line in forms[0] | forms[1]]
    if marks != ["BEGIN", "END"] * (len(marks) // 2):
        yield f"BEGIN {region} and END {region} don't come in pairs"
    for line in lines:
        if (f"BEGIN {region}" in line or f"END {region}" in line) and line not in forms[0] | forms[1]:
            yield f"'{line}' is no marker: write ### BEGIN {region} or ### END {region} on a line of its own"
    if marks and region == "SOLUTION" and not notebooks.flag(cell, "solution"):
        yield "it has a solution region but is no solution cell: set solution in its metadata"
    if marks and region == "HIDDEN TESTS" and not notebooks.is_test(cell):
        yield "it has hidden tests but is no test cell: set grade in its metadata"
    if marks and region == "MARK SCHEME" and not notebooks.flag(cell, "locked"):
        yield "it has a mark scheme but is not locked, so the scheme would not come back for the marker: lock it"


def _test_cell(cell: NotebookNode, unit: str, notebook: NotebookNode) -> Iterator[str]:
    name = notebooks.exercise_id(cell)
    if not notebooks.grade_id(cell).endswith("_test"):
        yield f"a test cell's grade_id is the exercise's id with _test: {name}_test"
    if not notebooks.flag(cell, "locked"):
        yield "a test cell must be locked"
    answer = notebooks.by_id(notebook).get(name)
    if answer is None or not notebooks.flag(answer, "solution"):
        yield f"there is no solution cell with the grade_id {name}"
    elif STUB not in answer.source:
        yield f"solution cell {name} has no ### BEGIN SOLUTION: students would get an empty cell"
    yield from _calls(cell, name, unit)


def _calls(cell: NotebookNode, name: str, unit: str) -> Iterator[str]:
    try:
        calls = exercises.calls(cell)
    except SyntaxError as error:
        yield f"not Python: {error.msg} in line {error.lineno}"
        return
    visible, hidden = [c for c in calls if not c.hidden], [c for c in calls if c.hidden]
    if len(visible) != 1 or len(hidden) != 1 or "### BEGIN HIDDEN TESTS" not in cell.source:
        yield f"it must call check.{name} twice: once to be seen, once with cases= between the HIDDEN TESTS markers"
    for call in calls:
        if call.check != name:
            yield f"it calls check.{call.check}; by its id it should call check.{name}"
        if call.points != notebooks.points(cell):
            yield f"points={call.points} in the code, {notebooks.points(cell):g} in the metadata: make them equal"
    if calls and calls[0].answers != calls[-1].answers:
        yield "the visible and the hidden call are made with different answers"
    if exercises.find_check(name) is None:
        yield f"there is no check.{name} in helpers/*/checks: write it"
    elif not _has_hidden_cases(unit, name):
        yield f"autograder/hidden/{room(unit)}.py has no {name}: write its hidden cases (an empty list if none)"


def _has_hidden_cases(unit: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(f"autograder.hidden.{room(unit)}"), name)
    except ModuleNotFoundError:
        return False


def _against_syllabus(notebook: NotebookNode, table: dict) -> Iterator[str]:
    tests = {notebooks.exercise_id(cell) for cell in notebooks.tests(notebook)}
    written = {notebooks.grade_id(cell) for cell in notebook.cells if notebooks.is_written(cell)}
    yield from _compared("exercise", tests, set(table["auto"]) | set(table["quiz"]), "auto or quiz")
    yield from _compared("written answer", written, set(table["written"]), "written")
    for name in sorted(written & set(table["written"])):
        question = notebooks.by_id(notebook).get(f"{name}_question")
        if question is None or "BEGIN MARK SCHEME" not in question.source:
            yield f"cell {name}: no locked question cell {name}_question with a mark scheme"
    points = sum(notebooks.points(cell) for cell in notebook.cells if notebooks.flag(cell, "grade"))
    if points != table["points"]:
        yield f"its cells have {points:g} points together, the syllabus says {table['points']}: change one of them"


def _compared(what: str, here: set[str], wanted: set[str], where: str) -> Iterator[str]:
    for name in sorted(wanted - here):
        yield f"{what} {name} of the syllabus is missing: write it"
    for name in sorted(here - wanted):
        yield f"{what} {name} is not in the syllabus: add it to {where} in syllabus.toml"


def _name(cell: NotebookNode, notebook: NotebookNode) -> str:
    return notebooks.grade_id(cell) or f"number {notebook.cells.index(cell) + 1}"
