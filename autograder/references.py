"""Which reference implementations are out of a student's reach while a unit is graded: its own and those of later units,
for a unit may lean on what earlier ones taught."""

import tomllib
from functools import cache

from autograder.paths import PACKAGES


@cache
def references_out_of_reach(unit: str) -> list[str]:
    """The names of the modules in `helpers` that define the references of this unit and of later ones."""
    from helpers import check

    return sorted({module for other, module in _modules(check) if other >= unit[:2]})


def _modules(check) -> list[tuple[str, str]]:
    """Pairs (number of the unit, module of a reference)."""
    syllabus = tomllib.loads((PACKAGES / "solutions" / "syllabus.toml").read_text(encoding="utf-8"))
    found = []
    for unit, table in syllabus.items():
        for exercise in (*table.get("auto", ()), *table.get("quiz", ())):
            found += [(unit[:2], name) for name in _of(getattr(check, exercise, None))]
    return found


def _of(check) -> list[str]:
    parts = getattr(check, "parts", {"": check}).values()
    modules = [getattr(getattr(part, "reference", None), "__module__", "") for part in parts]
    return [name for name in modules if name.startswith("helpers.") and not name.startswith("helpers.checks")]
