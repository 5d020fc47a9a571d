"""What kernels see of the course while a unit is graded: a student's neither the checks, nor the rooms of this unit and
of later ones (a unit may lean on what earlier ones taught); the judge's the hidden cases beside all that."""

import re
import tomllib
from functools import cache
from pathlib import Path

from autograder.course.paths import PACKAGES, SYLLABUS
from autograder.judge.config import JudgeConfig

HELPERS = PACKAGES / "helpers"
ANSWERS = "helpers.engine.answers"
"""What answers are made of, outside of the rooms."""
TWINS = {
    "02": ("helpers.parallelization.parallel", "helpers.parallelization.plots.recurrence", "helpers.start_here.shapes")
}
"""Modules of earlier rooms with a function that is an answer to a later unit, by its number: `attn prove --twins` finds
them."""
OFFERS = re.compile(r"^__all__ = \[", re.MULTILINE)
COMPANIONS = ("hidden", "alternatives")  # folders of `autograder` with a file or a package for every unit


@cache
def judge_config(unit: str) -> JudgeConfig:
    """What is within reach while this unit is graded."""
    places = [PACKAGES / name.replace(".", "/") for name in out_of_reach(unit)]
    closed = [place if place.is_dir() else place.with_suffix(".py") for place in places]
    hidden = [*HELPERS.glob("*/checks"), *closed, PACKAGES / "autograder", PACKAGES / "solutions"]
    return JudgeConfig(
        unit=unit,
        shown=(str(HELPERS),),
        hidden=tuple(sorted(map(str, hidden))),
        tests=(str(PACKAGES / "autograder" / "hidden"),),
        quiet=("helpers.check", "helpers.plots"),
        out_of_reach=tuple(out_of_reach(unit)),
        preload=("helpers", *_compiler(unit)),
        checks=("helpers.check", *checks_of(unit), f"autograder.hidden.{room(unit)}", *_compiler(unit)),
    )


def _compiler(unit: str) -> tuple[str, ...]:
    """PyTorch's compiler, where the unit trains: an optimiser imports it, which takes more than a second."""
    files = (HELPERS / room(unit)).rglob("*.py")
    return ("torch._dynamo",) if any("torch.optim" in file.read_text(encoding="utf-8") for file in files) else ()


def checks_of(unit: str) -> list[str]:
    """The modules with the unit's checks: those that offer something (helpers/registry.py would import PyTorch)."""
    files = sorted((HELPERS / room(unit) / "checks").glob("*.py"))
    return [
        f"helpers.{room(unit)}.checks.{file.stem}" for file in files if OFFERS.search(file.read_text(encoding="utf-8"))
    ]


def room(unit: str) -> str:
    """The name that a unit's folder in `helpers`, hidden cases, alternatives and tests share: `qkv_attention`."""
    return _rooms().get(unit[:2], unit[3:])


def out_of_reach(unit: str) -> list[str]:
    """What in `helpers` holds answers: what they are made of, the rooms of this unit and later ones, and twins."""
    rooms = [name for number, name in _rooms().items() if number >= unit[:2] and (HELPERS / name).is_dir()]
    return [ANSWERS, *(f"helpers.{name}" for name in rooms), *TWINS.get(unit[:2], ())]


def room_files(unit: str) -> list[Path]:
    """The files of text that belong to a unit alone: its room, its hidden cases, its alternatives and its tests."""
    name = room(unit)
    own = [path for path in (HELPERS / name).rglob("*") if path.suffix in (".py", ".md")]
    tests = (PACKAGES / "tests" / "units").glob(f"test_{name}*.py")
    return [*sorted(own), *sorted(tests), *(path for kind in COMPANIONS for path in companion_files(kind, unit))]


def companion_files(kind: str, unit: str) -> list[Path]:
    """A unit's files in a folder of `autograder`: one, or a package with one for each exercise."""
    folder = PACKAGES / "autograder" / kind
    return [*folder.glob(f"{room(unit)}.py"), *sorted(folder.glob(f"{room(unit)}/*.py"))]


def companion(kind: str, unit: str, exercise: str) -> str:
    """The module in a folder of `autograder` with what belongs to an exercise: its unit's, or its own in a package."""
    own = (PACKAGES / "autograder" / kind / room(unit) / "__init__.py").is_file()
    return f"autograder.{kind}.{room(unit)}" + f".{file_of(exercise)}" * own


def file_of(exercise: str) -> str:
    """The name of the files of an exercise: `decoder_lm` of DecoderLM."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", exercise).lower()


def syllabus_ids() -> list[str]:
    """The ids of all exercises of the course, those of units that aren't written yet too."""
    return [name for table in _syllabus().values() for kind in ("auto", "quiz", "written") for name in table[kind]]


def _rooms() -> dict[str, str]:
    """The rooms by the numbers of their units."""
    return {unit[:2]: unit[3:] for unit in sorted(_syllabus())}


@cache
def _syllabus() -> dict[str, dict]:
    """As the course has it; where only the wheel is installed, as the wheel brought it along."""
    places = PACKAGES / "solutions" / SYLLABUS, PACKAGES / "autograder" / SYLLABUS
    return tomllib.loads(next(filter(Path.is_file, places)).read_text(encoding="utf-8"))
