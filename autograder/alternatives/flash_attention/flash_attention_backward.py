"""Right answers of flash_attention_backward in other styles."""

import math

import torch

from autograder.alternatives.flash_attention.flash_attention_forward import (
    forward_from_lowest,
    forward_keys_outside,
    forward_merging_tiles,
)


def tile_weights(q, k, lse, row, column, causal):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(
            torch.arange(column, column + k.shape[-2]) > torch.arange(row, row + q.shape[-2])[:, None], -math.inf
        )
    return torch.where(lse[..., None] == -math.inf, 0.0, torch.exp(scores - lse[..., None]))


def backward_keys_outside(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    n, m, scale = q.shape[-2], k.shape[-2], 1 / math.sqrt(q.shape[-1])
    delta, dq, dks, dvs = (grad_out * out).sum(-1), torch.zeros_like(q), [], []
    for j in range(0, m, block_k):
        k_j, v_j = k[..., j : j + block_k, :], v[..., j : j + block_k, :]
        dk, dv = torch.zeros_like(k_j), torch.zeros_like(v_j)
        for i in range(0, n, block_q):
            rows = slice(i, min(i + block_q, n))
            if causal and j >= rows.stop + m - n:
                continue
            p = tile_weights(q[..., rows, :], k_j, lse[..., rows], i + m - n, j, causal)
            ds = p * (grad_out[..., rows, :] @ v_j.transpose(-2, -1) - delta[..., rows, None]) * scale
            dv = dv + p.transpose(-2, -1) @ grad_out[..., rows, :]
            dk = dk + ds.transpose(-2, -1) @ q[..., rows, :]
            dq[..., rows, :] = dq[..., rows, :] + ds @ k_j
        dks.append(dk)
        dvs.append(dv)
    return dq, torch.cat(dks, dim=-2), torch.cat(dvs, dim=-2)


def backward_in_two_walks(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    # First dQ, a tile of queries at a time; then dK and dV, a tile of keys at a time. Weights are made twice.
    n, m, gap, scale = q.shape[-2], k.shape[-2], k.shape[-2] - q.shape[-2], q.shape[-1] ** -0.5
    delta = torch.einsum("...nd,...nd->...n", grad_out, out)[..., None]
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    for i in range(0, n, block_q):
        rows = slice(i, i + block_q)
        for j in range(0, m, block_k):
            p = tile_weights(q[..., rows, :], k[..., j : j + block_k, :], lse[..., rows], i + gap, j, causal)
            dp = torch.einsum("...nv,...mv->...nm", grad_out[..., rows, :], v[..., j : j + block_k, :])
            dq[..., rows, :] += torch.einsum(
                "...nm,...md->...nd", p * (dp - delta[..., rows, :]) * scale, k[..., j : j + block_k, :]
            )
    for j in range(0, m, block_k):
        columns = slice(j, j + block_k)
        for i in range(0, n, block_q):
            rows = slice(i, i + block_q)
            p = tile_weights(q[..., rows, :], k[..., columns, :], lse[..., rows], i + gap, j, causal)
            dp = torch.einsum("...nv,...mv->...nm", grad_out[..., rows, :], v[..., columns, :])
            dv[..., columns, :] += torch.einsum("...nm,...nv->...mv", p, grad_out[..., rows, :])
            dk[..., columns, :] += torch.einsum(
                "...nm,...nd->...md", p * (dp - delta[..., rows, :]) * scale, q[..., rows, :]
            )
    return dq, dk, dv


def backward_in_float64(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    # Scaled queries: dK comes out with its factor, dQ gets it at the end.
    dtype, scale = q.dtype, 1 / math.sqrt(q.shape[-1])
    q, k, v, out, grad_out = q.double() * scale, k.double(), v.double(), out.double(), grad_out.double()
    lse = lse.double().masked_fill(lse == -math.inf, 1e300)
    dq, dk, dv, delta = (
        torch.zeros_like(q),
        torch.zeros_like(k),
        torch.zeros_like(v),
        (out * grad_out).sum(-1, keepdim=True),
    )
    for i in range(0, q.shape[-2], block_q):
        q_i, do, gap = q[..., i : i + block_q, :], grad_out[..., i : i + block_q, :], k.shape[-2] - q.shape[-2]
        for j in range(0, k.shape[-2], block_k):
            k_j, v_j = k[..., j : j + block_k, :], v[..., j : j + block_k, :]
            p = torch.exp(q_i @ k_j.mT - lse[..., i : i + block_q, None])
            p = p.tril(i + gap - j) if causal else p
            ds = p * (do @ v_j.mT - delta[..., i : i + block_q, :])
            dq[..., i : i + block_q, :] += scale * ds @ k_j
            dk[..., j : j + block_k, :] += ds.mT @ q_i
            dv[..., j : j + block_k, :] += p.mT @ do
    return dq.to(dtype), dk.to(dtype), dv.to(dtype)


def flash_kept(q, k, v, causal=False):
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            out, lse = forward_from_lowest(q, k, v, causal)
            ctx.save_for_backward(q, k, v, out, lse)
            ctx.causal = causal
            return out

        @staticmethod
        def backward(ctx, grad_out):
            return *backward_keys_outside(*ctx.saved_tensors, grad_out, ctx.causal), None

    return Kept.apply(q, k, v, causal)


def flash_made_again(q, k, v, causal=False):
    # Only the inputs are kept: output and logsumexp are made again on the way back.
    class MadeAgain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return forward_keys_outside(q, k, v, causal)[0]

        @staticmethod
        def backward(ctx, grad_out):
            q, k, v = ctx.saved_tensors
            return backward_in_two_walks(q, k, v, *forward_keys_outside(q, k, v, causal), grad_out, causal)

    return MadeAgain.apply(q, k, v)


def flash_with_setup(q, k, v, causal=False):
    class WithSetup(torch.autograd.Function):
        @staticmethod
        def forward(q, k, v, causal):
            return forward_merging_tiles(q, k, v, causal, 32, 48)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:3], *output)
            ctx.mark_non_differentiable(output[1])
            ctx.causal = inputs[3]

        @staticmethod
        def backward(ctx, grad_out, _):
            return *backward_in_float64(*ctx.saved_tensors, grad_out, ctx.causal, 48, 32), None

    return WithSetup.apply(q, k, v, causal)[0]


flash_attention_backward = {
    "keys outside, queries inside": (backward_keys_outside, flash_kept),
    "two walks; output made again": (backward_in_two_walks, flash_made_again),
    "float64, scaled queries; setup_context": (backward_in_float64, flash_with_setup),
    "keys outside; setup_context": (backward_keys_outside, flash_with_setup),
}
