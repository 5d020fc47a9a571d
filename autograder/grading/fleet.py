"""Many notebooks judged side by side on Dask: local processes, a scheduler at an address, or SLURM.

Workers never see the gradebook or the store: a notebook goes in, the same notebook with outputs comes back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import dask
from nbformat import NotebookNode

from autograder.cores import cores
from autograder.errors import CourseError
from autograder.grading.store import grader_version
from autograder.grading.verdict import judged
from autograder.judge.judge import Limits
from autograder.judge.sandbox.namespaces import SandboxError
from autograder.notebooks import parse, to_text

SECONDS_TO_ANSWER = 60
RETRIES = 2


@dataclass(frozen=True)
class Job:
    """One notebook to judge; `key` says which result it is."""

    key: str
    unit: str
    notebook: NotebookNode


@dataclass(frozen=True)
class Verdict:
    """What came back: the notebook with outputs, or the reason why there is none."""

    key: str
    notebook: NotebookNode | None
    problem: str = ""


def judge_all(
    jobs: list[Job], limits: Limits, workers: int | None = None, scheduler: str | None = None
) -> Iterator[Verdict]:
    """The verdicts in the order in which they are reached. One job, or one worker, needs no fleet."""
    workers = min(workers or cores(), len(jobs))
    if scheduler is None and workers <= 1:
        yield from (_judge_here(job, limits) for job in jobs)
        return
    with _client(workers, scheduler) as client:
        _check_workers(client, elsewhere=scheduler is not None)
        yield from _gather(client, jobs, limits)


def _judge_here(job: Job, limits: Limits) -> Verdict:
    try:
        return Verdict(job.key, judged(job.notebook, job.unit, limits))
    except SandboxError:  # no notebook can be judged on this machine
        raise
    except Exception as error:  # the grader's own failure costs this notebook, not the batch
        return Verdict(job.key, None, _one_line(error))


def judge_text(text: str, unit: str, limits: Limits) -> str:
    """`judge` as a task: text travels between machines, whatever classes they have."""
    return to_text(judged(parse(text), unit, limits))


def _gather(client, jobs: list[Job], limits: Limits) -> Iterator[Verdict]:
    from distributed import as_completed

    futures = {}
    for job in jobs:
        work = judge_text, to_text(job.notebook), job.unit, limits
        futures[client.submit(*work, key=f"judge-{job.key}", retries=RETRIES, pure=False)] = job.key
    for future in as_completed(list(futures)):
        key = futures.pop(future)  # the result goes with the future: 300 of them need not lie in memory
        if future.status == "finished":
            yield Verdict(key, parse(future.result()))
        elif isinstance(future.exception(), SandboxError):
            raise future.exception()
        else:
            yield Verdict(key, None, _one_line(future.exception()))


@contextmanager
def _client(workers: int, scheduler: str | None) -> Iterator:
    from distributed import Client

    dask.config.set({"distributed.admin.log-format": "%(message)s", "distributed.worker.daemon": False})
    with ExitStack() as stack:
        cluster = scheduler if scheduler and scheduler != "slurm" else stack.enter_context(_cluster(workers, scheduler))
        try:
            client = stack.enter_context(Client(cluster, timeout=SECONDS_TO_ANSWER))
        except (OSError, ValueError) as error:
            raise CourseError(f"No Dask scheduler answers at {scheduler}: {_one_line(error)}") from None
        yield client


def _cluster(workers: int, scheduler: str | None):
    """Processes on this machine, or SLURM jobs as dask's own `jobqueue.slurm` settings describe them."""
    if scheduler == "slurm":
        from dask_jobqueue import SLURMCluster

        cluster = SLURMCluster()
        cluster.scale(workers)
        return cluster
    from distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None,
                        silence_logs="CRITICAL")  # fmt: skip


def _check_workers(client, elsewhere: bool) -> None:
    """Asks every worker for its grader before any work goes out: one that can't import it would let the client wait
    for ever, and one elsewhere may have other checks, which give other scores."""

    def their_version() -> str:  # nested, so that it travels by value and needs nothing of ours to be loaded
        try:
            from autograder.grading import store
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return store.grader_version()

    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_ANSWER)
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
