"""Right answers of decode_cost in other styles."""


def cost_by_sums(n, d):
    def step(projected, queries, keys):
        return 4 * 2 * projected * d * d + 2 * 2 * queries * keys * d

    return (
        step(1, 1, n),
        step(n, n, n),
        sum(step(1, 1, t) for t in range(1, n + 1)),
        sum(step(t, t, t) for t in range(1, n + 1)),
    )


decode_cost = {
    "sums over the steps": cost_by_sums,
    "closed forms, as a list": lambda n, d: [
        8 * d * d + 4 * n * d,
        n * (8 * d * d + 4 * n * d),
        8 * n * d * d + 4 * d * (n * (n + 1) // 2),
        8 * d * d * (n * (n + 1) // 2) + 4 * d * (n * (n + 1) * (2 * n + 1) // 6),
    ],
}
