"""`attn prove --against`: every card that another commit makes otherwise is named; an unknown commit is one line."""

import pytest
from conftest import ROOT

from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.proofs import compare_commits
from autograder.proofs.compare_commits import differences

BEFORE = {
    "02_small": {"softmax": {"wrong: none (seed 1)": "<p>0</p>", "wrong: gone (seed 1)": "<p>0</p>"}, "attend": {}}
}
NOW = {"02_small": {"softmax": {"wrong: none (seed 1)": "<p>1</p>", "right: a loop (seed 1)": "<p>2</p>"}}}


def test_what_differs_is_named(monkeypatch):
    monkeypatch.setattr(compare_commits, "_git", lambda *words: "abc")
    monkeypatch.setattr(compare_commits, "_of_commit", lambda *how: BEFORE)
    monkeypatch.setattr(compare_commits, "_of_tree", lambda *how: NOW)
    found = differences(Course(ROOT), "HEAD", ["02_small"], None, False)
    assert [line.split("\n")[0] for line in found] == [
        "softmax: only before: wrong: gone (seed 1)",
        "softmax: only now: right: a loop (seed 1)",
        "softmax: differs: wrong: none (seed 1)",
    ]
    assert found[-1].split("\n")[1:] == ["    -0</p>", "    +1</p>"]
    assert differences(Course(ROOT), "HEAD", ["02_small"], "attend", False) == []


def test_a_commit_that_there_is_not():
    with pytest.raises(CourseError, match="git rev-parse: "):
        differences(Course(ROOT), "no-such-commit", [], None, False)
