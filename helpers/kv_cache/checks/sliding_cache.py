"""Checks of the ring buffer: a window of tokens in room for a window of tokens."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.compare import Message, agree, tolerance
from helpers.engine.drivers import call, watch
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import sliding_cache as reference
from .decoding import empty_rows_aside, hand_on

__all__ = ["sliding_cache"]

NO_MORE = Message("never more than a window is kept")

MUCH_MORE = 4  # times both rings: a view of them and of a short chunk is forgiven, one of a long prompt is not

TOO_MUCH_READ = Message("a late token takes more work than an early one")


def drive_window(
    cls, window: int, q: Tensor, k: Tensor, v: Tensor, chunks: tuple[int, ...], counted: bool = False
) -> tuple:
    """All outputs, chunk by chunk, and whether the cache ever held more than a window, or a call made more of it, or read what isn't in
    the rings, or (counted) whether `length` isn't the number of all tokens. After each call the caller writes other numbers into q, k and v."""
    b, h, _, d_h = k.shape
    cache = call(cls, b, h, window, d_h, k.dtype)
    outputs, room, held = [], b * h * window * d_h, NO_MORE
    for n, *parts in zip(chunks, *(t.clone().split(chunks, dim=2) for t in (q, k, v))):
        seen = watch(cache.attend, *parts, reuses=True, counts=True)
        hand_on(seen, q)
        outputs.append(seen.output)
        if seen.largest > 4 * b * h * n * (window + n) * d_h:  # four times all products of queries and keys
            held = TOO_MUCH_READ
        kept = max(cache.keys.numel(), cache.values.numel())
        if kept > room:
            held = Message(f"{kept} numbers are kept in a ring, where {room} are enough")
        elif seen.keeps > MUCH_MORE * 2 * room:
            held = Message(
                f"the cache keeps storages of {seen.keeps} numbers, where two rings have {2 * room}: a view keeps the whole of its tensor"
            )
    if held == NO_MORE and counted and cache.length != sum(chunks):
        held = Message(f"`length` is {cache.length} after {sum(chunks)} tokens")
    return *outputs, held if held != NO_MORE or window == 1 else _read(cache, parts)


OUTSIDE = Message("keys and values are kept outside the rings")


def _read(cache, token: list[Tensor]) -> str:
    """One token more, after other rings took the place of the old ones, full of NaN: who reads them can't but return NaN. Who neither
    reads nor writes them may have other names for the old ones, and those are rings too, if something stands in them."""
    empty = not any(ring.any() for ring in (cache.keys, cache.values))
    try:
        cache.keys, cache.values = (torch.full_like(ring, torch.nan) for ring in (cache.keys, cache.values))
    except AttributeError:  # properties, that nobody can set
        return OUTSIDE if empty else NO_MORE
    output = call(cache.attend, *(part[:, :, -1:] for part in token))
    read = isinstance(output, Tensor) and output.isnan().any()
    written = not all(ring.isnan().all() for ring in (cache.keys, cache.values))
    return OUTSIDE if not read and (written or empty) else NO_MORE


def window_case(
    label: str,
    window: int,
    *chunks: int,
    b: int = 2,
    h: int = 3,
    d_h: int = 4,
    loud: float = 2.0,
    dtype=torch.float32,
    counted: bool = False,
    silent: int = -1,
) -> Case:
    """loud: the standard deviation of the queries, and so of the scores. counted: the number of all tokens is asked for, too. silent: a
    token with a key and a value of zeros, if there is one."""
    heard = (torch.arange(sum(chunks)) != silent)[:, None]

    def normal(scale: float, kept: Tensor | float = 1.0) -> RandomArg:
        return RandomArg(lambda g: kept * scale * torch.randn(b, h, sum(chunks), d_h, generator=g, dtype=dtype))

    return explicit_case(label, window, normal(loud), normal(1.0, heard), normal(1.0, heard), chunks, counted)


class _Sliding:
    """Right, in small steps: each slip below changes one."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32) -> None:
        self.window, self.length = window, 0
        self.keys = torch.zeros(b, h, window, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, window, d_h, dtype=dtype)

    def attend(self, q, k, v) -> Tensor:
        slots = self.slots()
        keys, values = torch.cat([self.keys[:, :, slots], k], 2), torch.cat([self.values[:, :, slots], v], 2)
        n, m = k.shape[2], keys.shape[2]
        age = torch.arange(m - n, m)[:, None] - torch.arange(m)
        weights = self.weigh(q @ keys.mT / math.sqrt(q.shape[-1]), self.seen(age))
        self.store(k, v)
        return weights @ values

    def weigh(self, scores, seen) -> Tensor:
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)

    def slots(self) -> Tensor:
        return torch.arange(max(0, self.length - self.window), self.length) % self.window

    def seen(self, age) -> Tensor:
        return (age >= 0) & (age < self.window)

    def store(self, k, v) -> None:
        for place in range(k.shape[2]):
            self.put(self.length % self.window, k[:, :, place], v[:, :, place])
            self.length += 1

    def put(self, slot, k, v) -> None:
        self.keys[:, :, slot], self.values[:, :, slot] = k, v


class OneTooMany(_Sliding):
    def seen(self, age) -> Tensor:
        return (age >= 0) & (age <= self.window)


class OneTooFew(_Sliding):
    def seen(self, age) -> Tensor:
        return (age >= 0) & (age < max(1, self.window - 1))


class ChunkUnmasked(_Sliding):
    def seen(self, age) -> Tensor:
        return age < self.window


class ChunkWithoutWindow(_Sliding):
    def seen(self, age) -> Tensor:
        return age >= 0


class WindowForTheOldAlone(_Sliding):
    def seen(self, age) -> Tensor:
        n, m = age.shape
        return (age >= 0) & ((age < self.window) | (torch.arange(m) >= m - n))


class SlotOrder(_Sliding):
    def slots(self) -> Tensor:
        return torch.arange(min(self.length, self.window))


class UnusedSlots(_Sliding):
    def slots(self) -> Tensor:
        return (torch.arange(self.window) + self.length) % self.window


class ZerosTakenForEmpty(UnusedSlots):
    def weigh(self, scores, seen) -> Tensor:
        return super().weigh(scores, seen & (scores != 0))


class StoredFirst(_Sliding):
    def attend(self, q, k, v) -> Tensor:
        n = k.shape[2]
        self.store(k, v)
        slots = self.slots()
        keys, values = self.keys[:, :, slots], self.values[:, :, slots]
        age = torch.arange(self.length - n, self.length)[:, None] - torch.arange(self.length - len(slots), self.length)
        scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~self.seen(age), -torch.inf)
        return scores.softmax(dim=-1) @ values


class AllButTheOldest(_Sliding):
    """A new token is joined to the last window − 1. For a window of 1 the slice is `[-0:]`, and nothing is left out."""

    def attend(self, q, k, v) -> Tensor:
        filled, before = min(self.length, self.window), self.window - 1
        keys, values, outputs = self.keys[:, :, :filled], self.values[:, :, :filled], []
        for place in range(q.shape[2]):
            now = slice(place, place + 1)
            keys, values = (
                torch.cat([old[:, :, -before:], new[:, :, now]], 2) for old, new in ((keys, k), (values, v))
            )
            weights = (q[:, :, now] @ keys.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
            outputs.append(weights @ values)
        self.keys, self.values = keys, values
        self.length += q.shape[2]
        return torch.cat(outputs, dim=2)


def sees_more_than_itself(seen: Observation) -> bool:
    """A mark: the window is 1, and yet some output isn't the token's own value."""
    window, _, _, v, *_ = seen.args
    outputs = torch.cat(seen.output[:-1], dim=2)
    return window == 1 and bool(outputs.isfinite().all()) and not agree(outputs, v, tolerance(seen.args))


class AllTokensRead(_Sliding):
    """Tokens that are long out of the window are read from slots that newer ones have taken, and hidden by their age."""

    def slots(self) -> Tensor:
        return torch.arange(self.length) % self.window


class NothingDropped(_Sliding):
    def slots(self) -> Tensor:
        return torch.arange(self.length)

    def store(self, k, v) -> None:
        self.keys = torch.cat([self.keys[:, :, : self.length], k], 2)
        self.values = torch.cat([self.values[:, :, : self.length], v], 2)
        self.length += k.shape[2]


class ViewsOfAll(NothingDropped):
    """The rings are the ends of longer tensors, which live as long as they do."""

    def slots(self) -> Tensor:
        return torch.arange(min(self.length, self.window))

    def store(self, k, v) -> None:
        super().store(k, v)
        self.keys, self.values = self.keys[:, :, -self.window :], self.values[:, :, -self.window :]


class LengthStopsAtTheWindow(_Sliding):
    """Token by token, each over all slots that are filled."""

    def attend(self, q, k, v) -> Tensor:
        outputs = []
        for place in range(q.shape[2]):
            self.put(self.length % self.window, k[:, :, place], v[:, :, place])
            self.length = min(self.length + 1, self.window)
            scores = q[:, :, place : place + 1] @ self.keys[:, :, : self.length].mT / math.sqrt(q.shape[-1])
            outputs.append(scores.softmax(dim=-1) @ self.values[:, :, : self.length])
        return torch.cat(outputs, dim=2)


class LengthCapped(_Sliding):
    """All at once, with a length that stops at the window."""

    def store(self, k, v) -> None:
        super().store(k, v)
        self.length = min(self.length, self.window)


class RingsLengthKept(_Sliding):
    """Rings that grow until they are full, oldest first, and the number of the tokens in them in the place of all tokens."""

    def slots(self) -> Tensor:
        return torch.arange(self.length)

    def store(self, k, v) -> None:
        keys, values = (
            torch.cat([ring[:, :, : self.length], new], 2) for ring, new in ((self.keys, k), (self.values, v))
        )
        self.keys, self.values = keys[:, :, -self.window :], values[:, :, -self.window :]
        self.length = self.keys.shape[2]


class LongChunkFromSlot0(_Sliding):
    def store(self, k, v) -> None:
        n = k.shape[2]
        if n < self.window:
            return super().store(k, v)
        self.put(torch.arange(self.window), k[:, :, -self.window :], v[:, :, -self.window :])
        self.length += n


class LongChunkMisplaced(_Sliding):
    def store(self, k, v) -> None:
        n = k.shape[2]
        slots = (self.length + torch.arange(min(n, self.window))) % self.window
        self.put(slots, k[:, :, -self.window :], v[:, :, -self.window :])
        self.length += n


class OverwrittenBeforeRead(_Sliding):
    """The slots of the old tokens are looked up first and read after the new ones were stored."""

    def attend(self, q, k, v) -> Tensor:
        slots = self.slots()
        self.store(k, v)
        keys, values = torch.cat([self.keys[:, :, slots], k], 2), torch.cat([self.values[:, :, slots], v], 2)
        n, m = k.shape[2], keys.shape[2]
        age = torch.arange(m - n, m)[:, None] - torch.arange(m)
        scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~self.seen(age), -torch.inf)
        return scores.softmax(dim=-1) @ values


class NoScale(_Sliding):
    def attend(self, q, k, v) -> Tensor:
        return super().attend(q * math.sqrt(q.shape[-1]), k, v)


class LengthNeverMoved(_Sliding):
    def store(self, k, v) -> None:
        super().store(k, v)
        self.length = 0


class KeptInAList(_Sliding):
    """All tokens in lists, of which the last `window` are read. The rings stay empty."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32) -> None:
        super().__init__(b, h, window, d_h, dtype)
        self.old = [], []

    def attend(self, q, k, v) -> Tensor:
        outputs = []
        for token in range(q.shape[2]):
            for old, new in zip(self.old, (k, v)):
                old.append(new[:, :, token].clone())
            keys, values = (torch.stack(old[-self.window :], dim=2) for old in self.old)
            scores = q[:, :, token : token + 1] @ keys.mT / math.sqrt(q.shape[-1])
            outputs.append(scores.softmax(dim=-1) @ values)
        self.length += q.shape[2]
        return torch.cat(outputs, dim=2)


class FullAndStopped(_Sliding):
    def store(self, k, v) -> None:
        room = self.window - self.length
        for place in range(min(room, k.shape[2])):
            self.put(self.length, k[:, :, place], v[:, :, place])
            self.length += 1


class OneStepAChunk(_Sliding):
    def store(self, k, v) -> None:
        before = self.length
        super().store(k, v)
        self.length = before + 1


class StartOfTheChunkKept(_Sliding):
    def store(self, k, v) -> None:
        n = k.shape[2]
        super().store(k[:, :, : self.window], v[:, :, : self.window])
        self.length += n - min(n, self.window)


class SlicesOfTheCaller(_Sliding):
    """The end of a long chunk is put in the place of the rings as it came. Oldest first."""

    def slots(self) -> Tensor:
        return torch.arange(self.window)[-self.length :] if self.length else torch.arange(0)

    def store(self, k, v) -> None:
        n = k.shape[2]
        if n < self.window:
            k, v = (torch.cat([ring[:, :, n:], new], 2) for ring, new in ((self.keys, k), (self.values, v)))
        self.keys, self.values = k[:, :, -self.window :], v[:, :, -self.window :]
        self.length += n


class FirstChunkOfTheCaller(_Sliding):
    """Rings that grow until they are full, from the first chunk on, which is kept as it came. Oldest first."""

    def slots(self) -> Tensor:
        return torch.arange(self.keys.shape[2] if self.length else 0)

    def store(self, k, v) -> None:
        n = k.shape[2]
        if self.length:
            k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        self.keys, self.values = k[:, :, -self.window :], v[:, :, -self.window :]
        self.length += n


class SoftmaxWithoutMaximum(_Sliding):
    def weigh(self, scores, seen) -> Tensor:
        exponentials = scores.exp() * seen
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


class MaximumOfHiddenScores(_Sliding):
    def weigh(self, scores, seen) -> Tensor:
        weights = scores.softmax(dim=-1) * seen
        return weights / weights.sum(dim=-1, keepdim=True)


class KeysOnly(_Sliding):
    def put(self, slot, k, v) -> None:
        self.keys[:, :, slot] = k
        self.values[:, :, min(self.length, self.window - 1)] = v


sliding_cache = Check(
    exercise="sliding_cache",
    reference=reference.SlidingCache,
    drive=drive_window,
    names=("output of call: sequences heads tokens features",),
    cases=[
        window_case("window 3, 6 tokens one by one", 3, *[1] * 6),
        window_case(
            "window 4, a prompt of 3, then single tokens, one of zeros", 4, 3, 1, 1, 1, 1, counted=True, silent=1
        ),
        window_case("window 4, chunks of 2, 3, 1, 3, in float64", 4, 2, 3, 1, 3, b=1, h=2, d_h=5, dtype=torch.float64),
        window_case("window 3, chunks longer than the window: 5, 4, 1", 3, 5, 4, 1),
        window_case("window 1, chunks of 1, 2, 1", 1, 1, 2, 1, b=1),
        window_case("window 2, a prompt of 40, then a single token", 2, 40, 1, b=1, h=2, d_h=5),
        window_case(
            "scores of a thousand and more, in float64", 3, 4, 2, 1, b=2, h=3, d_h=5, dtype=torch.float64, loud=1500.0
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        *(
            Misconception(
                name,
                slip,
                "A slice of `k` is a view: it shares its memory with the caller's tensor, and what the caller writes there afterwards stands in your ring. "
                "Keep a copy (`.clone()`), or write into the slots of the ring.",
            )
            for name, slip in (
                ("a long chunk kept as a view", SlicesOfTheCaller),
                ("the first chunk kept as a view", FirstChunkOfTheCaller),
            )
        ),
        window_one_token_too_wide=OneTooMany,
        window_one_token_too_narrow=OneTooFew,
        chunk_without_mask=ChunkUnmasked,
        no_window_at_all=ChunkWithoutWindow,
        no_window_within_chunk=WindowForTheOldAlone,
        ring_read_order_slots=SlotOrder,
        empty_slots_attended=UnusedSlots,
        zeros_taken_empty_slots=ZerosTakenForEmpty,
        stored_before_attending=Wrong(StoredFirst, recognise=empty_rows_aside(StoredFirst, drive_window)),
        window_1_that_sees_more_than_token=Wrong(AllButTheOldest, recognise=sees_more_than_itself),
        nothing_ever_dropped=NothingDropped,
        rings_that_views_longer_tensors=ViewsOfAll,
        all_tokens_kept_outside_rings=KeptInAList,
        all_tokens_read_most_them_hidden=AllTokensRead,
        nothing_stored_once_ring_full=FullAndStopped,
        length_that_stops_at_window=LengthStopsAtTheWindow,
        length_capped_after_each_chunk=LengthCapped,
        length_ring_instead_text=RingsLengthKept,
        end_long_chunk_beginnings_slots=LongChunkMisplaced,
        long_chunk_stored_from_slot_0_on=LongChunkFromSlot0,
        length_left_at_0=LengthNeverMoved,
        old_slots_read_after_they_were=OverwrittenBeforeRead,
        no_scale=NoScale,
        length_grows_by_1_per_chunk=OneStepAChunk,
        start_long_chunk_kept=StartOfTheChunkKept,
        softmax_without_maximum=SoftmaxWithoutMaximum,
        maximum_over_hidden_scores_too=MaximumOfHiddenScores,
        keys_values_different_slots=KeysOnly,
    ),
)
