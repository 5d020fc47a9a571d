"""A verdict that may not be the submission's own doing is tried again, given, and never kept."""

import shutil

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.grading import execute, grade, gradebook_writer, worker_tasks
from autograder.grading.result_cache import Store
from helpers.engine.mime import MIME

WHY = "a cell waited for a processor"


class Judge:
    """In the place of the judge. `says`: for each attempt, whether there is a doubt, and the share of the points."""

    def __init__(self, monkeypatch):
        self.says: list[tuple[bool, float]] = []
        self.order: list[tuple[str, int]] = []
        monkeypatch.setattr(worker_tasks, "judge_text", self)
        monkeypatch.setattr(worker_tasks, "warm_up", lambda *_: None)

    def __call__(self, text, unit, limits, attempt):
        student = "bea" if "# bea" in text else "ada"
        self.order.append((student, attempt))
        doubt, share = self.says.pop(0) if student == "bea" else (False, 1.0)
        said = {"grader": grade.grader_version()}
        if doubt and attempt == 0:
            return said | {"again": WHY}
        notebook = fill(notebooks.parse(text), share)
        doubts = [WHY] if doubt else []
        return said | {"notebook": notebooks.to_text(notebook), "doubts": doubts, "parts": {}, "cells": {}}


def fill(notebook, share: float):
    for cell in notebooks.tests(notebook):
        score = notebooks.points(cell) * share
        data = {"text/plain": repr(score), MIME: {"score": score, "message": "", "diagnosis": None}}
        cell.outputs = [notebooks.nbformat.v4.new_output("execute_result", data=data)]
    return notebook


@pytest.fixture
def judge(monkeypatch):
    return Judge(monkeypatch)


@pytest.fixture
def handed_in(course):
    """bea's is read before ada's."""
    right = right_answers(course)
    hand_in(course, "bea", right | {"attend": right["attend"] + "\n# bea"})
    hand_in(course, "cem", right)
    return course


def _grade(course):
    return grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))


def _score(course, student="bea") -> float:
    return gradebook_writer.scores(course, UNIT)[student]["code_score"]


def _notes(outcome) -> str:
    return " ".join(line for lines in outcome.notes.values() for line in lines)


def test_a_doubt_is_tried_again_when_all_others_are_done_and_the_second_verdict_is_kept(handed_in, judge):
    judge.says = [(True, 0.0), (False, 1.0)]
    outcome = _grade(handed_in)
    assert judge.order == [("bea", 0), ("ada", 0), ("bea", 1)]
    assert _score(handed_in) == 6 and outcome.judged == 2 and not _notes(outcome)
    assert _grade(handed_in).judged == 0


def test_what_is_in_doubt_twice_is_given_named_and_judged_anew_by_the_next_run(handed_in, judge):
    judge.says = [(True, 0.0), (True, 0.5), (False, 1.0)]
    outcome = _grade(handed_in)
    assert _score(handed_in) == 3 and _score(handed_in, "cem") == 6 and WHY in _notes(outcome)
    assert len(list(handed_in.results.glob("??/*.json"))) == 1, "of the other one alone"
    outcome = _grade(handed_in)
    assert _score(handed_in) == 6 and outcome.judged == outcome.recorded == 1 and not _notes(outcome)
    assert _grade(handed_in).recorded == 0


def test_nbgraders_own_command_keeps_none_either(handed_in, judge, monkeypatch):
    """And `attn grade` takes nothing from what it recorded."""
    judge.says = [(False, 1.0)]
    _grade(handed_in)
    shutil.rmtree(handed_in.results)
    monkeypatch.setattr(execute, "judge_notebook", lambda notebook, *_: fill(notebook, 0.0) and [WHY])
    nbgrader_steps.autograde(handed_in, "bea", UNIT)
    assert _score(handed_in) == 0 and not list(handed_in.results.glob("??/*.json"))
    judge.says = [(False, 1.0)]
    _grade(handed_in)
    assert _score(handed_in) == 6


def test_a_result_that_is_lent_is_there_until_it_is_forgotten(course, tmp_path):
    store, notebook = Store(tmp_path / "store"), fill(notebooks.read(course.released(UNIT)), 1.0)
    store.lend("name", notebook)
    assert "name" not in store and not store.folder.exists() and store.apply("name", notebook)
    assert [one.score for one in Store(store.folder).results("name")] == [2, 3, 1]
    store.forget("name")
    assert not store.apply("name", notebook)
