"""`attn return`: the feedback pages of a unit in one archive, named so that Moodle or Canvas gives each student their
own.

Moodle's importer (mod/assign/feedback/file/importziplib.php) goes by the number in
`<name>_<number>_assignfeedback_file/`; Canvas's (infer_comment_context_from_filename in app/models/assignment.rb) by
the first two parts of a file's name that are numbers: the student's and the handed-in file's. Both numbers are known
from the download that `attn collect` read."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook import grades
from autograder.gradebook import roster as rosters
from autograder.gradebook.grades import Grade, shorten_list
from autograder.grading import gradebook_writer
from autograder.lms import attempts
from autograder.lms.accounts import counting_attempts
from autograder.lms.attempts import Attempt
from autograder.lms.claim import CANVAS, MOODLE
from autograder.whole_files import replaced


def return_feedback(
    course: Course, unit: str, format: str, into: Path | None = None, with_open: bool = False
) -> tuple[Path, int, list[str]]:
    """Writes the archive. Returns its path, the number of pages, and lines for what was left out. Raises
    CourseError."""
    if format not in NAMES:
        raise CourseError(f"There is no format '{format}': choose {', '.join(NAMES)}.", BAD_INPUT)
    found = [one for one in grades.grades(course, unit) if one.score is not None]
    if not with_open:
        grades.require_all_marked(found)
    _refuse_old(course, unit, found)
    known = counting_attempts(attempts.load(course), unit, format, rosters.current_roster(course))
    files = {NAMES[format](one, known[one.student.student_id]): one for one in found if one.student.student_id in known}
    without = [one.student.student_id for one in found if one not in files.values()]
    if not files:
        raise CourseError(
            f"Nobody's number in {format.title()} is known: collect its download with `attn collect`.", BAD_INPUT
        )
    path = into or course.classroom / f"return-{unit}-{format}.zip"
    _write(
        path, {name: course.feedback / one.student.student_id / unit / f"{unit}.html" for name, one in files.items()}
    )
    return (
        path,
        len(files),
        [f"left out, for no number of {format.title()}'s is known to be theirs: {shorten_list(without)}"]
        if without
        else [],
    )


def _refuse_old(course: Course, unit: str, found: list[Grade]) -> None:
    """A page must show the marks that stand in the gradebook now."""
    notes = gradebook_writer.Notes(course, "feedback")
    old = [
        one.student.student_id
        for one in found
        if gradebook_writer.outdated_page(course, one.student.student_id, unit, notes)
    ]
    if old:
        raise CourseError(
            f"Pages are missing, or older than marks and comments ({shorten_list(old)}): run `attn grade {unit[:2]}`."
        )


def _of_moodle(one: Grade, attempt: Attempt) -> str:
    return f"{_person(one, ' ')}_{attempt.lms_id}_assignfeedback_file/{one.unit}_feedback.html"


def _of_canvas(one: Grade, attempt: Attempt) -> str:
    return f"{_person(one, '')}_{attempt.lms_id}_{attempt.order}_{one.unit.replace('_', '-')}-feedback.html"


NAMES: dict[str, Callable[[Grade, Attempt], str]] = {MOODLE: _of_moodle, CANVAS: _of_canvas}


def _person(one: Grade, space: str) -> str:
    """Who it is, for people: letters alone, so that no importer takes it for a number or for one more part."""
    full = f"{one.student.first_name} {one.student.last_name}".strip() or one.student.student_id
    letters = re.sub(r"[\W\d_]+", " ", full).split()
    return space.join(letters) or "student"


def _write(path: Path, files: dict[str, Path]) -> None:
    try:
        with replaced(path) as half, zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in sorted(files.items()):
                archive.write(file, name)
    except OSError as error:
        raise CourseError(f"{path} can't be written ({error.strerror}).") from None
