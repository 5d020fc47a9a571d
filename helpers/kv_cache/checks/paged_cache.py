"""Checks of the paged cache: a story of appends, forks and frees, and what is left after each."""

import math

import torch
from torch import Tensor

from helpers.engine.anti_gaming import same
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.compare import Message, difference
from helpers.engine.drivers import Stopped, call, observe
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import paged_cache as reference

__all__ = ["paged_cache"]

FULL = Message("ValueError")


def drive_pages(cls, pages: int, page_size: int, steps: list[tuple]) -> tuple:
    """After each step: what was read, or how many pages are free; "ValueError" where there was no page left. Another cache, with a
    sequence of the same name, is in use beside it, and must hold its own row in the end. After each step the caller writes other numbers
    into the rows that it brought. Where an append is refused to the only sequence there is, its pages must be as many as its rows need."""
    name, rows = next(step[1:] for step in steps if step[0] == "append")
    neighbour, cache = (call(cls, number, page_size, rows.shape[1], rows.dtype) for number in (2, pages))
    call(neighbour.append, name, rows[:1])
    told = []
    for number, (action, *args) in enumerate(steps, start=1):
        seen = observe(getattr(cache, action), tuple(args), reuses=True)
        if seen.error and seen.error.kind != "ValueError":
            raise Stopped(seen.error)
        told.append(
            seen.output.clone() if action == "read" and isinstance(seen.output, Tensor) else _count(cache, seen)
        )
        if told[-1] is FULL and _alive(steps[:number]) == {args[0]}:
            told[-1] = _refused(cache, pages, page_size, args[0])
    return *told, _own_row(neighbour, name, rows[:1])


BESIDE = Message("another cache beside this one keeps its row")


def _own_row(cache, name: str, row: Tensor) -> Message:
    seen = observe(cache.read, (name,))
    kept = not seen.error and isinstance(seen.output, Tensor) and same(seen.output, row)
    return (
        BESIDE
        if kept
        else Message(
            "another cache, made beside this one, has lost its row: something is shared by all instances of the class"
        )
    )


def _alive(steps: list[tuple]) -> set[str]:
    """The names that were used and not freed since."""
    names = set()
    for action, *args in steps:
        names |= {part for part in args if isinstance(part, str)}
        names -= {args[0]} if action == "free" else set()
    return names


def _refused(cache, pages: int, page_size: int, name: str) -> Message:
    """Whether the rows that the only sequence has after a ValueError, however many of the new ones are kept, lie on all pages in use."""
    seen = observe(cache.read, (name,))
    rows = len(seen.output) if isinstance(seen.output, Tensor) else 0  # the name may be unknown
    free, left = pages - math.ceil(rows / page_size), cache.free_pages
    return (
        FULL
        if left == free
        else Message(
            f"after the ValueError {name!r} has {rows} rows, and {left} pages are free, where it should be {free}"
        )
    )


def _count(cache, seen):
    return FULL if seen.error else cache.free_pages


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
    return drive_pages(reference.PagedCache, pages, page_size, steps)


def _reads_its_own(output, *inputs) -> bool:
    wanted = _truth(*inputs)
    return all(
        got.shape == want.shape and torch.equal(got, want)
        for got, want in zip(output, wanted)
        if isinstance(want, Tensor)
    )


def _counts(output, *inputs) -> bool:
    return all(got == want for got, want in zip(output[:-1], _truth(*inputs)) if not isinstance(want, Tensor))


def _taken_too_early(seen: Observation) -> bool:
    """A mark: the first step that goes another way is an append that just fills a page, and one page too many is taken."""
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


def requests(
    label: str, pages: int, page_size: int, *steps: tuple, d: int = 3, dtype=torch.float32, silent: bool = False
) -> Case:
    """Steps with a number of rows where rows are to be drawn. silent: the first row of every append is all zeros."""

    def draw(generator: torch.Generator) -> list[tuple]:
        def rows(n: int) -> Tensor:
            drawn = torch.randn(n, d, generator=generator, dtype=dtype)
            return drawn * (torch.arange(n) >= silent)[:, None]

        return [tuple(rows(part) if isinstance(part, int) else part for part in step) for step in steps]

    return explicit_case(label, pages, page_size, RandomArg(draw))


class _Paged:
    """Right, in small steps: each slip below changes one."""

    def __init__(self, pages, page_size, d, dtype=torch.float32) -> None:
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages
        self.table, self.length = {}, {}
        self.free_pages = pages

    def append(self, name, rows) -> None:
        self.table.setdefault(name, [])
        self.length.setdefault(name, 0)
        for row in rows:
            page, slot = divmod(self.length[name], self.pool.shape[1])
            self.make_room(name, page, slot)
            self.pool[self.table[name][page], slot] = row
            self.length[name] += 1

    def make_room(self, name, page, slot) -> None:
        if slot == 0:
            self.table[name].append(self.take())
        elif self.users[self.table[name][page]] > 1:
            self.part(name, page)

    def part(self, name, page) -> None:
        shared = self.table[name][page]
        self.table[name][page] = self.take()
        self.pool[self.table[name][page]] = self.pool[shared]
        self.release(shared)

    def take(self):
        if self.free_pages == 0:
            raise ValueError("All pages are in use.")
        page = self.users.index(0)
        self.users[page] = 1
        self.free_pages = self.users.count(0)
        return page

    def release(self, page) -> None:
        self.users[page] -= 1
        self.free_pages = self.users.count(0)

    def read(self, name) -> Tensor:
        return self.pool[self.table[name]].flatten(0, 1)[: self.length[name]]

    def fork(self, name, new) -> None:
        self.table[new], self.length[new] = list(self.table[name]), self.length[name]
        for page in self.table[new]:
            self.users[page] += 1

    def free(self, name) -> None:
        for page in self.table.pop(name):
            self.release(page)
        del self.length[name]


class FreedWhileShared(_Paged):
    def free(self, name) -> None:
        for page in self.table.pop(name):
            self.users[page] = 0
        self.free_pages = self.users.count(0)
        del self.length[name]


class NoCopyOnWrite(_Paged):
    def part(self, name, page) -> None:
        pass


class NothingGivenBack(_Paged):
    def free(self, name) -> None:
        del self.table[name], self.length[name]


class OldPageNotReleased(_Paged):
    def part(self, name, page) -> None:
        shared = self.table[name][page]
        self.table[name][page] = self.take()
        self.pool[self.table[name][page]] = self.pool[shared]


class ForkCopies(_Paged):
    def fork(self, name, new) -> None:
        self.append(new, self.read(name))


class ForkSharesTheTable(_Paged):
    def fork(self, name, new) -> None:
        self.table[new], self.length[new] = self.table[name], self.length[name]
        for page in self.table[new]:
            self.users[page] += 1


class LastOfASharedTable(ForkSharesTheTable):
    """Its rows go to the last page of the table, whatever the length says."""

    def append(self, name, rows) -> None:
        table = self.table.setdefault(name, [])
        self.length.setdefault(name, 0)
        for row in rows:
            slot = self.length[name] % self.pool.shape[1]
            self.make_room(name, -1, slot)
            self.pool[table[-1], slot] = row
            self.length[name] += 1


def _shared_table(seen: Observation) -> bool:
    stories = (drive_pages(cls, *seen.args) for cls in (ForkSharesTheTable, LastOfASharedTable))
    return any(all(map(same, seen.output, story)) for story in stories)


class WholePagesRead(_Paged):
    def read(self, name) -> Tensor:
        return self.pool[self.table[name]].flatten(0, 1)


class FullLastPageUnread(_Paged):
    def read(self, name) -> Tensor:
        *whole, last = (self.pool[page] for page in self.table[name])
        return torch.cat([*whole, last[: self.length[name] % self.pool.shape[1]]])


class ZerosUnread(_Paged):
    """Freed pages are wiped, and rows of zeros taken for empty slots."""

    def release(self, page) -> None:
        super().release(page)
        if self.users[page] == 0:
            self.pool[page] = 0

    def read(self, name) -> Tensor:
        rows = self.pool[self.table[name]].flatten(0, 1)
        return rows[rows.any(dim=1)]


class ReadInOrderOfNumbers(_Paged):
    def read(self, name) -> Tensor:
        return self.pool[sorted(self.table[name])].flatten(0, 1)[: self.length[name]]


class ReleasedBeforeTaken(_Paged):
    def part(self, name, page) -> None:
        shared = self.table[name][page]
        self.release(shared)
        self.table[name][page] = self.take()
        self.pool[self.table[name][page]] = self.pool[shared]


class CopyStartsEmpty(_Paged):
    def part(self, name, page) -> None:
        shared = self.table[name][page]
        self.table[name][page] = self.take()
        self.release(shared)


class PageTooEarly(_Paged):
    def append(self, name, rows) -> None:
        super().append(name, rows)
        if self.length[name] % self.pool.shape[1] == 0:
            self.table[name].append(self.take())

    def make_room(self, name, page, slot) -> None:
        if page == len(self.table[name]):
            self.table[name].append(self.take())
        elif self.users[self.table[name][page]] > 1:
            self.part(name, page)


class LengthAtTheEnd(_Paged):
    """Rows are counted when all of them are stored."""

    def append(self, name, rows) -> None:
        table, length = self.table.setdefault(name, []), self.length.get(name, 0)
        for row in rows:
            page, slot = divmod(length, self.pool.shape[1])
            self.make_room(name, page, slot)
            self.pool[table[page], slot] = row
            length += 1
        self.length[name] = length


class LengthAtTheStart(_Paged):
    """All rows are counted before the first is stored."""

    def append(self, name, rows) -> None:
        table, start = self.table.setdefault(name, []), self.length.get(name, 0)
        self.length[name] = start + len(rows)
        for length, row in enumerate(rows, start):
            page, slot = divmod(length, self.pool.shape[1])
            self.make_room(name, page, slot)
            self.pool[table[page], slot] = row


class CopiesAllShared(_Paged):
    def make_room(self, name, page, slot) -> None:
        if slot == 0:
            self.table[name].append(self.take())
        elif self.users[self.table[name][page]] > 1:
            for index in range(page + 1):
                if self.users[self.table[name][index]] > 1:
                    self.part(name, index)


class CopiesAFullPage(_Paged):
    def append(self, name, rows) -> None:
        if self.table.get(name) and self.users[self.table[name][-1]] > 1:
            self.part(name, len(self.table[name]) - 1)
        super().append(name, rows)


class RefusesRowsThatFit(_Paged):
    def append(self, name, rows) -> None:
        if -(-len(rows) // self.pool.shape[1]) > self.free_pages:
            raise ValueError("Too few pages are free.")
        super().append(name, rows)


class LengthSurvives(_Paged):
    def free(self, name) -> None:
        for page in self.table.pop(name):
            self.release(page)


class BeginsAgain(_Paged):
    def append(self, name, rows) -> None:
        if self.length.get(name, 0) % self.pool.shape[1] == 0:
            self.length.setdefault(name, 0)
        elif name in self.table:
            self.length[name] = (self.length[name] // self.pool.shape[1] + 1) * self.pool.shape[1]
        super().append(name, rows)


class RowsAsTheyCame(_Paged):
    """The pages are counted, and the rows lie beside them, in lists."""

    def append(self, name, rows) -> None:
        if name not in self.table:
            self.lists = {**getattr(self, "lists", {}), name: []}
        super().append(name, rows)
        self.lists[name].extend(rows)

    def read(self, name) -> Tensor:
        return torch.stack(self.lists[name])

    def fork(self, name, new) -> None:
        super().fork(name, new)
        self.lists[new] = list(self.lists[name])


class ForkNotCounted(_Paged):
    def fork(self, name, new) -> None:
        self.table[new], self.length[new] = list(self.table[name]), self.length[name]


class NextOfNothing(_Paged):
    def take(self):
        page = next(page for page, users in enumerate(self.users) if users == 0)
        self.users[page] = 1
        self.free_pages = self.users.count(0)
        return page


class FirstOfAnEmptyList(_Paged):
    def take(self):
        page = [page for page, users in enumerate(self.users) if users == 0][0]
        self.users[page] = 1
        self.free_pages = self.users.count(0)
        return page


class TakesFromOthers(_Paged):
    def take(self):
        page = self.users.index(0) if 0 in self.users else 0
        self.users[page] += 1
        self.free_pages = self.users.count(0)
        return page


paged_cache = Story(
    exercise="paged_cache",
    reference=reference.PagedCache,
    drive=drive_pages,
    names=("read: tokens features",),
    cases=[
        requests(
            "one sequence over several pages",
            5,
            3,
            ("append", "a", 2),
            ("append", "a", 3),
            ("read", "a"),
            ("append", "a", 1),
            ("read", "a"),
            ("append", "a", 1),
            ("read", "a"),
        ),
        requests(
            "two sequences in turn, some rows of zeros, in float64",
            6,
            2,
            ("append", "a", 1),
            ("append", "b", 3),
            ("append", "a", 4),
            ("append", "b", 2),
            ("read", "a"),
            ("read", "b"),
            ("free", "a"),
            ("append", "b", 3),
            ("read", "b"),
            ("append", "c", 3),
            ("read", "c"),
            ("read", "b"),
            dtype=torch.float64,
            silent=True,
        ),
        requests(
            "a shared beginning, then both go on",
            9,
            4,
            ("append", "a", 6),
            ("fork", "a", "b"),
            ("read", "b"),
            ("append", "b", 1),
            ("read", "a"),
            ("append", "a", 1),
            ("read", "a"),
            ("read", "b"),
            ("append", "b", 4),
            ("read", "b"),
            ("read", "a"),
            ("free", "a"),
            ("read", "b"),
            ("free", "b"),
        ),
        requests(
            "one of two is freed while pages are shared",
            7,
            3,
            ("append", "a", 5),
            ("fork", "a", "b"),
            ("append", "b", 1),
            ("read", "a"),
            ("free", "a"),
            ("append", "c", 4),
            ("read", "b"),
            ("append", "b", 2),
            ("read", "b"),
            ("read", "c"),
            ("free", "b"),
            ("free", "c"),
        ),
        requests(
            "a fork at the end of a page",
            6,
            3,
            ("append", "a", 6),
            ("fork", "a", "b"),
            ("append", "b", 1),
            ("append", "a", 2),
            ("read", "a"),
            ("read", "b"),
            ("free", "b"),
            ("read", "a"),
            ("free", "a"),
        ),
        requests(
            "a name used again after it was freed",
            4,
            3,
            ("append", "a", 5),
            ("free", "a"),
            ("append", "a", 4),
            ("read", "a"),
            ("fork", "a", "b"),
            ("free", "a"),
            ("append", "a", 1),
            ("read", "a"),
            ("read", "b"),
        ),
        requests(
            "no page left for a copy",
            2,
            2,
            ("append", "a", 2),
            ("append", "a", 1),
            ("fork", "a", "b"),
            ("append", "b", 1),
            ("read", "a"),
            ("read", "b"),
            ("free", "b"),
            ("read", "a"),
            ("append", "a", 1),
            ("read", "a"),
            ("free", "a"),
        ),
        requests(
            "no page left",
            3,
            2,
            ("append", "a", 2),
            ("append", "a", 5),
            ("free", "a"),
            ("append", "b", 5),
            ("append", "c", 1),
            ("append", "b", 1),
            ("read", "b"),
        ),
    ],
    properties=[
        Property("every sequence reads its own rows", _reads_its_own),
        Property("pages are neither lost nor wasted", _counts),
    ],
    misconceptions=wrong_answers(
        __file__,
        page_freed_while_it_shared=FreedWhileShared,
        written_into_shared_page=NoCopyOnWrite,
        freed_pages_leak=NothingGivenBack,
        copied_page_keeps_old_user=OldPageNotReleased,
        fork_that_copies=ForkCopies,
        fork_that_shares_table_itself=Wrong(ForkSharesTheTable, recognise=_shared_table),
        whole_pages_read=WholePagesRead,
        full_last_page_not_read=FullLastPageUnread,
        rows_zeros_taken_empty_slots=ZerosUnread,
        pages_read_order_their_numbers=ReadInOrderOfNumbers,
        user_counted_down_before_there_copy=ReleasedBeforeTaken,
        copy_without_contents=CopyStartsEmpty,
        page_taken_before_it_needed=Wrong(PageTooEarly, recognise=_taken_too_early),
        full_shared_page_copied=CopiesAFullPage,
        rows_refused_that_fit_on_last_page=RefusesRowsThatFit,
        length_kept_after_free=Wrong(LengthSurvives, raises="IndexError"),
        new_page_every_append=Wrong(BeginsAgain, raises="IndexError"),
        rows_kept_as_views_outside_pool=RowsAsTheyCame,
        users_not_counted_by_fork=ForkNotCounted,
        length_counted_when_all_rows_stored=LengthAtTheEnd,
        length_counted_before_rows_stored=LengthAtTheStart,
        all_shared_pages_copied=CopiesAllShared,
        stopiteration_where_no_page_free=Wrong(NextOfNothing, raises="StopIteration"),
        indexerror_where_no_page_free=Wrong(FirstOfAnEmptyList, raises="IndexError"),
        page_taken_from_others_when_none_free=TakesFromOthers,
    ),
)
