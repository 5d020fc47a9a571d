"""A file is there whole, or as it was before."""

import os
from datetime import UTC, datetime

import pytest

from autograder.grading import regrade_log
from autograder.grading.regrade_log import Change
from autograder.whole_files import replaced, write_whole


def test_what_breaks_off_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(RuntimeError), replaced(path) as half:
        half.write_text("hal")
        raise RuntimeError
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps: list[str] = []
    for name in ("fsync", "replace"):
        done = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, done=done: (steps.append(name), done(*a))[1])
    write_whole(tmp_path / "file", os.fsdecode(b"stud\xff"))
    assert steps == ["fsync", "replace"] and (tmp_path / "file").read_text() == "stud\\udcff"


def test_half_a_line_of_the_log_costs_that_line_alone(tmp_path):
    path, time = tmp_path / "regrades.csv", datetime(2026, 11, 30, tzinfo=UTC)
    first, second, third = (Change(time, "02_small", name, "softmax", 1.0, 2.0, "why") for name in ("a", "b", "c"))
    regrade_log.add(path, [first, second])
    path.write_bytes(path.read_bytes()[:-12])
    regrade_log.add(path, [third])
    assert regrade_log.read(path) == [first, third]
