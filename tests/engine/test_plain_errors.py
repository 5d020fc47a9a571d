"""Errors of beginners, each made here by the code that makes it: what it means, and what the names in the line are."""

import linecache
import re
from itertools import count

import pytest
import torch
from torch import nn

from helpers import check
from helpers.engine.anti_gaming import without_details
from helpers.engine.hints import text_beside
from helpers.engine.observe import StudentError, observe
from helpers.engine.plain_errors import phrases

NUMBER = count()
GIVEN = {
    "torch": torch,
    "nn": nn,
    "q": torch.randn(2, 3, 4),
    "k": torch.randn(2, 5, 4),
    "m": torch.randn(3, 4),
    "v": torch.randn(5),
    "ids": torch.tensor([1, 2, 3]),
    "mask": torch.ones(3, 3).tril(),
    "learned": torch.ones(3, requires_grad=True),
}


def stopped(line: str):
    """The error of a function with this line in it, as a student's cell holds it."""
    name, source = f"<cell {next(NUMBER)}>", f"import math\ndef answer(q):\n    {line}\n    return q\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = dict(GIVEN)
    exec(compile(source, name, "exec"), names)
    return observe(names["answer"], (GIVEN["q"],)).error


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q + v", "here 4 meets 5"),
        ("q @ k", "Should the last two axes"),
        ("m @ m", "columns to be as many"),
        ("q - q.max(dim=-1)", "gives a pair"),
        ("q.T @ q", "`.mT` exchanges the last two"),
        ("q.transpose(1, 2).view(2, 12)", "`reshape` copies"),
        ("q.reshape(5, -1)", "as many numbers as the tensor has: 24"),
        ("torch.softmax([1.0, 2.0], dim=0)", "`torch.stack` makes a tensor of a list of tensors"),
        ("torch.tensor([q, q])", "To make one tensor of several"),
        ("math.sqrt(q)", "`torch.sqrt(x)`"),
        ("q.reshape(2, 3, 4 / 2, 2)", "use `//`"),
        ("q[:, 4 / 2]", "`//` divides to a whole number"),
        ("q = 1 if mask == 0 else 0", "`.all()` or `.any()`"),
        ("nn.ModuleList([nn.Linear(4, 4)])(q)", "call its modules one by one"),
        ("nn.Module()(q)", "no method called `forward`"),
        ("q[:, 9]", "Axis 1 has 3 places"),
        ("q[0, 0, 0, 0]", "more are indexed"),
        ("nn.functional.cross_entropy(q, ids.expand(2, 3))", "classes on axis 1"),
        ("nn.functional.embedding(ids, m[:2])", "ids go from 0 to size − 1"),
        ("nn.functional.embedding(v, m)", "whole numbers (`torch.long`)"),
        ("m.double() @ m.mT", "different kinds of numbers (double and float)"),
        ("q.masked_fill(torch.ones(3, 4), 0)", "say `.bool()`"),
        ("b, n, d = m.shape", "There are 2 values for 3 names"),
        ("b, n = q.shape", "more values than the 2 names"),
        ("[].append(q) + 1", "Something here is None"),
        ("weights @ q", "Nothing is called `weights` here"),
        ("q.softmax()", 'leaves something out: "dim"'),
        ("q.sum(dim=5)", "axes go from -3 to 2"),
        ("torch.sqrt(4)", "a single number"),
        ("q / q.size ** 0.5", "round brackets missing"),
        ("(q,)[1]", "The tuple is shorter"),
        ("q.shape(0)", "`shape` is no function"),
        ("torch.cat(q, k)", "as one list"),
        ("torch.cat([q, m])", "equally many axes: here 3 and 2"),
        ("torch.einsum('ij,jk->ik', q, k)", "a letter for each axis"),
        ("torch.einsum('bij,bjk->bik', q, k)", "one letter is one length"),
        ("learned.add_(1)", "outside of `torch.no_grad()`"),
        ("y = learned.exp(); z = y.sum(); y.mul_(2); z.backward()", "changed in place afterwards"),
        ("q.sum().backward()", "Nothing leads from this result back"),
        ("ids.softmax(-1)", "`.float()` first"),
        ("answer(q)", "calls itself without an end"),
        ("q(0)", "round brackets where square ones are meant"),
        ("for i in 3: pass", "`range(…)`"),
    ],
)
def test_an_error_is_told_in_plain_words(line, words):
    assert words in stopped(line).plain


def test_what_the_names_are_stands_below():
    assert "In `q + v`: `q` is (2, 3, 4), `v` is (5,)." in stopped("q + v").plain
    assert "`ids` is (3,) of int64" in stopped("ids.softmax(-1)").plain
    assert "`text` is a str of 3, `n` is 5" in stopped("text, n = 'abc', 5; text + n").plain


def test_not_attempted_is_what_a_stub_says_and_nobody_else():
    assert stopped("raise NotImplementedError").kind == "NotImplementedError"
    for line in ("nn.ModuleList()(q)", "ids.softmax(-1)"):
        assert stopped(line).kind == "RuntimeError"


def test_a_card_has_the_words_and_a_hidden_case_has_none():
    score = check.pairwise_dot(lambda a, b: a + 1 / 0 * b, points=1)
    assert "divided by 0" in str(score)
    seen = observe(lambda a: a / (1 // 0), (GIVEN["q"],))
    assert seen.error.plain and without_details(seen).error == StudentError("ZeroDivisionError", "")
    assert not without_details(seen).error.plain


def test_every_phrase_is_read_and_asks_for_no_group_that_its_pattern_lacks():
    assert len(phrases()) == text_beside("helpers/engine/plain_errors.py").count("\n## ") > 60
    for pattern, text in phrases():
        wanted = {int(group) for group in re.findall(r"\{(\d)\}", text)}
        assert wanted <= set(range(pattern.groups)), pattern.pattern
