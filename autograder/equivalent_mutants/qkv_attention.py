"""Of unit 02."""

import re

ONE_AXIS = "the scores of one query have one axis: 0 and −1 are the same"
NO_DTYPE = "the text says nothing of the dtype, and numbers put together by hand are float32"
LARGE = "any number that is large enough will do: properties decide"

softmax = {
    "x.double() → x": "the largest entry is the same number in both dtypes",
    re.compile(r"^x\.amax → x\.amin   in: .*torch\.logsumexp"): "`logsumexp` takes the largest entry away by itself",
}
attention_weights = {
    re.compile(r"0 → -1   in: .*softmax\(keys @ query, dim=-1\)"): ONE_AXIS,
    re.compile(r"-1 → 0   in: .*dim=0\)"): ONE_AXIS,
    re.compile(r"keyword dropped|→ F.softmax\(torch.einsum\('d,nd->n', query, keys\)\)"): ONE_AXIS,
    re.compile(r"\.float\(\)$"): NO_DTYPE,
    "zip(query, key) → zip(key, query)": "a product of two numbers",
}
attend = {re.compile(r"\.float\(\)$"): NO_DTYPE}
select_one_value = {
    re.compile("^(100|80|60|50) → "): LARGE,
    re.compile(
        r"^torch.arange\(n \* d, dtype=torch.float32\) → torch.arange\(n \* d\)|^torch.float32 → torch.float"
    ): "all values differ, whatever their dtype and however far apart",
    re.compile(r"^torch.randn\(n, d\) \+ .* → torch.randn\(n, d\) - "): "all values differ",
    re.compile(
        r"^torch.arange\(n\)\[:, None\].expand\(n, d\) / 100 → torch.arange"
    ): "all values differ, however far apart",
    re.compile("^values → keys"): "the keys are different values too",
    re.compile("10 → "): "all values differ",
}
equal_attention = {
    re.compile("^k1 - k2 → k2 - k1"): "the query is at right angles to the difference, whichever way it points",
    re.compile("^1.0 → 2.0|^1e-12 → 2e-12|^100 → |^99 → "): "any length of such a query will do: properties decide",
    re.compile(r"- start   in"): "its opposite is at right angles to the difference too",
    re.compile(r"3 \* torch.linalg.svd.* → torch.linalg"): "any length will do",
    re.compile(r"\.float\(\)$"): NO_DTYPE,
}
score_functions = {"(k @ w_k).unsqueeze(0) → k @ w_k": "a sum puts missing axes in front by itself"}
score_variance = {re.compile(r"^torch.tensor\("): "a number is as right as a tensor with one number"}
softmax_jacobian = {
    "0 → -1": ONE_AXIS,
    "torch.eye(len(z), dtype=z.dtype) → torch.eye(len(z))": "exact in any dtype; the difference takes the other's",
}
qkv_projections = {
    re.compile(r"^w_q.shape\[1\] → w_k.shape|^w_k.shape\[1\] → w_q.shape"): "w_q and w_k have the same shape"
}
scaled_dot_product_attention = {
    "q, k, v = (q.double(), k.double(), v.double()) → (nothing)": "float64 is precaution: float32 is within tolerance",
    re.compile(r"^scores = scores.double\(\)"): "the same",
}
permutation_equivariance: dict = {}
parameter_counts = {
    re.compile(r"^torch\.tensor\(\[3 \* d"): "a tuple of five numbers either way",
    re.compile(r"^float\("): "a whole number is as right as a float",
}
same_output_other_weights = {
    "constraints.T.double() → constraints.T": "float64 is precaution: float32 is within tolerance too",
    re.compile(
        "^direction < 0 → direction <= 0|^z < 0 → z <= 0"
    ): "drawn values leave no entry of the direction at exactly 0",
    re.compile(r"\.float\(\)$"): "the weights come as float32",
    re.compile("^2 → [13]|^0.5 → 1.0|^0.9 → "): "any step that leaves all weights positive will do: properties decide",
}
