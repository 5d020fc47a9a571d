"""Room for keys and values, made once, into which every append writes."""

from functools import partial

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped, call, observe, unpack
from helpers.engine.observe import Observation, StudentError
from helpers.engine.wrong_answers import Wrong, with_methods, wrong_answers

from .. import cache as reference

__all__ = ["KVCache"]

COPIES = {"cat", "stack", "constant_pad_nd"}  # operations that make a longer tensor by copying a shorter one


def drive_cache(
    cls, sizes: tuple[int, ...], steps: list[tuple[int, Tensor, Tensor]], frugal: bool, room: torch.dtype | None = None
) -> tuple | str:
    """Two caches, made first and then used in turn: what each append returns, the lengths, in which dtype, and (frugal)
    how it was done. After each append the caller writes other numbers into k and v.

    room: another dtype than that of the tokens; then the one question is in which dtype all come out after each append.
    """
    if room:
        append = call(cls, *sizes, room).append
        pairs = steps[0][1:], [t.to(room) for t in steps[1][1:]]
        return tuple(_dtype_of_the_room(append, *pair, room) for pair in pairs)
    caches = [call(cls, *sizes, steps[0][1].dtype) for _ in range(2)]
    stored, told, manner, dtype = [0, 0], [], Message("an append copies nothing that is old"), SAME_DTYPE
    for which, k, v in steps:
        seen = observe(caches[which].append, (k, v), reuses=True)
        fits = stored[which] + k.shape[2] <= sizes[2]
        if seen.error and (fits or seen.error.kind == "NotImplementedError"):
            raise Stopped(_refusal(seen.error))
        if fits:
            if frugal and stored[which]:
                manner = _manner(seen, k) or manner
            stored[which] += k.shape[2]
            dtype = next((_changed(k.dtype, part) for part in _pair(seen.output) if _changed(k.dtype, part)), dtype)
        refused = Message(f"{f'a {seen.error.kind}' if seen.error else 'no error'} when they don't fit")
        told += _pair(seen.output) if fits else [refused]
    return (*told, *(cache.length for cache in caches), dtype, manner)


SAME_DTYPE = Message("keys and values come out in the dtype of the room")


def _changed(room: torch.dtype, part) -> str:
    if not isinstance(part, Tensor) or part.dtype == room:
        return ""
    return Message(f"{str(part.dtype)[6:]} comes out of a room of {str(room)[6:]}")


def _dtype_of_the_room(append, k: Tensor, v: Tensor, room: torch.dtype) -> str:
    """In which dtype tokens of another one come out. To refuse them is nobody's mistake: nothing is said of that."""
    seen = observe(append, (k, v))
    if seen.error and seen.error.kind in ("AttributeError", "NameError", "NotImplementedError"):
        raise Stopped(seen.error)
    found = [] if seen.error else [_changed(room, part) for part in _pair(seen.output)]
    return next(filter(None, found), SAME_DTYPE)


def _manner(seen: Observation, k: Tensor) -> str:
    """How old tokens were copied, if they were. An append need make nothing larger than the new keys and values."""
    if COPIES & seen.operations.keys():
        return Message("an append joins the old tensor and the new, so it copies all that is old")
    return Message(
        "an append copies old tokens: it makes a tensor as long as all of them" if seen.largest > 2 * k.numel() else ""
    )


def _refusal(error: StudentError) -> StudentError:
    """A ValueError where there is room, in our words: everybody has their own for a full cache."""
    ours = "There is room for these tokens, and the cache refuses them."
    return StudentError(error.kind, ours, error.where) if error.kind == "ValueError" else error


def _pair(output) -> list:
    keys, values = unpack(output, "keys", "values")
    return [part.clone() if isinstance(part, Tensor) else part for part in (keys, values)]


def cache_steps(
    label: str, *chunks: tuple[int, int], b=2, h=3, capacity=9, d_h=4, dtype=torch.float32, frugal=False, room=None
) -> Case:
    """chunks: (which cache, how many tokens). frugal: nothing old may be copied. room: its dtype, if another."""

    def draw(generator: torch.Generator) -> list:
        return [(which, *torch.randn(2, b, h, n, d_h, generator=generator, dtype=dtype)) for which, n in chunks]

    return explicit_case(label, (b, h, capacity, d_h), RandomArg(draw), frugal, room)


class Cache:
    """Right, in small steps: wrong caches have others in their place."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32):
        self.capacity, self.length = capacity, 0
        self.keys, self.values = self.rooms((b, h, capacity, d_h), dtype)

    def append(self, k, v):
        if self.is_full(k.shape[2]):
            raise ValueError("The cache is full.")
        self.write(self.keys, k)
        self.write(self.values, v)
        self.length += k.shape[2]
        return self.read(self.keys), self.read(self.values)

    def rooms(self, sizes, dtype):
        return [torch.zeros(sizes, dtype=dtype) for _ in range(2)]

    def is_full(self, n):
        return self.length + n > self.capacity

    def write(self, room, new):
        room[:, :, self.length : self.length + new.shape[2]] = new

    def read(self, room):
        return room[:, :, : self.length]


cache = partial(with_methods, Cache)


class OneRoomForAll(Cache):
    kept = {}

    def rooms(self, sizes, dtype):
        return self.kept.setdefault((sizes, dtype), super().rooms(sizes, dtype))


def overwritten(self, room, new):
    room[:, :, : new.shape[2]] = new


def one_step_an_append(self, k, v):
    before = self.length
    Cache.append(self, k, v)
    self.length = before + 1
    return self.read(self.keys), self.read(self.values)


def joining(axis=2, copied=False):
    """copied: the first tokens too."""

    def append(self, k, v):
        n = k.shape[2]
        if self.is_full(n):
            raise ValueError("The cache is full.")
        if self.length or copied:
            k, v = torch.cat([self.keys, k], dim=axis), torch.cat([self.values, v], dim=axis)
        self.keys, self.values = k, v
        self.length += n
        return k, v

    return append


def nothing_yet(self, sizes, dtype):
    b, h, _, d_h = sizes
    return torch.zeros(2, b, h, 0, d_h, dtype=dtype)


def room_at_the_first_append(self, k, v):
    if self.length == 0:
        self.keys, self.values = (t.new_zeros(*t.shape[:2], self.capacity, t.shape[3]) for t in (k, v))
    return Cache.append(self, k, v)


def length_moved_first(self, k, v):
    self.length += k.shape[2]
    if self.length > self.capacity:
        raise ValueError("The cache is full.")
    before = self.length - k.shape[2]
    self.keys[:, :, before : self.length], self.values[:, :, before : self.length] = k, v
    return self.read(self.keys), self.read(self.values)


def left_to_pytorch(self, k, v):
    try:
        return Cache.append(self, k, v)
    except RuntimeError:
        raise ValueError("The cache is full.") from None


def cut_to_fit(self, k, v):
    room = self.capacity - self.length
    return Cache.append(self, k[:, :, :room], v[:, :, :room])


def half_stored(self, k, v):
    too_many, found = self.is_full(k.shape[2]), cut_to_fit(self, k, v)
    if too_many:
        raise ValueError("The cache is full.")
    return found


KVCache = Check(
    reference=reference.KVCache,
    drive=drive_cache,
    names=(
        "keys after append: sequences heads tokens features",
        "values after append: sequences heads tokens features",
    ),
    cases=[
        cache_steps("tokens one by one", (0, 1), (0, 1), (0, 1), (0, 1)),
        cache_steps("a prompt of 5, then single tokens", (0, 5), (0, 1), (0, 1)),
        cache_steps("nothing old is copied", (0, 3), (0, 1), (0, 1), (0, 2), b=1, frugal=True),
        cache_steps("chunks of 2, 3 and 4: exactly full", (0, 2), (0, 3), (0, 4), frugal=True),
        cache_steps(
            "two caches in turn, in float64", (0, 3), (1, 2), (0, 1), (1, 1), b=1, h=2, d_h=5, dtype=torch.float64
        ),
        cache_steps(
            "more than it holds, then something that fits", (0, 4), (0, 3), (0, 4), (0, 2), capacity=9, b=3, h=2
        ),
        cache_steps("full, and one token more", (0, 4), (0, 1), capacity=4, h=2, d_h=5),
        cache_steps("float16", (0, 3), (0, 2), b=1, h=2, d_h=5, dtype=torch.float16),
        cache_steps(
            "float32, then float64, into a room of float64", (0, 3), (0, 2), b=2, h=1, d_h=5, room=torch.float64
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        keys_in_float32=cache(rooms=lambda self, sizes, dtype: [torch.zeros(sizes), torch.zeros(sizes, dtype=dtype)]),
        values_in_float32=cache(rooms=lambda self, sizes, dtype: [torch.zeros(sizes, dtype=dtype), torch.zeros(sizes)]),
        overwritten=cache(write=overwritten),
        unused_slots=cache(read=lambda self, room: room),
        new_tokens_only=cache(append=lambda self, k, v: Cache.append(self, k, v) and (k, v)),
        one_room_for_all=OneRoomForAll,
        keys_are_values=cache(rooms=lambda self, sizes, dtype: [torch.zeros(sizes, dtype=dtype)] * 2),
        one_sequence_for_all=Wrong(
            cache(
                rooms=lambda self, sizes, dtype: torch.zeros(2, 1, *sizes[1:], dtype=dtype).expand(2, *sizes).unbind()
            ),
            raises="RuntimeError",
        ),
        one_step_an_append=cache(append=one_step_an_append),
        newest_first=cache(read=lambda self, room: room[:, :, : self.length].flip(2)),
        swapped=cache(append=lambda self, k, v: Cache.append(self, v, k)),
        joined_along_heads=Wrong(cache(append=joining(axis=1)), raises="RuntimeError"),
        joined=cache(rooms=nothing_yet, append=joining(copied=True)),
        first_kept_as_view=cache(append=joining()),
        contiguous=cache(read=lambda self, room: room[:, :, : self.length].contiguous()),
        copied=cache(read=lambda self, room: room[:, :, : self.length].clone()),
        dtype_forgotten=cache(rooms=lambda self, sizes, dtype: Cache.rooms(self, sizes, torch.float32)),
        dtype_of_tokens=cache(append=room_at_the_first_append),
        converted=cache(append=lambda self, k, v: tuple(part.to(k.dtype) for part in Cache.append(self, k, v))),
        length_moved_first=Wrong(cache(append=length_moved_first), raises="ValueError"),
        left_to_pytorch=cache(is_full=lambda self, n: False, append=left_to_pytorch),
        full_at_the_end=cache(is_full=lambda self, n: self.length == self.capacity),
        full_too_early=Wrong(cache(is_full=lambda self, n: self.length + n >= self.capacity), raises="ValueError"),
        no_own_error=cache(is_full=lambda self, n: False),
        dropped_in_silence=cache(append=cut_to_fit),
        half_stored=Wrong(cache(append=half_stored), raises="ValueError"),
    ),
)
