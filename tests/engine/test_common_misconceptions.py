"""What wrong answers are made of: each step of `attention` changes one thing; masks leave rows as promised."""

import ast

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from torch import Generator

from helpers.engine.answers import common_misconceptions
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.observe import observe


def some_qkv():
    generator = Generator().manual_seed(0)
    return tuple(
        torch.randn(2, rows, width, generator=generator, dtype=torch.float64)
        for rows, width in [(5, 4), (7, 4), (7, 3)]
    )


def test_without_a_slip_it_is_attention():
    q, k, v = some_qkv()
    mask = torch.ones(5, 7, dtype=torch.bool).tril(2)
    assert torch.allclose(attention()(q, k, v), F.scaled_dot_product_attention(q, k, v))
    assert torch.allclose(attention()(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def test_scale_and_axis_are_what_they_say():
    q, k, v = some_qkv()
    assert torch.allclose(attention(**Scale.none.steps)(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=1.0))
    ones = torch.ones(2, 7, 1, dtype=torch.float64)
    assert torch.allclose(
        attention(**Softmax.over_queries.steps)(q, k, ones).sum(-2), 7 * torch.ones(2, 1, dtype=torch.float64)
    )


def test_masks_leave_no_row_empty_but_the_one_that_is_named():
    for seed in range(20):
        mask = common_misconceptions.visible_mask(3, 6, 4).make(Generator().manual_seed(seed))
        assert mask.any(-1).all() and (~mask).any(-1).all()
        mask = common_misconceptions.visible_mask(6, 4, empty_row=2).make(Generator().manual_seed(seed))
        assert mask.any(-1).tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize("fused", [F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention])
def test_pytorchs_own_attention_is_on_the_list(fused):
    assert observe(fused, some_qkv(), forbids=common_misconceptions.NO_FUSED_ATTENTION).forbidden


def test_no_check_reaches_into_the_engine():
    """What a check of a special kind does in its own way is public: `observe`, `expected`, `difference`, `items`."""
    private, paths = [], list((ROOT / "helpers").glob("*/checks/*.py"))
    assert len(paths) > 125
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("helpers.engine"):
                private += [f"{path.name}: {alias.name}" for alias in node.names if alias.name.startswith("_")]
            bases = {getattr(base, "id", "") for base in getattr(node, "bases", ())}
            if bases & {"Check", "Table", "KernelCheck", "CheckGroup"}:
                private += [
                    f"{path.name}: {node.name}.{f.name}" for f in node.body if getattr(f, "name", "").startswith("_")
                ]
    assert not private
