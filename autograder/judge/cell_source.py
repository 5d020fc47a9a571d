"""What can be said of a cell from its source alone."""

import ast
import builtins
from typing import Any


def without_repeats(source: str) -> str:
    """The cell without calls that its last line makes again with more to check: students see `check.x(x, points=2)`,
    below it the hidden part says `check.x(x, points=2, cases=hidden.x)`, and only that one's score counts."""
    *before, last = ast.parse(source).body or [ast.Pass()]
    kept = [statement for statement in before if not _is_part(statement, last)]
    return source if len(kept) == len(before) else ast.unparse(ast.Module([*kept, last], []))


def _is_part(statement: ast.stmt, whole: ast.stmt) -> bool:
    """Whether a statement is a call, and the other the same call with more keywords."""
    calls = [one.value for one in (statement, whole) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
    if len(calls) < 2:
        return False
    part, more = ({keyword.arg: ast.dump(keyword.value) for keyword in call.keywords} for call in calls)
    same = [[ast.dump(node) for node in (call.func, *call.args)] for call in calls]
    return same[0] == same[1] and part.items() < more.items()


def unknown_names(source: str, known: dict[str, Any]) -> list[str]:
    """The names that a cell reads and that neither it, nor `known`, nor Python defines."""
    tree = ast.parse(source)
    read, bound = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return sorted(name for name in read - bound if name not in known and not hasattr(builtins, name))
