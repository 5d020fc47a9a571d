"""A whole term, step by step, on a class that is made up: roster; for each unit release, six downloads, grading,
marks by hand, feedback, exports and their way back; then a check that was mended and late-comers, report and backup.
Every number that leaves is compared with the gradebook's.

`python -m autograder.bench.term 02 --students 12` prints the seconds of each step, and ends with an error where a
number differs. With `--folder` the class is kept there, and a run that was ended goes on where it was."""

import argparse
import csv
import io
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from unittest.mock import patch

from rich.progress import Progress

from autograder import backup, csv_files
from autograder.bench import term_class
from autograder.bench.term_class import CANVAS, MOODLE, HandIn
from autograder.course import nbgrader_steps
from autograder.course.paths import PACKAGES, Course, copy_course, find_course
from autograder.course.release import release
from autograder.course.sections import INDEX
from autograder.exports.export import export
from autograder.exports.return_feedback import return_feedback
from autograder.gradebook import roster as rosters
from autograder.gradebook.override import override
from autograder.gradebook.roster import DROPPED, EXCUSED
from autograder.grading import grade as grading
from autograder.grading import regrade_log, result_cache
from autograder.grading.preview import preview
from autograder.lms import attempts
from autograder.lms.collect import collect
from autograder.reports import report

Change = tuple[str, str, float | None, float | None]
"""A line of regrades.csv without its time: student, exercise, old and new points."""


@dataclass
class Term:
    """A class in its own course folder, and what was found of it. `seconds`: of each step that is done, by unit and
    name; `differ`: a line for each number that is not the gradebook's; `judged`: how many notebooks, by step; `made`:
    hand-ins by unit."""

    course: Course
    folder: Path
    units: list[str]
    students: list[rosters.Student]
    workers: int = 1
    seed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)
    compared: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    made: dict[str, list[HandIn]] = field(default_factory=dict)

    def once(self, name: str, step: "Step", unit: str = "") -> None:
        """Does a step that is not done yet, and notes that it is."""
        if (key := f"{unit} {name}".strip()) not in self.seconds:
            start = time.perf_counter()
            step(self, unit)
            self.seconds[key] = time.perf_counter() - start
            state = {name: getattr(self, name) for name in KEPT}
            (self.folder / "term.json").write_text(json.dumps(state), encoding="utf-8")

    def by_step(self) -> dict[str, float]:
        """Seconds of each step, all units together."""
        sums: dict[str, float] = {}
        for key, seconds in self.seconds.items():
            step = key.split(" ", 1)[1] if key[:2].isdigit() else key
            sums[step] = sums.get(step, 0.0) + seconds
        return sums

    def truth(self, unit: str) -> dict[str, float]:
        """Student → the gradebook's score."""
        with nbgrader_steps.open_gradebook(self.course) as book:
            return {row["student"]: row["score"] for row in book.submission_dicts(unit)}

    def to_send(self, unit: str) -> dict[str, float]:
        """The same of those whose scores a learning management system gets."""
        left_out = {one.student_id for one in self.students if one.status in (DROPPED, EXCUSED)}
        return {name: score for name, score in self.truth(unit).items() if name not in left_out}

    def compare(self, where: str, found: dict[str, float], wanted: dict[str, float]) -> None:
        self.compared += len(wanted)
        for student in sorted(found.keys() | wanted.keys()):
            if found.get(student) != wanted.get(student):
                self.differ.append(f"{where}: {student} has {found.get(student)}, the gradebook {wanted.get(student)}")

    def hand_ins(self, unit: str) -> list[HandIn]:
        if unit not in self.made:
            self.made[unit] = term_class.hand_ins(self.course, unit, self.students, self.seed)
        return self.made[unit]


Step = Callable[[Term, str], None]
KEPT = ("seconds", "differ", "compared", "judged")


def run(
    course: Course,
    units: list[str],
    people: list[rosters.Student],
    workers: int = 1,
    seed: int = 0,
    folder: Path | None = None,
) -> Term:
    """All steps, in a copy of the course: in `folder` those not done there yet, else in a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="attn-term-") as thrown_away:
            return run(course, units, people, workers, seed, Path(thrown_away))
    term = Term(_copy(course, folder.resolve(), units), folder.resolve(), units, people, workers, seed)
    if (folder / "term.json").is_file():
        vars(term).update(json.loads((folder / "term.json").read_text(encoding="utf-8")))
        term.judged = Counter(term.judged)
    term.once("roster", _roster)
    for unit in units:
        for name, step in WEEKLY.items():
            term.once(name, step, unit)
    for name, step in AT_THE_END.items():
        term.once(name, step)
    return term


def _copy(course: Course, folder: Path, units: list[str]) -> Course:
    """The course with these units and an empty class, and what a release needs beside them."""
    copy = Course(folder / "course")
    if not copy.root.is_dir():
        half = Course(folder / "half")
        shutil.rmtree(half.root, ignore_errors=True)
        half.root.mkdir(parents=True)
        copy_course(course, half, units)
        for name in ("LICENSE", "pyproject.toml", "README.md"):
            shutil.copy(PACKAGES / name, half.root)
        for unit in units:
            shutil.copytree(course.released(unit).parent, half.released(unit).parent)
        if (course.root / INDEX).is_file():
            (half.root / INDEX).parent.mkdir()
            shutil.copy(course.root / INDEX, half.root / INDEX)
        half.root.rename(copy.root)
    return copy


# ---------------------------------------------------------------- given out and collected


def _roster(term: Term, _: str) -> None:
    path = term.folder / "roster.csv"
    path.write_text(csv_files.to_csv(rosters.COLUMNS, map(astuple, term.students)), encoding="utf-8")
    collect(term.course, [], path)


def _release(term: Term, unit: str) -> None:
    release(term.course, term.units[: term.units.index(unit) + 1], term.folder / "given")


def _hand_in(term: Term, unit: str) -> None:
    term_class.archives(term.folder, unit, term.hand_ins(unit))


def _collect(term: Term, unit: str) -> None:
    _take(term, unit, unit)
    wanted = {one.student.student_id for one in term.hand_ins(unit)}
    there = {path.parts[-3] for path in term.course.submitted.glob(f"*/{unit}/*.ipynb")}
    term.differ += [f"{unit} of {who} was not collected" for who in sorted(wanted - there)]
    term.differ += [f"{unit} of {who} was never handed in" for who in sorted(there - wanted)]
    _compare_times(term, unit, term.hand_ins(unit))


def _take(term: Term, unit: str, name: str) -> None:
    """Collects downloads, each by its site's clock: when each came is known as it was."""
    for path in sorted(term.folder.glob(f"{name}-*.zip")):
        sheet = path.with_suffix(".csv")
        zone = term_class.ZONES.get(path.stem.rpartition("-")[2], "UTC")
        plan = collect(term.course, [path, *[sheet] * sheet.is_file()], zone=zone)
        term.differ += [f"collect {path.name}: {line}" for line in plan.problems if unit not in line]


def _compare_times(term: Term, unit: str, made: list[HandIn]) -> None:
    known = {place: group.values() for place, group in attempts.load(term.course).items()}
    wanted = {one.student.student_id: one.time.timestamp() for one in made if one.lms in term_class.TELL_TIMES}
    came = {who: {one.submitted.timestamp() for one in known[who, unit] if one.submitted} for who in wanted}
    found = {who: max(times, default=0.0) for who, times in came.items()}
    term.compare(f"{unit} times", found, wanted)


# ---------------------------------------------------------------- graded and marked


def _run(term: Term, unit: str, step: str) -> grading.Outcome:
    outcome = grading.grade(term.course, [unit], _settings(term), Progress(disable=True))
    term.judged[step] += outcome.judged
    return outcome


def _settings(term: Term) -> grading.Settings:
    return grading.Settings(workers=term.workers)


def _grade(term: Term, unit: str) -> None:
    """Everybody but those whose file was cut off has a grade."""
    outcome = _run(term, unit, "grade")
    why = {one.student: line for one, line in {**outcome.failed, **outcome.rejected}.items()}
    wanted = {one.student.student_id for one in term.hand_ins(unit) if not one.can_be_graded}
    term.differ += [f"{unit} of {who} was not graded: {why[who]}" for who in sorted(why.keys() - wanted)]
    term.differ += [f"{unit} of {who} can't be graded, and was" for who in sorted(wanted - why.keys())]


def _mark(term: Term, unit: str) -> None:
    """As a marker does in formgrader."""
    rng = random.Random(term.seed)
    with nbgrader_steps.open_gradebook(term.course) as book:
        for one in book.assignment_submissions(unit):
            for cell in (cell for cell in one.notebooks[0].grades if cell.needs_manual_grade):
                cell.manual_score, cell.needs_manual_grade = rng.randint(0, int(cell.max_score)), False
        book.db.commit()


def _feedback(term: Term, unit: str) -> None:
    """The pages are made anew, with the marks."""
    if (outcome := _run(term, unit, "feedback")).judged:
        term.differ.append(f"{unit}: {outcome.judged} notebooks were judged again for nothing")
    pages = {path.parts[-3] for path in term.course.feedback.glob(f"*/{unit}/{unit}.html")}
    term.differ += [
        f"{unit} of {who}: a page without a grade, or a grade without a page" for who in pages ^ term.truth(unit).keys()
    ]


# ---------------------------------------------------------------- and out


def _export(term: Term, unit: str) -> None:
    """The four formats; each number is the gradebook's."""
    folder, people, to_send = term.folder, term.students, term.to_send(unit)
    long = _rows(term, unit, "csv", folder / "long.csv")
    term.compare(f"{unit} csv", _numbers(long, "student_id", "score"), term.truth(unit))
    canvas = _rows(term, unit, CANVAS, term_class.canvas_gradebook(folder / "canvas.csv", unit, people))[1:]
    found = _numbers([row for row in canvas if row[f"{unit} (7)"] != "EX"], "ID", f"{unit} (7)")
    _compare(term, f"{unit} canvas", found, {one.canvas_id: one for one in people}, to_send)
    moodle = _rows(term, unit, MOODLE, term_class.moodle_worksheet(folder / "moodle.csv", dict(enumerate(people, 1))))
    numbers = {f"Participant {term_class.participant(at)}": one for at, one in enumerate(people, 1)}
    _compare(term, f"{unit} moodle", _numbers(moodle, "Identifier", "Grade"), numbers, to_send)
    gradescope = _rows(term, unit, "gradescope", folder / "gradescope.csv")
    sids = {one.sis_user_id: one for one in people}
    _compare(term, f"{unit} gradescope", _numbers(gradescope, "SID", "Total Score"), sids, to_send)


def _rows(term: Term, unit: str, format: str, into: Path) -> list[dict[str, str]]:
    path = export(term.course, [unit], format, into, None, False).path
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def _numbers(rows: Iterable[dict[str, str]], who: str, score: str) -> dict[str, float]:
    return {row[who]: float(row[score]) for row in rows if row[score]}


def _compare(
    term: Term, where: str, found: dict[str, float], names: dict[str, rosters.Student], truth: dict[str, float]
) -> None:
    """found: by the name that the learning management system has for a student."""
    term.compare(where, {names[name].student_id: score for name, score in found.items()}, truth)


def _send_back(term: Term, unit: str) -> None:
    graded = term.truth(unit)
    for lms in (CANVAS, MOODLE):
        wanted = sum(one.lms == lms and one.student.student_id in graded for one in term.hand_ins(unit))
        if wanted:
            count = return_feedback(term.course, unit, lms, term.folder / "back.zip")[1]
            term.differ += [f"{unit}: {count} of {wanted} pages go back to {lms}"] * (count != wanted)


# ---------------------------------------------------------------- when something was wrong


def _hand_in_again(term: Term, _: str) -> None:
    """The newest unit's downloads once more: some have handed in again, and one gets points by hand."""
    unit = term.units[-1]
    again = term_class.second_attempts(term.course, unit, term.hand_ins(unit), term.seed)
    term_class.archives(term.folder, f"again-{unit}", again)
    _take(term, unit, f"again-{unit}")
    _compare_times(term, unit, again)
    who = next(name for name in term.truth(unit) if name not in {one.student.student_id for one in again})
    with nbgrader_steps.open_gradebook(term.course) as book:
        cells = [cell.name for cell in book.find_assignment(unit).notebooks[0].grade_cells]
    override(
        term.course, unit, who, next(name for name in cells if name.endswith("_test"))[:-5], "0", "for the rehearsal"
    )


def _preview(term: Term, _: str) -> None:
    """A check was mended, without effect on anybody: it judges anew, and only those who handed in again change."""
    unit, again = term.units[-1], _again(term)
    with _mended(unit):
        outcome, changes = preview(term.course, [unit], _settings(term), Progress(disable=True))
    term.judged["preview"] += outcome.judged
    (term.folder / "preview.json").write_text(json.dumps([_plain(one) for one in changes]), encoding="utf-8")
    term.differ += [f"a mended check changes {one.line()}" for one in changes if one.student not in again]
    term.differ += ["a mended check judged nothing again"] * (not outcome.judged)


def _grade_again(term: Term, _: str) -> None:
    """What the preview said happens, and nothing else."""
    unit, again = term.units[-1], _again(term)
    before, known = {one: term.truth(one) for one in term.units}, len(regrade_log.read(term.course.regrades))
    with _mended(unit):
        outcome = _run(term, unit, "grade again")
    term.differ += [
        f"{unit} of {one.student} was not graded: {why}" for one, why in {**outcome.failed, **outcome.rejected}.items()
    ]
    changes = [_plain(one) for one in regrade_log.read(term.course.regrades)[known:]]
    told = [tuple(one) for one in json.loads((term.folder / "preview.json").read_text(encoding="utf-8"))]
    term.differ += [f"told or done, and not both: {one}" for one in set(told) ^ set(changes)]
    for one in term.units:
        truth = term.truth(one)
        kept = {who: score for who, score in before[one].items() if one != unit or who not in again}
        term.compare(f"{one} graded again", {who: truth[who] for who in kept if who in truth}, kept)
    _compare_changes(term, unit, changes)


def _compare_changes(term: Term, unit: str, changes: list[Change]) -> None:
    """The log's new points stand in the gradebook, and only answers that changed wait for a marker."""
    again = _again(term)
    with nbgrader_steps.open_gradebook(term.course) as book:
        pages = {one.student_id: one.notebooks[0] for one in book.assignment_submissions(unit)}
        cells = {(who, cell.name.removesuffix("_test")): cell for who, page in pages.items() for cell in page.grades}
        now = {
            place: cell.auto_score if cell.manual_score is None else cell.manual_score for place, cell in cells.items()
        }
        opened = {who for (who, _), cell in cells.items() if cell.needs_manual_grade}
    logged = {f"{who} {name}": new for who, name, _, new in changes if new is not None}
    term.compare(
        f"{unit} regrades.csv",
        logged,
        {f"{who} {name}": now[who, name] for who, name, _, new in changes if new is not None},
    )
    term.differ += [
        f"{unit}: a mark of {who} on an unchanged answer was opened again" for who in sorted(opened - again)
    ]


def _again(term: Term) -> set[str]:
    unit = term.units[-1]
    again = term_class.second_attempts(term.course, unit, term.hand_ins(unit), term.seed)
    return {one.student.student_id for one in again}


def _plain(one: regrade_log.Change) -> Change:
    return one.student, one.exercise, one.old, one.new


@contextmanager
def _mended(unit: str) -> Iterator[None]:
    """As if a check of this unit had been changed."""
    version, fingerprint = result_cache.unit_version, grading.ResultKeys._fingerprint
    with (
        patch.object(result_cache, "unit_version", lambda of, *more: version(of, *more) + "mended" * (of == unit)),
        patch.object(grading.ResultKeys, "_fingerprint", lambda *arguments: "mended" + fingerprint(*arguments)),
    ):
        yield


def _mark_again(term: Term, _: str) -> None:
    """What was opened is marked, and everything of the unit leaves once more."""
    unit = term.units[-1]
    _mark(term, unit)
    with _mended(unit):
        _feedback(term, unit)
    _export(term, unit)


def _report(term: Term, _: str) -> None:
    report.report(term.course, term.units, term.folder / "report.html")


def _backup(term: Term, _: str) -> None:
    backup.backup(term.course, term.folder / "class.zip")


WEEKLY: dict[str, Step] = {
    "release": _release,
    "students work": _hand_in,
    "collect": _collect,
    "grade": _grade,
    "mark by hand": _mark,
    "feedback": _feedback,
    "export": _export,
    "return": _send_back,
}
AT_THE_END: dict[str, Step] = {
    "hand in again": _hand_in_again,
    "preview": _preview,
    "grade again": _grade_again,
    "mark again, export": _mark_again,
    "report": _report,
    "backup": _backup,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="A whole term on a class that is made up; the seconds of each step.")
    parser.add_argument("units", nargs="*", help="by name or number; default: all")
    parser.add_argument("--students", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keep the class there; a run that was ended goes on where it was")
    asked = parser.parse_args()
    course, people = find_course(), term_class.students(asked.students)
    term = run(course, course.chosen(asked.units), people, asked.workers, asked.seed, asked.folder)
    for name, seconds in term.by_step().items():
        judged = f"{term.judged[name]:6} notebooks judged" if term.judged[name] else ""
        print(f"{name:20}{seconds:9.1f} s{judged}")
    print(
        f"{len(people)} students, {len(term.units)} units; {term.compared} numbers compared, {len(term.differ)} differ"
    )
    raise SystemExit("\n".join(term.differ) or None)


if __name__ == "__main__":
    main()
