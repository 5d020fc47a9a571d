"""What may not be the submission's own doing is judged once more, with nothing left of the first time."""

import socket
from threading import Timer

import pytest
from nbformat.v4 import new_code_cell
from test_submission import LIMITS, UNIT, cell, scores

from autograder.grading import judge_notebook as judging
from autograder.grading.judge_notebook import judge_notebook
from autograder.judge import submission
from autograder.judge.judge import Limits
from autograder.judge.kernel import Kernel
from autograder.judge.machine_shortage import MachineShortage


@pytest.mark.parametrize("asked", ["run", "test", "fork"])
def test_a_kernel_that_somebody_else_ends_costs_no_points(monkeypatch, kernels, notebook, asked):
    """The student's while a cell runs, the judge's while a test does, the student's fork while it answers: the first of
    them, once."""
    tell, ended = Kernel.tell, []

    def end_the_first(kernel, message, *descriptors):
        tell(kernel, message, *descriptors)
        if message.get("ask") == asked and not ended:
            ended.append(kernel)
            Timer(0.3 if asked == "fork" else 0.0, kernel.leash.shutdown, [socket.SHUT_WR]).start()

    monkeypatch.setattr(Kernel, "tell", end_the_first)
    answer = cell(notebook, "softmax")
    answer.source = f"import time\ntime.sleep(1)\ncalls = []\n{answer.source}".replace(
        "    e =", "    calls or time.sleep(1)\n    calls.append(1)\n    e ="
    )
    assert judge_notebook(notebook, UNIT, LIMITS, kernels) == []
    assert ended and scores(notebook) == [2, 3, 1]


@pytest.fixture
def attempts(monkeypatch):
    """The attempts that were begun, as they are begun."""
    begun, attempt = [], judging.judge_attempt
    monkeypatch.setattr(judging, "judge_attempt", lambda *wanted: begun.append(wanted[-1]) or attempt(*wanted))
    return begun


KEEPS_A_FILE = """
import os
class KernelDied(Exception): pass
def softmax(x, dim):
    if not os.path.exists("/tmp/work/seen"):
        open("/tmp/work/seen", "w").close()
        {}
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)"""


@pytest.mark.parametrize(("ends", "begun"), [
    ("raise KernelDied('KernelDied')", [0]), ("os._exit(1)", [0, 1]),
], ids=["the word", "the process"])  # fmt: skip # a drawn table
def test_an_attempt_finds_nothing_of_the_one_before_and_no_word_buys_one(kernels, notebook, attempts, ends, begun):
    cell(notebook, "softmax").source = KEEPS_A_FILE.format(ends)
    doubts = judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook)[0] < 2 and attempts == begun and len(doubts) == len(begun) - 1


def test_each_attempt_draws_inputs_of_its_own(kernels, notebook, monkeypatch):
    cell(notebook, "softmax_test").source = "import os\nos.environ['ATTENTION_COURSE_SEED']"
    shown = []
    for attempt in judging.ATTEMPTS:
        judging.judge_attempt(notebook, UNIT, LIMITS, kernels, None, attempt)
        shown += [output.data["text/plain"] for output in cell(notebook, "softmax_test").outputs if "data" in output]
    assert len(set(shown)) == len(judging.ATTEMPTS)


@pytest.mark.parametrize(("source", "begun"), [
    ("import time\ntime.sleep(1e6)", [0, 1]), ("while True: pass", [0]), ("import os\nos._exit(3)", [0]),
    ("import ctypes\nctypes.string_at(0)", [0]), ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", [0, 1]),
    ("raise ValueError", [0]),
], ids=["sleeps", "computes", "exits", "crashes", "is killed", "fails"])  # fmt: skip # a drawn table
def test_only_what_the_submission_need_not_have_done_is_tried_again(
    kernels, notebook, attempts, monkeypatch, source, begun
):
    """And only that is in doubt after the last attempt. What sleeps for ever ends all the same."""
    monkeypatch.setattr(submission, "wall_limit", lambda seconds: seconds + 1.0)
    notebook.cells.append(new_code_cell(source))
    doubts = judge_notebook(notebook, UNIT, Limits(cell_seconds=1, notebook_seconds=100), kernels)
    assert scores(notebook) == [2, 3, 1] and attempts == begun and bool(doubts) == (begun == [0, 1])


def test_a_cell_that_fails_while_the_machine_lacks_something_is_tried_again(kernels, notebook, attempts, monkeypatch):
    lacks = iter(["the machine had no pseudo-terminals left"])
    monkeypatch.setattr(MachineShortage, "found", lambda shortage: next(lacks, ""))
    cell(notebook, "softmax").source += "\nraise OSError"
    assert judge_notebook(notebook, UNIT, LIMITS, kernels) == [] and attempts == [0, 1]


def test_a_notebook_that_had_no_time_is_in_doubt_unless_it_computed(kernels, notebook, monkeypatch):
    monkeypatch.setattr(submission, "wall_limit", lambda seconds: 0.0 if seconds == 20 else 30.0)
    assert judge_notebook(notebook, UNIT, Limits(notebook_seconds=20), kernels) != []
    notebook.cells.insert(
        0, new_code_cell("import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass")
    )
    assert judge_notebook(notebook, UNIT, Limits(notebook_seconds=1), kernels) == []
    assert scores(notebook) == [0, 0, 0]
