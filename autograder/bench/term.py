"""A whole term, step by step, on a class that is made up: roster, release, three downloads, grading, marks by hand, feedback, exports
and their way back, a check that was mended, report, backup. Every number that leaves is compared with the gradebook's.

`python -m autograder.bench.term 02 --students 12` prints the seconds of each step, and ends with an error where a number differs."""

import argparse
import csv
import io
import random
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from unittest.mock import patch

from rich.progress import Progress

from autograder.course import stock
from autograder.course.paths import PACKAGES, Course, find_course, temporary_course
from autograder.course.sections import INDEX
from autograder.grading import grade as grading
from autograder.grading import store
from autograder.grading.preview import preview
from autograder.proofs.sample_class import _materials
from autograder.proofs.sample_students import ordinary
from autograder.term import backup, report, sheet
from autograder.term import roster as rosters
from autograder.term.collect import collect
from autograder.term.export import export
from autograder.term.override import override
from autograder.term.release import release
from autograder.term.send_back import send_back

LMS = ("canvas", "moodle", "gradescope")


@dataclass
class Term:
    """A class in a course folder of its own. `seconds`: of each step; `differ`: a line for each number that is not the gradebook's."""

    course: Course
    units: list[str]
    students: list[rosters.Student]
    workers: int
    seed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)
    compared: int = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def lms(self, student: rosters.Student) -> str:
        return LMS[self.students.index(student) % len(LMS)]

    def truth(self, unit: str) -> dict[str, float]:
        """Student → the gradebook's score."""
        with stock.open_gradebook(self.course) as book:
            return {row["student"]: row["score"] for row in book.submission_dicts(unit)}

    def compare(self, where: str, found: dict[str, float], wanted: dict[str, float]) -> None:
        self.compared += len(wanted)
        for student in sorted(found.keys() | wanted.keys()):
            if found.get(student) != wanted.get(student):
                self.differ.append(f"{where}: {student} has {found.get(student)}, the gradebook {wanted.get(student)}")


def students(count: int) -> list[rosters.Student]:
    """A roster: nobody's name is anybody's."""
    numbers = range(1, count + 1)
    return [rosters.Student(f"s{n:03d}", f"Family{_letters(n)}", f"Given{_letters(n)}", f"s{n}@example.org", str(10_000 + n), f"SIS{n}")
            for n in numbers]  # fmt: skip


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def run(course: Course, units: list[str], people: list[rosters.Student], workers: int = 1, seed: int = 0) -> Term:
    """All steps, in a copy of the course."""
    with temporary_course(course, units) as copy, tempfile.TemporaryDirectory(prefix="attn-term-") as folder:
        _complete(course, copy, units)
        term = Term(copy, units, people, workers, seed)
        for step in (_roster_and_release, _collect, _grade, _mark, _export, _send_back, _grade_again, _keep):
            step(term, Path(folder))
        return term


def _complete(course: Course, copy: Course, units: list[str]) -> None:
    """What a release needs beside the units."""
    for name in ("LICENSE", "pyproject.toml", "README.md"):
        shutil.copy(PACKAGES / name, copy.root)
    for unit in units:
        shutil.copytree(course.released(unit).parent, copy.released(unit).parent)
    if (course.root / INDEX).is_file():
        (copy.root / INDEX).parent.mkdir()
        shutil.copy(course.root / INDEX, copy.root / INDEX)


def _roster_and_release(term: Term, folder: Path) -> None:
    with term.step("release"):
        release(term.course, term.units, folder / "given")
    with term.step("roster"):
        path = folder / "roster.csv"
        path.write_text(sheet.own(rosters.COLUMNS, map(astuple, term.students)), encoding="utf-8")
        collect(term.course, [], path)


# ---------------------------------------------------------------- collected


def _collect(term: Term, folder: Path) -> None:
    materials, _ = _materials(term.course, term.units)
    downloads = []
    for material in materials:
        files: dict[str, dict[str, bytes]] = {name: {} for name in LMS}
        for at, student in enumerate(term.students, 1):
            text = ordinary(material, random.Random(f"{term.seed} {student.student_id} {material.unit}")).text
            files[term.lms(student)][_name(term.lms(student), student, at, material.unit)] = text.encode()
        files["gradescope"]["submission_metadata.yml"] = _metadata(term)
        downloads += [_zip(folder / f"{material.unit}-{name}.zip", inside) for name, inside in files.items()]
    with term.step("collect"):
        for path in downloads:
            plan = collect(term.course, [path])
            term.differ += [f"collect {path.name}: {line}" for line in plan.problems]
    wanted = len(term.students) * len(term.units)
    there = len(list(term.course.submitted.glob("*/*/*.ipynb")))
    if there != wanted:
        term.differ.append(f"{there} of {wanted} hand-ins were collected")


def _name(lms: str, student: rosters.Student, at: int, unit: str) -> str:
    if lms == "canvas":
        return f"{student.last_name}{student.first_name}_{student.canvas_id}_{70_000 + at}_{unit}.ipynb".lower()
    if lms == "moodle":
        return f"{student.first_name} {student.last_name}_{900_000 + at}_assignsubmission_file/my answers.ipynb"
    return f"submission_{at}/notebook.ipynb"


def _metadata(term: Term) -> bytes:
    lines = []
    for at, student in enumerate(term.students, 1):
        lines += [f"submission_{at}:", "  :submitters:", f"  - :name: {student.first_name} {student.last_name}"]
        lines += [
            f"    :sid: '{student.sis_user_id}'",
            f"    :email: {student.email}",
            "  :created_at: 2026-11-20 10:00:00 Z",
        ]
    return "\n".join(lines).encode()


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


# ---------------------------------------------------------------- graded and marked


def _settings(term: Term) -> grading.Settings:
    return grading.Settings(workers=term.workers)


def _run(term: Term) -> grading.Outcome:
    outcome = grading.grade(term.course, term.units, _settings(term), Progress(disable=True))
    failed = {**outcome.failed, **outcome.rejected}
    term.differ += [f"{one.student} {one.unit} was not graded: {why}" for one, why in failed.items()]
    return outcome


def _grade(term: Term, _: Path) -> None:
    with term.step("grade"):
        _run(term)


def _mark(term: Term, _: Path) -> None:
    """As a marker does in formgrader; then the pages are made anew."""
    rng = random.Random(term.seed)
    with term.step("mark by hand"), stock.open_gradebook(term.course) as book:
        for unit in term.units:
            for one in book.assignment_submissions(unit):
                for cell in (cell for cell in one.notebooks[0].grades if cell.needs_manual_grade):
                    cell.manual_score, cell.needs_manual_grade = rng.randint(0, int(cell.max_score)), False
        book.db.commit()
    with term.step("feedback"):
        if (outcome := _run(term)).judged:
            term.differ.append(f"{outcome.judged} notebooks were judged again for nothing")


# ---------------------------------------------------------------- and out


def _export(term: Term, folder: Path) -> None:
    with term.step("export"):
        for unit in term.units:
            _compare_exports(term, unit, folder)


def _compare_exports(term: Term, unit: str, folder: Path) -> None:
    truth = term.truth(unit)
    long = export(term.course, [unit], "csv", folder / "long.csv", None, False).path
    term.compare(f"{unit} csv", {row["student_id"]: float(row["score"]) for row in _rows(long) if row["score"]}, truth)
    rows = [["Student", "ID", "SIS User ID", f"{unit} (7)"], ["    Points Possible", "", "", "30"]]
    rows += [[f"{one.last_name}, {one.first_name}", one.canvas_id, one.sis_user_id, ""] for one in term.students]
    canvas = export(term.course, [unit], "canvas", _write(folder / f"canvas-{unit}.csv", rows), None, False).path
    ids = {one.canvas_id: one.student_id for one in term.students}
    found = {ids[row["ID"]]: float(row[f"{unit} (7)"]) for row in _rows(canvas)[1:] if row[f"{unit} (7)"]}
    term.compare(f"{unit} canvas", found, truth)
    moodle = export(
        term.course, [unit], "moodle", _write(folder / f"moodle-{unit}.csv", _worksheet(term)), None, False
    ).path
    numbers = {row[0]: one.student_id for row, one in zip(_worksheet(term)[1:], term.students, strict=True)}
    found = {numbers[row["Identifier"]]: float(row["Grade"]) for row in _rows(moodle) if row["Grade"]}
    term.compare(f"{unit} moodle", found, truth)
    gradescope = export(term.course, [unit], "gradescope", folder / "gradescope.csv", None, False).path
    sids = {one.sis_user_id: one.student_id for one in term.students}
    term.compare(
        f"{unit} gradescope", {sids[row["SID"]]: float(row["Total Score"]) for row in _rows(gradescope)}, truth
    )


def _worksheet(term: Term) -> list[list[str]]:
    """Moodle's grading worksheet."""
    header = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed",
              "Last modified (submission)", "Last modified (grade)", "Feedback comments"]  # fmt: skip
    return [header] + [
        [
            f"Participant {900_000 + at}",
            f"{one.first_name} {one.last_name}",
            one.email,
            "",
            "",
            "100.00",
            "Yes",
            "-",
            "-",
            "",
        ]
        for at, one in enumerate(term.students, 1)
    ]


def _write(path: Path, rows: list[list[str]]) -> Path:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def _send_back(term: Term, folder: Path) -> None:
    with term.step("return"):
        for unit in term.units:
            for lms in ("canvas", "moodle"):
                wanted = sum(term.lms(one) == lms for one in term.students)
                if (
                    wanted
                    and (count := send_back(term.course, unit, lms, folder / f"{unit}-{lms}-back.zip")[1]) != wanted
                ):
                    term.differ.append(f"{unit}: {count} of {wanted} pages go back to {lms}")


def _grade_again(term: Term, _: Path) -> None:
    """A check that was mended without effect on anybody: judged again, and no score, no mark and no override changes."""
    unit, who = term.units[-1], term.students[0].student_id
    exercise = next(name for name in _exercises(term, unit) if name.endswith("_test")).removesuffix("_test")
    override(term.course, unit, who, exercise, "0", "for the rehearsal")
    before = {one: term.truth(one) for one in term.units}
    with _mended(unit):
        with term.step("preview"):
            outcome, changes = preview(term.course, [unit], _settings(term), Progress(disable=True))
        term.differ += [f"a check that judges as before would change {one.line()}" for one in changes]
        if not outcome.judged:
            term.differ.append("a mended check judged nothing again")
        with term.step("grade again"):
            _run(term)
    for one in term.units:
        term.compare(f"{one} graded again", term.truth(one), before[one])
    with stock.open_gradebook(term.course) as book:
        if any(row["needs_manual_grade"] for row in book.submission_dicts(unit)):
            term.differ.append("marks on unchanged answers were opened again")


@contextmanager
def _mended(unit: str) -> Iterator[None]:
    """As if a check of this unit had been changed."""
    version, fingerprint = store.unit_version, grading.Intake._fingerprint
    with (
        patch.object(store, "unit_version", lambda of, *more: version(of, *more) + "mended" * (of == unit)),
        patch.object(grading.Intake, "_fingerprint", lambda *arguments: "mended" + fingerprint(*arguments)),
    ):
        yield


def _exercises(term: Term, unit: str) -> list[str]:
    with stock.open_gradebook(term.course) as book:
        return [cell.name for cell in book.find_assignment(unit).notebooks[0].grade_cells]


def _keep(term: Term, folder: Path) -> None:
    with term.step("report"):
        report.report(term.course, term.units, folder / "report.html")
    with term.step("backup"):
        backup.backup(term.course, folder / "class.zip")


def main() -> None:
    parser = argparse.ArgumentParser(description="A whole term on a class that is made up; the seconds of each step.")
    parser.add_argument("units", nargs="*", help="by name or number; default: all")
    parser.add_argument("--students", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    course = find_course()
    term = run(course, course.chosen(asked.units), students(asked.students), asked.workers, asked.seed)
    for name, seconds in term.seconds.items():
        print(f"{name:14}{seconds:9.1f} s")
    print(
        f"{len(term.students)} students, {len(term.units)} units; {term.compared} numbers compared, {len(term.differ)} differ"
    )
    raise SystemExit("\n".join(term.differ) or None)


if __name__ == "__main__":
    main()
