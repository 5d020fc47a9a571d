"""Of unit 10."""

import re

ANOTHER_PATTERN = "another pattern that keeps to all that is asked for: properties decide"

local_attention = {
    re.compile("^0 → -1   in: keys = keys.clamp"): "what lies outside is read from somewhere, and hidden"
}
global_local = local_attention
strided_sparse = {
    re.compile(
        r"^range\(0, n, step\) → range\(0, n \+ 1, step\)   in: ends"
    ): "the last token, which is an end already, in a set",
    re.compile(
        r"^powers\.sum\(-1, keepdim=True\)\.clamp_min"
    ): "every row has a slot, and the power of its largest score is 1",
    "math.ceil → math.floor": ANOTHER_PATTERN,
    "i % step → i // step": ANOTHER_PATTERN,
    re.compile("^torch.tensor\\(-math.inf, dtype=scores.dtype\\) → "): "a single number takes the dtype of the others",
    re.compile("^math.isqrt\\(n - 1\\) \\+ 1 → "): ANOTHER_PATTERN,
}
linear_attention = {
    re.compile("^x > 0 → x >= 0"): "at 0 both branches give 1",
    re.compile("^q → v   in: state"): "queries and values have the same leading axes",
    "range(0, q.shape[-2], c) → range(0, q.shape[-2] + 1, c)": "an empty chunk at the end adds nothing",
    re.compile("^v → q   in: .*ones_like"): "one column of ones: queries and values have the same number of rows",
}
decayed_attention = {
    "gap.shape[-2:] → gap.shape": "a triangle for each sequence, all the same",
    re.compile(r"^(k|gamma).double\(\) → \1 "): "numbers of float32 are exact in float64, where the other factor is",
    "reach < n → reach <= n": "a round more, in which nothing stands so many places before",
    re.compile("^-1000000000.0 → -999999999.0"): "the exponential of both is 0",
}
delta_rule = {
    "state, outputs = (k.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1]), [])": "q and k have one dtype and shape",
    re.compile("torch.eye.* → .* - torch.eye"): "`unitriangular=True` takes the diagonal as 1 without looking",
}
