"""Of unit 01."""

import re

attention_one_token = {
    re.compile(
        r"^q\[i\] @ key → key @ q\[i\]|^k\[j\] @ q\[i\] → q\[i\] @ k\[j\]"
    ): "a dot product of two vectors has no order",
    re.compile(
        r"^0 → -1   in: .*softmax\(scores, dim=-1\)"
    ): "the scores of one token have one axis: 0 and −1 are the same",
    re.compile(r"zeros_like\(v\[-1\]\)"): "all rows of v are alike in width and dtype",
    re.compile("^zip\\(torch.softmax\\(scores, dim=0\\), v\\) → "): "a product of weight and value has no order",
    re.compile(
        r"→ torch\.zeros\(v\.shape\[1\]\)   in: top, |→ torch\.zeros\(v\.shape\[1\], device=v\.device\)   in: output"
    ): "a sum with float64 becomes float64",
}
critical_path = {re.compile("^float\\("): "6 is as right as 6.0"}
layers_in_sequence = {
    re.compile("if layer > 0 else 0 → "): "below the first layer stands the last row, which is still 0"
}
chunked_attention = {
    re.compile("^sorted\\(done, key"): "starts differ, so the tensors behind them are never compared",
    "starts = list(range(0, n + 1, size))": "a start at the end, of no chunk, and at which the last one may stop",
}
pipeline_steps = {re.compile("^torch.tensor\\("): "a number is as right as a tensor with one number"}
associative_scan = {
    "reach < len(rows) → reach <= len(rows)": "a reach as long as the rows moves nothing",
    re.compile("^n > 2 → n >= 2"): "of two steps there are no inner ones",
    "middle = n // 2": "it may be cut anywhere in the middle",
    re.compile("^rows → place   in: while"): "there are as many places as rows",
}
matmul_gflops = {"torch.tensor(2.0) → 2.0": "a number is as right as a tensor with one number"}
