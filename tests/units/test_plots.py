"""Every picture of a unit draws, and one that needs an unsolved exercise says so instead of failing."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from helpers import plots
from helpers.qkv_attention import attention, constructions, softmax

matplotlib.use("Agg")


def unsolved(*_):
    raise NotImplementedError


UNIT_02 = [
    lambda: plots.softmax_steps([2.0, 1.0, -1.0]),
    lambda: plots.query_among_keys((1, 0), [(2, 0), (0, 3)]),
    lambda: plots.attention_map(torch.eye(3), ["The", "cat", "is"]),
    lambda: plots.score_maps({"dot": lambda: torch.randn(3, 4), "scaled": lambda: torch.randn(3, 4)}),
    lambda: plots.score_spread([1, 4, 16], [torch.randn(9, 8)] * 3, {"a": [3, 2, 1], "b": [3, 3, 3]}, keys=8),
    lambda: plots.jacobians(softmax.softmax_jacobian, {"here": [0.0, 1.0], "there": [0.0, 100.0]}),
    lambda: plots.permutation_gaps(attention.permutation_gap, {"none": lambda x: x}, torch.randn(4, 2), trials=3),
    lambda: plots.two_explanations(constructions.same_output_other_weights, torch.full((6,), 1 / 6), torch.randn(6, 2)),
]


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


@pytest.mark.parametrize("draw", UNIT_02)
def test_unit_02_draws(draw):
    draw()
    assert plt.get_fignums()
    plt.gcf().canvas.draw()


def test_a_picture_waits_for_its_exercise(capsys):
    plots.jacobians(unsolved, {"here": [0.0, 1.0]})
    assert "needs your answer to exercise 2.9" in capsys.readouterr().out
