"""The wire between the judge and a student's kernel: what may cross it, in which form, and how much of it.

A frame is two lengths, a JSON tree and a safetensors blob; nothing is ever unpickled. Whatever comes in is rebuilt from
scratch as plain Python values and plain `torch.Tensor`s, so a student's subclass with a clever `__eq__` stays at home.
Functions, classes and other objects stay at home too: a number goes over in their place (see `Endpoint`).

Who hands notebooks to kernels sends and hears plain values alone, and has no need of PyTorch: it is imported with the
first tensor."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np

from autograder.judge.wall_time import Deadline, Limit, deadline
from autograder.judge.wire import BOUNDS, HEADER, BorderError, Bounds, Closed, ReplyTimeout, Wire, too_large

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# ---------------------------------------------------------------- values → frame


class Packer:
    """Turns one value into a JSON tree and a list of tensors. `export` numbers the objects that stay at home."""

    def __init__(self, export: Callable[[Any], list] | None = None, bounds: Bounds = BOUNDS):
        self.export, self.bounds = export, bounds
        self.tensors: list[Tensor] = []
        self.places: dict[int, int] = {}  # the same tensor twice stays one tensor
        self.kept: list[Tensor] = []  # an id is only good as long as its tensor lives
        self.nodes = self.bytes = 0

    def frame(self, value: Any) -> bytes:
        """The frame for `value`; BorderError where it is too large or can't cross."""
        text = json.dumps(self.node(value), allow_nan=False).encode()
        blob = _blob(self.tensors) if self.tensors else b""
        if max(len(text), len(blob)) > self.bounds.frame:
            raise BorderError(too_large(self.bounds))
        return HEADER.pack(len(text), len(blob)) + text + blob

    def node(self, value: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if depth > self.bounds.depth or self.nodes > self.bounds.nodes:
            raise BorderError("the value is nested too deeply or has too many parts")
        if pack := _packer(type(value), "torch" in sys.modules):  # type: ignore[arg-type]  # classes are hashable
            return pack(self, value, depth + 1)
        if self.export is None:
            raise BorderError(f"a value of type {type(value).__name__} can't cross")
        return self.export(value)

    def many(self, values: Any, depth: int) -> list:
        if isinstance(values, Sized) and len(values) > self.bounds.nodes - self.nodes:
            raise BorderError("the value has too many parts")
        return [self.node(value, depth) for value in values]

    def tensor(self, value: Tensor) -> int:
        """The place of a tensor in the blob, as contiguous memory on the CPU."""
        import torch

        if id(value) not in self.places:
            self.places[id(value)] = len(self.tensors)
            self.kept.append(value)
            self.bytes += value.numel() * value.element_size()
            if self.bytes > self.bounds.frame or len(self.tensors) >= self.bounds.tensors:
                raise BorderError(too_large(self.bounds))
            plain = value.detach().to_dense() if value.layout != torch.strided else value.detach()
            plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
            self.tensors.append(
                plain.resolve_neg().cpu().as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format)
            )
        return self.places[id(value)]

    def array(self, value: Any) -> list:
        import torch

        try:
            tensor = torch.from_numpy(np.array(value, subok=False))
        except TypeError:
            raise BorderError(f"a numpy array of {value.dtype} can't cross") from None
        return ["scalar" if isinstance(value, np.generic) else "array", self.node(tensor)]


def _blob(tensors: list[Tensor]) -> bytes:
    """As safetensors.torch.save, without its questions: these tensors are contiguous, on the CPU, and share no
    memory."""
    from safetensors import TensorSpec, serialize

    return bytes(
        serialize(
            {
                str(place): TensorSpec(
                    dtype=str(one.dtype).removeprefix("torch."),
                    shape=one.shape,
                    data_ptr=one.data_ptr(),
                    data_len=one.nbytes,
                )
                for place, one in enumerate(tensors)
            }
        )
    )


def _pack_float(packer: Packer, value: float, depth: int) -> Any:
    return float(value) if math.isfinite(value) else ["float", repr(float(value))]


def _pack_generator(packer: Packer, value: GeneratorType, depth: int) -> list:
    return ["list", packer.many(islice(value, packer.bounds.nodes), depth)]


_SCALARS: list[tuple[Any, Callable]] = [
    ((type(None), bool), lambda packer, value, depth: value),
    ((np.generic, np.ndarray), lambda packer, value, depth: packer.array(value)),
    (int, lambda packer, value, depth: int(value) if abs(int(value)) < 1 << 63 else ["int", hex(value)]),
    (float, _pack_float),
    (complex, lambda packer, value, depth: ["complex", packer.node(value.real), packer.node(value.imag)]),
    (str, lambda packer, value, depth: str(value)),
]
_REST: list[tuple[Any, Callable]] = [
    (list, lambda packer, value, depth: ["list", packer.many(value, depth)]),
    (tuple, lambda packer, value, depth: ["tuple", packer.many(value, depth)]),
    ((set, frozenset), lambda packer, value, depth: ["set", packer.many(value, depth)]),
    (dict, lambda packer, value, depth: ["dict", packer.many(value.keys(), depth), packer.many(value.values(), depth)]),
    (GeneratorType, _pack_generator),
    (range, lambda packer, value, depth: ["range", value.start, value.stop, value.step]),
    (slice, lambda packer, value, depth: ["slice", *packer.many((value.start, value.stop, value.step), depth)]),
    (type(...), lambda packer, value, depth: ["ellipsis"]),
]


@lru_cache(maxsize=256)
def _packer(kind: type, with_torch: bool) -> Callable | None:
    """What packs a value of this type: the first that fits counts."""
    packers = [*_SCALARS, *(_of_torch() if with_torch else []), *_REST]
    return next((pack for kinds, pack in packers if issubclass(kind, kinds)), None)


def _of_torch() -> list[tuple[Any, Callable]]:
    """PyTorch's kinds. No value is of one of them where nobody has imported it."""
    import torch

    return [
        (
            torch.Tensor,
            lambda packer, value, depth: ["tensor", packer.tensor(value), value.is_complex(), value.requires_grad],
        ),
        (torch.Size, lambda packer, value, depth: ["size", packer.many(value, depth)]),
        (torch.dtype, lambda packer, value, depth: ["dtype", str(value).removeprefix("torch.")]),
        (torch.device, lambda packer, value, depth: ["device", str(value)]),
        (torch.Generator, lambda packer, value, depth: ["generator", packer.node(value.get_state())]),
    ]


# ---------------------------------------------------------------- frame → values


class Unpacker:
    """Rebuilds a value from a JSON tree and tensors. `resolve` gives what a number stands for."""

    def __init__(self, tensors: list[Tensor], resolve: Callable[[list], Any] | None = None, bounds: Bounds = BOUNDS):
        self.tensors, self.resolve, self.bounds, self.nodes = tensors, resolve, bounds, 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if depth > self.bounds.depth or self.nodes > self.bounds.nodes:
            raise BorderError("the value is nested too deeply or has too many parts")
        if not isinstance(node, list):
            return _plain(node)
        tag, *rest = node
        if tag in ("ref", "home") and self.resolve:
            return self.resolve(node)
        return _UNPACKERS[tag](self, rest, depth + 1)

    def many(self, nodes: Any, depth: int) -> list:
        return [self.value(node, depth) for node in _list(nodes)]

    def tensor(self, place: Any, is_complex: Any, requires_grad: Any) -> Tensor:
        tensor = self.tensors[_index(place)]
        if is_complex is True:
            import torch

            tensor = torch.view_as_complex(tensor)
        return (
            tensor.requires_grad_()
            if requires_grad is True and (tensor.is_floating_point() or tensor.is_complex())
            else tensor
        )


def read(frame: tuple[bytes, bytes], resolve: Callable[[list], Any] | None = None, bounds: Bounds = BOUNDS) -> Any:
    """The value in a frame's two parts. Whatever is wrong with them: BorderError."""
    try:
        if _too_many(frame[0], 4 * bounds.nodes):
            raise BorderError("the value has too many parts")
        tensors = _tensors(frame[1], bounds) if frame[1] else []
        return Unpacker(tensors, resolve, bounds).value(json.loads(frame[0], parse_constant=_no_constant))
    except BorderError:
        raise
    except (
        Exception
    ) as error:  # the many ways in which bytes can be no frame: KeyError, SafetensorError, RecursionError …
        raise BorderError(f"not a frame ({type(error).__name__})") from None


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def _too_many(text: bytes, most: int) -> bool:
    """Whether a JSON text holds more values than that, found out before any is made. Strings' insides don't count."""
    found = _separators(text)
    if found <= most:
        return False
    for count, string in enumerate(_STRING.finditer(text)):
        found -= _separators(string[0])
        if count > most:
            return True
    return found > most


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _tensors(blob: bytes, bounds: Bounds) -> list[Tensor]:
    import safetensors.torch

    found = safetensors.torch.load(blob)
    if len(found) > bounds.tensors:
        raise BorderError(too_large(bounds))
    return [_normal(found[str(place)]) for place in range(len(found))]


def _normal(tensor: Tensor) -> Tensor:
    """A byte that is neither 0 nor 1 is no bool, yet would be taken for one that equals everything and nothing."""
    import torch

    return tensor.view(torch.uint8) != 0 if tensor.dtype == torch.bool else tensor


def _no_constant(name: str) -> None:
    raise BorderError(f"not a frame ({name})")


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        raise BorderError("not a frame (an object)")
    return node


def _list(node: Any) -> list:
    if not isinstance(node, list):
        raise BorderError("not a frame (a list is missing)")
    return node


def _index(node: Any) -> int:
    if type(node) is not int or node < 0:
        raise BorderError("not a frame (a number is missing)")
    return node


def _dict(keys: list, values: list) -> dict:
    return dict(zip(keys, values, strict=True))


def _dtype(name: str) -> torch.dtype:
    import torch

    found = torch.__dict__[name]
    if not isinstance(found, torch.dtype):
        raise BorderError("not a frame (no dtype)")
    return found


def _array(tensor: Any, scalar: bool) -> Any:
    array = tensor.numpy()
    return array[()] if scalar else array


def _range(rest: list) -> range:
    return range(*(_whole(part) for part in rest))


def _whole(node: Any) -> int:
    if type(node) is not int:
        raise BorderError("not a frame (a number is missing)")
    return node


def _size(parts: list) -> torch.Size:
    import torch

    return torch.Size(parts)


def _device(name: Any) -> torch.device:
    import torch

    return torch.device(name)


def _generator(state: Tensor) -> torch.Generator:
    import torch

    generator = torch.Generator()
    generator.set_state(state)
    return generator


_UNPACKERS: dict[str, Callable] = {
    "float": lambda unpacker, rest, depth: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[rest[0]],
    "int": lambda unpacker, rest, depth: int(rest[0][:4000], 16),
    "complex": lambda unpacker, rest, depth: complex(*unpacker.many(rest, depth)),
    "tensor": lambda unpacker, rest, depth: unpacker.tensor(*rest),
    "array": lambda unpacker, rest, depth: _array(unpacker.value(rest[0], depth), False),
    "scalar": lambda unpacker, rest, depth: _array(unpacker.value(rest[0], depth), True),
    "size": lambda unpacker, rest, depth: _size(unpacker.many(rest[0], depth)),
    "list": lambda unpacker, rest, depth: unpacker.many(rest[0], depth),
    "tuple": lambda unpacker, rest, depth: tuple(unpacker.many(rest[0], depth)),
    "set": lambda unpacker, rest, depth: set(unpacker.many(rest[0], depth)),
    "dict": lambda unpacker, rest, depth: _dict(unpacker.many(rest[0], depth), unpacker.many(rest[1], depth)),
    "range": lambda unpacker, rest, depth: _range(rest),
    "slice": lambda unpacker, rest, depth: slice(*unpacker.many(rest, depth)),
    "dtype": lambda unpacker, rest, depth: _dtype(rest[0]),
    "device": lambda unpacker, rest, depth: _device(rest[0]),
    "generator": lambda unpacker, rest, depth: _generator(unpacker.value(rest[0], depth)),
    "ellipsis": lambda unpacker, rest, depth: ...,
}


# ---------------------------------------------------------------- questions and answers


class Endpoint:
    """One end of a conversation. Each end may ask the other while it is being asked: a student's function that was
    given one of the judge's functions calls back.

    objects: what stays at home, by the number that went over in its place.
    stand_in: makes what stands for an object of the other side, from (endpoint, number, kind, name).
    answer: serves one question, from (endpoint, question), and returns the answer's value.
    named: whether the other side learns what is exported: the judge's functions are all alike to a student's kernel."""

    def __init__(self, wire: Wire, stand_in: Callable, answer: Callable[[Endpoint, dict], Any], named: bool = True):
        self.wire, self.stand_in, self.answer, self.named = wire, stand_in, answer, named
        self.objects: list[Any] = []
        self.lost: Any = None  # why nothing can be asked any more
        self.broke_off = ""  # how this end saw the other one go, or stay silent; nothing that was said
        self.ahead: deque[Any] = deque()  # what was asked ahead and has not been heard yet, in order

    def ask(self, limit: Limit = None, **question: Any) -> dict:
        """The other side's answer: {"ok": value} or {"error": …}. Serves what it asks meanwhile."""
        self.forget_ahead(limit)
        until = deadline(limit)
        self.tell(question, until)
        return self._answer(until)

    def ask_ahead(self, limit: Limit, names: list[Any], **question: Any) -> None:
        """Asks several things in one question, which the other side answers one after the other while this one does
        what it likes. names: of the answers."""
        self.forget_ahead(limit)
        self.tell(question, limit)
        self.ahead.extend(names)

    def next_answer(self, limit: Limit = None) -> dict:
        """The next answer to what was asked ahead."""
        self.ahead.popleft()
        return self._answer(deadline(limit))

    def forget_ahead(self, limit: Limit = None) -> None:
        """Nobody wants to hear the rest."""
        while self.ahead:
            self.next_answer(limit)

    def _answer(self, until: Deadline | None) -> dict:
        while True:
            message = self.hear(until)
            if "ask" not in message:
                return message
            ahead, self.ahead = self.ahead, deque()  # what is asked while serving is answered before the rest
            self.serve(message)
            self.ahead = ahead

    def tell(self, message: dict, limit: Limit = None) -> None:
        frame = Packer(self.export, self.wire.bounds).frame(message)
        with self._noting_losses():
            self.wire.send(frame, limit)

    def hear(self, limit: Limit = None) -> dict:
        with self._noting_losses():
            frame = self.wire.receive(limit)
        message = read(frame, self.resolve, self.wire.bounds)
        if not isinstance(message, dict):
            raise BorderError("not a message")
        return message

    @contextmanager
    def _noting_losses(self) -> Iterator[None]:
        try:
            yield
        except (Closed, ReplyTimeout) as loss:
            self.broke_off = str(loss)
            raise

    def serve(self, question: dict) -> None:
        """Answer one question; what can't cross is answered with the reason."""
        message = self.answer(self, question)
        try:
            frame = Packer(self.export, self.wire.bounds).frame(message)
        except BorderError as error:
            frame = Packer().frame({"error": {"kind": "BorderError", "message": str(error), "where": ""}})
        self.wire.send(frame, None)

    def export(self, value: Any) -> list:
        home = getattr(type(value), "__home__", None)  # a stand-in goes back to where it came from
        if home is not None and value.__endpoint__ is self:
            return ["home", value.__number__]
        if len(self.objects) >= self.wire.bounds.nodes:
            raise BorderError("too many objects")
        self.objects.append(value)
        if not self.named:
            return ["ref", len(self.objects) - 1, "function", "function"]
        kind = "class" if isinstance(value, type) else "module" if _is_module(value) else "object"
        name = getattr(value, "__name__", type(value).__name__)
        return ["ref", len(self.objects) - 1, "function" if hasattr(value, "__code__") else kind, str(name)[:80]]

    def resolve(self, node: list) -> Any:
        if node[0] == "home":
            return self.objects[_index(node[1])]
        _, number, kind, name = node
        return self.stand_in(self, _index(number), str(kind), str(name)[:80])


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


class RemoteReference:
    """Stands for an object of the other side; knows where it lives, so that it can be sent home."""

    __home__ = True
    __endpoint__: Endpoint
    __number__: int
    __kind__: str
    __name__: str

    def __init__(self, endpoint: Endpoint, number: int, kind: str, name: str):
        self.__dict__.update(__endpoint__=endpoint, __number__=number, __kind__=kind, __name__=name)

    def __repr__(self) -> str:
        return f"<{self.__kind__} {self.__name__}>"

    def __deepcopy__(self, memo: dict) -> RemoteReference:
        return self
