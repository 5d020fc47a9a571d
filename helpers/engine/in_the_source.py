"""What the source of an answer shows without being run: a loop that ends in its first round, a part that is made and
never used, an argument that is never read. It is said of what stands there, whatever else is wrong."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ENDS = "The `{}` in line {} stands inside the loop, without a condition: the loop ends in its first round."
NEVER_USED = "`self.{}` is made, and never used."
NEVER_READ = "`{}` is never read in your `{}`."
BY_NAME = {"getattr", "vars", "locals", "eval", "exec", "children", "modules", "named_children", "named_modules"}
"""What may read others by their names."""
PLAIN_BASES, NUMBERS = {"Module", "object"}, {"int", "float", "len", "max", "min", "round", "sqrt"}


@dataclass(frozen=True)
class InTheSource:
    """unfinished: sentences; unread: (function, argument) of arguments that are never read."""

    unfinished: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


def in_the_source(answer: Any) -> InTheSource:
    """Of a function or class."""
    return _looked_through(_source(answer), getattr(answer, "__name__", ""))


@lru_cache(maxsize=16)
def _looked_through(source: str, name: str) -> InTheSource:
    """Of what has this name in the source of a file or cell. A diagnosis asks several times."""
    definition = _definition(source, name)
    if definition is None or BY_NAME & set(map(_name, ast.walk(definition))):
        return InTheSource()
    sentences = (*_loops_that_end(definition), *_unused_attributes(definition))
    return InTheSource(sentences, tuple(_unread(definition)))


def unfinished(student: Any, reference: Callable) -> str:
    """A sentence on what the student's answer begins and leaves, and the reference doesn't; ""."""
    ours = set(in_the_source(reference).unfinished)
    return next((sentence for sentence in in_the_source(student).unfinished if sentence not in ours), "")


def never_read(student: Any, reference: Callable) -> str:
    """A sentence on the first argument that the student's never reads, and the reference does; ""."""
    ours = set(in_the_source(reference).unread)
    return next((NEVER_READ.format(*reversed(one)) for one in in_the_source(student).unread if one not in ours), "")


def _definition(source: str, name: str) -> ast.AST | None:
    """None where it isn't there, or the source can't be read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    named = [node for node in tree.body if getattr(node, "name", "") == name]
    return named[-1] if named else None


def _source(answer: Any) -> str:
    """Of the file or cell that defines it; a stand-in for something in another process knows it. "" where it can't be
    had."""
    if hasattr(answer, "__source__"):
        return answer.__source__
    answer = inspect.unwrap(answer)
    methods = vars(answer).values() if isinstance(answer, type) else [answer]
    code = next((one.__code__ for one in methods if inspect.isfunction(one)), None)
    return "".join(linecache.getlines(code.co_filename)) if code else ""


def _loops_that_end(definition: ast.AST) -> Iterator[str]:
    for loop in ast.walk(definition):
        body = loop.body if isinstance(loop, (ast.For, ast.While)) else []
        ends = next((one for one in body if isinstance(one, (ast.Return, ast.Break))), None)
        if ends and not any(isinstance(node, ast.Continue) for one in body for node in ast.walk(one)):
            yield ENDS.format("return" if isinstance(ends, ast.Return) else "break", ends.lineno)


def _unused_attributes(definition: ast.AST) -> Iterator[str]:
    """Layers, parameters, tensors: what a call gives; other attributes, and numbers, may be notes."""
    if not isinstance(definition, ast.ClassDef) or not {_name(base) for base in definition.bases} <= PLAIN_BASES:
        return
    read = {node.attr for node in ast.walk(definition) if isinstance(node, ast.Attribute) and _is_read(node)}
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _name(node.value.func) not in NUMBERS:
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr not in read:
                    yield NEVER_USED.format(target.attr)


def _unread(definition: ast.AST) -> Iterator[tuple[str, str]]:
    for function in ast.walk(definition):
        if isinstance(function, ast.FunctionDef) and not _is_stub(function):
            read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and _is_read(node)}
            arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
            yield from ((function.name, one.arg) for one in arguments if one.arg not in {*read, "self"})


def _is_stub(function: ast.FunctionDef) -> bool:
    """Whether nothing is done in it: that shows in other ways."""
    return all(isinstance(one, (ast.Pass, ast.Raise, ast.Expr)) for one in function.body)


def _is_read(node: ast.Name | ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Store)


def _name(node: ast.AST) -> str:
    """The last part of a dotted name."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
