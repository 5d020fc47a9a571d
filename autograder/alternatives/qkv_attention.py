"""Right answers of unit 02 in other styles: loops, einsum, in place on own tensors, other dtypes, other routes."""

import math

import torch
import torch.nn.functional as F


def softmax_in_place(x, dim):
    y = x.clone()
    y -= y.amax(dim, keepdim=True)
    y.exp_()
    y /= y.sum(dim, keepdim=True)
    return y


def softmax_by_rows(x, dim):
    moved = x.movedim(dim, -1)
    rows = []
    for row in moved.reshape(-1, moved.shape[-1]):
        powers = torch.stack([torch.exp(entry - row.max()) for entry in row])
        rows.append(powers / powers.sum())
    return torch.stack(rows).view(moved.shape).movedim(-1, dim)


def softmax_of_differences(x, dim):
    moved = x.movedim(dim, -1)
    # [..., i, j] = e^(x_j − x_i), infinite where the share is 0
    ratios = torch.exp(moved.unsqueeze(-2) - moved.unsqueeze(-1))
    return ratios.sum(-1).reciprocal().movedim(-1, dim)


softmax = {
    "through logsumexp, after the maximum": lambda x, dim: (
        lambda z: torch.exp(z - torch.logsumexp(z, dim, keepdim=True))
    )(x - x.amax(dim, keepdim=True)),
    "log of the sum": lambda x, dim: (lambda z: torch.exp(z - z.exp().sum(dim, keepdim=True).log()))(
        x - torch.amax(x, dim=dim, keepdim=True)
    ),
    "all pairs of differences": softmax_of_differences,
    "in place, on a copy": softmax_in_place,
    "row by row": softmax_by_rows,
    "in float64": lambda x, dim: (lambda p: p / p.sum(dim, keepdim=True))(
        torch.exp(x.double() - x.double().max(dim, keepdim=True).values)
    ),
}


def weights_by_loop(query, keys):
    scores = torch.tensor([sum((q * k).item() for q, k in zip(query, key)) for key in keys])
    powers = [math.exp(score - scores.max().item()) for score in scores.tolist()]
    return torch.tensor([power / sum(powers) for power in powers])


attention_weights = {
    "F.softmax and einsum": lambda query, keys: F.softmax(torch.einsum("d,nd->n", query, keys), dim=-1),
    "a loop over the keys": weights_by_loop,
}


def attend_by_loop(query, keys, values):
    weights = torch.softmax(torch.stack([key.dot(query) for key in keys]), dim=0)
    output = torch.zeros(values.shape[1])
    for weight, value in zip(weights, values):
        output += weight * value
    return output


attend = {
    "a loop over the values": attend_by_loop,
    "broadcasting and a sum": lambda query, keys, values: (torch.softmax(keys @ query, 0)[:, None] * values).sum(0),
    "einsum": lambda query, keys, values: torch.einsum("n,nv->v", (keys @ query).softmax(-1), values),
}


def select_with_random_directions(n, d):
    keys = torch.linalg.qr(torch.randn(d, n)).Q.T
    return 50 * keys, keys, torch.randn(n, d) + 10 * torch.arange(n)[:, None]


select_one_value = {
    "random orthonormal keys": select_with_random_directions,
    "long keys, short queries": lambda n, d: (torch.eye(n, d), 80 * torch.eye(n, d), torch.eye(n, d)),
    "keys as values": lambda n, d: (60 * torch.eye(n, d), torch.eye(n, d), torch.eye(n, d)),
    "values a hundredth apart": lambda n, d: (
        60 * torch.eye(n, d),
        torch.eye(n, d),
        torch.arange(n)[:, None].expand(n, d) / 100,
    ),
}


def query_by_rotation(k1, k2):
    gap = k1 - k2
    query = torch.zeros_like(gap)
    i, j = gap.abs().topk(2).indices
    query[i], query[j] = -gap[j], gap[i]
    return query


def query_by_null_space(k1, k2):
    return 3 * torch.linalg.svd((k1 - k2)[None]).Vh[-1]


def query_for_pair_by_sum(keys, a, b):
    query = torch.zeros(keys.shape[1])
    for index in (a, b):
        query += 40 * keys[index]
    return query


def query_for_pair_with_penalty(keys, a, b):
    scores = torch.full((len(keys),), -30.0)
    scores[[a, b]] = 30.0
    return scores @ keys


equal_attention = {
    "two coordinates swapped; a sum in a loop": (query_by_rotation, query_for_pair_by_sum),
    "the null space; scores chosen first": (query_by_null_space, query_for_pair_with_penalty),
}

two_word_example = {
    "rounded": lambda: (0.88, 0.12),
    "computed": lambda: tuple(torch.softmax(torch.tensor([112.0, 96.0]) / 8, dim=0).tolist()),
    "as a tensor's entries": lambda: [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))],
}

qkv_projections = {
    "einsum": lambda x, w_q, w_k, w_v: tuple(torch.einsum("...nd,de->...ne", x, w) for w in (w_q, w_k, w_v)),
    "F.linear": lambda x, w_q, w_k, w_v: [F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)],
    "one product, then split": lambda x, w_q, w_k, w_v: (x @ torch.cat([w_q, w_k, w_v], dim=1)).split(
        [w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1
    ),
}


def attention_by_loops(q, k, v):
    flat = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v)]
    batches = []
    for q_b, k_b, v_b in zip(*flat):
        rows = []
        for query in q_b:
            scores = torch.stack([(query * key).sum() / math.sqrt(q.shape[-1]) for key in k_b])
            weights = torch.exp(scores - scores.max())
            rows.append(sum(w * value for w, value in zip(weights / weights.sum(), v_b)))
        batches.append(torch.stack(rows))
    return torch.stack(batches).view(*q.shape[:-1], v.shape[-1])


def attention_by_einsum(q, k, v):
    scores = torch.einsum("...nd,...md->...nm", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("...nm,...mv->...nv", F.softmax(scores, -1), v)


def attention_in_place(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores /= q.size(-1) ** 0.5
    return torch.softmax(scores, -1).matmul(v)


def attention_in_float64(q, k, v):
    q, k, v = q.double(), k.double(), v.double()
    return torch.softmax((q / math.sqrt(q.shape[-1])) @ k.mT, dim=-1) @ v


scaled_dot_product_attention = {
    "loops over queries and keys": attention_by_loops,
    "einsum": attention_by_einsum,
    "scores divided in place": attention_in_place,
    "queries scaled first, in float64": attention_in_float64,
    "values first divided by the sum": lambda q, k, v: (
        lambda s: (torch.exp(s) @ v) / torch.exp(s).sum(-1, keepdim=True)
    )((lambda s: s - s.amax(-1, keepdim=True))(q @ k.mT / math.sqrt(q.shape[-1]))),
}


def additive_by_loops(q, k, w_q, w_k, v):
    return torch.stack([torch.stack([torch.tanh(row @ w_q + key @ w_k) @ v for key in k]) for row in q])


score_functions = {
    "normalised first, loops, einsum": (
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).T,
        additive_by_loops,
        lambda q, w: torch.einsum("nd,dm->nm", q, w),
        lambda q, w, k: torch.einsum("nd,de,me->nm", q, w, k),
        lambda q, k: (q[:, None] * k[None]).sum(-1),
        lambda q, k: (q / q.shape[-1] ** 0.5) @ k.transpose(0, 1),
    ),
    "pair by pair": (
        lambda q, k: torch.stack([torch.stack([(a / a.norm()) @ (b / b.norm()) for b in k]) for a in q]),
        lambda q, k, w_q, w_k, v: torch.einsum("nma,a->nm", torch.tanh((q @ w_q)[:, None, :] + k @ w_k), v),
        lambda q, w: torch.stack([row @ w for row in q]),
        lambda q, w, k: (k @ (q @ w).T).T,
        lambda q, k: torch.stack([torch.stack([a.dot(b) for b in k]) for a in q]),
        lambda q, k: torch.einsum("nd,md->nm", q.double(), k.double()) / math.sqrt(q.shape[1]),
    ),
}

score_variance = {
    "step by step": lambda d, sigma: (0, sum(sigma**2 * sigma**2 for _ in range(d)), (d * sigma**4) / d),
    "as tensors": lambda d, sigma: (torch.tensor(0.0), torch.tensor(d * sigma**4), torch.tensor(sigma**4)),
}


def jacobian_by_loops(z):
    y = torch.softmax(z, 0)
    return torch.stack([torch.stack([y[i] * (float(i == j) - y[j]) for j in range(len(z))]) for i in range(len(z))])


softmax_jacobian = {
    "entry by entry": jacobian_by_loops,
    "autograd": lambda z: torch.autograd.functional.jacobian(lambda t: torch.softmax(t, 0), z),
    "y (I − 1 yᵀ)": lambda z: (lambda y: y[:, None] * (torch.eye(len(z), dtype=z.dtype) - y))(torch.softmax(z, 0)),
}


def gap_by_index(layer, x, p):
    order = p.argmax(dim=1)
    return (layer(x[order]) - layer(x)[order]).abs().max().item()


permutation_equivariance = {
    "by index, as a number": gap_by_index,
    "matmul and torch.max": lambda layer, x, p: torch.max(
        torch.abs(torch.matmul(p, layer(x)) - layer(torch.matmul(p, x)))
    ),
}

parameter_counts = {
    "counted in modules": lambda n, d: (
        3 * torch.nn.Linear(d, d).weight.numel(),
        3 * torch.nn.Linear(d, d).bias.numel(),
        n * n,
        (d * n) * (d * n),
        d * n,
    ),
    "counted in tensors": lambda n, d: (
        sum(torch.empty(d, d, device="meta").numel() for _ in range(3)),
        3 * torch.empty(d).numel(),
        torch.empty(n, n).numel(),
        pow(n * d, 2),
        n * d,
    ),
    "as whole tensors": lambda n, d: tuple(torch.tensor([3 * d * d, 3 * d, n * n, d * d * n * n, d * n])),
}


def other_weights_by_projection(weights, values):
    constraints = torch.cat([values, torch.ones(len(values), 1)], dim=1).double()
    projector = torch.eye(len(values), dtype=torch.float64) - constraints @ torch.linalg.pinv(constraints)
    direction = projector[projector.norm(dim=1).argmax()]
    step = 0.9 * min(weight / -z for weight, z in zip(weights.double(), direction) if z < 0)
    return (weights.double() + step * direction).float()


def other_weights_by_least_squares(weights, values):
    # Forbid the key with the smallest weight: push its weight towards 0 and repair the others.
    constraints = torch.cat([values, torch.ones(len(values), 1)], dim=1).double().mT  # (d + 1, n)
    wish = torch.zeros(len(weights), dtype=torch.float64)
    wish[weights.argmin()] = -1.0
    direction = wish - torch.linalg.pinv(constraints) @ (constraints @ wish)
    step = 0.5 * (weights.double() / -direction)[direction < 0].min()
    return (weights.double() + step * direction).to(weights.dtype)


def other_weights_of_the_heaviest_keys(weights, values):
    d = values.shape[1]
    heaviest = weights.topk(d + 2).indices
    rows = torch.cat([values[heaviest], torch.ones(d + 2, 1)], dim=1)
    direction = torch.zeros_like(weights)
    direction[heaviest] = torch.linalg.qr(rows, mode="complete")[0][:, -1]
    falling = direction < -1e-6
    longest = (weights[falling] / -direction[falling]).min()
    return (weights + 0.9 * longest * direction).clamp(min=0)


same_output_other_weights = {
    "among the heaviest keys alone": other_weights_of_the_heaviest_keys,
    "a row of the projector": other_weights_by_projection,
    "a wish, projected": other_weights_by_least_squares,
}
