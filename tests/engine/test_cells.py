"""The life of a notebook: a card says where it judges another function than the student thinks."""

from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from helpers import cells, check, progress

RIGHT = "def pairwise_dot(a, b):\n    return a @ b.T"
CHECK = "score = check.pairwise_dot(pairwise_dot, points=1)"


@pytest.fixture
def run(monkeypatch):
    """Runs cells of a notebook by their ids; gives the message of the last card."""
    for kept in ("_defined", "_objects", "_stale"):
        monkeypatch.setattr(cells, kept, {})
    monkeypatch.setattr(progress, "_seen", {})
    shell = InteractiveShell()
    shell.kernel = object()
    shell.user_ns["check"] = SimpleNamespace(pairwise_dot=progress.Door("pairwise_dot"))
    monkeypatch.setattr(progress.Door, "first", False)
    cells.watch(shell)

    def call(cell: str, source: str) -> str:
        shell.run_cell(source, store_history=True, cell_id=cell)
        shell.run_cell(CHECK, store_history=True, cell_id="check")
        return shell.user_ns["score"].message if "score" in shell.user_ns else ""

    return call


def test_after_a_syntax_error_the_card_judges_the_earlier_function_and_says_so(run):
    assert run("a", RIGHT) == ""
    assert "stopped with a SyntaxError, so this is your earlier version" in run("a", RIGHT + "(")
    assert run("a", RIGHT) == ""


def test_a_cell_that_fails_before_it_defines_is_no_new_version(run):
    run("a", RIGHT)
    assert "stopped with a NameError" in run("a", "unknown\n" + RIGHT)
    assert run("a", RIGHT + "\nunknown") == "", "it fails afterwards: the function is new"


def test_a_renamed_function_is_told(run):
    run("a", RIGHT)
    message = run("a", RIGHT.replace("pairwise_dot", "dots"))
    assert "The cell that defined `pairwise_dot` now defines `dots`" in message
    assert run("b", RIGHT) == "", "another cell defines it"


def test_a_check_before_its_cell_says_which_cell_to_run(run, capsys):
    run("a", "x = 1")
    shown = capsys.readouterr().out
    assert "`pairwise_dot` isn't defined yet: run the cell" in shown and "NameError" in shown
    run("b", "missing + 1")
    assert "`missing` isn't defined yet" not in capsys.readouterr().out


def test_an_endless_loop_that_is_stopped_is_told_by_its_line_and_its_inputs(run):
    source = "def pairwise_dot(a, b):\n    raise KeyboardInterrupt  # as the button does it\n"
    message = run("a", source)
    assert "You stopped it in line 2 of `pairwise_dot` with" in message and "a loop without an end?" in message


def test_a_check_that_takes_long_says_so(run, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    run("a", "def pairwise_dot(a, b):\n    __import__('time').sleep(0.1)\n    return a @ b.T")
    assert progress.STILL_RUNNING in capsys.readouterr().out


def test_what_nobody_tried_is_open_and_what_was_tried_in_vain_is_not(run):
    run("a", "def pairwise_dot(a, b):\n    raise NotImplementedError")
    assert "○ " in repr(check.progress()) and "✗" not in repr(check.progress())
    run("a", "def pairwise_dot(a, b):\n    return a")
    assert "✗" in repr(check.progress())
