"""Right answers of unit 00 in other styles."""

import torch


def dots_by_loops(a, b):
    result = torch.zeros(len(a), len(b), dtype=a.dtype)
    for i, row in enumerate(a):
        for j, other in enumerate(b):
            result[i, j] = (row * other).sum()
    return result


pairwise_dot = {
    "two loops": dots_by_loops,
    "einsum": lambda a, b: torch.einsum("nd,md->nm", a, b),
    "broadcasting and a sum": lambda a, b: (a[:, None] * b[None]).sum(dim=-1),
    "torch.matmul and .T": lambda a, b: torch.matmul(a, b.T),
    "turned round twice": lambda a, b: (b @ a.T).T,
}


def averages_by_loop(weights, rows):
    flat_weights, flat_rows = (
        weights.flatten(0, -3) if weights.dim() > 2 else weights[None],
        rows.reshape(-1, *rows.shape[-2:]),
    )
    results = []
    for w, r in zip(flat_weights, flat_rows):
        results.append(torch.stack([sum(share * row for share, row in zip(line, r)) / sum(line) for line in w]))
    return torch.stack(results).reshape(*weights.shape[:-1], rows.shape[-1])


def averages_in_place(weights, rows):
    shares = weights.clone()
    shares /= shares.sum(dim=-1, keepdim=True)
    return shares.matmul(rows)


weighted_rows = {
    "loops over everything": averages_by_loop,
    "shares made in place, on a copy": averages_in_place,
    "einsum, divided afterwards": lambda weights, rows: (
        torch.einsum("...mn,...nd->...md", weights, rows) / weights.sum(-1).unsqueeze(-1)
    ),
    "in float64": lambda weights, rows: (lambda w: (w / w.sum(-1, keepdim=True)) @ rows.double())(weights.double()),
}

read_shape = {
    "as lists": lambda: [[2, 3, 5], [2, 6, 3, 8], [2, 3, 6, 7], [4], [5, 3]],
    "asked of torch": lambda: (
        torch.einsum("bnd,de->bne", torch.ones(2, 3, 4), torch.ones(4, 5)).shape,
        torch.einsum("bhnk,bhmk->bhnm", torch.ones(2, 6, 3, 7), torch.ones(2, 6, 8, 7)).shape,
        torch.ones(2, 6, 3, 7).transpose(1, 2).shape,
        torch.ones(2, 3, 4).sum((0, 1)).shape,
        (torch.ones(5, 4) @ torch.ones(4, 3)).shape,
    ),
}
