"""What else runs, or was asked for, while an answer is called."""

import pytest
from test_submission import LIMITS, UNIT, asked, cell, results, scores

from autograder.grading.judge_notebook import judge_notebook
from autograder.judge.kernel_manager import NAMESPACES, NONE, kernel_manager

SLEEPS = 'subprocess.Popen(["sleep", "98765"])'
STARTS = {
    "a process": SLEEPS,
    "an orphan": 'subprocess.run("setsid sleep 98765 &", shell=True)',
    "before every fork": f"os.register_at_fork(before=lambda: {SLEEPS})",
    "in every fork": f"os.register_at_fork(after_in_child=lambda: {SLEEPS})",
}
SLEEPING = """
import os, subprocess
{}
def softmax(*_):
    return subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True).stdout.count(b"98765")"""


@pytest.mark.parametrize("sandbox", [NAMESPACES, NONE])
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_what_cells_have_started_is_gone_when_an_answer_is_called(notebook, start, sandbox):
    kernels = kernel_manager(sandbox)
    assert asked(kernels, notebook, SLEEPING.format(start), "softmax(1)") == "0"


def test_a_thread_of_the_kernel_does_nothing_while_its_fork_answers(kernels, notebook):
    answer = """
import mmap, threading, time
shared = mmap.mmap(-1, 1)
def beat():
    while True: shared[0] = (shared[0] + 1) % 256; time.sleep(0.001)
threading.Thread(target=beat, daemon=True).start()
def softmax():
    before = shared[0]
    time.sleep(0.3)
    return shared[0] - before"""
    assert asked(kernels, notebook, answer, "softmax()") == "0"


STOPS_AT_THE_SECOND = """
calls = []
def softmax(x, dim):
    calls.append(1)
    if len(calls) == 2: raise NotImplementedError
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)"""


def test_answers_that_were_asked_ahead_and_are_not_wanted_disturb_nothing_after_them(kernels, notebook):
    """A check that ends in the middle of a round leaves answers unheard."""
    cell(notebook, "softmax").source = STOPS_AT_THE_SECOND
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [0, 3, 1] and results(notebook)["softmax"].diagnosis == "not attempted"


def test_a_function_that_calls_back_while_more_is_asked_ahead_gets_its_answers(kernels, notebook):
    answer = "def softmax(f): return f(torch.ones(2)) + 1"
    question = """
from helpers.engine.observe import ask_ahead, observe
def half(x): return softmax(lambda y: y / 2) - 1 if x.sum() > 9 else x / 2
calls = [((lambda x, n=n: x * n,), {}) for n in range(3)]
ask_ahead(softmax, calls)
seen = [observe(softmax, args).output.tolist() for args, _ in calls]
seen, softmax(half).tolist()"""
    assert asked(kernels, notebook, answer, question) == "([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [1.5, 1.5])"


def test_what_is_asked_ahead_and_then_otherwise_is_asked_anew(kernels, notebook):
    answer = "def softmax(x): return x * 2"
    question = """
from helpers.engine.observe import ask_ahead, observe
ask_ahead(softmax, [((torch.full((), n),), {}) for n in range(3)])
[softmax(torch.tensor(9)).item(), observe(softmax, (torch.tensor(4),)).output.item()]"""
    assert asked(kernels, notebook, answer, question) == "[18, 8]"


def test_a_call_in_the_middle_of_a_round_that_ends_its_process_costs_its_own_exercise(kernels, notebook):
    cell(notebook, "softmax").source = STOPS_AT_THE_SECOND.replace(
        "raise NotImplementedError", "import os; os._exit(1)"
    )
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook)[0] < 2 and scores(notebook)[1:] == [3, 1]
