"""Right answers of decayed_attention in other styles."""

import math

import torch
import torch.nn.functional as F


def decayed_in_place(q, k, v, gamma):
    state, out = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), torch.empty_like(v)
    for t in range(q.shape[-2]):
        state = state * gamma[..., t, None, None]
        state = state + k[..., t, :, None] * v[..., t, None, :]
        out[..., t, :] = (q[..., t, :, None] * state).sum(-2)
    return out


def decayed_by_einsum(q, k, v, gamma):
    state, outputs = 0, []
    for q_t, k_t, v_t, g_t in zip(q.unbind(-2), k.unbind(-2), v.unbind(-2), gamma.unbind(-1)):
        state = g_t[..., None, None] * state + torch.einsum("...d,...v->...dv", k_t, v_t)
        outputs.append(torch.einsum("...d,...dv->...v", q_t, state))
    return torch.stack(outputs, dim=-2)


def decayed_in_float64(q, k, v, gamma):
    return decayed_by_einsum(q.double(), k.double(), v.double(), gamma.double()).to(v.dtype)


def decayed_on_its_side(q, k, v, gamma):
    # The state transposed: (d_v, d).
    state, outputs = v.new_zeros(*v.shape[:-2], v.shape[-1], k.shape[-1]), []
    for t in range(v.shape[-2]):
        state = gamma[..., t].reshape(*gamma.shape[:-1], 1, 1) * state + v[..., t : t + 1, :].mT @ k[..., t : t + 1, :]
        outputs.append((state @ q[..., t : t + 1, :].mT).mT)
    return torch.cat(outputs, dim=-2)


def decayed_by_a_scan(q, k, v, gamma):
    # All states at once, in log n rounds: each joins what stands 1, 2, 4, … places before.
    states, gates, n, reach = k[..., :, None] * v[..., None, :], gamma[..., None, None], gamma.shape[-1], 1
    while reach < n:
        old, new, before, own = (
            states[..., :-reach, :, :],
            states[..., reach:, :, :],
            gates[..., :-reach, :, :],
            gates[..., reach:, :, :],
        )
        states = torch.cat([states[..., :reach, :, :], new + own * old], dim=-3)
        gates = torch.cat([gates[..., :reach, :, :], own * before], dim=-3)
        reach *= 2
    return (q[..., None, :] @ states).squeeze(-2)


def decayed_by_lerp(q, k, v, gamma):
    # S + (γ − 1) S + kᵀ v
    state, rows = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :]), []
    for t in range(q.shape[-2]):
        state = (
            state
            + (gamma[..., t] - 1)[..., None, None] * state
            + k[..., t, :].unsqueeze(-1) * v[..., t, :].unsqueeze(-2)
        )
        rows.append(torch.matmul(q[..., t, :].unsqueeze(-2), state))
    return torch.cat(rows, -2)


def decayed_one_after_the_other(q, k, v, gamma):
    if q.dim() > 2:
        return torch.stack([decayed_one_after_the_other(*one) for one in zip(q, k, v, gamma)])
    state, out = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for t in range(len(q)):
        state = gamma[t] * state + torch.outer(k[t], v[t])
        out.append(q[t] @ state)
    return torch.stack(out)


def decayed_as_chunks_of_one(q, k, v, gamma):
    return chunked_decay_by_differences(q, k, v, gamma, 1)


def _differences(gamma):
    total = torch.log(gamma).cumsum(dim=-1)
    allowed = torch.tril(torch.ones(gamma.shape[-1], gamma.shape[-1], dtype=torch.bool))
    gap = total.unsqueeze(-1) - total.unsqueeze(-2)
    return torch.exp(torch.where(allowed, gap, torch.full_like(gap, -math.inf)))


def chunked_decay_by_differences(q, k, v, gamma, c):
    state, outputs = 0, []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        total = gamma[..., start : start + c].log().cumsum(-1)
        inside = (q_c @ k_c.mT) * _differences(gamma[..., start : start + c]) @ v_c
        outputs.append(inside if start == 0 else inside + total.exp()[..., None] * (q_c @ state))
        kept = (total[..., -1:] - total).exp()[..., None] * k_c
        state = total[..., -1].exp()[..., None, None] * state + kept.mT @ v_c
    return torch.cat(outputs, dim=-2)


def _segments(gamma):
    # Products of the factors between: each column multiplies from the token after its own.
    c = gamma.shape[-1]
    columns = gamma[..., :, None].expand(*gamma.shape, c)
    below = torch.ones(c, c, dtype=torch.bool).tril(-1)
    return torch.where(below, columns, torch.ones_like(columns)).cumprod(-2).tril()


def chunked_decay_by_segments(q, k, v, gamma, c):
    state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype)
    outputs, start = [], 0
    while start < q.shape[-2]:
        stop = min(start + c, q.shape[-2])
        part = slice(start, stop)
        mask = _segments(gamma[..., part])
        before = torch.cumprod(gamma[..., part], dim=-1)
        old = torch.einsum("...t,...td,...dv->...tv", before, q[..., part, :], state)
        outputs.append(
            old
            + torch.einsum("...td,...sd,...ts,...sv->...tv", q[..., part, :], k[..., part, :], mask, v[..., part, :])
        )
        state = before[..., -1, None, None] * state + torch.einsum(
            "...s,...sd,...sv->...dv", mask[..., -1, :], k[..., part, :], v[..., part, :]
        )
        start = stop
    return torch.cat(outputs, dim=-2)


def chunked_decay_in_float64(q, k, v, gamma, c):
    return chunked_decay_by_differences(q.double(), k.double(), v.double(), gamma.double(), c).to(v.dtype)


def chunked_decay_at_once(q, k, v, gamma, c):
    # All chunks as a batch; padding tokens have keys of zeros and forget nothing. Only the states wait for each other.
    n = q.shape[-2]
    c = min(c, n)
    q, k, v = (F.pad(x, (0, 0, 0, -n % c)).unflatten(-2, (-1, c)) for x in (q, k, v))
    gamma = F.pad(gamma, (0, -n % c), value=1.0).unflatten(-1, (-1, c))
    mask, before = _differences(gamma), gamma.cumprod(-1)
    added = (mask[..., -1, :, None] * k).mT @ v
    states = [torch.zeros_like(added[..., 0, :, :])]
    for chunk in range(added.shape[-3] - 1):
        states.append(before[..., chunk, -1, None, None] * states[-1] + added[..., chunk, :, :])
    old = before[..., None] * (q @ torch.stack(states, dim=-3))
    return (old + (q @ k.mT * mask) @ v).flatten(-3, -2)[..., :n, :]


def chunked_decay_of_scaled_values(q, k, v, gamma, c):
    # The decay goes with the values instead of the keys, and with the output instead of the queries.
    state, outputs = 0, []
    for q_c, k_c, v_c, g_c in zip(*(x.split(c, dim=-2) for x in (q, k, v, gamma.unsqueeze(-1)))):
        mask, passed = _segments(g_c.squeeze(-1)), g_c.cumprod(dim=-2)
        outputs.append((mask * (q_c @ k_c.mT)) @ v_c + passed * (q_c @ state if outputs else 0))
        state = passed[..., -1:, :] * state + k_c.mT @ (v_c * mask[..., -1:, :].mT)
    return torch.cat(outputs, dim=-2)


def chunked_decay_with_an_old_token(q, k, v, gamma, c):
    # The state as d tokens in front of the chunk: their keys are the unit vectors, their values its rows.
    d = k.shape[-1]
    units = torch.eye(d, dtype=k.dtype).expand(*k.shape[:-2], d, d)
    state, outputs = torch.zeros_like(units @ v.new_zeros(*k.shape[:-2], d, v.shape[-1])), []
    for q_c, k_c, v_c, g_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.split(c, -1)):
        mask = torch.cat([g_c.cumprod(-1)[..., None].expand(*g_c.shape, d), _differences(g_c)], dim=-1)
        keys, values = torch.cat([units, k_c], dim=-2), torch.cat([state, v_c], dim=-2)
        outputs.append((q_c @ keys.mT * mask) @ values)
        state = (mask[..., -1, :, None] * keys).mT @ values
    return torch.cat(outputs, dim=-2)


def chunked_decay_by_inverse(q, k, v, gamma, c):
    # The mask is the inverse of a matrix with 1 on the diagonal and −γ_t below it.
    state, outputs = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x.narrow(-2, start, min(c, x.shape[-2] - start)) for x in (q, k, v))
        g_c = gamma[..., start : start + c]
        eye = torch.eye(g_c.shape[-1], dtype=g_c.dtype)
        step = eye - torch.diag_embed(g_c[..., 1:], offset=-1)
        mask = torch.linalg.solve_triangular(step, eye.expand_as(step), upper=False)
        old = g_c[..., :1, None] * mask[..., :, :1] * (q_c @ state)
        outputs.append(old + ((q_c @ k_c.mT) * mask) @ v_c)
        last = mask[..., -1, :, None]
        state = g_c[..., :1, None] * last[..., :1, :] * state + (k_c * last).mT @ v_c
    return torch.cat(outputs, dim=-2)


class Fading:
    """A state that fades for a number of tokens, is read, and is written to."""

    def __init__(self, k, v):
        self.state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype)

    def read(self, q, log):
        return torch.exp(log.cumsum(-1)).unsqueeze(-1) * torch.matmul(q, self.state)

    def write(self, k, v, log):
        after = log.sum(-1, keepdim=True) - log.cumsum(-1)
        self.state = self.state * log.sum(-1).exp()[..., None, None] + torch.einsum(
            "...s,...sd,...sv->...dv", after.exp(), k, v
        )


def chunked_decay_of_an_object(q, k, v, gamma, c):
    fading, outputs = Fading(k, v), []
    for a, b, x, log in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.log().split(c, -1)):
        later = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()
        between = (log.cumsum(-1)[..., None] - log.cumsum(-1)[..., None, :]).masked_fill(later, -1e9).exp()
        outputs.append(fading.read(a, log) + torch.einsum("...td,...sd,...ts,...sv->...tv", a, b, between, x))
        fading.write(b, x, log)
    return torch.cat(outputs, dim=-2)


decayed_attention = {
    "in place; differences of logarithms": (decayed_in_place, chunked_decay_by_differences),
    "einsum; products of the factors between": (decayed_by_einsum, chunked_decay_by_segments),
    "float64": (decayed_in_float64, chunked_decay_in_float64),
    "the state on its side; all chunks at once": (decayed_on_its_side, chunked_decay_at_once),
    "a scan; the decay on the values": (decayed_by_a_scan, chunked_decay_of_scaled_values),
    "what is lost is taken away; the state as old tokens": (decayed_by_lerp, chunked_decay_with_an_old_token),
    "one sequence after the other; the mask as an inverse": (decayed_one_after_the_other, chunked_decay_by_inverse),
    "chunks of one token; an object that is read and written": (decayed_as_chunks_of_one, chunked_decay_of_an_object),
}
