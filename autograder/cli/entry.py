"""Where every command begins and ends: streams that bear anything, and one clear line for whatever its user can mend,
a slip of typing, a file that can't be written, a gradebook that can't be used."""

import os
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from autograder.cli.streams import lost_output, make_sturdy
from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable

STOPPED = 130


class OneLineGroup(TyperGroup):
    """The `attn` command. Exit status 2 for what it did not understand, as Typer has it."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Runs the command; ends the process, unless the caller wants what comes of it (`standalone_mode=False`)."""
        if not standalone_mode:
            return super().main(*arguments, standalone_mode=False, **more)
        make_sturdy()
        os.environ["PYTHONSAFEPATH"] = "1"  # or other Pythons that we start would import from the working directory
        try:
            status = super().main(*arguments, standalone_mode=False, **more) or 0
        except Exception as error:
            status = _told(error)
        if lost := lost_output():
            status = status or _say(f"What is printed can't be written ({lost.strerror}).")
        sys.exit(status)


def _told(error: Exception) -> int:
    """Says what went wrong, where the user can mend it; else raises it. Returns the exit status."""
    if hasattr(error, "format_message"):  # what every usage error has, and nothing else
        return _usage(error)
    if isinstance(error, CourseError):
        return _say(str(error), error.code)
    if type(error).__name__ == "Abort":  # Typer's, of Ctrl-C
        return _say("Stopped.", STOPPED)
    if isinstance(error, UnicodeEncodeError):
        return _say(f"'{error.object[:80]}' is not in UTF-8, and so can't be used: rename it.", BAD_INPUT)
    if isinstance(error, OSError):
        return _say(f"{error.filename or 'A file'} can't be read or written ({error.strerror or error}).")
    raise error


def _usage(error: Any) -> int:
    """Without a line where no argument was given, for then the help is there already."""
    if words := " ".join(error.format_message().split()):
        place = getattr(error.ctx, "command_path", "attn") if getattr(error, "ctx", None) else "attn"
        _say(f"{words.rstrip('.')}. `{place} --help` says what it takes.")
    return error.exit_code


def _say(words: str, status: int = 1) -> int:
    line = f"[red]attn:[/] {escape(printable(words))}"
    Console(stderr=True).print(line, soft_wrap=True, highlight=False)
    return status
