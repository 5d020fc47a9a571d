"""Right answers of residual in other styles."""

from itertools import accumulate

import torch


def stream_in_one_tensor(x, layers):
    out = x.new_empty(len(layers) + 1, *x.shape)
    out[0] = x
    for index, layer in enumerate(layers):
        x = x + layer(x)  # not out[index]: no layer reads from a tensor that is written to later
        out[index + 1] = x
    return out


def stream_as_a_sum(x, layers):
    states, total = [x], x
    for layer in layers:
        total = total + layer(total)
        states += [total]
    return torch.cat([state[None] for state in states])


def stream_by_recursion(x, layers):
    if len(layers) == 0:
        return x.unsqueeze(0)
    first, *others = layers
    return torch.cat([x[None], stream_by_recursion(x + first(x), others)], dim=0)


residual = {
    "one tensor filled": stream_in_one_tensor,
    "a running sum": stream_as_a_sum,
    "itertools": lambda x, layers: torch.stack(
        list(accumulate(layers, lambda stream, f: stream + f(stream), initial=x))
    ),
    "a recursion": stream_by_recursion,
}
