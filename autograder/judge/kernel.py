"""A running kernel, seen from outside, however it was started."""

from __future__ import annotations

import json
import select
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress

from autograder.judge.protocol import Bounds, Packer, Wire

ALONE_SECONDS = 60.0  # in which a keeper has ended all but the kernel, however busy the machine
OUTPUTS = Bounds(frame=8 << 20)  # of what a kernel sends home: outputs of cells


class Kernel:
    """A running kernel: its wire, and the leash of the keeper that watches it."""

    def __init__(self, sock: socket.socket, leash: socket.socket, keeper: subprocess.Popen | None = None):
        self.sock, self.wire, self.leash, self.keeper = sock, Wire(sock, OUTPUTS), leash, keeper
        self.reports: list[dict] = []
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
        while not any("alone" in report for report in self.reports) and self._listen_once(ALONE_SECONDS):
            pass
        self.reports = [report for report in self.reports if "alone" not in report]

    def overran(self) -> bool:
        """Whether it was interrupted for using up its processor time since this was asked last."""
        self._listen(0.0)
        over = any("over" in report for report in self.reports)
        self.reports = [report for report in self.reports if "over" not in report]
        return over

    def why(self, seconds: float = 2.0) -> str:
        """Why the kernel ended, or part of it was killed, in a few words; "" if nothing is known."""
        self._listen(seconds)
        return _why(self.reports)

    def _send(self, line: bytes) -> None:
        with suppress(OSError):
            self.leash.send(line)

    def _listen(self, seconds: float) -> None:
        """Takes down what the keeper says, until it says no more for so long."""
        while self._listen_once(seconds):
            pass

    def _listen_once(self, seconds: float) -> bool:
        """Takes down what the keeper says next; False if that is nothing, and where it never will."""
        if "ended" in str(self.reports) or not select.select([self.leash], [], [], seconds)[0]:
            return False
        text = self.leash.recv(65536)
        self.reports += [json.loads(line) for line in text.decode().splitlines()]
        return bool(text)

    def drop(self) -> None:
        """Lets the kernel end, and all it started; `close` waits for that."""
        self.sock.close()
        with suppress(OSError):
            self.leash.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends the kernel and all it started."""
        self.drop()
        try:
            self.why(5.0)  # until the keeper hangs up too
        except OSError:
            pass
        self.leash.close()
        if self.keeper:
            self.keeper.wait()


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
