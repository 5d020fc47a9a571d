"""Of unit 09."""

import re

hbm_traffic = {
    "range(0, n, rows) → range(0, n + 1, rows)   in: for first in range(0, n + 1, rows):": "the tile that is added has no rows"
}
online_softmax = {
    re.compile(r"^l_i\.to\(x\.dtype\) → l_i"): "a sum in float64 is more exact, and the text asks for no dtype"
}
merge_partials = {
    re.compile(r"masked_fill\(top == -math\.inf, 1\.0\)"): "any finite number does: e^(−∞ − 1) is 0 as well",
    re.compile(r"gap = torch\.nan_to_num\(lse_a - lse_b, posinf="): "PyTorch's default",
    re.compile(
        r"gap = torch\.nan_to_num\(lse_a - lse_b, nan=1\.0"
    ): "where neither saw anything both outputs are 0, and any share of them is",
}
