"""A score is a number for nbgrader, a card for the student, data for the report."""

import json

import torch
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

from helpers import check
from helpers.engine import card
from helpers.engine.score import MIME, Picture, Score


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


def test_the_card_draws_expected_yours_and_difference():
    html = wrong_score()._repr_mimebundle_()["text/html"]
    assert all(word in html for word in ("expected 5×3", "yours 5×3", "difference 5×3", "<b>no scale</b>"))


def test_text_card():
    text = str(wrong_score())
    assert text.startswith("Scaled dot product attention · 0 of 4 points") and "✗ two batch axes" in text


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
    ):
        assert (
            "<div"
            in check.scaled_dot_product_attention(lambda q, k, v, o=output: o, points=4)._repr_mimebundle_()[
                "text/html"
            ]
        )


def test_a_large_output_is_drawn_where_it_is_wrong():
    expected = torch.zeros(3, 20, 20)
    got = expected.clone()
    got[2, 18, 11] = 5.0
    html = card.html(Score(0, exercise="large", points=1, pictures=(Picture("20×20", expected, got),)))
    assert html.count(">5.00<") == 2 and "expected 8×8" in html


def test_titles_and_points_read_well():
    assert card.title("rnn_encoder") == "RNN encoder" and card.title("MultiHeadAttention") == "MultiHeadAttention"
    assert "0.43 of 0.43 points" in str(Score(3 / 7, exercise="part", points=3 / 7))
