"""Right answers of cache_bytes in other styles."""

import math

import torch


def bytes_of_tensors(layers, h, h_kv, d, n, b, size):
    key = torch.empty(b, h_kv, n, d // h, device="meta")
    return layers * (key.numel() + key.numel()) * size


def bytes_as_a_product(layers, h, h_kv, d, n, b, size):
    everything = math.prod([2, layers, b, n, d, size])
    return everything * h_kv // h


cache_bytes = {
    "counted in tensors without memory": bytes_of_tensors,
    "per token first": lambda layers, h, h_kv, d, n, b, size: (2 * layers * h_kv * d // h * size) * n * b,
    "rounded at the end": lambda layers, h, h_kv, d, n, b, size: round(2.0 * layers * d * (h_kv / h) * n * b * size),
    "product of a list, divided last": bytes_as_a_product,
}
