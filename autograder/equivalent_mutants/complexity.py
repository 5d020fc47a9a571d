"""Of unit 07."""

import re

PRODUCT = "2·n·m·k doesn't depend on the order of the three"
GROWTH = "a growth: factors and bases of logarithms don't change it"

matmul_flops = {
    re.compile(
        r"^int\(2\.0 \* n \* m \* k\) → 2\.0 \* n \* m \* k"
    ): "the head of the unit allows a Python float: it holds these counts exactly"
}
arithmetic_intensity = {
    re.compile("^matmul_(flops|io)\\(n, m, k\\) → "): PRODUCT + "; the transposed product moves as much"
}
training_table = {
    re.compile(r"^product\([a-z_0-9, */]*\) → product\("): PRODUCT + "; nor does what it moves",
    re.compile("^matmul_(flops|io)\\([a-z_0-9, ]*\\) → matmul_"): PRODUCT + "; the transposed product moves as much",
}
decode_table = training_table | {re.compile(r"^tuple\(sum\(rows\.values"): "what the sum gives is a tuple already"}
crossover = {
    re.compile(
        r"dict\(total=\(bnd \* \(8 \* d \+ 4 \* n \+ 4 \* d_ff\), "
        r".*weighted_sum=\(2 \* bnd \* n, .*scores=\(2 \* bnd \* n, "
    ): "of the table the FLOPs of the whole, the scores and the weighted sum are read, and they are as before"
}
layer_types = {
    re.compile("^math.log → math.log2|^math.log2 → math.log"): GROWTH,
    re.compile("^[1-9] → [1-9]|^7 \\* n → n|\\+ 7 \\* n \\* d → |^1.0 → 2.0"): GROWTH,
}
roofline = {re.compile("^list\\("): "two values in a tuple are as right as in a list"}
longest_context = {"1 → 0   in: low, high = (0, memory + 0)": "a context as long as the memory has bytes never fits"}
channel_attention = {re.compile("^matmul_flops\\([a-z_0-9, ]*\\) → matmul_flops"): PRODUCT}
