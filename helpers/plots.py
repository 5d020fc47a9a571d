"""The pictures of the course, one function each. Each unit's lie in `helpers/<unit>/plots`."""

from typing import Any

from . import rooms


def __getattr__(name: str) -> Any:
    return rooms.find("plots", name)


def __dir__() -> list[str]:
    return sorted(rooms.offered("plots"))
