"""The sentence that goes through the course: what its films show is what torch computes, and they are small."""

import matplotlib
import pytest
import torch.nn.functional as F

from helpers.board import number
from helpers.film import LIMIT
from helpers.qkv_attention.plots import worked_example as unit_02
from helpers.worked_example import HEADS, X

matplotlib.use("Agg")
Q, K, V = (X @ matrix for matrix in (HEADS[0].w_q, HEADS[0].w_k, HEADS[0].w_v))


def drawn(board) -> list[str]:
    """All words and numbers on a board."""
    return [text.get_text() for text in board.axis.texts]


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
    assert counts == sorted(counts) and counts[-1] - counts[0] == sum(one.numel() for one in (Q, K, V, Q)) + 3 * 16


@pytest.mark.parametrize("make", [unit_02._film])
def test_films_are_small(make):
    assert len(make()) < LIMIT
