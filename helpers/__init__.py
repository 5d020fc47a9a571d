"""What the notebooks import: reference implementations, checks, plots and measuring."""

from . import checks as check
from . import plots
from .environment import setup

__all__ = ["check", "plots", "setup"]
