"""A ring buffer: a window of tokens in room for a window of tokens."""

import torch
from torch import Tensor

from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, attend, below_all
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message, agree, tolerance
from helpers.engine.drivers import call, watch
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, with_methods, wrong_answers

from .. import sliding_cache as reference
from .decoding import empty_rows_aside, hand_on

__all__ = ["sliding_cache"]

NO_MORE = Message("never more than a window is kept")

MUCH_MORE = 4  # times both rings: a view of them and of a short chunk is forgiven, one of a long prompt is not

TOO_MUCH_READ = Message("a late token takes more work than an early one")


def drive_window(
    cls, window: int, q: Tensor, k: Tensor, v: Tensor, chunks: tuple[int, ...], counted: bool = False
) -> tuple:
    """All outputs, chunk by chunk, and whether the cache ever held more than a window, or a call made more of it, or
    read what isn't in the rings, or (counted) `length` isn't the number of all tokens. After each call the caller
    writes other numbers into q, k and v."""
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
            rings = f"where two rings have {2 * room}: a view keeps the whole of its tensor"
            held = Message(f"the cache keeps storages of {seen.keeps} numbers, {rings}")
    if held == NO_MORE and counted and cache.length != sum(chunks):
        held = Message(f"`length` is {cache.length} after {sum(chunks)} tokens")
    return *outputs, held if held != NO_MORE or window == 1 else _read(cache, parts)


OUTSIDE = Message("keys and values are kept outside the rings")


def _read(cache, token: list[Tensor]) -> str:
    """One token more, after rings full of NaN took the place of the old ones: who reads them can't but return NaN. Who
    neither reads nor writes them may have other names for the old ones, and those are rings too, if something stands in
    them."""
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
    label: str, window: int, *chunks: int, b=2, h=3, d_h=4, loud=2.0, dtype=torch.float32, counted=False, silent=-1
) -> Case:
    """loud: the standard deviation of the queries, and so of the scores. counted: `length` is asked for, too.
    silent: a token with a key and a value of zeros, if there is one."""
    heard = (torch.arange(sum(chunks)) != silent)[:, None]

    def normal(scale: float, kept: Tensor | float = 1.0) -> RandomArg:
        return RandomArg(lambda g: kept * scale * torch.randn(b, h, sum(chunks), d_h, generator=g, dtype=dtype))

    return explicit_case(label, window, normal(loud), normal(1.0, heard), normal(1.0, heard), chunks, counted)


class Ring:
    """Right, in small steps: wrong caches have others in their place."""

    steps = Attention()

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.keys, self.values = (torch.zeros(b, h, window, d_h, dtype=dtype) for _ in range(2))

    def attend(self, q, k, v):
        output = self.mix(q, *self.joined(self.slots(), k, v))
        self.store(k, v)
        return output

    def slots(self):
        return torch.arange(max(0, self.length - self.window), self.length) % self.window

    def joined(self, slots, k, v):
        return torch.cat([self.keys[:, :, slots], k], dim=2), torch.cat([self.values[:, :, slots], v], dim=2)

    def mix(self, q, keys, values):
        n, m = q.shape[2], keys.shape[2]
        age = torch.arange(m - n, m)[:, None] - torch.arange(m)
        return attend(self.steps, q, keys, values, self.seen(age))[0]

    def seen(self, age):
        return (age >= 0) & (age < self.window)

    def store(self, k, v):
        for place in range(k.shape[2]):
            self.put(self.length % self.window, k[:, :, place], v[:, :, place])
            self.length += 1

    def put(self, slot, k, v):
        self.keys[:, :, slot], self.values[:, :, slot] = k, v


@composable
def ring(**changed) -> type:
    """The right cache with some methods changed, or steps of its attention."""
    steps = {name: changed.pop(name) for name in Attention.__dataclass_fields__ if name in changed}
    return with_methods(Ring, steps=Attention(**steps), **changed)


def window_for_old_alone(self, age):
    n, m = age.shape
    return (age >= 0) & ((age < self.window) | (torch.arange(m) >= m - n))


def stored_first(self, q, k, v):
    self.store(k, v)
    slots = self.slots()
    return self.mix(q, self.keys[:, :, slots], self.values[:, :, slots])


def overwritten_before_read(self, q, k, v):
    slots = self.slots()
    self.store(k, v)
    return self.mix(q, *self.joined(slots, k, v))


def all_but_the_oldest(self, q, k, v):
    """A new token is joined to the last window − 1. For a window of 1 the slice is `[-0:]`, and nothing is left out."""
    filled, before = min(self.length, self.window), self.window - 1
    keys, values, outputs = self.keys[:, :, :filled], self.values[:, :, :filled], []
    for token in zip(*(part.split(1, dim=2) for part in (q, k, v))):
        keys, values = (torch.cat([old[:, :, -before:], new], 2) for old, new in zip((keys, values), token[1:]))
        outputs.append(attend(self.steps, token[0], keys, values)[0])
    self.keys, self.values = keys, values
    self.length += q.shape[2]
    return torch.cat(outputs, dim=2)


def sees_more_than_itself(seen: Observation) -> bool:
    """A mark: the window is 1, and yet some output isn't the token's own value."""
    window, _, _, v, *_ = seen.args
    outputs = torch.cat(seen.output[:-1], dim=2)
    return window == 1 and bool(outputs.isfinite().all()) and not agree(outputs, v, tolerance(seen.args))


def length_stops_at_window(self, q, k, v):
    """Token by token, each over all slots that are filled."""
    outputs = []
    for place in range(q.shape[2]):
        self.put(self.length % self.window, k[:, :, place], v[:, :, place])
        self.length = min(self.length + 1, self.window)
        filled = self.keys[:, :, : self.length], self.values[:, :, : self.length]
        outputs.append(attend(self.steps, q[:, :, place : place + 1], *filled)[0])
    return torch.cat(outputs, dim=2)


def kept_in_a_list(self, q, k, v):
    """All tokens in lists, of which the last `window` are read. The rings stay empty."""
    lists, outputs = self.__dict__.setdefault("lists", ([], [])), []
    for token in range(q.shape[2]):
        for old, new in zip(lists, (k, v)):
            old.append(new[:, :, token].clone())
        last = (torch.stack(old[-self.window :], dim=2) for old in lists)
        outputs.append(attend(self.steps, q[:, :, token : token + 1], *last)[0])
    self.length += q.shape[2]
    return torch.cat(outputs, dim=2)


def joining(cut):
    """cut: views of the last tokens alone are kept."""

    def store(self, k, v):
        keys, values = self.joined(slice(self.length), k, v)
        first = -self.window if cut else 0
        self.keys, self.values = keys[:, :, first:], values[:, :, first:]
        self.length += k.shape[2]

    return store


def counted(length, store=Ring.store):
    """length(self, before): the length after the tokens were stored."""

    def store_and_count(self, k, v):
        before = self.length
        store(self, k, v)
        self.length = length(self, before)

    return store_and_count


def end_stored(slots):
    """slots(self, n): where the end of a chunk of n tokens goes."""

    def store(self, k, v):
        self.put(slots(self, k.shape[2]), k[:, :, -self.window :], v[:, :, -self.window :])
        self.length += k.shape[2]

    return store


def until_full(self, k, v):
    room = self.window - self.length
    Ring.store(self, k[:, :, :room], v[:, :, :room])


def start_kept(self, k, v):
    after = self.length + k.shape[2]
    Ring.store(self, k[:, :, : self.window], v[:, :, : self.window])
    self.length = after


def slices_of_the_caller(self, k, v):
    """The end of a long chunk is put in the place of the rings as it came. Oldest first."""
    n = k.shape[2]
    if n < self.window:
        k, v = (torch.cat([old[:, :, n:], new], dim=2) for old, new in ((self.keys, k), (self.values, v)))
    self.keys, self.values = k[:, :, -self.window :], v[:, :, -self.window :]
    self.length += n


def first_chunk_of_the_caller(self, k, v):
    """Rings that grow until they are full, from the first chunk on, which is kept as it came. Oldest first."""
    n = k.shape[2]
    if self.length:
        k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
    self.keys, self.values = k[:, :, -self.window :], v[:, :, -self.window :]
    self.length += n


def different_slots(self, slot, k, v):
    self.keys[:, :, slot] = k
    self.values[:, :, min(self.length, self.window - 1)] = v


def every_slot(self):
    return (torch.arange(self.window) + self.length) % self.window


def cut_first(width):
    """The joined keys are cut to their last `width(window, n)` before anybody attends to them."""

    def attend_cut(self, q, k, v):
        keys, values = (t[:, :, -width(self.window, q.shape[2]) :] for t in self.joined(self.slots(), k, v))
        output = self.mix(q, keys, values)
        self.store(k, v)
        return output

    return attend_cut


STORED_FIRST = ring(attend=stored_first)
CUT_TO_CHUNK, *CUT_TO_WINDOW = (
    ring(attend=cut_first(width), seen=seen)
    for width in (max, lambda window, n: window)
    for seen in (Ring.seen, lambda self, age: age >= 0)
)

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
        *slips(ring, Scale.none, Softmax.no_maximum, Softmax.maximum_of_hidden),
        long_chunk_as_view=ring(
            slots=lambda self: torch.arange(self.window)[self.window - min(self.length, self.window) :],
            store=slices_of_the_caller,
        ),
        first_chunk_as_view=ring(
            slots=lambda self: torch.arange(self.keys.shape[2] if self.length else 0), store=first_chunk_of_the_caller
        ),
        too_wide=ring(seen=lambda self, age: (age >= 0) & (age <= self.window)),
        too_narrow=ring(seen=lambda self, age: (age >= 0) & (age < max(1, self.window - 1))),
        chunk_unmasked=ring(seen=lambda self, age: age < self.window),
        no_window=ring(seen=lambda self, age: age >= 0),
        window_for_old_alone=ring(seen=window_for_old_alone),
        order_of_slots=ring(slots=lambda self: torch.arange(min(self.length, self.window))),
        empty_slots=ring(slots=every_slot),
        zeros_taken_for_empty=ring(slots=every_slot, hide=lambda scores, mask: below_all(scores, mask & (scores != 0))),
        stored_first=Wrong(STORED_FIRST, recognise=empty_rows_aside(STORED_FIRST, drive_window)),
        cut_first=Wrong(CUT_TO_CHUNK, variants=tuple(CUT_TO_WINDOW)),
        more_than_itself=Wrong(ring(attend=all_but_the_oldest), recognise=sees_more_than_itself),
        nothing_dropped=ring(slots=lambda self: torch.arange(self.length), store=joining(cut=False)),
        views_of_all=ring(slots=lambda self: torch.arange(min(self.length, self.window)), store=joining(cut=True)),
        kept_in_a_list=ring(attend=kept_in_a_list),
        all_tokens_read=ring(slots=lambda self: torch.arange(self.length) % self.window),
        stopped_when_full=ring(store=until_full),
        length_stops=ring(attend=length_stops_at_window),
        length_capped=ring(store=counted(lambda self, before: min(self.length, self.window))),
        length_of_ring=ring(
            slots=lambda self: torch.arange(self.length),
            store=counted(lambda self, before: self.keys.shape[2], joining(cut=True)),
        ),
        end_in_first_slots=ring(
            store=end_stored(lambda self, n: (self.length + torch.arange(min(n, self.window))) % self.window)
        ),
        end_from_slot_0=ring(
            store=end_stored(
                lambda self, n: (torch.arange(min(n, self.window)) + self.length * (n < self.window)) % self.window
            )
        ),
        length_stays_0=ring(store=counted(lambda self, before: 0)),
        overwritten_before_read=ring(attend=overwritten_before_read),
        one_step_a_chunk=ring(store=counted(lambda self, before: before + 1)),
        start_kept=ring(store=start_kept),
        different_slots=ring(put=different_slots),
    ),
)
