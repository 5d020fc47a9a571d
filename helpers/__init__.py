"""What the notebooks import: the checks of all exercises, the pictures, and the set-up of a notebook. Every unit is a
folder of its own, which holds its reference implementations, `checks` and `plots`."""

from . import check, plots
from .environment import setup

__all__ = ["check", "plots", "setup"]
