"""The films of the units show what is computed: running sums, a schedule, masks, a cache that works, gradients."""

import json
import re

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F

from helpers.beyond_quadratic.decayed_attention import recurrent_decayed_attention
from helpers.beyond_quadratic.delta_rule import delta_rule
from helpers.beyond_quadratic.plots import recall_film, window_film
from helpers.beyond_quadratic.sparse import band_with_globals
from helpers.board import number
from helpers.complexity.costs import decode_table
from helpers.complexity.plots import roofline_film
from helpers.complexity.roofline import roofline
from helpers.encoder_decoder.plots import alignment
from helpers.film import LIMIT
from helpers.flash_attention import traffic
from helpers.flash_attention.plots import backward_film, tile_size_film, tile_walk
from helpers.kv_cache.plots import chunk_film, page_film
from helpers.masking.plots import masking_a_row
from helpers.measuring.devices import A100
from helpers.parallelization.plots import pipeline_film, scan_film, score_table
from helpers.parallelization.schedules import pipeline_steps
from helpers.qkv_attention.plots import saturation, softmax_steps, turning
from helpers.worked_example import HEADS, X

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def _frames(html: str) -> list[str]:
    """The pictures of a film, put together again."""
    read = lambda name: json.JSONDecoder().raw_decode(html.split(f"{name} = ", 1)[1])[0]
    elements = read("elements")
    return ["".join(f"<{elements[number]}" for number in numbers) for numbers in read("pictures")]


def _tile_sizes() -> str:
    return tile_size_film._film(traffic.standard_traffic, traffic.tiled_traffic, n=8192, d=64)


def _under_the_roof(dtype: torch.dtype) -> str:
    load = lambda b, n: decode_table(b=b, n=n, d=4096, h=32, d_ff=16384)["total"]
    return roofline_film._film(roofline, load, A100, b=[1, 512], n=[64, 16384], dtype=dtype)


@pytest.mark.parametrize(
    "make",
    [
        lambda: score_table._film(2, 3),
        scan_film._film,
        lambda: pipeline_film._film(3, 2),
        chunk_film._film,
        page_film._film,
        backward_film._film,
        window_film._film,
        lambda: saturation._film(torch.tensor([2.0, 1.0])),
        lambda: alignment._film(torch.eye(3), ["the", "cats", "saw"], ["la", "katoj", "vidis"]),
        lambda: tile_walk._film(tile_walk.Walk()),
        lambda: _tile_sizes(),
        lambda: _under_the_roof(torch.bfloat16),
        lambda: recall_film._film(delta_rule, recurrent_decayed_attention),
    ],
)
def test_films_are_small_crisp_and_legible_and_every_frame_has_a_sentence(make):
    html = make()
    assert len(html) < LIMIT and '""' not in html.split("captions = ")[1].split("pause")[0]
    assert "image/png" not in html and all(float(size) >= 11 for size in re.findall(r'font-size=\\"([\d.]+)', html))


def test_a_loop_takes_a_tick_for_every_score_and_a_product_one():
    html = score_table._film(3, 4)
    assert sum("12 scores in 1 tick<" in frame for frame in _frames(html)) == 12
    assert "12 scores, 12 ticks against 1." in html


def test_a_constant_changes_the_scores_and_no_share():
    scores = torch.tensor([2.0, 1.0, 0.0, -1.0])
    html = softmax_steps._film(scores)
    assert len(html) < LIMIT
    for constant in softmax_steps.CONSTANTS:
        shares = ", ".join(map(number, (scores + constant).softmax(0).tolist()))
        assert f"{constant} more for all scores: {number(2 + constant)}, " in html and f"stay {shares}." in html


def test_hidden_keys_get_nothing_however_high_their_scores():
    html = masking_a_row._film(torch.tensor([2.0, 1.0, 3.0, 0.0]), torch.tensor([True, True, False, True]))
    weights = torch.tensor([2.0, 1.0, 0.0]).softmax(0).tolist()
    listed = ", ".join(map(number, [*weights[:2], 0.0, weights[2]]))
    assert len(html) < LIMIT and html.count(f"the weights stay {listed}.") == len(masking_a_row.MORE)


def test_the_last_round_of_the_scan_holds_the_running_sums():
    assert scan_film.rounds()[-1] == torch.tensor(scan_film.NUMBERS).cumsum(0).tolist()
    assert len(scan_film.rounds((1,) * 9)) == 1 + 4


@pytest.mark.parametrize("devices, batches", [(4, 4), (3, 5), (2, 1)])
def test_no_device_does_two_jobs_at_once_and_none_begins_before_what_it_needs(devices, batches):
    jobs = pipeline_film.schedule(devices, batches)
    for device in range(devices):
        own = sorted((job.start, job.start + job.length) for job in jobs if job.device == device)
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:]))
    ends = {(job.device, job.batch, job.length): job.start + job.length for job in jobs}
    for job in jobs:
        back = job.length == pipeline_film.BACKWARD
        needed = (job.device + (1 if back else -1), job.batch, job.length)
        assert ends.get(needed, 0) <= job.start
    last = max(job.start + job.length for job in jobs)
    idle = 1 - sum(job.length for job in jobs) / (devices * last)
    assert idle == pytest.approx(pipeline_steps(devices, batches)[1])


def test_page_film_says_what_the_cache_does():
    html = page_film._film()
    assert all(f">c{place}" in html for place in range(9)) and ">c9" not in html
    assert "Free pages: 0." in html and "Its pages are 3, 4, 1: a table needs no order." in html
    cache = page_film.PagedCache(page_film.PAGES, page_film.SIZE, d=1)
    for _, happen in page_film.EVENTS:
        happen(cache)
    assert cache.table == {"b": [0, 2], "c": [3, 4, 1]}


def test_backward_flow_ends_with_the_gradients_of_autograd():
    flow = backward_film.Flow()
    q, k, v = ((X @ matrix).requires_grad_() for matrix in (HEADS[0].w_q, HEADS[0].w_k, HEADS[0].w_v))
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), backward_film.GRAD_OUT)
    torch.testing.assert_close(flow.gradients(4), wanted)
    flow.frame(len(flow.frames) - 1)
    on_board = flow.board.words
    assert all(number(value) in on_board for gradient in wanted for value in gradient.flatten().tolist())


@pytest.mark.parametrize("w, g, layers", [(1, 0, 15), (4, 0, 4), (15, 0, 1), (1, 1, 2), (2, 4, 2)])
def test_news_travels_w_tokens_a_layer_and_by_way_of_a_global_token_in_two(w, g, layers):
    assert len(window_film.heard(band_with_globals(16, w, g))) == layers


def test_tiles_of_half_the_width_cost_what_standard_attention_costs_and_larger_ones_must_fit():
    html = _tile_sizes()
    assert (
        "Tiles of 32 rows take 16 kB and fit on all three. Keys and values travel 256 times: 539 MB, as many as the "
        "standard way." in html
    )
    assert "Tiles of 456 rows take 228 kB and fit on H100." in html and "384 kB and fit on none of the three" in html


def test_more_texts_help_short_ones_past_the_ridge_and_half_the_bytes_double_the_intensity():
    assert (
        "512 texts at once, 16 bits. n = 64: 200 FLOPs per byte, 312 TFLOP/s, bound by compute. n = 16,384: 2.45 FLOPs "
        "per byte, 5 TFLOP/s, bound by memory." in _under_the_roof(torch.bfloat16)
    )
    assert "n = 64: 401 FLOPs per byte, 312 TFLOP/s, bound by compute. n = 16,384: 4.91" in _under_the_roof(torch.int8)


def test_a_dot_under_the_roof_stands_where_it_is_dragged():
    axes = roofline_film.Axes((0.1, 1000), (1e9, 1e12))
    assert axes.at(10, 1e12) == pytest.approx(((roofline_film.LEFT + roofline_film.RIGHT) / 2, roofline_film.TOP))
    assert axes.at(1000, 0)[1] > roofline_film.BOTTOM, "nothing attainable: below the picture, not an error"


def test_four_memories_agree_until_a_key_is_written_again():
    html = recall_film._film(delta_rule, recurrent_decayed_attention)
    assert "D = 4 is written. Recalled for D: 4 (plain sum), 4 (decay, γ = 0.8), 4 (softmax), 4 (delta rule)." in html
    assert "Recalled for A: 15 (plain sum), 11.4 (decay, γ = 0.8), 5 (softmax), 7 (delta rule)." in html
    assert "Newest values recalled: 2, 0, 2 and 4 of 4." in html


def test_a_query_is_turned_by_what_it_is_dragged_around():
    html = turning._film(torch.tensor([(2.0, 1.0), (0.0, 3.0)], dtype=torch.float64), 1.0, steps=4)
    assert len(html) < LIMIT and "middle = [0.24" in html and "The query points at 270°." in html
