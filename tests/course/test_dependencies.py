"""What a unit's scores depend on: a fix in one unit asks for grading anew where it can matter, and nowhere else."""

import ast
from functools import cache

import pytest
from conftest import ROOT

from autograder import notebooks
from autograder.course import dependencies
from autograder.course.paths import PACKAGES, Course
from autograder.grading import result_cache

UNITS = Course(ROOT).units()


@pytest.mark.parametrize(
    ("file", "touched"),
    [
        ("helpers/flash_attention/checks/causal_tiles.py", {"09"}),
        ("helpers/qkv_attention/checks/softmax.py", {"02"}),
        ("helpers/qkv_attention/checks/softmax.md", {"02"}),
        ("helpers/engine/answers/mask.md", {unit[:2] for unit in UNITS}),
        ("autograder/hidden/masking.py", {"03"}),
        ("helpers/qkv_attention/attention.py", {"02", "04", "05", "06"}),
        ("helpers/transformer_lm/story_teller.py", {"05", "08"}),
        ("helpers/qkv_attention/plots/attention.py", set()),
        ("helpers/engine/check.py", {unit[:2] for unit in UNITS}),
        ("autograder/judge/submission.py", {unit[:2] for unit in UNITS}),
    ],
)
def test_which_units_a_change_touches(file, touched):
    assert (PACKAGES / file).is_file()
    assert {unit[:2] for unit in UNITS if PACKAGES / file in _decide(unit)} == touched


@cache
def _decide(unit: str) -> set:
    imported = result_cache._imports(notebooks.read(Course(ROOT).solved(unit)))
    return {*dependencies.score_dependencies(unit, imported), *result_cache._sources(result_cache.GRADER)}


def test_only_folders_below_helpers_tell_a_picture(monkeypatch, tmp_path):
    helpers = tmp_path / "plots" / "course" / "helpers"
    monkeypatch.setattr(dependencies.visibility, "HELPERS", helpers)
    assert dependencies.is_picture(helpers / "room" / "plots" / "a.py") and not dependencies.is_picture(
        helpers / "room" / "a.py"
    )


def test_the_version_of_a_unit_changes_with_its_files(monkeypatch):
    before = result_cache.unit_version("02_qkv_attention")
    result_cache.unit_version.cache_clear()
    assert result_cache.unit_version("02_qkv_attention") == before != result_cache.unit_version("03_masking")
    result_cache.unit_version.cache_clear()
    monkeypatch.setattr(result_cache.dependencies, "score_dependencies", lambda *_: ())
    assert result_cache.unit_version("02_qkv_attention") != before
    result_cache.unit_version.cache_clear()


def test_imports_of_every_kind_are_followed():
    code = (
        "import helpers.masking.masks\nfrom helpers.masking import copying as c\nfrom helpers import check\n"
        "import torch"
    )
    found = {path.relative_to(PACKAGES).as_posix() for path in dependencies.imported(ast.parse(code))}
    assert {
        "helpers/masking/masks.py",
        "helpers/masking/copying.py",
        "helpers/check.py",
        "helpers/__init__.py",
    } <= found
    inside = PACKAGES / "helpers" / "masking" / "checks" / "masks.py"
    found = {
        path.relative_to(PACKAGES).as_posix()
        for path in dependencies.imported(ast.parse("from .. import masks\nfrom . import leaks_future"), inside)
    }
    assert {"helpers/masking/masks.py", "helpers/masking/checks/leaks_future.py"} <= found
