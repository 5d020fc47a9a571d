"""Every picture of a unit draws, and one that needs an unsolved exercise says so instead of failing."""

import IPython.display
import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from helpers import paper, plots, style
from helpers.labels import _spread, name_lines
from helpers.qkv_attention import attention, constructions, softmax
from helpers.qkv_attention.plots import two_explanations
from helpers.style import KEY, RED, SKY

matplotlib.use("Agg")


def unsolved(*_):
    raise NotImplementedError


UNIT_02 = [
    lambda: plots.softmax_steps([2.0, 1.0, -1.0]),
    lambda: plots.query_among_keys((1, 0), [(2, 0), (0, 3)]),
    lambda: plots.query_turned([(2, 0), (0, 3)], steps=2),
    lambda: plots.mixed_values([0.5, 0.25, 0.25], [(0, 0), (1, 0), (0, 1)]),
    lambda: plots.attention_map(torch.eye(3), ["The", "cat", "is"]),
    lambda: plots.score_maps({"dot": lambda: torch.randn(3, 4), "scaled": lambda: torch.randn(3, 4)}),
    lambda: plots.score_spread([1, 4, 16], queries=9, keys=8),
    lambda: plots.jacobians(softmax.softmax_jacobian, {"here": [0.0, 1.0], "there": [0.0, 100.0]}),
    lambda: plots.permutation_gaps(attention.permutation_gap, {"none": lambda x: x}, torch.randn(4, 2), trials=3),
    lambda: plots.two_explanations(constructions.same_output_other_weights),
]


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


@pytest.mark.parametrize("draw", UNIT_02)
def test_unit_02_draws(draw, monkeypatch):
    films = []
    monkeypatch.setattr(IPython.display, "display", films.append)
    draw()
    assert plt.get_fignums() or films
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()


def test_a_picture_waits_for_its_exercise(capsys):
    plots.jacobians(unsolved, {"here": [0.0, 1.0]})
    assert "needs your answer to exercise 2.11" in capsys.readouterr().out


def test_letters_are_as_large_on_the_page_however_wide_the_picture_is():
    for width in (3, 7, 12):
        figure, axis = plt.subplots(figsize=(width, 2))
        axis.set_title("loud", fontsize=30)
        axis.set_xlabel("low", fontsize=3)
        style._one_size(figure)
        shrinks = max(1, width * 100 / paper.COLUMN)
        on_page = [text.get_fontsize() * 100 / 72 / shrinks for text in (axis.title, axis.xaxis.label)]
        assert on_page == pytest.approx([style.LETTERS[1], style.LETTERS[0]])


def test_the_other_weights_that_are_shown_have_another_favorite_and_the_same_output(monkeypatch):
    said = []
    monkeypatch.setattr(two_explanations, "show", said.append)
    plots.two_explanations(constructions.same_output_other_weights)
    assert "is key 6 where it was key 1" in said[0] and "it is another one in 12" in said[0]
    plots.two_explanations(lambda weights, values: weights)
    assert "stays key" in said[1] and "another one in 0. The outputs differ by 0." in said[1]


def test_labels_stay_apart_and_as_near_to_their_lines_as_that_allows():
    assert _spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert _spread([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])
    assert _spread([0.2, 0.2, 0.2], 0.1) == pytest.approx([0.1, 0.2, 0.3])


def test_lines_that_end_alike_share_a_label():
    _, axis = plt.subplots()
    axis.set(yscale="log", ylim=(1, 1000))
    name_lines(axis, 1, [("a", 10, RED), ("b", 100, SKY), ("c", 10.0001, KEY)])
    assert [text.get_text() for text in axis.texts] == ["a · c", "b"]
