# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · What attention costs
#
# "Attention is quadratic." True, and often beside the point. At usual lengths most of the arithmetic is elsewhere, and
# a model that writes text hardly computes at all: it waits for its memory. In this unit you predict with a formula,
# then count what PyTorch really did, then measure.
#
# **After this unit you can**
# - write down the FLOPs and the memory traffic of a Transformer, product by product;
# - say from which length on attention is the expensive part;
# - tell from two numbers of a device whether it will compute or wait;
# - compare seven kinds of layers by how they grow;
# - work out what it takes to train a language model, in FLOPs, days and bytes, before you pay for it.
#
# **How to work.** Every answer is a formula: a function of the sizes. Do the small example by hand first. You have
# about 4 hours, and 31 points to earn.
#
# **Numbers** are compared to 12 digits, however large (in section 7.8, to 6). Use Python's own numbers: a float32
# tensor keeps only 7 digits, and int64 overflows in silence. $h$ divides $d$ throughout.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% [markdown]
# ## 7.1 FLOPs of a matrix product  ●○○ · 5 min · 1 point
#
# A Transformer is a stack of matrix products with a little around them. Count one, and you can count all.
#
# A **FLOP** is one floating-point operation: an addition or a multiplication. Dot products are made of multiply-adds,
# $s \leftarrow s + a\,b$, so **one multiply-add is 2 FLOPs**. Hardware makers count this way, and so does PyTorch's
# counter (`torch.utils.flop_counter`).
#
# **By hand.** (2×3) times (3×4). The result has 2·4 = 8 entries. Each is a dot product of length 3: three
# multiply-adds, 6 FLOPs. Together 48.
#
# A softmax or a norm also computes, but only a handful of operations per element, where a product does thousands. So
# counters leave them out, and so does this unit.

# %% nbgrader={"grade": false, "grade_id": "matmul_flops", "locked": false, "schema_version": 3, "solution": true}
def matmul_flops(n: int, m: int, k: int) -> int:
    """FLOPs of an (n, m) matrix times an (m, k) matrix."""
    ### BEGIN SOLUTION
    return 2 * n * m * k
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: which of the three sizes disappears?</summary>
#
# The result is (n, k). The size that both operands share, m, is the length of the dot products.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any sizes, up to millions.
# </details>

# %% nbgrader={"grade": true, "grade_id": "matmul_flops_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.matmul_flops(matmul_flops, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.matmul_flops(matmul_flops, points=1, cases=hidden.matmul_flops)
### END HIDDEN TESTS

# %% [markdown]
# ## 7.2 Elements that have to move  ●○○ · 5 min · 1 point
#
# Numbers live in memory, and arithmetic happens on the chip. Before an element can be used it has to travel, and that
# takes time. Count the journeys of one product in the best case: **both operands are read once, and the result is
# written once.** On the chip an element can be used as often as you like.
#
# **By hand.** (2×3) times (3×4): 6 elements and 12 elements are read, and how many are written? (26 move in all.)
#
# The picture shows two products with the same second matrix. On the left, 16 rows share it. On the right, one row has
# it for itself.

# %%
plots.product_traffic((16, 16, 16), (1, 16, 16), uses=False)

# %% [markdown]
# **Predict:** in which of the two is an element of the second (orange) matrix used more often?

# %%
guess_reused = None  # "left" or "right" (quotes included)

# %%
plots.product_traffic((16, 16, 16), (1, 16, 16))

# %% nbgrader={"grade": false, "grade_id": "matmul_io", "locked": false, "schema_version": 3, "solution": true}
def matmul_io(n: int, m: int, k: int) -> int:
    """Elements read and written by an (n, m) times (m, k) product."""
    ### BEGIN SOLUTION
    return n * m + m * k + n * k
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: three matrices</summary>
#
# Write down the shapes of all three. Each size appears in exactly two of them.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The number of elements, for any sizes.
# </details>

# %% nbgrader={"grade": true, "grade_id": "matmul_io_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.matmul_io(matmul_io, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.matmul_io(matmul_io, points=1, cases=hidden.matmul_io)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Left or right?</summary>
#
# On the left: each element of the orange matrix is used 16 times, once for each row. On the right it is fetched for a
# single use.
# </details>
#
# ## 7.3 Arithmetic intensity  ●○○ · 10 min · 1 point
#
# How much arithmetic is done for each byte that is fetched? That ratio is the **arithmetic intensity**:
#
# $$\text{intensity} = \frac{\text{FLOPs}}{\text{bytes moved}}$$
#
# Memory is counted in bytes, so the dtype matters: `torch.float32.itemsize` is 4.
#
# **By hand.** (2×3) times (3×4) in float32: 48 FLOPs, 26 elements, 104 bytes. The intensity is 0.46 FLOPs per byte.
#
# **Predict:** a square product, $n = m = k$. By what factor does the intensity change if all sizes double? And if the
# dtype changes from float32 to float16?

# %%
guess_twice_the_size = None  # a factor
guess_half_the_bytes = None  # a factor

# %% nbgrader={"grade": false, "grade_id": "arithmetic_intensity", "locked": false, "schema_version": 3, "solution": true}
def arithmetic_intensity(n: int, m: int, k: int, dtype: torch.dtype) -> float:
    """FLOPs per byte moved, of an (n, m) times (m, k) product in this dtype."""
    ### BEGIN SOLUTION
    return matmul_flops(n, m, k) / (matmul_io(n, m, k) * dtype.itemsize)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Operands and result have the same dtype. It may be any: float64 has 8 bytes, and int8 (of quantized weights) one.
# - Not rounded.
# </details>

# %% nbgrader={"grade": true, "grade_id": "arithmetic_intensity_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.arithmetic_intensity(arithmetic_intensity, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.arithmetic_intensity(arithmetic_intensity, points=1, cases=hidden.arithmetic_intensity)
### END HIDDEN TESTS

# %%
plots.intensities(arithmetic_intensity, width=4096)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Few rows: every element of the weight is fetched and used a few times, so the intensity grows with $n$. Many rows: it
# levels off, because now the rows themselves have to travel. One row in float16 gets 1 FLOP per byte. Remember that
# number.
# </details>
#
# <details><summary>Twice the size, half the bytes</summary>
#
# Both double it. $2n^3$ FLOPs for $3n^2$ elements are $\tfrac23 n$ FLOPs per element, so the intensity grows with the
# size. And half the bytes per element are twice the FLOPs per byte.
# </details>
#
# ## 7.4 A layer that reads  ●●● · 30 min · 4 points
#
# Now a whole layer: multi-head attention and the FFN, forward, over $b$ sequences of $n$ tokens, **all tokens at
# once**. This is what happens in training, and when a prompt is read (**prefill**).
#
# | row | operation |
# |---|---|
# | `qkv` | $X W_Q$, $X W_K$, $X W_V$: three products, and each reads $X$ again |
# | `scores` | $Q K^\top$ in every head, of width $d/h$ |
# | `softmax` | reads the scores and writes the attention weights. No matrix product: 0 FLOPs |
# | `weighted_sum` | attention weights times $V$, in every head |
# | `output` | the heads side by side, times $W_O$ |
# | `ffn` | $d \to d_\text{ff} \to d$; the activation works inside the first product and moves nothing of its own |
# | `total` | the sum of the rows above |
#
# For each row return **(FLOPs, elements moved)**. What one row writes the next one fetches again. (Unit 09 saves the
# scores that way.)
#
# **By hand.** $b = 1$, $n = 2$, $d = 4$, $h = 2$. `scores` is two products, one per head, each (2×2) times (2×2): 16
# FLOPs and 12 elements. Row: (32, 24).
#
# **Predict:** the softmax has 0 FLOPs. What share of the elements does it move at $b = 8$, $n = 2048$, $d = 1024$,
# $h = 16$, $d_\text{ff} = 4096$? (The picture after 7.5 has the answer.)

# %%
guess_softmax_share = None  # a share, between 0 and 1

# %% nbgrader={"grade": false, "grade_id": "training_table", "locked": false, "schema_version": 3, "solution": true}
def training_table(b: int, n: int, d: int, h: int, d_ff: int) -> dict[str, tuple[int, int]]:
    """Row → (FLOPs, elements moved) of the forward pass, all tokens at once.

    Rows: qkv, scores, softmax, weighted_sum, output, ffn, total.
    """
    ### BEGIN SOLUTION
    tokens, d_h = b * n, d // h
    rows = {
        "qkv": (3 * matmul_flops(tokens, d, d), 3 * matmul_io(tokens, d, d)),
        "scores": (b * h * matmul_flops(n, d_h, n), b * h * matmul_io(n, d_h, n)),
        "softmax": (0, 2 * b * h * n * n),
        "weighted_sum": (b * h * matmul_flops(n, n, d_h), b * h * matmul_io(n, n, d_h)),
        "output": (matmul_flops(tokens, d, d), matmul_io(tokens, d, d)),
        "ffn": (2 * matmul_flops(tokens, d, d_ff), matmul_io(tokens, d, d_ff) + matmul_io(tokens, d_ff, d)),
    }
    rows["total"] = (sum(flops for flops, _ in rows.values()), sum(moved for _, moved in rows.values()))
    return rows
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: a weight meets all tokens at once</summary>
#
# For a projection the b sequences don't matter: all b·n tokens stand below each other as one tall (b·n, d) matrix.
# </details>
# <details><summary>Hint 2: a head meets its own keys only</summary>
#
# Scores are b·h separate products. Write the shape of one of them, (n, d/h) times (d/h, n), and use your two functions.
# </details>
# <details><summary>Hint 3: the FFN</summary>
#
# Two products: (b·n, d) times (d, d_ff), then (b·n, d_ff) times (d_ff, d). The hidden layer is written by the first and
# read by the second.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A dict with these seven rows, two numbers in each. Sizes may be in the billions.
# - Every operation reads all its operands and writes its result, as in 7.2. Scale, mask, norms, biases and residuals
#   don't count.
# - Make the dict and its sums inside the function: a later call must not change a table that an earlier one returned.
#   (The same table for the same sizes is fine.)
# </details>

# %% nbgrader={"grade": true, "grade_id": "training_table_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.training_table(training_table, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.training_table(training_table, points=4, cases=hidden.training_table)
### END HIDDEN TESTS

# %% [markdown]
# **Count it.** `count` runs a function and looks at every operation that reaches PyTorch's kernels. FLOPs come from
# PyTorch's own formulas, elements from the sizes of the tensors that go in and come out. Your rings should have a dot
# in the middle.

# %%
from helpers.measuring.counting import count

b, n, d, h, d_ff = 2, 48, 64, 4, 256
x, up, down = torch.randn(b, n, d), torch.randn(d, d_ff), torch.randn(d_ff, d)
w_q, w_k, w_v, w_o = torch.randn(4, d, d)
q, k, v = torch.randn(3, b, h, n, d // h)
scores = torch.randn(b, h, n, n)
counted = {
    "qkv": count(lambda: (x @ w_q, x @ w_k, x @ w_v)),
    "scores": count(lambda: q @ k.mT),
    "softmax": count(lambda: scores.softmax(dim=-1)),
    "weighted_sum": count(lambda: scores @ v),
    "output": count(lambda: x @ w_o),
    "ffn": count(lambda: x @ up @ down),
}
plots.predicted_and_counted(lambda: training_table(b, n, d, h, d_ff), counted)

# %% [markdown]
# ## 7.5 A layer that writes  ●●● · 20 min · 3 points
#
# A model that writes (**decode**) has one new token for each of $b$ sequences. ("Read" and "write" in these two titles
# mean text; in the rows they mean memory.) The keys and values of all earlier tokens lie in a cache (unit 08). So the
# new token is projected, its query meets the $n$ keys in the cache, and the values are mixed. A token
# also attends to itself, so its own key is the last of the $n$.
#
# The rows are the same. All $n$ cached keys are an operand of `scores`, and all $n$ values one of `weighted_sum`: they
# have to be read.
#
# **By hand.** $b = 1$, $n = 5$, $d = 4$, $h = 2$. `scores`: two products, each (1×2) times (2×5): 20 FLOPs, 2 + 10 + 5
# elements. Row: (40, 34).
#
# **Predict:** of all elements that one new token moves at $b = 1$, $n = 2048$, $d = 1024$, $h = 16$,
# $d_\text{ff} = 4096$, how many are weights: 10%, half, or more than 70%?

# %%
guess_weights = None  # "10 %", "half" or "more than 70 %" (quotes included)

# %% nbgrader={"grade": false, "grade_id": "decode_table", "locked": false, "schema_version": 3, "solution": true}
def decode_table(b: int, n: int, d: int, h: int, d_ff: int) -> dict[str, tuple[int, int]]:
    """Row → (FLOPs, elements moved) for one new token per sequence; n keys in each cache.

    Rows: qkv, scores, softmax, weighted_sum, output, ffn, total.
    """
    ### BEGIN SOLUTION
    d_h = d // h
    rows = {
        "qkv": (3 * matmul_flops(b, d, d), 3 * matmul_io(b, d, d)),
        "scores": (b * h * matmul_flops(1, d_h, n), b * h * matmul_io(1, d_h, n)),
        "softmax": (0, 2 * b * h * n),
        "weighted_sum": (b * h * matmul_flops(1, n, d_h), b * h * matmul_io(1, n, d_h)),
        "output": (matmul_flops(b, d, d), matmul_io(b, d, d)),
        "ffn": (2 * matmul_flops(b, d, d_ff), matmul_io(b, d, d_ff) + matmul_io(b, d_ff, d)),
    }
    rows["total"] = (sum(flops for flops, _ in rows.values()), sum(moved for _, moved in rows.values()))
    return rows
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: start from 7.4</summary>
#
# How many queries does each sequence have now? And how many rows does the tall matrix of all new tokens have?
# </details>
# <details><summary>Hint 2: what does not shrink</summary>
#
# The weights and the cache. Each is still read as a whole, though it now serves a single row of queries.
# </details>
# <details><summary>A test of your own</summary>
#
# `scores` and `weighted_sum` have the same two numbers, here and in 7.4.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - As in 7.4: seven rows of two numbers, and no dict that a later call changes.
# - `qkv` writes the new key and value straight into the cache: no further copy is counted.
# </details>

# %% nbgrader={"grade": true, "grade_id": "decode_table_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.decode_table(decode_table, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.decode_table(decode_table, points=3, cases=hidden.decode_table)
### END HIDDEN TESTS

# %%
sizes = {"d": 1024, "h": 16, "d_ff": 4096}
plots.cost_shares({
    "read 512 tokens": lambda: training_table(b=8, n=512, **sizes),
    "read 2048 tokens": lambda: training_table(b=8, n=2048, **sizes),
    "write a token after 2048": lambda: decode_table(b=1, n=2048, **sizes),
    "the same, 64 texts at once": lambda: decode_table(b=64, n=2048, **sizes),
})

# %% [markdown]
# <details><summary>What you should see</summary>
#
# FLOPs are mostly projections and FFN. Traffic tells another story. When reading, score matrices come and go, and the
# softmax, which "computes nothing", moves the most. When one text is written, most of what moves is weights. With 64
# texts the weights are shared, and the caches take over.
# </details>
#
# ## 7.6 Where attention overtakes  ●●○ · 10 min · 2 points
#
# Two rows of 7.4 grow with $n^2$: scores and weighted sum. The others grow with $n$. Long texts are ruled by the first
# kind, short texts by the second. At which $n$ do both cost **the same number of FLOPs**?
#
# **Check by hand:** the first Transformer had $d = 512$ and $d_\text{ff} = 2048$. The two sides meet at 3072 tokens.
# With $d_\text{ff} = 1000$ it would be 2024.

# %% nbgrader={"grade": false, "grade_id": "crossover", "locked": false, "schema_version": 3, "solution": true}
def crossover(d: int, d_ff: int) -> float:
    """The n > 0 at which scores and weighted sum cost as many FLOPs as projections and FFN."""
    ### BEGIN SOLUTION
    return 2 * d + d_ff  # 4 n² d = 8 n d² + 4 n d d_ff, divided by 4 n d
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: an equation</summary>
#
# Add up the FLOPs of your rows, those with n² on the left, those with n on the right. b cancels, and so does one n.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $d$ and $d_\text{ff}$ are at most a million; so $n$ may be 3 million, and a search has to get that far.
# - In a layer without an FFN $d_\text{ff}$ is 0. The projections are still there.
# </details>

# %% nbgrader={"grade": true, "grade_id": "crossover_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.crossover(crossover, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.crossover(crossover, points=2, cases=hidden.crossover)
### END HIDDEN TESTS

# %%
plots.crossing(training_table, crossover, {"GPT-2 small": (768, 3072), "GPT-3": (12288, 49152)})

# %% [markdown]
# GPT-3 was trained on 2048 tokens at a time. Its attention is quadratic, and still only a small part of the bill.
#
# ## 7.7 Seven kinds of layers  ●●● · 35 min · 4 points
#
# Attention is one way to let tokens see each other. Compare seven. For each give three numbers, as functions of the
# sizes:
#
# - **cost**: how the FLOPs of one layer grow. (All kinds of attention have the same $d \times d$ projections, so these
#   tell none apart: leave them out.)
# - **steps**: how many operations in *one* layer have to wait for one another. With enough processors a whole matrix
#   product is one.
# - **path**: the longest way between two tokens, over *as many layers as it takes*. A message in `recurrent` is handed
#   on at every token; in the others it moves only where a layer ends. Count the handovers.
#
# | row | how it works |
# |---|---|
# | `recurrent` | a state of $d$ numbers goes from token to token; every step multiplies it by a $d \times d$ matrix |
# | `convolution` | every token looks at $k$ tokens, with a $d \times d$ matrix for each place; layers are stacked and dilated, so that each multiplies the reach by $k$ |
# | `self-attention` | every token looks at every token; one head of width $d$ |
# | `strided sparse` | every token looks at $\sqrt n$ others, chosen so that two layers connect all pairs |
# | `lsh` | tokens are sorted by a hash ($n \log n$ moves of $d$ numbers, in $\log n$ rounds, one after the other), then attend in buckets of fixed size; new hashes in each layer multiply the reach by a constant |
# | `low-rank` | keys and values of the $n$ positions are projected to $r$ positions, then ordinary attention |
# | `linear` | no softmax: keys and values are summed up in one $d \times d$ matrix, $K^\top V$, which queries multiply |
#
# The first three rows are Table 1 of "Attention Is All You Need" (Vaswani et al., 2017). The others: Child et al.
# (2019), Kitaev et al. (2020), Wang et al. (2020, whose Table 1 has steps too), Katharopoulos et al. (2020).
#
# **Only growth counts (Θ).** Two layers or twenty, if they do for any $n$, are a path of 1. $k$ and $r$ are sizes like
# $n$: with $k = 1$ a convolution reaches nobody, and with $r = n$ low-rank attention saves nothing.
#
# **By hand.** A path through dilated convolutions with $k = 3$: one layer reaches 3 tokens, two reach 9, three
# reach 27. Which function of $n$ and $k$ is that?

# %% nbgrader={"grade": false, "grade_id": "layer_types", "locked": false, "schema_version": 3, "solution": true}
def layer_types(
    n: float,
    d: float,
    k: float,
    r: float,
) -> dict[str, tuple[float, float, float]]:
    """Row → (cost, steps, path), up to constant factors and smaller terms."""
    ### BEGIN SOLUTION
    return {
        "recurrent": (n * d**2, n, n),
        "convolution": (k * n * d**2, 1, math.log(n) / math.log(k)),
        "self-attention": (n**2 * d, 1, 1),
        "strided sparse": (n**1.5 * d, 1, 1),
        "lsh": (n * math.log(n) * d, math.log(n), math.log(n)),
        "low-rank": (n * r * d, 1, 1),
        "linear": (n * d**2, 1, 1),
    }
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: cost</summary>
#
# Ask for each: how many pairs (or steps) are there, and what does one of them cost?
# </details>
# <details><summary>Hint 2: steps</summary>
#
# If everything that a layer computes is a matrix product over all tokens, nothing waits: a constant. Where does a token
# need the result of another?
# </details>
# <details><summary>Hint 3: path</summary>
#
# If the reach is multiplied by c in each layer, after L layers it is c^L. Set that equal to n.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Your function is called with enormous sizes, as floats, such as $n = 2^{100}$. One of them is squared, or its root
#   is taken: by how much does the result change?
# - So write formulas: a loop over $n$ tokens never ends (it is stopped after 200,000 lines of Python). Tensors of
#   float32 become infinite.
# - Moving a number costs as much as a FLOP. $k$ and $r$ are more than 1, and less than $n$.
# - Factors, constants beside what grows (the size of a bucket, say), a constant base of a logarithm and rounding
#   (`ceil`) change nothing.
# </details>

# %% nbgrader={"grade": true, "grade_id": "layer_types_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.layer_types(layer_types, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.layer_types(layer_types, points=4, cases=hidden.layer_types)
### END HIDDEN TESTS

# %%
plots.layer_costs(layer_types, d=64, k=3, r=32)

# %% [markdown]
# On log-log axes a power $n^e$ is a straight line of slope $e$. Which lines cross, and what does that say about short
# texts?
#
# <details><summary>Which lines cross?</summary>
#
# Self-attention meets the recurrent and the linear layer at $n = d$ (64, the left edge) and the convolution at
# $n = k\,d = 192$. For texts shorter than their vectors are wide, full attention is the cheaper one.
# </details>
#
# **Measure it.** Run three of them for real, count the FLOPs at 6 lengths, and fit a line by least squares.

# %%
from helpers.measuring.growth import slope

d, r, lengths = 32, 4, [2**power for power in range(7, 13)]
runs = {
    "self-attention": lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
    "low-rank": lambda q, k, v: (q @ (shrink(k) @ k).mT).softmax(-1) @ (shrink(v) @ v),
    "linear": lambda q, k, v: q @ (k.mT @ v),
}


def shrink(x):
    """An (r, n) matrix that makes r positions out of n."""
    return torch.ones(r, len(x)) / len(x)


costs = {
    name: [count(lambda: run(*torch.randn(3, n, d))).flops for n in lengths] for name, run in runs.items()
}
plots.measured_growth(lengths, costs, {name: slope(lengths, values) for name, values in costs.items()})

# %% [markdown]
# ## 7.8 The roofline  ●●○ · 20 min · 2 points
#
# A device has two ceilings (Williams, Waterman & Patterson, 2009). Its units compute at most **peak** FLOP/s. Its
# memory delivers at most **bandwidth** bytes/s. A program with intensity $I$ can use each delivered byte for $I$ FLOPs.
# Both run side by side, and both limits hold at once:
#
# $$\text{attainable FLOP/s} = \min(\text{peak},\; I \cdot \text{bandwidth})$$
#
# Left of the **ridge**, where the two are equal, a program is bound by memory. From the ridge on it is bound by
# compute.
#
# **By hand.** A T4 has 65 TFLOP/s in float16 and 320 GB/s. Its ridge is at 65,000/320 ≈ 203 FLOPs per byte. A matrix
# times *one* row has 1 FLOP per byte: 0.32 of 65 TFLOP/s, half a percent.
#
# Write it for counts in **elements**, as you have them from 7.2.

# %% nbgrader={"grade": false, "grade_id": "roofline", "locked": false, "schema_version": 3, "solution": true}
def roofline(
    flops: float, elements: float, dtype: torch.dtype, peak: float, bandwidth: float
) -> tuple[float, str]:
    """(attainable FLOP/s, "memory" or "compute"); at the ridge itself "compute".

    peak is in FLOP/s, bandwidth in bytes/s.
    """
    ### BEGIN SOLUTION
    intensity = flops / (elements * dtype.itemsize)
    if intensity * bandwidth < peak:
        return intensity * bandwidth, "memory"
    return peak, "compute"
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: check the units</summary>
#
# FLOP/byte times byte/s is FLOP/s. Which size turns elements into bytes?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The attainable FLOP/s to 6 digits, and the limit as `"memory"` or `"compute"`. The dtype may be any.
# - FLOPs may be 0, as in a softmax: then 0 FLOP/s are attainable, and memory is the limit. Something is always moved:
#   elements are never 0.
# - At the ridge itself the sizes are so round that no rounding error can tip the answer.
# </details>

# %% nbgrader={"grade": true, "grade_id": "roofline_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.roofline(roofline, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.roofline(roofline, points=2, cases=hidden.roofline)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Three GPUs by their datasheets (tensor cores, 16-bit inputs, no sparsity) and your own machine, whose two
# ceilings are measured now: a large product for the peak, a large copy for the bandwidth. The workloads are those of a
# layer with $d = 4096$, from your tables.
#
# **Predict:** how many of the three workloads sit under the slope of an A100, so that its memory decides?

# %%
guess_bound_by_memory = None  # 0, 1, 2 or 3

# %%
from helpers.measuring.devices import DATASHEETS, this_machine

machine = this_machine()
print(f"This machine has its ridge at {machine.ridge:.1f} FLOPs per byte.")
sizes = {"d": 4096, "h": 32, "d_ff": 16384}
plots.rooflines(roofline, [*DATASHEETS, machine], {
    "write, 1 text": lambda: decode_table(b=1, n=2048, **sizes)["total"],
    "write, 64 texts": lambda: decode_table(b=64, n=2048, **sizes)["total"],
    "read 2048 tokens": lambda: training_table(b=1, n=2048, **sizes)["total"],
})

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Two: writing waits for memory, with one text and with 64 as well, because the caches are not shared. Reading 2048
# tokens has its dot under the flat part on all three GPUs. (On a CPU your machine computes in float32: twice the bytes,
# so its dots stand at half the intensity, left of the dotted lines.)
# </details>
#
# **Move it.** Drag the blue dot: more texts at once, `b`. Which dots get past the ridge? Then keep the numbers in 8
# bits, `torch.int8` (the arithmetic stays in 16, so the roof does too). Put in sizes of your own.

# %%
plots.roofline_film(
    roofline, lambda b, n: decode_table(b=b, n=n, **sizes)["total"], DATASHEETS[1],
    b=[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
    n=[64, 2048, 16384], dtype=torch.bfloat16,
)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Only the short texts. All texts share the weights, so these are paid for once. Every text has a cache of its own, and
# reading it is paid for each time. Half the bytes give twice the intensity to all.
# </details>
#
# **Measure it.** A product $(n, d) \times (d, d)$ with $n = 1, 4, \dots, 256$ rows, on this machine, under its own
# roof. More rows for the same weights: the point climbs the slope.
#
# <details><summary>A point above the roof?</summary>
#
# Data may come from a cache, and reading may be faster than the copy that measured the bandwidth. Other programs that
# run at the same time shift both.
# </details>

# %%
plots.measured_products(roofline, arithmetic_intensity, machine, width=4096)

# %% [markdown]
# ## 7.9 The memory of the scores  ●○○ · 5 min · 1 point
#
# Training needs the attention weights again in the backward pass, so they are kept: one $n \times n$ matrix per
# sequence, head and layer. How many **bytes** is that?
#
# **By hand.** GPT-2 small: 12 layers, 12 heads, $n = 1024$, one sequence, float16: $144 \cdot 1024^2 \cdot 2$ bytes =
# 302 MB. That is more than its weights (124 million of 2 bytes each).

# %% nbgrader={"grade": false, "grade_id": "score_memory", "locked": false, "schema_version": 3, "solution": true}
def score_memory(b: int, n: int, h: int, layers: int, dtype: torch.dtype) -> int:
    """Bytes of a model's score matrices: one n × n matrix per sequence, head and layer."""
    ### BEGIN SOLUTION
    return layers * b * h * n * n * dtype.itemsize
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Any dtype, and $n$ up to millions: 12 digits are enough there too.
# </details>

# %% nbgrader={"grade": true, "grade_id": "score_memory_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.score_memory(score_memory, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.score_memory(score_memory, points=1, cases=hidden.score_memory)
### END HIDDEN TESTS

# %% [markdown]
# ## 7.10 The longest context  ●○○ · 5 min · 1 point
#
# Now the other way round: so many bytes are free. What is the largest $n$ whose score matrices fit?
#
# **Before you write:** with four times the memory, how many times longer may the text be?

# %%
guess_longer_text = None  # a factor

# %% nbgrader={"grade": false, "grade_id": "longest_context", "locked": false, "schema_version": 3, "solution": true}
def longest_context(memory: int, b: int, h: int, layers: int, dtype: torch.dtype) -> int:
    """The largest whole n for which `score_memory` is at most `memory` bytes."""
    ### BEGIN SOLUTION
    return math.isqrt(memory // score_memory(b, 1, h, layers, dtype))
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: whole tokens</summary>
#
# A square root, rounded down. `math.isqrt` does both for whole numbers, if you divide with `//`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - `memory` is a whole number of bytes, a petabyte ($10^{15}$) at most. The answer is whole, and 0 where not even one
#   token fits.
# - It may be 30 million: don't try one length after the other (a call is stopped after 200,000 lines of Python).
# - One root of Python's floats, taken last, is exact enough. One in float32 isn't.
# </details>

# %% nbgrader={"grade": true, "grade_id": "longest_context_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.longest_context(longest_context, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.longest_context(longest_context, points=1, cases=hidden.longest_context)
### END HIDDEN TESTS

# %%
T4, A100, H100 = DATASHEETS
plots.context_limits(score_memory, longest_context, [T4, H100], {
    "GPT-2 small (12 heads, 12 layers)": (12, 12),
    "GPT-2 XL (25 heads, 48 layers)": (25, 48),
    "GPT-3 (96 heads, 96 layers)": (96, 96),
})

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Five times the memory buys little more than twice the context. The scores alone would stop long texts, whatever the
# FLOPs. Unit 09 gets rid of them, without changing a single output.
# </details>
#
# ## 7.11 Windows of an image  ●●○ · 10 min · 1 point
#
# A Vision Transformer cuts an image into square patches and makes each patch a token. Large images have many patches,
# so Swin (Liu et al., 2021) lets a patch attend only to the patches in its own window.
#
# A square image of `side` pixels is cut into patches of `patch` × `patch` pixels, and the patches into windows of
# `window` × `window` **patches**. Return the FLOPs of scores and weighted sum, for global attention and for windows.
# (Every pair of a query and a key costs $2d$ for its score and $2d$ for its share of the sum.)
#
# **By hand.** 224 pixels, patches of 16: 14 × 14 = 196 patches. Windows of 7 × 7: four of them. How many keys does a
# patch see in each case? (With $d = 1$ the FLOPs are 153,664 and 38,416.)

# %%
plots.patch_windows(patches=14, window=7, query=(9, 3))

# %% nbgrader={"grade": false, "grade_id": "vit_windows", "locked": false, "schema_version": 3, "solution": true}
def vit_windows(side: int, patch: int, window: int, d: int) -> tuple[int, int]:
    """FLOPs of scores and weighted sum: (each patch with all, each patch with its window)."""
    ### BEGIN SOLUTION
    n = (side // patch) ** 2
    return 4 * n * n * d, 4 * n * window**2 * d
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Two numbers, in this order. Patches and windows divide the image evenly.
# </details>

# %% nbgrader={"grade": true, "grade_id": "vit_windows_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.vit_windows(vit_windows, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.vit_windows(vit_windows, points=1, cases=hidden.vit_windows)
### END HIDDEN TESTS

# %% [markdown]
# ## 7.12 A few tokens that see everything  ●●○ · 10 min · 1 point
#
# Windows are cheap and short-sighted. A few **global tokens** help (Longformer, Beltagy et al., 2020): they read every
# token, and every token reads them. So any two tokens are at most two layers apart.
#
# There are $n$ ordinary tokens and $g$ global ones, $n + g$ in all. An ordinary token attends to exactly $w$ ordinary
# tokens (itself among them; at the ends the window moves inward) and to all $g$ global ones. A global token attends to
# all $n + g$. Return the FLOPs of scores and weighted sum.
#
# **By hand.** $n = 6$, $w = 3$, $g = 2$: the ordinary tokens have 6·(3 + 2) = 30 pairs, the global ones 2·8 = 16. That
# is 46 of 64.

# %%
plots.global_pattern(n=20, w=5, g=2)

# %% nbgrader={"grade": false, "grade_id": "global_tokens_cost", "locked": false, "schema_version": 3, "solution": true}
def global_tokens_cost(n: int, w: int, g: int, d: int) -> int:
    """FLOPs of scores and weighted sum: n tokens with a window of w, and g global tokens."""
    ### BEGIN SOLUTION
    return 4 * d * (n * (w + g) + g * (n + g))
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: count the colored cells</summary>
#
# Every colored cell of the picture is a pair. Count row by row: a row of an ordinary token, a row of a global one.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $w \le n$, odd or even. $g$ may be 0, and larger than $n$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "global_tokens_cost_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.global_tokens_cost(global_tokens_cost, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.global_tokens_cost(global_tokens_cost, points=1, cases=hidden.global_tokens_cost)
### END HIDDEN TESTS

# %%
plots.sparse_costs(vit_windows, global_tokens_cost, patch=4, window=7, d=96)

# %% [markdown]
# ## 7.13 Patches or channels?  ●●○ · 15 min · 1 point
#
# (A side road: nothing later needs it.) A feature map is an $n \times d$ matrix: $n$ patches, $d$ channels. Attention
# lets rows look at rows. Make $Q$, $K$ and $V$ as always, transpose them, and **channels look at channels**: $Q^\top K$
# is a $d \times d$ matrix, and a score compares two channels over all $n$ patches (XCiT, El-Nouby et al., 2021).
#
# Which costs more? Count fairly: both need queries, keys, values and an output projection, four products with
# $d \times d$ weights. And with $h$ heads,
#
# - between patches, each head has all $n \times n$ pairs, over $d/h$ features;
# - between channels, each head has only its own $d/h$ channels, over $n$ patches.
#
# **By hand.** $n = 5$, $d = 6$, $h = 3$. Between patches, each head: 5×5 scores, dot products of length 2, 100 FLOPs.
# Between channels, each head: 2×2 scores of length 5, 40 FLOPs. Three heads make 300 and 120, and the weighted sums
# cost as much again. The four projections, on both sides, are $4 \cdot 2 \cdot 5 \cdot 6 \cdot 6 = 1440$ FLOPs.
# Together (2040, 1680).

# %% nbgrader={"grade": false, "grade_id": "channel_attention", "locked": false, "schema_version": 3, "solution": true}
def channel_attention(n: int, d: int, h: int) -> tuple[int, int]:
    """FLOPs of attention between n patches, and between d channels, projections included."""
    ### BEGIN SOLUTION
    d_h = d // h
    projections = 4 * matmul_flops(n, d, d)
    patches = h * (matmul_flops(n, d_h, n) + matmul_flops(n, n, d_h))
    channels = h * (matmul_flops(d_h, n, d_h) + matmul_flops(d_h, d_h, n))
    return projections + patches, projections + channels
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Two numbers, patches first, both with the four projections. Only products, as always: no softmax, and no
#   normalization of $Q$ and $K$ (XCiT has one).
# </details>

# %% nbgrader={"grade": true, "grade_id": "channel_attention_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.channel_attention(channel_attention, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.channel_attention(channel_attention, points=1, cases=hidden.channel_attention)
### END HIDDEN TESTS

# %%
plots.patches_or_channels(channel_attention, sizes=[(256, 512), (1024, 512)], heads=[1, 2, 4, 8])

# %% [markdown] nbgrader={"grade": false, "grade_id": "channel_attention_why_question", "locked": true, "schema_version": 3, "solution": false}
# ### Which costs more, and when?  ●●○ · 10 min · 1 point
#
# 256 patches, 512 channels. Say which of the two costs more with one head, and by how much: only in the two attention
# products, and in all. Then name one thing that reverses the answer, and say why it does.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: with one head the channels cost more. Only the attention products: 4nd² against 4n²d, a ratio of d/n = 2
#   (268 against 134 million FLOPs). With the four projections (8nd² = 537 million in both) only 805 against 671
#   million, 1.2 times. (¼ for the right answer without the projections or without numbers.)
# - ½ point: one thing that reverses it, with its reason. Heads: they cut the channels' cost to 4nd²/h and leave the
#   patches' cost alone; equal at h = d/n = 2, cheaper from then on. Or more patches: 4n²d grows with n², 4nd² only with
#   n, so from n > d on (larger images) the channels are cheaper. Or n × n projections for the channels (8n²d instead of
#   8nd²), which fix the number of patches.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "channel_attention_why", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# With one head the channels cost more. Their scores and sum take $4nd^2 = 268$ million FLOPs, those of the patches
# $4n^2d = 134$ million: the ratio is $d/n = 2$. Counted fairly, with the four projections that both need ($8nd^2 = 537$
# million), it is 805 against 671 million, so only 1.2 times as much. Heads reverse the answer. Between patches every
# head still compares all pairs, over fewer features, so heads change nothing. Between channels a head compares only its
# own $d/h$ channels, so the cost falls to $4nd^2/h$: equal at $h = 2$, half of the patches' cost at $h = 4$. A larger
# image does it too, because $n^2d$ passes $nd^2$ at $n = d$.

# %% [markdown]
# ## 7.14 What it takes to train a model  ●●○ · 25 min · 3 points
#
# Now the whole bill: one training step of a decoder LM on $b$ sequences of $n$ tokens. It has `layers` layers as in
# 7.4, and at the end an output head, a product of every token with a $(d, \text{vocabulary})$ matrix. Looking up an
# embedding takes no product.
#
# **Backward costs twice forward.** A product $Y = X W$ has two operands, and each wants its gradient:
# $\partial X = \partial Y\, W^\top$ and $\partial W = X^\top \partial Y$. Both are products of the same size as the
# first. So per token a weight takes part in 3 products, 2 FLOPs each:
#
# $$\text{training FLOPs} \approx 6 \cdot \text{parameters} \cdot \text{tokens}$$
#
# This rule of thumb (Kaplan et al., 2020) is not exact: it counts parameters that are in no product (those of the
# norms, say), and leaves out the products *without* weights. Count all products: $6 \cdot \text{weights} \cdot
# \text{tokens}$ for all weights that take part in one, plus attention's scores and weighted sums, forward and backward.
#
# **By hand.** Two layers, $d = 2$, $d_\text{ff} = 6$, a vocabulary of 5: 2·(4·4 + 2·12) + 2·5 = 90 weights. Two
# sequences of 3 tokens: $6 \cdot 90 \cdot 6 = 3240$ FLOPs. Attention takes $12 \cdot 3^2 \cdot 2 = 216$ per layer and
# sequence; two of each make 864. Together 4104.

# %% nbgrader={"grade": false, "grade_id": "model_flops", "locked": false, "schema_version": 3, "solution": true}
def model_flops(b: int, n: int, layers: int, d: int, d_ff: int, vocabulary: int) -> int:
    """FLOPs of forward and backward of a decoder LM on b sequences of n tokens."""
    ### BEGIN SOLUTION
    weights = layers * (4 * d * d + 2 * d * d_ff) + d * vocabulary  # all that stand in a product
    forward = 2 * weights * b * n + layers * 4 * b * n * n * d  # and the scores and weighted sums
    return 3 * forward
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: which weights?</summary>
#
# Four projections and the two matrices of the FFN in each layer, and the output head once. To compare: one forward pass
# is `layers` times the total of your table in 7.4, and one more product.
# </details>
# <details><summary>Hint 2: attention, backward</summary>
#
# Scores and weighted sum are products too, with two operands each. What holds for Y = X W holds for Q Kᵀ.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The causal mask saves nothing: the product is computed in full. A head that shares its weights with the embedding
#   saves nothing either.
# - If you call your table of 7.4 here, a slip in it costs you twice.
# </details>

# %% nbgrader={"grade": true, "grade_id": "model_flops_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.model_flops(model_flops, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.model_flops(model_flops, points=3, cases=hidden.model_flops)
### END HIDDEN TESTS

# %% [markdown]
# **Count it.** Real models (unit 05's, in `helpers/transformer_lm/transformer.py`), real training steps, every product
# counted. Where is the rule of thumb good, and where is it not?

# %%
from helpers.transformer_lm.transformer import Config, DecoderLM

counted, parameters = {}, []
for n, layers, d in [(16, 2, 64), (64, 4, 128), (512, 2, 64), (1024, 2, 32)]:
    model = DecoderLM(Config(vocabulary=96, d=d, h=4, h_kv=4, layers=layers))
    tokens = torch.randint(96, (1, n))
    step = count(lambda: F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward())
    counted[1, n, layers, d, 4 * d, 96] = step.flops
    parameters.append(sum(p.numel() for p in model.parameters()))
plots.model_counts(model_flops, counted, parameters)

# %%
plots.attention_share(model_flops, {
    "GPT-2 small": (12, 768, 3072, 50257),
    "GPT-2 XL": (48, 1600, 6400, 50257),
    "GPT-3": (96, 12288, 49152, 50257),
})

# %% [markdown]
# ## 7.15 The bill of a training run  ●●○ · 20 min · 3 points
#
# A training run has three bills: arithmetic, time and memory.
#
# - **FLOPs.** The rule of thumb from 7.14: 6 per parameter and token. At this size attention's own products are a few
#   percent more, and we leave them out.
# - **Days.** No run keeps its devices busy all the time. **Model FLOPs utilization** (MFU; Chowdhery et al., 2022,
#   section 4.1) is the share of the peak that goes into the FLOPs above. Large runs report about 0.3 to 0.6.
# - **Bytes.** Adam in mixed precision keeps five numbers per parameter: the weight and its gradient in 16 bits, and in
#   float32 the weight once more and Adam's two averages (Rajbhandari et al., 2020, section 3.1). That makes 2 + 2 + 4 +
#   4 + 4 bytes.
# - **How much text?** Hoffmann et al. (2022, table 3) asked which model is best for a given number of FLOPs. A short
#   form of their answer: **20 tokens per parameter**. Their Chinchilla has 70 billion parameters and saw 1.4 trillion
#   tokens.
#
# Return four rows: `flops`; `days` on `devices` devices of `peak` FLOP/s each; `bytes` of weights, gradients and Adam's
# state; `chinchilla_tokens`, the tokens that suit this number of parameters.
#
# **By hand.** $10^9$ parameters, $2 \cdot 10^{10}$ tokens, one A100 ($3.12 \cdot 10^{14}$ FLOP/s) at MFU 0.4. FLOPs:
# $6 \cdot 10^9 \cdot 2 \cdot 10^{10} = 1.2 \cdot 10^{20}$. The device does $1.248 \cdot 10^{14}$ of them per second,
# so it needs about 961,500 seconds: 11.1 days. Memory: 16 GB, before a single activation. Two devices would take half
# the days, and the 16 GB stay.
#
# **Predict:** GPT-3 has 175 billion parameters and saw 300 billion tokens. By Chinchilla's rule, was that too much
# text, or too little? And by what factor?

# %%
guess_too_little_by = None  # a factor; below 1 if it was too much

# %% nbgrader={"grade": false, "grade_id": "training_run", "locked": false, "schema_version": 3, "solution": true}
def training_run(
    parameters: int,
    tokens: int,
    devices: int,
    peak: float,
    mfu: float,
) -> dict[str, float]:
    """Row → number for a training run. peak: FLOP/s of one device; mfu: the share in use.

    Rows: flops, days, bytes, chinchilla_tokens.
    """
    ### BEGIN SOLUTION
    flops = 6 * parameters * tokens
    seconds = flops / (devices * peak * mfu)
    return {
        "flops": flops,
        "days": seconds / 86_400,
        "bytes": (2 + 2 + 4 + 4 + 4) * parameters,
        "chinchilla_tokens": 20 * parameters,
    }
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: from FLOPs to days</summary>
#
# How many FLOPs do all devices together really do in one second? Divide, and you have seconds.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A dict with these four rows. Days are not rounded; a day has 86,400 seconds.
# - Bytes are those of one copy of the model, however it is spread over the devices. Chinchilla's tokens don't depend on
#   how many this run sees.
# </details>

# %% nbgrader={"grade": true, "grade_id": "training_run_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.training_run(training_run, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import complexity as hidden
check.training_run(training_run, points=3, cases=hidden.training_run)
### END HIDDEN TESTS

# %% [markdown]
# **Four published runs.** Your formula knows two numbers of each. The papers tell the rest.

# %%
plots.published_runs(training_run)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The FLOPs that two of the papers state are yours, to half a percent. LLaMA's GPU hours give away its MFU: 0.48. And
# the dots show how fashion changed. GPT-3 saw a twelfth of Chinchilla's text for its size. Llama 3 405B saw nearly
# twice as much: if a model will be *used* a lot, it pays to train a smaller one for longer.
# </details>
#
# **What does it cost?** Multiply days, devices and 24 by the price of an hour. **And the activations?** They come on
# top. A layer keeps about $34\,b n d + 5\,b h n^2$ bytes in 16 bits for its backward pass (Korthikanti et al., 2022,
# equation 1). For GPT-3 ($d = 12288$, $h = 96$, $n = 2048$, $b = 1$) that is 2.9 GB per layer, and 275 GB for all 96.
# The second term is the scores again. Unit 09 gets rid of it.
#
# <details><summary>Which parameters?</summary>
#
# Kaplan et al. count parameters *without* embeddings, Hoffmann et al. count all. For GPT-2 small that is 85 against 124
# million; for GPT-3 it hardly matters.
# </details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "where_is_the_bottleneck_question", "locked": true, "schema_version": 3, "solution": false}
# ## 7.16 Where is the bottleneck?  ●●○ · 15 min · 1 point
#
# A chat model has layers with $d = 4096$, $h = 32$, $d_\text{ff} = 16384$, in float16. Each layer lies as a whole on
# one of several A100s (312 TFLOP/s and 2039 GB/s). Look at **one layer**. Take your tables, beginning with
# `training_table(b=1, n=4000, d=4096, h=32, d_ff=16384)`, and your roofline. Say for each of the three: memory or
# compute, and which row (or which operand) is behind it?
#
# 1. It reads a prompt of 4000 tokens.
# 2. It writes one token for one user, with 4000 tokens in the cache.
# 3. It writes one token for each of 128 users, with 4000 tokens in each cache. (The caches of one layer are then 8.4
#    GB. All 32 layers of such a model would need 268 GB, which is why the layers are spread.)
#
# What would help in 2, and why does the same help less in 3?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).** The ridge of the A100 is at 312,000/2039 = 153 FLOPs per byte.
# - ¼: (1) compute: about 360 FLOPs per byte for the whole layer; projections and FFN, where 4000 tokens share every
#   weight. (Also right, and better: the rows of attention by themselves, with the softmax, are bound by memory, at
#   about 60.)
# - ¼: (2) memory: about 1 FLOP per byte; 86% of what moves is weights, those of the FFN first (201 million elements
#   per layer, against 33 million in the cache).
# - ¼: (3) memory again, about 7 FLOPs per byte, but now it is the caches: 128 · 2 · 4000 · 4096 = 4.2 billion elements
#   against 0.2 billion weights.
# - ¼: (2) is helped by a batch, which shares the weights (or by smaller weights: quantization). In (3) that is used up:
#   caches are not shared. There a smaller cache helps: fewer key/value heads, int8, a window.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "where_is_the_bottleneck", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# The A100's ridge is at 153 FLOPs per byte.
#
# 1. Compute. The layer as a whole has about 360 FLOPs per byte, because 4000 tokens share each weight; projections and
#    FFN take most of the FLOPs. (On their own the score rows and the softmax have only about 60: they wait for memory.)
# 2. Memory. About 1 FLOP per byte: every weight is fetched to be used for one token. The FFN's weights are the largest
#    part, the cache is small beside them.
# 3. Memory, but for another reason. The weights now serve 128 tokens, so what moves is the caches: 4.2 billion elements
#    against 0.2 billion weights, about 7 FLOPs per byte.
#
# In 2 a batch helps: more users, the same weights, hardly any more time. In 3 it has helped already. Each cache belongs
# to a single user, so more users mean more bytes. There only a smaller cache helps: fewer key and value heads, fewer
# bits, a window.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses


def softmax_share():
    table = training_table(8, 2048, 1024, 16, 4096)
    return table["softmax"][1] / table["total"][1]


guesses({
    "7.2 An element of the orange matrix is used more often on the": (guess_reused, "left"),
    "7.3 All sizes double: intensity times": (guess_twice_the_size, 2),
    "7.3 float16 instead of float32: intensity times": (guess_half_the_bytes, 2),
    "7.4 The softmax's share of all elements": (guess_softmax_share, softmax_share),
    "7.5 Weights among the elements that a new token moves": (guess_weights, "more than 70 %"),
    "7.8 Workloads that an A100's memory decides": (guess_bound_by_memory, 2),
    "7.10 Four times the memory: a text longer by the factor": (guess_longer_text, 2),
    "7.15 GPT-3 saw too little text by the factor": (guess_too_little_by, 20 * 175e9 / 300e9),
})

# %% [markdown]
# ## What you have now
#
# - A product $(n, m)(m, k)$ takes $2nmk$ FLOPs and moves $nm + mk + nk$ elements. Their ratio decides what it waits
#   for.
# - A layer that **reads** shares its weights among all tokens: bound by compute, apart from the score matrices.
# - A layer that **writes** fetches all weights, and the cache, for one token: bound by memory.
# - $4n^2d$ passes the rest at $n = 2d + d_\text{ff}$, which is $6d$ for the usual FFN.
# - Training takes $6 \cdot \text{weights} \cdot \text{tokens}$ FLOPs, and $12\,b\,n^2 d$ per layer; 16 bytes per
#   parameter with Adam; and about 20 tokens per parameter.
#
# **Read more**
#
# - Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, section 2.1, and Hoffmann et al. (2022), the
#   *Chinchilla* paper: what FLOPs buy.
# - Williams, Waterman & Patterson (2009), *Roofline*: the model of 7.8, by those who invented it.
# - Shazeer (2019), *Fast Transformer Decoding*, sections 2.3 and 2.4: our two tables, with the constants left out.
# - Korthikanti et al. (2022), *Reducing Activation Recomputation in Large Transformer Models*: bytes of every tensor
#   that training keeps.
# - Tay et al. (2022), *Efficient Transformers: A Survey*: more rows for the table of 7.7.
#
# **Next:** in unit 08 you build the cache that `decode_table` took for granted, and make it smaller.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=7)
