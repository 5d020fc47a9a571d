"""The `attn` command: one function per subcommand, each a few lines that call the module that does the work."""

from autograder.cli import authoring, classroom, grading, proving
from autograder.cli.common import app

__all__ = ["app", "authoring", "classroom", "grading", "proving"]
