"""`attn prove --mutants`: the machine that invents wrong answers makes the slips that students make, and finds a check
that lets one pass, or a card that accuses one falsely."""

import json
import re

import pytest
from jaxtyping import Float
from torch import Tensor

from autograder.course.exercises import Exercise, exercises
from autograder.proofs import survivors
from autograder.proofs.mutants import Mutant, mutants
from autograder.proofs.programs import MODEL, Program, programs
from helpers.engine.cases import sized
from helpers.engine.check import Check, Misconception
from helpers.engine.own_process import in_own_process
from helpers.engine.rules import Property

ATTENTION = """
def attention(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"]):
    \"\"\"softmax(q kᵀ / √d) v.\"\"\"
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(scores.isnan(), 0.0)
    return torch.softmax(scores, dim=-1) @ v
"""


def lines(source: str) -> list[str]:
    return [mutant.line for mutant in mutants(source)]


@pytest.mark.parametrize(
    "line",
    [
        "scores = q @ k / math.sqrt(q.shape[-1])",  # a dropped transposition
        "scores = q @ k.mT",  # no scale
        "scores = q @ k.mT / q.shape[-1]",  # no root
        "scores = q @ k.mT / math.sqrt(v.shape[-1])",  # names of one kind
        "scores = q @ v.mT / math.sqrt(q.shape[-1])",
        "scores = q @ k.mT / math.sqrt(q.shape[-2])",  # another axis
        "return torch.softmax(scores, dim=0) @ v",
        "return torch.softmax(scores, dim=-2) @ v",
        "return scores @ v",  # no softmax
        "return torch.softmax(scores, dim=-1) @ k",
        "return (torch.softmax(scores, dim=-1) @ v).float()",  # the dtype
    ],
)
def test_the_slips_of_students_are_among_them(line):
    assert line in lines(ATTENTION)


def test_a_statement_is_dropped_and_nothing_comes_twice():
    found = list(mutants(ATTENTION))
    assert any(mutant.kind == "statement dropped" and not mutant.line for mutant in found)
    assert len({mutant.source for mutant in found}) == len(found) > 30
    assert all(mutant.source != mutant.original and compile(mutant.source, "", "exec") for mutant in found)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(n):\n    return [i for i in range(n) if i < n]", "return [i for i in range(n) if i <= n]"),
        ("def f(n):\n    return [x for x in range(n)]", "return [x for x in range(n + 1)]"),
        ("def f(x, start, stop):\n    return x[start:stop]", "return x[start:stop - 1]"),
        ("def f(x: Tensor):\n    return x.exp()", "return x.exp_()"),
        ("def f(x: Tensor, d, h):\n    return x.view(d // h)", "return x.view(d / h)"),
        ("def f(x, d):\n    return x.sum(d, keepdim=True)", "return x.sum(d)"),
        ("def f(x):\n    kept = []\n    kept.append(x)\n    return kept", "def f(x, *, kept=[]):"),
        ("class C:\n    def __init__(self):\n        self.rows = []", "rows = []"),
        ("def f(n, m):\n    rows, columns = n, m\n    return rows", "return columns"),
    ],
)
def test_each_kind_of_change(source, line):
    assert line in lines(source)


def test_what_no_test_could_tell_is_left_out():
    source = (
        "def f(x: Tensor):\n    'doc 1'\n    assert len(x) > 1, 'two'\n    return "
        "x.contiguous().to(torch.zeros(1, device=x.device))"
    )
    changed = "\n".join(lines(source))
    assert (
        "doc" not in changed and "assert" not in changed and "return x.to" not in changed and "zeros(1))" not in changed
    )


def double(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return 2 * x


def square(x):
    return x * x


def _surveyed(monkeypatch, check, reasons=None):
    program = Program(MODEL, ("def double(x):\n    return 2 * x",), ("double",), (0,))
    monkeypatch.setattr(survivors, "programs", lambda *_: [program])
    monkeypatch.setattr(survivors, "companion", lambda *_: type("", (), {"double": reasons or {}}))
    monkeypatch.setattr(Exercise, "hidden_cases", lambda self: ())
    exercise = Exercise("99_none", "double", ("double",), 2.0, check)
    return survivors.survey_exercise(None, exercise, {True: 99, False: 99})


def test_a_good_check_lets_none_pass(monkeypatch):
    tried = _surveyed(monkeypatch, Check(double, [sized(n=3, d=2)]))
    assert tried.mutants == tried.killed > 4 and not survivors.complaints(tried)


def test_a_hole_is_found_and_a_reason_closes_it(monkeypatch):
    generous = Check(
        double, [sized(n=3, d=2)], compare=False, properties=[Property("grows", lambda out, x: len(out) == 3)]
    )
    tried = _surveyed(monkeypatch, generous)
    assert "2 → 3   in: return 3 * x" in [one["diff"] for one in tried.survivors]
    excused = _surveyed(
        monkeypatch, generous, {re.compile("return . . x"): "any factor will do", "return x": "one too"}
    )
    assert len(excused.excused) >= 2 and len(excused.survivors) < len(tried.survivors)


def test_an_equivalent_that_is_caught_is_a_complaint(monkeypatch):
    tried = _surveyed(monkeypatch, Check(double, [sized(n=3, d=2)]), {"return 3 * x": "no"})
    assert survivors.complaints(tried) == ["is caught, and listed as equivalent: 2 → 3   in: return 3 * x"]


def test_a_false_accusation_is_found(monkeypatch):
    """A mark that every wrong output shows names what it likes."""
    slip = Misconception(
        "squared", square, "Twice, not the square.", recognise=lambda seen: seen.output.shape == (3, 2)
    )
    check = Check(double, [sized(n=3, d=2)], [slip])
    assert not _surveyed(
        monkeypatch, check
    ).accused  # the right output shows the mark too, so the engine doesn't believe it
    monkeypatch.setattr("helpers.engine.diagnose._innocent", lambda *_: False)
    assert {one["named"] for one in _surveyed(monkeypatch, check).accused} == {"squared"}


def test_one_that_never_ends_is_caught(monkeypatch):
    monkeypatch.setattr(survivors, "SECONDS", 0.5)
    monkeypatch.setattr(
        survivors,
        "mutants",
        lambda source: [Mutant("loop", "", "", source, "def double(x):\n    while True:\n        pass")],
    )
    tried = _surveyed(monkeypatch, Check(double, [sized(n=3, d=2)]))
    assert (tried.mutants, tried.killed) == (1, 1)


def test_one_that_never_ends_in_a_process_of_its_own_is_caught(monkeypatch):
    """Interpreted kernels run in forks: their time is not that of the process that waits for them."""
    monkeypatch.setattr(survivors, "SECONDS", 0.5)
    source = "def double(x):\n    return in_own_process(lambda: 2 * x)"
    hangs = source.replace("2 * x", "[None for _ in iter(int, 1)]")
    monkeypatch.setattr(survivors, "mutants", lambda _: [Mutant("loop", "", "", source, hangs)])
    monkeypatch.setattr(survivors, "AGAIN", "in_own_process")
    monkeypatch.setattr(survivors, "first_output_again", in_own_process)
    tried = _surveyed(monkeypatch, Check(double, [sized(n=3, d=2)]))
    assert (tried.mutants, tried.killed) == (1, 1)


def test_every_right_answer_can_be_taken_apart(real_course):
    """A program lists what an answer needs: without that a NameError, and every mutant would seem caught."""
    for exercise in exercises(real_course, "02_qkv_attention"):
        found = list(programs(real_course, exercise))
        assert found[0].style == MODEL and len(found) > 2, exercise.id
        assert found[0].changeable and all(len(program.run()) == len(exercise.answers) for program in found)


def test_the_command_finds_nothing_in_a_sample(real_course, attn):
    result = attn(real_course, "prove", "02", "07", "--only", "matmul_flops", "--mutants", "--json")
    assert result.exit_code == 0, result.output
    total = json.loads(result.stdout)["total"]
    assert total["mutants"] == total["killed"] + total["equivalent"] > 20 and total["false_accusations"] == 0
