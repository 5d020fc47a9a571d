"""Latent attention: absorbed matrices against the paper's equations, multi-head attention beside, what the check
counts."""

import math

import pytest
import torch
import torch.nn.functional as F

from helpers import check
from helpers.engine.observe import observe
from helpers.kv_cache.checks.latent_attention import latent_step
from helpers.kv_cache.generation import Meter
from helpers.kv_cache.latent_attention import latent_attention, with_keys_and_values
from helpers.kv_cache.published import DEEPSEEK_V2


def drawn(m=7, b=2, d=6, h=3, d_h=4, d_c=5):
    case = latent_step("", m, b=b, d=d, h=h, d_h=d_h, d_c=d_c, dtype=torch.float64)
    return case.draw(latent_attention, torch.Generator().manual_seed(m))


@pytest.mark.parametrize("m", [0, 1, 12])
def test_absorbed_matrices_change_nothing(m):
    """Equations 7 to 11 of the paper, in float64, with all keys and values made."""
    for got, expected in zip(latent_attention(*drawn(m)), with_keys_and_values(*drawn(m))):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def test_step_after_step_is_causal_attention_over_keys_and_values_of_the_latents():
    """PyTorch's own attention on keys and values that are made of all latents, at every position."""
    b, n, d = 2, 6, 7
    _, latents, w_dkv, w_q, w_uk, w_uv, w_o = drawn(0, b=b, d=d)
    x = torch.randn(b, n, d, dtype=torch.float64)
    rows = []
    for token in x.unbind(dim=1):
        out, latents = latent_attention(token, latents, w_dkv, w_q, w_uk, w_uv, w_o)
        rows.append(out)
    q, k, v = x[:, None] @ w_q, (x @ w_dkv)[:, None] @ w_uk, (x @ w_dkv)[:, None] @ w_uv  # (b, h, n, d_h)
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(torch.stack(rows, dim=1), (heads @ w_o).sum(dim=1))
    torch.testing.assert_close(latents, x @ w_dkv)


def test_multi_head_attention_is_the_latent_of_full_width():
    """With the token itself as its latent, d_c = d, W_UK and W_UV are the usual projections of keys and values."""
    x, latents, _, w_q, w_uk, w_uv, w_o = drawn(4, d=6, d_c=6)
    out, stored = latent_attention(x, latents, torch.eye(6, dtype=torch.float64), w_q, w_uk, w_uv, w_o)
    q, k, v = (x @ w_q).transpose(0, 1), stored[:, None] @ w_uk, stored[:, None] @ w_uv
    weights = torch.softmax(torch.einsum("bhe,bhme->bhm", q, k) / math.sqrt(q.shape[-1]), dim=-1)
    torch.testing.assert_close(out, torch.einsum("bhm,bhme,hed->bd", weights, v, w_o))


def test_nothing_is_as_large_as_the_keys():
    m, b, h, d_h = 199, 2, 3, 4
    seen = observe(latent_attention, drawn(m, b=b, h=h, d_h=d_h))
    assert seen.largest < b * (m + 1) * h * d_h
    assert observe(with_keys_and_values, drawn(m, b=b, h=h, d_h=d_h)).largest == b * (m + 1) * h * d_h


def test_what_deepseek_v2_stores_is_what_the_text_says():
    """Table 1 of the paper, at its sizes (section 3.1.2)."""
    model = DEEPSEEK_V2
    stored, pair = model.d_c + model.d_rotary, 2 * model.d_h
    assert (model.h * pair, 8 * pair, stored, stored / pair) == (32_768, 2_048, 576, 2.25)
    assert round(model.h * pair / stored) == 57


def test_a_thirtieth_of_the_flops_as_the_text_says():
    d, h, d_h, d_c, n = 256, 8, 32, 64, 4096
    shapes = ((1, d), (1, n - 1, d_c), (d, d_c), (h, d, d_h), (h, d_c, d_h), (h, d_c, d_h), (h, d_h, d))
    inputs, costs = [torch.randn(shape) for shape in shapes], []
    for step in (latent_attention, with_keys_and_values):
        with Meter() as meter:
            step(*inputs)
        costs.append((meter.flops.total(), meter.largest))
    (flops, largest), (all_flops, keys) = costs
    assert 29 < all_flops / flops < 32 and keys == 4 * largest


def values_absorbed_keys_made(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents = torch.cat([latents, (x @ w_dkv)[:, None]], dim=1)
    q, keys = torch.einsum("bd,hde->bhe", x, w_q), torch.einsum("bmc,hce->bhme", latents, w_uk)
    weights = (keys @ q[..., None] / math.sqrt(w_q.shape[-1]))[..., 0].softmax(dim=-1)
    return torch.einsum("bhc,hce,hed->bd", weights @ latents, w_uv, w_o), latents


def products_written_out(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents = torch.cat([latents, (x @ w_dkv)[:, None]], dim=1)
    q = torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk)
    scores = (q[:, :, None] * latents[:, None]).sum(dim=-1) / math.sqrt(w_q.shape[-1])
    return torch.einsum("bhc,hce,hed->bd", scores.softmax(dim=-1) @ latents, w_uv, w_o), latents


@pytest.mark.parametrize(
    "answer, name",
    [
        (values_absorbed_keys_made, "one of the two absorbed, the other used on all tokens"),
        (products_written_out, "a tensor with all latents for every head"),
    ],
)
def test_a_dear_way_to_right_values_is_named(answer, name):
    score = check.latent_attention(answer, points=4)
    assert score.diagnosis == name and float(score) == 2
