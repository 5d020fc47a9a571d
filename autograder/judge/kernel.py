"""A running kernel, seen from outside, however it was started."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress

from autograder.judge.protocol import Bounds, Packer, Wire

ALONE_SECONDS = 60.0  # in which a keeper has ended all but the kernel, however busy the machine
KEEPERS_SECONDS = 10.0  # in which a keeper, which does nothing else, answers
OUTPUTS = Bounds(frame=8 << 20)  # of what a kernel sends home: outputs of cells


class Kernel:
    """A running kernel: its wire, and the leash of the keeper that watches it."""

    def __init__(self, sock: socket.socket, leash: socket.socket, keeper: subprocess.Popen | None = None):
        self.sock, self.wire, self.leash, self.keeper = sock, Wire(sock, OUTPUTS), leash, keeper
        self.reports: list[dict] = []
        self.seconds = 0.0  # of processor time, when its keeper said so last
        # Starts another, if the process that was to fork it is gone.
        self.lost: Callable[[], Kernel | None] = lambda: None

    def tell(self, message: dict, *descriptors: int) -> None:
        self.wire.send(Packer().frame(message), 30)
        if descriptors:
            socket.send_fds(self.sock, [b"!"], list(descriptors))

    def interrupt(self) -> None:
        """As the stop button does."""
        self._send(b"i\n")

    def allow(self, seconds: float) -> None:
        """So much processor time from now on, then an interrupt, and soon after it the end; 0: as much as it wants."""
        self._send(b"c %.2f\n" % seconds)

    def end_others(self, spared: int = 0) -> None:
        """Ends all that the student ever started but the kernel itself and, if that is one, this process: meanwhile the
        kernel does nothing, until this is called again."""
        self._send(b"alone %d\n" % spared)
        self._listen(ALONE_SECONDS, "alone")
        self.reports = [report for report in self.reports if "alone" not in report]

    def overran(self) -> bool:
        """Whether it was interrupted for using up its processor time since this was asked last."""
        self._listen(0.0)
        over = any("over" in report for report in self.reports)
        self.reports = [report for report in self.reports if "over" not in report]
        return over

    def used(self) -> float:
        """Seconds of processor time that all its processes have used; of a kernel that is gone, as last heard."""
        self._send(b"u\n")
        self._listen(KEEPERS_SECONDS, "used")
        told = [report for report in self.reports if "used" in report]
        self.reports = [report for report in self.reports if "used" not in report]
        self.seconds = float(told[-1]["used"]) if told else self.seconds
        return self.seconds

    def kills(self) -> int:
        """How often its keeper ended something in it, for using more than it may."""
        self._listen(0.0)
        return sum("killed" in report for report in self.reports)

    def ended_itself(self) -> bool:
        """Whether its keeper saw it end in a way in which nobody else can end it: an exit, or a fault of its own. (One
        that feigns another way has only a second attempt from that.)"""
        ended = next((report["ended"] for report in self.reports if "ended" in report), "")
        return ended.startswith("exit ") and int(ended.split()[1]) not in _OTHERS_ENDS

    def why(self, seconds: float = 2.0) -> str:
        """Why the kernel ended, or part of it was killed, in a few words; "" if nothing is known."""
        self._listen(seconds)
        return _why(self.reports)

    def _send(self, line: bytes) -> None:
        with suppress(OSError):
            self.leash.send(line)

    def _listen(self, seconds: float, awaited: str = "ended") -> None:
        """Takes down what the keeper says, until it says no more for so long, or what is awaited."""
        text = b"\n"
        while text and not (self._told("ended") or self._told(awaited)):
            if not select.select([self.leash], [], [], seconds)[0]:
                return
            with suppress(OSError):  # the keeper was ended, and had not heard all
                text = b""
                text = self.leash.recv(65536)
            self.reports += [json.loads(line) for line in text.decode().splitlines()]

    def _told(self, word: str) -> bool:
        return any(word in report for report in self.reports)

    def drop(self) -> None:
        """Lets the kernel end, and all it started; `close` waits for that."""
        self.sock.close()
        with suppress(OSError):
            self.leash.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends the kernel and all it started."""
        self.drop()
        self.why(5.0)  # until the keeper hangs up too
        self.leash.close()
        if self.keeper:
            self.keeper.wait()


_OTHERS_ENDS = (70, *(128 + one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)))
"""70 is ours (see namespaces.py); the others are those of a process that was sent a signal."""
TOO_LONG = "it computed longer than it may"
_KILLED = {
    "memory": "it used more memory than it may",
    "processes": "it started more processes than it may",
    "time": TOO_LONG,
}


def _why(reports: list[dict]) -> str:
    for report in reports:
        if "killed" in report:
            return _KILLED[report["killed"]]
    ended = next((report["ended"] for report in reports if "ended" in report), "")
    return f"it ended ({ended})" if ended else ""
