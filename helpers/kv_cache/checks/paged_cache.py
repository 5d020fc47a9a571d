"""A cache in pages: a story of appends, forks and frees, and what is left after each."""

import math
from functools import partial

import torch
from torch import Tensor

from helpers.engine.anti_gaming import same
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.compare import Message, difference
from helpers.engine.drivers import Stopped, call, observe
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, with_methods, wrong_answers

from ..paged_cache import PagedCache

__all__ = ["paged_cache"]

FULL = Message("ValueError")
BESIDE = Message("another cache beside this one keeps its row")
SHARED = Message(
    "another cache, made beside this one, has lost its row: something is shared by all instances of the class"
)


def drive_pages(cls, pages: int, page_size: int, steps: list[tuple]) -> tuple:
    """After each step: what was read, or how many pages are free; "ValueError" where there was no page left.

    Another cache, with a sequence of the same name, is in use beside it, and must hold its own row in the end. After
    each step the caller writes other numbers into the rows that it brought. Where an append is refused to the only
    sequence there is, its pages must be as many as its rows need.
    """
    name, rows = next(step[1:] for step in steps if step[0] == "append")
    neighbour, cache = (call(cls, number, page_size, rows.shape[1], rows.dtype) for number in (2, pages))
    call(neighbour.append, name, rows[:1])
    told = []
    for number, (action, *args) in enumerate(steps, start=1):
        seen = observe(getattr(cache, action), tuple(args), reuses=True)
        if seen.error and seen.error.kind != "ValueError":
            raise Stopped(seen.error)
        read = action == "read" and isinstance(seen.output, Tensor)
        told.append(seen.output.clone() if read else FULL if seen.error else cache.free_pages)
        if told[-1] is FULL and _alive(steps[:number]) == {args[0]}:
            told[-1] = _refused(cache, pages, page_size, args[0])
    seen = observe(neighbour.read, (name,))
    kept = not seen.error and isinstance(seen.output, Tensor) and same(seen.output, rows[:1])
    return *told, BESIDE if kept else SHARED


def _alive(steps: list[tuple]) -> set[str]:
    """The names that were used and not freed since."""
    names = set()
    for action, *args in steps:
        names |= {part for part in args if isinstance(part, str)}
        names -= {args[0]} if action == "free" else set()
    return names


def _refused(cache, pages: int, page_size: int, name: str) -> Message:
    """Whether the rows that the only sequence still has after a ValueError lie on all pages in use."""
    seen = observe(cache.read, (name,))
    rows = len(seen.output) if isinstance(seen.output, Tensor) else 0  # the name may be unknown
    free, left = pages - math.ceil(rows / page_size), cache.free_pages
    told = f"after the ValueError {name!r} has {rows} rows, and {left} pages are free, where it should be {free}"
    return FULL if left == free else Message(told)


class Story(Check):
    """A check that says in which step of a story something else came out."""

    def difference(self, seen: Observation, expected: tuple) -> str:
        """The first step that went another way, and how."""
        steps = seen.args[2]
        for number, (step, got, want) in enumerate(zip(steps, seen.output, expected), start=1):
            if not self.agrees(got, want, seen.args):
                return f"Step {number} of {len(steps)}, {_step_in_words(*step)}: {_apart(got, want)}"
        return "" if seen.output[-1] == BESIDE else difference(seen.output[-1], BESIDE)


def _step_in_words(action: str, name: str, more: Tensor | str = "") -> str:
    if isinstance(more, Tensor):
        return f"`append` {len(more)} row{'s' * (len(more) > 1)} to {name!r}"
    return f"`{action}` {name!r}" + f" as {more!r}" * bool(more)


def _apart(got, want) -> str:
    if got is FULL:
        return "it stops with a ValueError, and it shouldn't."
    if want is FULL and not isinstance(got, Message):
        return "no page is free for it, and no ValueError comes."
    if isinstance(want, Tensor) or isinstance(got, Message):
        return difference(got, want)
    return f"{got} pages are free after it, where it should be {want}."


def _truth(pages: int, page_size: int, steps: list[tuple]) -> tuple:
    return drive_pages(PagedCache, pages, page_size, steps)


def _reads_its_own(output, *inputs) -> bool:
    pairs = [(got, want) for got, want in zip(output, _truth(*inputs)) if isinstance(want, Tensor)]
    return all(got.shape == want.shape and torch.equal(got, want) for got, want in pairs)


def _counts(output, *inputs) -> bool:
    return all(got == want for got, want in zip(output[:-1], _truth(*inputs)) if not isinstance(want, Tensor))


def _taken_too_early(seen: Observation) -> bool:
    """A mark: the first step that goes another way is an append that just fills a page, and takes one too many."""
    lengths, page_size = {}, seen.args[1]
    for (action, name, *more), got, want in zip(seen.args[2], seen.output, _truth(*seen.args)):
        if action == "append":
            lengths[name] = lengths.get(name, 0) + len(more[0])
        elif action == "fork":
            lengths[more[0]] = lengths[name]
        elif action == "free":
            del lengths[name]
        if not same(got, want):
            return action == "append" and lengths[name] % page_size == 0 and got == want - 1
    return False


def requests(label: str, pages: int, page_size: int, story: str, *, d=3, dtype=torch.float32, silent=False) -> Case:
    """A story such as "append a 2, fork a b, read b", with rows drawn. silent: the first of every append is zeros."""

    def draw(generator: torch.Generator) -> list[tuple]:
        def rows(n: int) -> Tensor:
            drawn = torch.randn(n, d, generator=generator, dtype=dtype)
            return drawn * (torch.arange(n) >= silent)[:, None]

        steps = [step.split() for step in story.split(", ")]
        return [tuple(rows(int(part)) if part.isdigit() else part for part in step) for step in steps]

    return explicit_case(label, pages, page_size, RandomArg(draw))


paged = partial(with_methods, PagedCache)


def appending(new_page=lambda table, page, slot: slot == 0, counted="row by row", last=False, all_shared=False):
    """new_page: whether a row needs one. last: rows go to the last page, whatever the length. all_shared: copied."""

    def append(self, name, rows):
        table, start = self.table.setdefault(name, []), self.length.setdefault(name, 0)
        if counted == "before":
            self.length[name] = start + len(rows)
        for place, row in enumerate(rows, start):
            page, slot = divmod(place, self.pool.shape[1])
            page = -1 if last else page
            if new_page(table, page, slot):
                table.append(self._take())
            elif self.users[table[page]] > 1:
                for one in range(page + 1) if all_shared else [page]:
                    table[one] = self._copy(table[one]) if self.users[table[one]] > 1 else table[one]
            self.pool[table[page], slot] = row
            if counted == "row by row":
                self.length[name] = place + 1
        self.length[name] = start + len(rows)

    return append


append_where_needed = appending(lambda table, page, slot: page == len(table))


def page_too_early(self, name, rows):
    append_where_needed(self, name, rows)
    if self.length[name] % self.pool.shape[1] == 0:
        self.table[name].append(self._take())


def copies_a_full_page(self, name, rows):
    table = self.table.get(name)
    if table and self.users[table[-1]] > 1:
        table[-1] = self._copy(table[-1])
    PagedCache.append(self, name, rows)


def refuses_rows_that_fit(self, name, rows):
    if -(-len(rows) // self.pool.shape[1]) > self.free_pages:
        raise ValueError("Too few pages are free.")
    PagedCache.append(self, name, rows)


def begins_again(self, name, rows):
    size = self.pool.shape[1]
    if name in self.table:
        self.length[name] = -(-self.length[name] // size) * size
    PagedCache.append(self, name, rows)


def stored_beside(self, name, rows):
    """The pages are counted, and the rows lie beside them, in lists."""
    if name not in self.table:
        self.lists = {**getattr(self, "lists", {}), name: []}
    PagedCache.append(self, name, rows)
    self.lists[name].extend(rows)


def forked_beside(self, name, new):
    PagedCache.fork(self, name, new)
    self.lists[new] = list(self.lists[name])


def table_shared(self, name, new):
    PagedCache.fork(self, name, new)
    self.table[new] = self.table[name]


def not_counted(self, name, new):
    self.table[new], self.length[new] = list(self.table[name]), self.length[name]


def freed_while_shared(self, name):
    del self.length[name]
    for page in self.table.pop(name):
        self.users[page] = 0


def wiped(self, name):
    pages = self.table[name]
    PagedCache.free(self, name)
    for page in pages:
        if self.users[page] == 0:
            self.pool[page] = 0


def length_survives(self, name):
    for page in self.table.pop(name):
        self.users[page] -= 1


def all_but_zeros(self, name):
    rows = self.pool[self.table[name]].flatten(0, 1)
    return rows[rows.any(dim=1)]


def full_last_page_unread(self, name):
    *whole, last = self.pool[self.table[name]]
    return torch.cat([*whole, last[: self.length[name] % self.pool.shape[1]]])


def copying(filled=True, before=0, after=1):
    """By how many users less the shared page has before a page is taken for the copy, and after it."""

    def _copy(self, shared):
        self.users[shared] -= before
        page = self._take()
        if filled:
            self.pool[page] = self.pool[shared]
        self.users[shared] -= after
        return page

    return _copy


def taking(unused):
    """unused(self): the number of the page that is taken."""

    def _take(self):
        page = unused(self)
        self.users[page] += 1
        return page

    return _take


SHARED_TABLES = (paged(fork=table_shared), paged(fork=table_shared, append=appending(last=True)))

paged_cache = Story(
    exercise="paged_cache",
    reference=PagedCache,
    drive=drive_pages,
    names=("read: tokens features",),
    cases=[
        requests(
            "one sequence over several pages",
            5,
            3,
            "append a 2, append a 3, read a, append a 1, read a, append a 1, read a",
        ),
        requests(
            "two sequences in turn, some rows of zeros, in float64",
            6,
            2,
            "append a 1, append b 3, append a 4, append b 2, read a, read b, free a, append b 3, read b, append c 3, "
            "read c, read b",
            dtype=torch.float64,
            silent=True,
        ),
        requests(
            "a shared beginning, then both go on",
            9,
            4,
            "append a 6, fork a b, read b, append b 1, read a, append a 1, read a, read b, append b 4, read b, read a, "
            "free a, read b, free b",
        ),
        requests(
            "one of two is freed while pages are shared",
            7,
            3,
            "append a 5, fork a b, append b 1, read a, free a, append c 4, read b, append b 2, read b, read c, free b, "
            "free c",
        ),
        requests(
            "a fork at the end of a page",
            6,
            3,
            "append a 6, fork a b, append b 1, append a 2, read a, read b, free b, read a, free a",
        ),
        requests(
            "a name used again after it was freed",
            4,
            3,
            "append a 5, free a, append a 4, read a, fork a b, free a, append a 1, read a, read b",
        ),
        requests(
            "no page left for a copy",
            2,
            2,
            "append a 2, append a 1, fork a b, append b 1, read a, read b, free b, read a, append a 1, read a, free a",
        ),
        requests("no page left", 3, 2, "append a 2, append a 5, free a, append b 5, append c 1, append b 1, read b"),
    ],
    properties=[
        Property("every sequence reads its own rows", _reads_its_own),
        Property("pages are neither lost nor wasted", _counts),
    ],
    misconceptions=wrong_answers(
        __file__,
        freed_while_shared=paged(free=freed_while_shared),
        shared_page_written=paged(_copy=lambda self, shared: shared),
        pages_leak=paged(free=lambda self, name: (self.table.pop(name), self.length.pop(name)), append=appending()),
        copied_not_released=paged(_copy=copying(after=0)),
        fork_copies=paged(fork=lambda self, name, new: self.append(new, self.read(name)), append=appending()),
        fork_shares_table=Wrong(SHARED_TABLES[0], variants=SHARED_TABLES),
        whole_pages_read=paged(read=lambda self, name: self.pool[self.table[name]].flatten(0, 1)),
        full_last_page_unread=paged(read=full_last_page_unread),
        zeros_unread=paged(free=wiped, read=all_but_zeros),
        order_of_numbers=paged(
            read=lambda self, name: self.pool[sorted(self.table[name])].flatten(0, 1)[: self.length[name]]
        ),
        released_before_copy=paged(_copy=copying(before=1, after=0)),
        copy_empty=paged(_copy=copying(filled=False)),
        page_too_early=Wrong(paged(append=page_too_early), recognise=_taken_too_early),
        full_page_copied=paged(append=copies_a_full_page),
        rows_refused=paged(append=refuses_rows_that_fit),
        length_kept=Wrong(paged(free=length_survives), raises="IndexError"),
        new_page_every_append=Wrong(paged(append=begins_again), raises="IndexError"),
        rows_outside_pool=paged(
            append=stored_beside, fork=forked_beside, read=lambda self, name: torch.stack(self.lists[name])
        ),
        fork_not_counted=paged(fork=not_counted),
        counted_after=paged(append=appending(counted="after")),
        counted_before=paged(append=appending(counted="before")),
        all_shared_copied=paged(append=appending(all_shared=True)),
        stop_iteration=Wrong(
            paged(_take=taking(lambda self: next(page for page, users in enumerate(self.users) if users == 0))),
            raises="StopIteration",
        ),
        index_error=Wrong(
            paged(_take=taking(lambda self: [page for page, users in enumerate(self.users) if users == 0][0])),
            raises="IndexError",
        ),
        taken_from_others=paged(_take=taking(lambda self: self.users.index(0) if 0 in self.users else 0)),
    ),
)
