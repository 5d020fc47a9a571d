"""The pictures of unit 09 draw, its film is small, and the memory that it plots is what was really alive."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from helpers import plots
from helpers.flash_attention import flash
from helpers.flash_attention.plots.tile_walk import Walk, _film
from helpers.measuring.live_memory import peak_bytes
from helpers.qkv_attention.attention import scaled_dot_product_attention

matplotlib.use("Agg")


def unsolved(*_):
    raise NotImplementedError


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.online_softmax_steps([1, 3, 2, 5, 4], block=2),
        lambda: plots.merging({"a": (10, 3), "b": (30, 1)}),
        lambda: plots.causal_tiles_map((12, 12, 3, 3), (8, 14, 3, 4)),
        lambda: plots.backward_walks(),
        lambda: plots.decoding_splits(tiles=7, workers=3),
        lambda: plots.program_offsets(n=5, d=3, block=2),
        lambda: plots.kernel_tiles(n=13, m=19, block=8),
        lambda: plots.largest_tensor(flash.flash_attention_forward, [16, 32, 64], d=4, block=8),
        lambda: plots.causal_saving(flash.flash_attention_forward, n=24, d=4, sides=(1, 2, 3)),
        lambda: plots.backward_memory(flash.flash_attention, [8, 16, 32], d=4),
        lambda: plots.time_and_memory({"plain": scaled_dot_product_attention}, [16, 32, 64], d=4),
    ],
)
def test_it_draws(draw):
    draw()
    assert plt.get_fignums()
    plt.gcf().canvas.draw()


@pytest.mark.parametrize(
    ("picture", "sizes"), [(plots.causal_saving, ()), (plots.backward_memory, ([8, 16, 32],)), (plots.kernel_speed, ())]
)
def test_a_picture_waits_for_its_exercise(picture, sizes, capsys):
    picture(unsolved, *sizes)
    assert "needs your answer to exercise 9." in capsys.readouterr().out


def test_the_film_is_small_and_ends_with_the_sum():
    html = _film(Walk(n=8, d=2, block=4))
    assert len(html) < 20_000
    assert "Tile 4 of 4." in html and "Done: " in html


def test_the_walk_moves_what_its_formula_says():
    walk = Walk(n=12, d=3, block=4)
    assert sum(walk.moved(steps=9).values()) == 2 * 12 * 3 + 12 + 3 * 2 * 12 * 3


def test_peak_bytes_counts_what_is_alive_at_once():
    x = torch.randn(100, 100)
    assert peak_bytes(lambda: (x + 1) * 2) == 2 * x.nbytes  # the sum dies with the product's birth
    assert peak_bytes(lambda: [x * i for i in range(5)]) == 5 * x.nbytes
    assert peak_bytes(lambda: (x * 2)[:10].add_(1)) == x.nbytes  # views and changes in place are free
    assert peak_bytes(lambda: x.T[:5]) == 0
