"""The judge's own process: runs the setup cell and the test cells, as the instructors wrote them, and never a line of a
student's. A name that a test cell uses and nothing here defines is asked for in the student's kernel.
"""

import contextlib
import importlib
import os
import socket
from collections.abc import Iterable
from typing import Any

import torch

from autograder.judge import proxies
from autograder.judge.cells import unknown_names, without_repeats
from autograder.judge.shell import Said, Shell, messages, new_shell, run_cell
from autograder.judge.wire import BorderError, Endpoint, Packer, Wire, read
from helpers.engine.observe import observe


def preload(preload: Iterable[str] = ()) -> None:
    """Imports the unit's checks, and what the first call of one would have to."""
    for name in preload:
        with contextlib.suppress(Exception):  # then the test cell that needs it says why
            importlib.import_module(name)
    observe(lambda x: x.softmax(0), (torch.ones(2),), gradient=True)


def main(sock: socket.socket, request: dict) -> None:
    """Run cells until home hangs up. With a test cell comes the socket of the kernel that it is about."""
    proxies.CALL_SECONDS = request["call_seconds"]
    wire = Wire(sock)
    said, shell = Said(), new_shell(wire, request["seed"])
    wire.send(Packer().frame({"ready": True}))
    for message in messages(wire):
        shell.execution_count = message["count"]
        status = (
            _test(shell, said, message, wire) if message["ask"] == "test" else run_cell(shell, said, message["source"])
        )
        wire.send(Packer().frame({"done": status}))


def _test(shell: Shell, said: Said, message: dict, wire: Wire) -> str:
    """Runs a test cell. The student's names are there for this one cell."""
    os.environ["ATTENTION_COURSE_ORDER"] = message["order"]
    source = without_repeats(message["source"])
    names = Names(wire, unknown_names(source, shell.user_ns), message["absent"], message["written"])
    shell.user_ns.update(names.values)
    status = run_cell(shell, said, source)
    for name in names.values:
        shell.user_ns.pop(name, None)
    names.close()
    return status


class Names:
    """What a test cell's names of the student's stand for, in the fork that answers for them.

    wire: to home, where a fresh fork is asked for. absent: why a name is not there; written: what its source may not say."""

    def __init__(self, wire: Wire, names: list[str], absent: dict, written: dict):
        self.home, self.absent = wire, absent
        self.endpoint = self._received()
        self.values = {name: self._value(name) for name in names}
        for name, value in self.values.items():
            if isinstance(value, proxies.Remote):
                value.__dict__["__written__"] = written.get(name, {})

    def renew(self) -> None:
        """A fresh fork answers from here on, one that has not been called yet. What is lost stays lost in this test cell: a
        call that hangs is not tried three times."""
        if self.endpoint.lost or not self.endpoint.called:
            return
        self.close()
        self.home.send(Packer().frame({"want": "fork"}))
        read(self.home.receive(None))
        self.endpoint = self._received()
        for name, old in self.values.items():
            if isinstance(old, proxies.Remote):
                self._rebind(old, self._value(name))

    def close(self) -> None:
        self.endpoint.wire.close()

    def _received(self) -> Endpoint:
        _, (descriptor,), _, _ = socket.recv_fds(self.home.sock, 1, 1)
        endpoint = Endpoint(
            Wire(socket.socket(fileno=descriptor)), proxies.remote, proxies.serve_callbacks, named=False
        )
        endpoint.renew = self.renew
        return endpoint

    def _rebind(self, old: proxies.Remote, new: Any) -> None:
        place = new if isinstance(new, proxies.Remote) else proxies.Remote(self.endpoint, 0, "object", old.__name__)
        if place is not new:
            self.endpoint.lost = proxies.GONE
        old.__dict__.update(__endpoint__=self.endpoint, __number__=place.__number__)

    def _value(self, name: str) -> Any:
        reason = self.absent.get(name, "")
        try:
            answer = self.endpoint.ask(proxies.CALL_SECONDS, ask="get", name=name)["ok"]
            return self._live(answer["value"]) if answer["defined"] is True else _absent(name, f"isn't defined{reason}")
        except (BorderError, KeyError, TypeError):
            return _absent(name, f"can't be reached{reason}")

    def _live(self, value: Any) -> Any:
        if isinstance(value, proxies.Remote):
            value.__dict__["__live__"] = True
        return value


def _absent(name: str, why: str) -> proxies.Absent:
    return proxies.Absent(name, f"`{name}` {why}")
