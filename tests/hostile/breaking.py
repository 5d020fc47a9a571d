"""Notebooks that are broken, or break things by accident or by way of a browser."""

import json

from nbformat.v4 import new_code_cell

from .edits import ZEROS, Hostile, answer, early, find, late, on_json, text


def copy_cell(name: str):
    def edit(notebook):
        at = find(notebook, name)
        notebook.cells.insert(at + 1, json.loads(json.dumps(notebook.cells[at])))
        notebook.cells[at + 1] = type(notebook.cells[at])(notebook.cells[at + 1])

    return edit


def delete(name: str):
    return lambda notebook: notebook.cells.pop(find(notebook, name)) and None


def move(name: str, to: int):
    return lambda notebook: notebook.cells.insert(to, notebook.cells.pop(find(notebook, name)))


def retype(name: str, kind: str):
    def change(data):
        for cell in data["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == name:
                cell["cell_type"] = kind
                cell.pop("outputs", None), cell.pop("execution_count", None)

    return on_json(change)


def each_cell(act):
    def change(data):
        for cell in data["cells"]:
            act(cell)

    return on_json(change)


def odd_cell(name: str) -> dict:
    marks = {"grade_id": name, "grade": False, "solution": True, "locked": False, "schema_version": 3}
    return {"cell_type": "markdown", "id": "odd", "metadata": {"nbgrader": marks}, "source": name}


def without_metadata(*names: str):
    def act(cell):
        if not names or cell["metadata"].get("nbgrader", {}).get("grade_id") in names:
            cell["metadata"], cell["id"] = {}, cell["id"] if names else "x" + cell["id"][:50]

    return each_cell(act)


def version_3(data: dict) -> dict:
    for cell in data["cells"]:
        cell.pop("id", None)
        if cell["cell_type"] == "code":
            cell["input"], cell["language"] = cell.pop("source"), "python"
            cell["prompt_number"] = cell.pop("execution_count", None)
    return {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": data["cells"], "metadata": {}}],
    }


def version_4_0(data: dict) -> dict:
    for cell in data["cells"]:
        cell.pop("id", None)
    return {**data, "nbformat_minor": 0}


def colab(data: dict) -> dict:
    """As Colab saves it to GitHub."""
    badge = {
        "cell_type": "markdown",
        "metadata": {"id": "view-in-github", "colab_type": "text"},
        "source": ["<a href='https://colab'>"],
    }
    for cell in data["cells"]:
        cell["metadata"] |= {"id": cell.pop("id"), "outputId": "0-1", "deletable": True}
    data["metadata"]["colab"] = {"provenance": [], "base_uri": "https://localhost:8080/"}
    return {**data, "cells": [badge, *data["cells"]]}


def other_unit(data: dict) -> dict:
    for cell in data["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"]["grade_id"] = "of_another_unit_" + cell["metadata"]["nbgrader"]["grade_id"]
    return data


def raw(content: bytes):
    return lambda notebook: content


MISSING = {"softmax": 0.0}
SCRIPT = "<script>alert('LEAK')</script><img src=x onerror=\"alert('LEAK')\">"

NOTEBOOKS = [
    Hostile("empty", "an empty file", (raw(b""),), rejected=True, says="empty"),
    Hostile(
        "truncated",
        "a file cut off in the middle",
        (on_json(lambda data: None), lambda made: made[: len(made) // 2]),
        rejected=True,
        says="cut off",
    ),
    Hostile(
        "not_json",
        "a picture instead of a notebook",
        (raw(b"\x89PNG\r\n\x1a\n" * 100),),
        rejected=True,
        says="not a notebook",
    ),
    Hostile("json_list", "JSON that is no notebook", (raw(b"[1, 2, 3]"),), rejected=True, says="not a notebook"),
    Hostile(
        "deep_json",
        "JSON nested a hundred thousand times",
        (raw(b"[" * 100_000),),
        rejected=True,
        says="not a notebook",
    ),
    Hostile(
        "too_large",
        "60 MB of old metadata",
        (on_json(lambda data: data["metadata"].update(old="x" * 60_000_000)),),
        rejected=True,
        says="MB",
    ),
    Hostile("nbformat_3", "a notebook of format 3", (on_json(version_3),)),
    Hostile("nbformat_4_0", "a notebook of format 4.0, without cell ids", (on_json(version_4_0),)),
    Hostile("from_colab", "a notebook saved by Colab to GitHub", (on_json(colab),)),
    Hostile(
        "copied_answer",
        "an answer cell copied; the copy came second and is blank",
        (
            copy_cell("softmax"),
            lambda notebook: notebook.cells[find(notebook, "softmax") + 1].update(source="# try again"),
        ),
    ),
    Hostile("copied_twice", "a test cell copied twice", (copy_cell("softmax_test"), copy_cell("softmax_test"))),
    Hostile("deleted_test", "a test cell deleted", (delete("softmax_test"),)),
    Hostile("deleted_answer", "an answer cell deleted", (delete("softmax"),), MISSING, says="isn't defined"),
    Hostile("deleted_setup", "the setup cell deleted", (delete("setup"),)),
    Hostile("tests_first", "the test cells moved to the top", (move("attend_test", 0), move("softmax_test", 0))),
    Hostile("answer_last", "an answer cell moved to the end", (move("softmax", 99),)),
    Hostile("retyped_answer", "an answer cell turned into markdown", (retype("softmax", "markdown"),)),
    Hostile("retyped_test", "a test cell turned into raw text", (retype("softmax_test", "raw"),)),
    Hostile(
        "lost_metadata",
        "an answer and a test cell without their metadata",
        (without_metadata("softmax", "softmax_test"),),
    ),
    Hostile("no_metadata", "no metadata and no ids left: texts, checks and definitions tell", (without_metadata(),)),
    Hostile(
        "bad_metadata",
        "metadata of the wrong form",
        (
            on_json(
                lambda data: (
                    [cell["metadata"].update(nbgrader="yes") for cell in data["cells"] if cell["id"] == "attend"]
                    and None
                )
            ),
        ),
    ),
    Hostile(
        "wrong_kernel",
        "a kernel that does not exist",
        (
            lambda notebook: notebook.metadata.update(
                kernelspec={"name": "julia-9", "display_name": "Julia", "language": "julia"}
            ),
        ),
    ),
    Hostile("other_unit", "a notebook of another unit", (on_json(other_unit),), rejected=True, says="hand in"),
    Hostile(
        "syntax_error",
        "a syntax error in an answer",
        (answer("softmax", "def softmax(x, dim)\n    return x"),),
        MISSING,
        says="SyntaxError",
    ),
    Hostile(
        "own_exception",
        "an answer that raises",
        (answer("softmax", "def softmax(x, dim):\n    return undefined_name"),),
        MISSING,
        says="undefined_name",
    ),
    Hostile(
        "odd_characters",
        "NUL, lone surrogates and 100 000 characters on a line",
        (early("x = '\\ud800\\x00' + '\u202e" + "y" * 100_000 + "'\nprint(x)"),),
    ),
    Hostile(
        "odd_colors",
        "colors and halves of characters that libraries stumble over, in every kind of output",
        (
            early(
                """
from IPython.display import HTML
odd = "x\\x1b[38m\\x1b[48;5m\\x1b[038m\\x9b\\ud800\\x00 still there"
print(odd)
display(HTML(odd), {"text/plain": odd, odd: odd}, raw=False)
raise type('odd\\x1b[38m', (Exception,), {})(odd)"""
            ),
        ),
        says="still there",
    ),
    Hostile(
        "odd_message",
        "half a character, and a color that is none, in the error that the card shows",
        (answer("softmax", "def softmax(x, dim):\n    raise ValueError('\\ud800\\x1b[38m still there')"),),
        MISSING,
        says="still there",
    ),
    Hostile(
        "odd_value",
        "half a character as an answer, and in the name of a mark",
        (
            answer("softmax", "def softmax(x, dim):\n    return '\\ud800\\x1b[38m'"),
            on_json(lambda data: data["cells"].append(odd_cell("\ud800\x1b[38m"))),
        ),
        MISSING,
    ),
    Hostile(
        "deep_expression",
        "an expression of 1,500 terms in a cell of its own",
        (early("total = " + " + ".join(["1"] * 1500)),),
    ),
    Hostile("asks_for_input", "input()", (early("name = input('who? ')"),), says="input()"),
    Hostile("asks_for_password", "getpass()", (early("import getpass\ngetpass.getpass()"),)),
    Hostile(
        "removes_home",
        "!rm -rf ~ and of all it can reach",
        (early("!rm -rf ~ /root /home {PACKAGES} {COURSE} / --no-preserve-root 2>/dev/null | tail -1"),),
    ),
    Hostile(
        "writes_module",
        "a torch.py of its own in the working folder",
        (early("%%writefile torch.py\nraise SystemExit"), late("import importlib; importlib.invalidate_caches()")),
    ),
    Hostile("javascript", "%%javascript", (early("%%javascript\nalert('LEAK')"),)),
    Hostile(
        "script_in_html",
        "a script in HTML output, in SVG and in an error",
        (
            early(f"""
from IPython.display import HTML, SVG, Javascript
script = {SCRIPT!r}
display(HTML(script), Javascript("alert('LEAK')"))
svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{{script}}</svg>"
display({{"image/svg+xml": svg, "text/html": script, "text/markdown": script}}, raw=True)
raise ValueError(script)"""),
        ),
    ),
    Hostile(
        "script_in_message",
        "a script in the error that the card shows",
        (answer("softmax", f"def softmax(x, dim):\n    raise ValueError({SCRIPT!r})"),),
        MISSING,
    ),
    Hostile("script_in_markdown", "a script in a markdown cell", (text(SCRIPT),)),
    Hostile(
        "blank",
        "the answer is the released stub",
        (answer("softmax", "def softmax(x, dim):\n    raise NotImplementedError"),),
        MISSING,
        says="Not attempted",
    ),
    Hostile("wrong_answer", "an honest wrong answer", (answer("softmax", ZEROS),), MISSING),
    Hostile(
        "redefined_later",
        "an answer whose name a later cell takes for something else",
        (late("def softmax(x): return 'mine'"),),
    ),
    Hostile(
        "no_cells",
        "a notebook without cells",
        (lambda notebook: notebook.update(cells=[]),),
        rejected=True,
        says="hand in",
    ),
    Hostile(
        "empty_cells",
        "a hundred empty cells",
        (lambda notebook: notebook.cells.extend(new_code_cell("") for _ in range(100)),),
    ),
    Hostile(
        "asynchronous",
        "await at the top of a cell",
        (early("import asyncio\nawait asyncio.sleep(0)\nprint('awake')"),),
        says="awake",
    ),
]
