"""Heads made by hand, and the circuit that completes a pattern: A B … A → B (Elhage et al., 2021; Olsson et al., 2022).

A token's row has three parts: which token it is (v columns), an empty part to write into (v columns), and its position
(n columns), so d = 2v + n. Token 0 is the start token: it stands at position 0 and nowhere else.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

Head = tuple[Tensor, Tensor, Tensor, Tensor]  # w_q, w_k: (d, d_h); w_v: (d, d_v); w_o: (d_v, d)
STRENGTH = 30.0  # of the scores: e^30 leaves nothing for the others


def stream(tokens: Int[Tensor, "*batch l"], v: int, n: int) -> Float[Tensor, "*batch l d"]:
    """One-hot token, v zeros, one-hot position: what the first layer reads. l ≤ n tokens, each below v."""
    token = torch.eye(v)[tokens]
    position = torch.eye(n)[: tokens.shape[-1]].expand(*tokens.shape, n)
    return torch.cat([token, torch.zeros_like(token), position], dim=-1)


def causal_weights(x: Float[Tensor, "*batch l d"], w_q: Tensor, w_k: Tensor) -> Float[Tensor, "*batch l l"]:
    """The attention weights of one causal head: softmax(x w_q (x w_k)ᵀ / √d_h), no token sees later ones."""
    scores = (x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.shape[-1])
    later = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


def head_output(x: Float[Tensor, "*batch l d"], head: Head) -> Float[Tensor, "*batch l d"]:
    """What one causal head adds to the stream."""
    w_q, w_k, w_v, w_o = head
    return causal_weights(x, w_q, w_k) @ (x @ w_v) @ w_o


def previous_token_head(v: int, n: int) -> Head:
    """Attends to the token before, and writes which one that is into the empty columns."""
    d = 2 * v + n
    w_q, w_k, w_v, w_o = torch.zeros(d, n), torch.zeros(d, n), torch.zeros(d, v), torch.zeros(v, d)
    w_q[2 * v + 1 :, :-1] = STRENGTH * math.sqrt(n) * torch.eye(n - 1)  # position i asks for i − 1
    w_k[2 * v :] = torch.eye(n)  # position j answers to j
    w_v[:v] = torch.eye(v)
    w_o[:, v : 2 * v] = torch.eye(v)
    return w_q, w_k, w_v, w_o


def first_token_head(v: int, n: int) -> tuple[Tensor, Tensor]:
    """Queries and keys that make every token attend to position 0."""
    w_q, w_k = torch.zeros(2 * v + n, 1), torch.zeros(2 * v + n, 1)
    w_q[2 * v :] = STRENGTH  # every position asks the same
    w_k[2 * v] = 1.0  # and position 0 alone answers
    return w_q, w_k


def induction_head(v: int, n: int) -> Head:
    """Attends to the tokens after earlier copies of this one, and writes them; rests on position 0 if there is none."""
    d, d_h = 2 * v + n, v + 1
    w_q, w_k, w_v, w_o = torch.zeros(d, d_h), torch.zeros(d, d_h), torch.zeros(d, v), torch.zeros(v, d)
    w_q[:v, :v] = 2 * STRENGTH * math.sqrt(d_h) * torch.eye(v)  # "who comes after a token like me?"
    w_k[v : 2 * v, :v] = torch.eye(v)  # "this one stood before me"
    w_q[2 * v :, v] = STRENGTH * math.sqrt(d_h)  # the first-token head, at half the strength
    w_k[2 * v, v] = 1.0
    w_v[:v] = torch.eye(v)
    w_o[:, :v] = torch.eye(v)
    return w_q, w_k, w_v, w_o
