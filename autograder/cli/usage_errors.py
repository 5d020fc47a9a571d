"""Slips of typing told in one line: an unknown command or option, a missing file name."""

import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from autograder.sanitize_terminal import printable


class OneLineGroup(TyperGroup):
    """A command with subcommands that says in one line what it did not understand. Exit status 2, as Typer has it."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Runs the command; ends the process, unless the caller wants what comes of it (`standalone_mode=False`)."""
        if not standalone_mode:
            return super().main(*arguments, standalone_mode=False, **more)
        try:
            sys.exit(super().main(*arguments, standalone_mode=False, **more) or 0)
        except Exception as error:
            if not hasattr(error, "format_message"):  # what every usage error has, and nothing else
                raise
            _end(error)


def _end(error: Any) -> None:
    """Ends the process with the line; without one where no argument was given, for then the help is there already."""
    words = " ".join(printable(error.format_message()).split())
    if words:
        place = getattr(error.ctx, "command_path", "attn") if getattr(error, "ctx", None) else "attn"
        words = f"[red]attn:[/] {escape(words.rstrip('.'))}. `{place} --help` says what it takes."
        Console(stderr=True).print(words, soft_wrap=True, highlight=False)
    sys.exit(error.exit_code)
