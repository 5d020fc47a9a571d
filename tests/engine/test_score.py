"""A score is a number for nbgrader, a card for the student, data for the report."""

import json

import torch
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

from helpers import check
from helpers.engine.score import MIME


def wrong_score():
    return check.scaled_dot_product_attention(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, points=4, seed=0)


def test_repr_is_the_number_that_nbgrader_reads():
    InteractiveShell.instance()
    data, _ = DisplayFormatter().format(wrong_score())
    assert float(data["text/plain"]) == float(wrong_score())
    assert "<div" in data["text/html"] and data[MIME]["diagnosis"] == "no scale"


def test_json_is_plain():
    data = json.loads(json.dumps(wrong_score().as_json()))
    assert data["exercise"] == "scaled_dot_product_attention" and data["points"] == 4 and "√d" in data["message"]


def test_what_a_student_writes_is_escaped():
    def hostile(q, k, v):
        raise ValueError("<script>alert(1)</script>")

    html = check.scaled_dot_product_attention(hostile, points=4)._repr_mimebundle_()["text/html"]
    assert "<script" not in html and "&lt;script&gt;" in html


def test_odd_outputs_can_be_drawn():
    for output in (
        torch.empty(0),
        torch.full((5, 3), torch.nan),
        torch.ones(2, 2, 2, 2),
        torch.tensor(1 + 2j),
        torch.ones(5, 3).bool(),
        torch.ones(5, 3).to_sparse(),
        torch.full((5, 3), 7, dtype=torch.int8),
        torch.full((5, 3), 1e30),
        torch.zeros(5, 0),
    ):
        assert (
            "<div"
            in check.scaled_dot_product_attention(lambda q, k, v, o=output: o, points=4)._repr_mimebundle_()[
                "text/html"
            ]
        )


def test_the_grader_reads_what_the_checks_write():
    from autograder.judge.outputs import MIME as read

    assert read == MIME
