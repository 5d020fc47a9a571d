"""Right answers of enc_dec_cost in other styles."""

import torch


def cost_by_products(n, m, d):
    product = lambda a, b, c: 2 * a * b * c  # noqa: E731

    def attention(queries, keys):
        scores = product(queries, d, keys) + product(queries, keys, d)
        return scores, 2 * product(queries, d, d) + 2 * product(keys, d, d)

    feed = lambda tokens: (0, product(tokens, d, 4 * d) + product(tokens, 4 * d, d))  # noqa: E731
    return {
        "encoder_self_attention": attention(m, m),
        "encoder_feed_forward": feed(m),
        "decoder_self_attention": attention(n, n),
        "cross_attention": attention(n, m),
        "decoder_feed_forward": feed(n),
    }


def cost_as_lists(n, m, d):
    rows = (
        "encoder_self_attention",
        "encoder_feed_forward",
        "decoder_self_attention",
        "cross_attention",
        "decoder_feed_forward",
    )
    scores = [4 * m**2 * d, 0.0, 4 * n**2 * d, 4 * n * m * d, 0]
    weights = [8 * m * d**2, 16 * m * d**2, 8 * n * d**2, 4 * (n + m) * d**2, 16 * n * d**2]
    return {row: [s, w] for row, s, w in zip(rows, scores, weights)}


def cost_counted(n, m, d):
    """Products of tensors without memory, counted by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted(*products):
        with FlopCounterMode(display=False) as counter:
            for a, b, c in products:
                torch.empty(a, b, device="meta") @ torch.empty(b, c, device="meta")
        return counter.get_total_flops()

    def attention(q, k):
        return counted((q, d, k), (q, k, d)), counted((q, d, d), (k, d, d), (k, d, d), (q, d, d))

    feed = lambda t: (0, counted((t, d, 4 * d), (t, 4 * d, d)))  # noqa: E731
    return {
        "encoder_self_attention": attention(m, m),
        "encoder_feed_forward": feed(m),
        "decoder_self_attention": attention(n, n),
        "cross_attention": attention(n, m),
        "decoder_feed_forward": feed(n),
    }


enc_dec_cost = {"product by product": cost_by_products, "lists": cost_as_lists, "counted by PyTorch": cost_counted}
