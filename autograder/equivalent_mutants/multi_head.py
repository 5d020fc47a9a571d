"""Of unit 04."""

import re

merge_heads = {"list(x.unbind(1)) → x.unbind(1)": "`torch.cat` takes a tuple as well"}
multi_head_loop = {
    "q.shape[-1] → k.shape[-1]": "queries and keys of a head have the same width",
    "hide = torch.ones(mask.shape, dtype=x.dtype).masked_fill_(~mask, -math.inf)": "1 more for every visible key",
}
head_flops = {re.compile("^product\\(n, d, h"): "2·a·b·c doesn't depend on the order of the three"}
two_hand_made_heads = {
    re.compile(
        "torch.zeros → torch.ones   in: .*(ones\\(2 \\* v \\+ n, 1\\), torch.zeros|ones\\(2 \\* v \\+ n, 2)"
    ): "what decides is how far the right key's score lies above the others'",
    re.compile(
        "^2 \\* v → v|^:v → :v \\+ 1   in: w_q\\[:v \\+ 1\\], w_k|^-20 → -21|^range\\(n\\) → range\\(n - 1\\)"
    ): "the same: scores that are as far apart, or further",
    "torch.zeros(d, d, dtype=torch.float64) → torch.zeros(d, d)": "whole numbers are exact in float32 too",
}
alibi_bias = {
    re.compile(
        r"^torch\.full\(.*cumprod\(0\)\.float\(\)"
    ): "in float32 a product of 32 factors is within tolerance, and slopes are float32",
    re.compile("torch.arange\\(n, dtype=slopes.dtype\\) → "): "whole numbers, times a float in the next line",
    re.compile("torch.float64 → torch.float32"): "sums of ones are exact in float32",
}
