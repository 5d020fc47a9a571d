"""What this machine can do for the course, and what to do where something is missing."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from autograder.course.paths import Course
from autograder.course.repository_url import ADVICE, repository_url
from autograder.cpu_count import cpu_count
from autograder.judge.sandbox import apparmor
from autograder.judge.sandbox.cgroup import home_of_cgroups


@dataclass(frozen=True)
class Finding:
    """One line of the report. `advice` is empty where all is well."""

    what: str
    found: str
    advice: str = ""


def examine(course: Course) -> list[Finding]:
    """The findings about this machine, and about where the course is published."""
    found = [finding for part in (_python, _torch, _triton, _grading, _sandbox) for finding in part()]
    url = repository_url(course)
    return [*found, *_resources(course.root), Finding("repository", url or "not set", "" if url else ADVICE)]


def _python() -> Iterator[Finding]:
    good = sys.version_info >= (3, 11)
    yield Finding("Python", platform.python_version(), "" if good else "The course needs Python 3.11 or newer.")


def _torch() -> Iterator[Finding]:
    try:
        import torch
    except ImportError:
        yield Finding("torch", "missing", "Run `make setup`, or `pip install torch`.")
        return
    yield Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if not torch.cuda.is_available():
        yield Finding(
            "GPU", "none", "Not needed. Unit 09's kernels are interpreted here, and fast on a GPU (Colab has one)."
        )
        return
    major, minor = torch.cuda.get_device_capability()
    slow = "Triton gives right answers here, but no tensor cores: read speeds on a newer GPU." if major < 8 else ""
    yield Finding("GPU", f"{torch.cuda.get_device_name()}, sm_{major}{minor}", slow)


def _triton() -> Iterator[Finding]:
    try:
        installed = version("triton")
    except PackageNotFoundError:
        where = "`pip install triton`" if sys.platform == "linux" else "Colab, or WSL on Windows"
        yield Finding("Triton", "missing", f"Needed for the Triton parts of unit 09 only: {where}.")
        return
    from helpers.engine.guard_self_test import unwatched
    from helpers.environment import UNKNOWN_TRITON, interpreted

    missed = unwatched()
    advice = f"A kernel that {missed} is graded as if it didn't: install a Triton below {UNKNOWN_TRITON}."
    yield Finding("Triton", f"{installed}, {'interpreted' if interpreted() else 'compiled'}", advice if missed else "")


def _grading() -> Iterator[Finding]:
    for package in ("nbgrader", "nbclient", "ipykernel", "jupyterlab", "distributed"):
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, "missing", "Instructors need it: `make setup`.")


def _sandbox() -> Iterator[Finding]:
    namespaces = _answers(["unshare", "--user", "--map-root-user", "--pid", "--fork", "true"])
    if not namespaces and apparmor.restricts():
        yield Finding("user namespaces", f"no: {apparmor.WHY}", apparmor.ADVICE)
    else:
        advice = "" if namespaces else "Allow them (sysctl kernel.unprivileged_userns_clone=1), or grade as root."
        yield Finding("user namespaces", "yes" if namespaces else "no", advice)
    found = shutil.which("bwrap")
    works = bool(found) and _answers(["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "true"])
    advice = (
        ""
        if works
        else "bubblewrap is here but is not allowed to work."
        if found
        else "Optional: `apt install bubblewrap`."
    )
    yield Finding("bubblewrap", "yes" if works else "installed" if found else "no", advice)
    yield _control_groups()


def _control_groups() -> Finding:
    """Whether the kernel itself can bound what a submission uses up."""
    try:
        return Finding("cgroup v2", f"memory, processes and processor time of each sandbox, below {home_of_cgroups()}")
    except OSError as error:
        how = "`systemd-run --user --scope -p Delegate=yes attn grade`" if os.geteuid() else "a writable hierarchy"
        advice = f"The grader counts memory itself. For the kernel's own limits: {how}."
        return Finding("cgroup v2", f"no: {error.strerror}", advice)


def _answers(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _resources(folder: Path) -> list[Finding]:
    memory, free = _memory(), shutil.disk_usage(folder).free / 2**30
    return [
        Finding("cores", str(cpu_count())),
        Finding(
            "memory",
            f"{memory:.0f} GiB" if memory else "unknown",
            "Grade with fewer --workers: each needs about 1 GiB." if memory and memory < 1.5 * cpu_count() else "",
        ),
        Finding("free disk", f"{free:.0f} GiB", "Results and feedback take a few GiB: make room." if free < 5 else ""),
    ]


def _memory() -> float | None:
    """GiB of memory, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return None
