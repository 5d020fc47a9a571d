"""Nothing is installed while a notebook is graded: a kernel has no network. `!pip install einops` would only wait for
one, until its cell has no time left; so it is left out, and the answer below it still runs."""

import re
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import SList

MAGICS = ("pip", "conda", "mamba", "micromamba", "uv")
INSTALLS = re.compile(r"\b(pip3?|conda|mamba|micromamba|uv|apt|apt-get)\b.*\binstall\b", re.DOTALL)
LEFT_OUT = "Nothing is installed while a notebook is graded. This cell goes on without it."


def block_pip(shell: InteractiveShell) -> None:
    """From now on `!pip install …`, `found = !pip install …` and `%pip …` say so and do nothing."""
    system, getoutput = shell.system, shell.getoutput
    shell.system = lambda command: _leave_out() if INSTALLS.search(command) else system(command)
    shell.getoutput = lambda command, **more: _no_lines() if INSTALLS.search(command) else getoutput(command, **more)
    for name in MAGICS:
        shell.register_magic_function(lambda line: _leave_out(), magic_name=name)


def _leave_out() -> None:
    print(LEFT_OUT, file=sys.stderr)


def _no_lines() -> SList:
    _leave_out()
    return SList()
