"""Unit 01: the references against PyTorch's own operators and against brute force, and what is counted, not timed."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import check
from helpers.parallelization import parallel, recurrence, schedules, throughput
from helpers.parallelization.plots.schedules import MODELS, _earliest, _film


def test_rnn_encoder_is_nn_rnn():
    rnn = nn.RNN(3, 5, batch_first=True).double()
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    weights = rnn.weight_ih_l0.T, rnn.weight_hh_l0.T, rnn.bias_ih_l0 + rnn.bias_hh_l0
    torch.testing.assert_close(recurrence.rnn_encoder(x, *weights), rnn(x)[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(recurrence.pytorch_rnn(x, *weights), rnn(x)[0], rtol=0, atol=1e-12)


def test_attention_in_three_ways_is_sdpa():
    q, k, v = (torch.randn(*shape, dtype=torch.float64) for shape in ((11, 4), (7, 4), (7, 3)))
    expected = F.scaled_dot_product_attention(q, k, v)
    tokens = torch.stack([parallel.attention_one_token(q, k, v, i) for i in range(11)])
    chunks = parallel.chunked_attention(
        lambda start, stop: parallel.attention_chunk(q, k, v, start, stop), 11, 4, [1, 2, 0]
    )
    for output in (parallel.attention_all_tokens(q, k, v), tokens, chunks):
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 100])
def test_the_scan_is_the_recurrence_at_least_depth(n):
    a, b = torch.rand(n, dtype=torch.float64), torch.randn(n, dtype=torch.float64)
    states, state = [], torch.zeros((), dtype=torch.float64)
    for factor, term in zip(a, b, strict=True):
        state = factor * state + term
        states.append(state)
    scanned = recurrence.associative_scan(recurrence.combine, torch.stack([a, b], dim=1))[:, 1]
    torch.testing.assert_close(scanned, torch.stack(states), rtol=0, atol=1e-12)
    depth = recurrence.associative_scan(lambda x, y: torch.maximum(x, y) + 1, torch.zeros(n, 1)).max()
    assert depth == math.ceil(math.log2(n))


@pytest.mark.parametrize(("n", "layers"), [(1, 1), (5, 3), (3, 6), (9, 1)])
def test_formulas_and_schedules_are_the_longest_paths(n, layers):
    tables = {
        "stacked RNN": (schedules.rnn_schedule, schedules.stacked_rnn_steps),
        "Transformer that reads": (schedules.transformer_schedule, schedules.encoder_steps),
        "Transformer that writes": (schedules.writing_schedule, schedules.decoder_steps),
    }
    for name, (schedule, steps) in tables.items():
        found = _earliest(MODELS[name][0], n, layers)
        table = schedule(layers, n)
        assert {cell: int(table[cell]) for cell in found} == found
        assert steps(n, layers) == max(found.values())
    assert schedules.rnn_steps(n) == schedules.stacked_rnn_steps(n, 1)


@pytest.mark.parametrize(("layers", "batches"), [(1, 1), (4, 4), (3, 9)])
def test_the_pipeline_is_the_wavefront(layers, batches):
    steps, idle = schedules.pipeline_steps(layers, batches)
    assert steps == schedules.rnn_schedule(layers, batches).max()
    assert idle == pytest.approx(1 - layers * batches / (steps * layers))


def test_flops_are_the_counters():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.randn(3, 5) @ torch.randn(5, 7)
    assert throughput.matmul_gflops(3, 5, 7, 1e-9) == pytest.approx(counter.get_total_flops())


def numbers_in_python(q, k, v):
    outputs = []
    for query in q.tolist():
        scores = [sum(x * y for x, y in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in k.tolist()]
        powers = [math.exp(score - max(scores)) for score in scores]
        columns = zip(*v.tolist(), strict=True)
        outputs.append([sum(p * x for p, x in zip(powers, column, strict=True)) / sum(powers) for column in columns])
    return torch.tensor(outputs, dtype=q.dtype)


def test_a_loop_that_leaves_pytorch_is_found_too():
    score = check.attention_one_token(parallel.attention_one_token, numbers_in_python, points=3)
    assert not score.full
    assert score.diagnosis == "a hidden loop over the tokens"


def test_the_depth_of_a_scan_can_not_be_overwritten():
    def flat(operator, elements):
        rows = recurrence.associative_scan(operator, elements)
        return torch.cat([rows[:, :-1], torch.zeros_like(rows[:, -1:])], dim=1)

    assert not check.associative_scan(recurrence.combine, flat, points=3).full


def test_the_film_is_small_and_counts_the_cells_of_a_step():
    grids = [(name, needs, own or 3) for name, (needs, own) in MODELS.items()]
    html = _film(grids, [_earliest(needs, 5, height) for _, needs, height in grids], 5, 3)
    assert len(html) < 20_000
    assert "Step 2. Cells that run together: RNN: 1; stacked RNN: 2" in html
