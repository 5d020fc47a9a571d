"""Functions called in a process of their own, with limits of time and memory: for all that reads, parses, cleans or
renders what a student wrote. What exceeds the limits is one exception here and costs nobody else anything.

A server process imports a module once and forks for every call, so that a call costs about ten milliseconds and what
one call spoils is gone with it. Arguments travel as pickles to the child, which is ours; answers come back as JSON
alone, for the child has handled what is not."""

import json
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

MB = 1 << 20
SECONDS = 20.0
MEMORY = 1500 * MB
MOST_ANSWER = 64 * MB
_SIZE = struct.Struct("!Q")
_HERE = b"here"


class LimitExceeded(Exception):
    """A call was ended because it needed too much time or memory, or crashed; the text says which."""


class CallFailed(Exception):
    """A call raised; the text is the exception's kind and message."""


def call(function: Callable, *arguments: Any, seconds: float = SECONDS, memory: int = MEMORY) -> Any:
    """What `function(*arguments)` returns, as JSON keeps it: a module's function, plain arguments.

    seconds: of processor time; memory: bytes beside what the server has. Raises TooMuch, Failed."""
    task = pickle.dumps((function.__module__, function.__name__, arguments, seconds, memory))
    with _server.lock:
        kind, answer = _server.ask(function.__module__, task)
    if kind == "too much":
        raise LimitExceeded(answer)
    if kind == "failed":
        raise CallFailed(answer)
    return answer


def prepare(*modules: str) -> None:
    """Lets the server import modules while this process does something else."""
    with _server.lock:
        _server.prepare(modules)


def remember(function: Callable, *arguments: Any) -> None:
    """Lets the server itself call a function, so that what it keeps in memory is there for every later call. For
    arguments that are ours alone: here nothing limits it."""
    with _server.lock:
        _server.prepare((function.__module__,), _HERE + pickle.dumps((function.__name__, arguments)))


class _Server:
    """Started at the first call, and again whenever it is gone; it ends with this process, for its input does."""

    def __init__(self) -> None:
        self.server: Any = None  # a Popen with pipes, from the first call on
        self.lock, self.owner = threading.Lock(), 0

    def ask(self, module: str, task: bytes) -> tuple[str, Any]:
        for _ in range(2):  # the second time with a new server: the first may have been ended from outside
            if self.server is None or self.owner != os.getpid() or self.server.poll() is not None:
                self._start()
            try:
                _write(self.server.stdin, module.encode())
                _write(self.server.stdin, task)
                return json.loads(_read(self.server.stdout))
            except (OSError, EOFError):
                self.server.kill()
                self.server.wait()
        return "too much", "the process that reads hand-ins could not be started"

    def prepare(self, modules: tuple[str, ...], task: bytes = b"") -> None:
        if self.server is None or self.owner != os.getpid():
            self._start()
        try:
            for module in modules:
                _write(self.server.stdin, module.encode())
                _write(self.server.stdin, task)
        except OSError:  # it was ended from outside: the next call starts another
            return

    def _start(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from autograder.limited_process import serve; serve()"
        environment = os.environ | {"OMP_NUM_THREADS": "1"}  # a server with threads could not fork safely
        self.server = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.owner = os.getpid()


_server = _Server()


def cpu_time_limit(seconds: float, function: Callable, *arguments: Any) -> Any:
    """What the function returns; TimeoutError after so many seconds of processor time. For pieces of one call, within a
    child: Python code and its regular expressions can be stopped in this way, other code runs into the hard limit."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# ---------------------------------------------------------------- the server


def serve() -> None:
    """Answers calls until its standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's to handle
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
    while True:
        try:
            module, task = _read(source).decode(), _read(source)
        except EOFError:
            return
        imported = import_module(module)  # here, so that no call imports it anew
        if task.startswith(_HERE):
            name, arguments = pickle.loads(task.removeprefix(_HERE))
            getattr(imported, name)(*arguments)
        elif task:
            answer = _in_a_child(task)
            try:
                _write(target, answer)
            except BrokenPipeError:  # whoever asked is gone
                return


def _in_a_child(task: bytes) -> bytes:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _work(task, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        answer = answers.read(MOST_ANSWER + 1)
    if len(answer) > MOST_ANSWER:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0 and len(answer) <= MOST_ANSWER:
        return answer
    return json.dumps(["too much", _why(status)]).encode()


def _why(status: int) -> str:
    if -status == signal.SIGXCPU:
        return "it takes too long"
    return "it needs too much memory" if status in (NO_MEMORY, -signal.SIGKILL) else f"it crashes (status {status})"


NO_MEMORY = 77


def _work(task: bytes, target: int) -> None:
    """The child: sets its limits, does the work, sends the answer, and ends without any cleaning up."""
    try:
        module, name, arguments, seconds, memory = pickle.loads(task)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_used() + memory,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        answer = json.dumps(["ok", getattr(import_module(module), name)(*arguments)])
    except MemoryError:
        os._exit(NO_MEMORY)
    except BaseException as error:
        answer = json.dumps(["failed", f"{type(error).__name__}: {error}"[:500]])
    with os.fdopen(target, "wb") as file:
        file.write(answer.encode())
    os._exit(0)


def _used() -> int:
    """The bytes of address space this process has already; 0 where nobody says."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _write(file: Any, data: bytes) -> None:
    file.write(_SIZE.pack(len(data)))
    file.write(data)
    file.flush()


def _read(file: Any) -> bytes:
    (size,) = _SIZE.unpack(_whole(file, _SIZE.size))
    return _whole(file, size)


def _whole(file: Any, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
