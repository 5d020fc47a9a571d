"""A process that has imported everything slow once and is forked for every kernel: ready in a few hundredths of a second
instead of two seconds. It has one thread and no IPython shell, or its children would hang.

There are two sorts. The students' has nothing of the course in its memory but what answers questions there; the judge's
has the checks too. Whoever judges (a Dask worker, formgrader) starts both once and keeps them.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from autograder.judge.kernel import Kernel
from autograder.judge.sandbox.namespaces import SCRATCH, SandboxError, Walls, confine, environment, lower, shepherd
from autograder.judge.wire import BorderError, Packer, Wire, read

PACKAGES = Path(__file__).resolve().parents[2]
STUDENT, JUDGE = "student", "judge"


class Warm:
    """A warm process, seen from outside. Dies with this one. `stand_ins`: see `stand_ins` in kernels.py."""

    def __init__(self, role: str, stand_ins: dict):
        self.sock, theirs = socket.socketpair()
        command = [sys.executable, "-m", "autograder.judge.warm", role, str(theirs.fileno()), json.dumps(stand_ins)]
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment(PACKAGES), cwd="/", stdin=subprocess.DEVNULL
        )
        theirs.close()
        self.wire = Wire(self.sock)

    def start(self, walls: Walls | None, request: dict) -> Kernel:
        """A kernel behind `walls` (None: without any). SandboxError if the warm process is gone."""
        ours, theirs = socket.socketpair()
        leash, keeper = socket.socketpair()
        try:
            self.wire.send(Packer().frame({"walls": walls and asdict(walls), "request": request}), 60)
            socket.send_fds(self.sock, [b"!"], [theirs.fileno(), keeper.fileno()])
        except (BorderError, OSError):
            raise SandboxError("The warm process of the judge ended; see its message above.") from None
        finally:
            theirs.close()
            keeper.close()
        return Kernel(ours, leash)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self.sock.close()
        self.process.wait()


# ---------------------------------------------------------------- the warm process itself


def serve(role: str, sock: socket.socket, stand_ins: str) -> None:
    """Forks a kernel for every request, until the other end hangs up."""
    main = _preload(role, json.loads(stand_ins))
    gc.freeze()  # the collector would touch, and so copy, every page in every fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = Wire(sock)
    while True:
        try:
            message = read(wire.receive(None))
            _, descriptors, _, _ = socket.recv_fds(sock, 1, 2)
        except BorderError:
            return
        if os.fork() == 0:
            _become(main, message, [socket.socket(fileno=descriptor) for descriptor in descriptors], sock)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(main: Callable, message: dict, sockets: list[socket.socket], warm: socket.socket) -> None:
    """In the fork: become the keeper of a new kernel, or the kernel itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    warm.close()
    channel, leash = sockets

    confine(lambda: _kernel(main, channel, message), message["walls"] and Walls(**message["walls"]), leash)


def _kernel(main: Callable, channel: socket.socket, message: dict) -> None:
    request = message["request"]
    try:
        _settle(request.get("environment", {}), walled=bool(message["walls"]))
        main(channel, request)
    except Exception as error:  # of ours: the student's are caught where they happen
        Wire(channel).send(Packer().frame({"failed": f"{type(error).__name__}: {error}"}), 5)


def cold(role: str, channel: socket.socket, user: int) -> int:
    """A single kernel, started inside a sandbox that somebody else built (see bubblewrap.py). Returns its exit status."""
    message = read(Wire(channel).receive(None))
    main = _main(role, message["request"].get("stand_ins", {}))
    lower(Walls(**message["walls"]), user)
    return shepherd(lambda: _kernel(main, channel, message))


def _settle(more: dict[str, str], walled: bool) -> None:
    """The folder and the environment of a kernel; without walls it stays in the folder that its keeper made for it."""
    os.environ.clear()
    os.environ.update(environment(PACKAGES), **more)
    if walled:
        os.chdir(SCRATCH)
        os.environ.update(HOME="/tmp/home", TMPDIR="/tmp", IPYTHONDIR="/tmp/home/.ipython", MPLCONFIGDIR="/tmp/home")


def _preload(role: str, stand_ins: dict) -> Callable:
    """Imports what any kernel needs sooner or later; returns the main function of kernels of this role."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _import_what_is_slow()
    main = _main(role, stand_ins)
    if threads := len(os.listdir("/proc/self/task")) - 1:
        raise SandboxError(f"The warm process has {threads} more threads than it may have: its children would hang.")
    return main


def _import_what_is_slow() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import jaxtyping  # noqa: F401
    import matplotlib.pyplot as plt
    import numpy  # noqa: F401
    import pexpect  # noqa: F401
    import torch
    import torch._dynamo
    import torch.utils.flop_counter  # noqa: F401

    torch.set_num_threads(1)
    plt.plot([0, 1])
    plt.savefig(os.devnull, format="png")  # finds the fonts
    plt.close("all")
    torch.testing.assert_close(torch.ones(1), torch.ones(1))
    torch.optim.Adam([torch.ones(1, requires_grad=True)])


def _main(role: str, stand_ins: dict) -> Callable:
    if role == STUDENT:
        from autograder.judge import student

        student.preload(**stand_ins)
        return student.main
    from autograder.judge import examiner

    return examiner.main


if __name__ == "__main__":
    if sys.argv[1] == "cold":
        sys.exit(cold(sys.argv[2], socket.socket(fileno=int(sys.argv[3])), int(sys.argv[4])))
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3])
