"""What a Transformer really does for one more token, with a cache and without: FLOPs, seconds and bytes, measured."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.transformer_lm.transformer import Config, DecoderLM


class Meter(TorchDispatchMode):
    """Counts FLOPs by operator, and the bytes of the largest tensor that is made, of all that runs inside it."""

    def __init__(self):
        super().__init__()
        self.flops, self.largest = Counter(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        from torch.utils.flop_counter import flop_registry

        output = func(*args, **(kwargs or {}))
        if func.overloadpacket in flop_registry:
            self.flops[func.overloadpacket.__name__] += flop_registry[func.overloadpacket](
                *args, **(kwargs or {}), out_val=output
            )
        if not func.is_view:
            self.largest = max(
                [self.largest, *(leaf.nbytes for leaf in tree_leaves(output) if isinstance(leaf, Tensor))]
            )
        return output


@dataclass(frozen=True)
class TokenCost:
    """The cost of token number `n`. A cache saves the products with weights; the scores against n keys stay."""

    n: int
    weights_flops: int  # projections, MLP and output head
    attention_flops: int  # scores and mixing
    seconds: float
    bytes: int  # kept in the cache, or else the largest tensor made on the way


@torch.no_grad()
def cost_with_cache(model: DecoderLM, new_cache: Callable, lengths: Sequence[int], tries: int = 8) -> list[TokenCost]:
    """Costs of the tokens at these lengths. `new_cache(b, h_kv, capacity, d_h)` makes the cache of one layer."""
    c = model.config
    caches = [new_cache(1, c.h_kv, max(lengths) + tries, c.d_h) for _ in range(c.layers)]
    tokens, costs = torch.randint(c.vocabulary, (1, max(lengths) + tries)), []
    for n in lengths:
        if n - 1 > caches[0].length:
            model(tokens[:, caches[0].length : n - 1], cache=caches)
        with Meter() as meter:
            model(tokens[:, n - 1 : n], cache=caches)
        seconds = min(_seconds(model, tokens[:, i : i + 1], cache=caches) for i in range(n, n + tries))
        kept = 2 * c.layers * n * c.h_kv * c.d_h * 4
        costs.append(_cost(n, meter, seconds, kept))
    return costs


@torch.no_grad()
def cost_without_cache(model: DecoderLM, lengths: Sequence[int], tries: int = 2) -> list[TokenCost]:
    """Costs of the tokens at these lengths when all tokens before them are read again."""
    costs = []
    for n in lengths:
        tokens = torch.randint(model.config.vocabulary, (1, n))
        with Meter() as meter:
            model(tokens)
        costs.append(_cost(n, meter, min(_seconds(model, tokens) for _ in range(tries)), meter.largest))
    return costs


@torch.no_grad()
def throughput(
    model: DecoderLM, new_cache: Callable | None, n: int, batches: Sequence[int], tries: int = 5
) -> list[float]:
    """Tokens per second of all sequences of a batch together, each with n tokens behind it."""
    found, c = [], model.config
    for b in batches:
        tokens = torch.randint(c.vocabulary, (b, n + tries))
        if new_cache is None:
            times = [_seconds(model, tokens[:, :n]) for _ in range(tries)]
        else:
            caches = [new_cache(b, c.h_kv, n + tries, c.d_h) for _ in range(c.layers)]
            model(tokens[:, :n], cache=caches)
            times = [_seconds(model, tokens[:, i : i + 1], cache=caches) for i in range(n, n + tries)]
        found.append(b / min(times))
    return found


class CountedModel:
    """A model that counts the positions it computes, in all sequences of a batch together."""

    def __init__(self, model: Callable):
        self.model, self.positions = model, 0

    def __call__(self, tokens: Int[Tensor, "b n"], start: int, cache: object) -> tuple:
        self.positions += tokens.numel()
        return self.model(tokens, start, cache)


@torch.no_grad()
def generate_without_cache(model: Callable, prompt: Int[Tensor, "b p"], n: int) -> Int[Tensor, "b n"]:
    """n new tokens, always the likeliest; the model reads the whole text again for each of them."""
    text = prompt
    for _ in range(n):
        logits, _ = model(text, 0, None)
        text = torch.cat([text, logits[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, prompt.shape[1] :]


def growth(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent p of values ≈ c · n^p: the slope of a straight line through the logarithms."""
    x, y = (torch.tensor([math.log(entry) for entry in entries], dtype=torch.float64) for entries in (lengths, values))
    return (((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()).item()


def small_model(layers: int = 2, d: int = 64, h: int = 2) -> DecoderLM:
    """A model that is quick to run: only its costs matter here, so it is not trained."""
    return DecoderLM(Config(vocabulary=64, d=d, h=h, h_kv=h, layers=layers))


def _cost(n: int, meter: Meter, seconds: float, size: int) -> TokenCost:
    attention = meter.flops["bmm"]
    return TokenCost(n, meter.flops.total() - attention, attention, seconds, size)


def _seconds(function: Callable, *arguments: Any, **named: Any) -> float:
    start = time.perf_counter()
    function(*arguments, **named)
    return time.perf_counter() - start
