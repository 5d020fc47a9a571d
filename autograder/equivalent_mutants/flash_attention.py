"""Of unit 09."""

import re

hbm_traffic = {
    "range(0, n, rows) → range(0, n + 1, rows)   in: for first in range(0, n + 1, rows):": (
        "the tile that is added has no rows"
    )
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
    re.compile(
        r"sigmoid\(lse_a - lse_b\)\.nan_to_num\(1\.0\)"
    ): "where neither saw anything both outputs are 0, and any share of them is",
}
flash_attention_forward = {
    re.compile(
        r"if causal else m → m   in: end = m"
    ): "tiles may be visited for nothing here: 9.5 asks for skipping them",
    re.compile(r"^k_j\.shape\[-2\] → v_j\.shape\[-2\]"): "a tile has as many values as keys",
}
flash_attention_backward = {
    re.compile(r"in: for i in range\(0, n \+ 1, block_q\):"): "the tile that is added has no rows",
    re.compile(
        r"if causal else m → m   in: for j in range"
    ): "tiles may be visited for nothing: the text asks for skipping in the forward pass alone",
}
incoherent_rotation = {
    re.compile(r"hadamard\(len\(signs\)\)\)\.to\(k\)"): "q and k have one dtype",
    re.compile(
        r"x\.reshape\(-1, \*x\.shape\[:-1\], 2, width\)"
    ): "the pairs are neighbours in memory, whatever axes stand before them",
    re.compile(r"\(h\.diff\(dim=-1\) == 0\)"): "the rows in the opposite order: any order is right",
    re.compile(r"dim=-2\) / signs\.to\(q\) @ turn"): "to divide by 1 or −1 is to multiply by it",
    re.compile(
        r"float64\) → torch\.ones\(1, 1\) |torch\.ones\(1, 1, dtype=torch\.float32\)"
    ): "float32 or float64: the text allows both",
    re.compile(r"bin\(i \| j\)"): "rows and columns with an odd number of ones change their sign, and stay orthogonal",
}
UNSEEN = "what is not loaded is not stored either"
GIVEN = (
    "no slip of a student's: the launcher is given, and the kernel, which is what is written, keeps nothing between "
    "calls. Where kernels are interpreted each call of the check is the first of its process, and a first output is "
    "the model answer's own"
)
triton_rows = {
    re.compile(r"^tl\.load\((.*), other=0\.0\) → tl\.load\(\1\)"): UNSEEN,
    "return out → return out.float()": "x is float32, says the text",
    re.compile(r"→ scale_rows = first_output_again"): GIVEN,
    re.compile(r"triton\.cdiv\(x\.numel\(\), 127\)"): "a program more than needed finds nothing to do",
    re.compile(r"\* ROWS \+ tl\.arange\(0, COLUMNS\)"): "tiles that overlap write the same numbers twice",
}
triton_forward = {
    re.compile(r"in: l_i = tl\.full\(\(BLOCK_Q,\), 0\.0, tl\.float64\)"): "a sum in float64 is more exact",
    re.compile(r"in: for start in range\(0, end \+ 1, BLOCK_K\)"): "the tile that is added has no key that counts",
    re.compile(
        r"in: seen = keys\[None, :\] <= rows\[:, None\] \+ m - n$"
    ): "no query stands behind the last key, so what it may see exists",
    re.compile(r"triton\.cdiv\(n, 31\)"): "a program more than needed finds nothing to do",
    re.compile(r"→ triton_forward = first_output_again"): GIVEN,
    re.compile(
        r", input_precision='ieee'\) → tl\.dot\("
    ): "the interpreter makes every product in full float32, whatever is asked for: it is the model answer, bit for "
    "bit. Compiled it is another program",
}
triton_backward = {
    re.compile(r"in: for start in range\(0, end \+ 1, BLOCK\)"): "the tile that is added has no key that counts",
    re.compile(r"→ triton_backward = first_output_again"): GIVEN,
}
