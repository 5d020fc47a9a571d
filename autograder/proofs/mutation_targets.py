"""Right answers as programs: the statements that an answer needs, in order, so that one of them can be changed and all
be run anew.

A model solution comes from its notebook's cells, a right alternative from its unit's module. Both are taken apart in
the same way."""

import ast
import importlib
import inspect
import linecache
import re
import symtable
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from autograder import notebooks
from autograder.course.exercises import Exercise, companion, solved
from autograder.course.paths import Course

MODEL = "model solution"
DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True)
class MutationTarget:
    """One right answer. `wanted`: an expression for each function of the exercise; `changeable`: its own statements."""

    style: str
    statements: tuple[str, ...]
    wanted: tuple[str, ...]
    changeable: tuple[int, ...]

    def run(self, changed: int = -1, source: str = "", **given: Any) -> tuple[Callable, ...]:
        """The answers, made anew, with one statement replaced. given: names that the source may use beside its own."""
        lines = "\n\n".join(source if i == changed else statement for i, statement in enumerate(self.statements))
        module, name = types.ModuleType("__main__"), f"<{self.style}>"
        # Triton looks for the source of its kernels there.
        linecache.cache[name] = (len(lines), None, lines.splitlines(keepends=True), name)
        module.__dict__.update(given)
        exec(compile(lines, name, "exec"), module.__dict__)
        return tuple(eval(wanted, module.__dict__) for wanted in self.wanted)

    def needs(self, part: int) -> frozenset[int]:
        """The statements that one of the answers needs."""
        return _needed(self.statements, self.wanted[part])


def mutation_targets(course: Course, exercise: Exercise) -> Iterator[MutationTarget]:
    """The model solution, then every right alternative whose source can be taken apart."""
    cells = [
        cell for cell in solved(course, exercise.unit).cells if cell.cell_type == "code" and not notebooks.is_test(cell)
    ]
    told = [(source, notebooks.grade_id(cell) == exercise.id) for cell in cells for source in statements(cell.source)]
    told = told[: max((i for i, (_, own) in enumerate(told, start=1) if own), default=len(told))]
    yield _program(MODEL, [source for source, _ in told], exercise.answers, {source for source, own in told if own})
    module = companion("alternatives", exercise.unit, exercise.id)
    if module is None:
        return
    lines = _with_siblings(module)
    tables = _styles(lines, exercise)
    lines = [line for line in _until(lines, exercise.id) if not _is_table(line)]
    for style, wanted in tables.items():
        inline = {f"answer_{i}": one for i, one in enumerate(wanted) if not one.isidentifier()}  # such as a lambda
        own = [*lines, *(f"{name} = {one}" for name, one in inline.items())]
        names = tuple(one if one.isidentifier() else f"answer_{i}" for i, one in enumerate(wanted))
        yield _program(style, own, names, set(own))


def statements(source: str) -> list[str]:
    """The statements at the top of a source that bind names: imports, definitions, assignments."""
    kinds = (*DEFINITIONS, ast.Import, ast.ImportFrom)
    return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, kinds)]


def _with_siblings(module: types.ModuleType) -> list[str]:
    """The statements of a module, those of another exercise's module in the place of the import from it."""
    lines = []
    for line in statements(inspect.getsource(module)):
        found = re.match(r"from (autograder\.\S+) import", line)
        lines += _with_siblings(importlib.import_module(found[1])) if found else [line]
    return list(dict.fromkeys(lines))


def _program(style: str, lines: list[str], wanted: tuple[str, ...], own: set[str]) -> MutationTarget:
    needed = sorted(frozenset().union(*(_needed(tuple(lines), one) for one in wanted)))
    changeable = tuple(
        i
        for i, line in enumerate(needed)
        if lines[line] in own and isinstance(ast.parse(lines[line]).body[0], DEFINITIONS)
    )
    return MutationTarget(style, tuple(lines[line] for line in needed), wanted, changeable)


def _styles(lines: list[str], exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """style → an expression for each answer, where the table of alternatives is written out as a dict."""
    table = next(
        (
            node.value
            for line in lines
            for node in ast.parse(line).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == exercise.id
        ),
        None,
    )
    if not isinstance(table, ast.Dict):
        return {}
    several = len(exercise.answers) > 1
    found: dict[str, Any] = {
        ast.literal_eval(key): value
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    return {
        style: tuple(map(ast.unparse, value.elts)) if several else (ast.unparse(value),)
        for style, value in found.items()
        if not several or isinstance(value, ast.Tuple)
    }


def _until(lines: list[str], name: str) -> list[str]:
    """The statements before the one that binds a name: a function that is defined anew further down is another one."""
    end = next((i for i, line in enumerate(lines) if _is_table(line) and name in _names(line)[1]), len(lines))
    return lines[:end]


def _is_table(line: str) -> bool:
    """Whether a statement is the table of an exercise: its name may also be that of a function, which others use."""
    node = ast.parse(line).body[0]
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)


@cache
def _needed(lines: tuple[str, ...], wanted: str) -> frozenset[int]:
    """The statements that an expression needs, and those that they need."""
    names, found = set(_names(wanted)[0]), set()
    last = {name: i for i, line in enumerate(lines) for name in _names(line)[1]}
    while True:
        more = {last[name] for name in names if name in last} - found
        if not more:
            return frozenset(found)
        found |= more
        names |= set().union(*(_names(lines[i])[0] for i in more))


@cache
def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that a statement reads from outside, and those that it binds."""
    top = symtable.symtable(source, "statement", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read, tables = set(), [top]
    while tables:
        table = tables.pop()
        read |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
        tables += table.get_children()
    return read, bound
