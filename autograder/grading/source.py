"""A look at the source of an answer, for what it may not use: forbidden PyTorch functions and the unit's own references,
however they are spelt (attribute, import under another name, `getattr` with a string, a name that stands for one).

Counting what is really dispatched finds more (see helpers/engine/observe.py); this finds what is written but was not
run, and tells on which line. Only what the answer itself reaches is looked at: a comparison in a cell beside it is fine.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.reach import rooms_out_of_reach
from autograder.judge.examiner import unknown_names


@dataclass(frozen=True)
class Finding:
    """Something forbidden in the source of an answer's `function`: `name` as spelt, `where` is its line."""

    exercise: str
    function: str
    name: str
    where: str


def look(notebook: NotebookNode, unit: str) -> list[Finding]:
    """What stands in the answers of a notebook that may not stand there, exercise by exercise."""
    known = _definitions(notebook)
    rooms = tuple(rooms_out_of_reach(unit))
    findings = []
    for cell in notebooks.tests(notebook):
        exercise = notebooks.exercise_id(cell)
        parts = [part.lower() for part in forbidden_parts(exercise)]
        for function in _wanted(cell):
            for node, line in _reached([function], known):
                for name in _spelt(node):
                    if any(part in name.lower() for part in parts) or name.startswith(rooms):
                        findings.append(Finding(exercise, function, name, line))
    return list(dict.fromkeys(findings))


def written(notebook: NotebookNode, unit: str) -> dict[str, dict[str, list[str]]]:
    """The names that were found, as the judge takes them: by exercise and function."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in look(notebook, unit):
        found.setdefault(one.exercise, {}).setdefault(one.function, []).append(one.name)
    return found


def forbidden_parts(exercise: str) -> tuple[str, ...]:
    """The parts of names that the check of this exercise forbids."""
    from helpers import check

    found = getattr(check, exercise, None)
    checks = getattr(found, "parts", {"": found}).values()
    return tuple(part for one in checks for part in getattr(one, "forbids", ()))


def _wanted(cell: NotebookNode) -> list[str]:
    try:
        return unknown_names(cell.source, {"check": None})
    except SyntaxError:
        return []


def _definitions(notebook: NotebookNode) -> dict[str, tuple[ast.AST, list[str]]]:
    """What every top-level name of the student's stands for (the last one counts), with the lines of its cell."""
    known = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and not notebooks.is_test(cell) and not notebooks.flag(cell, "locked"):
            for statement in _parsed(cell.source):
                for name in _names_of(statement):
                    known[name] = statement, cell.source.splitlines()
    return known


def _parsed(source: str) -> list[ast.stmt]:
    lines = ["pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]


def _reached(names: Iterable[str], known: dict) -> Iterator[tuple[ast.AST, str]]:
    """Every node of the definitions that the names need, and theirs, each with its line of source."""
    waiting, done = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in done or name not in known:
            continue
        done.add(name)
        statement, lines = known[name]
        for node in ast.walk(statement):
            number = getattr(node, "lineno", 0)
            yield node, lines[number - 1].strip()[:200] if 0 < number <= len(lines) else ""
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                waiting.append(node.id)


def _spelt(node: ast.AST) -> list[str]:
    """The names of foreign things that a node mentions."""
    if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return [node.attr]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "__import__", "import_module")
    ):
        return [text for argument in node.args if (text := _constant(argument))]
    return []


def _constant(node: ast.AST) -> str:
    """The text of a string, also one made of pieces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _constant(node.left) + _constant(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_constant, node.values))
    return _constant(node.value) if isinstance(node, ast.FormattedValue) else ""
