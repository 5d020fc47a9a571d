"""What all commands share: options, printing, and errors in one line."""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from autograder.cli.entry import OneLineGroup
from autograder.course import paths
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable

app = typer.Typer(
    cls=OneLineGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Build, grade and inspect the attention course: the one you are in.",
)
out, err = Console(), Console(stderr=True)

Unit = Annotated[str, typer.Argument(metavar="UNIT", help="A unit by name or number.")]
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


def command(name: str | None = None, group: typer.Typer = app) -> Callable[[Callable], Callable]:
    """A subcommand."""

    def register(run: Callable) -> Callable:
        # Typer would keep the ends of the docstring's lines.
        run.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(run) or "")
        return group.command(name)(run)

    return register


def find_course() -> Course:
    """The course that a command is about. Where a person can answer, a folder that only looks like one is asked
    about."""
    return paths.find_course(_is_yours if sys.stdin.isatty() and sys.stderr.isatty() else lambda folder: False)


def _is_yours(folder: Path) -> bool:
    asked = f"{printable(folder)} looks like a course, but this command was not installed for it. Run its configuration"
    return typer.confirm(f"{asked}, a program, as you?", err=True)


def say(line: object, mark: str = "") -> None:
    out.print(mark + escaped(line), soft_wrap=True, highlight=False)


def warn(line: object, console: Console = err) -> None:
    console.print(f"[yellow]{escaped(line)}[/]", soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """For programs: the same bytes in every locale."""
    typer.echo(json.dumps(value, indent=1))


def exit_with_problems(lines: list[str], advice: str) -> None:
    """Prints the lines and ends with exit status 1, if there are any."""
    for line in lines:
        err.print(escaped(line), soft_wrap=True, highlight=False)
    if lines:
        err.print(f"[red]attn:[/] {len(lines)} problem{'s' * (len(lines) > 1)}: {advice}.", soft_wrap=True)
        raise typer.Exit(1)


def escaped(text: object) -> str:
    return escape(printable(text))


def choose_sandbox(sandbox: str | None) -> str:
    """Where student code runs from here on; nbgrader_config.py reads it, so that every step agrees."""
    from autograder.judge.config import BUBBLEWRAP, NAMESPACES, NONE

    chosen = sandbox or os.environ.get("ATTN_SANDBOX", NAMESPACES)
    if chosen not in (NAMESPACES, BUBBLEWRAP, NONE):
        raise CourseError(f"There is no sandbox '{chosen}': choose {NAMESPACES}, {BUBBLEWRAP} or {NONE}.", BAD_INPUT)
    os.environ["ATTN_SANDBOX"] = chosen
    return chosen


class Rate(ProgressColumn):
    """Submissions a minute."""

    def render(self, task: Task) -> Text:
        return Text(f"{60 * task.speed:.0f}/min" if task.speed else "", style="progress.data.speed")


def progress_bar(hidden: bool = False) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn()
    return Progress(*columns, console=err, disable=hidden)
