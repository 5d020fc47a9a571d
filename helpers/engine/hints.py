"""The names and hints of wrong answers: Markdown beside the check, `## key: name` and below it the hint."""

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HEADING = re.compile(r"^## (\w+): (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Hint:
    """name: what a card calls the slip; text: the idea that was missed."""

    name: str
    text: str


@cache
def hints_beside(module_file: str) -> dict[str, Hint]:
    """All hints by their keys: of `split_heads.py` those in `split_heads.md`."""
    found = re.split(HEADING, text_beside(module_file))[1:]
    triples = zip(found[::3], found[1::3], found[2::3], strict=True)
    return {key: Hint(name.strip(), " ".join(text.split("\n")).strip()) for key, name, text in triples}


def hint_for(key: str, module_file: str, otherwise: Hint | None = None) -> Hint:
    """The hint of one key. Where a file is spoilt the key must do, so that grading goes on (`attn lint` stops)."""
    return hints_beside(module_file).get(key) or otherwise or Hint(key.replace("_", " "), "")


def keys_beside(module_file: str) -> list[str]:
    """The keys in the order of the file, one that stands there twice as often."""
    return [match[1] for match in HEADING.finditer(text_beside(module_file))]


def text_beside(module_file: str) -> str:
    """The file as it is, or packed as in a class's wheel; "" where there is none that can be read."""
    path = Path(module_file).with_suffix(".md")
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except FileNotFoundError:
        return _packed(path)
    except (OSError, ValueError):
        return ""


def _packed(path: Path) -> str:
    """From the wheel for a class (`attn release` makes it), in which `helpers.packed` has unpacked the check."""
    packed = sys.modules.get("helpers.packed")
    try:
        return packed.texts(path.parent)[path.name] + "\n" if packed else ""
    except (OSError, LookupError):
        return ""
