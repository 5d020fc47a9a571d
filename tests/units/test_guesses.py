"""Guesses stand beside what came out; nothing that a student writes or leaves out stops the notebook."""

import ast

import pytest
from conftest import ROOT

from helpers.measuring.guesses import UNWRITTEN, guesses

SOURCES = sorted((ROOT / "solutions").glob("*/*.py"))


def not_written():
    raise NotImplementedError


def not_right_yet():
    raise ValueError("shapes")


def said(capsys, **rows) -> str:
    guesses(rows)
    return capsys.readouterr().out


def test_unwritten_guesses_are_no_error_and_give_nothing_away(capsys):
    assert said(capsys, a=(None, 5), b=(None, not_right_yet)).strip() == UNWRITTEN
    shown = said(capsys, first=(3, 5), second=(None, "a secret"))
    assert "secret" not in shown and "1 more guess is not written" in shown


@pytest.mark.parametrize(
    ("guess", "outcome", "verdict"),
    [
        (5, 5, "✓"),
        (4, 5, "✗"),
        (10, 5, "✗ 2 times too much"),
        (1, 1_048_576, "✗ 1,048,576 times too little"),
        (0, 5, "✗"),
        (5, 0, "✗"),
        (4.0, 3.75, "✓ near enough"),
        (30, 3.75, "✗ 8 times too much"),
        (2, 2.0, "✓"),
        ("Rises ", "rises", "✓"),
        ("falls", "rises", "✗"),
        ([3, 1, 6, 6], (3, 1, 6, 6), "✓"),
        (True, "yes", "✓"),
        (False, "yes", "✗"),
        ("5", 5, "✓"),
        (5, not_written, "waits for your function"),
        (5, not_right_yet, "your function stops: ValueError"),
    ],
)
def test_verdicts(capsys, guess, outcome, verdict):
    row = said(capsys, it=(guess, outcome)).splitlines()[1]
    assert verdict in row and ("✓" in row) == ("✓" in verdict)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_guess_of_a_unit_starts_unwritten_and_is_compared_at_its_end(source):
    """`guess_… = None` in a cell of its own, and once more in the unit's last call of `guesses`."""
    code = "\n".join(line for line in source.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    tree = ast.parse(code)
    asked = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "None"
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith("guess_")
    }
    calls = [
        node.value for node in tree.body if isinstance(node, ast.Expr) and ast.unparse(node).startswith("guesses(")
    ]
    compared = {
        name.id
        for call in calls
        for name in ast.walk(call)
        if isinstance(name, ast.Name) and name.id.startswith("guess_")
    }
    assert asked == compared
    assert len(calls) == bool(asked)
