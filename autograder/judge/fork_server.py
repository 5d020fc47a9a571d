"""Processes that have imported everything slow once and are forked for every kernel: ready in a few hundredths of a
second instead of two seconds. They have one thread and no IPython shell, or their children would hang.

The *root* imports what any kernel needs sooner or later. For each unit it is forked twice: the students' branch has
nothing of the course in its memory but what answers questions there; the judge's has the unit's checks too. Whoever
judges (a Dask worker, formgrader) starts a root once and keeps it."""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from autograder.judge.fork_server_client import PACKAGES, ForkServer
from autograder.judge.huge_pages import use_huge_pages
from autograder.judge.kernel import Kernel
from autograder.judge.protocol import BorderError, Packer, Wire, read
from autograder.judge.sandbox.namespaces import confine, lower, shepherd
from autograder.judge.sandbox.walls import SCRATCH, SandboxError, Walls, environment

STUDENT, JUDGE = "student", "judge"


def branch(root: ForkServer, role: str, imports: dict) -> "WarmProcess":
    """A warm process of this role, for one unit. `imports`: see `imports_of` in kernel_manager.py."""
    ours, theirs = socket.socketpair()
    with theirs:
        _ask(root.sock, {"role": role, "imports": imports}, theirs)
    return WarmProcess(ours)


class WarmProcess:
    """A branch, seen from outside. It ends when it is closed."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def start(self, walls: Walls | None, request: dict) -> Kernel:
        """A kernel behind `walls` (None: without any). SandboxError if the warm process is gone."""
        ours, theirs = socket.socketpair()
        leash, keeper = socket.socketpair()
        with theirs, keeper:
            _ask(self.sock, {"walls": walls and asdict(walls), "request": request}, theirs, keeper)
        return Kernel(ours, leash)

    @property
    def alive(self) -> bool:
        """Whether it still listens: it never says anything, but it hangs up when it ends."""
        return not select.select([self.sock], [], [], 0)[0]

    def close(self) -> None:
        self.sock.close()


def _ask(sock: socket.socket, message: dict, *sockets: socket.socket) -> None:
    try:
        Wire(sock).send(Packer().frame(message), 60)
        socket.send_fds(sock, [b"!"], [one.fileno() for one in sockets])
    except (BorderError, OSError):
        raise SandboxError("The warm process of the judge ended; see its message above.") from None


# ---------------------------------------------------------------- the warm processes themselves


def serve_root(sock: socket.socket) -> None:
    """Forks a branch for every request, until the other end hangs up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _import_what_is_slow()
    _forks(sock, 1, lambda message, sockets: serve_kernels(sockets[0], message))


def serve_kernels(sock: socket.socket, message: dict) -> None:
    """A branch: imports what its unit needs, and forks a kernel for every request."""
    main, later = _main(message["role"], message["imports"])
    if _has_threads():
        return
    use_huge_pages()
    _forks(sock, 2, lambda message, sockets: _become(main, message, sockets), later)


def _has_threads() -> bool:
    """Whether this process has another thread than the main one, which bears the process's number; then it says so."""
    others = (task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid()))
    names = [(task / "comm").read_text().strip() for task in others]
    threads = ", ".join(name for name in names if not name.startswith("cuda"))  # CUDA's only waits for its GPU
    if threads:
        told = f"The warm process has threads that it may not have ({threads}): its children would hang."
        print(told, file=sys.stderr, flush=True)
    return bool(threads)


def _forks(sock: socket.socket, most: int, child: Callable, later: Iterable[None] = ()) -> None:
    """For every request with its `most` sockets a fork that runs `child`, until the other end hangs up. `later`: what
    is done, step by step, while nobody asks."""
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page in every fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire, later = Wire(sock), iter(later)
    while not (_go_on(later, sock) and _has_threads()):
        try:
            message = read(wire.receive(None))
            _, descriptors, _, _ = socket.recv_fds(sock, 1, most)
        except BorderError:
            return
        if len(descriptors) < most:  # who asked was ended in the middle of it
            return
        if os.fork() == 0:
            try:
                sock.close()
                child(message, [socket.socket(fileno=descriptor) for descriptor in descriptors])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _go_on(later: Iterator[None], sock: socket.socket) -> bool:
    """Does what can be done later until somebody asks for something. Whether there was anything to do."""
    steps = 0
    while not select.select([sock], [], [], 0)[0] and next(later, "done") != "done":
        steps += 1
    if steps:
        gc.freeze()
    return steps > 0


def _become(main: Callable, message: dict, sockets: list[socket.socket]) -> None:
    """In the fork: become the keeper of a new kernel, or the kernel itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    channel, leash = sockets
    walls = Walls(**message["walls"]) if message["walls"] else None
    if walls and walls.namespaces:
        confine(lambda: _kernel(main, channel, message), walls, leash)
    else:
        from autograder.judge.sandbox import other_user  # in no kernel's memory where nobody needs it

        other_user.confine(lambda: _kernel(main, channel, message), walls, leash)


def _kernel(main: Callable, channel: socket.socket, message: dict) -> None:
    request = message["request"]
    try:
        _settle(request.get("environment", {}), message["walls"])
        main(channel, request)
    except Exception as error:  # of ours: the student's are caught where they happen
        Wire(channel).send(Packer().frame({"failed": f"{type(error).__name__}: {error}"}), 5)


def run_cold_kernel(role: str, channel: socket.socket, alive: int, user: int) -> int:
    """A single kernel, started inside a sandbox that somebody else built (see bubblewrap.py). Returns its exit status.
    alive: a pipe whose other end the keeper has."""
    message = read(Wire(channel).receive(None))
    main, _ = _main(role, message["request"].get("imports", {}))
    lower(Walls(**message["walls"]), user)

    def run() -> None:
        os.close(alive)
        _kernel(main, channel, message)

    return shepherd(run, alive)


def _settle(more: dict[str, str], walls: dict | None) -> None:
    """The folder and the environment of a kernel; without namespaces it stays in the folder that its keeper made."""
    os.environ.clear()
    os.environ.update(environment(PACKAGES), **more)
    if walls:
        folder, home, temporary = (SCRATCH, "/tmp/home", "/tmp") if walls["namespaces"] else [os.getcwd()] * 3
        os.chdir(folder)
        os.environ.update(HOME=home, TMPDIR=temporary, IPYTHONDIR=f"{home}/.ipython", MPLCONFIGDIR=home)


def _import_what_is_slow() -> None:
    """What every kernel needs sooner or later, what a shell imports for itself and for its first cells among it. Not
    matplotlib_inline: imported where there is no shell, it never shows a plot."""
    import matplotlib

    matplotlib.use("Agg")
    import IPython.core.completer  # noqa: F401
    import IPython.core.crashhandler  # noqa: F401
    import IPython.core.interactiveshell
    import IPython.core.logger  # noqa: F401
    import IPython.core.magics.ast_mod  # noqa: F401
    import IPython.core.magics.execution  # noqa: F401
    import IPython.core.oinspect  # noqa: F401
    import IPython.core.pylabtools  # noqa: F401
    import jaxtyping  # noqa: F401
    import matplotlib.pyplot as plt
    import numpy.random  # noqa: F401
    import pexpect  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch
    import torch.utils.flop_counter  # noqa: F401

    torch.set_num_threads(1)
    plt.plot([0, 1])
    plt.savefig(os.devnull, format="png")  # finds the fonts
    plt.close("all")
    matplotlib.backends.backend_registry.list_all()  # reads the packages' entry points
    import torch._subclasses.schema_check_mode  # noqa: F401
    import torch.fx.experimental.symbolic_shapes  # noqa: F401  (what the first backward pass would import)


def _main(role: str, imports: dict) -> tuple[Callable, Iterable[None]]:
    """The main function of kernels of this role, with what they need imported, and what can be done later."""
    module = importlib.import_module(f"autograder.judge.{'student' if role == STUDENT else 'judge'}_kernel")
    return module.main, module.preload(**imports) or ()


if __name__ == "__main__":
    if sys.argv[1] == "cold":
        sys.exit(run_cold_kernel(sys.argv[2], socket.socket(fileno=int(sys.argv[3])), *map(int, sys.argv[4:])))
    serve_root(socket.socket(fileno=int(sys.argv[2])))
    os._exit(0)  # who started it waits for its end, and PyTorch takes half a second to take itself down
