"""The sentence that goes through the course: what its films show is what torch computes, and they are small."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F

from helpers.board import number
from helpers.encoder_decoder.plots import worked_example as unit_06
from helpers.film import LIMIT
from helpers.flash_attention.plots import worked_example as unit_09
from helpers.kv_cache.plots import worked_example as unit_08
from helpers.masking.plots import worked_example as unit_03
from helpers.multi_head.plots import worked_example as unit_04
from helpers.qkv_attention.plots import worked_example as unit_02
from helpers.worked_example import CROSS, HEADS, READ, TRANSLATION, W_O, WORDS, X, Y

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


Q, K, V = (X @ matrix for matrix in (HEADS[0].w_q, HEADS[0].w_k, HEADS[0].w_v))
CAUSAL = (Q @ K.T / 2**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)


def drawn(board) -> list[str]:
    """All words and numbers on a board."""
    return board.words


def shown(board, *tensors) -> bool:
    """Whether the numbers of all tensors stand on a board, each as often as they have it."""
    on_board = drawn(board)
    wanted = [number(value) for tensor in tensors for value in tensor.flatten().tolist()]
    return all(on_board.count(value) >= wanted.count(value) for value in wanted)


def test_attention_flow_ends_with_what_torch_computes():
    flow = unit_02.Flow()
    flow.frame(len(flow.steps) - 1)
    weights = (Q @ K.T / 2**0.5).softmax(-1)
    assert shown(flow.board, X, Q, K, V, Q @ K.T, weights, F.scaled_dot_product_attention(Q, K, V))


def test_attention_flow_fills_its_tables_one_after_the_other():
    flow = unit_02.Flow()
    counts = []
    for step in range(len(flow.steps)):
        flow.frame(step)
        counts.append(len(drawn(flow.board)))
    assert counts == sorted(counts) and len(set(counts)) > 8


def test_causal_flow_ends_with_what_torch_computes():
    flow = unit_03.Flow()
    flow.frame(len(flow.steps) - 1)
    assert shown(flow.board, CAUSAL, CAUSAL.softmax(-1), F.scaled_dot_product_attention(Q, K, V, is_causal=True))


def test_two_heads_flow_ends_with_what_torch_computes():
    flow = unit_04.Flow()
    flow.frame(len(flow.steps) - 1)
    q, k, v = (torch.stack([X @ getattr(head, name) for head in HEADS]) for name in ("w_q", "w_k", "w_v"))
    heads = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(4, 4)
    assert shown(flow.board, q, k, v, heads, heads @ W_O)


def test_cross_flow_writes_the_translation_word_by_word():
    flow = unit_06.Flow()
    for step, word in enumerate(TRANSLATION, start=1):
        assert f"“{word}” is written" in flow.frame(step) and f"→ “{word}”" in drawn(flow.board)
    flow.frame(len(READ) + 1)
    q, k, v = Y @ CROSS.w_q, X @ CROSS.w_k, X @ CROSS.w_v
    assert shown(flow.board, q, k, v, F.scaled_dot_product_attention(q, k, v))


def test_cache_flow_stores_first_and_ends_with_the_causal_weights():
    flow = unit_08.Flow()
    for step in range(2 * len(WORDS)):
        flow.frame(step)
        assert f"length = {step // 2 + 1}" in drawn(flow.board)
    flow.frame(2 * len(WORDS))
    seen = CAUSAL.softmax(-1)[torch.ones(4, 4).tril().bool()]
    assert shown(flow.board, seen, K, V, F.scaled_dot_product_attention(Q, K, V, is_causal=True))


def test_tiles_flow_ends_with_what_torch_computes_and_never_shows_more_than_a_tile():
    flow = unit_09.Flow()
    for step, state in enumerate(flow.states):
        flow.frame(step)
        rows = torch.arange(4) < state.tile[0] + 2
        assert shown(flow.board, state.m[rows], state.total[rows], state.out[rows])
    flow.frame(len(flow.states))
    scores = Q @ K.T / 2**0.5
    torch.testing.assert_close(flow.states[-1].m + flow.states[-1].total.log(), scores.logsumexp(-1))
    assert shown(flow.board, F.scaled_dot_product_attention(Q, K, V), scores.amax(-1))


@pytest.mark.parametrize("unit", [unit_02, unit_03, unit_04, unit_06, unit_08, unit_09])
def test_films_are_small_and_every_frame_has_a_sentence(unit):
    html = unit._film()
    assert len(html) < LIMIT and '""' not in html.split("captions = ")[1].split("pause")[0]
