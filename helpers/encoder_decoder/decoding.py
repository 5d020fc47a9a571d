"""Writing with an encoder-decoder: the encoder reads the source once, the decoder writes with a cache."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from helpers.multi_head.heads import MultiHeadAttention, merge_heads, split_heads
from helpers.transformer_lm.positions import sinusoidal_positions

from .model import END, PAD, START, EncoderDecoder

KeysValues = tuple[Float[Tensor, "b h n d_h"], Float[Tensor, "b h n d_h"]]


def greedy_decode(encode: Callable, step: Callable, source: Int[Tensor, "b m"], longest: int) -> Int[Tensor, "b n"]:
    """Always the likeliest token, up to END; PAD behind it. n ≤ longest: it stops when every row has ended.

    memory = encode(source); logits, cache = step(tokens, memory, cache) reads new tokens (b, 1), START first, after
    those in the cache (None at first), and returns the logits (b, v) of the next.
    """
    memory, cache, written = encode(source), None, []
    tokens = torch.full((len(source), 1), START)
    ended = torch.zeros(len(source), 1, dtype=torch.bool)
    while len(written) < longest and not ended.all():
        logits, cache = step(tokens, memory, cache)
        tokens = logits.argmax(dim=-1, keepdim=True).masked_fill(ended, PAD)  # (b, 1)
        ended = ended | (tokens == END)
        written.append(tokens)
    return torch.cat(written, dim=1)


def length_penalty(length: int, alpha: float) -> float:
    """((5 + |Y|) / 6)^α (Wu et al., 2016, equation 14): divides the log-probability of |Y| tokens, END counted."""
    return ((5 + length) / 6) ** alpha


def beam_search(next_log_probs: Callable, k: int, longest: int, alpha: float = 0.6) -> tuple[list[int], float]:
    """The best of k hypotheses: its tokens after START, END included, and its log-probability over the length penalty.

    next_log_probs(prefixes), (j, n) → (j, v), is called once a step with all live prefixes, START first. Of all
    continuations the k best by log-probability live on; one that ends keeps its place among the k (Sutskever et al.,
    2014, section 3.2). At `longest` tokens those that have not ended are taken as they are.
    """
    live: list[tuple[float, list[int]]] = [(0.0, [START])]
    finished: list[tuple[float, list[int]]] = []
    for _ in range(longest):
        log_p = next_log_probs(torch.tensor([tokens for _, tokens in live]))  # (j, v)
        sums = torch.tensor([total for total, _ in live], dtype=torch.float64)[:, None] + log_p
        best = sums.flatten().topk(min(k - len(finished), sums.numel()))
        found = [
            (total, [*live[place // log_p.shape[1]][1], place % log_p.shape[1]])
            for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        finished += [one for one in found if one[1][-1] == END]
        live = [one for one in found if one[1][-1] != END]
        if not live:
            break
    score, tokens = max((total / length_penalty(len(tokens) - 1, alpha), tokens) for total, tokens in finished + live)
    return tokens[1:], score


# ------------------------------------------------------------------- a trained model, step by step


@dataclass(frozen=True)
class Cache:
    """What the decoder keeps of the tokens it has read: keys and values in each layer, and those of the memory."""

    length: int
    own: tuple[KeysValues, ...]
    memory: tuple[KeysValues, ...]


def steps_of(model: EncoderDecoder) -> tuple[Callable, Callable]:
    """`encode` and `step` of a model, as `greedy_decode` takes them. No key or value is computed twice."""

    @torch.no_grad()
    def encode(source: Int[Tensor, "b m"]) -> tuple[Tensor, Tensor]:
        model.eval()
        real = source != PAD
        return model.encode(source, real), real

    @torch.no_grad()
    def step(tokens: Int[Tensor, "b 1"], memory: tuple[Tensor, Tensor], cache: Cache | None) -> tuple[Tensor, Cache]:
        states, real = memory
        cache = cache or _empty(model, states)
        x, own = _embedded(model, tokens, cache.length), []
        for layer, old, read in zip(model.decoder, cache.own, cache.memory, strict=True):
            new = _keys_values(layer.self_attn, x)
            own.append(tuple(torch.cat(both, dim=2) for both in zip(old, new, strict=True)))
            x = layer.norm1(x + _attend(layer.self_attn, x, own[-1]))
            x = layer.norm2(x + _attend(layer.cross_attn, x, read, real[:, None, None]))
            x = layer.norm3(x + layer.linear2(layer.linear1(x).relu()))
        return model.head(x)[:, -1], Cache(cache.length + 1, tuple(own), cache.memory)

    return encode, step


def next_log_probs_of(model: EncoderDecoder, source: Int[Tensor, "m"]) -> Callable:
    """`next_log_probs` for `beam_search`: it keeps each prefix's cache, so a call reads one token a hypothesis."""
    encode, step = steps_of(model)
    memory = encode(source[None])
    caches: dict[tuple[int, ...], Cache] = {}

    def next_log_probs(prefixes: Int[Tensor, "j n"]) -> Float[Tensor, "j v"]:
        rows = [tuple(row) for row in prefixes.tolist()]
        known = [caches[row[:-1]] for row in rows] if prefixes.shape[1] > 1 else []
        spread = tuple(part.expand(len(rows), *part.shape[1:]) for part in memory)
        logits, cache = step(prefixes[:, -1:], spread, _joined(known) if known else None)
        caches.update({row: _row(cache, index) for index, row in enumerate(rows)})
        return logits.log_softmax(dim=-1)

    return next_log_probs


def _empty(model: EncoderDecoder, states: Tensor) -> Cache:
    none = [_keys_values(layer.self_attn, states[:, :0]) for layer in model.decoder]
    return Cache(0, tuple(none), tuple(_keys_values(layer.cross_attn, states) for layer in model.decoder))


def _embedded(model: EncoderDecoder, tokens: Tensor, start: int) -> Float[Tensor, "b 1 d"]:
    d = model.target_embedding.embedding_dim
    x = model.target_embedding(tokens) * math.sqrt(d)
    return x + sinusoidal_positions(start + tokens.shape[1], d)[start:].to(x)


def _keys_values(attention: MultiHeadAttention, x: Tensor) -> KeysValues:
    return split_heads(attention.w_k(x), attention.h), split_heads(attention.w_v(x), attention.h)


def _attend(
    attention: MultiHeadAttention, x: Tensor, read: KeysValues, mask: Bool[Tensor, "b 1 1 m"] | None = None
) -> Tensor:
    """One new token sees all that the cache holds, so only padding is masked."""
    q, (keys, values) = split_heads(attention.w_q(x), attention.h), read
    scores = q @ keys.mT / math.sqrt(q.shape[-1])  # (b, h, 1, n)
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return attention.w_o(merge_heads(scores.softmax(dim=-1) @ values))


def _joined(caches: list[Cache]) -> Cache:
    def join(parts: list[tuple[KeysValues, ...]]) -> tuple[KeysValues, ...]:
        return tuple(tuple(torch.cat(rows) for rows in zip(*layer, strict=True)) for layer in zip(*parts, strict=True))

    return Cache(caches[0].length, join([cache.own for cache in caches]), join([cache.memory for cache in caches]))


def _row(cache: Cache, index: int) -> Cache:
    def pick(layers: tuple[KeysValues, ...]) -> tuple[KeysValues, ...]:
        return tuple(tuple(part[index : index + 1] for part in layer) for layer in layers)

    return Cache(cache.length, pick(cache.own), pick(cache.memory))
