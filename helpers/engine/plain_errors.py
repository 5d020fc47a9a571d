"""An error in plain words: what each name is in the expression that failed, what the message means, what usually helps.
The texts stand in plain_errors.md. They know no exercise."""

import ast
import linecache
import re
import types
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from .hints import text_beside

MOST_NAMES = 5
TURNED = re.compile(r"(\w+)\.T\b")


def explained(error: BaseException, frames: list[types.TracebackType]) -> str:
    """Some sentences; "" where nothing is known. frames: of the traceback, those in the student's own code."""
    try:
        shapes = _names(frames[-1]) if frames else ""
    except BaseException:  # of an object of the student's that was looked at
        shapes = ""
    return "\n".join(filter(None, (_meaning(f"{type(error).__name__}: {error}"), shapes)))


def _meaning(message: str) -> str:
    for pattern, text in phrases():
        if found := pattern.search(message):
            words = re.sub(r"\{(\d)\}", lambda place: str(found[int(place[1]) + 1] or ""), text)
            return re.sub(r"\bA `(?=[aeiouAEIOU])", "An `", words)
    return ""


@cache
def phrases() -> list[tuple[re.Pattern, str]]:
    """(what is searched in `Kind: message`, what it means), in the order in which they count."""
    found = re.split(r"^## (.+)\n", text_beside(__file__), flags=re.MULTILINE)[1:]
    return [(re.compile(one), " ".join(text.split())) for one, text in zip(found[::2], found[1::2], strict=True)]


def _names(entry: types.TracebackType) -> str:
    """``In `q @ k`: `q` is (2, 3, 4), `k` is (2, 5, 4).``"""
    source = _expression(entry)
    known = {**entry.tb_frame.f_globals, **entry.tb_frame.f_locals}
    told = {name: words for name in _names_in(source) if name in known and (words := _told(known[name]))}
    lines = [f"`{name}` is {words}" for name, words in islice(told.items(), MOST_NAMES)]
    turned = " `.T` turns all axes round; `.mT` exchanges the last two." if _turns_many_axes(source, known) else ""
    return f"In `{source}`: {', '.join(lines)}.{turned}" if lines else ""


def _turns_many_axes(source: str, known: dict[str, Any]) -> bool:
    return any(isinstance(known.get(name), Tensor) and known[name].dim() > 2 for name in TURNED.findall(source))


def _names_in(source: str) -> list[str]:
    try:
        return [node.id for node in ast.walk(ast.parse(source, mode="eval")) if isinstance(node, ast.Name)]
    except SyntaxError:
        return []


def _expression(entry: types.TracebackType) -> str:
    """The source of the very expression that failed, if it is on one line."""
    code = entry.tb_frame.f_code
    line, end, first, last = [*code.co_positions()][entry.tb_lasti // 2]
    if line is None or line != end:
        return ""
    text = linecache.getline(code.co_filename, line, entry.tb_frame.f_globals).encode()
    return text[first:last].decode(errors="replace")


def _told(value: Any) -> str:
    """What a value is, in a few words; "" of what needs none."""
    if isinstance(value, Tensor):
        kind = "" if value.dtype == torch.float32 else f" of {str(value.dtype).removeprefix('torch.')}"
        return f"{tuple(value.shape)}{kind}" if value.dim() else f"a single number{kind}"
    if isinstance(value, (bool, int, float, type(None))):
        return repr(value)[:20]
    if isinstance(value, (str, list, dict)) or type(value) is tuple:
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, (types.ModuleType, types.BuiltinFunctionType, type)):
        return ""
    return (
        "a pointer, an address whose contents `tl.load` fetches"
        if "pointer" in str(getattr(value, "dtype", ""))
        else f"a {type(value).__name__[:40]}"
    )


def own_frames(error: BaseException, others: tuple[str, ...]) -> list[types.TracebackType]:
    """The entries of an error's traceback whose files lie in none of these folders."""
    found, entry = [], error.__traceback__
    while entry:
        if not entry.tb_frame.f_code.co_filename.startswith(others):
            found.append(entry)
        entry = entry.tb_next
    return found
