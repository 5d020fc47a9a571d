"""Of unit 01."""

import re

attention_one_token = {
    "q[i] @ key → key @ q[i]": "a dot product of two vectors has no order",
    re.compile("^zip\\(torch.softmax\\(scores, dim=0\\), v\\) → "): "a product of weight and value has no order",
    re.compile("torch.zeros\\(v.shape\\[1\\]"): "a sum with float64 becomes float64",
}
critical_path = {re.compile("^float\\("): "6 is as right as 6.0"}
layers_in_sequence = {
    re.compile("if layer > 0 else 0 → "): "below the first layer stands the last row, which is still 0",
}
chunked_attention = {re.compile("^sorted\\(done, key"): "starts differ, so the tensors behind them are never compared"}
pipeline_steps = {re.compile("^torch.tensor\\("): "a number is as right as a tensor with one number"}
associative_scan = {
    "reach < len(rows) → reach <= len(rows)": "a reach as long as the rows moves nothing",
    re.compile("^n > 2 → n >= 2"): "of two steps there are no inner ones",
    re.compile("torch.zeros\\(\\*step.shape"): "0 and 1 are exact in every dtype",
    re.compile("^rows → place   in: while"): "there are as many places as rows",
}
matmul_gflops = {re.compile("^torch.tensor\\("): "a number is as right as a tensor with one number"}
