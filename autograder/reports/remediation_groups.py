"""Whom to teach together: students who share several misconceptions.

Each student is a set of misconceptions. Candidates for a group are what two students have in common; the one that
covers most (students × misconceptions shared) is taken first, its students leave, and so on. No distance and no number
of groups need be chosen, and each group says in plain words why it is one."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

LEAST_SHARED = 2
"""Misconceptions: who shares one alone stands in the table of misconceptions."""
MOST_GROUPS = 8


@dataclass(frozen=True)
class Group:
    """Students, each of whom holds all that is `shared`; `share`: the mean Jaccard similarity of two of them, 0 … 1."""

    students: tuple[str, ...]
    shared: tuple[Any, ...]
    share: float


def remediation_groups(held: Mapping[str, frozenset[Hashable]]) -> list[Group]:
    """The groups, in the order in which they were taken. held: student → misconceptions, which can be sorted. Each
    student is in one group at most."""
    names = sorted(held)
    candidates = _candidates(held, names)
    left, made = (1 << len(names)) - 1, []
    while candidates and len(made) < MOST_GROUPS:
        best = min(
            candidates, key=lambda shared: (-_covers(candidates[shared] & left, shared), -len(shared), sorted(shared))
        )
        who = candidates[best] & left
        if who.bit_count() < 2:
            break
        students = tuple(_chosen(names, who))
        made.append(Group(students, tuple(sorted(best)), _alike([held[name] for name in students])))
        left &= ~who
    return made


def _candidates(held: Mapping[str, frozenset], names: list[str]) -> dict[frozenset, int]:
    """What two students share → who holds all of it, a bit for each."""
    of_item: dict[Hashable, int] = {}
    for place, name in enumerate(names):
        for item in held[name]:
            of_item[item] = of_item.get(item, 0) | 1 << place
    distinct = {items for items in held.values() if len(items) >= LEAST_SHARED}
    shared = distinct | {a & b for a, b in combinations(distinct, 2) if len(a & b) >= LEAST_SHARED}
    found = {}
    for items in shared:
        who = -1
        for item in items:
            who &= of_item[item]
        found[items] = who
    return found


def _covers(who: int, shared: frozenset) -> int:
    return who.bit_count() * len(shared) if who.bit_count() > 1 else 0


def _chosen(names: list[str], who: int) -> Iterator[str]:
    return (name for place, name in enumerate(names) if who >> place & 1)


def _alike(sets: list[frozenset]) -> float:
    pairs = [len(a & b) / len(a | b) for a, b in combinations(sets, 2)]
    return sum(pairs) / len(pairs)
