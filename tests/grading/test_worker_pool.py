"""Threads and Dask's workers: what is done at a time and in which order, workers that are ended from outside, work that
ends its worker, and who can reach the ports."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.errors import CourseError
from autograder.grading import worker_pool
from autograder.judge.sandbox.walls import SandboxError


def _pid(number: int) -> int:
    return os.getpid()


def _ends_once(marker: str) -> str:
    """Ends its worker at the first try."""
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def _ends_always(marker: str) -> None:
    with open(marker, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def _raises(number: int) -> None:
    raise ValueError("two\nlines")


def _waits_for(path: str) -> None:
    _until(lambda: os.path.exists(path))


def _until(true: Callable) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def _outcomes(workers, *tasks) -> dict:
    found = {}
    for name, function, argument in tasks:
        workers.submit(name, function, argument)
    for name, result in workers.results():
        try:
            found[name] = result()
        except worker_pool.TaskFailed as error:
            found[name] = str(error)
    return found


def test_a_task_whose_worker_ended_is_tried_again_and_one_that_ends_two_is_set_apart(tmp_path):
    once, always = str(tmp_path / "once"), str(tmp_path / "always")
    tasks = [("once", _ends_once, once), ("always", _ends_always, always), ("error", _raises, 1)]
    with worker_pool.worker_pool(2, worker_pool.LOCAL) as workers:
        found = _outcomes(workers, *tasks, *((number, _pid, number) for number in range(8)))
    assert found["once"] == "done" and all(isinstance(found[number], int) for number in range(8))
    assert found["always"] == "set apart: the process that judged it was ended twice while it did"
    assert Path(always).read_text() == "xx"
    assert found["error"] == "ValueError: two lines"


def test_nobody_beyond_this_machine_can_reach_a_port_and_nothing_is_printed(capfd):
    with worker_pool.worker_pool(2, worker_pool.LOCAL) as workers:
        pids = set(_outcomes(workers, *((number, _pid, number) for number in range(6))).values())
        listening = [address for pid in (*pids, os.getpid()) for address in _listening(pid)]
    assert listening and {address.split(":")[0] for address in listening} == {"0100007F"}
    assert capfd.readouterr() == ("", "")


def _listening(pid: int) -> list[str]:
    """Local addresses, in hexadecimal, on which a process listens."""
    inodes = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def test_threads_work_side_by_side_after_the_warm_up():
    said, both = [], threading.Barrier(2, timeout=60)
    with worker_pool.worker_pool(2, warm_up=(said.append, "warm")) as workers:
        for name in "ab":
            workers.submit(name, lambda name=name: (both.wait(), said.append(name), name)[-1])
        assert {name: result() for name, result in workers.results()} == {"a": "a", "b": "b"}
    assert said[0] == "warm" and sorted(said[1:]) == ["a", "b"]
    assert list(workers.results()) == []


def test_a_warm_up_that_fails_costs_nothing():
    with worker_pool.worker_pool(1, warm_up=(_raises, 1)) as workers:
        assert _outcomes(workers, ("x", str, 1)) == {"x": "1"}


def test_the_longest_is_done_first_of_what_waits_and_what_comes_meanwhile():
    done, told = [], threading.Event()
    with worker_pool.worker_pool(1, warm_up=(told.wait, 60)) as workers:
        workers.begin()
        for name, cost in {"c": 1, "a": 3, "b": 2}.items():
            workers.submit(name, done.append, name, cost=cost)
        told.set()
        for name, _ in workers.results():
            if name == "c":
                workers.submit("page", done.append, "page", cost=math.inf)
    assert done == ["a", "b", "c", "page"]


def test_a_task_is_begun_before_anybody_asks_for_results():
    begun = threading.Event()
    with worker_pool.worker_pool(1) as workers:
        workers.begin()
        workers.submit("x", begun.set)
        assert begun.wait(60)


def test_what_waits_is_not_begun_when_a_run_ends():
    done, started, end = [], threading.Event(), threading.Event()
    with worker_pool.worker_pool(1) as workers:
        workers.begin()
        workers.submit("first", lambda: (started.set(), end.wait(60)))
        started.wait(60)
        workers.submit("second", done.append, "second")
    end.set()
    workers.threads[0].join(60)
    assert done == [] and not workers.threads[0].is_alive()


def test_only_a_few_results_wait_and_the_rest_is_begun_as_they_are_taken():
    begun, most = [], worker_pool.AHEAD * 2
    with worker_pool.worker_pool(2) as workers:
        workers.begin()
        for number in range(3 * most):
            workers.submit(number, begun.append, number)
        _until(lambda: len(begun) == most)
        time.sleep(0.2)
        assert len(begun) == most
        assert len(list(workers.results())) == len(begun) == 3 * most


def test_threads_end_with_the_run_however_many_results_wait():
    with worker_pool.worker_pool(2) as workers:
        workers.begin()
        for number in range(100):
            workers.submit(number, str, number)
        _until(lambda: workers.done.qsize() == worker_pool.AHEAD * 2)
    for thread in workers.threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("scheduler", [None, worker_pool.LOCAL])
def test_what_is_ready_is_given_without_waiting_and_the_rest_later(scheduler, tmp_path):
    end = tmp_path / "end"
    with worker_pool.worker_pool(1, scheduler) as workers:
        assert list(workers.ready()) == []
        workers.begin()
        workers.submit("quick", str, 1, cost=1)
        workers.submit("slow", _waits_for, str(end))
        found = []
        _until(lambda: found.extend(workers.ready()) or found)
        assert [(name, result()) for name, result in found] == [("quick", "1")]
        assert list(workers.ready()) == []
        end.touch()
        assert [name for name, _ in workers.results()] == ["slow"]


def test_here_all_is_ready():
    place = worker_pool.SerialWorkers()
    place.submit("x", str, 1)
    assert [(name, result()) for name, result in place.ready()] == [("x", "1")]


def test_what_was_lost_before_all_is_handed_in_is_tried_again(tmp_path):
    with worker_pool.worker_pool(1, worker_pool.LOCAL) as workers:
        workers.begin()
        workers.submit("once", _ends_once, str(tmp_path / "once"))
        _until(lambda: list(workers.ready()) or workers.lost)
        assert {name: result() for name, result in workers.results()} == {"once": "done"}


@pytest.mark.parametrize("scheduler", ["here", None, worker_pool.LOCAL])
def test_a_later_argument_is_made_when_its_task_is_begun(scheduler):
    made = []
    with worker_pool.worker_pool(1, None if scheduler == "here" else scheduler) as workers:
        place = worker_pool.SerialWorkers() if scheduler == "here" else workers
        place.submit("x", str, worker_pool.LazyArgument(lambda text: made.append(text) or text, "text"))
        place.submit("y", str, worker_pool.LazyArgument(_raises, 1))
        assert made == []
        found = dict(place.results())
        assert found["x"]() == "text" and made == ["text"]
        with pytest.raises(worker_pool.TaskFailed, match="ValueError: two lines"):
            found["y"]()


@pytest.mark.parametrize("place", [worker_pool.SerialWorkers(), worker_pool.ThreadWorkers(2, (str,))])
def test_a_failure_here_is_one_line(place):
    place.submit("x", _raises, 1)
    ((_, result),) = place.results()
    with pytest.raises(worker_pool.TaskFailed, match="ValueError: two lines"):
        result()


def test_a_failure_that_does_not_come_again_costs_nothing():
    tries = iter([1, 0])
    with worker_pool.worker_pool(1) as workers:
        assert _outcomes(workers, ("x", lambda one: one / (1 - next(tries)), 5)) == {"x": 5.0}


def test_where_nothing_can_be_judged_the_reason_comes_back_as_it_is():
    with worker_pool.worker_pool(1) as workers:
        workers.submit("x", _no_sandbox)
        ((_, result),) = workers.results()
        with pytest.raises(SandboxError, match="no sandbox here"):
            result()


def _no_sandbox() -> None:
    raise SandboxError("no sandbox here")


def test_a_dashboard_without_bokeh_is_one_line(monkeypatch):
    monkeypatch.setattr(worker_pool, "find_spec", lambda name: None)
    with pytest.raises(CourseError, match="pip install bokeh"), worker_pool.worker_pool(2, dashboard=True):
        pass
