"""Files stay short and lines within 120 columns, prose in strings included; only drawn tables keep their own layout."""

import subprocess

import pytest
from conftest import ROOT

LONGEST = 120
CHECKS, OTHERS = 520, 560
DRAWN = "a drawn table"
"""What a line that the formatter skips says of itself."""
KEPT = ("# %%", "# |", "#| ")
"""Lines that can't be broken: headers of notebook cells, rows of tables."""


def _tracked(*folders: str) -> dict[str, list[str]]:
    names = subprocess.run(["git", "-C", ROOT, "ls-files", *folders], capture_output=True, text=True).stdout.split()
    paths = {name: ROOT / name for name in names if name.endswith(".py")}
    return {name: path.read_text(encoding="utf-8").splitlines() for name, path in paths.items() if path.is_file()}


TRACKED = _tracked()
pytestmark = pytest.mark.skipif(not TRACKED, reason="no checkout of git")


def test_no_line_is_too_long():
    lines = [(name, i, line) for name, text in TRACKED.items() for i, line in enumerate(text, start=1)]
    long = [f"{name}:{i}: {len(line)}" for name, i, line in lines if len(line) > LONGEST and not line.startswith(KEPT)]
    assert long == []


def test_no_file_is_too_long():
    sources = {name: len(text) for name, text in TRACKED.items() if not name.startswith("solutions/")}
    assert {name: n for name, n in sources.items() if n > (CHECKS if "/checks/" in name else OTHERS)} == {}


def test_only_drawn_tables_are_laid_out_by_hand():
    skip = "# fmt" + ": skip"
    marked = [f"{name}: {line.strip()}" for name, text in TRACKED.items() for line in text if skip in line]
    assert [line for line in marked if DRAWN not in line] == []
