"""Checks of the paged cache: a story of appends, forks and frees, and what is left after each."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, Drawn, given
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.compare import Told, difference
from helpers.engine.driving import Stopped, call, observe
from helpers.engine.observe import Observation
from helpers.engine.unseen import same

from .. import paged_cache as reference

__all__ = ["paged_cache"]


FULL = Told("ValueError")


def drive_pages(cls, pages: int, page_size: int, steps: list[tuple]) -> tuple:
    """After each step: what was read, or how many pages are free; "ValueError" where there was no page left. Another cache, with a
    sequence of the same name, is in use beside it, and must hold its own row in the end. After each step the caller writes other numbers
    into the rows that it brought."""
    name, rows = next(step[1:] for step in steps if step[0] == "append")
    neighbour, cache = (call(cls, number, page_size, rows.shape[1], rows.dtype) for number in (2, pages))
    call(neighbour.append, name, rows[:1])
    told = []
    for action, *args in steps:
        seen = observe(getattr(cache, action), tuple(args), reuses=True)
        if seen.error and seen.error.kind != "ValueError":
            raise Stopped(seen.error)
        told.append(
            seen.output.clone() if action == "read" and isinstance(seen.output, Tensor) else _count(cache, seen)
        )
    return *told, _own_row(neighbour, name, rows[:1])


BESIDE = Told("another cache beside this one keeps its row")


def _own_row(cache, name: str, row: Tensor) -> Told:
    seen = observe(cache.read, (name,))
    kept = not seen.error and isinstance(seen.output, Tensor) and same(seen.output, row)
    return (
        BESIDE
        if kept
        else Told(
            "another cache, made beside this one, has lost its row: something is shared by all instances of the class"
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
    if want is FULL:
        return "no page is free for it, and no ValueError comes."
    if isinstance(want, Tensor):
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


def requests(label: str, pages: int, page_size: int, *steps: tuple, d: int = 3, dtype=torch.float32) -> Case:
    """Steps with a number of rows where rows are to be drawn."""

    def draw(generator: torch.Generator) -> list[tuple]:
        def rows(n: int) -> Tensor:
            return torch.randn(n, d, generator=generator, dtype=dtype)

        return [tuple(rows(part) if isinstance(part, int) else part for part in step) for step in steps]

    return given(label, pages, page_size, Drawn(draw))


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


class WholePagesRead(_Paged):
    def read(self, name) -> Tensor:
        return self.pool[self.table[name]].flatten(0, 1)


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
        requests("one sequence over several pages", 5, 3, ("append", "a", 2), ("append", "a", 3), ("read", "a"), ("append", "a", 1), ("read", "a"),
               ("append", "a", 1), ("read", "a")),
        requests("two sequences in turn, in float64", 6, 2, ("append", "a", 1), ("append", "b", 3), ("append", "a", 4), ("append", "b", 2), ("read", "a"),
               ("read", "b"), ("free", "a"), ("append", "b", 3), ("read", "b"), ("append", "c", 3), ("read", "c"), ("read", "b"), dtype=torch.float64),
        requests("a shared beginning, then both go on", 9, 4, ("append", "a", 6), ("fork", "a", "b"), ("read", "b"), ("append", "b", 1),
               ("read", "a"), ("append", "a", 1), ("read", "a"), ("read", "b"), ("append", "b", 4), ("read", "b"), ("read", "a"),
               ("free", "a"), ("read", "b"), ("free", "b")),
        requests("one of two is freed while pages are shared", 7, 3, ("append", "a", 5), ("fork", "a", "b"), ("append", "b", 1), ("read", "a"),
               ("free", "a"), ("append", "c", 4), ("read", "b"), ("append", "b", 2), ("read", "b"), ("read", "c"), ("free", "b"), ("free", "c")),
        requests("a fork at the end of a page", 6, 3, ("append", "a", 6), ("fork", "a", "b"), ("append", "b", 1), ("append", "a", 2), ("read", "a"),
               ("read", "b"), ("free", "b"), ("read", "a"), ("free", "a")),
        requests("a name used again after it was freed", 4, 3, ("append", "a", 5), ("free", "a"), ("append", "a", 4), ("read", "a"),
               ("fork", "a", "b"), ("free", "a"), ("append", "a", 1), ("read", "a"), ("read", "b")),
        requests("no page left for a copy", 2, 2, ("append", "a", 3), ("fork", "a", "b"), ("append", "b", 1), ("read", "a"), ("read", "b"), ("free", "b"),
               ("read", "a"), ("append", "a", 1), ("read", "a"), ("free", "a")),
        requests("no page left", 2, 2, ("append", "a", 3), ("append", "b", 1), ("append", "a", 1), ("read", "a")),
    ],
    properties=[
        Property("every sequence reads its own rows", _reads_its_own),
        Property("pages are neither lost nor wasted", _counts),
    ],
    misconceptions=[
        Misconception(
            "a page freed while it is shared", FreedWhileShared,
            "Another sequence still reads this page, and the next append will write over it. Count the users of a page: it is free when "
            "there are none left.",
        ),
        Misconception(
            "written into a shared page", NoCopyOnWrite,
            "Two sequences share the page, and the row that one of them adds lands in the text of the other. Copy the page before you write "
            "(copy on write).",
        ),
        Misconception(
            "freed pages leak", NothingGivenBack,
            "Forgetting the table does not free its pages: nobody will ever use them again. Count the users down.",
        ),
        Misconception(
            "a copied page keeps its old user", OldPageNotReleased,
            "Who moves to a copy no longer uses the original. Count its users down, or it will never be free again.",
        ),
        Misconception(
            "a fork that copies", ForkCopies,
            "The new sequence gets the same page numbers, not the same numbers on new pages. A thousand answers to one prompt can share it.",
        ),
        Misconception(
            "a fork that shares the table itself", ForkSharesTheTable,
            "`table[new] = table[name]` makes one list with two names: a page that one sequence adds appears in the other. Copy the list (the "
            "page numbers, not the pages).",
        ),
        Misconception(
            "whole pages read", WholePagesRead,
            "The last page may be half empty. Return the rows of this sequence and no more.",
        ),
        Misconception(
            "pages read in the order of their numbers", ReadInOrderOfNumbers,
            "A freed page with a low number may hold the *end* of a later text. The table gives the order.",
        ),
        Misconception(
            "a user counted down before there is a copy", ReleasedBeforeTaken,
            "Where no page is free for the copy, `take` stops with a ValueError, and the shared page has lost a user that still reads it. Take first, then count down.",
        ),
        Misconception(
            "a copy without its contents", CopyStartsEmpty,
            "The rows that stand on the shared page belong to both sequences. Copy them to the new page before you write after them.",
        ),
        Misconception(
            "a page taken before it is needed", PageTooEarly,
            "A page that is just full needs no successor yet. Take one when there is a row to write.",
        ),
        Misconception(
            "a full shared page copied", CopiesAFullPage,
            "A full page is never written again, so it can stay shared. Ask first whether the row needs a new page; copy a shared one only if the "
            "row goes into it.",
        ),
        Misconception(
            "rows refused that fit on the last page", RefusesRowsThatFit,
            "The sequence's last page may have empty slots. Rows that go there need no free page: count only the pages that have to be taken.",
        ),
        Misconception(
            "the length survives the free", LengthSurvives,
            "`free` must forget all of a sequence. Its name may be used again, and the new sequence would begin in the middle.",
            raises="IndexError",
        ),
        Misconception(
            "a new page for every append", BeginsAgain,
            "A page that is half empty takes the next rows. A new one is taken when its slots are used up.",
            raises="IndexError",
        ),
        Misconception(
            "rows kept as views, outside the pool", RowsAsTheyCame,
            "A row of `rows` is a view: what the caller writes into its tensor afterwards stands in your cache. Write the row into its slot in the pool, "
            "which copies it.",
        ),
        Misconception(
            "users not counted by a fork", ForkNotCounted,
            "After a fork the pages stand in two tables. If `users` doesn't say so, one sequence writes into the other's rows, or frees them.",
        ),
        Misconception(
            "all shared pages copied", CopiesAllShared,
            "Only the page that is written to must be copied. Full pages of the common beginning are never written again: they stay shared.",
        ),
        Misconception(
            "a StopIteration where no page is free", NextOfNothing,
            "`next` of nothing stops with an error of its own. Say what is the matter: a ValueError was asked for, which a server can catch.",
            raises="StopIteration",
        ),
        Misconception(
            "an IndexError where no page is free", FirstOfAnEmptyList,
            "The first of no free pages is an IndexError, which tells nobody that memory is full. Look first, and raise a ValueError.",
            raises="IndexError",
        ),
        Misconception(
            "a page taken from others when none is free", TakesFromOthers,
            "With no page left something has to give, and it can't be another sequence's text. Raise a ValueError and let the caller decide.",
        ),
    ],
)  # fmt: skip
