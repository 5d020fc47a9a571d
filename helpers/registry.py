"""What the units' rooms offer, found by looking: a name in the `__all__` of `helpers/<unit>/checks/<idea>.py` is
`check.<name>`, and one of `plots/<idea>.py` is `plots.<name>`. Nothing is imported before it is asked for: notebooks
start fast."""

import ast
import difflib
import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PUBLIC = re.compile(r"^__all__ = (\[.*?\])", re.MULTILINE | re.DOTALL)


@cache
def offered(kind: str) -> dict[str, str]:
    """Every public name of all units' `checks` or `plots`, and the module that defines it."""
    found: dict[str, str] = {}
    for path in sorted(HERE.glob(f"*/{kind}/*.py")):
        module = f"helpers.{path.parent.parent.name}.{kind}.{path.stem}"
        for name in _public(path):
            if name in found:
                raise ImportError(f"{kind}: {name!r} is defined in {found[name]} and in {module}: rename one of them.")
            found[name] = module
    return found


def find(kind: str, name: str) -> Any:
    """What `name` is. AttributeError, with the nearest names there are, where no unit offers it."""
    module = offered(kind).get(name) if not name.startswith("_") else None
    if module is None:
        near = difflib.get_close_matches(name, offered(kind), n=1)
        raise AttributeError(
            f"there is no {kind.removesuffix('s')} called {name!r}" + (f"; is it {near[0]!r}?" if near else "")
        )
    return getattr(importlib.import_module(module), name)


def modules(kind: str) -> list[ModuleType]:
    """All modules of this kind that offer something, imported."""
    return [importlib.import_module(name) for name in sorted(set(offered(kind).values()))]


def _public(path: Path) -> list[str]:
    listed = PUBLIC.search(path.read_text(encoding="utf-8"))
    return ast.literal_eval(listed.group(1)) if listed else []
