"""A machine that invents wrong answers: every small change of a right one, in the order in which they stand in its
source.

Why not a library: mutmut rewrites the files of a package and runs its test suite, cosmic-ray does the same with one
process for each mutant. An answer here is a cell of a notebook, its test is a check that wants one process with warm
references, and what students change is an axis, a mask, one of q, k, v or a dtype, which neither knows.

What can't be told apart by any test is left out where it stands: annotations, docstrings, messages, `assert` and
`raise`, `device=` on a machine with one device, `.contiguous()` and `strict=` (they change no value), and defaults,
which an exercise's stub gives."""

import ast
import contextlib
import copy
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip # a drawn table
TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
WORDS = (
    ("max", "min"), ("amax", "amin"), ("argmax", "argmin"), ("maximum", "minimum"), ("tril", "triu"), ("sum", "mean"),
    ("ones", "zeros"), ("exp", "exp2"), ("log", "log2"), ("ceil", "floor"), ("repeat_interleave", "repeat"),
    ("any", "all"), ("int8", "uint8"), ("float32", "float16"), ("float64", "float32"),
)  # fmt: skip # a drawn table
KIN = (
    ("q", "k", "v"), ("w_q", "w_k", "w_v", "w_o"), ("keys", "values"), ("n", "m"), ("d", "d_v", "d_h", "d_k", "d_ff"),
    ("h", "h_kv"), ("block_q", "block_k", "BLOCK_Q", "BLOCK_K"), ("rows", "columns"), ("row", "column"), ("i", "j"),
    ("start", "stop", "end"), ("dq", "dk", "dv"), ("first", "last"), ("old", "new"), ("top", "total"),
    ("query", "key", "value"),
)  # fmt: skip # a drawn table
"""Names of the same kind, which are easily taken for one another; so are inputs of one type, and what is unpacked
together."""

ONLY_ELSEWHERE = ("device", "strict")
ONLY_LAYOUT = ("contiguous",)
EITHER_WAY = (
    "transpose",
    "swapaxes",
    "maximum",
    "minimum",
    "max",
    "min",
    "add",
    "mul",
    "dot",
    "vdot",
    "gcd",
    "equal",
    "isclose",
    "hypot",
    "logical_and",
    "logical_or",
    "logaddexp",
)
"""Functions whose two arguments may change places."""
ABSOLUTE = ("abs()", "().abs", "torch.abs()", "() ** 2", "().square", "().pow")
"""What is left around a difference whose sign doesn't matter."""
IN_PLACE = (
    "add",
    "sub",
    "mul",
    "div",
    "exp",
    "masked_fill",
    "clamp",
    "transpose",
    "unsqueeze",
    "squeeze",
    "relu",
    "round",
    "abs",
)
UNWRAPPED = ("torch", "math", "F", "np")
PLAIN = (
    "float",
    "int",
    "abs",
    "list",
    "tuple",
    "reversed",
    "sorted",
    "round",
    "bool",
    "len",
    "sum",
    "max",
    "min",
    "set",
)
# a function that whoever runs a mutant provides: it calls another once for inputs of one shape
AGAIN = "first_output_again"


@dataclass(frozen=True)
class Mutant:
    """One change of one statement. before, after: the changed part, as it was and as it is; source: the whole as it
    is."""

    kind: str
    before: str
    after: str
    original: str
    source: str

    @property
    def change(self) -> str:
        """What was done, in one line."""
        return f"{self.before or '(nothing)'} → {self.after or '(nothing)'}"

    @cached_property
    def line(self) -> str:
        """The first line that is different, as it stands now; "" where lines were only taken away."""
        lines = difflib.ndiff(self.original.splitlines(), self.source.splitlines())
        return next((line[2:].strip() for line in lines if line.startswith("+ ")), "")

    def __str__(self) -> str:
        return self.change + (f"   in: {self.line}" if self.line and self.line != self.after else "")


def mutants(source: str) -> Iterator[Mutant]:
    """Every change of a statement (a function, a class, an assignment), no two alike."""
    tree = ast.parse(source).body[0]
    original, known = ast.unparse(tree), {ast.unparse(tree)}
    for kind, before, after, new in _changed(tree):
        if new not in known:
            known.add(new)
            yield Mutant(kind, before, after, original, new)
    if isinstance(tree, ast.FunctionDef) and _tensors(tree):
        again = f"{tree.name} = {AGAIN}({tree.name})"
        yield Mutant("kept between calls", "", again, original, f"{original}\n{again}")


def _changed(tree: ast.stmt) -> Iterator[tuple[str, str, str, str]]:
    for place in _places(tree, _Scope(tree)):
        for kind, node in _other_nodes(place):
            before, after = _brief(place.node), _brief(node)
            old = place.put(node)
            yield kind, before, after, ast.unparse(tree)
            place.put(old)
    for kind, before, change in _other_bodies(tree):
        changed = copy.deepcopy(tree)
        if change(changed):
            yield kind, before, "", ast.unparse(ast.fix_missing_locations(changed))


def _brief(node: ast.AST) -> str:
    """A node in one line: of a statement with a body its head."""
    return ast.unparse(node).split("\n")[0]


@dataclass
class _Place:
    """Where a node stands, and the names around it."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    scope: "_Scope"

    def put(self, node: ast.AST) -> ast.AST:
        """Puts another node there; what was there comes back."""
        before, value = self.node, node
        if self.index is None:
            setattr(self.parent, self.field, value)
        else:
            getattr(self.parent, self.field)[self.index] = value
        return before


class _Scope:
    """The names that a function binds, and which of them are of one kind."""

    def __init__(self, tree: ast.AST) -> None:
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
        self.types = {a.arg: _type(a.annotation) for f in functions for a in f.args.args if a.arg != "self"}
        stored = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self.axes = {a.arg: _axes(a.annotation) for f in functions for a in f.args.args}
        self.bound = self.types.keys() | {node.id for node in stored}
        self.inputs = {name for f in functions if isinstance(f, ast.FunctionDef) for name in _tensors(f)}
        groups = [
            *KIN,
            *_unpacked(tree),
            *(tuple(n for n in self.types if self.types[n] == t) for t in set(self.types.values()) if t),
        ]
        self.groups = sorted(tuple(name for name in group if name in self.bound) for group in groups)
        self.attributes = [tuple(n for n in group if n in _attributes(tree)) for group in KIN]

    def kin(self, name: str) -> list[str]:
        """The next two names of the same kind."""
        return _next(name, self.groups)

    def of_other_size(self, name: str, axis: ast.expr) -> list[str]:
        """The next names of the same kind, without those of the same size along that axis."""
        size = self._size(name, axis)
        return [other for other in self.kin(name) if size is None or self._size(other, axis) != size]

    def _size(self, name: str, axis: ast.expr) -> str | None:
        with contextlib.suppress(ValueError, IndexError, KeyError):
            return self.axes[name][ast.literal_eval(axis)]
        return None

    def like(self, attribute: str) -> list[str]:
        """Attributes of `self` of the same kind."""
        return _next(attribute, self.attributes)


def _next(name: str, groups: list[tuple[str, ...]]) -> list[str]:
    found: list[str] = []
    for group in groups:
        if name in group:
            start = group.index(name) + 1
            found += [other for other in (*group[start:], *group[: start - 1]) if other not in found]
    return found[:2]


def _type(annotation: ast.expr | None) -> str:
    """A tensor's rank, or the annotation itself; what an axis is called doesn't matter."""
    words = ast.unparse(annotation) if annotation else ""
    return f"Tensor of {words.count(' ')}" if "Tensor" in words else words


def _axes(annotation: ast.expr | None) -> list[str]:
    """The names of a tensor's axes, as its type says."""
    words = [node.value for node in ast.walk(annotation) if isinstance(node, ast.Constant)] if annotation else []
    return words[0].split() if len(words) == 1 and isinstance(words[0], str) else []


def _tensors(function: ast.FunctionDef) -> list[str]:
    return [a.arg for a in function.args.args if a.annotation and "Tensor" in ast.unparse(a.annotation)]


def _unpacked(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store):
            yield tuple(part.id for part in node.elts if isinstance(part, ast.Name) and part.id != "_")


def _attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


SKIPPED_FIELDS = (
    "annotation",
    "returns",
    "decorator_list",
    "type_params",
    "bases",
    "type_comment",
    "ctx",
    "exc",
    "cause",
    "defaults",
    "kw_defaults",
)
SKIPPED_NODES = (ast.Assert, ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


def _places(node: ast.AST, scope: _Scope) -> Iterator[_Place]:
    """Every node that may be changed, from the top down."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED_NODES) or _is_text(child):
                continue
            yield _Place(node, field, index, child, scope)
            yield from _places(child, scope)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


# ---------------------------------------------------------------------------------------------------------- other nodes


def _other_nodes(place: _Place) -> Iterator[tuple[str, ast.AST]]:
    maker = _MAKERS.get(type(place.node))
    if maker:
        for kind, node in maker(place.node, place):
            yield kind, ast.copy_location(node, place.node)


def _binary(node: ast.BinOp, place: _Place) -> Iterator:
    if type(node.op) in OPERATORS:
        yield "operator", ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    without_sign = isinstance(node.op, ast.Sub) and ast.unparse(place.parent).replace(ast.unparse(node), "") in ABSOLUTE
    if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.FloorDiv | ast.Mod | ast.Pow) and not without_sign:
        yield "swapped operands", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, ast.FloorDiv) and place.scope.inputs:  # of a formula, 6.0 is as right as 6
        yield "float for int", ast.BinOp(node.left, ast.Div(), node.right)
    yield "operand dropped", node.left
    yield "operand dropped", node.right


def _augmented(node: ast.AugAssign, _: _Place) -> Iterator:
    if type(node.op) in OPERATORS:
        yield "operator", ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)


def _compare(node: ast.Compare, _: _Place) -> Iterator:
    for table, kind in ((OPERATORS, "edge of a comparison"), (TURNED, "comparison turned")):
        for i, op in enumerate(node.ops):
            if type(op) in table:
                yield (
                    kind,
                    ast.Compare(node.left, [*node.ops[:i], table[type(op)](), *node.ops[i + 1 :]], node.comparators),
                )


def _boolean(node: ast.BoolOp, _: _Place) -> Iterator:
    yield "operator", ast.BoolOp(OPERATORS[type(node.op)](), node.values)
    for i in range(len(node.values)):
        rest = [*node.values[:i], *node.values[i + 1 :]]
        yield "operand dropped", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unary(node: ast.UnaryOp, place: _Place) -> Iterator:
    if not (isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub)):
        yield "sign or negation dropped", node.operand
    else:
        value: Any = node.operand.value
        yield "constant", ast.Constant(-value + 1)
        yield "constant", ast.UnaryOp(ast.USub(), ast.Constant(value + 1))


def _constant(node: ast.Constant, place: _Place) -> Iterator:
    if isinstance(place.parent, ast.UnaryOp) or isinstance(node.value, str | bytes | complex):
        return
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value - 1) if node.value else ast.UnaryOp(ast.USub(), ast.Constant(1))
    elif isinstance(node.value, float):
        yield "constant", ast.Constant(2 * node.value + (node.value == 0))


def _name(node: ast.Name, place: _Place) -> Iterator:
    called = isinstance(place.parent, ast.Call) and place.field == "func"
    its_shape = isinstance(place.parent, ast.Attribute) and place.parent.attr == "shape"  # see `_subscript`
    if isinstance(node.ctx, ast.Load) and not (called or its_shape):
        yield from (("another name", ast.Name(other, ast.Load())) for other in place.scope.kin(node.id))


def _attribute(node: ast.Attribute, place: _Place) -> Iterator:
    if not isinstance(node.ctx, ast.Load):
        return
    if node.attr in ("mT", "T"):
        yield "transposition dropped", node.value
    if node.attr == "inf":
        yield "sign of infinity", ast.UnaryOp(ast.USub(), node)
    for pair in WORDS:
        if node.attr in pair:
            yield "another function", ast.Attribute(node.value, pair[1 - pair.index(node.attr)], ast.Load())
    if _is_self(node.value):
        yield from (
            ("another name", ast.Attribute(node.value, other, ast.Load())) for other in place.scope.like(node.attr)
        )


def _call(node: ast.Call, place: _Place) -> Iterator:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner: Any = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ONLY_LAYOUT:
        return
    of_a_module = isinstance(owner, ast.Name) and owner.id not in place.scope.bound
    if owner and not of_a_module and not isinstance(place.parent, ast.Expr):
        yield "call dropped", owner
    if node.args and (name in PLAIN if owner is None else of_a_module and owner.id in UNWRAPPED):
        yield "call dropped", node.args[0]
    for i, keyword in enumerate(node.keywords):
        usual = name in ("cat", "stack", "concat") and keyword.arg == "dim" and ast.unparse(keyword.value) == "0"
        if keyword.arg not in ONLY_ELSEWHERE and not usual:
            yield "keyword dropped", ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])
    if len(node.args) > 1 and name not in EITHER_WAY:
        yield "swapped arguments", ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
    if name in IN_PLACE and isinstance(owner, ast.Name) and owner.id in place.scope.inputs:
        yield "in place", ast.Call(ast.Attribute(owner, name + "_", ast.Load()), node.args, node.keywords)
    if name == "range" and not isinstance(node.args[-1], ast.Constant):
        yield from (
            ("edge of a range", ast.Call(node.func, _with(node.args, 0 if len(node.args) == 1 else 1, by), []))
            for by in (1, -1)
        )


def _slice(node: ast.Slice, _: _Place) -> Iterator:
    parts: dict[str, Any] = {"lower": node.lower, "upper": node.upper, "step": node.step}
    for field in ("lower", "upper"):
        bound = parts[field]
        if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
            for by in (1, -1):
                yield "edge of a slice", ast.Slice(**parts | {field: _plus(bound, by)})


def _subscript(node: ast.Subscript, place: _Place) -> Iterator:
    if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice):
        yield "slice dropped", node.value
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and isinstance(node.value.value, ast.Name):
        for other in place.scope.of_other_size(node.value.value.id, node.slice):
            shape = ast.Attribute(ast.Name(other, ast.Load()), "shape", ast.Load())
            yield "another name", ast.Subscript(shape, node.slice, ast.Load())


def _either(node: ast.IfExp, _: _Place) -> Iterator:
    yield "one branch", node.body
    yield "one branch", node.orelse


def _returned(node: ast.Return, place: _Place) -> Iterator:
    if place.scope.inputs and node.value is not None and not isinstance(node.value, ast.Tuple | ast.Constant):
        yield "dtype", ast.Return(ast.Call(ast.Attribute(node.value, "float", ast.Load()), [], []))


def _test(node: ast.If | ast.While, _: _Place) -> Iterator:
    guard = isinstance(node.body[-1], ast.Raise)
    if isinstance(node, ast.If) and not guard:
        yield "condition turned", ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _with(args: list[ast.expr], place: int, by: int) -> list[ast.expr]:
    return [*args[:place], _plus(args[place], by), *args[place + 1 :]]


def _plus(node: ast.expr, by: int) -> ast.expr:
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(1))


_MAKERS: dict[type, Callable] = {
    ast.BinOp: _binary, ast.AugAssign: _augmented, ast.Compare: _compare, ast.BoolOp: _boolean, ast.UnaryOp: _unary,
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.Call: _call, ast.Slice: _slice,
    ast.Subscript: _subscript, ast.IfExp: _either, ast.Return: _returned, ast.If: _test, ast.While: _test,
}  # fmt: skip # a drawn table

# --------------------------------------------------------------------------------------------------------- other bodies


def _other_bodies(tree: ast.stmt) -> Iterator[tuple[str, str, Callable[[ast.stmt], bool]]]:
    """Changes of whole statements: the kind, what stood there, and a function that makes the change in a copy."""
    nodes = list(ast.walk(tree))
    for i, node in enumerate(nodes):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            for j, statement in enumerate(body if isinstance(body, list) else []):
                if _droppable(statement):
                    yield "statement dropped", _brief(statement), partial(_drop, i, field, j)
        if isinstance(node, ast.For):
            yield "one pass of a loop", _brief(node), partial(_break, i)
        if isinstance(node, ast.FunctionDef):
            yield from _kept(tree, node, i)


def _node(tree: ast.AST, place: int) -> Any:
    return list(ast.walk(tree))[place]


def _kept(tree: ast.stmt, function: ast.FunctionDef, i: int) -> Iterator[tuple[str, str, Callable]]:
    """Lists that are begun once, and not anew in every call or object."""
    in_init = function.name == "__init__" and isinstance(tree, ast.ClassDef)
    for j, statement in enumerate(function.body):
        if _starts_empty(statement, of_self=in_init):
            if in_init:
                yield "kept between objects", _brief(statement), partial(_into_class, i, j)
            else:
                yield "kept between calls", _brief(statement), partial(_into_default, i, j)


def _droppable(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return not statement.orelse
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant | ast.Yield)
    if isinstance(statement, ast.Assign):  # a name that has a value already, or a place in something
        return isinstance(statement.targets[0], ast.Subscript | ast.Attribute) or _names_itself(statement)
    return isinstance(statement, ast.AugAssign | ast.For | ast.Delete | ast.Continue | ast.Break)


def _names_itself(statement: ast.Assign) -> bool:
    targets = {node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return bool(targets & {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)})


def _drop(place: int, field: str, index: int, tree: ast.stmt) -> bool:
    body = getattr(_node(tree, place), field)
    body[index : index + 1] = [] if len(body) > 1 else [ast.Pass()]
    return True


def _break(place: int, tree: ast.stmt) -> bool:
    _node(tree, place).body.append(ast.Break())
    return True


def _starts_empty(statement: ast.stmt, of_self: bool = False) -> bool:
    """Whether it is `name = []` (or {}, set(), dict()): a list that is begun anew at each call."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    right = isinstance(target, ast.Attribute) and _is_self(target.value) if of_self else isinstance(target, ast.Name)
    return right and ast.unparse(statement.value) in ("[]", "{}", "set()", "dict()", "list()")


def _into_default(place: int, index: int, tree: ast.stmt) -> bool:
    """The slip of Python's beginners: the list as a default, which is made once."""
    function = _node(tree, place)
    statement = function.body.pop(index)
    target: Any = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    function.args.kwonlyargs.append(ast.arg(target.id))
    function.args.kw_defaults.append(statement.value)
    return bool(function.body)


def _into_class(place: int, index: int, tree: Any) -> bool:
    """The list as an attribute of the class: all objects share it."""
    init = _node(tree, place)
    statement = init.body[index]
    target: Any = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    init.body[index] = ast.Pass()
    tree.body.insert(0, ast.Assign([ast.Name(target.attr, ast.Store())], statement.value))
    return True
