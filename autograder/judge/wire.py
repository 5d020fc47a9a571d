"""Frames over a socket between the judge and a kernel, each within a deadline: two lengths, JSON and safetensors. What
they hold is read in protocol.py."""

import select
import socket
import struct
from dataclasses import dataclass

from autograder.judge.wall_time import GAP, Deadline, Limit, deadline, wait

KERNEL_DIED = "KernelDied"  # the kind of error where the other side is gone
HEADER = struct.Struct(">II")  # bytes of JSON, bytes of safetensors


class BorderError(Exception):
    """Something can't cross the border, or what came is no frame; the message is one line."""


class Closed(BorderError):
    """The other side is gone."""


class ReplyTimeout(BorderError):
    """The other side did not answer in time."""


@dataclass(frozen=True)
class Bounds:
    """How much one frame may hold."""

    frame: int = 64 << 20  # bytes of JSON and of tensors, each
    nodes: int = 200_000
    tensors: int = 512
    depth: int = 24


BOUNDS = Bounds()


def too_large(bounds: Bounds) -> str:
    """What is said of a frame beyond its bounds."""
    return f"the value is larger than {bounds.frame >> 20} MB, or holds more than {bounds.tensors} tensors"


class Wire:
    """Frames over a connected socket, each within a deadline. What has come is read before the clock is looked at, and
    what has come of a frame is kept: a later call goes on where this one gave up."""

    def __init__(self, sock: socket.socket, bounds: Bounds = BOUNDS):
        self.sock, self.bounds = sock, bounds
        self.part = bytearray()  # of the next frame. Never more than that: descriptors may come after it

    def send(self, frame: bytes, limit: Limit = None) -> None:
        """ReplyTimeout if the other side does not take the frame in time, Closed if it is gone."""
        rest, until = memoryview(frame), deadline(limit)
        while rest:
            try:
                rest = rest[self.sock.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, until)
            except OSError:
                raise Closed("the connection is closed") from None

    def receive(self, limit: Limit = None) -> tuple[bytes, bytes]:
        """The two parts of the next frame. ReplyTimeout, Closed, or BorderError for a frame that is too large."""
        until = deadline(limit)
        while (missing := self._whole() - len(self.part)) > 0:
            if until and until.left() < -GAP:  # there is always something to read from who never stops
                raise ReplyTimeout("no answer in time")
            self.part += self._some(min(missing, 1 << 20), until)
        frame, self.part = bytes(self.part), bytearray()
        middle = HEADER.size + HEADER.unpack_from(frame)[0]
        return frame[HEADER.size : middle], frame[middle:]

    def close(self) -> None:
        self.sock.close()

    def _whole(self) -> int:
        """The bytes of the next frame, as far as that is known."""
        if len(self.part) < HEADER.size:
            return HEADER.size
        sizes = HEADER.unpack_from(self.part)
        if max(sizes) > self.bounds.frame:
            raise BorderError(too_large(self.bounds))
        return HEADER.size + sum(sizes)

    def _some(self, count: int, until: Deadline | None) -> bytes:
        while True:
            try:
                chunk = self.sock.recv(count, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(select.POLLIN, until)
                continue
            except OSError:
                raise Closed("the connection is closed") from None
            if not chunk:
                raise Closed("the connection is closed")
            return chunk

    def _wait(self, event: int, until: Deadline | None) -> None:
        if not wait(self.sock, event, until):
            raise ReplyTimeout("no answer in time")
