"""What is amiss in the words of a unit: where its terms stand, how long its stubs' lines are, how it is spelled."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from autograder import notebooks

TERMS = "<details><summary>What exactly is checked</summary>"
MOST_TERMS = 8
WIDEST = 95
"""Columns that JupyterLab shows at 1280 px, the sidebar open."""
SOLUTION = re.compile(r"### BEGIN SOLUTION.*?### END SOLUTION", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
VERBS = "general|initial|maxim|memor|minim|normal|optim|organ|parallel|penal|quant|real|recogn|regular|summar|token"
PATTERNS = {
    rf"\b(?:{VERBS})is(?:e[ds]?|ers?|ing|ations?)\b": "American spelling has -ize",
    r"\b(?:behavi|col|fav|hon|neighb)our\w*|\bcent(?:re[ds]?)\b|\bgrey\b": "American spelling: color, center, gray",
    r"\bin \d+\.\d+ alone\b|\bfor [^.,;]{1,30} alone\b": "English says `only in 2.5`",
    r"\d %(?=[ .,;:)|]|$)": "write 5%, without a space",
    r"\b[Ww]hat ha(?:s|ve) [^.?]{1,60} to do with\b": "English says `what does … have to do with …`",
    r"\b(?:[kMG]?B|FLOPs|bytes|numbers|elements) an? (?:token|row|head|query|key|layer|step|sequence)\b": "say `per`",
}
"""Slips of a German ear that have been mended everywhere, and why each is one."""


def problems(notebook: NotebookNode) -> Iterator[str]:
    """Lines for the author of a unit."""
    for before, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        if notebooks.is_test(cell):
            yield from (f"cell {notebooks.grade_id(cell)}: {problem}" for problem in _terms(before))
    for number, cell in enumerate(notebook.cells, start=1):
        name = notebooks.grade_id(cell) or f"number {number}"
        wrong = _spelling(cell.source) if cell.cell_type == "markdown" else _too_wide(cell)
        yield from (f"cell {name}: {problem}" for problem in wrong)


def _terms(before: NotebookNode) -> Iterator[str]:
    """What a check asks stands in one fold, the last thing above it."""
    text, found, terms = before.source.rpartition(TERMS)
    if not found or before.cell_type != "markdown" or TERMS in text or not terms.rstrip().endswith("</details>"):
        yield f"above it there must be one fold, the last of its cell: {TERMS}"
    elif not 1 <= (count := len(re.findall(r"^- ", terms, re.MULTILINE))) <= MOST_TERMS:
        yield f"`What exactly is checked` has {count} lines that begin with `- `; write 1 to {MOST_TERMS}"


def _too_wide(cell: NotebookNode) -> Iterator[str]:
    if not notebooks.flag(cell, "solution"):
        return
    for line in SOLUTION.sub("", cell.source).split("\n"):
        if len(line) > WIDEST:
            yield f"a line of the stub has {len(line)} columns, and JupyterLab shows {WIDEST}: {line.strip()[:40]}…"


def _spelling(text: str) -> Iterator[str]:
    for pattern, reason in PATTERNS.items():
        for found in re.findall(pattern, CODE.sub("", text)):
            yield f"“{found}”: {reason}"
