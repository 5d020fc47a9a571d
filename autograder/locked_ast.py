"""Python's parser, for one thread at a time. Before 3.11.8 Python counts how deep it is for all threads together: two
at once can end in "AST constructor recursion depth mismatch"."""

import ast
from threading import RLock
from typing import Any

_ALONE, _parse = RLock(), ast.parse


def parse(source: Any, *arguments: Any, **named: Any) -> Any:
    """`ast.parse`, and as it SyntaxError for what is no Python."""
    with _ALONE:
        return _parse(source, *arguments, **named)


def lock_libraries() -> None:
    """Make libraries wait for each other too, in all of this process: torch parses some of itself while it is
    imported."""
    ast.parse = parse
