"""The formulas of unit 07 against what PyTorch really does: its FLOP counter, and the tensors in and out."""

import math
import random

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from autograder.alternatives import complexity as alternatives
from helpers import check, plots
from helpers.complexity import costs, layer_types, pattern_costs, roofline, score_memory
from helpers.measuring import devices, growth
from helpers.measuring.counting import count
from helpers.transformer_lm.transformer import Config, DecoderLM

matplotlib.use("Agg")

DRAW = random.Random(7)
SIZES = [tuple(DRAW.randint(1, 12) for _ in range(5)) for _ in range(40)]  # b, n, h, d_h, d_ff
TABLES = [pytest.param(costs.training_table, False, id="training"), pytest.param(costs.decode_table, True, id="decode")]


def torchs_count(function) -> int:
    """By PyTorch's own counter, not ours."""
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def operations(b: int, queries: int, keys: int, d: int, h: int, d_ff: int) -> dict:
    """Every row of the tables as something to run."""
    x, up, down = torch.randn(b, queries, d), torch.randn(d, d_ff), torch.randn(d_ff, d)
    w_q, w_k, w_v, w_o = torch.randn(4, d, d)
    q, (k, v) = torch.randn(b, h, queries, d // h), torch.randn(2, b, h, keys, d // h)
    scores = torch.randn(b, h, queries, keys)
    return {
        "qkv": lambda: (x @ w_q, x @ w_k, x @ w_v),
        "scores": lambda: q @ k.mT,
        "softmax": lambda: scores.softmax(-1),
        "weighted_sum": lambda: scores @ v,
        "output": lambda: x @ w_o,
        "ffn": lambda: x @ up @ down,
    }


@pytest.mark.parametrize(("b", "n", "h", "d_h", "d_ff"), SIZES)
@pytest.mark.parametrize(("table", "one"), TABLES)
def test_every_row_of_the_tables_is_what_torch_does(table, one, b, n, h, d_h, d_ff):
    rows = operations(b, 1 if one else n, n, h * d_h, h, d_ff)
    predicted = table(b, n, h * d_h, h, d_ff)
    for row, run in rows.items():
        assert predicted[row] == count(run), row
        assert predicted[row][0] == torchs_count(run), row
    assert predicted["total"] == tuple(map(sum, zip(*(predicted[row] for row in rows), strict=True)))


@pytest.mark.parametrize(("n", "m", "k", "_", "__"), SIZES)
def test_one_product(n, m, k, _, __):
    a, b = torch.randn(n, m, dtype=torch.float16), torch.randn(m, k, dtype=torch.float16)
    flops, moved = count(lambda: a @ b)
    assert (costs.matmul_flops(n, m, k), costs.matmul_io(n, m, k)) == (flops, moved)
    assert costs.arithmetic_intensity(n, m, k, torch.float16) == pytest.approx(flops / (2 * moved))


@pytest.mark.parametrize(("b", "n", "layers", "half", "vocabulary"), SIZES[:30])
def test_model_flops_are_those_of_a_training_step(b, n, layers, half, vocabulary):
    layers, h, d = layers % 3 + 1, 2, 4 * half
    model = DecoderLM(Config(vocabulary=vocabulary, d=d, h=h, h_kv=h, layers=layers))
    tokens = torch.randint(vocabulary, (b, n))
    flops = torchs_count(lambda: F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward())
    assert costs.model_flops(b, n, layers, d, 4 * d, vocabulary) == flops


@pytest.mark.parametrize(("d", "d_ff"), [(8, 32), (10, 0), (6, 14)])
def test_crossover_is_where_the_table_balances(d, d_ff):
    rows = costs.training_table(3, costs.crossover(d, d_ff), d, 2, d_ff)
    assert rows["scores"][0] + rows["weighted_sum"][0] == rows["qkv"][0] + rows["output"][0] + rows["ffn"][0]


def test_pattern_costs_are_those_of_runs():
    n, window, d = 36, 3, 8
    q, k, v = torch.randn(3, n, d)
    w_q, w_k, w_v = torch.randn(3, n // window**2, window**2, d)
    run = torchs_count(lambda: q @ k.mT @ v), torchs_count(lambda: w_q @ w_k.mT @ w_v)
    assert pattern_costs.vit_windows(side=24, patch=4, window=window, d=d) == run


@pytest.mark.parametrize(("n", "d", "h"), [(256, 512, 2), (5, 12, 3), (9, 8, 1)])
def test_channel_attention_is_what_torch_counts(n, d, h):
    x, w = torch.randn(n, d), torch.randn(d, d)
    heads = torch.randn(h, n, d // h)
    projections = 4 * torchs_count(lambda: x @ w)
    patches = torchs_count(lambda: heads @ heads.mT @ heads)
    channels = torchs_count(lambda: heads @ (heads.mT @ heads))
    assert pattern_costs.channel_attention(n, d, h) == (projections + patches, projections + channels)


def test_global_tokens_are_the_pairs_of_a_mask():
    n, w, g, d = 12, 3, 2, 5
    place = torch.arange(n)
    start = (place - w // 2).clamp(0, n - w)[:, None]
    mask = torch.ones(n + g, n + g, dtype=torch.bool)
    mask[g:, g:] = (place >= start) & (place < start + w)
    assert pattern_costs.global_tokens_cost(n, w, g, d) == 4 * d * mask.sum().item()


def test_the_longest_context_fits_and_one_more_does_not():
    for memory in (10**6, 10**9 + 7):
        n = score_memory.longest_context(memory, 2, 3, 5, torch.float16)
        fits, does_not = (score_memory.score_memory(2, size, 3, 5, torch.float16) for size in (n, n + 1))
        assert fits <= memory < does_not
    tensor = torch.empty(5, 2, 3, 7, 7, dtype=torch.float16)
    assert score_memory.score_memory(2, 7, 3, 5, torch.float16) == tensor.numel() * tensor.element_size()


def test_the_roof_meets_at_the_ridge():
    for device in devices.DATASHEETS:
        flops, ceilings = device.ridge * device.dtype.itemsize, (device.dtype, device.peak, device.bandwidth)
        assert roofline.roofline(flops, 1.0, *ceilings)[0] == pytest.approx(device.peak)
        assert roofline.roofline(flops / 2, 1.0, *ceilings) == (pytest.approx(device.peak / 2), "memory")


LARGE = {"n": 2.0**100, "d": 2.0**30, "k": 2.0**8}


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (lambda n, d, k: 4 * n**2 * d + 7 * n * d**2, "n² d"),
        (lambda n, d, k: n**1.5 * d + n, "n√n d"),
        (lambda n, d, k: 3 * n * torch.tensor(n, dtype=torch.float64).log2().item() * d, "n log n d"),
        (lambda n, d, k: 5, "1"),
        (lambda n, d, k: n / k + 1, "n / k"),
        (lambda n, d, k: d**0.5, "√d"),
        (lambda n, d, k: n * d * (math.log2(n) + 256), "n log n d"),
        (lambda n, d, k: math.log(n) / math.log(k) + 20, "log n / log k"),
        (lambda n, d, k: math.ceil(math.log(n) / math.log(k)), "log n / log k"),
        (lambda n, d, k: n * (k + 64), "n k"),
        (lambda n, d, k: math.log(n) ** 2 + 9 * math.log(n), "log n²"),
        (lambda n, d, k: n * math.log(n) + n * d, "n d"),
        (lambda n, d, k: math.log(n / k), growth.NO_PRODUCT),
        (lambda n, d, k: math.log(n * k), growth.NO_PRODUCT),
        (lambda n, d, k: math.log(n) * math.log(k), "log n log k"),
        (lambda n, d, k: n ** (1 / 3), growth.NO_PRODUCT),
        (lambda n, d, k: math.log(n * (k - 1) + 1, k), "log n / log k"),
        (lambda n, d, k: n**1.25, growth.NO_PRODUCT),
        (lambda n, d, k: math.log(math.log(n)), growth.NO_PRODUCT),
        (lambda n, d, k: k + 200, "k"),
        (lambda n, d, k: n**9 * n**9, growth.INFINITE),
        (lambda n, d, k: n - 2 * n, growth.NO_NUMBER),
    ],
)
def test_growth_sees_exponents_roots_and_logarithms(cost, words):
    assert growth.grows_like(cost, LARGE) == words


def test_growth_tells_a_sum_from_a_product():
    wide = {"n": 2.0**40, "d": 2.0**120, "k": 2.0**8}
    assert growth.in_words(growth.growth(lambda n, d, k: n**2 * d + n * d**2, wide)) == "n d²"
    assert growth.in_words(growth.growth(lambda n, d, k: n**2 * d**2, wide)) == "n² d²"


def test_growth_refuses_what_is_no_cost():
    with pytest.raises(ValueError, match="positive"):
        growth.growth(lambda n, d, k: -n, LARGE)


def test_slope_is_that_of_a_power():
    assert growth.slope([1, 2, 4, 8], [3 * n**1.7 for n in (1, 2, 4, 8)]) == pytest.approx(1.7)


def test_counted_growth_of_linear_and_dense_attention():
    """Two rows of the table of layer types, run and counted."""
    lengths, d = [64, 128, 256], 16
    dense = [torchs_count(lambda: x @ x.mT @ x) for x in (torch.randn(n, d) for n in lengths)]  # noqa: B023
    linear = [torchs_count(lambda: x @ (x.mT @ x)) for x in (torch.randn(n, d) for n in lengths)]  # noqa: B023
    assert growth.slope(lengths, dense) == pytest.approx(2) and growth.slope(lengths, linear) == pytest.approx(1)
    assert linear[0] == 4 * layer_types.layer_types(64, d, 3, 4)["linear"][0]


def two_slips(b, n, d, h, d_ff):
    """No heads in the softmax, and an FFN that nobody can explain."""
    return costs.training_table(b, n, d, h, d_ff) | {"softmax": (0, 2 * b * n**2), "ffn": (7, 7)}


def test_the_card_of_a_table_says_which_row_is_off():
    score = check.training_table(two_slips, points=4)
    assert [item.label for item in score.items if not item.passed] == ["softmax", "ffn"]
    assert float(score) == 2.75 and score.diagnosis == "score matrices without the heads"


def test_a_row_that_is_missing_is_said():
    score = check.decode_table(lambda *sizes: {"qkv": costs.decode_table(*sizes)["qkv"]}, points=3)
    assert "'scores' is missing" in score.message


@pytest.mark.parametrize("junk", [None, "n²", {}, {"lsh": 3}, {"lsh": (0, "n", None)}, {"linear": (1, 1)}])
def test_junk_for_a_table_is_no_crash(junk):
    for table in (check.layer_types, check.training_table):
        assert float(table(lambda *_: junk, points=4)) == 0


def test_the_card_does_not_tell_the_growth_that_is_asked_for():
    def wrong(n, d, k, r):
        return alternatives.layer_types_as_lists(n, d, k, r) | {"lsh": (n * d**3, n**3, n**3)}

    message = check.layer_types(wrong, points=4).message
    assert "n d³" in message and "log" not in message


MACHINE = devices.Device("here", torch.float32, 1e10, 1e9, 1e9)
PICTURES = [
    lambda: plots.product_traffic((4, 4, 4), (1, 4, 4)),
    lambda: plots.intensities(costs.arithmetic_intensity, width=64),
    lambda: plots.cost_shares({"read": lambda: costs.training_table(1, 9, 8, 2, 32)}),
    lambda: plots.predicted_and_counted(
        lambda: costs.training_table(1, 9, 8, 2, 32), {"qkv": (3456, 600), "softmax": (0, 324)}
    ),
    lambda: plots.crossing(costs.training_table, costs.crossover, {"a": (64, 256), "b": (128, 512)}),
    lambda: plots.layer_costs(layer_types.layer_types, d=64, k=3, r=32),
    lambda: plots.measured_growth([1, 2], {"a": [1, 2]}, {"a": 1.0}),
    lambda: plots.rooflines(roofline.roofline, [devices.T4, MACHINE], {"load": lambda: (100, 10)}),
    lambda: plots.measured_products(roofline.roofline, costs.arithmetic_intensity, MACHINE, width=8),
    lambda: plots.context_limits(score_memory.score_memory, score_memory.longest_context, [MACHINE], {"a": (2, 3)}),
    lambda: plots.patch_windows(patches=4, window=2, query=(1, 3)),
    lambda: plots.global_pattern(n=8, w=3, g=1),
    lambda: plots.sparse_costs(pattern_costs.vit_windows, pattern_costs.global_tokens_cost, patch=2, window=2, d=4),
    lambda: plots.patches_or_channels(pattern_costs.channel_attention, [(4, 8), (9, 8)], [1, 2]),
    lambda: plots.model_counts(costs.model_flops, {(1, 4, 1, 8, 32, 5): 30_000}, [800]),
    lambda: plots.attention_share(costs.model_flops, {"a": (1, 8, 32, 5)}),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_pictures_draw(draw, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    draw()
    assert plt.get_fignums()
    plt.gcf().canvas.draw()
    plt.close("all")
