"""Right answers of delta_rule in other styles."""

import torch
import torch.nn.functional as F


def delta_with_normalize(q, k, v, beta):
    k = F.normalize(k, dim=-1)
    state, out = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), torch.empty_like(v)
    for t in range(q.shape[-2]):
        old = (k[..., t, :, None] * state).sum(-2)
        wrong_by = beta[..., t, None] * (v[..., t, :] - old)
        state = state + k[..., t, :, None] * wrong_by[..., None, :]
        out[..., t, :] = (q[..., t, :, None] * state).sum(-2)
    return out


def delta_by_einsum(q, k, v, beta):
    k = k / torch.linalg.vector_norm(k, dim=-1, keepdim=True)
    state, outputs = torch.zeros_like(torch.einsum("...d,...v->...dv", k[..., 0, :], v[..., 0, :])), []
    for q_t, k_t, v_t, b_t in zip(q.unbind(-2), k.unbind(-2), v.unbind(-2), beta.unbind(-1)):
        old = torch.einsum("...d,...dv->...v", k_t, state)
        new = b_t[..., None] * v_t + (1 - b_t[..., None]) * old
        state = state + torch.einsum("...d,...v->...dv", k_t, new - old)
        outputs.append(torch.einsum("...d,...dv->...v", q_t, state))
    return torch.stack(outputs, dim=-2)


def delta_by_erasing_matrix(q, k, v, beta):
    # S ← (1 − β kᵀ k) S + β kᵀ v
    k = k / (k * k).sum(-1, keepdim=True).sqrt()
    eye, state, outputs = torch.eye(k.shape[-1], dtype=k.dtype), None, []
    for t in range(q.shape[-2]):
        k_t, b_t = k[..., t : t + 1, :], beta[..., t, None, None]
        write = b_t * k_t.mT @ v[..., t : t + 1, :]
        state = write if state is None else (eye - b_t * k_t.mT @ k_t) @ state + write
        outputs.append(q[..., t : t + 1, :] @ state)
    return torch.cat(outputs, dim=-2)


def delta_in_float64(q, k, v, beta):
    return delta_by_einsum(q.double(), k.double(), v.double(), beta.double()).to(v.dtype)


def delta_on_its_side(q, k, v, beta):
    k = F.normalize(k, p=2, dim=-1, eps=0.0)
    state, outputs = v.new_zeros(*v.shape[:-2], v.shape[-1], k.shape[-1]), []
    for t in range(v.shape[-2]):
        k_t = k[..., t, :].unsqueeze(-1)
        state = (
            state - beta[..., t].reshape(*beta.shape[:-1], 1, 1) * (state @ k_t - v[..., t, :].unsqueeze(-1)) @ k_t.mT
        )
        outputs.append((state @ q[..., t, :].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, dim=-2)


def delta_one_after_the_other(q, k, v, beta):
    if q.dim() > 2:
        return torch.stack([delta_one_after_the_other(*one) for one in zip(q, k, v, beta)])
    state, out = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for t in range(len(q)):
        key = k[t] / k[t].norm()
        state = state + beta[t] * torch.outer(key, v[t] - key @ state)
        out.append(q[t] @ state)
    return torch.stack(out)


def delta_in_chunks(q, k, v, beta, c=8):
    # The corrections of a chunk solve a triangle of equations; then it is linear attention of these (Yang et al.,
    # 2024).
    k = F.normalize(k, dim=-1)
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        b_c = beta[..., start : start + c, None]
        triangle = (b_c * (k_c @ k_c.mT)).tril(-1) + torch.eye(k_c.shape[-2], dtype=k.dtype)
        written = torch.linalg.solve_triangular(triangle, b_c * (v_c - k_c @ state), upper=False, unitriangular=True)
        outputs.append(q_c @ state + (q_c @ k_c.mT).tril() @ written)
        state = state + k_c.mT @ written
    return torch.cat(outputs, dim=-2)


def delta_as_gradient_descent(q, k, v, beta):
    # A step of gradient descent on ½ |k S − v|² with the rate β. The slope is written out.
    keys = k / k.square().sum(-1, keepdim=True).pow(0.5)
    state, rows = 0 * (keys[..., 0, :, None] * v[..., 0, None, :]), []
    for t in range(q.shape[-2]):
        key, value, query = (x[..., t, :].unsqueeze(-2) for x in (keys, v, q))
        slope = key.transpose(-1, -2) @ (key @ state - value)
        state = state - beta[..., t, None, None] * slope
        rows.append(query @ state)
    return torch.cat(rows, -2)


delta_rule = {
    "in place, with F.normalize": delta_with_normalize,
    "einsum, old and new values mixed": delta_by_einsum,
    "a matrix that erases": delta_by_erasing_matrix,
    "float64": delta_in_float64,
    "the state on its side": delta_on_its_side,
    "one sequence after the other": delta_one_after_the_other,
    "chunks that solve a triangle": delta_in_chunks,
    "a step of gradient descent": delta_as_gradient_descent,
}
