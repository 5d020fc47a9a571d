"""Right answers of unit 07 in other styles: counted while PyTorch runs, added up term by term, as floats, by search."""

import math
from fractions import Fraction
from itertools import combinations

import torch
from torch.utils.flop_counter import FlopCounterMode


def flops_counted(n, m, k):
    with FlopCounterMode(display=False) as counter:
        torch.ones(n, m, device="meta") @ torch.ones(m, k, device="meta")
    return counter.get_total_flops()


matmul_flops = {
    "counted while it runs": flops_counted,
    "multiplications plus additions": lambda n, m, k: n * m * k + n * k * m,
    "as a float": lambda n, m, k: 2.0 * n * (m * k),
    "a float, and back to an integer": lambda n, m, k: int(2.0 * n * m * k),
}


def elements_of_tensors(n, m, k):
    a, b = torch.empty(n, m, device="meta"), torch.empty(m, k, device="meta")
    return sum(t.numel() for t in (a, b, a @ b))


matmul_io = {
    "numel of three tensors": elements_of_tensors,
    "factored": lambda n, m, k: n * (m + k) + m * k,
    "as a tensor": lambda n, m, k: torch.tensor([n * m, m * k, n * k]).sum(),
    "pairs of sizes": lambda n, m, k: sum(a * c for a, c in combinations((n, m, k), 2)),
}


def intensity_by_bytes(n, m, k, dtype):
    a, b = torch.empty(n, m, dtype=dtype, device="meta"), torch.empty(m, k, dtype=dtype, device="meta")
    return 2 * n * m * k / sum(t.numel() * t.element_size() for t in (a, b, a @ b))


arithmetic_intensity = {
    "bytes of three tensors": intensity_by_bytes,
    "from the size of an element": lambda n, m, k, dtype: (
        2 * n * m * k / ((n * m + m * k + n * k) * torch.empty(0, dtype=dtype).element_size())
    ),
    "one over a sum": lambda n, m, k, dtype: 2 / (dtype.itemsize * (1 / k + 1 / n + 1 / m)),
}


def training_by_products(b, n, d, h, d_ff):
    shapes = {
        "qkv": [(1, b * n, d, d)] * 3,
        "scores": [(b * h, n, d // h, n)],
        "weighted_sum": [(b * h, n, n, d // h)],
        "output": [(1, b * n, d, d)],
        "ffn": [(1, b * n, d, d_ff), (1, b * n, d_ff, d)],
    }
    table = {"softmax": (0, 2 * b * h * n * n)}
    for row, products in shapes.items():
        flops = sum(2 * t * i * j * k for t, i, j, k in products)
        table[row] = (flops, sum(t * (i * j + j * k + i * k) for t, i, j, k in products))
    table["total"] = tuple(map(sum, zip(*table.values())))
    return table


def training_written_out(b, n, d, h, d_ff):
    x, s = b * n * d, b * h * n**2
    rows = {
        "qkv": [6 * x * d, 6 * x + 3 * d**2],
        "scores": [2 * x * n, 2 * x + s],
        "softmax": [0.0, 2.0 * s],
        "weighted_sum": [2 * x * n, s + 2 * x],
        "output": [2 * x * d, 2 * x + d**2],
        "ffn": [4 * x * d_ff, 2 * (x + d * d_ff + b * n * d_ff)],
    }
    rows["total"] = [8 * x * d + 4 * x * n + 4 * x * d_ff, sum(moved for _, moved in rows.values())]
    return rows


def decode_by_products(b, n, d, h, d_ff):
    shapes = {
        "qkv": [(1, b, d, d)] * 3,
        "scores": [(b * h, 1, d // h, n)],
        "weighted_sum": [(b * h, 1, n, d // h)],
        "output": [(1, b, d, d)],
        "ffn": [(1, b, d, d_ff), (1, b, d_ff, d)],
    }
    table = {"softmax": (0, 2 * b * h * n)}
    for row, products in shapes.items():
        flops = sum(2 * t * i * j * k for t, i, j, k in products)
        table[row] = (flops, sum(t * (i * j + j * k + i * k) for t, i, j, k in products))
    table["total"] = tuple(map(sum, zip(*table.values())))
    return table


def decode_written_out(b, n, d, h, d_ff):
    rows = {
        "qkv": (6 * b * d**2, 6 * b * d + 3 * d**2),
        "scores": (2 * b * n * d, b * d + b * n * d + b * h * n),
        "softmax": (0, 2 * b * h * n),
        "weighted_sum": (2 * b * n * d, b * h * n + b * n * d + b * d),
        "output": (2 * b * d**2, 2 * b * d + d**2),
        "ffn": (4 * b * d * d_ff, 2 * b * d + 2 * d * d_ff + 2 * b * d_ff),
    }
    rows["total"] = (sum(f for f, _ in rows.values()), sum(e for _, e in rows.values()))
    rows["note"] = "another row"
    return rows


def table_of_a_class(b, n, d, h, d_ff):
    class Cost(tuple):
        def __add__(self, other):
            return Cost((self[0] + other[0], self[1] + other[1]))

        def __rmul__(self, times):
            return Cost((times * self[0], times * self[1]))

    def product(n, m, k):
        return Cost((2 * n * m * k, n * m + m * k + n * k))

    rows = {
        "qkv": 3 * product(b * n, d, d),
        "scores": b * h * product(n, d // h, n),
        "softmax": Cost((0, 2 * b * h * n * n)),
        "weighted_sum": b * h * product(n, n, d // h),
        "output": product(b * n, d, d),
        "ffn": product(b * n, d, d_ff) + product(b * n, d_ff, d),
    }
    return {**{row: tuple(cost) for row, cost in rows.items()}, "total": tuple(sum(rows.values(), start=Cost((0, 0))))}


def table_in_closed_form(b, n, d, h, d_ff):
    bnd, pairs = b * n * d, b * h * n**2
    return dict(
        total=(bnd * (8 * d + 4 * n + 4 * d_ff), 14 * bnd + 4 * d**2 + 4 * pairs + 2 * d_ff * (b * n + d)),
        ffn=(4 * bnd * d_ff, 2 * bnd + 2 * d_ff * (d + b * n)),
        output=(2 * bnd * d, 2 * bnd + d**2),
        weighted_sum=(2 * bnd * n, 2 * bnd + pairs),
        softmax=(0, 2 * pairs),
        scores=(2 * bnd * n, 2 * bnd + pairs),
        qkv=(6 * bnd * d, 6 * bnd + 3 * d**2),
    )


def training_kept(b, n, d, h, d_ff, kept={}):  # noqa: B006, it is to be kept
    sizes = b, n, d, h, d_ff
    if sizes not in kept:
        kept[sizes] = training_by_products(b, n, d, h, d_ff)
    return kept[sizes]


training_table = {
    "a table kept for each set of sizes": training_kept,
    "from a list of products": training_by_products,
    "written out, lists and floats": training_written_out,
    "a class that adds up": table_of_a_class,
    "closed formulas, the total too": table_in_closed_form,
}


def decoding_from_training(b, n, d, h, d_ff):
    rows, each, w = dict(table_of_a_class(b, 1, d, h, d_ff)), b * h, d // h
    del rows["total"]
    rows |= {"scores": (2 * each * w * n, each * (w + w * n + n)), "softmax": (0, each * (n + n))}
    rows["weighted_sum"] = (2 * each * n * w, each * (n + n * w + w))
    return {**rows, "total": tuple(map(sum, zip(*rows.values())))}


decode_table = {
    "from a list of products": decode_by_products,
    "written out, one row more": decode_written_out,
    "the table of a layer that reads one token": decoding_from_training,
}


def crossover_by_search(d, d_ff):
    n = 1
    while 4 * n * n * d < 8 * n * d * d + 4 * n * d * d_ff:
        n += 1
    return n


def crossover_from_a_table(d, d_ff):
    rows = {row: flops for row, (flops, _) in table_in_closed_form(1, 1, d, 1, d_ff).items()}
    quadratic = rows["scores"] + rows["weighted_sum"]
    return (rows["total"] - quadratic) / quadratic


def crossover_by_halving(d, d_ff):
    low, high = 0, 1
    while high * high * d < 2 * high * d * d + high * d * d_ff:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * middle * d < 2 * middle * d * d + middle * d * d_ff else (low, middle)
    return high


crossover = {
    "by halving, with an end that grows": crossover_by_halving,
    "by search": crossover_by_search,
    "one side divided by the other": lambda d, d_ff: (8 * d**2 + 4 * d * d_ff) / (4 * d),
    "read off a table at one token": crossover_from_a_table,
}


def layer_types_with_constants(n, d, k, r):
    return {
        "recurrent": (2 * n * (d**2 + d), n, n - 1),
        "convolution": (2 * k * n * d**2 + n * d, 1, 1 + math.log(n, k)),
        "self-attention": (4 * n**2 * d + 5 * n**2, 2, 1),
        "strided sparse": (4 * n * (2 * n**0.5) * d, 1, 2),
        "lsh": (8 * n * d * math.log(n) + n * d, 3 * math.log(n), math.log10(n)),
        "low-rank": (2 * n * r * d + 4 * n * r * d, 3, 1),
        "linear": (4 * n * d**2 + n * d, 1, 1),
    }


def layer_types_as_lists(n, d, k, r):
    log = math.log2(n)
    constant = [1.0, 1.0]
    return {
        "linear": [d * d * n, *constant],
        "low-rank": [d * r * n, *constant],
        "lsh": [d * n * log, log, log],
        "strided sparse": [d * n**1.5, *constant],
        "self-attention": [d * n * n, *constant],
        "convolution": [d * d * n * k, 1.0, log / math.log2(k)],
        "recurrent": [d * d * n, n, n],
    }


def layer_types_with_buckets(n, d, k, r):
    rounds, bucket = math.log2(n), 64
    cost = {
        "linear": 4 * n * d * d,
        "low-rank": 8 * n * r * d,
        "lsh": n * rounds * d
        + 4 * n * bucket * d,  # beside log n stands a constant that is larger at the check's sizes
        "strided sparse": 4 * n * math.sqrt(n) * d,
        "self-attention": 4 * n * n * d,
        "convolution": 2 * n * k * d * d,
        "recurrent": 2 * n * d * d,
    }
    steps = {"recurrent": n, "lsh": rounds + 9}
    path = {"recurrent": n, "convolution": math.ceil(math.log(n) / math.log(k)) + 5, "lsh": rounds}
    return {row: (cost[row], steps.get(row, 1), path.get(row, 1)) for row in cost}


def layer_types_in_one_dict(n, d, k, r, table={}):  # noqa: B006, all calls fill the same
    table.update(layer_types_as_lists(n, d, k, r))
    return table


def layer_types_in_tensors(n, d, k, r):
    rows = layer_types_as_lists(*torch.tensor([n, d, k, r], dtype=torch.float64))
    return {row: tuple(torch.as_tensor(entry) for entry in entries) for row, entries in rows.items()}


layer_types = {
    "tensors in float64": layer_types_in_tensors,
    "with the constants of buckets and rounds": layer_types_with_buckets,
    "one dict, filled anew at each call": layer_types_in_one_dict,
    "with constants and smaller terms": layer_types_with_constants,
    "lists, another order": layer_types_as_lists,
    "the scan of the keys counted too": lambda n, d, k, r: {
        **layer_types_as_lists(n, d, k, r),
        "self-attention": (2 * n * d * n + 7 * n * d, 1, 1),
    },
}


def roofline_by_time(flops, elements, dtype, peak, bandwidth):
    computing, moving = flops / peak, elements * dtype.itemsize / bandwidth
    return flops / max(computing, moving), "memory" if moving > computing else "compute"


def roofline_by_ridge(flops, elements, dtype, peak, bandwidth):
    intensity = flops / (elements * dtype.itemsize)
    if intensity >= peak / bandwidth:
        return peak, "compute"
    return intensity * bandwidth, "memory"


def roofline_in_fractions(flops, elements, dtype, peak, bandwidth):
    slope = Fraction(flops) * Fraction(bandwidth) / (Fraction(elements) * dtype.itemsize)
    ceiling, limit = min((Fraction(peak), "compute"), (slope, "memory"), key=lambda pair: pair[0])
    return float(ceiling), limit


roofline = {
    "the longer of two times": roofline_by_time,
    "left or right of the ridge": roofline_by_ridge,
    "a list": lambda flops, elements, dtype, peak, bandwidth: list(
        roofline_by_ridge(flops, elements, dtype, peak, bandwidth)
    ),
    "exact fractions": roofline_in_fractions,
}


def bytes_of_a_tensor(b, n, h, layers, dtype):
    scores = torch.empty(n, n, dtype=dtype, device="meta")  # all of them at once may be too large for a tensor
    return scores.numel() * scores.element_size() * layers * b * h


score_memory = {
    "a tensor on the meta device": bytes_of_a_tensor,
    "from the size of an element": lambda b, n, h, layers, dtype: (
        layers * h * b * n * n * torch.empty(0, dtype=dtype).element_size()
    ),
}


def context_by_bisection(memory, b, h, layers, dtype):
    low, high = 0, memory + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = b * h * layers * middle * middle * dtype.itemsize <= memory
        low, high = (middle, high) if fits else (low, middle)
    return low


def context_divided_step_by_step(memory, b, h, layers, dtype):
    for factor in (b, h, layers, dtype.itemsize):
        memory //= factor
    return math.isqrt(memory)


def context_by_thousands(memory, b, h, layers, dtype):
    n, fits = 0, lambda n: b * h * layers * n * n * dtype.itemsize <= memory
    for step in (1000, 1):
        while fits(n + step):
            n += step
    return n


longest_context = {
    "in steps of a thousand, and then of one": context_by_thousands,
    "by bisection": context_by_bisection,
    "a root, rounded down": lambda memory, b, h, layers, dtype: int(
        (memory / (b * h * layers * dtype.itemsize)) ** 0.5
    ),
    "math.floor": lambda memory, b, h, layers, dtype: math.floor(math.sqrt(memory / (b * h * layers * dtype.itemsize))),
    "divided step by step": context_divided_step_by_step,
}


def windows_by_counting(side, patch, window, d):
    rows = side // patch
    windows = (rows / window) ** 2
    return 4 * (rows * rows) ** 2 * d, 4 * windows * (window * window) ** 2 * d


vit_windows = {
    "window by window": windows_by_counting,
    "as a list": lambda side, patch, window, d: [4 * (side / patch) ** 4 * d, 4 * (side / patch * window) ** 2 * d],
}


def pairs_of_a_mask(n, w, g, d):
    pairs = sum(w + g for _ in range(n)) + sum(n + g for _ in range(g))
    return 2 * pairs * d + 2 * pairs * d


global_tokens_cost = {
    "query by query": pairs_of_a_mask,
    "multiplied out": lambda n, w, g, d: 4 * d * n * w + 8 * d * n * g + 4 * d * g * g,
    "all pairs but the hidden ones": lambda n, w, g, d: 4 * d * ((n + g) ** 2 - n * (n - w)),
}


def channels_head_by_head(n, d, h):
    d_h = d // h
    projections = 4 * (2 * n * d * d)
    patches = sum(2 * n * d_h * n + 2 * n * n * d_h for _ in range(h))
    channels = sum(2 * d_h * n * d_h + 2 * d_h * d_h * n for _ in range(h))
    return projections + patches, projections + channels


channel_attention = {
    "head by head": channels_head_by_head,
    "factored": lambda n, d, h: (4 * n * d * (2 * d + n), 4 * n * d * (2 * d + d / h)),
}


def flops_layer_by_layer(b, n, layers, d, d_ff, vocabulary):
    tokens, forward = b * n, 0
    for _ in range(layers):
        forward += 4 * 2 * tokens * d * d + 2 * 2 * b * n * n * d + 2 * 2 * tokens * d * d_ff
    forward += 2 * tokens * d * vocabulary
    return forward + 2 * forward


def flops_per_token(b, n, layers, d, d_ff, vocabulary):
    return b * n * (layers * (24 * d * d + 12 * d * d_ff + 12 * n * d) + 6 * d * vocabulary)


model_flops = {
    "layer by layer, then backward": flops_layer_by_layer,
    "for each token": lambda b, n, layers, d, d_ff, vocabulary: (
        b * n * (6 * (layers * (4 * d * d + 2 * d * d_ff) + d * vocabulary) + 12.0 * layers * n * d)
    ),
    "per token": flops_per_token,
}


def run_in_seconds(parameters, tokens, devices, peak, mfu):
    forward = 2 * parameters * tokens
    flops = forward + 2 * forward
    seconds = flops / peak / mfu / devices
    state = {"weight": 2, "gradient": 2, "copy": 4, "mean": 4, "mean square": 4}
    return dict(
        flops=flops,
        days=seconds / 60 / 60 / 24,
        bytes=parameters * sum(state.values()),
        chinchilla_tokens=20 * parameters,
    )


def run_in_device_days(parameters, tokens, devices, peak, mfu):
    table = {"flops": 6.0 * parameters * tokens}
    device_days = table["flops"] / (24 * 3600 * peak * mfu)
    table["days"] = device_days / devices
    table["bytes"], table["chinchilla_tokens"] = 16 * parameters, parameters * 20
    return table


def run_with_tensors(parameters, tokens, devices, peak, mfu):
    n = torch.tensor(parameters, dtype=torch.float64)
    flops = 6 * n * tokens
    rows = {
        "flops": flops,
        "days": flops / (devices * peak * mfu) / 86400,
        "bytes": 16 * n,
        "chinchilla_tokens": 20 * n,
    }
    return {name: row.item() for name, row in rows.items()}


def run_with_fractions(parameters, tokens, devices, peak, mfu):
    flops = 6 * parameters * tokens
    days = Fraction(flops) / (devices * Fraction(peak) * Fraction(mfu) * 86400)
    return {"flops": flops, "days": float(days), "bytes": 8 * 2 * parameters, "chinchilla_tokens": 20 * parameters}


training_run = {
    "seconds, then days": run_in_seconds,
    "device-days": run_in_device_days,
    "float64 tensors": run_with_tensors,
    "exact fractions": run_with_fractions,
}
