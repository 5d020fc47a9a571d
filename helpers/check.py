"""The checks of all exercises, by their ids: `check.softmax(softmax, points=2)`, a unit's in `helpers/<unit>/checks`.

In a notebook a check also says where one stands: a line below its card, and `check.progress()` for all of it."""

from typing import Any

from . import cells, registry
from .progress import Door, in_notebook, progress, shell

__all__ = ["progress"]

if in_notebook():
    cells.watch(shell())


def __getattr__(name: str) -> Any:
    if in_notebook() and name in registry.offered("checks"):
        return Door(name)
    return registry.find("checks", name)


def __dir__() -> list[str]:
    return sorted([*__all__, *registry.offered("checks")])
