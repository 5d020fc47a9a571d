"""The global names that a cell reads and binds, found without running it. SyntaxError where it is not plain Python."""

import symtable
from collections.abc import Iterator


def names_read(source: str) -> set[str]:
    """The global names that a cell reads, in functions too."""
    top = symtable.symtable(source, "cell", "exec")
    return {
        symbol.get_name()
        for scope in _scopes(top)
        for symbol in scope.get_symbols()
        if symbol.is_referenced() and (scope is top or symbol.is_global())
    }


def names_bound(source: str) -> set[str]:
    """The global names that a cell gives a value."""
    top = symtable.symtable(source, "cell", "exec")
    return {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}


def _scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for child in scope.get_children():
        yield from _scopes(child)
