"""Limits of wall time: what has come counts, and time in which the grader was stopped doesn't."""

import os
import signal
import socket
import subprocess
import sys
import time
from threading import Thread

import pytest

from autograder.judge import wall_time
from autograder.judge.protocol import HEADER, Packer, ReplyTimeout, Wire, read
from autograder.judge.wall_time import GAP, MOST_PATIENCE, Deadline

FRAME = Packer().frame({"done": "ok"})


@pytest.fixture
def wires():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Wire(ours), theirs


@pytest.mark.parametrize("cut", [1, HEADER.size - 1, HEADER.size, HEADER.size + 1, len(FRAME) - 1])
def test_a_frame_half_read_is_kept_and_finished(wires, cut):
    wire, theirs = wires
    theirs.send(FRAME[:cut])
    with pytest.raises(ReplyTimeout):
        wire.receive(0.01)
    theirs.send(FRAME[cut:] + FRAME)
    assert [read(wire.receive(1)) for _ in range(2)] == 2 * [{"done": "ok"}]


def test_what_has_come_is_read_though_the_time_is_up(wires):
    wire, theirs = wires
    theirs.send(FRAME)
    assert read(wire.receive(0)) == {"done": "ok"}


def test_nothing_behind_a_frame_is_read_with_it(wires):
    """A descriptor may come there."""
    wire, theirs = wires
    theirs.send(FRAME + b"!")
    wire.receive(1)
    assert wire.sock.recv(10) == b"!"


def test_who_sends_for_ever_is_given_up(wires):
    wire, theirs = wires

    def drip():
        theirs.send(HEADER.pack(1 << 20, 0))
        while theirs.fileno() >= 0:
            try:
                theirs.send(b"x")
            except OSError:
                return
            time.sleep(0.0001)

    Thread(target=drip, daemon=True).start()
    with pytest.raises(ReplyTimeout):
        wire.receive(0.05)
    wire.close()


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def test_of_a_gap_in_its_own_time_a_second_counts(monkeypatch, quiet):
    until, start = Deadline(10.0), time.monotonic()
    monkeypatch.setattr(wall_time.time, "monotonic", lambda: start + 90.0)
    assert 10.0 - 1.1 * GAP < until.left() <= 10.0


def test_a_deadline_is_stretched_by_the_load_of_the_time_that_it_ends(monkeypatch, quiet):
    until = Deadline(10.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    stretched = until.left()
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert [stretched, until.left()] == pytest.approx(2 * [10.0 * MOST_PATIENCE], abs=2)


JUDGES = """
import sys
from pathlib import Path
from autograder import notebooks
from autograder.grading import judge_notebook
from autograder.judge import outputs, submission, wall_time
from autograder.judge.config import Limits
from autograder.judge.kernel import Kernel

tell, said = Kernel.tell, set()
def announced(kernel, message, *descriptors):
    tell(kernel, message, *descriptors)
    if message.get("ask") in ("run", "test") and "honest" in message["source"] and message["ask"] not in said:
        said.add(message["ask"])
        print("stop me", flush=True)
Kernel.tell = announced
wall_time.GAP = 0.5  # the test need not stop it for as long as people do
submission.wall_limit = lambda seconds: seconds + 1.5
notebook = notebooks.read(Path(sys.argv[1]))
doubts = judge_notebook.judge_notebook(notebook, "02_small", Limits(cell_seconds=1, notebook_seconds=200))
print([outputs.read_result(cell).score for cell in notebooks.tests(notebook)], doubts, sorted(said))
"""


def test_a_grader_that_was_stopped_and_goes_on_gives_the_same_scores(course, tmp_path):
    """Ctrl-Z and `fg`, once while a cell runs and once while a test does: the pauses, longer than any limit, take six
    seconds. The kernels aren't stopped: they have answered long ago."""
    from autograder import notebooks
    from autograder.proofs.hostile import solved_by_a_student

    notebook = solved_by_a_student(course)
    for cell in notebook.cells:
        if notebooks.grade_id(cell) in ("softmax", "softmax_test"):
            cell.source = f"# honest\n{cell.source}"
    notebooks.write(notebook, tmp_path / "notebook.ipynb")
    command = [sys.executable, "-c", JUDGES, str(tmp_path / "notebook.ipynb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as judge:
        for _ in range(2):
            assert judge.stdout.readline() == "stop me\n"
            judge.send_signal(signal.SIGSTOP)
            time.sleep(3)
            judge.send_signal(signal.SIGCONT)
        assert judge.stdout.read() == "[2.0, 3.0, 1.0] [] ['run', 'test']\n"
