"""`attn new` in a copy of the repository: what it writes is whole, and `attn try` then names the stubs and nothing
else."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

PARTS = ("helpers", "autograder", "solutions", "tests", "README.md", "nbgrader_config.py", "pyproject.toml")
LITTER = shutil.ignore_patterns("__pycache__", "class", ".*")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository as files; its own `helpers` and `autograder` are what the command imports there."""
    folder = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=LITTER)
        else:
            shutil.copy(ROOT / part, folder)
    return folder


def _attn(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    environment.pop("ATTN_COURSE", None)
    script = [sys.executable, "-c", "from autograder.cli import app; app()"]
    done = subprocess.run([*script, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()


def _stubs(folder: Path, name: str) -> set[str]:
    """Every place that is to be filled in, as `file:line`."""
    return {
        f"{path.relative_to(folder)}:{number}"
        for path in folder.rglob("*")
        if path.suffix in (".py", ".md")
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if f"TO FILL IN {name}:" in line
    }


def _named(lines: list[str]) -> set[str]:
    assert all(line.startswith("✗ ") and ": to fill in: " in line for line in lines), lines
    return {line.removeprefix("✗ ").split(": to fill in: ")[0] for line in lines}


def test_a_new_exercise_is_whole_but_for_its_stubs(copy):
    status, lines = _attn(copy, "new", "exercise", "04", "my_slope", "--points", "2")
    assert status == 0 and "wrote helpers/multi_head/my_slope.py" in lines
    before = (copy / "solutions" / "04_multi_head" / "04_multi_head.ipynb").read_bytes()
    status, lines = _attn(copy, "try", "04", "my_slope")
    assert status == 1 and _named(lines) == _stubs(copy, "my_slope") and len(lines) > 10
    assert (copy / "solutions" / "04_multi_head" / "04_multi_head.ipynb").read_bytes() == before


def test_a_package_of_alternatives_gets_a_file(copy):
    status, lines = _attn(copy, "new", "exercise", "08", "MyCache")
    assert status == 0 and "wrote autograder/alternatives/kv_cache/my_cache.py" in lines


def test_a_new_unit_takes_a_first_exercise(copy):
    assert _attn(copy, "new", "unit", "11_small_world")[0] == 0
    layers = tomllib.loads((copy / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    assert layers[:2] == ["helpers.small_world", "helpers.beyond_quadratic"]
    status, lines = _attn(copy, "try", "11")
    assert status == 1 and _named(lines) == _stubs(copy, "small_world") and len(lines) == 4
    assert _attn(copy, "new", "exercise", "11", "hops")[0] == 0
    status, lines = _attn(copy, "try", "11")
    assert status == 1 and _named(lines) == _stubs(copy, "small_world") | _stubs(copy, "hops")


def test_what_is_there_is_never_overwritten(copy):
    files = {path: path.read_bytes() for path in copy.rglob("*.py")}
    for arguments, says in (
        (["exercise", "04", "split_heads"], "04_multi_head has an exercise split_heads already"),
        (["exercise", "04", "softmax"], "softmax is an exercise of 02_qkv_attention already"),
        (["exercise", "04", "induction"], "helpers/multi_head/induction.py exists already"),
        (["exercise", "04", "no-id"], "'no-id' is no id"),
        (["unit", "04_multi_head"], "solutions/04_multi_head/04_multi_head.py exists already"),
        (["unit", "12_masking"], "there is 03_masking already"),
        (["unit", "twelve"], "'twelve' is no unit"),
    ):
        status, lines = _attn(copy, "new", *arguments)
        assert status == 2 and len(lines) == 1 and says in lines[0], lines
    assert {path: path.read_bytes() for path in copy.rglob("*.py")} == files
