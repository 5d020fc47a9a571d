"""The sets of versions that `make versions` tries come from the ranges in pyproject.toml, and lost points are seen."""

from conftest import ROOT
from nbformat.v4 import new_output
from packaging.requirements import Requirement

from autograder import notebooks
from autograder.bench import supported_versions
from autograder.course.paths import Course
from helpers.engine.mime import MIME

COURSE = Course(ROOT)


def test_the_sets_are_within_the_ranges():
    oldest = dict(line.split("==") for line in supported_versions.asked(COURSE, "oldest", []))
    assert oldest == supported_versions.ranges(COURSE) and {"torch", "numpy"} <= oldest.keys()
    assert supported_versions.asked(COURSE, "newest", []) == list(oldest)
    for line in map(Requirement, supported_versions.asked(COURSE, "colab", [])):
        for part in line.specifier:
            assert Requirement(f"x>={oldest[line.name]}").specifier.contains(part.version)
    assert "torch==2.13.0+cpu" in supported_versions.asked(COURSE, "oldest", ["torch==2.13.0+cpu"])


def test_points_that_are_lost_are_seen():
    notebook = supported_versions.answered(COURSE, "00_start_here")
    assert all("NotImplementedError" not in cell.source for cell in notebook.cells if notebooks.flag(cell, "solution"))
    tests = list(notebooks.tests(notebook))
    for cell in tests:
        points = notebooks.points(cell)
        cell.outputs = [new_output("execute_result", data={"text/plain": str(points), MIME: {"score": points}})]
    assert supported_versions.lost(notebook) == []
    tests[0].outputs[0].data[MIME]["score"] = 0.5
    tests[1].outputs = []
    assert supported_versions.lost(notebook) == ["pairwise_dot", "weighted_rows"]
