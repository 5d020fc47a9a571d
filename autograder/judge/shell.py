"""Runs cells in this process and sends their outputs home as they come.

This is IPython's own shell (magics, rich display, plots, tracebacks) without ipykernel around it: no ports, no zmq, no
threads, nothing to wait for, one socket. So a kernel can be forked at any moment, and costs a tenth of a cold one."""

import base64
import builtins
import io
import os
import random
import signal
import sys
import tempfile
import time

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from autograder.judge.protocol import BorderError, Packer, Wire, read

CELL_OUTPUT = 1 << 20  # characters of output a cell may make
CUT = f"\n… the rest of the output was cut off at {CELL_OUTPUT >> 20} MB\n"


class Outbox:
    """Where outputs go: over the wire, in batches, until a cell has said enough."""

    def __init__(self, wire: Wire):
        self.wire, self.left, self.waiting, self.sent_at = wire, 0, [], 0.0

    def open(self) -> None:
        """A new cell may say something again."""
        self.left = CELL_OUTPUT

    def put(self, output: dict, size: int) -> None:
        if self.left <= 0:
            return
        self.left -= size
        self.waiting.append(output if self.left > 0 else _stream("stderr", CUT))
        if time.monotonic() - self.sent_at > 0.05:
            self.flush()

    def flush(self) -> None:
        waiting, self.waiting, self.sent_at = self.waiting, [], time.monotonic()
        if waiting:
            self.wire.send(Packer().frame({"outputs": _joined(waiting)}))


def _stream(name: str, text: str) -> dict:
    return {"output_type": "stream", "name": name, "text": text}


def _joined(outputs: list[dict]) -> list[dict]:
    """One stream output for many prints in a row."""
    joined: list[dict] = []
    for output in outputs:
        if joined and output["output_type"] == "stream" and joined[-1].get("name") == output["name"]:
            joined[-1] = _stream(output["name"], joined[-1]["text"] + output["text"])
        else:
            joined.append(output)
    return joined


class Stream(io.TextIOBase):
    """What `print` writes to."""

    encoding = "utf-8"

    def __init__(self, name: str, outbox: Outbox, descriptor: int):
        self.name, self.outbox, self.descriptor = name, outbox, descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        part = text[: max(self.outbox.left, 0) + 1]
        if part:
            self.outbox.put(_stream(self.name, part.encode(errors="replace").decode()), len(part))
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor


class _Hook(DisplayHook):
    """A cell's last value becomes an execute_result."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict, md_dict=None) -> None:
        self.shell.emit("execute_result", format_dict, md_dict, execution_count=self.prompt_count)

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Publisher(DisplayPublisher):
    """`display(…)` becomes a display_data. An update of an earlier display is shown as a new one."""

    def publish(self, data, metadata=None, *_, **__) -> None:
        self._validate_data(data, metadata)
        self.shell.emit("display_data", data, metadata)

    def clear_output(self, wait=False) -> None:
        pass


class Shell(InteractiveShell):
    """IPython's shell with its outputs sent to an outbox."""

    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    outbox: Outbox

    def emit(self, kind: str, data: dict, metadata: dict | None, **more) -> None:
        plain = {str(mime): _text(value) for mime, value in data.items()}
        self.outbox.put({"output_type": kind, "data": plain, "metadata": metadata or {}, **more}, len(repr(plain)))

    def _showtraceback(self, etype, evalue, stb) -> None:
        lines = [line.encode(errors="replace").decode() for line in stb]
        error = {"output_type": "error", "ename": str(etype.__name__), "evalue": str(evalue), "traceback": lines}
        self.outbox.put(error, sum(map(len, lines)))

    def enable_gui(self, gui=None) -> None:
        pass

    def ask_exit(self) -> None:
        pass


def _text(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def new_shell(wire: Wire, seed: int) -> Shell:
    """A shell as a fresh notebook has it, in this (just forked) process, whose standard streams it takes over.

    seed: of all random numbers, which differ between fresh processes: a notebook gets the same score every time."""
    _seed(seed)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which a Dask worker never listens to
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    Shell.outbox = Outbox(wire)
    shell = Shell.instance(config=config, user_ns={"__name__": "__main__"})
    shell.run_line_magic("matplotlib", "inline")  # by hand: the backend was not there when matplotlib was imported
    builtins.input = _no_input
    sys.stdout, sys.stderr = Stream("stdout", shell.outbox, 1), Stream("stderr", shell.outbox, 2)
    return shell


def _seed(seed: int) -> None:
    import numpy
    import torch

    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def _no_input(prompt: object = "") -> str:
    raise RuntimeError("input() is not answered while a notebook is graded: put the value into the cell.")


class CapturedOutput:
    """What programs and C code write past Python, to file descriptors 1 and 2."""

    def __init__(self):
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the kernel)
        for descriptor in (1, 2):
            os.dup2(self.file.fileno(), descriptor)
        os.set_inheritable(self.file.fileno(), False)

    def take(self) -> str:
        end = os.lseek(self.file.fileno(), 0, os.SEEK_END)
        text = os.pread(self.file.fileno(), min(end, CELL_OUTPUT), 0).decode(errors="replace")
        os.ftruncate(self.file.fileno(), 0)
        os.lseek(self.file.fileno(), 0, os.SEEK_SET)
        return text


def run_cell(shell: Shell, said: CapturedOutput, source: str) -> str:
    """Runs a cell; its outputs go home. Returns "ok", or the kind and message of the error it stopped with."""
    shell.outbox.open()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
    except (KeyboardInterrupt, BorderError) as stopped:  # an interrupt between two lines of the shell's own
        error = stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what comes now comes too late for its cell
    if text := said.take():
        sys.stdout.write(text)
    shell.outbox.flush()
    return f"{type(error).__name__}: {error}"[:300] if error else "ok"


def messages(wire: Wire):
    """What home asks for, one after the other, until home hangs up."""
    while True:
        try:
            yield read(wire.receive(None))
        except BorderError:
            return
