"""The check of `KVCache`."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped, call, observe, unpack
from helpers.engine.observe import Observation, StudentError
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import cache as reference

__all__ = ["KVCache"]

COPIES = {"cat", "stack", "constant_pad_nd"}  # operations that make a longer tensor by copying a shorter one


def drive_cache(
    cls, sizes: tuple[int, ...], steps: list[tuple[int, Tensor, Tensor]], frugal: bool, room: torch.dtype | None = None
) -> tuple | str:
    """Two caches, made first and then used in turn: what each append returns, the lengths, in which dtype, and (frugal) how it was done.
    After each append the caller writes other numbers into k and v.
    room: another dtype than that of the tokens; then the one question is in which dtype all come out after each append."""
    if room:
        append = call(cls, *sizes, room).append
        return tuple(
            _dtype_of_the_room(append, *pair, room) for pair in (steps[0][1:], [t.to(room) for t in steps[1][1:]])
        )
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
        told += (
            _pair(seen.output)
            if fits
            else [Message(f"a {seen.error.kind} when they don't fit" if seen.error else "no error when they don't fit")]
        )
    return (*told, *(cache.length for cache in caches), dtype, manner)


SAME_DTYPE = Message("keys and values come out in the dtype of the room")


def _changed(room: torch.dtype, part) -> str:
    if not isinstance(part, Tensor) or part.dtype == room:
        return ""
    return Message(f"{str(part.dtype)[6:]} comes out of a room of {str(room)[6:]}")


def _dtype_of_the_room(append, k: Tensor, v: Tensor, room: torch.dtype) -> str:
    """In which dtype tokens of another one come out. To refuse them is nobody's mistake: nothing is said of that."""
    seen = observe(append, (k, v))
    found = [] if seen.error else [_changed(room, part) for part in _pair(seen.output)]
    return next(filter(None, found), SAME_DTYPE)


def _manner(seen: Observation, k: Tensor) -> str:
    """How old tokens were copied, if they were. An append need make nothing that is larger than the new keys and values."""
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
    label: str,
    *chunks: tuple[int, int],
    b: int = 2,
    h: int = 3,
    capacity: int = 9,
    d_h: int = 4,
    dtype=torch.float32,
    frugal: bool = False,
    room: torch.dtype | None = None,
) -> Case:
    """chunks: (which cache, how many tokens). frugal: what is old may not be copied. room: its dtype, where it isn't that of the tokens."""

    def draw(generator: torch.Generator) -> list:
        return [(which, *torch.randn(2, b, h, n, d_h, generator=generator, dtype=dtype)) for which, n in chunks]

    return explicit_case(label, (b, h, capacity, d_h), RandomArg(draw), frugal, room)


class _Cache:
    """Right, in small steps: each slip below changes one."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        self.capacity, self.length = capacity, 0
        self.keys = torch.zeros(b, h, capacity, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, capacity, d_h, dtype=dtype)

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.is_full(k.shape[2]):
            raise ValueError("The cache is full.")
        self.write(self.keys, k)
        self.write(self.values, v)
        self.length += k.shape[2]
        return self.read(self.keys), self.read(self.values)

    def is_full(self, n) -> bool:
        return self.length + n > self.capacity

    def write(self, room, new) -> None:
        room[:, :, self.length : self.length + new.shape[2]] = new

    def read(self, room) -> Tensor:
        return room[:, :, : self.length]


class OverwritesTheFirst(_Cache):
    def write(self, room, new) -> None:
        room[:, :, : new.shape[2]] = new


class ReturnsUnusedSlots(_Cache):
    def read(self, room) -> Tensor:
        return room


class ReturnsTheNewOnly(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        super().append(k, v)
        return k, v


class OneRoomForAll(_Cache):
    rooms = {}

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        self.capacity, self.length = capacity, 0
        size = (b, h, capacity, d_h, dtype)
        if size not in self.rooms:
            self.rooms[size] = (
                torch.zeros(b, h, capacity, d_h, dtype=dtype),
                torch.zeros(b, h, capacity, d_h, dtype=dtype),
            )
        self.keys, self.values = self.rooms[size]


class KeysAndValuesInOneRoom(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        super().__init__(b, h, capacity, d_h, dtype)
        self.keys = self.values


class OneSequenceForAll(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        super().__init__(1, h, capacity, d_h, dtype)
        self.keys, self.values = (room.expand(b, -1, -1, -1) for room in (self.keys, self.values))


class OneStepAnAppend(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        before = self.length
        super().append(k, v)
        self.length = before + 1
        return self.read(self.keys), self.read(self.values)


class NewestFirst(_Cache):
    def read(self, room) -> Tensor:
        return room[:, :, : self.length].flip(2)


class Swapped(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        return super().append(v, k)


class Joined(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        self.capacity, self.length = capacity, 0
        self.keys, self.values = torch.zeros(2, b, h, 0, d_h, dtype=dtype)

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.is_full(k.shape[2]):
            raise ValueError("The cache is full.")
        self.keys, self.values = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.length += k.shape[2]
        return self.keys, self.values


class JoinedToTheFirst(Joined):
    """The first tokens are kept as they came."""

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.length or self.is_full(k.shape[2]):
            return super().append(k, v)
        self.keys, self.values, self.length = k, v, k.shape[2]
        return k, v


class JoinedAlongTheHeads(Joined):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        self.capacity, self.length, self.keys = capacity, 0, None

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.is_full(k.shape[2]):
            raise ValueError("The cache is full.")
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=1)
        self.values = v if self.length == 0 else torch.cat([self.values, v], dim=1)
        self.length += k.shape[2]
        return self.keys, self.values


class FullOneTooEarly(_Cache):
    def is_full(self, n) -> bool:
        return self.length + n >= self.capacity


class NoErrorOfItsOwn(_Cache):
    def is_full(self, n) -> bool:
        return False


class SilentlyFull(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        room = self.capacity - self.length
        return super().append(k[:, :, :room], v[:, :, :room])


class CopyReturned(_Cache):
    def read(self, room) -> Tensor:
        return room[:, :, : self.length].clone()


class MadeContiguous(_Cache):
    """A copy of all that is old, except where the room is full or there is one head only."""

    def read(self, room) -> Tensor:
        return room[:, :, : self.length].contiguous()


class FixedDtype(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        super().__init__(b, h, capacity, d_h)


class ValuesInFloat32(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        super().__init__(b, h, capacity, d_h, dtype)
        self.values = self.values.float()


class KeysInFloat32(_Cache):
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        super().__init__(b, h, capacity, d_h, dtype)
        self.keys = self.keys.float()


class RoomMadeLater(_Cache):
    """The room is made at the first append, in the dtype of what comes."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32) -> None:
        self.capacity, self.length = capacity, 0
        self.keys = self.values = None

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.keys is None:
            self.keys, self.values = (t.new_zeros(*t.shape[:2], self.capacity, t.shape[3]) for t in (k, v))
        return super().append(k, v)


class ConvertedToTheNewTokens(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        return tuple(part.to(k.dtype) for part in super().append(k, v))


class LengthMovedFirst(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        self.length += k.shape[2]
        if self.length > self.capacity:
            raise ValueError("The cache is full.")
        before = self.length - k.shape[2]
        self.keys[:, :, before : self.length], self.values[:, :, before : self.length] = k, v
        return self.read(self.keys), self.read(self.values)


class LeftToPyTorch(_Cache):
    def is_full(self, n) -> bool:
        return False

    def append(self, k, v) -> tuple[Tensor, Tensor]:
        try:
            return super().append(k, v)
        except RuntimeError:
            raise ValueError("The cache is full.") from None


class FullOnlyWhenNothingIsLeft(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        if self.length == self.capacity:
            raise ValueError("The cache is full.")
        return super().append(k, v)

    def is_full(self, n) -> bool:
        return False


class HalfStored(_Cache):
    def append(self, k, v) -> tuple[Tensor, Tensor]:
        too_many = self.is_full(k.shape[2])
        room = self.capacity - self.length
        found = super().append(k[:, :, :room], v[:, :, :room])
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
        *(
            Misconception(
                f"dtype forgotten for the {which}",
                slip,
                f"Your room for the {which} is float32, whatever `dtype` is: {which} of another dtype are converted. Make both rooms with `dtype=dtype`.",
            )
            for which, slip in (("keys", KeysInFloat32), ("values", ValuesInFloat32))
        ),
        position_0_overwritten=OverwritesTheFirst,
        unused_slots_returned=ReturnsUnusedSlots,
        only_new_tokens_returned=ReturnsTheNewOnly,
        one_room_all_instances=OneRoomForAll,
        keys_values_one_room=KeysAndValuesInOneRoom,
        one_room_all_sequences_batch=Wrong(OneSequenceForAll, raises="RuntimeError"),
        length_grows_by_1_per_append=OneStepAnAppend,
        newest_first=NewestFirst,
        keys_values_swapped=Swapped,
        joined_along_wrong_axis=Wrong(JoinedAlongTheHeads, raises="RuntimeError"),
        grown_by_concatenation=Joined,
        first_tokens_kept_as_view=JoinedToTheFirst,
        contiguous_copy_returned=MadeContiguous,
        copy_returned_instead_view=CopyReturned,
        dtype_forgotten=FixedDtype,
        room_dtype_first_tokens=RoomMadeLater,
        all_converted_dtype_new_tokens=ConvertedToTheNewTokens,
        length_moved_before_check=Wrong(LengthMovedFirst, raises="ValueError"),
        valueerror_only_where_pytorch_complains=LeftToPyTorch,
        refused_only_when_every_slot_taken=FullOnlyWhenNothingIsLeft,
        full_one_token_too_early=Wrong(FullOneTooEarly, raises="ValueError"),
        no_clear_error_when_full=NoErrorOfItsOwn,
        what_doesnt_fit_dropped_silence=SilentlyFull,
        error_after_part_was_stored=Wrong(HalfStored, raises="ValueError"),
    ),
)
