"""The judge's own process: runs the setup cell and the test cells, as the instructors wrote them, and never a line of a
student's. A name that a test cell uses and nothing here defines is asked for in the student's kernel."""

import contextlib
import importlib
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from autograder.judge import proxies
from autograder.judge.cell_source import unknown_names, without_repeats
from autograder.judge.protocol import BorderError, Endpoint, Packer, Wire, read
from autograder.judge.shell import CapturedOutput, Shell, messages, new_shell, run_cell
from autograder.judge.torch_warmup import warm_up_torch
from helpers.engine.check import Check, CheckGroup
from helpers.engine.warmup import rehearse

SHOWN, HIDDEN = "shown", "hidden"
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
    said, shell, forks = CapturedOutput(), new_shell(wire, request["seed"]), Forks(wire)
    wire.send(Packer().frame({"ready": True}))
    for message in messages(wire):
        shell.execution_count = message["count"]
        status = (
            _test(shell, said, message, forks) if message["ask"] == "test" else run_cell(shell, said, message["source"])
        )
        wire.send(Packer().frame({"done": status}))


def _test(shell: Shell, said: CapturedOutput, message: dict, forks: "Forks") -> str:
    """Runs a test cell. The student's names are there for this one cell."""
    os.environ["ATTENTION_COURSE_ORDER"] = message["order"]
    source = without_repeats(message["source"])
    names = Names(forks, message["place"], unknown_names(source, shell.user_ns), message["absent"], message["written"])
    shell.user_ns.update(names.values)
    status = run_cell(shell, said, source)
    for name in names.values:
        shell.user_ns.pop(name, None)
    for reason in names.losses():
        forks.home.send(Packer().frame({"lost": reason}))
    names.close()
    return status


class Forks:
    """The two forks of the student's kernel that answer: one for the cases that a card shows, and one for the hidden
    ones, which is never asked for anything that is shown. Home makes them, for all test cells."""

    def __init__(self, home: Wire):
        self.home, self.kept = home, {}

    def ask_for(self, which: str, place: int) -> Endpoint:
        """One of them, at the place of a test cell: a fresh one where there is none, or the last conversation broke
        off."""
        for _ in range(TRIES):
            wire = self.kept.pop(which, None) or self._fresh(which)
            endpoint = Endpoint(wire, proxies.remote, proxies.serve_callbacks, named=False)
            if _goes_to(endpoint, place):
                return endpoint
            wire.close()
        endpoint.lost = proxies.GONE
        return endpoint

    def hand_back(self, which: str, endpoint: Endpoint) -> None:
        """The test cell has no more questions."""
        try:
            endpoint.forget_ahead(0 if endpoint.lost else proxies.CALL_SECONDS)
        except BorderError as problem:
            endpoint.lost = problem
        if endpoint.lost:
            endpoint.wire.close()
        else:
            self.kept[which] = endpoint.wire

    def _fresh(self, which: str) -> Wire:
        self.home.send(Packer().frame({"want": which}))
        read(self.home.receive(None))
        _, (descriptor,), _, _ = socket.recv_fds(self.home.sock, 1, 1)
        return Wire(socket.socket(fileno=descriptor))


def _goes_to(endpoint: Endpoint, place: int) -> bool:
    """Whether a fork is well, has said nothing unasked, and has gone to the place of this test cell."""
    number = secrets.randbits(60)
    try:
        seconds = min(proxies.CALL_SECONDS, SOON)
        return endpoint.ask(seconds, ask="go to", place=place, number=number) == {"ok": number}
    except BorderError:
        return False


class Names:
    """What a test cell's names of the student's stand for, in the fork that answers: at first the one for cases that
    are shown.

    place: of the test cell; absent: why a name is not there; written: what its source may not say. found: of each fork
    that was asked for, its endpoint, and the number that stands there for each name that can be called."""

    def __init__(self, forks: Forks, place: int, names: list[str], absent: dict, written: dict):
        self.forks, self.place, self.absent = forks, place, absent
        self.endpoint = self._ask_for(SHOWN)
        self.values = {name: self._value(name) for name in names}
        self.found = {SHOWN: (self.endpoint, self._numbers(self.values))}
        for name, value in self.values.items():
            if isinstance(value, proxies.Remote):
                value.__dict__["__written__"] = written.get(name, {})

    def select_fork(self, which: str) -> None:
        """This fork answers from here on. What is lost stays lost in this test cell: no call hangs three times."""
        if self.endpoint.lost:
            return
        if which in self.found:
            self.endpoint, numbers = self.found[which]
        else:
            self.endpoint = self._ask_for(which)
            numbers = self._numbers({name: self._value(name) for name in self._numbers(self.values)})
            self.found[which] = self.endpoint, numbers
        for name in self._numbers(self.values):
            if name not in numbers:
                self.endpoint.lost = proxies.GONE
            self.values[name].__dict__.update(__endpoint__=self.endpoint, __number__=numbers.get(name, 0))

    def close(self) -> None:
        for which, (endpoint, _) in self.found.items():
            self.forks.hand_back(which, endpoint)

    def losses(self) -> list[str]:
        """How the forks that were asked for broke off."""
        return [endpoint.broke_off for endpoint, _ in self.found.values() if endpoint.broke_off]

    def _ask_for(self, which: str) -> Endpoint:
        endpoint = self.forks.ask_for(which, self.place)
        endpoint.select_fork = self.select_fork
        return endpoint

    def _numbers(self, values: dict[str, Any]) -> dict[str, int]:
        return {name: value.__number__ for name, value in values.items() if isinstance(value, proxies.Remote)}

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
