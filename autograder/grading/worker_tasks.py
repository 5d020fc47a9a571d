"""What a worker does: judge a notebook, render a page, get ready for both. Text and plain values in and out, for they
travel between machines; nothing here knows a course folder."""

import time
from collections.abc import Mapping
from typing import Any

from autograder import limited_process, notebooks
from autograder.grading import feedback
from autograder.grading.result_cache import grader_version
from autograder.judge.config import BUBBLEWRAP, Limits
from autograder.judge.fork_server_client import start_ahead

MANY = 8  # submissions of a unit, for which it pays to find out beforehand what is the same for all of them
PAGE_SECONDS = 30.0  # of processor time for one feedback page; a tenth is usual


def judge_text(text: str, unit: str, limits: Limits, attempt: int = 0) -> dict[str, Any]:
    """{"grader": see `grader_version`; "notebook": its text, with outputs; "doubts": why this may not be the
    submission's own doing; "parts" and "cells": see Clock}. Where there has to be another attempt, only the first and
    "again": why."""
    from autograder.grading import judge_notebook
    from autograder.judge.judge import InDoubt
    from autograder.judge.timings import Clock

    clock, notebook = Clock(), notebooks.parse(text)
    try:
        doubts = judge_notebook.judge_attempt(notebook, unit, limits, None, clock, attempt)
    except InDoubt as reason:
        return {"grader": grader_version(), "again": str(reason)}
    spent = {"parts": dict(clock.parts), "cells": dict(clock.cells)}
    return {"grader": grader_version(), "notebook": notebooks.to_text(notebook), "doubts": doubts, **spent}


def render_text(text: str, grades: Mapping[str, Any]) -> dict[str, Any]:
    """{"page": HTML, "problem": why there is none, "seconds": that it took}, by a process with limits."""
    start, page, problem = time.perf_counter(), "", ""
    try:
        page = limited_process.call(feedback.render, text, dict(grades), seconds=PAGE_SECONDS)
    except (limited_process.LimitExceeded, limited_process.CallFailed) as reason:
        problem = str(reason)
    return {"page": page, "problem": problem, "seconds": time.perf_counter() - start}


def warm_up(units: Mapping[str, int], originals: list[str], limits: Limits) -> None:
    """Has ready what the first notebook of each unit would have to wait for. units: how many were handed in of each;
    originals: the text of their solution notebooks."""
    if limits.sandbox != BUBBLEWRAP:
        start_ahead()
    from autograder.course.visibility import judge_config
    from autograder.grading import judge_notebook
    from autograder.judge.kernel_manager import kernel_manager

    for (unit, count), original in zip(units.items(), originals, strict=True):
        kernel_manager(limits.sandbox).prepare(judge_config(unit), limits.seed if count >= MANY else None)
        limited_process.remember(feedback.remember, original)
    judge_notebook.prepare()
    for unit in units:  # the warm processes have imported by now what they were told to above
        judge_notebook.static_rules(unit, limits, kernel_manager(limits.sandbox))
