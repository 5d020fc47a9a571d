"""Commands import what they need and no more. Counted in modules, not in seconds: the same on every machine."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

HEAVY = {
    "torch",
    "triton",
    "nbgrader",
    "dask",
    "distributed",
    "pandas",
    "IPython",
    "matplotlib",
    "sqlalchemy",
    "nbconvert",
    "babel",
    "rfc3987_syntax",
}


BUILD = {"nbgrader", "nbconvert", "sqlalchemy", "torch", "triton"}


def heavy_after(*lines: str) -> set[str]:
    """The heavy packages that a fresh process has in memory after these lines."""
    code = "\n".join(
        [*lines, "import json, sys", "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"]
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return HEAVY & set(json.loads(done.stdout.splitlines()[-1]))


def of_command(*arguments: str) -> set[str]:
    """The same, after an `attn` command."""
    return heavy_after(
        "from typer.testing import CliRunner",
        "from autograder.cli import app",
        f"done = CliRunner().invoke(app, {list(arguments)!r})",
        "assert done.exit_code in (0, 2), done.output",
    )


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("autograder.cli", set()),
        ("autograder.cli.tables", set()),
        ("autograder.doctor", set()),
        ("autograder.course.lint", set()),
        ("autograder.course.build", set()),
        ("autograder.course.exercises", set()),
        ("autograder.course.visibility", set()),
        ("autograder.judge.sandbox.bubblewrap", set()),  # its keeper is a process of its own for every kernel
        ("autograder.grading.intake", {"nbconvert"}),
        ("autograder.grading.mark", {"nbconvert"}),
        ("autograder.lms.collect", {"nbconvert"}),
        ("autograder.lms.filenames", set()),
        ("autograder.grading.nbgrader_hook", {"nbgrader", "nbconvert", "sqlalchemy"}),
    ],
)
def test_a_module_brings_no_more_along(module, needs):
    assert heavy_after(f"import {module}") == needs


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (["--help"], set()),
        (["grade", "--help"], set()),
        (["collect", "--help"], set()),
        (["collect"], set()),
        (["export", "--help"], set()),
        (["lint", "no-such-unit"], set()),
        (["lint", "00"], {"torch", "triton"}),  # lint looks at the checks
        (["doctor"], {"torch", "triton"}),  # it tries whether kernels are watched
        (["build", "--check", "00"], BUILD),  # the release is nbgrader's own, its pictures `helpers`'
    ],
)
def test_a_command_brings_no_more_along(arguments, needs):
    assert of_command(*arguments) <= needs


def test_marking_a_notebook_needs_neither_nbgrader_nor_dask():
    released = "notebooks/00_start_here/00_start_here.ipynb"
    assert of_command("mark", released) <= {"nbconvert"}
