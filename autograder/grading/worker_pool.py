"""Many notebooks judged, and pages rendered, side by side: by threads of this process, or by workers of a Dask cluster
(processes on this machine, a scheduler at an address, or SLURM).

Who does a task never sees the gradebook or the store: text goes in, text comes back. On one machine threads are enough,
for they only talk to the kernels, which all come from one warm process. However many tasks wait, and however slowly
results are taken, only a few texts lie in memory. A task whose Dask worker is ended from outside is tried again; one
that takes two workers with it is set apart."""

import shutil
import signal
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from importlib.util import find_spec
from itertools import count
from math import inf
from multiprocessing import resource_tracker
from queue import Empty, PriorityQueue, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any

from autograder import locked_ast
from autograder.errors import CourseError
from autograder.grading.result_cache import grader_version
from autograder.judge.sandbox.walls import SandboxError

SECONDS_TO_ANSWER = 60
SECONDS_IN_A_QUEUE = 24 * 3600  # in which SLURM lets the first job wait
LOOPBACK = "127.0.0.1:0"
AHEAD = 4  # for each thread: so many tasks may be under way or wait for their result to be taken
LOCAL, SLURM = "local", "slurm"
"""Schedulers that are started here; any other is an address."""
SETTINGS = {
    "distributed.admin.log-format": "%(message)s",
    "distributed.worker.daemon": False,
    "distributed.scheduler.allowed-failures": 0,  # a task that was lost with its worker is ours to try again
}


class TaskFailed(Exception):
    """A task raised, or ended its workers; the text is one line."""


Ended = tuple[Any, Callable[[], Any]]
"""A task's name, and a function that gives its result, or raises Failed where there is none."""


class LazyArgument(partial):
    """An argument that is made when its task is begun, in this process: until then it takes no memory."""


class SerialWorkers:
    """Tasks done in this process, one after the other, when their results are asked for."""

    def __init__(self) -> None:
        self.waiting: list[tuple] = []
        self.count = count()

    def submit(self, name: Hashable, function: Callable, *arguments: Any, cost: float = 0.0) -> None:
        """cost: in seconds, about; of what waits, the longest is done first."""
        heappush(self.waiting, (-cost, next(self.count), (name, function, arguments)))

    def begin(self) -> None:
        """Gets ready, for there will be tasks."""

    def ready(self) -> Iterator[Ended]:
        """The results that need not be waited for."""
        return self.results()

    def results(self) -> Iterator[Ended]:
        """All results, as they come."""
        while self.waiting:
            name, function, arguments = self._longest()
            yield name, partial(_done, function, arguments)

    def _longest(self) -> tuple:
        return heappop(self.waiting)[-1]


class ThreadWorkers(SerialWorkers):
    """Tasks done by threads of this process, which begin at `begin`, with `warm_up` first, or when they are needed;
    from then on a task is begun as soon as a thread is idle. They are daemons, which end with this process."""

    def __init__(self, workers: int, warm_up: tuple) -> None:
        super().__init__()
        self.workers, self.warm_up, self.threads = workers, warm_up, []
        self.tasks, self.done, self.left = PriorityQueue(), SimpleQueue(), 0
        self.warm, self.room = Event(), Semaphore(AHEAD * workers)

    def submit(self, name: Hashable, function: Callable, *arguments: Any, cost: float = 0.0) -> None:
        self.left += 1
        self.tasks.put((-cost, next(self.count), (name, function, arguments)))

    def begin(self) -> None:
        if not self.threads:
            locked_ast.lock_libraries()
            self.threads = [Thread(target=self._warm_up, daemon=True)]
            self.threads += [Thread(target=self._work, daemon=True) for _ in range(self.workers - 1)]
            for thread in self.threads:
                thread.start()

    def _warm_up(self) -> None:
        _kept(*_split(self.warm_up))
        self.warm.set()
        self._work()

    def _work(self) -> None:
        self.warm.wait()
        while self.room.acquire() and (task := self.tasks.get()[-1]):
            name, function, arguments = task
            self.done.put((name, _kept(function, arguments)))

    def ready(self) -> Iterator[Ended]:
        with suppress(Empty):
            while True:
                yield self._taken(self.done.get_nowait())

    def results(self) -> Iterator[Ended]:
        self.begin()
        while self.left:
            yield self._taken(self.done.get())

    def _taken(self, result: Ended) -> Ended:
        self.left -= 1
        self.room.release()
        return result

    def close(self) -> None:
        """Lets the threads end as soon as they are idle; what waits is given up."""
        with suppress(Empty):
            while True:
                self.tasks.get_nowait()
        for _ in self.threads:
            self.tasks.put((-inf, next(self.count), None))
            self.room.release()


class DaskWorkers(SerialWorkers):
    """Tasks done by the workers of a Dask cluster, which starts at `begin`, while this process does something else, or
    when it is needed. What was lost with a worker is tried again at the end, alone: so it is known who ended whom."""

    def __init__(self, workers: int, scheduler: str, dashboard: bool, warm_up: tuple) -> None:
        super().__init__()
        self.stack, self.tasks, self.lost, self.again = ExitStack(), {}, [], 0
        self.wanted = workers, scheduler, dashboard, warm_up
        self.starting: Any = None  # the future of a client, from `begin` on

    def begin(self) -> None:
        if self.starting is None:
            locked_ast.lock_libraries()
            self.starting = ThreadPoolExecutor(1).submit(self._start, *self.wanted)

    def _start(self, workers: int, scheduler: str, dashboard: bool, warm_up: tuple) -> Any:
        _leave_ctrl_c_to_others()
        client = self.stack.enter_context(_client(workers, scheduler, dashboard))
        wait = SECONDS_IN_A_QUEUE if scheduler == SLURM else SECONDS_TO_ANSWER
        _check_workers(client, wait, elsewhere=scheduler != LOCAL)
        from distributed import as_completed

        self.running = as_completed(loop=client.loop)
        function, arguments = _split(warm_up)
        self.warming = [client.submit(function, *arguments, workers=[name], pure=False) for name in client.has_what()]
        return client

    def ready(self) -> Iterator[Ended]:
        if self.starting and self.starting.done():
            self._fill()
            while self.running.has_ready():
                yield from self._next()

    def results(self) -> Iterator[Ended]:
        self.begin()
        while self._fill() or self._send_again():
            yield from self._next()

    def _next(self) -> Iterator[Ended]:
        future = next(self.running)
        task = self.tasks.pop(future)  # the result goes with the future: 300 of them need not lie in memory
        if _was_lost(future) and task not in self.lost:
            self.lost.append(task)
        else:
            self._fill()
            yield task[0], lambda: _outcome(future)

    def _fill(self) -> bool:
        """Gives every worker something to do. False if there is nothing."""
        client = self.starting.result()  # which has imported all that is needed here: an import drops Ctrl-C
        most = sum(client.nthreads().values()) if self.waiting else 0
        while self.waiting and len(self.tasks) < max(most, 1):
            self._send(self._longest())
        return bool(self.tasks)

    def _send_again(self) -> bool:
        """Gives one of what was lost to a worker. False if there is nothing."""
        if self.again == len(self.lost):
            return False
        self._send(self.lost[self.again])
        self.again += 1
        return True

    def _send(self, task: tuple) -> None:
        _, function, arguments = task
        try:
            future = self.starting.result().submit(function, *_made(arguments), pure=False)
        except Exception as error:  # of an argument's own: it comes back as if a worker had met it
            future = self.starting.result().submit(_raise, error, pure=False)
        self.tasks[future] = task
        self.running.add(future)

    def close(self) -> None:
        """Ends what was started; tasks under way are given up."""
        if self.starting:
            with suppress(Exception):  # told where it matters
                self.starting.result()
        self.stack.close()


@contextmanager
def worker_pool(
    workers: int, scheduler: str | None = None, dashboard: bool = False, warm_up: tuple = (str,)
) -> Iterator[SerialWorkers]:
    """Where tasks are done. scheduler: of a Dask cluster: LOCAL, SLURM or an address; without one, and without Dask's
    dashboard, threads do them. warm_up: a function and its arguments that are called first, where tasks are done."""
    if dashboard and not find_spec("bokeh"):
        raise CourseError("Dask's dashboard needs Bokeh, which is not installed: pip install bokeh.")
    if scheduler == SLURM:
        _find_slurm()
    wanted = scheduler or (LOCAL if dashboard else None)
    found = DaskWorkers(workers, wanted, dashboard, warm_up) if wanted else ThreadWorkers(workers, warm_up)
    try:
        yield found
    finally:
        found.close()


def _split(task: tuple) -> tuple[Callable, tuple]:
    function, *arguments = task
    return function, tuple(arguments)


def _kept(function: Callable, arguments: tuple) -> Callable[[], Any]:
    """What gives, in another thread, the result, or raises what there was instead."""
    try:
        result = _done(function, arguments)
        return lambda: result
    except Exception as error:
        reason = error
        return lambda: _raise(reason)


def _raise(error: Exception) -> None:
    raise error


def _done(function: Callable, arguments: tuple) -> Any:
    """A failure of the grader's own costs this notebook, not the batch; and nothing where it doesn't fail again."""
    with suppress(Exception):
        return function(*_made(arguments))
    try:
        return function(*_made(arguments))
    except SandboxError:  # no notebook can be judged on this machine
        raise
    except Exception as error:
        raise TaskFailed(_one_line(error)) from error


def _made(arguments: tuple) -> list:
    return [argument() if isinstance(argument, LazyArgument) else argument for argument in arguments]


def _was_lost(future: Any) -> bool:
    from distributed import KilledWorker

    return future.status == "error" and isinstance(future.exception(), KilledWorker)


def _outcome(future: Any) -> Any:
    if future.status == "finished":
        return future.result()
    error = future.exception()
    if isinstance(error, SandboxError):
        raise error
    if _was_lost(future):
        raise TaskFailed("set apart: the process that judged it was ended twice while it did")
    raise TaskFailed(_one_line(error))


@contextmanager
def _client(workers: int, scheduler: str, dashboard: bool) -> Iterator:
    import dask
    from distributed import Client

    dask.config.set(SETTINGS)
    with ExitStack() as stack:
        named = scheduler not in (LOCAL, SLURM)
        cluster = scheduler if named else stack.enter_context(_cluster(workers, scheduler, dashboard))
        try:
            client = Client(cluster, timeout=SECONDS_TO_ANSWER)
            stack.callback(client.close)  # no context of its own: another thread may end it
        except (OSError, ValueError) as error:
            raise CourseError(f"No Dask scheduler answers at {scheduler}: {_one_line(error)}") from None
        yield client


def _cluster(workers: int, scheduler: str, dashboard: bool):
    """Processes on this machine, which nobody beyond it can reach, or SLURM jobs as dask's own `jobqueue.slurm`
    settings describe them. Without an address, Dask's web servers would listen to everybody."""
    if scheduler == SLURM:
        return _slurm_jobs(workers)
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:8787" if dashboard else LOOPBACK,
        worker_dashboard_address=LOOPBACK,
        silence_logs="CRITICAL",
    )


def _leave_ctrl_c_to_others() -> None:
    """In the thread that starts the workers, which are born with this mask: a terminal sends Ctrl-C to all processes,
    and the main one is enough to end the others. Kernels lift it again (see new_shell in judge/shell.py)."""
    resource_tracker.ensure_running()  # which would lift it here, if it had to be started later
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _find_slurm() -> None:
    """CourseError where there is no SLURM. Imports dask_jobqueue, which has to happen in the main thread, for it takes
    Ctrl-C away; here it gets it back."""
    if not shutil.which("sbatch"):
        raise CourseError("SLURM's `sbatch` is not found: call `attn grade --scheduler slurm` where you submit jobs.")
    handler = signal.getsignal(signal.SIGINT)
    import dask_jobqueue  # noqa: F401

    signal.signal(signal.SIGINT, handler)


def _slurm_jobs(workers: int):
    """A cluster of so many jobs. CourseError where dask's settings don't say what a job is."""
    from dask_jobqueue import SLURMCluster

    try:
        cluster = SLURMCluster()
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise CourseError(f"SLURM jobs can't be made (see autograder/cluster/README.md): {_one_line(error)}") from None
    cluster.scale(workers)
    return cluster


def _check_workers(client, wait: float, elsewhere: bool) -> None:
    """Asks every worker for its grader before any work goes out: one that can't import it would let the client wait
    for ever, and one elsewhere may have other checks, which give other scores."""

    def their_version() -> str:  # nested, so that it travels by value and needs nothing of ours to be loaded
        try:
            from autograder.grading import result_cache
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return result_cache.grader_version()

    try:
        client.wait_for_workers(1, timeout=wait)
        asked = {name: client.submit(their_version, workers=[name], pure=False) for name in client.has_what()}
        found = {name: future.result(timeout=SECONDS_TO_ANSWER) for name, future in asked.items()}
    except Exception as error:
        raise CourseError(f"The Dask workers do not answer: {_one_line(error)}") from None
    for name, version in found.items():
        if len(version) != len(grader_version()):
            raise CourseError(f"Worker {name} can't grade: {version}. Install this course there.")
        if elsewhere and version != grader_version():
            raise CourseError(f"Worker {name} has another version of the course: install this one there.")


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
