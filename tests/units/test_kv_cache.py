"""The references of unit 08 against PyTorch's own operators and against full recomputation, in float64."""

import math
import random

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from helpers.kv_cache import decoding, decoding_cost, generation, published, quantized_cache, ragged
from helpers.kv_cache.cache import GrowingCache, KVCache
from helpers.kv_cache.paged_cache import PagedCache
from helpers.kv_cache.sliding_cache import SlidingCache
from helpers.transformer_lm import positions
from helpers.transformer_lm.transformer import Attention, Config, DecoderLM, LayerNorm, _positions_and_mask

torch.manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def model(**sizes) -> DecoderLM:
    return DecoderLM(Config(**sizes)).double().requires_grad_(False)


def test_rotary_embedding_is_a_product_of_complex_numbers():
    x, t = randn(2, 3, 7, 8), torch.randint(5000, (2, 1, 7))
    angles = t[..., None] * 10_000 ** (-torch.arange(4, dtype=torch.float64) / 4)
    turned = torch.view_as_complex(x.unflatten(-1, (4, 2))) * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(positions.rotary_embedding(x, t), torch.view_as_real(turned).flatten(-2))


def test_rotary_scores_depend_on_the_distance_only():
    q, k, t, s = randn(1, 6), randn(1, 6), torch.tensor([9]), torch.tensor([4])
    score = positions.rotary_embedding(q, t) @ positions.rotary_embedding(k, s).mT
    torch.testing.assert_close(
        positions.rotary_embedding(q, t + 100) @ positions.rotary_embedding(k, s + 100).mT, score
    )
    assert not torch.allclose(positions.rotary_embedding(q, t + 1) @ positions.rotary_embedding(k, s).mT, score)


def test_a_sinusoidal_position_is_a_turned_vector():
    table = positions.sinusoidal_positions(20, 6).double()
    start = (
        torch.tensor([0.0, 1.0]).repeat(3).expand(20, 6).double()
    )  # (sin 0, cos 0, …): turning it by −t gives sin t, cos t
    torch.testing.assert_close(positions.rotary_embedding(start, -torch.arange(20)), table, atol=1e-6, rtol=0)


def test_layer_norm():
    norm, x = LayerNorm(6).double(), 3 + 2 * randn(2, 5, 6)
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    by_hand = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(norm(x), norm.weight * by_hand + norm.bias)


@pytest.mark.parametrize("h_kv", [1, 2, 6])
def test_attention_is_pytorchs_with_grouped_heads(h_kv):
    layer, x = Attention(24, 6, h_kv).double(), randn(2, 5, 24)
    t, causal = torch.arange(5)[None], torch.full((1, 5, 5), -torch.inf, dtype=torch.float64).triu(1)
    q, k, v = (layer.heads(w(x)) for w in (layer.w_q, layer.w_k, layer.w_v))
    q, k = positions.rotary_embedding(q, t), positions.rotary_embedding(k, t)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(layer(x, t, causal), layer.w_o(mixed.transpose(1, 2).flatten(2)))


def test_a_model_is_pytorchs_layers_put_together():
    lm, tokens = model(h_kv=4, layers=1), torch.randint(50, (2, 6))
    block, x = lm.blocks[0], lm.embedding(tokens) * math.sqrt(32)
    a = block.attention(F.layer_norm(x, (32,)), torch.arange(6)[None], torch.full((1, 6, 6), -torch.inf).triu(1))
    x = x + a
    x = x + F.gelu(F.layer_norm(x, (32,)) @ block.mlp.up.weight.T) @ block.mlp.down.weight.T
    torch.testing.assert_close(lm(tokens), F.linear(F.layer_norm(x, (32,)), lm.embedding.weight))


@pytest.mark.parametrize("sizes", [{}, {"vocabulary": 11, "d": 24, "h": 6, "h_kv": 1, "layers": 3}])
def test_parameter_formula(sizes):
    assert sum(p.numel() for p in model(**sizes).parameters()) == Config(**sizes).parameters


def test_a_model_does_not_see_the_future():
    lm, tokens = model(), torch.randint(50, (1, 9))
    changed = tokens.clone()
    changed[0, 5] = (tokens[0, 5] + 1) % 50
    torch.testing.assert_close(lm(tokens)[:, :5], lm(changed)[:, :5])
    assert not torch.allclose(lm(tokens)[:, 5:], lm(changed)[:, 5:])


def test_padding_on_the_left_changes_nothing():
    lm, tokens = model(), torch.randint(50, (1, 5))
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), tokens], dim=1)
    real = torch.tensor([[False] * 3 + [True] * 5])
    torch.testing.assert_close(lm(padded, real=real)[:, 3:], lm(tokens))


# ------------------------------------------------------------------------------------------- with a cache as without


CHUNKS = [[1] * 9, [9], [5, 1, 1, 1, 1], [2, 3, 1, 3]]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("kind", ["growing", "room made beforehand"])
def test_a_model_with_a_cache_is_the_model_without(chunks, kind):
    lm, tokens = model(h_kv=2), torch.randint(50, (3, 9))
    caches = [GrowingCache() if kind == "growing" else KVCache(3, 2, 9, 8, torch.float64) for _ in range(2)]
    logits = torch.cat([lm(chunk, cache=caches) for chunk in tokens.split(chunks, dim=1)], dim=1)
    torch.testing.assert_close(logits, lm(tokens))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_a_padded_batch_with_a_cache_is_each_prompt_alone(chunks):
    lm, lengths = model(), (9, 4, 6)
    prompts = [torch.randint(50, (n,)) for n in lengths]
    tokens, real = ragged.pad_left(prompts)
    caches, start, found = [GrowingCache() for _ in range(2)], 0, []
    for chunk in tokens.split(chunks, dim=1):
        found.append(lm(chunk, cache=caches, real=real[:, : start + chunk.shape[1]]))
        start += chunk.shape[1]
    for row, prompt in zip(torch.cat(found, dim=1), prompts):
        torch.testing.assert_close(row[-len(prompt) :], lm(prompt[None])[0])


def test_positions_and_mask_are_those_of_the_model():
    real = torch.arange(7) >= torch.tensor([[0], [4], [2]])
    for n in (1, 3, 7):
        ours, models = ragged.positions_and_mask(real, n), _positions_and_mask(n, 7 - n, real, real.device)
        assert torch.equal(ours[0], models[0]) and torch.equal(ours[1], models[1])


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_decode_step_is_full_recomputation(chunks):
    x, weights = randn(2, 9, 12), [randn(12, 12) / 3 for _ in range(4)]
    heads = [(x @ w).view(2, 9, 3, 4).transpose(1, 2) for w in weights[:3]]
    q, k = (positions.rotary_embedding(t, torch.arange(9)) for t in heads[:2])
    whole = F.scaled_dot_product_attention(q, k, heads[2], is_causal=True).transpose(1, 2).flatten(2) @ weights[3]
    keys = values = randn(2, 3, 0, 4)
    found = []
    for chunk in x.split(chunks, dim=1):
        out, keys, values = decoding.decode_step(chunk, keys, values, *weights)
        found.append(out)
    torch.testing.assert_close(torch.cat(found, dim=1), whole)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("h_kv", [1, 2, 6])
def test_grouped_step_is_pytorchs(chunks, h_kv):
    q, k, v = randn(2, 6, 9, 4), randn(2, h_kv, 9, 4), randn(2, h_kv, 9, 4)
    keys = values = k[:, :, :0]
    found = []
    for parts in zip(*(t.split(chunks, dim=2) for t in (q, k, v))):
        out, keys, values = decoding.grouped_decode_step(*parts, keys, values)
        found.append(out)
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(torch.cat(found, dim=2), whole)
    assert keys.shape == k.shape


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("window", [1, 3, 4, 20])
def test_sliding_cache_is_windowed_attention(chunks, window):
    q, k, v = randn(3, 2, 3, 9, 4)
    age = torch.arange(9)[:, None] - torch.arange(9)
    whole = F.scaled_dot_product_attention(q, k, v, attn_mask=(age >= 0) & (age < window))
    cache = SlidingCache(2, 3, window, 4, torch.float64)
    found = [cache.attend(*parts) for parts in zip(*(t.split(chunks, dim=2) for t in (q, k, v)))]
    torch.testing.assert_close(torch.cat(found, dim=2), whole)


def test_generation_with_a_cache_writes_what_the_model_would():
    lm, prompt = model(), torch.randint(50, (2, 5))

    def step(tokens, start, cache):
        cache = cache or [GrowingCache() for _ in lm.blocks]
        assert cache[0].length == start
        return lm(tokens, cache=cache), cache

    whole = prompt
    for _ in range(8):
        whole = torch.cat([whole, lm(whole)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(decoding.generate_cached(step, prompt, 8), whole[:, 5:])


def test_causal_outputs_stay_and_bidirectional_ones_change():
    x, new = randn(6, 4), randn(1, 4)
    causal, both = (
        lambda x, c=c: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=c)[0] for c in (True, False)
    )
    assert decoding.change_of_old_outputs(causal, x, new) < 1e-12 < 1e-2 < decoding.change_of_old_outputs(both, x, new)


# ------------------------------------------------------------------------------------------------- formulas and counts


@pytest.mark.parametrize("seed", range(30))
def test_decode_cost_is_what_torch_counts(seed):
    generator = torch.Generator().manual_seed(seed)
    n, h, half = (int(torch.randint(1, 9, (), generator=generator)) for _ in range(3))
    d = 2 * half * h
    counted = [_counted(t, d, h, cached) for t in range(1, n + 1) for cached in (True, False)]
    with_cache, without = counted[::2], counted[1::2]
    assert decoding_cost.decode_cost(n, d) == (with_cache[-1], without[-1], sum(with_cache), sum(without))


def _counted(n: int, d: int, h: int, cached: bool) -> int:
    x, weights, m = torch.randn(1, n, d), [torch.randn(d, d) for _ in range(4)], n - 1 if cached else 0
    old = torch.zeros(1, h, m, d // h)
    with FlopCounterMode(display=False) as counter:
        decoding.decode_step(x[:, m:], old, old, *weights)
    return counter.get_total_flops()


def test_cache_bytes_are_those_of_the_tensors():
    caches = [KVCache(3, 2, 11, 48 // 6, torch.float16) for _ in range(5)]
    held = sum(cache.keys.nbytes + cache.values.nbytes for cache in caches)
    assert decoding_cost.cache_bytes(layers=5, h=6, h_kv=2, d=48, n=11, b=3, size=2) == held
    llama = published.MODELS["Llama 2 7B"]
    assert decoding_cost.cache_bytes(llama.layers, llama.h, llama.h_kv, llama.d, 1, 1, 2) == 524_288


def test_counted_growth_of_a_token():
    lm, lengths = generation.small_model(), (32, 64, 128)
    cached = generation.cost_with_cache(lm, KVCache, lengths, tries=1)
    plain = generation.cost_without_cache(lm, lengths, tries=1)
    exponents = [
        generation.growth(lengths, [getattr(cost, what) for cost in found])
        for found in (cached, plain)
        for what in ("weights_flops", "attention_flops")
    ]
    assert exponents == pytest.approx([0, 1, 1, 2], abs=1e-9)


# ------------------------------------------------------------------------------------------------------ bytes and pages


def test_quantized_keys_and_values_are_off_by_half_a_step():
    x = randn(2, 3, 7, 5) * 10 ** randn(5)
    x[:, 1, :, 2] = 0
    for quantize in (quantized_cache.quantize_keys, quantized_cache.quantize_values):
        codes, scale = quantize(x)
        assert codes.dtype == torch.int8 and ((codes * scale - x).abs() <= scale / 2 * (1 + 1e-9)).all()


def test_quantized_bytes_are_those_of_the_tensors():
    parts = (
        *quantized_cache.quantize_keys(torch.randn(2, 3, 7, 5)),
        *quantized_cache.quantize_values(torch.randn(2, 3, 7, 5)),
    )
    assert quantized_cache.quantized_bytes(2, 3, 7, 5, size=4) == sum(part.nbytes for part in parts)


def test_paged_cache_against_a_list_for_each_sequence():
    chance, cache, lists = random.Random(0), PagedCache(40, 3, 2, torch.float64), {}
    for step in range(400):
        name = chance.choice("abcd")
        match chance.choice(["append", "append", "fork", "free"]):
            case "append" if len(lists.get(name, [])) < 20:
                rows = randn(chance.randint(1, 4), 2)
                cache.append(name, rows)
                lists[name] = lists.get(name, []) + list(rows)
            case "fork" if name in lists:
                cache.fork(name, new := f"{name}{step}")
                lists[new] = list(lists[name])
                if len(lists) > 4:
                    gone = chance.choice(list(lists))
                    cache.free(gone)
                    del lists[gone]
            case "free" if name in lists:
                cache.free(name)
                del lists[name]
        assert all(torch.equal(cache.read(name), torch.stack(rows)) for name, rows in lists.items())
        used = {page for name in lists for page in cache.table[name]}
        assert cache.free_pages == 40 - len(used)


def test_full_caches_say_so_and_stay_as_they_are():
    cache = KVCache(1, 1, 3, 2)
    cache.append(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    with pytest.raises(ValueError, match="room for 3 tokens"):
        cache.append(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))
    assert cache.length == 2 and cache.keys[0, 0, :2].eq(1).all()
