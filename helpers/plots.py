"""The pictures of the course, one function each. Each unit's lie in `helpers/<unit>/plots`."""

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from . import registry


def __getattr__(name: str) -> Any:
    found = registry.find("plots", name)
    return _described(found) if isfunction(found) else found


def _described(draw: Callable) -> Callable:
    from .style import described  # brings matplotlib along, which only pictures need

    return described(draw)


def __dir__() -> list[str]:
    return sorted(registry.offered("plots"))
