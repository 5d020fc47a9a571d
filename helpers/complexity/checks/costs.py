"""Checks of what matrix products and whole layers cost: FLOPs, elements moved, and where one part passes another."""

import torch

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.compare import agree
from helpers.engine.table_check import Table, column_sums, in_rows, in_some_row

from .. import costs

__all__ = [
    "arithmetic_intensity",
    "crossover",
    "decode_table",
    "matmul_flops",
    "matmul_io",
    "model_flops",
    "training_table",
]

# --------------------------------------------------------------------------------------------------------- one product


def wraps(reference):
    """For `recognise`: the right number but for multiples of 2⁶⁴, as a tensor of whole numbers gives where it overflows."""

    def wrapped(seen):
        off = seen.output - reference(*seen.args)
        return isinstance(off, int) and off != 0 and off % 2**64 == 0

    return wrapped


PRODUCTS = (random_case(n=2, m=3, k=4), random_case(n=64, m=7, k=1), random_case(n=100, m=300, k=50))

matmul_flops = Check(
    reference=costs.matmul_flops,
    cases=[*PRODUCTS, random_case(n=3_000_017, m=4_000_037, k=5_000_011, label="large: every digit counts")],
    within=EXACT,
    misconceptions=[
        Misconception(
            "n·m·k without the 2", lambda n, m, k: n * m * k,
            "n·m·k counts the multiplications. Every one of them is followed by an addition: one multiply-add is 2 FLOPs.",
        ),
        Misconception(
            "m − 1 additions", lambda n, m, k: n * k * (2 * m - 1),
            "Adding m products takes only m − 1 additions. But hardware makers and PyTorch's counter count m multiply-adds, 2m FLOPs, "
            "and so does this unit.",
        ),
        Misconception(
            "one multiply-add for each element of the result", lambda n, m, k: 2 * n * k,
            "Each of the n·k results is a dot product of length m: m multiply-adds, 2m FLOPs.",
        ),
        Misconception(
            "one multiply-add for each element of the operands", lambda n, m, k: 2 * (n * m + m * k),
            "An element of the first matrix is used k times, once for each column of the second. FLOPs count uses, not elements.",
        ),
        Misconception(
            "m and k mixed up", lambda n, m, k: 2 * n * k * k,
            "There are n·k results, and the dot product behind each runs over the m that the two matrices share.",
        ),
        Misconception(
            "a count that is rounded by float32", lambda n, m, k: int(torch.tensor([2.0, n, m, k]).prod()),
            "float32 keeps 24 bits, about 7 digits. A count of operations has more: multiply Python's own integers.",
        ),
        Misconception(
            "a count that overflows 64 bits", lambda n, m, k: int(torch.tensor([2, n, m, k]).prod()),
            "A tensor of whole numbers has 64 bits: beyond 2⁶³ − 1 it starts again from −2⁶³, without an error. Python's own integers have no limit.",
            wraps(costs.matmul_flops),
        ),
        Misconception(
            "one dot product", lambda n, m, k: 2 * m,
            "That is one entry of the result. There are n·k of them.",
        ),
        Misconception(
            "the three sizes added", lambda n, m, k: 2 * (n + m + k),
            "Each of n rows meets each of k columns, over m terms: the sizes are multiplied.",
        ),
    ],
)  # fmt: skip

matmul_io = Check(
    reference=costs.matmul_io,
    cases=[*PRODUCTS, random_case(n=6, m=6, k=6), random_case(n=12289, m=4097, k=50257, label="large: every digit counts")],
    within=EXACT,
    misconceptions=[
        Misconception(
            "n·m counted twice", lambda n, m, k: n * m + m * k + n * m,
            "The third matrix is the result. Its shape is (n, k), not that of the first operand.",
        ),
        Misconception(
            "m·k counted twice", lambda n, m, k: n * m + m * k + m * k,
            "The third matrix is the result. Its shape is (n, k), not that of the second operand.",
        ),
        Misconception(
            "the result not written", lambda n, m, k: n * m + m * k,
            "You have read both operands. The result has to go somewhere too: n·k elements are written.",
        ),
        Misconception(
            "the result read as well", lambda n, m, k: n * m + m * k + 2 * n * k,
            "The sums are built up on the chip and written once, when they are complete. Nothing has to be read there first.",
        ),
        Misconception(
            "operands fetched for every multiply-add", lambda n, m, k: 2 * n * m * k + n * k,
            "That is what happens without any memory on the chip. Here every element is fetched once and then used from "
            "the chip as often as needed.",
        ),
        Misconception(
            "the sizes of the three matrices multiplied", lambda n, m, k: (n * m) * (m * k) * (n * k),
            "Three matrices move, one after the other: add their sizes.",
        ),
        Misconception(
            "the second matrix fetched for every row", lambda n, m, k: n * (m + m * k + k),
            "Each operand is read once for the whole product. All n rows use the second matrix while it is on the chip.",
        ),
        Misconception(
            "the first matrix fetched for every column", lambda n, m, k: k * (n * m + m + n),
            "Each operand is read once for the whole product. All k columns use the first matrix while it is on the chip.",
        ),
        Misconception(
            "only what is written", lambda n, m, k: n * k,
            "n·k elements are written. The two operands must be read first.",
        ),
        Misconception(
            "equal sizes counted once", lambda n, m, k: sum({n * m, m * k, n * k}),
            "Matrices of equal size are still three matrices. A set keeps equal numbers only once: add up a list.",
        ),
        Misconception(
            "FLOPs instead of elements", lambda n, m, k: 2 * n * m * k,
            "That is the arithmetic of 7.1. Here the question is how many numbers travel: the sizes of three matrices.",
        ),
    ],
)  # fmt: skip


def _intensity(n, m, k, size, flops=2.0):
    return flops * n * m * k / ((n * m + m * k + n * k) * size)


def _result_in_float32(n, m, k, dtype):
    return 2 * n * m * k / ((n * m + m * k) * dtype.itemsize + 4 * n * k)


def _in_float32(n, m, k, dtype):
    return (torch.tensor(2.0 * n * m * k) / ((n * m + m * k + n * k) * dtype.itemsize)).item()


def _near_in_float32(seen):
    """A number of float32 that is right to its seven digits. (A decimal that was rounded is none of its numbers.)"""
    right = costs.arithmetic_intensity(*seen.args)
    return abs(seen.output - right) < 2**-21 * right and torch.tensor(seen.output).item() == seen.output


def _by_a_list(n, m, k, dtype):
    sizes = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}
    return _intensity(n, m, k, sizes[dtype])


arithmetic_intensity = Check(
    reference=costs.arithmetic_intensity,
    cases=[
        explicit_case("float32, 64×64×64", 64, 64, 64, torch.float32),
        explicit_case("float16, 100×30×50", 100, 30, 50, torch.float16),
        explicit_case("bfloat16, one row: 1×512×300", 1, 512, 300, torch.bfloat16),
        explicit_case("float64, 7×9×11", 7, 9, 11, torch.float64),
        explicit_case("int8, 90×70×30", 90, 70, 30, torch.int8),
        explicit_case("int32, 20×70×15", 20, 70, 15, torch.int32),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "per element instead of per byte", lambda n, m, k, dtype: _intensity(n, m, k, 1),
            "Divide by bytes, not by elements. A float32 element has 4 bytes: `dtype.itemsize`.",
        ),
        Misconception(
            "bits instead of bytes", lambda n, m, k, dtype: _intensity(n, m, k, 8 * dtype.itemsize),
            "float16 has 16 bits, and a byte is 8 of them.",
        ),
        Misconception(
            "4 bytes whatever the dtype", lambda n, m, k, dtype: _intensity(n, m, k, 4),
            "The same product moves half as many bytes in float16 as in float32. Ask the dtype for its size.",
        ),
        Misconception(
            "bytes per FLOP", lambda n, m, k, dtype: 1 / _intensity(n, m, k, dtype.itemsize),
            "Intensity says how much arithmetic is done for each byte: FLOPs divided by bytes. You have divided the other way round.",
        ),
        Misconception(
            "no 2 in the FLOPs", lambda n, m, k, dtype: _intensity(n, m, k, dtype.itemsize, flops=1.0),
            "One multiply-add is 2 FLOPs: take them from your `matmul_flops`.",
        ),
        Misconception(
            "the result not written", lambda n, m, k, dtype: 2 * n * m * k / ((n * m + m * k) * dtype.itemsize),
            "Three matrices move: two are read and one is written.",
        ),
        Misconception(
            "multiplied by the bytes", lambda n, m, k, dtype: _intensity(n, m, k, 1 / dtype.itemsize),
            "Larger elements mean more bytes for the same FLOPs, so a lower intensity: divide by the size of an element.",
        ),
        Misconception(
            "a result in float32 whatever the dtype",
            _result_in_float32,
            "Here the result has the dtype of its operands, so all three matrices have elements of the same size.",
            lambda seen: agree(seen.output, _result_in_float32(*seen.args), EXACT),
        ),
        Misconception(
            "4 bytes or 2", lambda n, m, k, dtype: _intensity(n, m, k, 4 if dtype == torch.float32 else 2),
            "There are more sizes than two: float64 has 8 bytes and int8 has 1. `dtype.itemsize` knows all of them.",
        ),
        Misconception(
            "an incomplete list of dtypes", _by_a_list,
            "The dtype may be any, and your list doesn't have all of them. `dtype.itemsize` works for all.",
            raises="KeyError",
        ),
        Misconception(
            "rounded to two digits", lambda n, m, k, dtype: round(_intensity(n, m, k, dtype.itemsize), 2),
            "The 0.46 in the example is rounded for reading. Return the number unrounded.",
        ),
        Misconception(
            "rounded down to a whole number", lambda n, m, k, dtype: _intensity(n, m, k, dtype.itemsize) // 1,
            "An intensity is a ratio, and often below 1. `//` throws away what comes after the point.",
        ),
        Misconception(
            "only floating-point dtypes", lambda n, m, k, dtype: _intensity(n, m, k, torch.finfo(dtype).bits // 8),
            "`torch.finfo` knows only floating-point dtypes, and weights may be int8. `dtype.itemsize` works for all.",
            raises="TypeError",
        ),
        Misconception(
            "bits from torch.finfo", lambda n, m, k, dtype: _intensity(n, m, k, torch.finfo(dtype).bits),
            "`torch.finfo(dtype).bits` is in bits, 8 to a byte, and it knows only floating-point dtypes. `dtype.itemsize` is in bytes, for all.",
            raises="TypeError",
        ),
        Misconception(
            "a division in float32", _in_float32,
            "A tensor of floats is float32 where nobody says otherwise, and that keeps about 7 digits. Divide Python's own numbers, which keep 16.",
            _near_in_float32,
        ),
        Misconception(
            "elements per FLOP", lambda n, m, k, dtype: 1 / _intensity(n, m, k, 1),
            "Intensity is FLOPs divided by bytes. You have divided elements by FLOPs.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- the tables


def _summed(rows):
    return {**rows, "total": (sum(row[0] for row in rows.values()), sum(row[1] for row in rows.values()))}


def _training(b, n, d, h, d_ff, *, madd=2, heads=None, wide=1, three=3, weights=1, written=1, soft=2, powers=0):
    """The training table with one thing or another done wrong."""
    heads = h if heads is None else heads  # of the score matrices in memory
    x, s, w = b * n * d, b * heads * n * n, weights * d * d
    mix = madd * b * n * n * d * wide
    return _summed({
        "qkv": (three * madd * x * d, three * (x + w + written * x)),
        "scores": (mix, 2 * x + written * s),
        "softmax": (powers * b * h * n * n, soft * s),
        "weighted_sum": (mix, s + x + written * x),
        "output": (madd * x * d, x + w + written * x),
        "ffn": (2 * madd * x * d_ff, x + b * n * d_ff + 2 * weights * d * d_ff + written * (x + b * n * d_ff)),
    })  # fmt: skip


def _no_two(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, madd=1)


def _no_heads(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, heads=1)


def _full_width_heads(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, wide=h)


def _width_of_a_head(b, n, d, h, d_ff):
    return _training(b, n, d, d // h, d_ff)


def _usual_ffn(b, n, d, h, d_ff):
    return _training(b, n, d, h, 4 * d)


def _one_projection(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, three=1)


def _weights_for_each_sequence(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, weights=b)


def _no_weights(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, weights=0)


def _nothing_written(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, written=0, soft=1)


def _softmax_once(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, soft=1)


def _softmax_flops(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff, powers=3)


def _swapped(b, n, d, h, d_ff):
    right = _training(b, n, d, h, d_ff)
    square, narrow = 2 * b * n * n * d, 2 * b * n * d * d
    return _summed({
        "qkv": (3 * square, right["qkv"][1]), "scores": (narrow, right["scores"][1]), "softmax": right["softmax"],
        "weighted_sum": (narrow, right["weighted_sum"][1]), "output": (square, right["output"][1]), "ffn": right["ffn"],
    })  # fmt: skip


def _one_layer_ffn(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    rows.pop("total")
    return _summed({**rows, "ffn": (2 * b * n * d * d_ff, b * n * d + d * d_ff + b * n * d_ff)})


def _hidden_layer_for_free(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    rows.pop("total")
    return _summed({**rows, "ffn": (rows["ffn"][0], 2 * b * n * d + 2 * d * d_ff)})


def _with_backward(b, n, d, h, d_ff):
    return {row: (3 * flops, moved) for row, (flops, moved) in _training(b, n, d, h, d_ff).items()}


def _with(rows, **other):
    """A table with other rows in place of its own, and the total of all."""
    return _summed({row: other.get(row, rows[row]) for row in rows if row != "total"})


def _one_wide_product(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], 4 * b * n * d + 3 * d * d))


def _scores_of_one_head(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, scores=(rows["scores"][0], 2 * b * n * d + b * n * n))


def _mixed_by_one_head(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, weighted_sum=(rows["weighted_sum"][0], 2 * b * n * d + b * n * n))


def _keys_of_one_head(b, n, d, h, d_ff):
    rows, less = _training(b, n, d, h, d_ff), b * n * d - n * d // h
    return _with(rows, **{row: (rows[row][0], rows[row][1] - less) for row in ("scores", "weighted_sum")})


def _hidden_layer_once(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, ffn=(rows["ffn"][0], 2 * b * n * d + 2 * d * d_ff + b * n * d_ff))


def _activation_apart(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, ffn=(rows["ffn"][0], rows["ffn"][1] + 2 * b * n * d_ff))


def _visible_pairs(b, n, d, h, d_ff):
    rows, mix = _training(b, n, d, h, d_ff), b * n * (n + 1) * d
    return _with(rows, scores=(mix, rows["scores"][1]), weighted_sum=(mix, rows["weighted_sum"][1]))


def _heads_copied(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, output=(rows["output"][0], rows["output"][1] + 2 * b * n * d))


def _every_head_projected(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], 3 * (b * n * d * h + d * d + b * n * d)))


def _total_without_softmax(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (rows["total"][0], rows["total"][1] - rows["softmax"][1])}


def _total_of_totals(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (2 * rows["total"][0], 2 * rows["total"][1])}


def _total_without_ffn(b, n, d, h, d_ff):
    rows = _training(b, n, d, h, d_ff)
    return {**rows, "total": (rows["total"][0] - rows["ffn"][0], rows["total"][1] - rows["ffn"][1])}


PARTS = ("FLOPs", "elements moved")


CHANGES = "the same sizes, another table"


def _kept(table, *sizes):
    """A table after the function has been called for a larger layer: a later call leaves it as it is. Beside its rows stands CHANGES
    if the same sizes give other rows then, be it in the last digit: sums that go on are huge after a huge layer."""
    rows = table(*sizes)
    table(*(2 * size for size in sizes))
    rows = dict(rows) if isinstance(rows, dict) else rows
    return {**rows, CHANGES: True} if isinstance(rows, dict) and repr(table(*sizes)) != repr(rows) else rows


def _doubled(table):
    return lambda *sizes: table(*(2 * size for size in sizes))


def _one_dict(table):
    """The same dict at every call: a later one changes what an earlier one has returned."""
    rows = {}

    def filled(*sizes):
        rows.update(table(*sizes))
        return rows

    return filled


def _sums_kept(table):
    """The total goes on from that of the call before."""
    sums = [0, 0]

    def summed(*sizes):
        rows = table(*sizes)
        sums[:] = (old + new for old, new in zip(sums, rows["total"], strict=True))
        return {**rows, "total": tuple(sums)}

    return summed


def _kept_sums(table):
    return Misconception(
        "sums that go on from call to call", _sums_kept(table),
        "Called twice with the same sizes, your function returns two different tables: it adds to sums of the earlier call. Start every dict, "
        "list and sum inside the function.",
        lambda seen: CHANGES in seen.output,
    )  # fmt: skip


ONE_DICT = (
    "Your function hands out the same dict at every call. The next call (here: all sizes doubled) changes the table that an earlier one returned. Make a "
    "new dict inside the function."
)

LAYERS = [
    random_case(b=2, n=5, d=12, h=3, d_ff=40), random_case(b=3, n=50, d=8, h=2, d_ff=20), random_case(b=5, n=7, d=32, h=8, d_ff=128),
    random_case(b=4, n=5, d=12, h=3, d_ff=40), random_case(b=2, n=9, d=12, h=3, d_ff=40), random_case(b=2, n=5, d=24, h=3, d_ff=40), random_case(b=2, n=5, d=12, h=4, d_ff=40),
    random_case(b=2, n=5, d=12, h=3, d_ff=30),
    random_case(b=100_003, n=3_000_000_017, d=40_000, h=8, d_ff=100_003, label="large: every digit counts"),
]  # fmt: skip

training_table = Table(
    reference=costs.training_table,
    columns=PARTS,
    follows={"total": column_sums},
    drive=_kept,
    cases=LAYERS,
    within=EXACT,
    misconceptions=[
        Misconception(
            "n·m·k without the 2", _no_two,
            "One multiply-add is 2 FLOPs, in every row.", in_rows(_no_two, "qkv"),
        ),
        Misconception(
            "score matrices without the heads", _no_heads,
            "Every head has an n × n matrix of its own: b·h·n² elements. The heads share out the width, so they don't "
            "show in the FLOPs, but each brings a whole score matrix.",
            in_rows(_no_heads, "softmax"),
        ),
        Misconception(
            "heads of full width", _full_width_heads,
            "A head works on d/h features. h heads with a dot product of length d/h each cost as much as one of length d.",
            in_rows(_full_width_heads, "scores"),
        ),
        Misconception(
            "h taken for the width of a head", _width_of_a_head,
            "h is the number of heads, and each is d/h wide. You have it the other way round, which is the same only where h·h = d.",
            in_rows(_width_of_a_head, "softmax"),
        ),
        Misconception(
            "4d whatever d_ff is", _usual_ffn,
            "d → 4d → d is usual, and here the hidden layer has the width `d_ff`.", in_rows(_usual_ffn, "ffn"),
        ),
        Misconception(
            "n and d swapped", _swapped,
            "A projection treats n tokens one by one, with a d × d matrix: n·d². Scores compare n tokens with n tokens, over d"
            " features: n²·d.",
            in_rows(_swapped, "output"),
        ),
        Misconception(
            "one projection instead of three", _one_projection,
            "Q, K and V are three products, each with a weight of its own, and each reads X again.",
            in_rows(_one_projection, "qkv"),
        ),
        Misconception(
            "weights read once for each sequence", _weights_for_each_sequence,
            "All b·n tokens stand below each other as one tall matrix, and go through the weight together. It is read "
            "once: that is what a batch is good for.",
            in_some_row(_weights_for_each_sequence, costs.training_table, "qkv", "output", "ffn"),
        ),
        Misconception(
            "weights that come for free", _no_weights,
            "A weight is an operand like any other, and has to be fetched: d² elements for each projection.",
            in_rows(_no_weights, "output"),
        ),
        Misconception(
            "results not written", _nothing_written,
            "Every operation writes its result, and the next one reads it from there.", in_rows(_nothing_written, "output"),
        ),
        Misconception(
            "softmax that moves its matrix once", _softmax_once,
            "The softmax reads all b·h·n² scores and writes as many weights.", in_rows(_softmax_once, "softmax"),
        ),
        Misconception(
            "FLOPs of the softmax", _softmax_flops,
            "The softmax does compute something, but here, as in PyTorch's counter, only the multiply-adds of matrix "
            "products count. Its cost shows in the other column.",
            lambda seen: bool(seen.output["softmax"][0]) and isinstance(seen.output["softmax"][0], (int, float)),
        ),
        Misconception(
            "an FFN of one product", _one_layer_ffn,
            "The FFN goes up from d to d_ff and down again: two products, with two weights.", in_rows(_one_layer_ffn, "ffn"),
        ),
        Misconception(
            "a hidden layer that moves nothing", _hidden_layer_for_free,
            "The first product of the FFN writes b·n·d_ff elements and the second reads them. With d_ff = 4d and many "
            "tokens that is most of what the FFN moves.",
            in_rows(_hidden_layer_for_free, "ffn"),
        ),
        Misconception(
            "the backward pass counted too", _with_backward,
            "This table is the forward pass. The backward pass comes in 7.14.",
            in_rows(_with_backward, "qkv"),
        ),
        Misconception(
            "a total without the FFN", _total_without_ffn,
            "The total is the sum of all rows: attention and the FFN.", in_rows(_total_without_ffn, "total"),
        ),
        Misconception(
            "one dict for all calls", _one_dict(costs.training_table), ONE_DICT,
            in_rows(_doubled(costs.training_table), "qkv", "scores", "softmax"),
        ),
        Misconception(
            "one wide product for Q, K and V", _one_wide_product,
            "*One* product with a weight of (d, 3d) would read X once. Here there are three products, and each reads X again.",
            in_rows(_one_wide_product, "qkv"),
        ),
        Misconception(
            "scores written for one head only", _scores_of_one_head,
            "Every head writes an n × n matrix of scores: b·h·n² elements.", in_rows(_scores_of_one_head, "scores"),
        ),
        Misconception(
            "keys and values of one head only", _keys_of_one_head,
            "The queries of all heads and sequences are no tall matrix that meets the same n keys: every head of every sequence has keys and values of its own, "
            "b·n·d elements of each.",
            in_rows(_keys_of_one_head, "scores"),
        ),
        Misconception(
            "attention weights read for one head only", _mixed_by_one_head,
            "Every head reads its own n × n matrix of attention weights: b·h·n² elements.",
            in_rows(_mixed_by_one_head, "weighted_sum"),
        ),
        Misconception(
            "a hidden layer that moves once", _hidden_layer_once,
            "The hidden layer of the FFN is written by the first product and read by the second: it moves twice.",
            in_rows(_hidden_layer_once, "ffn"),
        ),
        Misconception(
            "an activation that moves the hidden layer again", _activation_apart,
            "The activation works inside the first product. So the hidden layer moves only twice: written once, read once.",
            in_rows(_activation_apart, "ffn"),
        ),
        Misconception(
            "visible pairs only", _visible_pairs,
            "Under a causal mask only n(n + 1)/2 pairs are visible, but the product computes all n².",
            in_rows(_visible_pairs, "scores"),
        ),
        Misconception(
            "heads copied side by side first", _heads_copied,
            "No copy is in the list of operations. The product with W_O reads the heads where they lie.",
            in_rows(_heads_copied, "output"),
        ),
        Misconception(
            "X read again by every head", _every_head_projected,
            "The queries of all heads are one product with one d × d weight. The heads are cut out of its result.",
            in_rows(_every_head_projected, "qkv"),
        ),
        Misconception(
            "a total without the softmax", _total_without_softmax,
            "The softmax has no FLOPs, but what it moves belongs in the total.", in_rows(_total_without_softmax, "total"),
        ),
        Misconception(
            "a total that counts everything twice", _total_of_totals,
            "Your total is twice the sum of the rows above it.", in_rows(_total_of_totals, "total"),
        ),
        _kept_sums(costs.training_table),
    ],
)  # fmt: skip


def _decode(
    b, n, d, h, d_ff, *, madd=2, heads=None, seen=None, cached=None, weights=1, queries=1, projected=1, ffn_tokens=1
):
    """The decode table with one thing or another done wrong."""
    heads, seen = h if heads is None else heads, n if seen is None else seen
    cached = b * seen * d if cached is None else cached  # elements of the keys, and of the values
    x, w, s = b * d, weights * d * d, b * heads * queries * seen
    mix = madd * b * queries * seen * d
    tokens = b * ffn_tokens
    return _summed({
        "qkv": (3 * madd * projected * x * d, 3 * (2 * projected * x + w)),
        "scores": (mix, queries * x + cached + s),
        "softmax": (0, 2 * s),
        "weighted_sum": (mix, s + cached + queries * x),
        "output": (madd * x * d, 2 * x + w),
        "ffn": (2 * madd * tokens * d * d_ff, 2 * tokens * d + 2 * weights * d * d_ff + 2 * tokens * d_ff),
    })  # fmt: skip


def _quadratic(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, queries=n)


def _all_over_again(b, n, d, h, d_ff):
    return _training(b, n, d, h, d_ff)


def _cache_for_free(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, cached=0)


def _shared_cache(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, cached=n * d)


def _all_projected(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, projected=n)


def _only_itself(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=1)


def _decode_without_heads(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, heads=1)


def _decode_width_of_a_head(b, n, d, h, d_ff):
    return _decode(b, n, d, d // h, d_ff)


def _decode_usual_ffn(b, n, d, h, d_ff):
    return _decode(b, n, d, h, 4 * d)


def _decode_without_two(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, madd=1)


def _weights_for_each_token(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, weights=b)


def _ffn_of_all_tokens(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, ffn_tokens=n)


def _one_more_key(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=n + 1)


def _softmax_of_one_key(b, n, d, h, d_ff):
    return _with(_decode(b, n, d, h, d_ff), softmax=(0, 2 * b * h))


def _old_total(b, n, d, h, d_ff):
    return {**_decode(b, n, d, h, d_ff), "total": _training(b, 1, d, h, d_ff)["total"]}


def _old_total_among_the_rows(b, n, d, h, d_ff):
    rows, old = _decode(b, n, d, h, d_ff), _training(b, 1, d, h, d_ff)["total"]
    return {**rows, "total": (rows["total"][0] + old[0], rows["total"][1] + old[1])}


def _keys_and_values_again(b, n, d, h, d_ff):
    one, all_ = (2 * t * d * d for t in (b, b * n)), (2 * t * d + d * d for t in (b, b * n))
    (query, key), (new, old) = one, all_
    return _with(_decode(b, n, d, h, d_ff), qkv=(query + 2 * key, new + 2 * old))


def _own_key_not_read(b, n, d, h, d_ff):
    rows = _decode(b, n, d, h, d_ff)
    less = {row: (rows[row][0], rows[row][1] - b * d) for row in ("scores", "weighted_sum")}
    return _with(rows, **less)


def _one_key_less(b, n, d, h, d_ff):
    return _decode(b, n, d, h, d_ff, seen=n - 1)


def _cache_written(b, n, d, h, d_ff):
    rows = _decode(b, n, d, h, d_ff)
    return _with(rows, qkv=(rows["qkv"][0], rows["qkv"][1] + 2 * b * d))


def _rows_of_one_sequence(b, n, d, h, d_ff):
    rows, alone = _decode(b, n, d, h, d_ff), _decode(1, n, d, h, d_ff)
    return _with(rows, **{row: (rows[row][0], alone[row][1]) for row in ("qkv", "output", "ffn")})


def _softmax_read_alone(b, n, d, h, d_ff):
    return _with(_decode(b, n, d, h, d_ff), softmax=(0, b * h * n))


decode_table = Table(
    reference=costs.decode_table,
    columns=PARTS,
    follows={"total": column_sums},
    drive=_kept,
    cases=LAYERS,
    within=EXACT,
    misconceptions=[
        Misconception(
            "quadratic in n", _quadratic,
            "There is one new query for each sequence, and it meets n keys: n scores, not n². Old queries "
            "aren't used again.",
            in_rows(_quadratic, "softmax"),
        ),
        Misconception(
            "everything computed again", _all_over_again,
            "That is the cost without a cache: all n tokens once more through the whole layer. With one, only the new token "
            "goes through it.",
            in_rows(_all_over_again, "output"),
        ),
        Misconception(
            "old tokens projected again", _all_projected,
            "Keys and values of the old tokens lie in the cache. Only the new token is projected.",
            in_rows(_all_projected, "qkv"),
        ),
        Misconception(
            "an FFN over all tokens", _ffn_of_all_tokens,
            "The FFN works on each token by itself. Only the new one still has to go through it.",
            in_rows(_ffn_of_all_tokens, "ffn"),
        ),
        Misconception(
            "a cache that is read for free", _cache_for_free,
            "The keys are an operand of the scores, and the values of the weighted sum: b·n·d elements each, fetched anew for "
            "every token.",
            in_rows(_cache_for_free, "scores"),
        ),
        Misconception(
            "one cache for all sequences", _shared_cache,
            "Every sequence has its own past: b caches of n·d elements. Weights are shared by a batch, caches are not.",
            in_rows(_shared_cache, "scores"),
        ),
        Misconception(
            "a new token that sees only itself", _only_itself,
            "The new token attends to everything so far: n keys and n values.", in_rows(_only_itself, "scores"),
        ),
        Misconception(
            "one key too many", _one_more_key,
            "The n keys in the cache include the new token's own.", in_rows(_one_more_key, "scores"),
        ),
        Misconception(
            "one dict for all calls", _one_dict(costs.decode_table), ONE_DICT,
            in_rows(_doubled(costs.decode_table), "qkv", "scores", "softmax"),
        ),
        Misconception(
            "one key too few", _one_key_less,
            "The n keys include the new token's own: it attends to itself too, so subtract nothing.", in_rows(_one_key_less, "scores"),
        ),
        Misconception(
            "the new token's own key for free", _own_key_not_read,
            "Every operation reads all its operands. The new key was written by `qkv`, so `scores` reads it back with the others: n "
            "keys in all.",
            in_rows(_own_key_not_read, "scores"),
        ),
        Misconception(
            "a softmax over one key", _softmax_of_one_key,
            "The new token has a score for each of n keys: b·h·n elements are read, and as many written.",
            in_rows(_softmax_of_one_key, "softmax"),
        ),
        Misconception(
            "a softmax that reads and doesn't write", _softmax_read_alone,
            "The softmax reads b·h·n scores and writes as many weights.", in_rows(_softmax_read_alone, "softmax"),
        ),
        Misconception(
            "old keys and values projected again", _keys_and_values_again,
            "You project only the new query, which is right. Project only the new key and value too: the old ones are in the cache.",
            in_rows(_keys_and_values_again, "qkv"),
        ),
        Misconception(
            "the cache written beside the projections", _cache_written,
            "The projections write the new key and value, and they write them into the cache. That is counted already.",
            in_rows(_cache_written, "qkv"),
        ),
        Misconception(
            "the total of another table", _old_total,
            "Your total is that of the table in 7.4 with n = 1. Add up the rows of this table.", in_rows(_old_total, "total"),
        ),
        Misconception(
            "an old total among the rows", _old_total_among_the_rows,
            "Your total contains another one: that of the table you began with was still among the rows that you added up. Take it out first.",
            in_rows(_old_total_among_the_rows, "total"),
        ),
        Misconception(
            "score rows without the heads", _decode_without_heads,
            "Every head has its own row of n scores: b·h·n elements.", in_rows(_decode_without_heads, "softmax"),
        ),
        Misconception(
            "h taken for the width of a head", _decode_width_of_a_head,
            "h is the number of heads, and each is d/h wide. You have it the other way round, which is the same only where h·h = d.",
            in_rows(_decode_width_of_a_head, "softmax"),
        ),
        Misconception(
            "4d whatever d_ff is", _decode_usual_ffn,
            "d → 4d → d is usual, and here the hidden layer has the width `d_ff`.", in_rows(_decode_usual_ffn, "ffn"),
        ),
        Misconception(
            "weights read once for each sequence", _weights_for_each_token,
            "The b new tokens stand below each other as one (b, d) matrix. The weight is read once for all of them.",
            in_some_row(_weights_for_each_token, costs.decode_table, "qkv", "output", "ffn"),
        ),
        Misconception(
            "the rows of one sequence only", _rows_of_one_sequence,
            "The weight is read once for all, but b tokens go in and b come out: each of the b rows is read and written.",
            in_some_row(_rows_of_one_sequence, costs.decode_table, "qkv", "output", "ffn"),
        ),
        Misconception(
            "n·m·k without the 2", _decode_without_two,
            "One multiply-add is 2 FLOPs, in every row.", in_rows(_decode_without_two, "output"),
        ),
        _kept_sums(costs.decode_table),
    ],
)  # fmt: skip


def _equal_traffic(d, d_ff):
    """The first n at which scores and weighted sum, of one head, move as many elements as the rest."""
    rest = lambda n: 3 * (2 * n * d + d * d) + 2 * n * d + d * d + 2 * (n * d + d * d_ff + n * d_ff)
    low, high = 1, 10**9
    while low < high:
        n = (low + high) // 2
        low, high = (low, n) if 2 * (2 * n * d + n * n) >= rest(n) else (n + 1, high)
    return float(low)


def round_end(end):
    """Whether a search may have ended there: at 100,000 or 2^20, or one beside it."""
    round_ones = {first * 10**power for first in (1, 2, 5) for power in range(2, 8)} | {2**p for p in range(8, 25)}
    return not round_ones.isdisjoint({end - 1, end, end + 1})


def _end_of_a_search(seen):
    (d, d_ff), end = seen.args, round(float(seen.output))
    return abs(seen.output - end) < 1e-3 and end < 2 * d + d_ff and round_end(end)


def _halved(d, d_ff):
    low, high = 0.0, 4.0 * d + 2 * d_ff + 1
    while high - low > 1e-4:
        n = (low + high) / 2
        low, high = (n, high) if n < 2 * d + d_ff else (low, n)
    return low


crossover = Check(
    reference=costs.crossover,
    cases=[
        explicit_case("d = 512, d_ff = 2048", 512, 2048), explicit_case("d = 768, no FFN", 768, 0), explicit_case("d = 100, d_ff = 270", 100, 270),
        explicit_case("d = 999,983, d_ff = 999,979", 999_983, 999_979),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "a search that ends too early", lambda d, d_ff: min(10**5, 2 * d + d_ff),
            "For a wide layer the crossing lies beyond the last n that you look at, and you return the end of your search. Let the end grow with the sizes, or solve the "
            "equation.",
            _end_of_a_search,
        ),
        Misconception(
            "nearly the crossing", _halved,
            "Your n is less than 0.01 off, as a search is that stops early, and 12 digits are compared. One n cancels in the equation, and what is left can be "
            "solved exactly.",
            lambda seen: 0 < abs(seen.output - costs.crossover(*seen.args)) < 0.01,
        ),
        Misconception(
            "6d whatever the FFN", lambda d, d_ff: 6 * d,
            "6d holds for d_ff = 4d. Set the two costs equal with d_ff still in them.",
        ),
        Misconception(
            "the FFN forgotten", lambda d, d_ff: 2 * d,
            "2d is right without an FFN. Add the FFN's 4·n·d·d_ff to the projections.",
        ),
        Misconception(
            "three projections instead of four", lambda d, d_ff: 1.5 * d + d_ff,
            "Besides Q, K and V there is the output projection: 8·n·d² in all.",
        ),
        Misconception(
            "the weighted sum forgotten", lambda d, d_ff: 4 * d + 2 * d_ff,
            "There are two products with n²: the scores and the weighted sum. Together 4·n²·d.",
        ),
        Misconception(
            "an FFN of one product", lambda d, d_ff: 2 * d + d_ff / 2,
            "Up and down: the FFN is two products, 4·n·d·d_ff.",
        ),
        Misconception(
            "n = d", lambda d, d_ff: d,
            "At n = d one score product costs as much as one projection. But there are two of the first, four of the second, and the FFN.",
        ),
        Misconception(
            "the usual FFN where there is none", lambda d, d_ff: 2 * d + (d_ff or 4 * d),
            "d_ff = 0 means that the layer has no FFN at all, not that it has the usual one.",
        ),
        Misconception(
            "no crossing without an FFN", lambda d, d_ff: (2 * d + d_ff) * (d_ff > 0),
            "Without an FFN the four projections are still there. Put d_ff = 0 into the equation.",
        ),
        Misconception(
            "elements moved instead of FLOPs", _equal_traffic,
            "That is where both sides move the same number of elements. The question is where they cost the same number of FLOPs.",
        ),
        Misconception(
            "the projections counted half", lambda d, d_ff: d + d_ff,
            "Four projections take 8·n·d². Divided by 4·n·d that is 2d, not d.",
        ),
    ],
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- a whole model


def _step(
    b, n, layers, d, d_ff, vocabulary, *, passes=3, attention=1.0, tables=1, extra=0, per_layer=True, ffn=2, proj=4
):
    weights = layers * (proj * d * d + ffn * d * d_ff) + tables * vocabulary * d + extra
    mixing = 4 * b * n * n * d * (layers if per_layer else 1)
    return int(passes * (2 * weights * b * n + attention * mixing))


def _norms(layers, d):
    return layers * 4 * d + 2 * d


model_flops = Check(
    reference=costs.model_flops,
    cases=[
        random_case("2 layers, d = 32", b=2, n=17, layers=2, d=32, d_ff=128, vocabulary=50),
        random_case("5 layers, a long context", b=1, n=300, layers=5, d=16, d_ff=40, vocabulary=70),
        random_case("GPT-2 small, 1024 tokens", b=4, n=1024, layers=12, d=768, d_ff=3072, vocabulary=50257),
        random_case("large: every digit counts", b=3001, n=100_003, layers=97, d=12_289, d_ff=49_157, vocabulary=200_003),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "the forward pass only",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, passes=1),
            "Training has a backward pass too, with two products for each of these: one for the gradient of each operand.",
        ),
        Misconception(
            "twice the forward pass instead of three times",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, passes=2),
            "For Y = X W the backward pass needs dX = dY Wᵀ and dW = Xᵀ dY: two products of the same size. Backward costs "
            "twice forward, and forward comes on top: three times in all.",
        ),
        Misconception(
            "attention forgotten",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=0),
            "6 · weights · tokens counts the products with weights. Scores and weighted sum have none, and cost 4·b·n²·d a "
            "layer, times 3.",
        ),
        Misconception(
            "attention in the forward pass only",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=1 / 3),
            "The two products of attention are differentiated as well: three times 4·b·n²·d for each layer.",
        ),
        Misconception(
            "attention twice instead of three times",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=2 / 3),
            "Scores and weighted sum have no weights, but two operands each, and both need a gradient: their backward costs twice their "
            "forward too. Both count, so it is three times 4·b·n²·d a layer, and you have twice.",
        ),
        Misconception(
            "attention of one layer",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, per_layer=False),
            "Every layer has its own attention: multiply by the number of layers.",
        ),
        Misconception(
            "half of attention's products",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=0.5),
            "A layer has two products with n², scores and weighted sum: 4·b·n²·d forward. And the causal mask halves neither: it hides half "
            "the scores after they have been computed.",
        ),
        Misconception(
            "the embedding counted as a product",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, tables=2),
            "To look a row up in a table takes no multiplication. The vocabulary appears once, in the output head.",
        ),
        Misconception(
            "the output head forgotten",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, tables=0),
            "After the last layer every token is multiplied by the (d, vocabulary) output head. With a large vocabulary that is a "
            "large share.",
        ),
        Misconception(
            "an output head in every layer",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, tables=layers),
            "The output head stands once, after the last layer. Its weights are not multiplied by the number of layers.",
        ),
        Misconception(
            "all parameters, the norms too",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, extra=_norms(layers, d)),
            "Gains and biases of the norms are parameters, but they are in no matrix product. 6 · parameters · tokens is only "
            "nearly right.",
        ),
        Misconception(
            "biases that grow with n",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, extra=4 * layers * n * d),
            "A projection has at most d biases, not n·d: all tokens share them. And adding one is no matrix product.",
        ),
        Misconception(
            "three projections instead of four",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, proj=3),
            "Q, K, V and the output: 4d² weights a layer.",
        ),
        Misconception(
            "4d whatever d_ff is",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, 4 * d, vocabulary),
            "d → 4d → d is usual, and here the hidden layer has the width `d_ff`: 2·d·d_ff weights a layer.",
        ),
        Misconception(
            "an FFN of one product", lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, ffn=1),
            "Up and down: 2·d·d_ff weights a layer.",
        ),
        Misconception(
            "attention across the batch",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=b),
            "A token attends to its own sequence only: b·n² pairs, and not (b·n)².",
        ),
        Misconception(
            "attention of one sequence",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary, attention=1 / b),
            "Each of the b sequences has scores of its own.",
        ),
        Misconception(
            "the output head for the last token only",
            lambda b, n, layers, d, d_ff, vocabulary: (
                _step(b, n, layers, d, d_ff, vocabulary, tables=0) + 6 * b * d * vocabulary
            ),
            "In training every token predicts its successor, so the output head meets all b·n tokens.",
        ),
        Misconception(
            "no output head for the last token of a sequence",
            lambda b, n, layers, d, d_ff, vocabulary: (
                _step(b, n, layers, d, d_ff, vocabulary) - 6 * b * d * vocabulary
            ),
            "The last token has no next one to predict, but the product is made for it all the same: the output head meets every token.",
        ),
        Misconception(
            "visible pairs only, because of the causal mask",
            lambda b, n, layers, d, d_ff, vocabulary: (
                _step(b, n, layers, d, d_ff, vocabulary, attention=0) + 12 * layers * (b * n * (n + 1) // 2) * d
            ),
            "n(n + 1)/2 pairs are visible, but all n² are computed: the product is dense, and the mask hides half of it afterwards.",
        ),
        Misconception(
            "no gradient for the first layer's input",
            lambda b, n, layers, d, d_ff, vocabulary: (
                _step(b, n, layers, d, d_ff, vocabulary) - 6 * b * n * d * d
            ),
            "The embeddings are trained, so the input of the first layer needs its gradient too.",
        ),
        Misconception(
            "multiply-adds instead of FLOPs",
            lambda b, n, layers, d, d_ff, vocabulary: _step(b, n, layers, d, d_ff, vocabulary) // 2,
            "Each multiply-add is 2 FLOPs, in all products of this unit.",
        ),
    ],
)  # fmt: skip
