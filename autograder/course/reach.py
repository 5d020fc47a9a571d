"""What kernels see of the course while a unit is graded: a student's neither the checks, nor the rooms of this unit and of later
ones (a unit may lean on what earlier ones taught); the judge's the hidden cases beside all that."""

import tomllib
from functools import cache

from autograder.course.paths import PACKAGES, SYLLABUS
from autograder.judge.judge import Exam

HELPERS = PACKAGES / "helpers"


@cache
def exam(unit: str) -> Exam:
    """What is within reach while this unit is graded."""
    closed = [HELPERS / name.removeprefix("helpers.") for name in rooms_out_of_reach(unit)]
    hidden = [*HELPERS.glob("*/checks"), *closed, PACKAGES / "autograder", PACKAGES / "solutions"]
    return Exam(
        unit=unit,
        shown=(str(HELPERS),),
        hidden=tuple(sorted(map(str, hidden))),
        tests=(str(PACKAGES / "autograder" / "hidden"),),
        quiet=("helpers.check", "helpers.plots"),
        out_of_reach=tuple(rooms_out_of_reach(unit)),
        preload=("helpers",),
    )


def room(unit: str) -> str:
    """The name that a unit's folder in `helpers`, its hidden cases, its alternatives and its tests share: `qkv_attention`."""
    return _rooms().get(unit[:2], unit[3:])


def rooms_out_of_reach(unit: str) -> list[str]:
    """The packages in `helpers` that hold this unit and later ones."""
    return [f"helpers.{name}" for number, name in _rooms().items() if number >= unit[:2] and (HELPERS / name).is_dir()]


@cache
def _rooms() -> dict[str, str]:
    """The rooms by the numbers of their units."""
    syllabus = tomllib.loads((PACKAGES / "solutions" / SYLLABUS).read_text(encoding="utf-8"))
    return {unit[:2]: unit[3:] for unit in sorted(syllabus)}
