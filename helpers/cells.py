"""What became of the cells of this kernel: a card says so where it judges another function than the student thinks."""

import re
import types
from collections.abc import Iterable
from typing import Any

DEFINES = re.compile(r"^(?:async )?(?:def|class) +(\w+)", re.MULTILINE)
FAILED = "The cell that defines `{}` stopped with {}, so this is your earlier version of it."
RENAMED = "The cell that defined `{}` now defines {}: this is your earlier version. Give it its old name again."
NOT_RUN = "`{0}` isn't defined yet: run the cell with `def {0}` first, or all cells from the top."
STOPPED = "You stopped it{}. Run this cell again when you have looked at it."
_defined: dict[Any, set[str]] = {}
"""The names that each cell defined when it ran last, by the cell's id."""
_objects: dict[str, Any] = {}
"""What these names were after that."""
_stale: dict[str, str] = {}
"""What is to be said of a name whose value is older than its cell."""


def watch(shell: Any) -> None:
    """From now on the cells of this shell are looked at when they have run."""
    shell.events.register("post_run_cell", lambda result: _noted(result, shell.user_ns))
    shell.set_custom_exc((NameError,), _not_run)


def said_of(answers: Iterable[Any]) -> str:
    """A sentence about the first answer that is older than its cell; "" where none is."""
    names = (getattr(answer, "__name__", "") for answer in answers)
    return next((_stale[name] for name in names if name in _stale), "")


def where_stopped(error: KeyboardInterrupt) -> str:
    """What a student is told who has stopped a check: with which inputs, and in which line."""
    from .engine.observe import OUR_FOLDERS  # bring PyTorch along: not before they are needed
    from .engine.plain_errors import own_frames

    case = next((entry.f_locals["case"] for entry in _frames(error) if "case" in entry.f_locals), None)
    own = own_frames(error, OUR_FOLDERS)
    inputs = f" with {case.label}" if case and own else ""
    line = f" in line {own[-1].tb_lineno} of `{own[-1].tb_frame.f_code.co_name}`" if own else ""
    return STOPPED.format(line + inputs + ": is there a loop without an end?" if own else "")


def _frames(error: BaseException) -> Iterable[types.FrameType]:
    entry = error.__traceback__
    while entry:
        yield entry.tb_frame
        entry = entry.tb_next


def _noted(result: Any, values: dict[str, Any]) -> None:
    """Which names are older than their cell now: it failed before it defined them anew, or defines others."""
    names, cell = set(DEFINES.findall(result.info.raw_cell or "")), result.info.cell_id
    before = _defined.get(cell, set()) if cell else set()
    error = result.error_before_exec or result.error_in_exec
    for name in names | before:
        old = name in values and values[name] is _objects.get(name)
        if error and old:
            _stale[name] = FAILED.format(name, _with_article(type(error).__name__))
        elif not error and name not in names and old:
            _stale[name] = RENAMED.format(name, ", ".join(f"`{one}`" for one in sorted(names)) or "nothing")
        else:
            _stale.pop(name, None)
            _objects[name] = values.get(name)
    if not error:
        _defined[cell] = names


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


def _not_run(shell: Any, kind: type, error: NameError, trace: Any, tb_offset: int | None = None) -> None:
    """The error as it is, and before it a sentence where a check's own cell doesn't find the function."""
    if trace.tb_next is None or trace.tb_next.tb_next is None:
        source = shell.history_manager.input_hist_raw[-1]
        if f"check.{error.name}(" in source or re.search(rf"\bcheck\.\w+\([^)]*\b{error.name}\b", source):
            print(NOT_RUN.format(error.name))
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
