"""The checks are tested too: every known wrong answer loses points and is named, on the visible cases already; every right
answer in another style gets all points, on the hidden cases too. `attn prove` shows the same as a table; here over several seeds."""

import importlib
import tomllib

import pytest
from conftest import ROOT

from helpers import check

SOLUTIONS = ROOT / "solutions"
SYLLABUS = tomllib.loads((SOLUTIONS / "syllabus.toml").read_text(encoding="utf-8"))
UNITS = [unit for unit in SYLLABUS if (SOLUTIONS / unit).is_dir()]
EXERCISES = [(unit, name) for unit in UNITS for kind in ("auto", "quiz") for name in SYLLABUS[unit][kind]]
SEEDS = range(2)

every_exercise = pytest.mark.parametrize(("unit", "name"), EXERCISES, ids=[name for _, name in EXERCISES])


def of_unit(package: str, unit: str, name: str):
    return getattr(importlib.import_module(f"autograder.{package}.{unit[3:]}"), name)


@every_exercise
def test_wrong_answers_lose_points_and_are_named(unit, name):
    exercise = getattr(check, name)
    for seed in SEEDS:
        for wrong, answers in exercise.wrong_answers():
            score = exercise(*answers, points=4, seed=seed)
            assert not score.full, f"seed {seed}: «{wrong}» gets all points"
            assert score.diagnosis == wrong, f"seed {seed}: «{wrong}» is taken for «{score.diagnosis}»"


@every_exercise
def test_right_answers_in_other_styles_get_all_points(unit, name):
    exercise, hidden = getattr(check, name), of_unit("hidden", unit, name)
    alternatives = of_unit("alternatives", unit, name)
    assert len(alternatives) >= 2
    for seed in SEEDS:
        for style, answers in alternatives.items():
            score = exercise(
                *(answers if isinstance(answers, tuple) else (answers,)), points=4, cases=hidden, seed=seed
            )
            assert score.full, f"seed {seed}: «{style}»: {score}"


@every_exercise
def test_hints_speak_to_the_student(unit, name):
    parts = getattr(check, name)
    for part in getattr(parts, "parts", {name: parts}).values():
        for misconception in part.misconceptions:
            assert len(misconception.name) < 80 and not misconception.name.endswith("."), misconception.name
            assert misconception.hint.rstrip()[-1] in ".?)", misconception.name
