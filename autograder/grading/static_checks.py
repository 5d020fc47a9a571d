"""A look at the source of an answer, for what it may not use: forbidden PyTorch functions and the unit's own
references, however they are spelt (attribute, import under another name, subscript, string, a name that stands for
one).

What is dispatched is counted while an answer runs (helpers/engine/observe.py); a name in the source may never run, so
alone it only makes a note on the card. It counts where the call could not be watched: it started threads or processes,
it switches watching off, a cell of the notebook touches what watches it, or its source can't be read. Only what the
answer itself reaches is looked at: a comparison beside it is fine."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.visibility import out_of_reach
from autograder.judge.cell_source import unknown_names

FORBIDDEN, COMPUTED, EVADES = "forbidden", "computed", "evades"
UNREADABLE = "source that can't be read"
MOST_DEPTH = 300  # of expressions within expressions
BASES = ("torch", "nn", "F", "aten")  # under which PyTorch's functions are found, if no cell says otherwise
FROM_MODULES = ("attrgetter", "methodcaller", "import_module", "getattr", "__import__", "eval", "exec")
ASKED = (*FROM_MODULES, "compile", "vars")  # what looks something up by a name in a string
SWITCHES = re.compile(
    r"DisableTorch|_disable_current_modes|_pop_mode|_unset_dispatch_mode|ExcludeDispatchKey|AutoDispatchBelow", re.I
)
GRADER = re.compile(r"autograder(\.\w+)*|helpers\.engine(\.\w+)*")
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "memit")  # cell magics whose body is Python of this notebook


@dataclass(frozen=True)
class Finding:
    """Something in the source of an answer's `function`: `name` as spelt, `where` is its line.

    kind: a name that is FORBIDDEN, one that is COMPUTED, or what EVADES being watched."""

    exercise: str
    function: str
    name: str
    where: str
    kind: str = FORBIDDEN


@dataclass(frozen=True)
class Rules:
    """forbids: the patterns of names that each exercise forbids; methods: the names of what tensors have."""

    forbids: dict[str, list[str]]
    methods: frozenset[str]


def find_forbidden(notebook: NotebookNode, unit: str, rules: Rules) -> list[Finding]:
    """What stands in the answers of a notebook that may not stand there, exercise by exercise."""
    return _findings(notebook, unit, rules, _definitions(notebook))


def _findings(notebook: NotebookNode, unit: str, rules: Rules, known: dict) -> list[Finding]:
    bases = _bases(known)
    packages = tuple(out_of_reach(unit))
    touched = list(_touches_the_grader(notebook))
    findings = []
    for cell in notebooks.tests(notebook):
        exercise = notebooks.exercise_id(cell)
        patterns = [re.compile(part, re.I) for part in rules.forbids.get(exercise, ())]
        for function in _wanted(cell):
            findings += [Finding(exercise, function, name, line, EVADES) for name, line in touched if patterns]
            for node, line in _reached([function], known):
                for name, kind in _spelt(node, bases, rules.methods):
                    if _counts(name, kind, patterns, packages):
                        findings.append(Finding(exercise, function, name, line, kind))
    return list(dict.fromkeys(findings))


def found_by_exercise(notebook: NotebookNode, unit: str, rules: Rules) -> dict[str, dict[str, dict[str, Any]]]:
    """What was found, as the judge takes it: by exercise and function."""
    known = _definitions(notebook)
    findings = _findings(notebook, unit, rules, known)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in notebooks.tests(notebook):
        exercise = notebooks.exercise_id(cell)
        for name in _wanted(cell):
            forbidden = [one for one in findings if (one.exercise, one.function) == (exercise, name)]
            found.setdefault(exercise, {})[name] = _told(forbidden) | {"source": _source(*known.get(name, (None, [])))}
    return found


def _source(statement: ast.AST | None, lines: list[str]) -> str:
    """A definition, in the lines in which it stands in its cell."""
    first, last = getattr(statement, "lineno", 1) - 1, getattr(statement, "end_lineno", 0)
    return "\n" * first + "\n".join(lines[first:last])


def _told(findings: list[Finding]) -> dict[str, Any]:
    names = list(dict.fromkeys(one.name for one in findings if one.kind != EVADES or one.name == UNREADABLE))
    plain = [one for one in findings if one.kind == FORBIDDEN]
    note = ""
    if plain:
        first = plain[0]
        note = (
            f"Note: the source of `{first.function}` names `{first.name}`, which this exercise forbids: {first.where} "
            "That was read, not seen running, and so costs nothing by itself."
        )
    return {"names": names, "evades": any(one.kind == EVADES for one in findings), "note": note}


def _touches_the_grader(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Where a notebook imports, or names in a string, modules that grade it: nothing that runs after that is sure to be
    watched."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or notebooks.is_test(cell):
            continue
        lines = cell.source.splitlines()
        for statement in _parsed(cell.source) or ():
            for node in ast.walk(statement):
                if name := next(filter(GRADER.fullmatch, _imported(node)), ""):
                    yield name, lines[min(getattr(node, "lineno", 1), len(lines)) - 1].strip()[:200]


def _imported(node: ast.AST) -> list[str]:
    """What a node imports, or the text of a string, from which it may be imported."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [_constant(node)] if isinstance(node, ast.expr) else []


def _counts(name: str, kind: str, patterns: list[re.Pattern], packages: tuple[str, ...]) -> bool:
    if kind == FORBIDDEN:
        return name.startswith(packages) or any(pattern.search(name.split(".")[-1]) for pattern in patterns)
    return bool(patterns)


def _wanted(cell: NotebookNode) -> list[str]:
    try:
        return unknown_names(cell.source, {"check": None})
    except SyntaxError:
        return []


# ---------------------------------------------------------------- what a notebook defines


def _definitions(notebook: NotebookNode) -> dict[str, tuple[ast.AST | None, list[str]]]:
    """What every top-level name of the student's stands for (the last counts), with its cell's lines. None: it can't be
    read."""
    known: dict[str, tuple[ast.AST | None, list[str]]] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and not notebooks.is_test(cell):
            _define(cell.source, known)
    return known


def _define(source: str, known: dict) -> None:
    lines = source.splitlines()
    statements = _parsed(source)
    if statements is None:
        for name in re.findall(r"^[ \t]*(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=", source, re.MULTILINE):
            known[name[0] or name[1]] = None, lines
        return
    for statement in statements:
        magic = _magic(statement)
        if magic and magic[0] in PYTHON_MAGICS:
            _define(magic[1], known)
        elif magic and magic[0] == "writefile":  # a module of the student's: what it defines can be imported
            known.update({name: found for name, found in _module(magic[1]).items() if name not in known})
        for name in _names_of(statement):
            known[name] = statement, lines


def _module(source: str) -> dict:
    known: dict = {}
    _define(source, known)
    return known


def _parsed(source: str) -> list[ast.stmt] | None:
    """The statements of a cell, as IPython reads it; None where it can't be read."""
    from IPython.core.inputtransformer2 import TransformerManager  # here, for who has others look needs none of it

    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if _is_too_deep(tree) else tree.body


def _is_too_deep(tree: ast.AST) -> bool:
    """Whether looking at it would go down farther than Python lets anybody."""
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _magic(statement: ast.stmt) -> tuple[str, str] | None:
    """The name and the body of a cell magic."""
    call = getattr(statement, "value", None)
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "run_cell_magic":
        name, _, body = (_constant(argument) for argument in (*call.args, *[None] * 3)[:3])
        return name, body
    return None


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    if targets != [None]:
        return [node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]
    inner = [one for part in ("body", "orelse", "finalbody") for one in getattr(statement, part, ())]
    return [name for one in inner if isinstance(one, ast.stmt) for name in _names_of(one)]


def _bases(known: dict) -> set[str]:
    """The names under which this notebook finds PyTorch's functions."""
    bases = set(BASES)
    for _ in range(3):  # a name for a name for torch
        for name, (statement, _) in known.items():
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == "torch":
                bases.add(name)
            elif isinstance(statement, ast.Import) and any(
                alias.name.split(".")[0] == "torch" and name in (alias.asname, "torch") for alias in statement.names
            ):
                bases.add(name)
            elif isinstance(statement, ast.Assign) and _is_alias(statement.value, bases):
                bases.add(name)
    return bases


def _is_alias(value: ast.expr, bases: set[str]) -> bool:
    """Whether a value is PyTorch or a part of it under another name, and nothing that was computed with it."""
    if isinstance(value, ast.Call):
        named = [_constant(argument).split(".")[0] for argument in value.args]
        return _last(value.func) in ASKED and ("torch" in named or _root(value) in bases)
    return isinstance(value, (ast.Name, ast.Attribute)) and _root(value) in bases


# ---------------------------------------------------------------- what an answer reaches and says


def _reached(names: Iterable[str], known: dict) -> Iterator[tuple[ast.AST | None, str]]:
    """Every node of the definitions that the names need, and theirs, each with its line of source."""
    waiting, done = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in done or name not in known:
            continue
        done.add(name)
        statement, lines = known[name]
        own = _own_names(statement)
        if statement is None:
            yield None, lines[0].strip()[:200] if lines else ""
            continue
        for node in _walk(statement, known):
            number = getattr(node, "lineno", 0)
            yield node, lines[number - 1].strip()[:200] if 0 < number <= len(lines) else ""
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id not in own or known.get(node.id, (True,))[0] is not None:
                    waiting.append(node.id)
            elif isinstance(node, ast.alias) and node.name != name:
                waiting.append(node.name)


def _own_names(statement: ast.AST | None) -> set[str]:
    """The inputs and the names that a function assigns: a cell that can't be read (`x =`) says nothing about them."""
    if not isinstance(statement, ast.FunctionDef):
        return set()
    inputs = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    return inputs | {
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _walk(node: ast.AST, known: dict) -> Iterator[ast.AST]:
    """Every node below, but for what stands under a condition that is never true."""
    yield node
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, (ast.If, ast.While, ast.IfExp)) and _never(node.test, known):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, known)


def _never(test: ast.expr, known: dict) -> bool:
    if isinstance(test, ast.Name) and isinstance(known.get(test.id, (None,))[0], ast.Assign):
        test = known[test.id][0].value
    return isinstance(test, ast.Constant) and not test.value


def _spelt(node: ast.AST | None, bases: set[str], methods: frozenset[str]) -> list[tuple[str, str]]:
    """The names of foreign things that a node mentions, each with its kind."""
    if node is None:
        return [(UNREADABLE, EVADES)]
    if isinstance(node, ast.Attribute):
        if SWITCHES.search(node.attr):
            return [(node.attr, EVADES)]
        return [(node.attr, FORBIDDEN)] if _of_torch(node, bases, methods) else []
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module = getattr(node, "module", None)
        names = [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
        return [(name, EVADES if SWITCHES.search(name) else FORBIDDEN) for name in names if _foreign(name)]
    if isinstance(node, ast.Subscript) and _root(node.value) in bases:
        return [(_constant(node.slice), FORBIDDEN)] if _constant(node.slice) else _computed(node)
    if isinstance(node, ast.Call) and _last(node.func) in (ASKED if isinstance(node.func, ast.Name) else FROM_MODULES):
        return _asked(node, bases, methods)
    return []


def _asked(node: ast.Call, bases: set[str], methods: frozenset[str]) -> list[tuple[str, str]]:
    """What a call looks up by a string."""
    owner = _root(node.args[0]) if node.args else ""
    if _last(node.func) == "getattr" and owner and owner not in bases:
        return [(text, FORBIDDEN) for text in map(_constant, node.args[1:2]) if text in methods]
    texts = [text for argument in node.args if (text := _constant(argument))]
    found = [(word, FORBIDDEN) for text in texts for word in re.findall(r"[\w.]+", text)]
    dark = not texts and (_last(node.func) in ("eval", "exec") or any(_root(part) in bases for part in node.args[:1]))
    return found or (_computed(node) if dark and _last(node.func) != "vars" else [])


def _computed(node: ast.expr) -> list[tuple[str, str]]:
    """A name that is only known when the code runs. `torch.zeros(3)[i]` is none: that is a value."""
    inner = node.value if isinstance(node, ast.Subscript) else None
    if isinstance(inner, ast.Call) and _last(inner.func) != "vars":
        return []
    return [(re.sub(r"\s+", " ", ast.unparse(node))[:60], COMPUTED)]


def _of_torch(node: ast.Attribute, bases: set[str], methods: frozenset[str]) -> bool:
    """Whether this may be a function of PyTorch's: one under its modules, or a method that tensors have."""
    root = _root(node.value)
    if root in bases:
        return True
    return root != "self" and node.attr in methods


def _foreign(name: str) -> bool:
    return name.split(".")[0] in ("torch", "helpers")


def _root(node: ast.AST) -> str:
    """The name at the beginning of `a.b.c`, `a[0].b`, `vars(a)` or `a.b(…).c`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            node = node.args[0] if _last(node.func) in ("vars", "getattr") and node.args else node.func
        else:
            node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.AST | None) -> str:
    """The text of a string, also one made of pieces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _constant(node.left) + _constant(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_constant, node.values))
    return _constant(node.value) if isinstance(node, ast.FormattedValue) else ""
