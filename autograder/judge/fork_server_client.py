"""The root of the warm processes (see fork_server.py), seen from outside. It imports for seconds, so who will need one
starts it before doing anything else: this module imports no torch."""

import atexit
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

from autograder.judge.sandbox.walls import environment

PACKAGES = Path(__file__).resolve().parents[2]


class ForkServer:
    """A root. It and its branches die with this process."""

    def __init__(self) -> None:
        self.sock, theirs = socket.socketpair()
        command = [sys.executable, "-m", "autograder.judge.fork_server", "root", str(theirs.fileno())]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment(PACKAGES),
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the grader's to handle
        )
        theirs.close()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self.sock.close()
        self.process.wait()


_ahead: list[ForkServer] = []


@cache
def start_ahead() -> None:
    """Starts the root that `take_fork_server` will give to the first who asks; once in a process: who asks keeps it."""
    _ahead.append(ForkServer())
    atexit.register(_end_what_nobody_took)


def _end_what_nobody_took() -> None:
    for root in _ahead:
        root.process.kill()


def take_fork_server() -> ForkServer:
    """The root that was started ahead, or a new one."""
    return _ahead.pop() if _ahead else ForkServer()
