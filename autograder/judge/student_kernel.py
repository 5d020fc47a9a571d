"""What answers in a student's kernel. Student code shares this process and may have patched everything here: then wrong
values go out, and no more than values ever does; scores are made elsewhere (see submission.py).

The kernel runs the student's cells. Where a test cell stands in the notebook it takes down what every name means there.
After the last cell it forks, and the fork answers the judge's questions; another one does when all that is shown has
been asked, or when the first is lost. What a question does to them, no cell sees."""

import contextlib
import gc
import importlib
import os
import random
import resource
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

import numpy
import torch

from autograder.judge.import_stubs import install_import_stubs
from autograder.judge.pip_blocker import block_pip
from autograder.judge.protocol import BorderError, Endpoint, Packer, RemoteReference, Wire
from autograder.judge.shared_maps import share_by_files
from autograder.judge.shell import CapturedOutput, Shell, messages, new_shell, run_cell

OUT_OF_REACH = "The reference of a unit is out of reach while that unit is graded: call your own function."
Missing = object()
WATCH: list = []  # `observe` as it was imported, whatever is put in its place later


def main(sock: socket.socket, request: dict) -> None:
    """The life of a student's kernel: run cells, mark the places of tests, and fork, until home hangs up."""
    wire = Wire(sock)
    said, shell = CapturedOutput(), new_shell(wire, request["seed"])
    sys.path.append("")  # the scratch folder: `%%writefile utils.py` and then `import utils`
    install_import_stubs()
    share_by_files()
    block_pip(shell)
    wire.send(Packer().frame({"ready": True}))
    places: dict[int, dict] = {}  # what the names mean where a test cell stands
    for message in messages(wire):
        if message["ask"] == "run":
            shell.execution_count = message["count"]
            wire.send(Packer().frame({"done": run_cell(shell, said, message["source"])}))
        elif message["ask"] == "mark":
            places[message["place"]] = dict(shell.user_ns)
        else:
            wire.send(Packer().frame({"done": _fork(shell, places, sock, request)}))


def _fork(shell: Shell, places: dict[int, dict], sock: socket.socket, request: dict) -> str:
    """Forks a copy of this kernel that answers on the socket that home sends along. Returns "ok", or why it can't."""
    _, (descriptor,), _, _ = socket.recv_fds(sock, 1, 1)
    gc.freeze()
    for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_AS):  # cells had to leave some room for this
        most = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (most, most))
    try:
        _forget_the_ended()
        child = os.fork()
    except OSError as error:
        os.close(descriptor)
        return str(error)
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_CPU, (_cpu_used() + request["call_cpu"],) * 2)
            signal.signal(signal.SIGXCPU, _stop)
            sock.close()
            gc.disable()
            shell.outbox.left = 0  # what is printed from now on belongs to no cell
            state = State(shell.user_ns, places, request["call_cpu"] / 2)
            answers = socket.socket(fileno=descriptor)
            answers.send(b"!")  # which process it is, home hears from the system
            answer_questions(answers, state, request["call_seconds"])
        finally:
            os._exit(0)
    os.close(descriptor)
    return "ok"


def _forget_the_ended() -> None:
    """The fork before this one, and what cells have started: home has seen to it that they ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class Timeout(Exception):
    """A call has used up its processor time."""


def _stop(*_: Any) -> None:
    raise Timeout("the call computed longer than it may and was given up.")


def _cpu_used() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime)


# ---------------------------------------------------------------- questions


class Callback(RemoteReference):
    """Stands for a function of the judge's that was passed in as an argument, or for an iterator (`Stream`)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _returned(self.__endpoint__.ask(ask="call", number=self.__number__, args=args, kwargs=kwargs))

    def __iter__(self) -> "Callback":
        return self

    def __next__(self) -> Any:
        answer = self.__endpoint__.ask(ask="call", number=self.__number__, args=(), kwargs={})
        if answer.get("error", {}).get("kind") == StopIteration.__name__:
            raise StopIteration
        return _returned(answer)


def _returned(answer: dict) -> Any:
    if "error" in answer:
        raise RuntimeError(f"{answer['error']['kind']}: {answer['error']['message']}")
    return answer["ok"]


@dataclass
class State:
    """Of a fork. names: the namespace of the cells, and of the functions in them; places: what it holds where each test
    cell stands; spare: seconds of processor time that have to be left for a test cell. `before`: what PyTorch has for
    the whole process, as the cells left it."""

    names: dict[str, Any]
    places: dict[int, dict]
    spare: float
    before: tuple = field(default_factory=lambda: tuple(get() for get, _ in _OF_THE_PROCESS))


_OF_THE_PROCESS: list[tuple[Callable, Callable]] = [
    (torch.get_rng_state, torch.set_rng_state),
    (numpy.random.get_state, numpy.random.set_state),
    (random.getstate, random.setstate),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
]


def answer_questions(sock: socket.socket, state: State, call_seconds: float) -> None:
    """Answers the judge until it hangs up, a question with several calls call by call, each within this processor
    time."""
    endpoint = Endpoint(Wire(sock), Callback, lambda endpoint, question: _answer(endpoint, question, state))
    while True:
        try:
            question = endpoint.hear()
            calls = question.pop("calls", [{}])
            for call in calls if isinstance(calls, list) else ():
                most = resource.getrlimit(resource.RLIMIT_CPU)[1]
                resource.setrlimit(resource.RLIMIT_CPU, (min(most, _cpu_used() + int(call_seconds) + 1), most))
                endpoint.serve(question | call)
        except BorderError:
            return


def _answer(endpoint: Endpoint, question: dict, state: State) -> dict:
    try:
        return {"ok": _QUESTIONS[question["ask"]](endpoint, question, state)}
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: a student may raise what they like
        bases = tuple(one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins")
        return {"error": {"kind": type(error).__name__, "message": str(error)[:2000], "where": "", "bases": bases}}


def _go_to(endpoint: Endpoint, question: dict, state: State) -> int:
    """Every name means again what it meant where this test cell stands, and of the test cells before it nothing is left
    in the process that could be taken away. Where they used up its time, another fork is wanted."""
    if resource.getrlimit(resource.RLIMIT_CPU)[1] - _cpu_used() < state.spare:
        raise Timeout("the calls of test cells before this one took too long.")
    endpoint.objects.clear()
    state.names.clear()
    state.names.update(state.places[question["place"]])
    for (_, put), value in zip(_OF_THE_PROCESS, state.before, strict=True):
        put(value)
    return question["number"]


def _get(endpoint: Endpoint, question: dict, state: State) -> dict:
    found = state.names.get(question["name"], Missing)
    return {"defined": found is not Missing, "value": None if found is Missing else found}


def _call(endpoint: Endpoint, question: dict, state: State) -> Any:
    return endpoint.objects[question["number"]](*question["args"], **question["kwargs"])


def _attribute(endpoint: Endpoint, question: dict, state: State) -> Any:
    return getattr(endpoint.objects[question["number"]], question["name"])


def _set(endpoint: Endpoint, question: dict, state: State) -> None:
    setattr(endpoint.objects[question["number"]], question["name"], question["value"])


def _observe(endpoint: Endpoint, question: dict, state: State) -> dict:
    seen = WATCH[0](
        endpoint.objects[question["number"]],
        question["args"],
        question["kwargs"],
        forbids=question["forbids"],
        gradient=question["gradient"],
        layouts=question["layouts"],
        reuses=question["reuses"],
        counts=question["counts"],
        steps=question["steps"],
    )
    return {
        "output": seen.output,
        "error": asdict(seen.error) if seen.error else None,
        "operations": dict(seen.operations),
        "flops": seen.flops,
        "largest": seen.largest,
        "living": seen.living,
        "elementwise": seen.elementwise,
        "modified": seen.modified,
        "gradients": seen.gradients,
        "forbidden": seen.forbidden,
        "away": seen.away,
        "overwrites": seen.overwrites,
        "keeps": seen.keeps,
        "saved": seen.saved,
        "backward_operations": dict(seen.backward_operations),
        "backward_flops": seen.backward_flops,
        "backward_largest": seen.backward_largest,
        "backward_error": asdict(seen.backward_error) if seen.backward_error else None,
    }


_QUESTIONS = {"go to": _go_to, "get": _get, "call": _call, "attribute": _attribute, "set": _set, "observe": _observe}


# ---------------------------------------------------------------- stand-ins for what students may not call meanwhile


def preload(preload: Iterable[str] = (), quiet: Iterable[str] = (), out_of_reach: Iterable[str] = ()) -> None:
    """Imports what a student's kernel may have; puts stand-ins in the place of what it may not."""
    for name in quiet:
        sys.modules[name] = _stand_in(name, lambda wanted: lambda *args, **kwargs: None)
    sys.meta_path.insert(0, _OutOfReachFinder(tuple(out_of_reach)))
    for name in preload:
        with contextlib.suppress(ImportError):  # then the setup cell says why
            importlib.import_module(name)
    from autograder.judge.torch_warmup import warm_up_torch
    from helpers.engine.observe import observe
    from helpers.engine.thread_tracing import follow_threads

    follow_threads()
    WATCH.append(observe)
    warm_up_torch()


class _OutOfReachFinder(MetaPathFinder, Loader):
    """Finds a stand-in for every module of the packages that are out of reach."""

    def __init__(self, packages: tuple[str, ...]):
        self.packages = packages

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        mine = any(name == package or name.startswith(f"{package}.") for package in self.packages)
        return ModuleSpec(name, self, is_package=True) if mine else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _stand_in(spec.name, lambda wanted: _out_of_reach)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _stand_in(name: str, attribute: Callable[[str], Any]) -> types.ModuleType:
    def get(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        return attribute(wanted)

    module = types.ModuleType(name)
    vars(module)["__getattr__"] = get
    return module


class OutOfReach(RuntimeError):
    """A reference was called that may not be called now."""


def _out_of_reach(*args, **kwargs):
    raise OutOfReach(OUT_OF_REACH)
