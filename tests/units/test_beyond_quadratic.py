"""The references of unit 10: against PyTorch's own operator under the same mask, each other, and the counter."""

import random

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F

from autograder.alternatives.beyond_quadratic.linear_attention import linear_attention as alternatives
from helpers import check, plots
from helpers.beyond_quadratic import decayed_attention, delta_rule, linear_attention, low_rank, sparse, variant_costs
from helpers.beyond_quadratic.checks import delta_rule as delta_rule_checks
from helpers.beyond_quadratic.plots import variant_costs as variant_costs_drawn
from helpers.engine.observe import observe

matplotlib.use("Agg")
torch.manual_seed(0)


def randn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def qkv(*batch, n=11, d=4, d_v=3, dtype=torch.float64):
    return randn(*batch, n, d, dtype=dtype), randn(*batch, n, d, dtype=dtype), randn(*batch, n, d_v, dtype=dtype)


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("w", [0, 1, 4, 20])
def test_local_attention_is_masked_attention(batch, w):
    q, k, v = qkv(*batch)
    dense = F.scaled_dot_product_attention(q, k, v, sparse.band(11, w))
    torch.testing.assert_close(sparse.local_attention(q, k, v, w), dense)


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize(("w", "g"), [(0, 2), (2, 0), (2, 3), (4, 11)])
def test_global_local_attention_is_masked_attention(batch, w, g):
    q, k, v = qkv(*batch)
    dense = F.scaled_dot_product_attention(q, k, v, sparse.band_with_globals(11, w, g))
    torch.testing.assert_close(sparse.global_local_attention(q, k, v, w, g), dense)


@pytest.mark.parametrize("n", [1, 2, 9, 30, 31])
def test_strided_pattern_gathered_is_masked_attention(n):
    q, k, v = qkv(2, n=n)
    lists = sparse.strided_keys(n)
    dense = F.scaled_dot_product_attention(q, k, v, sparse.as_mask(lists))
    torch.testing.assert_close(sparse.gathered_attention(q, k, v, *sparse.as_table(lists)), dense)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 30, 31, 100])
def test_two_strided_layers_connect_every_pair(n):
    mask = sparse.as_mask(sparse.strided_keys(n)).float()
    assert (mask @ mask > 0).all() and mask.sum(1).max() <= 3 * n**0.5 + 1


def test_low_rank_attention_is_attention_over_the_summary():
    q, k, v = qkv(2)
    e, f = randn(5, 11), randn(5, 11)
    torch.testing.assert_close(
        low_rank.low_rank_attention(q, k, v, e, f), F.scaled_dot_product_attention(q, e @ k, f @ v)
    )
    eye = torch.eye(11, dtype=torch.float64)
    torch.testing.assert_close(low_rank.low_rank_attention(q, k, v, eye, eye), F.scaled_dot_product_attention(q, k, v))


def test_pooling_takes_means():
    torch.testing.assert_close(low_rank.pooling(3, 7).sum(1), torch.ones(3))
    torch.testing.assert_close(low_rank.pooling(7, 7), torch.eye(7))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("c", [1, 4, 11, 50])
def test_the_three_forms_of_linear_attention_agree(dtype, c):
    q, k, v = qkv(2, dtype=dtype)
    weights = (linear_attention.feature_map(q) @ linear_attention.feature_map(k).mT).tril()
    parallel = weights / weights.sum(-1, keepdim=True) @ v
    within = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(linear_attention.recurrent_linear_attention(q, k, v), parallel, **within)
    torch.testing.assert_close(linear_attention.chunked_linear_attention(q, k, v, c), parallel, **within)
    torch.testing.assert_close(linear_attention.linear_attention(q, k, v)[..., -1, :], parallel[..., -1, :], **within)


@pytest.mark.parametrize("seed", range(30))
def test_formulas_equal_the_counter(seed):
    draw = random.Random(seed)
    n, d, w, g, r, c = (draw.randint(*ends) for ends in ((12, 80), (2, 12), (0, 6), (1, 5), (1, 9), (1, 12)))
    q, k, v = qkv(n=n, d=d, d_v=d)
    square = draw.randint(2, 7) ** 2
    table = sparse.as_table(sparse.strided_keys(square))
    chunks = [x[: n // c * c] for x in (q, k, v)]
    pairs = [
        (variant_costs.local_flops(n, d, w), sparse.local_attention, (q, k, v, w)),
        (variant_costs.global_local_flops(n, d, w, g), sparse.global_local_attention, (q, k, v, w, g)),
        (variant_costs.strided_flops(square, d), sparse.gathered_attention, (*qkv(n=square, d=d, d_v=d), *table)),
        (variant_costs.low_rank_flops(n, d, r), low_rank.low_rank_attention, (q, k, v, randn(r, n), randn(r, n))),
        (variant_costs.linear_flops(n, d), linear_attention.linear_attention, (q, k, v)),
        (variant_costs.linear_flops(n, d), linear_attention.recurrent_linear_attention, (q, k, v)),
        (variant_costs.chunked_flops(n // c * c, d, c), linear_attention.chunked_linear_attention, (*chunks, c)),
    ]
    for formula, function, args in pairs:
        assert observe(function, args).flops == formula, function.__name__


def linear_in_name_only(q, k, v):
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    return weights @ v / weights.sum(-1, keepdim=True)


def test_a_right_output_at_the_wrong_price_is_named_and_keeps_part_of_the_points():
    others = alternatives["ones beside the values"][1:]
    score = check.linear_attention(linear_in_name_only, *others, points=6)
    assert score.diagnosis == "the n × m matrix made first" and 4 <= score < 6
    assert "Your output is right, but it costs too much" in score.message


def scored_by_numbers(allowed):
    """Every query against every key, without a matrix product and without a large tensor."""

    def answer(q, k, v, *given):
        rows, j = [], torch.arange(k.shape[-2])
        for i in range(q.shape[-2]):
            scores = (q[..., i : i + 1, :] * k).sum(-1) / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~allowed(i, j, *given), -float("inf")).softmax(-1)
            rows.append((weights[..., None] * v).sum(-2))
        return torch.stack(rows, dim=-2)

    return answer


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("local_attention", scored_by_numbers(lambda i, j, w: (i - j).abs() <= w)),
        ("global_local", scored_by_numbers(lambda i, j, w, g: ((i - j).abs() <= w) | (j < g) | (torch.tensor(i) < g))),
    ],
)
def test_scoring_every_key_without_a_matrix_product_is_too_dear(exercise, answer):
    score = getattr(check, exercise)(answer, points=4)
    assert score.diagnosis == "every key scored, piece by piece" and 1 <= score < 4


@pytest.mark.parametrize("key", ["last_slot_missing", "start_goes_on_at_end", "ends_repeated"])
def test_a_slip_keeps_its_name_where_a_wide_window_is_cut_first(key):
    slip = next(one for one in check.local_attention.misconceptions if one.key == key)
    score = check.local_attention(lambda q, k, v, w: slip.function(q, k, v, min(w, q.shape[-2] - 1)), points=8, seed=3)
    assert score.diagnosis == slip.name


def test_windows_kept_from_an_earlier_call_are_called_so():
    kept = {}

    def by_length_alone(q, k, v, w):
        return sparse.local_attention(q, k, v, kept.setdefault(q.shape[-2], w))

    assert check.local_attention(by_length_alone, points=8, seed=3).diagnosis == "windows of another width than w"


def test_a_number_under_the_root_is_found_as_one_beside_it():
    rooted = delta_rule_checks.delta(keys=lambda k: k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6))
    assert check.delta_rule(rooted, points=8, seed=3).diagnosis == "a small number added to the length"


PICTURES = [
    lambda: plots.attention_patterns(9, 1, 1),
    lambda: plots.window_slots(5, 1),
    lambda: plots.local_growth(sparse.local_attention, [8, 16], d=2, w=1),
    lambda: plots.hops(sparse.global_local_attention, n=12, w=1),
    lambda: plots.two_layers(sparse.strided_keys, 9),
    lambda: plots.strided_growth(sparse.strided_keys, sparse.gathered_attention, [9, 16], d=2),
    lambda: plots.summary_shapes(6, 2, 3),
    lambda: plots.summary_error(low_rank.low_rank_attention, [2, 4], n=16, d=4),
    lambda: plots.brackets(6, 2),
    lambda: plots.linear_growth(linear_attention.linear_attention, [8, 16], d=2),
    lambda: plots.three_forms(
        linear_attention.recurrent_linear_attention, linear_attention.chunked_linear_attention, 8, 2, 3
    ),
    lambda: plots.state_or_cache(4, [1, 8]),
    lambda: plots.chunk_sizes(linear_attention.chunked_linear_attention, [1, 4], n=8, d=2),
    lambda: plots.blurred_weights(4, 4),
    lambda: plots.formulas_and_counts(
        {"linear": lambda: variant_costs.linear_flops(16, 2)}, n=16, d=2, w=1, g=1, r=2, c=4
    ),
    lambda: plots.cost_of_all(variant_costs_drawn.OURS, [9, 16, 25], d=2, w=1, g=1, r=2, c=4),
    lambda: plots.fading_memory(decayed_attention.chunked_decayed_attention, 12, (0, 5), 10),
    lambda: plots.overwritten_keys(delta_rule.delta_rule, decayed_attention.recurrent_decayed_attention, d=4),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_pictures_draw(draw, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    draw()
    plt.gcf().canvas.draw()
    plt.close("all")


def test_a_picture_waits_for_its_exercise(capsys):
    def unsolved(*_):
        raise NotImplementedError

    plots.local_growth(unsolved, [8, 16], d=2, w=1)
    assert "needs your answer to exercise 10.1" in capsys.readouterr().out


def test_the_race_runs_the_students_own_functions_and_says_where_it_cannot(monkeypatch, capsys):
    calls = []

    def mine(*args):
        calls.append(args[0].shape[-2])
        return sparse.local_attention(*args)

    def unsolved(*_):
        raise NotImplementedError

    def broken(*_):
        raise ValueError("no such axis")

    monkeypatch.setattr(plt, "show", lambda: None)
    variants = variant_costs_drawn.OURS | {"local": mine, "strided": (unsolved, unsolved), "delta rule": broken}
    plots.cost_of_all(variants, [9, 16, 25], d=2, w=1, g=1, r=2, c=4)
    plt.close("all")
    said = capsys.readouterr().out
    assert {9, 16, 25} <= set(calls)
    assert "strided: the course's own function runs in the place of yours, which is not written yet (10.3" in said
    assert "delta rule: the course's own function runs in the place of yours, which stops with ValueError (10.7" in said
    assert "local: the course's own" not in said
