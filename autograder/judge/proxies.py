"""In the judge, what stands for a student's functions, classes and objects: calling a `Remote` asks the student's
kernel, and plain values come back.

Only what a test cell names, and what calling a class gives, is *live*: its attributes can be read, each time anew. Any
other object of a student's is a value that nobody here can read: asked twice, it could answer in two ways, and be taken
for a tensor."""

import builtins
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from autograder.judge.protocol import BorderError, Closed, Endpoint, RemoteReference, ReplyTimeout
from autograder.judge.wire import KERNEL_DIED
from helpers.engine.observe import ACTIVE, Observation, StudentError, untraced

CALL_SECONDS = 20.0
"""How long the judge waits for an answer; `judging` sets it."""


MOST_BASES = 20
MOST_LISTED = 1000


class RemoteError(Exception):
    """What a student's code raised, or what became of the call. `student_error` is what the card shows."""

    def __init__(self, error: StudentError):
        super().__init__(str(error))
        self.student_error = error


def _raised(error: StudentError) -> RemoteError:
    """The error as Python's own exception, too, that it was there: what a check does about an AttributeError of an
    answer in its own process it does about one from here."""
    for name in error.bases:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            with suppress(TypeError):  # one that is made of something else than words
                return type(RemoteError.__name__, (RemoteError, kind), {})(error)
    return RemoteError(error)


class Remote(RemoteReference):
    """In the judge: something of the student's. Private and special names are never asked for."""

    __written__: dict = {}  # what was found in its source (see Written in judge.py)
    __live__ = False  # whether its attributes can be read

    @property
    def __source__(self) -> str:
        return self.__written__.get("source", "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output. Inside an observation of the judge's own, what the call did is counted there."""
        if ACTIVE.get() is None:
            return self.__output__(self.__asked__("call", args=args, kwargs=kwargs))
        seen = self.__observe__(args, kwargs)
        if seen.error:
            raise _raised(seen.error)
        return seen.output

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__asked__("attribute", name=name) if self.__live__ else self.__refuse__()

    def __setattr__(self, name: str, value: Any) -> None:
        self.__asked__("set", name=name, value=value) if self.__live__ else self.__refuse__()

    def __observe__(
        self,
        args: tuple = (),
        kwargs: dict | None = None,
        *,
        forbids=(),
        gradient=False,
        layouts=(),
        reuses=False,
        counts: bool | None = None,
        steps=0,
    ) -> Observation:
        """The call as `helpers.engine.observe` saw it in the student's kernel. Inside an observation of the judge's own
        it is a part of that one: it counts there, and its output may be live. Else the output is plain."""
        active = ACTIVE.get()
        forbids = tuple(forbids) or (active.forbids if active else ())
        counts = active.counts or counts is True if active else counts
        steps = active.steps if active else steps
        question = _call(args, kwargs, forbids, gradient, layouts, reuses, counts, steps)
        try:
            seen = observation(args, kwargs or {}, self.__asked__("observe", **question))
        except RemoteError as error:
            return Observation(args, kwargs or {}, error=error.student_error)
        if seen.error and seen.error.kind == "Timeout":
            self.__endpoint__.lost = seen.error  # or it would be given up once for every case
        if forbids and (seen.away or self.__written__.get("evades")):
            seen.forbidden += tuple(n for n in self.__written__.get("names", ()) if n not in seen.forbidden)
        seen.output = self.__output__(seen.output) if active else tree_map(recorded, seen.output)
        if active:
            active.add(seen)
        return seen

    def __ahead__(self, calls: list[tuple[tuple, dict]]) -> None:
        """These observations, each with its arguments and what else `__observe__` is told, will be asked for next, in
        this order: the student's kernel begins with them."""
        asked = [_call(args, None, **options) for args, options in calls]
        try:
            if not self.__endpoint__.lost:
                self.__endpoint__.ask_ahead(
                    CALL_SECONDS, [args for args, _ in calls], ask="observe", number=self.__number__, calls=asked
                )
        except (Closed, ReplyTimeout) as problem:
            self.__endpoint__.lost = _loss(problem)
        except BorderError:  # too large together: one by one, then
            return

    def __recorded__(self) -> "RemoteObject":
        return type(type(self).__name__, (RemoteObject,), {"__module__": "builtins"})(
            self.__endpoint__, self.__number__, self.__kind__, self.__name__
        )

    def __output__(self, output: Any) -> Any:
        """What a call gave: live if it is what a class makes."""
        if isinstance(output, Remote) and self.__kind__ == "class":
            output.__dict__["__live__"] = True
        return output

    def __refuse__(self) -> None:
        raise AttributeError(f"{self!r} is an object of your own, where a tensor or a plain Python value is expected")

    def __asked__(self, ask: str, **question: Any) -> Any:
        error = self.__endpoint__.lost
        try:
            with _disable_current_modes(), untraced():  # sending a tensor is no operation of the student's, and no step
                answer = {"error": error} if error else self.__heard__(ask, question)
            if "error" not in answer:
                return answer["ok"]
            error = error or _student_error(answer["error"])
        except (BorderError, KeyError) as problem:
            self.__endpoint__.lost = error = _loss(problem)
        raise _raised(error) from None

    def __heard__(self, ask: str, question: dict) -> dict:
        """The answer, to what was asked ahead if it is that."""
        ahead = self.__endpoint__.ahead
        if ask == "observe" and ahead and ahead[0] is question["args"]:
            return self.__endpoint__.next_answer(CALL_SECONDS)
        return self.__endpoint__.ask(CALL_SECONDS, ask=ask, number=self.__number__, **question)


def _call(
    args: tuple, kwargs: dict | None, forbids=(), gradient=False, layouts=(), reuses=False, counts=None, steps=0
) -> dict:
    """What a student's kernel is told of an observation."""
    return {
        "args": args,
        "kwargs": kwargs or {},
        "forbids": tuple(forbids),
        "gradient": bool(gradient),
        "layouts": tuple(layouts),
        "reuses": bool(reuses),
        "counts": counts is not False,
        "steps": int(steps),
    }


class RemoteObject(RemoteReference):
    """An object of the student's in an output that is compared: it has a name and a home, no more."""


def recorded(value: Any) -> Any:
    """A part of an output as it is looked at: nothing in it can answer differently the second time."""
    return value.__recorded__() if isinstance(value, Remote) else value


def _loss(problem: Exception) -> StudentError:
    if isinstance(problem, ReplyTimeout):
        return StudentError(
            "Timeout", f"the call took longer than it may ({CALL_SECONDS:.3g} seconds) and was given up."
        )
    if isinstance(problem, Closed):
        return StudentError(
            KERNEL_DIED, "the call ended the process it ran in, or used more memory or time than it may."
        )
    return StudentError("BorderError", f"what came back can't be read: {problem}.")


def _student_error(error: Any) -> StudentError:
    if not isinstance(error, dict):
        return StudentError("BorderError", "what came back can't be read.")
    bases = error.get("bases")
    known = tuple(str(name) for name in bases[:MOST_BASES]) if isinstance(bases, (tuple, list)) else ()
    kind, message, where, plain = (str(error.get(part, ""))[:2000] for part in ("kind", "message", "where", "plain"))
    return StudentError(kind, message, where, known, plain)


def observation(args: tuple, kwargs: dict, seen: Any) -> Observation:
    """An Observation from what the student's kernel says; every field is checked, for anything may stand in it."""
    try:
        return Observation(
            args,
            kwargs,
            seen["output"],
            _error(seen["error"]),
            _counts(seen["operations"]),
            _count(seen["flops"]),
            _count(seen["largest"]),
            tuple(key for key in _listed(seen["modified"]) if isinstance(key, (int, str))),
            _gradients(seen["gradients"], (args, kwargs)),
            _names(seen["forbidden"]),
            _count(seen["saved"]),
            _counts(seen["backward_operations"]),
            _count(seen["backward_flops"]),
            _count(seen["backward_largest"]),
            _error(seen["backward_error"]),
            seen.get("away") is True,
            _count(seen["living"]),
            seen.get("overwrites") is True,
            _count(seen["elementwise"]),
            _count(seen["keeps"]),
        )
    except Exception:  # a tensor, a range, a number of a thousand digits where something else is due
        return Observation(args, kwargs, error=StudentError("BorderError", "what came back can't be read"))


def _listed(value: Any) -> list:
    """At most so many entries as an honest call has."""
    if not isinstance(value, (list, tuple)):
        raise TypeError("no list")
    return list(value[:MOST_LISTED])


def _error(error: Any) -> StudentError | None:
    return None if error is None else _student_error(error)


def _counts(counts: Any) -> Counter[str]:
    return Counter({str(name): _count(times) for name, times in counts.items()})


def _gradients(gradients: Any, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """One for every floating-point tensor that went in, or none at all."""
    if gradients is None:
        return None
    asked = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if len(gradients) != len(asked) or not all(grad is None or isinstance(grad, Tensor) for grad in gradients):
        raise TypeError("not the gradients that were asked for")
    return tuple(gradients)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


def _names(names: Any) -> tuple[str, ...]:
    """Names of functions, and nothing else that somebody might want to have shown."""
    return tuple(str(name)[:60] for name in _listed(names) if str(name).replace(".", "_").isidentifier())


GONE = StudentError(KERNEL_DIED, "what it was a moment ago can't be found again.")


def remote(endpoint: Endpoint, number: int, kind: str, name: str) -> Remote:
    """A `Remote` whose type is named after the student's own, for messages that say what was returned."""
    named = type(name if kind == "object" and name.isidentifier() else kind, (Remote,), {"__module__": "builtins"})
    return named(endpoint, number, kind, name)


class UndefinedName:
    """A name that the student's notebook does not define: every use says so, and why."""

    def __init__(self, name: str, reason: str):
        self.__name__, self.reason = name, reason

    def __observe__(self, args: tuple = (), kwargs: dict | None = None, **_: Any) -> Observation:
        return Observation(args, kwargs or {}, error=StudentError("NameError", self.reason))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NameError(self.reason)


def serve_callbacks(endpoint: Endpoint, question: dict) -> dict:
    """The judge's answer to a student's kernel, which may call the functions it was given and nothing else. Of an error
    it learns the type: its message may name the function, and so tell which case this is."""
    try:
        function: Callable = endpoint.objects[question["number"]]
        if question["ask"] != "call" or not callable(function):
            raise TypeError
        return {"ok": function(*question["args"], **question["kwargs"])}
    except Exception as error:
        message = "the function that was passed in can't be called like this"
        return {"error": {"kind": type(error).__name__, "message": message, "where": ""}}
