"""The judge's own process: runs the setup cell and the test cells, as the instructors wrote them, and never a line of a
student's. A name that a test cell uses and nothing here defines is asked for in the student's kernel."""

import contextlib
import importlib
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from autograder.judge import proxies
from autograder.judge.cell_source import unknown_names, without_repeats
from autograder.judge.protocol import BorderError, Endpoint, Packer, Wire, read
from autograder.judge.shell import CapturedOutput, Shell, messages, new_shell, run_cell
from autograder.judge.torch_warmup import warm_up_torch
from helpers.engine.anti_gaming import ROUNDS, Rounds
from helpers.engine.check import Check, CheckGroup
from helpers.engine.warmup import rehearse

TRIES, SOON = 3, 5.0  # forks, until one is well; seconds in which it says so


def preload(preload: Iterable[str] = (), seed: int | None = None) -> Iterable[None]:
    """Imports the unit's checks, and what the first call of one would have to. Returns what can be done later, step by
    step, or not at all: with a seed, that the checks find out what is the same for every submission."""
    loaded = []
    for name in preload:
        with contextlib.suppress(Exception):  # then the test cell that needs it says why
            loaded.append(importlib.import_module(name))
    warm_up_torch()
    return () if seed is None else rehearsal(loaded, seed)


def rehearsal(modules: list[ModuleType], seed: int) -> Iterator[None]:
    """An exercise's check, and its hidden cases, bear its name in two of the modules."""
    found = [vars(module) for module in modules]
    for name in dict.fromkeys(name for names in found for name in names.get("__all__", ())):
        check = next((names[name] for names in found if isinstance(names.get(name), (Check, CheckGroup))), None)
        cases = next((names[name] for names in found if isinstance(names.get(name), (list, dict, tuple))), None)
        with contextlib.suppress(Exception):  # what is wrong with the check, its test cell says
            yield from rehearse(check, cases, seed) if check else ()


def main(sock: socket.socket, request: dict) -> None:
    """Run cells until home hangs up."""
    proxies.CALL_SECONDS = request["call_seconds"]
    wire = Wire(sock)
    said, shell, tests = CapturedOutput(), new_shell(wire, request["seed"]), Tests(Fork(wire))
    wire.send(Packer().frame({"ready": True}))
    for message in messages(wire):
        shell.execution_count = message["count"]
        status = (
            tests.run(shell, said, message) if message["ask"] == "test" else run_cell(shell, said, message["source"])
        )
        wire.send(Packer().frame({"done": status}))


@dataclass
class Tests:
    """The test cells. Each runs in two rounds: all of them for the cases that a card shows, then all of them for the
    hidden ones.

    shown: what came of the first round, by the places of the cells; lost: why the fork answered a cell no more."""

    fork: "Fork"
    shown: dict[int, list] = field(default_factory=dict)
    lost: dict[int, Any] = field(default_factory=dict)

    def run(self, shell: Shell, said: CapturedOutput, message: dict) -> str:
        """One test cell, in one round. The student's names are there for this one cell. Returns "ok", or the kind
        and message of an error."""
        os.environ["ATTENTION_COURSE_ORDER"] = message["order"]
        source, place, hidden = without_repeats(message["source"]), message["place"], message["hidden"]
        self.fork.enter(hidden)
        names = Names(self.fork, place, unknown_names(source, shell.user_ns), message["absent"], message["written"])
        before = self.lost.get(place) if hidden else None
        names.endpoint.lost = names.endpoint.lost or before  # it stays lost: no call hangs three times
        kept = [*self.shown.get(place, ())] if hidden else []
        token = ROUNDS.set(Rounds(hidden, kept))
        shell.user_ns.update(names.values)
        status = run_cell(shell, said, source)
        ROUNDS.reset(token)
        for name in names.values:
            shell.user_ns.pop(name, None)
        if not hidden:
            self.shown[place], self.lost[place] = kept, names.endpoint.lost
        if names.endpoint.broke_off:
            self.fork.home.send(Packer().frame({"lost": names.endpoint.broke_off}))
        names.close()
        return status


class Fork:
    """The fork of the student's kernel that answers, for all test cells of a round. Home makes it, and ends the one
    before with all that the student ever started."""

    def __init__(self, home: Wire):
        self.home, self.hidden = home, False
        self.kept: Wire | None = None

    def enter(self, hidden: bool) -> None:
        """What answered in the other round answers no more."""
        if hidden != self.hidden and self.kept:
            self.kept.close()
            self.kept = None
        self.hidden = hidden

    def ask_for(self, place: int) -> Endpoint:
        """It, at the place of a test cell: a fresh one where there is none, or the last conversation broke off."""
        for _ in range(TRIES):
            wire, self.kept = self.kept or self._fresh(), None
            endpoint = Endpoint(wire, proxies.remote, proxies.serve_callbacks, named=False)
            if _goes_to(endpoint, place):
                return endpoint
            wire.close()
        endpoint.lost = proxies.GONE
        return endpoint

    def hand_back(self, endpoint: Endpoint) -> None:
        """The test cell has no more questions."""
        try:
            endpoint.forget_ahead(0 if endpoint.lost else proxies.CALL_SECONDS)
        except BorderError as problem:
            endpoint.lost = problem
        if endpoint.lost:
            endpoint.wire.close()
        else:
            self.kept = endpoint.wire

    def _fresh(self) -> Wire:
        self.home.send(Packer().frame({"want": "fork"}))
        read(self.home.receive(None))
        _, (descriptor,), _, _ = socket.recv_fds(self.home.sock, 1, 1)
        return Wire(socket.socket(fileno=descriptor))


def _goes_to(endpoint: Endpoint, place: int) -> bool:
    """Whether a fork is well, has said nothing unasked, and has gone to the place of this test cell."""
    number = secrets.randbits(60)
    try:
        seconds = min(proxies.CALL_SECONDS, SOON)
        found = endpoint.ask(seconds, ask="go to", place=place, number=number).get("ok")
        return type(found) is int and found == number
    except BorderError:
        return False


class Names:
    """What a test cell's names of the student's stand for, in the fork that answers.

    place: of the test cell; absent: why a name is not there; written: what its source may not say."""

    def __init__(self, fork: Fork, place: int, names: list[str], absent: dict, written: dict):
        self.fork, self.absent = fork, absent
        self.endpoint = fork.ask_for(place)
        self.values = {name: self._value(name) for name in names}
        for name, value in self.values.items():
            if isinstance(value, proxies.Remote):
                value.__dict__["__written__"] = written.get(name, {})

    def close(self) -> None:
        self.fork.hand_back(self.endpoint)

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


def _absent(name: str, why: str) -> proxies.UndefinedName:
    return proxies.UndefinedName(name, f"`{name}` {why}")
