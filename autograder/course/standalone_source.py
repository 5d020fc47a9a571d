"""A function of ours as source that a student could have written: it stands alone in a notebook cell and defines the
exercise's function under its notebook name.

Lambdas become `def`s; functions of the same module that are used come along under private names, so that they can't
overwrite another exercise's answer; constants are written in place. What can't be carried over is refused."""

import ast
import builtins
import dis
import inspect
import math
import textwrap
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), torch.dtype)

NO_PLACE = ("RESUME", "COPY_FREE_VARS", "MAKE_CELL")
"""Instructions that open a function and come from no part of its body."""


class SpliceError(Exception):
    """A function that can't be written out on its own; the text says why."""


def splice(function: Callable, name: str) -> str:
    """Source that defines `name` to behave as `function` (a function, lambda or class)."""
    pieces: dict[str, str] = {}
    imports: set[str] = set()
    body = _Carrier(name, pieces, imports).carry(function, name)
    return "\n\n\n".join(["\n".join(sorted(imports))] * bool(imports) + [*pieces.values(), body]) + "\n"


def replace_definition(source: str, name: str, new: str) -> str:
    """The source with its definition of `name` at the top level replaced by `new`; appended where it has none."""
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines[first - 1 : _end(node, lines)] = new.rstrip("\n").split("\n")
            return "\n".join(lines)
    return f"{source.rstrip()}\n\n\n{new}".rstrip("\n")


def _end(node: ast.stmt, lines: list[str]) -> int:
    """The last line of a definition, with the comment lines that are indented below it (`### END SOLUTION`)."""
    end = node.end_lineno or node.lineno
    while end < len(lines) and lines[end].startswith((" ", "\t")) and lines[end].lstrip().startswith("#"):
        end += 1
    return end


class _Carrier:
    """Carries functions over, one after the other, into `pieces`: new name → source."""

    def __init__(self, target: str, pieces: dict[str, str], imports: set[str]) -> None:
        self.target, self.pieces, self.imports = target, pieces, imports
        self.names: dict[int, str] = {}

    def carry(self, function: Any, name: str) -> str:
        """The source of `function` under `name`. What it uses goes into `pieces`."""
        if "__changed__" in getattr(function, "__dict__", ()):  # see helpers.engine.wrong_answers.with_methods
            return self._carry_changed(function, name)
        tree = _definition(function, name)
        self.names[id(function)] = name
        own = getattr(function, "__name__", name)
        bound: dict[str, Any] = {own: name} if own.isidentifier() else {}
        replaced, parts = {}, {}
        for used, value in _uses(function).items():
            if used in bound:
                continue
            if isinstance(value, ModuleType) and _is_ours(value.__name__):
                parts |= {
                    (used, part): self._replacement(function, part, getattr(value, part)) for part in _parts(tree, used)
                }
            else:
                replaced[used] = self._replacement(function, used, value)
        return ast.unparse(ast.fix_missing_locations(_Rename(bound | replaced, parts).visit(tree)))

    def _carry_changed(self, made: Any, name: str) -> str:
        """A class that differs from its base in a few attributes."""
        self.names[id(made)] = name
        base = self._companion(made.__base__.__name__, made.__base__)
        changed = ((key, self._written_out(made, key, value)) for key, value in made.__changed__.items())
        return "\n".join([f"class {name}({base}):", *(f"    {key} = {ast.unparse(value)}" for key, value in changed)])

    def _replacement(self, function: Any, used: str, value: Any) -> str | ast.expr:
        """What stands for a global or closed-over name in the notebook: a name, or a constant."""
        if isinstance(value, ModuleType):
            return self._module(used, value)
        value = _written(value)
        if (inspect.isfunction(value) or inspect.isclass(value)) and _is_ours(value.__module__ or "", function):
            return self._companion(used, value)
        if hasattr(value, "__module__") and _importable(value):
            self.imports.add(
                f"from {value.__module__} import {value.__name__}" + (f" as {used}" * (used != value.__name__))
            )
            return used
        return self._constant(function, used, value)

    def _constant(self, function: Any, used: str, value: Any) -> ast.expr:
        """A value written in the place of its name: a plain one, or several. A dataclass of ours is made once."""
        if type(value).__name__ == "constexpr":  # Triton's word for a constant that kernels may see
            value = value.value
        if isinstance(value, (tuple, list)):
            kind = ast.Tuple if isinstance(value, tuple) else ast.List
            return kind([self._written_out(function, used, part) for part in value], ast.Load())
        if type(value) in CONSTANTS:
            endless = isinstance(value, float) and not math.isfinite(value)  # repr says "inf", which is a name
            return ast.parse(f"float('{value}')" if endless else repr(value), mode="eval").body
        if is_dataclass(value) and _is_ours(type(value).__module__, function):
            if id(value) not in self.names:
                made = self._companion(type(value).__name__, type(value))
                given = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
                named = [ast.keyword(name, self._written_out(function, used, part)) for name, part in given.items()]
                name = self._new_name(used, value)
                self.pieces[name] = f"{name} = {ast.unparse(ast.Call(ast.Name(made, ast.Load()), [], named))}"
            return ast.Name(self.names[id(value)], ast.Load())
        raise SpliceError(f"{_label(function)} uses '{used}', a {type(value).__name__}, which a notebook does not have")

    def _written_out(self, function: Any, used: str, value: Any) -> ast.expr:
        found = self._replacement(function, getattr(value, "__name__", used).strip("<>"), value)
        return ast.Name(found, ast.Load()) if isinstance(found, str) else found

    def _module(self, used: str, module: ModuleType) -> str:
        self.imports.add(f"import {module.__name__}" + (f" as {used}" * (used != module.__name__)))
        return used

    def _companion(self, used: str, value: Any) -> str:
        """A function or class of ours comes along once, under a name that no exercise has."""
        if id(value) not in self.names:
            name = self._new_name(used, value)
            source = self.carry(value, name)
            self.pieces[name] = source
        return self.names[id(value)]

    def _new_name(self, used: str, value: Any) -> str:
        name = f"_{used.strip('_')}_for_{self.target}"
        while name in self.names.values():
            name += "_"
        self.names[id(value)] = name
        return name


class _Rename(ast.NodeTransformer):
    """Renames global names and puts constants in the place of others; a function's own locals stay, and so do the
    parameters of a lambda and the fields of a dataclass.

    parts: what stands for an attribute of a module of ours, (module's name, attribute) → name or constant."""

    def __init__(self, names: dict[str, str | ast.expr], parts: dict[tuple[str, str], str | ast.expr]) -> None:
        self.names, self.parts = names, parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.names.get(node.id, node.id)
        if isinstance(found, str):
            return ast.Name(found, node.ctx)
        return found if isinstance(node.ctx, ast.Load) else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        own = _arguments(node)
        inside = _Rename({name: new for name, new in self.names.items() if name not in own}, self.parts)
        return ast.Lambda(self.visit(node.args), inside.visit(node.body))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        target = node.target
        self.generic_visit(node)
        node.target = target
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found = self.parts.get((node.value.id, node.attr)) if isinstance(node.value, ast.Name) else None
        if found is None:
            return self.generic_visit(node)
        return ast.Name(found, node.ctx) if isinstance(found, str) else found


def _parts(tree: ast.AST, used: str) -> set[str]:
    """The attributes of the name `used` that stand in a tree."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == used
    }


def _is_ours(module: str, function: Any = None) -> bool:
    """Whether a module is the course's, or that of `function`: what it defines is carried over, not imported."""
    return module.split(".")[0] in ("helpers", "autograder") or module == getattr(function, "__module__", None)


def _written(value: Any) -> Any:
    """The function as its author wrote it: inside what a decorator made of it (its source keeps the decorator)."""
    if type(value).__module__.split(".")[0] == "triton" and inspect.isfunction(getattr(value, "fn", None)):
        return value.fn
    return inspect.unwrap(value) if inspect.isfunction(value) and _is_ours(value.__module__ or "") else value


def _definition(function: Any, name: str) -> Any:
    """The syntax tree of the function's, or class's, definition, under a new name."""
    if inspect.isclass(function) or (isinstance(function, FunctionType) and function.__name__ != "<lambda>"):
        tree = ast.parse(textwrap.dedent(_source(function))).body[0]  # type: ignore[arg-type]  # classes are hashable
        if isinstance(tree, ast.FunctionDef | ast.ClassDef):
            tree.name = name
            return tree
    if isinstance(function, FunctionType):
        node = _lambda(function)
        return ast.FunctionDef(
            name=name,
            args=node.args,
            body=[ast.Return(node.body)],
            decorator_list=[],
            returns=None,
            type_params=[],  # type: ignore[call-arg]  # of Python 3.12
            lineno=1,
            col_offset=0,
        )
    raise SpliceError(f"{_label(function)} is no function, lambda or class of Python source")


@lru_cache(maxsize=4096)
def _source(function: Any) -> str:
    """Of a class it is found by parsing all of its file, and slips share their parents: so it is remembered."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        raise SpliceError(f"{_label(function)} has no source to be found") from None


def _lambda(function: FunctionType) -> Any:
    """The lambda expression that made this function. Several may stand on one line: they are told apart by where
    their code says it comes from."""
    code = function.__code__
    here = [node for node in _lambdas(code.co_filename) if _spans(node, code) and _arguments(node) == _parameters(code)]
    if not here:
        raise SpliceError(f"{_label(function)} has no source to be found")
    return ast.parse(ast.unparse(min(here, key=_extent)), mode="eval").body


@cache
def _lambdas(path: str) -> list[ast.Lambda]:
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _spans(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all of the code's instructions come from the lambda's body, and from the whole of it."""
    places = [i.positions for i in dis.get_instructions(code) if i.opname not in NO_PLACE]
    where = [(p.lineno, p.col_offset, p.end_lineno, p.end_col_offset) for p in places if p and p.end_col_offset]
    body = node.body
    if not where:  # Python 3.12 tells of the code of a constant the line alone
        return node.lineno == code.co_firstlineno and _constants(_compiled(node)) == _constants(code)
    first, last = min(w[:2] for w in where), max(w[2:] for w in where)
    return first >= (body.lineno, body.col_offset) and last <= (body.end_lineno, body.end_col_offset)


def _compiled(node: ast.Lambda) -> CodeType:
    return next(one for one in compile(ast.Expression(node), "<lambda>", "eval").co_consts if isinstance(one, CodeType))


def _constants(code: CodeType) -> list[str]:
    """What its instructions load, told apart by type too: 0 is not False."""
    return [repr(i.argval) for i in dis.get_instructions(code)]


def _extent(node: Any) -> tuple[int, int]:
    return node.end_lineno - node.lineno, node.end_col_offset - node.col_offset


def _arguments(node: ast.Lambda) -> list[str]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [a.arg for a in named] + [a.arg for a in (arguments.vararg, arguments.kwarg) if a]


def _parameters(code: CodeType) -> list[str]:
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags])


def _uses(function: Any) -> dict[str, Any]:
    """The global and closed-over names that a function (or a class's methods) uses, with their values."""
    if inspect.isclass(function):
        methods = [found for member in vars(function).values() if inspect.isfunction(found := _unwrapped(member))]
        methods = [method for method in methods if method.__code__.co_filename == inspect.getsourcefile(function)]
        uses = {used: value for method in methods for used, value in _uses(method).items() if used != "__class__"}
        module = vars(inspect.getmodule(function))
        tree = _definition(function, "_")
        outside = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]  # fields of a dataclass
        parts = [*tree.bases, *tree.decorator_list, *outside]
        named = {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
        return uses | {used: module[used] for used in named if used in module}
    closed = inspect.getclosurevars(function).nonlocals
    known = function.__globals__
    used = {used: known[used] for used in _global_names(function) if used in known}
    return {**used, **closed}


def _unwrapped(member: Any) -> Any:
    """The function inside a property, or a static or class method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def _global_names(function: FunctionType) -> set[str]:
    """Names that the code loads as globals, those of functions within it, of its defaults and annotations."""
    names, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        names |= {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    signature = _definition(function, "_")
    parts = [signature.args, *signature.decorator_list, *([signature.returns] if signature.returns else [])]
    names |= {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
    return {name for name in names if not hasattr(builtins, name)}


def _importable(value: Any) -> bool:
    """Whether `from module import name` finds this value, in a package that a student has."""
    import sys

    module = sys.modules.get(value.__module__ or "")
    name = getattr(value, "__name__", "")
    own = (value.__module__ or "").split(".")[0] in ("helpers", "autograder", "__main__")
    return module is not None and not own and getattr(module, name, None) is value


def _label(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
