"""Of unit 05."""

import re

WRITTEN = "every entry is written before the table is read"
WHOLE = "whole numbers count as such: digits of type int are accepted"
SINGLE = "float32 is enough for angles of positions in the hundreds, and the text says so of rotary ones"
SAME_NUMBERS = "the same numbers in another dtype: nothing is computed with them any more"
LOADED = "the check loads all weights: how they begin is free, but for a row of zeros"
DEFAULT = "PyTorch's default"
EVEN = "cos(−x) = cos(x)"
TO_THE_LAST_BIT = "differs only where a sum of probabilities equals top_p to the last bit, and there rounding decides"

binary_positions = {re.compile(r"\.float\(\) → "): WHOLE, "torch.zeros → torch.ones": WRITTEN}
sinusoidal_positions = {
    "torch.zeros → torch.ones": WRITTEN,
    re.compile(r"^torch\.arange\(0, d, 2\)\.double\(\) → "): SINGLE,
}
shift_is_rotation = {
    re.compile(
        r"^torch\.tensor\(\[\[0\.0, -1\.0\], \[1\.0, 0\.0\]\], dtype=torch\.double\) → "
    ): "0, 1 and −1 are exact in float32",
    "m.float() → m": SAME_NUMBERS,
    re.compile(r"^torch\.zeros\(d, d, dtype=torch\.float64\) → "): SINGLE,
}
rotary_embedding = {
    re.compile(
        r"^torch\.arange\(0, (d|x\.shape\[-1\]), 2, dtype=torch\.float64\) → torch\.arange\(0, "
        r"|^torch\.float64 → torch\.float32"
        r"|^torch\.arange\(x\.shape\[-1\] // 2, dtype=torch\.float64\) → "
    ): SINGLE,
    "theta.to(x.device) → theta": "where there is one device",
    re.compile(
        r"^angle\.(sin|cos)\(\)\.to\(x\.dtype\) → .* in: cos, sin = "
    ): "the table that it is written into has the dtype of x",
}
feed_forward = {
    "inner > 0 → inner >= 0": "where it is 0, both give 0",
    "x @ w_1 + b_1 > 0 → x @ w_1 + b_1 >= 0": "where it is 0, both give 0",
    "gate >= 0 → gate > 0": "where it is 0, both give ½",
}
DecoderLM = {
    re.compile(r"nn\.init\.normal_|^torch\.ones → torch\.zeros   in: self\.weight, "): LOADED,
    re.compile(r"in: self\.register_buffer\('mask'"): "a buffer that nobody reads",
}
next_token_loss = {re.compile(r"ignore_index=-100\) → F\.cross_entropy\((logits|model)"): DEFAULT}
learning_rate = {"steps - warm_up → warm_up - steps": EVEN, "step - warm_up → warm_up - step": EVEN}
train = {
    "small_model() if model is None else model → small_model()": "the stub's line; the check trains the small model",
    re.compile(r"^list\(model\.parameters\(\)\) → .* in: nn\.utils\.clip_grad_norm_"): "it is gone through once",
    re.compile(r"ignore_index=-100\) → F\.cross_entropy\((logits|model)|set_to_none=True\) → "): DEFAULT,
}
generate = {
    re.compile(r"to\(logits\.dtype\)\.float\(\)"): "0 and 1 are the same in all dtypes",
    "before < top_p → before <= top_p": TO_THE_LAST_BIT,
    re.compile(r"cumsum\(-1\) <= 1 - top_p → "): TO_THE_LAST_BIT,
    re.compile(r"argsort\(dim=-1, descending=True\) → "): DEFAULT,
}
