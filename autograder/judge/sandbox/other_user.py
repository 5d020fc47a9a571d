"""Kernels where there are no namespaces. As root a student's can at least have a user id of its own, with the limits,
the seccomp filter and the missing privileges of the real sandboxes (`user`); else it runs as you (`none`).

What a kernel leaves behind would be nobody's: its keeper is the *subreaper*, to which Linux gives every orphan below
it, and it says that the kernel has ended when all of that is gone, too."""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from autograder.judge.sandbox.keeper import watch
from autograder.judge.sandbox.libc import LIBC
from autograder.judge.sandbox.namespaces import first_process, lower, own_user
from autograder.judge.sandbox.walls import Walls

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def confine(main: Callable[[], None], walls: Walls | None, leash: socket.socket) -> None:
    """The same as in namespaces.py, without namespaces. walls: None for no other user either."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    adopt_orphans()
    folder, user = tempfile.mkdtemp(prefix="attn-"), own_user() if walls else os.geteuid()
    try:
        os.chdir(folder)
        os.chown(folder, user, -1)
        first = os.fork()
        if first == 0:
            leash.close()
            first_process(lambda: _become(user, walls), main)
        watch(first, walls or Walls(), leash, at_end=lambda: end_descendants(user))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _become(user: int, walls: Walls | None) -> None:
    """Gives up root, where there are walls. An honest kernel imports as it goes, so what it needs must be there for
    everybody."""
    if walls is None:
        return
    if user == os.geteuid():
        raise OSError("only root can give student code a user id of its own")
    needed, _ = walls.shown()
    lower(walls, user)
    for path in needed:
        if not os.access(path, os.R_OK):
            raise OSError(f"{path} can't be read by another user")


def adopt_orphans() -> None:
    """From now on, what processes below this one leave behind becomes its child."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(user: int | None = None) -> None:
    """Ends all processes below this one, which has adopted orphans, until there are none. user: first all of that
    user's at once, which no fork escapes, if it is another one."""
    if user not in (None, os.geteuid()):
        _end_user(user)
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.01)


def _end_user(user: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(user, user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _children() -> list[int]:
    tasks = Path("/proc/self/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
