"""Commands that grade."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.common import (
    REJECTED,
    AsJson,
    Sandbox,
    Unit,
    Units,
    choose_sandbox,
    command,
    err,
    find_course,
    out,
    print_json,
    progress_bar,
    say,
    warn,
)
from autograder.errors import BAD_INPUT, CourseError
from autograder.whole_files import write_whole


@command()
def grade(
    units: Units = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Notebooks judged at the same time. Default: one per core.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="A Dask scheduler (tcp://host:8786), 'slurm', or 'local': Dask on this machine. Default: threads.",
        ),
    ] = None,
    student: Annotated[list[str] | None, typer.Option(help="Only this student (repeat for more).")] = None,
    sandbox: Sandbox = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong; no bar, no table.")] = False,
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole table of scores there too.")
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Show where a submission's time goes.")] = False,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Open Dask's dashboard, at http://127.0.0.1:8787, while it grades.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say which earlier scores would change, and change nothing.")
    ] = False,
) -> None:
    """Grade all that is submitted, write feedback, and print scores and misconceptions.

    A class of more than 30 students is shown unit by unit; every student's line is then in autograder/class/scores.txt.
    Only new or changed work is judged; a run that was broken off, by Ctrl-C too, goes on where it stopped.

    Exit status: 0 all submissions were graded; 3 some were rejected (each is named with the reason and gets no points,
    the others are graded); 1 the grader itself failed on one; 2 there was nothing to grade, or a name is unknown."""
    from autograder.grading.ctrl_c import ctrl_c
    from autograder.grading.preload import start_if_wanted

    course = find_course()
    chosen = course.chosen(units or [])
    choose_sandbox(sandbox)
    with _going_on_after_ctrl_c():
        with ctrl_c() as presses:
            if not (preview or scheduler or dashboard):  # then the judges run elsewhere, or not at all
                start_if_wanted(course, chosen, list(student or ()))
            from autograder.cli import tables
            from autograder.grading import gradebook_writer, regrade_log
            from autograder.grading.grade import Settings
            from autograder.grading.grade import grade as run

            presses.check()
        settings = Settings(tuple(student or ()), workers, scheduler, dashboard)
        if preview:
            _preview(course, chosen, settings, as_json)
        known = len(regrade_log.read(course.regrades))
        with progress_bar(hidden=quiet) as progress:
            outcome = run(course, chosen, settings, progress)
    rows = {unit: gradebook_writer.scores(course, unit) for unit in outcome.units()}
    _show_grades(course, outcome, rows, as_json, quiet, table)
    changed = regrade_log.read(course.regrades)[known:]
    if changed and not as_json:
        say(f"{_changes(len(changed))} {course.regrades}")
    if profile:
        (err if as_json or quiet else out).print(tables.profile_table(outcome))
    raise typer.Exit(1 if outcome.failed else REJECTED if outcome.rejected or outcome.strays else 0)


@contextmanager
def _going_on_after_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise CourseError("Stopped. What is graded is kept: `attn grade` goes on with the rest.", 130) from None


def _preview(course, chosen: list[str], settings, as_json: bool) -> None:
    """Prints what grading would change of what students had before."""
    from dataclasses import asdict

    from autograder.grading.preview import preview as run

    with progress_bar(hidden=as_json) as progress:
        outcome, changes = run(course, chosen, settings, progress)
    if as_json:
        print_json([asdict(one) | {"time": str(one.time)} for one in changes])
        raise typer.Exit(1 if outcome.failed else 0)
    for one in changes:
        say(one.line())
    out.print(
        f"{len(changes)} earlier scores would change; {outcome.recorded} hand-ins would be recorded. Nothing was "
        f"written: "
        "`attn grade` does it, and judges nothing again.",
        soft_wrap=True,
    )
    raise typer.Exit(1 if outcome.failed else 0)


def _changes(count: int) -> str:
    return f"{count} earlier score{'s' * (count > 1)} changed, and stand{'s' * (count == 1)} in"


def _show_grades(course, outcome, rows: dict, as_json: bool, quiet: bool, file: Path | None) -> None:
    """What came of grading: scores, an example of a card, misconceptions, and what needs somebody's attention."""
    from autograder.cli import score_tables, tables
    from autograder.proofs.sample_manifest import kinds

    made_to_show = kinds(course)
    file = file or (course.classroom / "scores.txt" if score_tables.is_large(outcome) else None)
    if file:
        _write(file, score_tables.as_text(rows, outcome, made_to_show))
    if as_json:
        print_json(score_tables.as_json(rows, outcome))
    elif not quiet:
        large = score_tables.is_large(outcome)
        out.print(
            score_tables.units_table(rows, outcome)
            if large
            else score_tables.scores_table(rows, outcome, made_to_show, out.width)
        )
        if made_to_show and (card := tables.a_card(outcome)):
            out.print("What a student reads:", card)
        if outcome.misconceptions():
            out.print(tables.misconceptions_table(outcome))
    if not as_json:
        for line in tables.remarks(rows, outcome, only_problems=quiet):
            warn(line, out)
    for line in outcome.strays:
        warn(line)
    if not (as_json or quiet):
        out.print(tables.summary(outcome), soft_wrap=True)
        if file:
            say(f"Every student's scores: {file}")
        if outcome.feedback:
            say(f"Feedback pages: {course.feedback}")


def _write(file: Path, text: str) -> None:
    try:
        write_whole(file, text)
    except OSError as error:
        raise CourseError(
            f"The grades are recorded, but {file} can't be written: {error.strerror}.", BAD_INPUT
        ) from None


@command()
def mark(
    file: Annotated[Path, typer.Argument(metavar="FILE.ipynb", help="A notebook of the course, solved or not.")],
    as_json: AsJson = False,
    sandbox: Sandbox = None,
) -> None:
    """Grade one notebook without touching the gradebook.

    Exit status: 0 graded, whatever the score; 2 the file is no notebook of this course."""
    from autograder.cli import tables
    from autograder.grading.mark import mark as run

    choose_sandbox(sandbox)
    marks = run(find_course(), file)
    if as_json:
        print_json(marks)
    else:
        out.print(tables.marks_table(marks))
        for reason in marks["doubts"][:1]:
            out.print(f"Not for good, for {reason}, twice: mark it again.")


@command()
def override(
    unit: Unit,
    student: Annotated[str, typer.Argument(metavar="STUDENT", help="The student's id.")],
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="The exercise's id.")],
    points: Annotated[str, typer.Argument(metavar="POINTS", help="A number; or auto: the check's points again.")],
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why. The student reads it on the feedback page.")],
) -> None:
    """Give a student points by hand, whatever the check says. They stay when the class is graded again.

    The next `attn grade` writes the student's page anew. If the answer changes later, it waits for a marker, with these
    points until then."""
    from autograder.gradebook.override import override as run

    course = find_course()
    change = run(course, course.unit(unit), student, exercise, points, reason)
    say(change.line())


@command("sample-class")
def sample_class(
    students: Annotated[
        int | None,
        typer.Option(
            "-n", "--students", min=1, help="How many. Default: a dozen, each there for a reason, of units 00 and 02."
        ),
    ] = None,
    units: Annotated[
        list[str] | None, typer.Option("--units", help="A unit by name or number (repeat for more), or 'all'.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same class.")] = 0,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Only where nobody has handed anything in.")] = False,
) -> None:
    """Make a class to try the course on: right, wrong in every known way, half done, blank and broken notebooks."""
    from autograder.proofs import sample_class as sample

    course = find_course()
    if if_empty and not sample.is_empty(course):
        out.print("There are submissions already: no sample class was made.")
        return
    if students is None and units is None:
        manifest, problems = sample.small_class(course, seed)
    else:
        chosen = course.chosen([unit for unit in units or [] if unit != "all"])
        manifest, problems = sample.make_class(course, students, seed, chosen)
    for line in problems:
        warn(line)
    out.print(
        f"{len(manifest)} students made in {course.submitted}; sample.json beside it says what each is.", soft_wrap=True
    )
