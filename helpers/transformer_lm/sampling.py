"""From logits to text: which tokens may come next, with which probability, and the loop that writes."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor


def next_token_probabilities(
    logits: Float[Tensor, "*batch v"], temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "*batch v"]:
    """softmax(logits / temperature), cut to the top_k likeliest tokens, then to the smallest set of likeliest tokens
    that holds at least top_p of what is left (nucleus sampling: Holtzman et al., 2020, section 3.1), and made to sum to
    1. Temperature 0: all for the likeliest."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    sorted_logits, order = (logits / temperature).sort(dim=-1, descending=True)
    if top_k is not None:
        sorted_logits = sorted_logits.masked_fill(torch.arange(logits.shape[-1]) >= top_k, -torch.inf)
    p = sorted_logits.softmax(dim=-1)
    if top_p is not None:
        p = p.masked_fill(p.cumsum(dim=-1) - p >= top_p, 0.0)  # what stands before it is enough already
        p = p / p.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)


def generate(
    model: Callable[[Tensor], Tensor],
    prompt: Int[Tensor, "b p"],
    n: int,
    context: int,
    choose: Callable[[Tensor], Tensor],
) -> Int[Tensor, "b n"]:
    """n new tokens. `model` maps tokens (b, m), m ≤ context, to logits (b, m, v); `choose` maps the logits (b, v) of
    the last position to tokens (b). Where the text is longer than `context`, the model reads its last `context`
    tokens."""
    tokens = prompt
    for _ in range(n):
        logits = model(tokens[:, -context:])[:, -1]
        tokens = torch.cat([tokens, choose(logits)[:, None]], dim=1)
    return tokens[:, prompt.shape[1] :]
