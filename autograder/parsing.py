"""Python's parser, for one thread at a time. Python 3.11 counts how deep it is for all threads together: where one of them makes
room for another in the middle, both can end in "AST constructor recursion depth mismatch", whatever they read."""

import ast
from threading import RLock

_ALONE = RLock()


def parse(source: str) -> ast.Module:
    """`ast.parse`, and as it SyntaxError for what is no Python."""
    with _ALONE:
        return ast.parse(source)
