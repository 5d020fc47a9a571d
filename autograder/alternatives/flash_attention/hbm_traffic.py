"""Right answers of hbm_traffic in other styles."""

import torch


def standard_tensor_by_tensor(n, d, itemsize):
    q, k, v, o = (torch.empty(n, d, device="meta") for _ in range(4))
    s = p = torch.empty(n, n, device="meta")
    moved = [q, k, s] + [s, p] + [p, v, o]  # the three steps: what each reads and writes
    return sum(x.numel() for x in moved) * itemsize


def tiled_walked_through(n, d, on_chip, itemsize):
    rows, moved = on_chip // (4 * d * itemsize), 0
    for start in range(0, n, rows):
        queries = min(rows, n - start)
        moved += queries * d  # the tile of Q comes
        for first in range(0, n, rows):
            moved += 2 * min(rows, n - first) * d  # the tiles of K and V
        moved += queries * d + queries  # O and the logsumexps leave
    return moved * itemsize


def tiled_rounded_by_minus(n, d, on_chip, itemsize):
    rows = int(on_chip / itemsize / d / 4)
    return itemsize * n * (2 * d * (1 - -n // rows) + 1)


def tiled_with_divmod(n, d, on_chip, itemsize):
    full, rest = divmod(n, on_chip // (4 * d * itemsize))
    return itemsize * (2 * n * d + n + (full + (rest > 0)) * 2 * n * d)


def standard_traffic_as_a_table(n, d, itemsize):
    thin, square = (n * d, n**2)
    steps = [
        {"reads": [thin, thin], "writes": [square]},
        {"reads": [square], "writes": [square]},
        {"reads": [square, thin], "writes": [thin]},
    ]
    return itemsize * sum(sum(step["reads"]) + sum(step["writes"]) for step in steps)


def tiled_traffic_walked(n, d, on_chip, itemsize):
    rows = on_chip // itemsize // d // 4
    moved = 0
    start = 0
    while start < n:
        here = min(rows, n - start)
        moved += here * d
        moved += 2 * n * d
        moved += here * d + here
        start += rows
    return moved * itemsize


hbm_traffic = {
    "tensor by tensor, tile by tile": (standard_tensor_by_tensor, tiled_walked_through),
    "factored, rounded up by a minus": (lambda n, d, itemsize: 4 * n * (n + d) * itemsize, tiled_rounded_by_minus),
    "term by term, with divmod": (
        lambda n, d, itemsize: 4 * n * n * itemsize + 4 * n * d * itemsize,
        tiled_with_divmod,
    ),
    "walk simulated, table of journeys": (standard_traffic_as_a_table, tiled_traffic_walked),
}
