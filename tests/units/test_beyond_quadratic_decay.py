"""Decay and the delta rule: against sums written out in float64 number by number, against linear attention, and against
what the text says of them."""

import math

import pytest
import torch

from helpers import check
from helpers.beyond_quadratic.decayed_attention import (
    chunked_decayed_attention,
    decay_mask,
    recurrent_decayed_attention,
)
from helpers.beyond_quadratic.delta_rule import delta_rule
from helpers.beyond_quadratic.plots.recall_film import NAMES, WRITTEN, recalled


def draw(n=9, d=4, d_v=3, low=0.2, high=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    v = torch.randn(n, d_v, generator=generator, dtype=torch.float64)
    return q, k, v, low + (high - low) * torch.rand(n, generator=generator, dtype=torch.float64)


def decayed_by_hand(q, k, v, gamma):
    """Σ over s ≤ t of (q_t · k_s) γ_{s+1} … γ_t v_s, in Python's own numbers."""
    out = [[0.0] * v.shape[1] for _ in range(len(q))]
    for t in range(len(q)):
        for s in range(t + 1):
            score = sum(float(a) * float(b) for a, b in zip(q[t], k[s]))
            left = math.prod(float(gamma[r]) for r in range(s + 1, t + 1))
            for j in range(v.shape[1]):
                out[t][j] += score * left * float(v[s, j])
    return torch.tensor(out, dtype=torch.float64)


def delta_by_hand(q, k, v, beta):
    """S[i][j] += β k̂_i (v_j − Σ_l k̂_l S[l][j]), in Python's own numbers."""
    d, d_v = k.shape[1], v.shape[1]
    state, out = [[0.0] * d_v for _ in range(d)], []
    for t in range(len(q)):
        length = math.sqrt(sum(float(x) ** 2 for x in k[t]))
        key = [float(x) / length for x in k[t]]
        old = [sum(key[i] * state[i][j] for i in range(d)) for j in range(d_v)]
        for i in range(d):
            for j in range(d_v):
                state[i][j] += float(beta[t]) * key[i] * (float(v[t, j]) - old[j])
        out.append([sum(float(q[t, i]) * state[i][j] for i in range(d)) for j in range(d_v)])
    return torch.tensor(out, dtype=torch.float64)


@pytest.mark.parametrize(("low", "high"), [(0.2, 1.0), (1.0, 1.0), (1e-6, 1e-3), (0.999, 1.0)])
@pytest.mark.parametrize("c", [1, 2, 4, 9, 30])
def test_all_forms_of_decay_are_the_sum_written_out(low, high, c):
    q, k, v, gamma = draw(low=low, high=high)
    expected = decayed_by_hand(q, k, v, gamma)
    torch.testing.assert_close(recurrent_decayed_attention(q, k, v, gamma), expected)
    torch.testing.assert_close(chunked_decayed_attention(q, k, v, gamma, c), expected)
    torch.testing.assert_close((q @ k.mT * decay_mask(gamma)) @ v, expected)


def test_a_constant_factor_gives_the_powers_of_retention():
    place = torch.arange(6.0)
    gaps = place[:, None] - place
    expected = torch.where(gaps >= 0, 0.9 ** gaps.clamp(min=0), 0)
    torch.testing.assert_close(decay_mask(torch.full((6,), 0.9)), expected)


def test_long_chunks_of_tiny_factors_neither_overflow_nor_lose_their_gradients():
    q, k, v, _ = draw(n=300)
    gamma = torch.full((300,), 1e-5, dtype=torch.float64, requires_grad=True)
    out = chunked_decayed_attention(q, k, v, gamma, 300)
    (slope,) = torch.autograd.grad(out.square().sum(), gamma)
    assert out.isfinite().all() and slope.isfinite().all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, 1.0), (0.0, 1e-3)])
def test_the_delta_rule_is_the_sum_written_out(low, high):
    inputs = draw(low=low, high=high, n=12)
    torch.testing.assert_close(delta_rule(*inputs), delta_by_hand(*inputs))


def test_both_take_leading_axes():
    q, k, v, gate = (torch.stack(x) for x in zip(draw(seed=1), draw(seed=2), draw(seed=3)))
    for function in (recurrent_decayed_attention, lambda *x: chunked_decayed_attention(*x, 4), delta_rule):
        one_by_one = torch.stack([function(*sequence) for sequence in zip(q, k, v, gate)])
        torch.testing.assert_close(function(q, k, v, gate), one_by_one)


def test_the_hand_example_of_decay():
    """Keys and queries 1, values 8, 4, 2, factors 1, ½, ¼: the state is 8, then 8, then 4."""
    one = torch.ones(3, 1)
    out = recurrent_decayed_attention(one, one, torch.tensor([[8.0], [4], [2]]), torch.tensor([1, 0.5, 0.25]))
    assert out.flatten().tolist() == [8, 8, 4]


def test_a_key_written_twice_holds_the_second_value():
    """The hand example of the delta rule: 10 and then 40 under the key (1, 0)."""
    key, values = torch.tensor([[1.0, 0]]).expand(2, 2), torch.tensor([[10.0], [40]])
    assert delta_rule(key, key, values, torch.ones(2)).flatten().tolist() == [10, 40]
    assert recurrent_decayed_attention(key, key, values, torch.ones(2)).flatten().tolist() == [10, 50]
    assert delta_rule(key, key, values, torch.tensor([1, 0.5])).flatten().tolist() == [10, 25]


def test_writing_one_key_leaves_a_key_at_a_right_angle_alone():
    keys, values = torch.eye(2)[[0, 1, 1]], torch.tensor([[10.0], [40], [7]])
    queries = torch.eye(2)[[0, 0, 0]]
    assert delta_rule(queries, keys, values, torch.ones(3)).flatten().tolist() == [10, 10, 10]


def test_of_four_memories_only_the_delta_rule_recalls_the_newest_value_of_every_key():
    found = recalled(delta_rule, recurrent_decayed_attention, WRITTEN)
    newest = torch.tensor([float(dict(WRITTEN)[name]) for name in NAMES])
    errors = {name: (torch.tensor(values) - newest).abs().max().item() for name, values in found.items()}
    assert errors["delta rule"] < 1e-5
    assert all(error > 0.1 for name, error in errors.items() if name != "delta rule"), errors


def test_slips_of_both_kinds_have_names():
    for exercise, least in ((check.decayed_attention, 20), (check.delta_rule, 20)):
        assert len(list(exercise.wrong_answers())) >= least
