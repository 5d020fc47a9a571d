"""The `attn` command: one function per subcommand, each a few lines that call the module that does the work."""

import functools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from autograder.cli.usage_errors import OneLineGroup
from autograder.course.paths import find_course
from autograder.errors import BAD_INPUT, CourseError

app = typer.Typer(cls=OneLineGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
                  help="Build, grade and inspect the attention course: the one you are in.")  # fmt: skip
new = typer.Typer(
    no_args_is_help=True, help="Write all the files of a new exercise or unit; `attn try` then says what to fill in."
)
app.add_typer(new, name="new")
out, err = Console(), Console(stderr=True)

Units = Annotated[
    list[str] | None,
    typer.Argument(metavar="[UNIT]...", help="Units by name or number (02_qkv_attention, 02 or 2). Default: all."),
]
Sandbox = Annotated[
    str | None,
    typer.Option(help="Where student code runs: namespaces (default), bubblewrap, or none: as you, on your machine."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
REJECTED = 3
STOPPED = 130


def one_line_errors(command: Callable) -> Callable:
    """A command that ends with one clear line, not with a traceback, for what its user can mend."""

    @functools.wraps(command)
    def wrapped(*args, **kwargs):
        try:
            return command(*args, **kwargs)
        except CourseError as error:
            err.print(f"[red]attn:[/] {_escaped(error)}", soft_wrap=True)
            raise typer.Exit(error.code) from None

    return wrapped


@app.command()
@one_line_errors
def build(
    units: Units = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and name each file that a build would change.")
    ] = False,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures", help="First draw anew what notebooks show before they are run, where what draws it changed."
        ),
    ] = False,
) -> None:
    """Make the solution notebooks and the students' notebooks from their sources."""
    from autograder.course import build as builder

    course = find_course()
    chosen = course.chosen(units or [])
    if check and pictures:
        raise CourseError("--check writes nothing, and --pictures does: choose one.", BAD_INPUT)
    if pictures:
        _draw(course, chosen)
    if check:
        lines = builder.drift(course, chosen)
        _problems(lines, "run `attn build` and commit what it writes")
        out.print(f"{', '.join(chosen)}: every notebook is what its source makes.")
        return
    changed = builder.build(course, chosen)
    for path in changed:
        out.print(f"wrote {path}" if (course.root / path).exists() else f"removed {path}", highlight=False)
    if not changed:
        out.print(f"{', '.join(chosen)}: up to date.")


def _draw(course, chosen: list[str]) -> None:
    """Draws the pictures of released notebooks that are older than what draws them, and names the files."""
    from autograder.course import build as builder
    from autograder.course import render_previews

    for unit in chosen:
        for path in render_previews.draw(course, unit, builder.solution_notebook(course.source(unit))):
            gone = "" if path.exists() else "removed "
            out.print(f"{gone or 'drew '}{path.relative_to(course.root)}", highlight=False)


@app.command()
@one_line_errors
def site(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the pages go.")] = Path("site"),
    units: Annotated[list[str] | None, typer.Option("--unit", help="This unit only; may be given again.")] = None,
    pictures: Annotated[
        bool, typer.Option(help="Run the released notebooks for the pictures that need no answer (minutes).")
    ] = True,
) -> None:
    """Make pages to read of the students' notebooks: navigation, search, light and dark. No answer is in them."""
    from autograder.site import build as pages

    course = find_course()
    first = pages.build(course, course.chosen(units or []), folder, pictures, lambda unit: out.print(f"reading {unit}"))
    out.print(f"open {_escaped(first)}", soft_wrap=True)


@app.command()
@one_line_errors
def grade(
    units: Units = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Notebooks judged at the same time. Default: one per core.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="A Dask scheduler (tcp://host:8786), 'slurm', or 'local': Dask on this machine. Default: threads, no Dask.",
        ),
    ] = None,
    student: Annotated[list[str] | None, typer.Option(help="Only this student (repeat for more).")] = None,
    sandbox: Sandbox = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", help="The same as a UNIT without the option (repeat for more).")
    ] = None,
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

    A class of more than 30 students is shown unit by unit; every student's line is then in autograder/class/scores.txt. Only new or changed work is judged; a run that was broken off, by Ctrl-C too, goes on where it stopped.

    Exit status: 0 all submissions were graded; 3 some were rejected (each is named with the reason and gets no points,
    the others are graded); 1 the grader itself failed on one; 2 there was nothing to grade, or a name is unknown.
    """
    from autograder.grading.ctrl_c import ctrl_c
    from autograder.grading.preload import start_if_wanted

    course = find_course()
    chosen = course.chosen([*(units or []), *(unit or [])])
    _choose(sandbox)
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
        with _progress(hidden=quiet) as progress:
            outcome = run(course, chosen, settings, progress)
    rows = {unit: gradebook_writer.scores(course, unit) for unit in outcome.units()}
    _show_grades(course, outcome, rows, as_json, quiet, table)
    changed = regrade_log.read(course.regrades)[known:]
    if changed and not as_json:
        out.print(f"{_changes(len(changed))} {course.regrades}", soft_wrap=True, highlight=False)
    if profile:
        (err if as_json or quiet else out).print(tables.profile_table(outcome))
    raise typer.Exit(1 if outcome.failed else REJECTED if outcome.rejected or outcome.strays else 0)


@contextmanager
def _going_on_after_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise CourseError("Stopped. What is graded is kept: `attn grade` goes on with the rest.", STOPPED) from None


def _preview(course, chosen: list[str], settings, as_json: bool) -> None:
    """Prints what grading would change of what students had before."""
    from dataclasses import asdict

    from autograder.grading.preview import preview as run

    with _progress(hidden=as_json) as progress:
        outcome, changes = run(course, chosen, settings, progress)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"time": str(one.time)} for one in changes], indent=1, ensure_ascii=False))
        raise typer.Exit(1 if outcome.failed else 0)
    for one in changes:
        out.print(_escaped(one.line()), soft_wrap=True, highlight=False)
    out.print(
        f"{len(changes)} earlier scores would change; {outcome.recorded} hand-ins would be recorded. Nothing was written: "
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
        typer.echo(json.dumps(score_tables.as_json(rows, outcome), indent=1, ensure_ascii=False))
    elif not quiet:
        large = score_tables.is_large(outcome)
        out.print(score_tables.units_table(rows, outcome) if large
                  else score_tables.scores_table(rows, outcome, made_to_show, out.width))  # fmt: skip
        if made_to_show and (card := tables.a_card(outcome)):
            out.print("What a student reads:", card)
        if outcome.misconceptions():
            out.print(tables.misconceptions_table(outcome))
    if not as_json:
        for line in tables.remarks(rows, outcome, only_problems=quiet):
            out.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True, highlight=False)
    for line in outcome.strays:
        err.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True)
    if not (as_json or quiet):
        out.print(tables.summary(outcome), soft_wrap=True)
        if file:
            out.print(f"Every student's scores: {_escaped(file)}", soft_wrap=True, highlight=False)
        if outcome.feedback:
            out.print(f"Feedback pages: {course.feedback}", soft_wrap=True, highlight=False)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CourseError(
            f"The grades are recorded, but {file} can't be written: {error.strerror}.", BAD_INPUT
        ) from None


@app.command()
@one_line_errors
def release(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or one that holds an earlier release.")],
    units: Units = None,
    address: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="Where students can fetch the wheel, or the folder that it will lie in."
        ),
    ] = "",
) -> None:
    """Write what a class is given: notebooks, a wheel of `helpers`, a page for students, the licence.

    No solution, hidden case or grader is in it; references and checks are packed. The wheel holds what these units need. Other files of DIR stay.
    """
    from autograder.course.release import release as run

    course = find_course()
    chosen = course.chosen(units or [])
    files, wheel = run(course, chosen, folder, address)
    out.print(
        f"{len(chosen)} unit{'s' * (len(chosen) > 1)}, {len(files)} files: {_escaped(folder)}",
        soft_wrap=True,
        highlight=False,
    )
    out.print(f"The wheel: {_escaped(wheel.name)}", soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def collect(
    downloads: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[ZIP|FOLDER]...",
            help="What the learning management system gave you, zipped or not; with Moodle its worksheet (.csv), too.",
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Who is in the class; kept for the next time. Only student_id is needed."
        ),
    ] = None,
    due: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The unit's deadline: '2026-11-30 23:59', or with a zone behind it."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")] = False,
) -> None:
    """Bring what students handed in from a learning management system's downloads into autograder/class/submitted.

    Canvas, Moodle, Gradescope, Brightspace, Google Drive and plain folders. The unit is recognised by the notebook's cells. Of several attempts the last before the deadline counts; the others lie in autograder/class/history. A second run changes nothing.

    Exit status: 0 everything was placed; 3 something was not (each is named with the reason and stays in the download); 2 a download, the roster or the deadline can't be used, and nothing was changed.
    """
    if not downloads and not roster:
        raise CourseError("Name a download (a zip archive or a folder), a roster, or both.", BAD_INPUT)
    if due and not downloads:
        raise CourseError("--due goes with a download: whose unit it is for stands in the notebooks.", BAD_INPUT)
    from autograder.lms.collect import collect as run

    plan = run(find_course(), list(downloads or []), roster, due, dry_run)
    for line in plan.lines() if dry_run else []:
        out.print(_escaped(line), soft_wrap=True, highlight=False)
    for line in plan.problems:
        err.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True, highlight=False)
    for line in plan.notes:
        out.print(_escaped(line), soft_wrap=True, highlight=False)
    if dry_run:
        out.print("Nothing was written (--dry-run). It would be:")
    out.print(
        plan.summary() if downloads else f"{plan.enrolled} students on the roster", soft_wrap=True, highlight=False
    )
    raise typer.Exit(REJECTED if plan.problems else 0)


@app.command()
@one_line_errors
def export(
    units: Annotated[
        list[str] | None,
        typer.Argument(metavar="[UNIT]...", help="Units by name or number. Default: all that have grades."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="csv (a long table), canvas, moodle, or gradescope (as its own download).")
    ] = "csv",
    into: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="csv, gradescope: the file to write. canvas, moodle: the file to fill."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="TITLE", help="canvas, moodle: the column to fill, where it can't be told.")
    ] = None,
    with_open: Annotated[bool, typer.Option("--open", help="Even where written answers are not marked yet.")] = False,
) -> None:
    """Write grades: as a long CSV, or into the file that a learning management system takes back.

    A filled file lies beside the one it was made from, as NAME.filled.csv. Who has no grade keeps an empty cell.

    Exit status: 0 written; 1 written answers are not marked yet; 2 there is nothing to export, or a file can't be used.
    """
    from autograder.exports.export import export as run
    from autograder.gradebook.grades import units_with_grades

    course = find_course()
    chosen = course.chosen(units) if units else units_with_grades(course)
    done = run(course, chosen, format, into, column, with_open)
    for line in done.notes:
        out.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True, highlight=False)
    where = f" into the column '{done.column}'" if done.column else ""
    out.print(f"{done.grades} grades{_escaped(where)}: {_escaped(done.path)}", soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def report(
    units: Annotated[
        list[str] | None,
        typer.Argument(metavar="[UNIT]...", help="Units by name or number. Default: all that have grades."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Default: autograder/class/report.html.")
    ] = None,
    site: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Where the pages of `attn site` are: what to revise links there. Default: site/."
        ),
    ] = "",
) -> None:
    """Write how the class did, as one HTML page: scores, exercises, misconceptions and who holds them, answers that are alike.

    It needs no server and no network, and it can be printed. It holds names and answers: keep it to yourself.
    """
    from autograder.gradebook.grades import units_with_grades
    from autograder.reports.report import report as run

    course = find_course()
    path, found = run(course, course.chosen(units) if units else units_with_grades(course), into, site)
    size = path.stat().st_size / 1e6
    out.print(
        f"{len(found)} unit{'s' * (len(found) > 1)}, {size:.1f} MB: {_escaped(path)}", soft_wrap=True, highlight=False
    )


@app.command("return")
@one_line_errors
def return_(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")],
    format: Annotated[str, typer.Option("--format", help="moodle or canvas.")],
    into: Annotated[
        Path | None, typer.Option(metavar="FILE.zip", help="Default: autograder/class/return-UNIT-FORMAT.zip.")
    ] = None,
    with_open: Annotated[bool, typer.Option("--open", help="Even where written answers are not marked yet.")] = False,
) -> None:
    """Pack the feedback pages as Moodle or Canvas takes them back: all of them by one upload.

    Moodle: View all submissions, Upload multiple feedback files in a zip. Canvas: the gradebook, Upload Submissions of the assignment. The students' numbers come from the download that was collected.
    """
    from autograder.exports.return_feedback import return_feedback as run

    course = find_course()
    path, count, notes = run(course, course.unit(unit), format, into, with_open)
    for line in notes:
        err.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True, highlight=False)
    out.print(f"{count} pages: {_escaped(path)}", soft_wrap=True, highlight=False)


@app.command("gradescope-zip")
@one_line_errors
def gradescope_zip(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")],
    into: Annotated[
        Path | None, typer.Option(metavar="FILE.zip", help="Default: autograder/class/gradescope-UNIT.zip.")
    ] = None,
) -> None:
    """Make an autograder for Gradescope: the zip that a programming assignment there takes under Configure Autograder.

    It holds the unit's solution and hidden cases, and so do Gradescope's containers. Written answers are not scored there.
    """
    from autograder.exports.gradescope_autograder import make_autograder

    course = find_course()
    path = make_autograder(course, course.unit(unit), into)
    out.print(f"{path.stat().st_size / 1e6:.1f} MB: {_escaped(path)}", soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def override(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")],
    student: Annotated[str, typer.Argument(metavar="STUDENT", help="The student's id.")],
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="The exercise's id.")],
    points: Annotated[str, typer.Argument(metavar="POINTS", help="A number; or auto: the check's points again.")],
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why. The student reads it on the feedback page.")],
) -> None:
    """Give a student points by hand, whatever the check says. They stay when the class is graded again.

    The next `attn grade` writes the student's page anew. If the answer changes later, it waits for a marker, with these points until then.
    """
    from autograder.gradebook.override import override as run

    course = find_course()
    change = run(course, course.unit(unit), student, exercise, points, reason)
    out.print(_escaped(change.line()), soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE.zip]", help="Where to. Default: backups/class-TIME.zip in the course folder."),
    ] = None,
) -> None:
    """Keep the class in one archive: gradebook, hand-ins and their history, graded notebooks, results, roster.

    It may run while a class is graded. An existing file is never overwritten.
    """
    from autograder.backup import backup as run

    path, count, notes = run(find_course(), file)
    for line in notes:
        err.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True, highlight=False)
    out.print(f"{count} files kept: {_escaped(path)}", soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="What `attn backup` wrote.")],
) -> None:
    """Make the class what it was when a backup was made. The class that is there now is moved aside, not deleted.

    Exit status: 0 done; 1 somebody works on the gradebook; 2 the file is no backup, or damaged, and nothing was changed.
    """
    from autograder.backup import restore as run

    count, made, aside = run(find_course(), file)
    out.print(f"{count} files are as they were at {made}.", soft_wrap=True, highlight=False)
    if aside:
        out.print(f"What was there before: {_escaped(aside)}", soft_wrap=True, highlight=False)


@app.command()
@one_line_errors
def mark(
    file: Annotated[Path, typer.Argument(metavar="FILE.ipynb", help="A notebook of the course, solved or not.")],
    as_json: AsJson = False,
    sandbox: Sandbox = None,
) -> None:
    """Grade one notebook without touching the gradebook.

    Exit status: 0 graded, whatever the score; 2 the file is no notebook of this course.
    """
    from autograder.cli import tables
    from autograder.grading.mark import mark as run

    _choose(sandbox)
    marks = run(find_course(), file)
    if as_json:
        typer.echo(json.dumps(marks, indent=1, ensure_ascii=False))
    else:
        out.print(tables.marks_table(marks))


@app.command()
@one_line_errors
def lint(units: Units = None) -> None:
    """Find what would go wrong later: ids, points, markers, checks and hidden cases, against syllabus.toml."""
    from autograder.course.lint import lint as find
    from autograder.course.repository_url import ADVICE, repository_url

    course = find_course()
    chosen = course.chosen(units or [])
    _problems(find(course, chosen), "mend the sources")
    out.print(f"{', '.join(chosen)}: nothing to mend.")
    if not repository_url(course):
        out.print(ADVICE, soft_wrap=True, markup=False)


@app.command()
@one_line_errors
def prove(
    units: Units = None,
    only: Annotated[str | None, typer.Option(metavar="ID", help="Only this exercise.")] = None,
    as_json: AsJson = False,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Try the hostile and broken notebooks instead, and say what came of each.")
    ] = False,
    stock: Annotated[bool, typer.Option("--stock", help="With --hostile: through nbgrader's own `autograde`.")] = False,
    constants: Annotated[
        bool, typer.Option("--constants", help="Try answers that look at nothing instead: none may earn a point.")
    ] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Try small changes of right answers instead: none may earn all points.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="COMMIT", help="Compare every card with that commit's, byte for byte, instead."
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", min=1, help="N times over, each with inputs of its own.")
    ] = 1,
    sandbox: Sandbox = None,
) -> None:
    """Put the checks to the test: every misconception must lose points and be named, every right alternative must pass.

    Exit status: 0 all did; 1 one did not.
    """
    from autograder.cli import tables
    from autograder.proofs import prove as proving

    if hostile:
        _prove_hostile(_choose(sandbox), stock, as_json)
    course = find_course()
    if against:
        _prove_against(course, against, course.chosen(units or []), only, mutants)
    if constants:
        _prove_constants(course, course.chosen(units or []), as_json)
    if mutants:
        _prove_mutants(course, course.chosen(units or []), only, as_json)
    proofs = proving.prove(course, course.chosen(units or []), only, draws)
    misses = [f"{name}: {miss}" for unit in proofs.values() for name, proof in unit.items() for miss in proof.misses]
    if as_json:
        typer.echo(json.dumps(proving.as_json(proofs), indent=1, ensure_ascii=False))
    else:
        out.print(tables.proofs_table(proofs, proving.totals(proofs)))
        for miss in misses:
            out.print(f"[red]✗[/] {_escaped(miss)}", soft_wrap=True, highlight=False)
    raise typer.Exit(1 if misses else 0)


@app.command()
@one_line_errors
def cards(
    units: Units = None,
    into: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("cards.html"),
) -> None:
    """Write one page with the card of every misconception of every exercise, and a green one of each, to look at."""
    from autograder.proofs import cards as gallery

    course = find_course()
    chosen = course.chosen(units or [])
    with _progress() as progress:
        shown = gallery.cards(course, chosen, progress)
    try:
        into.write_text(gallery.page(shown), encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{into} can't be written: {error.strerror}.", BAD_INPUT) from None
    out.print(f"wrote {len(shown)} cards to {into}", highlight=False)


@app.command("try")
@one_line_errors
def try_(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")],
    exercise: Annotated[str | None, typer.Argument(metavar="[EXERCISE]", help="Only this exercise of it.")] = None,
) -> None:
    """Everything at once for one unit or exercise, while you write it: lint, build, prove, and run the solution notebook.

    The model answers must earn all points and every picture must draw. Exit status: 0 all is well; 1 something is not,
    and each thing has a line.
    """
    from autograder.cli import tables
    from autograder.proofs.try_command import try_exercise

    course = find_course()
    tried = try_exercise(course, course.unit(unit), exercise)
    if tried.proofs:
        out.print(tables.attempt_table(tried))
    for miss in tried.misses:
        out.print(f"[red]✗[/] {_escaped(miss)}", soft_wrap=True, highlight=False)
    raise typer.Exit(1 if tried.misses else 0)


@new.command("exercise")
@one_line_errors
def new_exercise(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")],
    name: Annotated[str, typer.Argument(metavar="ID", help="The exercise's id, which is its function's name.")],
    points: Annotated[int, typer.Option(min=1, help="What it is worth.")] = 1,
) -> None:
    """Write the stubs of an exercise: reference, check, hidden cases, alternatives, section, test; and its line in the syllabus.

    The section goes to the end of the unit. Points in syllabus, intro and README are raised. Nothing that exists is overwritten.
    """
    from autograder.course.scaffold import create_exercise

    course = find_course()
    unit = course.unit(unit)
    _written(create_exercise(course, unit, name, points), f"attn try {unit[:2]} {name}")


@new.command("unit")
@one_line_errors
def new_unit(
    name: Annotated[
        str, typer.Argument(metavar="NN_NAME", help="Number and name, as in 11_name; the room is helpers/name.")
    ],
) -> None:
    """Write the stubs of a unit: its notebook's source, its room in helpers, its hidden cases and alternatives, its row in README.

    It has no exercises yet: `attn new exercise` adds them. Nothing that exists is overwritten.
    """
    from autograder.course.scaffold import create_unit

    _written(create_unit(find_course(), name), f"attn try {name[:2]}")


def _written(paths: list[Path], then: str) -> None:
    for path in paths:
        out.print(f"wrote {path}", highlight=False, soft_wrap=True)
    out.print(f"`{then}` says what is left to fill in.", soft_wrap=True)


def _prove_hostile(sandbox: str, stock: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from autograder.cli import tables
    from autograder.proofs.hostile import run_hostile, totals
    from autograder.proofs.hostile_nbgrader import run_through_nbgrader

    rows = []
    with _progress() as progress:
        for row in progress.track((run_through_nbgrader if stock else run_hostile)(sandbox), description="Trying"):
            rows.append(row)
    if as_json:
        found = [asdict(row) | {"held": row.held} for row in rows]
        typer.echo(json.dumps({"notebooks": found, "total": totals(rows)}, indent=1, ensure_ascii=False))
    else:
        out.print(tables.hostile_table(rows, totals(rows)))
    raise typer.Exit(0 if all(row.held for row in rows) else 1)


def _prove_constants(course, units: list[str], as_json: bool) -> None:
    from dataclasses import asdict

    from autograder.proofs.trivial_answers import try_trivial_answers

    swept = {name: one for unit in units for name, one in try_trivial_answers(course, [unit])[unit].items()}
    earned = [f"{name}: {line}" for name, one in swept.items() for line in one.earned]
    tried = sum(one.tried for one in swept.values())
    if as_json:
        typer.echo(json.dumps({name: asdict(one) for name, one in swept.items()}, indent=1, ensure_ascii=False))
    else:
        for line in earned:
            out.print(f"[red]✗[/] {_escaped(line)}", soft_wrap=True, highlight=False)
        out.print(f"{tried} constant answers to {len(swept)} exercises: {len(earned)} earned points.")
    raise typer.Exit(1 if earned else 0)


def _prove_mutants(course, units: list[str], only: str | None, as_json: bool) -> None:
    from autograder.proofs.mutation_testing import as_json as plain
    from autograder.proofs.mutation_testing import complaints, mutation_test, totals

    tried = {}
    for name, one in mutation_test(course, units, only):
        tried[name] = one
        for line in [] if as_json else complaints(one):
            out.print(f"[red]✗[/] {name}: {_escaped(line)}", soft_wrap=True, highlight=False)
    if as_json:
        typer.echo(json.dumps(plain(tried), indent=1, ensure_ascii=False))
    else:
        out.print(", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in totals(tried).items()))
    raise typer.Exit(1 if any(map(complaints, tried.values())) else 0)


def _prove_against(course, commit: str, units: list[str], only: str | None, mutants: bool) -> None:
    from autograder.proofs.compare_commits import differences

    found = differences(course, commit, units, only, mutants)
    for line in found:
        out.print(line, markup=False, soft_wrap=True, highlight=False)
    out.print(f"against {commit}: {len(found)} differences")
    raise typer.Exit(1 if found else 0)


def _choose(sandbox: str | None) -> str:
    """Where student code runs from here on; nbgrader_config.py reads it, so that every step agrees."""
    from autograder.judge.config import BUBBLEWRAP, NAMESPACES, NONE

    chosen = sandbox or os.environ.get("ATTN_SANDBOX", NAMESPACES)
    if chosen not in (NAMESPACES, BUBBLEWRAP, NONE):
        raise CourseError(f"There is no sandbox '{chosen}': choose {NAMESPACES}, {BUBBLEWRAP} or {NONE}.", BAD_INPUT)
    os.environ["ATTN_SANDBOX"] = chosen
    return chosen


@app.command("sample-class")
@one_line_errors
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
        err.print(f"[yellow]{_escaped(line)}[/]", soft_wrap=True)
    out.print(
        f"{len(manifest)} students made in {course.submitted}; sample.json beside it says what each is.", soft_wrap=True
    )


@app.command()
@one_line_errors
def doctor() -> None:
    """What this machine can do: Python, torch, GPU, Triton, grading, sandbox, resources; and what to do about gaps."""
    from autograder.cli import tables
    from autograder.doctor import examine

    out.print(tables.findings_table(examine(find_course())))


def _problems(lines: list[str], advice: str) -> None:
    """Prints the lines and ends with exit status 1, if there are any."""
    for line in lines:
        err.print(_escaped(line), soft_wrap=True, highlight=False)
    if lines:
        err.print(f"[red]attn:[/] {len(lines)} problem{'s' * (len(lines) > 1)}: {advice}.", soft_wrap=True)
        raise typer.Exit(1)


def _escaped(text: object) -> str:
    from rich.markup import escape

    from autograder.sanitize_terminal import printable

    return escape(printable(text))


class _Rate(ProgressColumn):
    """Submissions a minute."""

    def render(self, task: Task) -> Text:
        return Text(f"{60 * task.speed:.0f}/min" if task.speed else "", style="progress.data.speed")


def _progress(hidden: bool = False) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()
    return Progress(*columns, console=err, disable=hidden)
