"""A running kernel, seen from outside, however it was started."""

from __future__ import annotations

import json
import select
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress

from autograder.judge.protocol import Bounds, Packer, Wire

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
        try:
            self.leash.send(b"i\n")
        except OSError:
            pass

    def allow(self, seconds: float) -> None:
        """So much processor time from now on, then an interrupt, and soon after it the end; 0: as much as it wants."""
        try:
            self.leash.send(b"c %.2f\n" % seconds)
        except OSError:
            pass

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

    def _listen(self, seconds: float) -> None:
        """Takes down what the keeper says, until it says no more for so long."""
        while "ended" not in str(self.reports) and select.select([self.leash], [], [], seconds)[0]:
            text = self.leash.recv(65536)
            if not text:
                break
            self.reports += [json.loads(line) for line in text.decode().splitlines()]

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
