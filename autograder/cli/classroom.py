"""Commands between a class and its gradebook: what it is given, what comes in, what goes out."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.common import REJECTED, Unit, Units, command, find_course, out, say, warn
from autograder.errors import BAD_INPUT, CourseError


@command()
def release(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or one that holds an earlier release.")],
    units: Units = None,
    address: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="Where students can fetch the wheel, or the folder that it will lie in."
        ),
    ] = "",
    agents: Annotated[
        bool, typer.Option(help="With AGENTS.md and CLAUDE.md, which ask AI assistants to tutor, not to answer.")
    ] = True,
) -> None:
    """Write what a class is given: notebooks, a wheel of `helpers`, a page for students, the licence.

    No solution, hidden case or grader is in it; references and checks are packed. The wheel holds what these units
    need. Other files of DIR stay."""
    from autograder.course.release import release as run

    course = find_course()
    chosen = course.chosen(units or [])
    files, wheel = run(course, chosen, folder, address, agents)
    say(f"{len(chosen)} unit{'s' * (len(chosen) > 1)}, {len(files)} files: {folder}")
    say(f"The wheel: {wheel.name}")


@command()
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
    lms: Annotated[
        str,
        typer.Option(
            "--lms",
            metavar="NAME",
            help="Whose download it is, where its root doesn't tell: canvas, moodle, gradescope, brightspace, "
            "blackboard, ilias, sakai, nbgrader, folders (one for each student), or files (whose names you trust: "
            "students may have chosen them).",
        ),
    ] = "",
    zone: Annotated[
        str,
        typer.Option(metavar="ZONE", help="Of times that name none, such as Europe/Berlin. Default: this machine's."),
    ] = "",
    alias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER=STUDENT_ID",
            help="Whose a folder is that could not be placed, by its name or a part of it; kept for the next time.",
        ),
    ] = None,
    teams: Annotated[
        bool, typer.Option("--teams", help="Each hand-in counts for all who have the same team in the roster.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")] = False,
) -> None:
    """Bring what students handed in from a learning management system's downloads into autograder/class/submitted.

    Canvas, Moodle, Gradescope, Brightspace, Blackboard, ILIAS, OLAT, Sakai, CodeGrade, clones of GitHub Classroom,
    nbgrader's exchange, Google Drive and plain folders. The unit is recognised by the notebook's cells. Of several
    attempts the last before the deadline counts; the others lie in autograder/class/history. A second run changes
    nothing.

    Exit status: 0 everything was placed; 3 something was not (each is named with the reason and stays in the download);
    2 a download, the roster or the deadline can't be used, and nothing was changed."""
    if not downloads and not roster:
        raise CourseError("Name a download (a zip archive or a folder), a roster, or both.", BAD_INPUT)
    if due and not downloads:
        raise CourseError("--due goes with a download: whose unit it is for stands in the notebooks.", BAD_INPUT)
    from autograder.lms.collect import collect as run

    plan = run(find_course(), list(downloads or []), roster, due, dry_run, lms, zone, alias or [], teams)
    for line in plan.lines() if dry_run else []:
        say(line)
    for line in plan.problems:
        warn(line)
    for line in plan.notes:
        say(line)
    if dry_run:
        out.print("Nothing was written (--dry-run). It would be:")
    out.print(
        plan.summary() if downloads else f"{plan.enrolled} students on the roster", soft_wrap=True, highlight=False
    )
    raise typer.Exit(REJECTED if plan.problems else 0)


@command()
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
    questions: Annotated[
        bool, typer.Option("--questions", help="csv: a line a student, with a column for each exercise.")
    ] = False,
) -> None:
    """Write grades: as a long CSV, or into the file that a learning management system takes back.

    A filled file lies beside the one it was made from, as NAME.filled.csv. Who has no grade keeps an empty cell.

    Exit status: 0 written; 1 written answers are not marked yet; 2 there is nothing to export, or a file can't be used.
    """
    from autograder.exports.export import export as run
    from autograder.gradebook.grades import units_with_grades

    course = find_course()
    chosen = course.chosen(units) if units else units_with_grades(course)
    done = run(course, chosen, format, into, column, with_open, questions)
    for line in done.notes:
        warn(line, out)
    where = f" into the column '{done.column}'" if done.column else ""
    say(f"{done.grades} grades{where}: {done.path}")


@command()
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
    """Write how the class did, as one HTML page: scores, exercises, misconceptions and who holds them, answers that are
    alike.

    It needs no server and no network, and it can be printed. It holds names and answers: keep it to yourself."""
    from autograder.gradebook.grades import units_with_grades
    from autograder.reports.report import report as run

    course = find_course()
    path, found = run(course, course.chosen(units) if units else units_with_grades(course), into, site)
    size = path.stat().st_size / 1e6
    say(f"{len(found)} unit{'s' * (len(found) > 1)}, {size:.1f} MB: {path}")


@command("return")
def return_(
    unit: Unit,
    format: Annotated[str, typer.Option("--format", help="moodle or canvas.")],
    into: Annotated[
        Path | None, typer.Option(metavar="FILE.zip", help="Default: autograder/class/return-UNIT-FORMAT.zip.")
    ] = None,
    with_open: Annotated[bool, typer.Option("--open", help="Even where written answers are not marked yet.")] = False,
) -> None:
    """Pack the feedback pages as Moodle or Canvas takes them back: all of them by one upload.

    Moodle: View all submissions, Upload multiple feedback files in a zip. Canvas: the gradebook, Upload Submissions of
    the assignment. The students' numbers come from the download that was collected."""
    from autograder.exports.return_feedback import return_feedback as run

    course = find_course()
    path, count, notes = run(course, course.unit(unit), format, into, with_open)
    for line in notes:
        warn(line)
    say(f"{count} pages: {path}")


@command("gradescope-zip")
def gradescope_zip(
    unit: Unit,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE.zip", help="Default: autograder/class/gradescope-UNIT.zip.")
    ] = None,
) -> None:
    """Make an autograder for Gradescope: the zip that a programming assignment there takes under Configure Autograder.

    It holds the unit's solution and hidden cases, and so do Gradescope's containers. Written answers are not scored
    there."""
    from autograder.exports.gradescope_autograder import TO_SET, make_autograder

    course = find_course()
    path = make_autograder(course, course.unit(unit), into)
    say(f"{path.stat().st_size / 1e6:.1f} MB: {path}")
    say(TO_SET)


@command()
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE.zip]", help="Where to. Default: backups/class-TIME.zip in the course folder."),
    ] = None,
) -> None:
    """Keep the class in one archive: gradebook, hand-ins and their history, graded notebooks, results, roster.

    It may run while a class is graded. An existing file is never overwritten."""
    from autograder.backup import backup as run

    path, count, notes = run(find_course(), file)
    for line in notes:
        warn(line)
    say(f"{count} files kept: {path}")


@command()
def restore(file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="What `attn backup` wrote.")]) -> None:
    """Make the class what it was when a backup was made. The class that is there now is moved aside, not deleted.

    Exit status: 0 done; 1 somebody works on the gradebook; 2 the file is no backup, or damaged, and nothing was
    changed."""
    from autograder.backup import restore as run

    count, made, aside = run(find_course(), file)
    say(f"{count} files are as they were at {made}.")
    if aside:
        say(f"What was there before: {aside}")
