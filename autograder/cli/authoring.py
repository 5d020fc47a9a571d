"""Commands for who writes the course."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.common import Unit, Units, app, command, escaped, exit_with_problems, find_course, out, say
from autograder.errors import BAD_INPUT, CourseError

new = typer.Typer(
    no_args_is_help=True, help="Write all the files of a new exercise or unit; `attn try` then says what to fill in."
)
app.add_typer(new, name="new")


@command()
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
        exit_with_problems(lines, "run `attn build` and commit what it writes")
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


@command()
def site(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the pages go.")] = Path("site"),
    units: Annotated[list[str] | None, typer.Option("--unit", help="This unit only; may be given again.")] = None,
    pictures: Annotated[bool, typer.Option(help="Run the solutions for the pictures (minutes).")] = True,
) -> None:
    """Make pages to read of the students' notebooks: navigation, search, light and dark. No answer is in them."""
    from autograder.site import build as pages

    course = find_course()
    first = pages.build(course, course.chosen(units or []), folder, pictures, lambda unit: out.print(f"reading {unit}"))
    out.print(f"open {escaped(first)}", soft_wrap=True)


@command()
def lint(units: Units = None) -> None:
    """Find what would go wrong later: ids, points, markers, checks and hidden cases, against syllabus.toml."""
    from autograder.course.lint import lint as find
    from autograder.course.repository_url import ADVICE, repository_url

    course = find_course()
    chosen = course.chosen(units or [])
    exit_with_problems(find(course, chosen), "mend the sources")
    out.print(f"{', '.join(chosen)}: nothing to mend.")
    if not repository_url(course):
        out.print(ADVICE, soft_wrap=True, markup=False)


@command("try")
def try_(
    unit: Unit,
    exercise: Annotated[str | None, typer.Argument(metavar="[EXERCISE]", help="Only this exercise of it.")] = None,
) -> None:
    """Everything at once for one unit or exercise, while you write it: lint, build, prove, and run the solution
    notebook.

    The model answers must earn all points and every picture must draw. Exit status: 0 all is well; 1 something is not,
    and each thing has a line."""
    from autograder.cli import tables
    from autograder.proofs.try_command import try_exercise

    course = find_course()
    tried = try_exercise(course, course.unit(unit), exercise)
    if tried.proofs:
        out.print(tables.attempt_table(tried))
    for miss in tried.misses:
        say(miss, "[red]✗[/] ")
    raise typer.Exit(1 if tried.misses else 0)


@command("exercise", group=new)
def new_exercise(
    unit: Unit,
    name: Annotated[str, typer.Argument(metavar="ID", help="The exercise's id, which is its function's name.")],
    points: Annotated[int, typer.Option(min=1, help="What it is worth.")] = 1,
) -> None:
    """Write the stubs of an exercise: reference, check, hidden cases, alternatives, section, test; and its line in the
    syllabus.

    The section goes to the end of the unit. Points in syllabus, intro and README are raised. Nothing that exists is
    overwritten."""
    from autograder.course.scaffold import create_exercise

    course = find_course()
    unit = course.unit(unit)
    _written(create_exercise(course, unit, name, points), f"attn try {unit[:2]} {name}")


@command("unit", group=new)
def new_unit(
    name: Annotated[
        str, typer.Argument(metavar="NN_NAME", help="Number and name, as in 11_name; the room is helpers/name.")
    ],
) -> None:
    """Write the stubs of a unit: its notebook's source, its room in helpers, its hidden cases and alternatives, its row
    in README.

    It has no exercises yet: `attn new exercise` adds them. Nothing that exists is overwritten."""
    from autograder.course.scaffold import create_unit

    _written(create_unit(find_course(), name), f"attn try {name[:2]}")


def _written(paths: list[Path], then: str) -> None:
    for path in paths:
        out.print(f"wrote {path}", highlight=False, soft_wrap=True)
    out.print(f"`{then}` says what is left to fill in.", soft_wrap=True)


@command()
def doctor() -> None:
    """What this machine can do: Python, torch, GPU, Triton, grading, sandbox, resources; and what to do about gaps."""
    from autograder.cli import tables
    from autograder.doctor import examine

    out.print(tables.findings_table(examine(find_course())))
