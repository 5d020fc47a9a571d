# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · Flash attention
#
# Attention makes a table of $n \times n$ scores, uses it once and throws it away. For a long text that table is far
# larger than everything else in the layer, and a GPU computes it faster than it can write it down and read it back.
# Flash attention (Dao et al., 2022) never writes it down. It computes the same output in a better order.
#
# You will build it from the bottom up: a softmax that reads its row in pieces, then attention in tiles, then its
# gradient, then the same as a GPU kernel.
#
# **After this unit you can**
# - count the bytes that attention moves, and say why they set its speed;
# - compute a softmax block by block, and merge partial results exactly;
# - write attention forward and backward in memory that grows with $n$, not with $n^2$;
# - write it as a Triton kernel that runs compiled on a GPU and interpreted without one;
# - split the work of a single query, and prepare queries and keys for 8-bit numbers.
#
# **How to work.** Everything grows out of section 9.2: do its numbers by hand before you go on. The checks look at how
# you compute, not only at what: they find a hidden $n \times n$ matrix. A GPU is welcome but not needed. You have about
# 7 hours, and 36 points to earn.
#
# **Letters.** $S$ are the scores *with* their $1/\sqrt d$. For query $i$ the running maximum is $m_i$ and the running
# sum $\ell_i$, as in the papers; plain $m$ is the number of keys. $L_i$, or `lse`, is the logsumexp of row $i$ of $S$.
#
# **In all sections.** Your functions don't call PyTorch's fused attention (`F.scaled_dot_product_attention` and its
# relatives).

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% nbgrader={"grade": false, "grade_id": "setup_triton", "locked": true, "schema_version": 3, "solution": false}
# kernels are compiled where there is a GPU, and interpreted where there is none
from helpers.kernels import tl, triton

# %% [markdown]
# ## 9.1 What moves  ●○○ · 15 min · 2 points
#
# A GPU has two memories. The large one (HBM) holds everything: 80 GB on an H100. The small one sits beside the
# arithmetic units: about 200 kB for each of the 132 streaming multiprocessors in which its arithmetic units are grouped
# (NVIDIA, *H100 Tensor Core GPU Architecture*, 2022). A number can be multiplied only there, so numbers travel.
#
# Traveling is slow. While an H100 moves one byte it could do 295 FLOPs (unit 07). Standard attention makes it wait. It
# works in three steps, and each step reads its inputs from the large memory and writes its result back:
#
# 1. $S = QK^\top/\sqrt d$: reads $Q$ and $K$, writes $S$.
# 2. $P = \operatorname{softmax}(S)$: reads $S$, writes $P$.
# 3. $O = PV$: reads $P$ and $V$, writes $O$.
#
# The tiled way cuts $Q$, $K$, $V$ and $O$ into tiles of $B$ rows, and the chip holds one tile of each. A tile of
# queries stays while all tiles of keys and values pass by. Each tile of scores is made, used and forgotten.

# %%
plots.tile_walk_still()

# %% [markdown]
# (The small boxes $m$ and $\ell$, and the rescaling, are the subject of 9.2.)
#
# Count bytes for one head, with $n$ queries, $n$ keys and $d_v = d$.
#
# - **standard**: the three steps above.
# - **tiled**: `on_chip` bytes hold four tiles of `B = on_chip // (4 * d * itemsize)` rows each. Every tile of
#   queries reads all of $K$ and $V$. The output is written once, and beside it one more number per row: what another
#   worker needs to go on from it (9.3).
#
# **By hand.** $n = 4$, $d = 2$. Standard: $Q, K, V, O$ have 8 numbers each and travel once; $S$ and $P$ have 16 each
# and travel twice. Together $32 + 64 = 96$ numbers, in float32 384 bytes. Tiled with 64 bytes on chip:
# $B = 64/(4 \cdot 2 \cdot 4) = 2$ rows, so 2 tiles of queries. Then $8 + 8 + 4 + 2 \cdot 16 = 52$ numbers, 208 bytes.
#
# **Predict:** with twice the tokens, by what factor, about, does each of the two grow? And with twice the memory on the
# chip, by what factor does the tiled traffic change?

# %%
guess_twice_the_tokens = None  # a factor
guess_twice_the_chip = None  # a factor

# %% nbgrader={"grade": false, "grade_id": "hbm_traffic", "locked": false, "schema_version": 3, "solution": true}
def standard_traffic(n: int, d: int, itemsize: int) -> int:
    """Bytes that one head moves to and from the large memory, in three separate steps."""
    ### BEGIN SOLUTION
    scores = 2 * n * d + n * n  # read Q and K, write S
    softmax = 2 * n * n  # read S, write P
    mixture = n * n + 2 * n * d  # read P and V, write O
    return (scores + softmax + mixture) * itemsize
    ### END SOLUTION


def tiled_traffic(n: int, d: int, on_chip: int, itemsize: int) -> int:
    """Bytes that one head moves in tiles: `on_chip` bytes hold one each of Q, K, V and O."""
    ### BEGIN SOLUTION
    rows = on_chip // (4 * d * itemsize)
    query_tiles = math.ceil(n / rows)
    once = 2 * n * d + n  # Q is read; O and one number per row are written
    return (once + query_tiles * 2 * n * d) * itemsize
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: how often does each letter appear?</summary>
#
# Go through the three steps with a pencil and make a mark for every journey of every matrix. Which two make two marks?
# </details>
# <details><summary>Hint 2: a short last tile</summary>
#
# 5 rows in tiles of 2 are 3 tiles. The third has one row, and still needs all keys. `math.ceil` counts it.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any sizes, real ones too. The chip holds at least one row of each tile, and may hold everything.
# - Whole numbers, exact. Every number takes `itemsize` bytes, the extra one per row as well, and $Q$ is
#   read once. The tile of scores lives in registers and isn't counted.
# </details>

# %% nbgrader={"grade": true, "grade_id": "hbm_traffic_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.hbm_traffic(standard_traffic, tiled_traffic, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.hbm_traffic(standard_traffic, tiled_traffic, points=2, cases=hidden.hbm_traffic)
### END HIDDEN TESTS

# %%
plots.traffic_against_n(standard_traffic, tiled_traffic)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Parallel lines: both ways grow like $n^2$, four times the bytes for twice the tokens, and tiles save a factor. A chip
# twice as large doubles that factor; 16 kB save nothing. On an A100 the standard way waits for its memory, and tiles
# that fill the chip don't.
# </details>
#
# **Move it.** Your functions, for tiles of 8 to 768 rows. Before you move the slider: at how many rows do tiles cost as
# much as the standard way?

# %%
plots.tile_size_film(standard_traffic, tiled_traffic)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# At 32 rows, $d/2$: smaller tiles move more bytes than no tiles at all. The largest tiles that fit decide, so a GPU
# with more memory on the chip moves less.
# </details>
#
# Tiles save a *factor*: about $4n^2$ numbers against $2n^2 d/B$, so $2B/d$ times fewer. With $M$ numbers on the chip,
# $B = M/(4d)$, and the tiles move $8n^2d^2/M$: the $\Theta(n^2d^2/M)$ of Dao et al. (2022, theorem 2). Now place both
# on the roofline of unit 07. Standard attention does $4n^2d$ FLOPs for $4n^2$ numbers: $d$ FLOPs per number, however
# long the text. Tiles do $2B$.

# %%
plots.attention_on_roofline()

# %% [markdown]
# The standard way lies on the slope, where memory decides. Tiles carry attention past the ridge on an A100 and an H100,
# and close to it on a T4, whose chip is smaller.
#
# <details><summary>How large are real tiles?</summary>
#
# The formula is a model. With $d = 64$ it gives an H100 tiles of some 450 rows. Their scores alone would need 800 kB of
# registers, and there are 256 kB. Real kernels take tiles of about 128 rows, to the left of these dots, and win the
# rest back elsewhere: programs that want the same tile of keys at the same time find it in a shared cache, the L2.
# </details>
#
# One thing stands in the way. The softmax of a row needs the whole row, and a tile has only a piece of it.

# %% [markdown]
# ## 9.2 A softmax that reads its row once  ●●○ · 25 min · 3 points
#
# To normalize a row of scores $x$ you need two numbers: its maximum, and $\sum_j e^{x_j - \max}$. Each seems to need
# the full row, and the second needs the first. Milakov and Gimelshein (2018) found that both can be kept *while
# reading*. Keep a running maximum $m_i$, and a sum $\ell_i$ of exponentials relative to **that** maximum. When a block
# brings a larger maximum, the old sum is still relative to the old one. One factor puts it right:
#
# $$m_i^{\text{new}} = \max\bigl(m_i,\ \max_{j \in \text{block}} x_j\bigr), \qquad
# \ell_i^{\text{new}} = e^{m_i - m_i^{\text{new}}}\,\ell_i + \sum_{j \in \text{block}} e^{x_j - m_i^{\text{new}}}$$
#
# It works because $e^{x - m_i^{\text{new}}} = e^{m_i - m_i^{\text{new}}}\,e^{x - m_i}$: every old term needs the *same*
# factor, so the sum needs it only once, and nobody has to remember the terms.
#
# **By hand.** The row 1, 3, 2, 5 in blocks of two:
#
# - Before the first block: maximum $-\infty$, sum 0.
# - Block 1, 3: the maximum becomes 3. The old sum is 0. New: $\ell_i = e^{1-3} + e^{3-3} = 0.135 + 1 = 1.135$.
# - Block 2, 5: the maximum becomes 5. The factor is $e^{3-5} = 0.135$. New:
#   $\ell_i = 0.135 \cdot 1.135 + e^{2-5} + e^{5-5} = 0.154 + 0.050 + 1 = 1.203$.
#
# All at once: $e^{-4} + e^{-2} + e^{-3} + e^0 = 0.018 + 0.135 + 0.050 + 1 = 1.203$. The same.
#
# **Before you run the picture:** a third block 4, 0 follows. What is its factor?

# %%
guess_third_factor = None  # a number

# %%
plots.online_softmax_steps([1, 3, 2, 5, 4, 0], block=2)

# %% [markdown]
# <details><summary>The third factor</summary>
#
# $e^{5 - 5} = 1$: block 4, 0 brings no new maximum, so nothing is rescaled.
# </details>
#
# **And with $-\infty$?** That is a masked score (unit 03), and whole blocks and rows of them come up. A row with
# nothing else has maximum $-\infty$ and sum 0. But look at a first block $-\infty, -\infty$: the maximum stays
# $-\infty$, and the exponents are $-\infty - (-\infty)$, which is NaN. What could you subtract there instead?
#
# **The task.** Return the maximum and the sum of every row from a single reading: a block that has left the chip is
# gone.
#
# **Predict:** what goes wrong if the maximum starts at 0 instead of $-\infty$, and all scores are near $-200$?

# %% nbgrader={"grade": false, "grade_id": "online_softmax", "locked": false, "schema_version": 3, "solution": true}
def online_softmax(
    x: Float[Tensor, "*batch n"], block: int
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Without `softmax` and `logsumexp`: max x and Σ exp(x − max x) of every row, read once,
    `block` scores at a time. The last block may be shorter."""
    ### BEGIN SOLUTION
    m_i = x.new_full(x.shape[:-1], -math.inf)
    l_i = x.new_zeros(x.shape[:-1])
    for start in range(0, x.shape[-1], block):
        part = x[..., start : start + block]
        m_new = torch.maximum(m_i, part.amax(dim=-1))
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)  # nothing seen yet: −∞ − (−∞) would be NaN
        l_i = torch.exp(m_i - shift) * l_i + torch.exp(part - shift[..., None]).sum(dim=-1)
        m_i = m_new
    return m_i, l_i
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: what to carry along</summary>
#
# Two tensors of shape `x.shape[:-1]`: one starts full of −∞, one full of 0. `x[..., start : start + block]` is a block,
# and slicing beyond the end is no error.
# </details>
# <details><summary>Hint 2: which maximum goes where?</summary>
#
# The old sum is measured against the old maximum, the new terms against the new one. Only the old sum needs a factor.
# Both maxima are in it: which minus which gives a factor of at most 1?
# </details>
# <details><summary>Hint 3: in words</summary>
#
#     for every block:
#         new maximum = larger of the old one and the block's
#         sum         = exp(old maximum − new maximum) × sum + sum of exp(block − new maximum)
#         maximum     = new maximum
#
# In rows that have seen nothing but −∞ so far this gives NaN. The next box says what to subtract there.
# </details>
# <details><summary>If you see NaN</summary>
#
# If it is everywhere, look at the first factor: $e^{-\infty}$ is 0, but the other way round it is ∞, and ∞ · 0 is NaN.
# If it is only in some rows: −∞ − (−∞) is NaN, and it happens where nothing but −∞ was seen so far. Subtract 0 instead
# of the maximum in those rows: $e^{-\infty - 0} = 0$ is right. `masked_fill` does it. After the loop it is too late for
# a repair.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64, any number of leading axes. `block` need not divide $n$, and may be larger than $n$.
# - $-\infty$ anywhere. Only $-\infty$ means masked: a score of $-30{,}000$ is a score.
# - No `softmax`, `logsumexp` or `logcumsumexp` of PyTorch, and no matrix product.
# - In a long row (more than four blocks): no maximum of the whole row before the pass, and no tensor with more numbers
#   than two blocks of all rows have. A view is no new tensor, so `x.split(block, dim=-1)` is fine; a padded copy of `x`
#   isn't.
# </details>

# %% nbgrader={"grade": true, "grade_id": "online_softmax_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.online_softmax(online_softmax, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.online_softmax(online_softmax, points=3, cases=hidden.online_softmax)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>A start at 0</summary>
#
# Scores near −200 then give $e^{-200}$, which is 0 in float32, and the sum is lost.
# </details>

# %% [markdown]
# ## 9.3 Two halves make a whole  ●●○ · 20 min · 3 points
#
# Now with values. One worker attends only to the first keys, another to the rest. Each returns its own finished output.
# Can you get the output for all keys from these two, without looking at a key again? Yes, if each adds one number: the
# **logsumexp**
#
# $$L_i = \log \sum_j e^{S_{ij}} = m_i + \log \ell_i$$
#
# $e^{L_i}$ is the sum of exponentials that the worker divided by. It says how much its output counts:
#
# $$O_i = \frac{e^{L_i^a}\,O_i^a + e^{L_i^b}\,O_i^b}{e^{L_i^a} + e^{L_i^b}}, \qquad
# L_i = \log\bigl(e^{L_i^a} + e^{L_i^b}\bigr)$$
#
# **By hand.** Worker a saw three keys with score 0 and value 10 each: output 10, $L = \log 3$. Worker b saw one key
# with score 0 and value 30: output 30, $L = \log 1$. Merged: $(3 \cdot 10 + 1 \cdot 30)/4 = 15$, and $L = \log 4$. That
# is the mean of 10, 10, 10, 30, as it should be. The plain mean of the two outputs is 20.

# %%
plots.merging({"a": (10, 3), "b": (30, 1)})

# %% [markdown]
# It doesn't matter which comes first, nor in which order three or more are merged: merging is associative, like the
# scan of unit 01. So the keys may be cut anywhere and handed to anyone. All of this unit rests on that.
#
# A worker that saw nothing of a row returns output 0 and $L = -\infty$ for it. Merging with it must change nothing, and
# two such workers give 0 and $-\infty$ again.

# %% nbgrader={"grade": false, "grade_id": "merge_partials", "locked": false, "schema_version": 3, "solution": true}
def merge_partials(
    out_a: Float[Tensor, "*batch n d"],
    lse_a: Float[Tensor, "*batch n"],
    out_b: Float[Tensor, "*batch n d"],
    lse_b: Float[Tensor, "*batch n"],
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch n"]]:
    """Output and logsumexp for the keys of a and b together. lse = −∞: nothing was seen."""
    ### BEGIN SOLUTION
    top = torch.maximum(lse_a, lse_b)
    top = top.masked_fill(top == -math.inf, 0.0)
    weight_a, weight_b = torch.exp(lse_a - top), torch.exp(lse_b - top)  # the larger one is 1
    total = weight_a + weight_b  # at least 1, except where both saw nothing: 0
    out = weight_a[..., None] * out_a + weight_b[..., None] * out_b
    return out / total.clamp_min(1.0)[..., None], top + torch.log(total)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: large logsumexps</summary>
#
# A logsumexp of 200 is nothing special, and $e^{200}$ overflows. Only the ratio of the two weights counts. What did you
# subtract in the softmax?
# </details>
# <details><summary>Hint 2: shapes</summary>
#
# `lse_a` has one number per row, `out_a` has d. `[..., None]` lets the one multiply the others.
# </details>
# <details><summary>If you see NaN or a division by zero</summary>
#
# Look at a row that neither worker has seen: the maximum is −∞ (NaN as soon as you subtract it), and the weights are 0
# and 0 (so is their sum).
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64, any number of leading axes.
# - Row by row: one row may be empty where the next isn't, and $L$ may be $-300$ in one row and 300 in the next. $L$ may
#   be $-30{,}000$ where the other worker saw nothing.
# - In a row that a worker hasn't seen its output is 0, never garbage.
# - `torch.logaddexp` and `torch.softmax` are fine.
# </details>

# %% nbgrader={"grade": true, "grade_id": "merge_partials_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.merge_partials(merge_partials, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.merge_partials(merge_partials, points=3, cases=hidden.merge_partials)
### END HIDDEN TESTS

# %% [markdown]
# ## 9.4 Attention in tiles  ●●● · 50 min · 5 points
#
# Now put the two together. The walk of 9.1 meets the scores of a row in pieces. So carry along $m_i$, $\ell_i$ and an
# **accumulator** for the output, and rescale the accumulator just as you rescale the sum:

# %%
plots.tile_walk()

# %% [markdown]
# For a tile of queries $Q_i$, start with $m_i = -\infty$, $\ell_i = 0$, $O_i = 0$. For every tile of keys $K_j$, $V_j$:
#
# $$\begin{aligned}
# S &= Q_i K_j^\top/\sqrt d \\
# m_i^{\text{new}} &= \max(m_i, \operatorname{rowmax} S) \\
# P &= e^{S - m_i^{\text{new}}} \\
# \ell_i &\leftarrow e^{m_i - m_i^{\text{new}}}\,\ell_i + \operatorname{rowsum} P \\
# O_i &\leftarrow e^{m_i - m_i^{\text{new}}}\,O_i + P V_j
# \end{aligned}$$
#
# Compared with 9.2 only the line of $O_i$ is new. After the last tile, divide $O_i$ by $\ell_i$, and set
# $L_i = m_i + \log \ell_i$.
#
# **By hand.** The scores 1, 3, 2, 5 of 9.2, with values 10, 20, 30, 40 and tiles of two keys.
#
# - Tile 1, 3: $m_i = 3$, $\ell_i = 1.135$, $O_i = 0.135 \cdot 10 + 1 \cdot 20 = 21.35$.
# - Tile 2, 5: $m_i = 5$, factor 0.135, $\ell_i = 1.203$,
#   $O_i = 0.135 \cdot 21.35 + 0.050 \cdot 30 + 1 \cdot 40 = 44.38$.
#
# Output: $44.38 / 1.203 = 36.88$. The softmax of the four scores is 0.015, 0.112, 0.041, 0.831, and the mixture
# $0.15 + 2.25 + 1.24 + 33.24 = 36.88$.
#
# **Watch it.** The four words of 2.5, in tiles of 2 × 2. In the second tile of each row, check the factor by hand.

# %%
plots.tiles_flow()

# %% [markdown]
# <details><summary>If you read the paper: a misprint</summary>
#
# Algorithm 1 of FlashAttention-2 (Dao, 2023) prints the factor of the accumulator in line 10 with an *inverse*,
# $\operatorname{diag}(e^{m^{\text{old}} - m^{\text{new}}})^{-1} O$. Try it: $e^{+2} = 7.39$ instead of 0.135 gives
# $7.39 \cdot 21.35 + 41.49 = 199.3$, and $199.3/1.203 = 166$. A mixture of 10, 20, 30 and 40 can't be 166. (In code it
# is worse: in the first tile the factor would be $1/e^{-\infty}$, and $\infty \cdot 0$ is NaN.) A formula deserves a
# number.
# </details>
#
# **Causal.** With `causal=True` the $n$ queries are the last $n$ of the $m$ positions, as in unit 03: query $i$ sees
# the keys $j \le i + (m - n)$. Inside a tile you need the *positions*, not the places in the tile. With $n = 8$,
# $m = 10$ and `block_q = 4`, row 2 of the second tile is query 6. It stands at position 8 and sees keys 0 to 8. If
# $n > m$, the first rows see nothing: output 0, $L = -\infty$.
#
# **The task.** Return $O$ and $L$, and use each tile of scores up before you make the next: only so does memory grow
# with $n$ and not with $n^2$.
#
# **Predict:** how many numbers does the largest tensor that you make have, for $n = 4096$, $d = 64$ and tiles of 64?
# And in standard attention?

# %%
guess_largest_tensor = None  # a number

# %% nbgrader={"grade": false, "grade_id": "flash_attention_forward", "locked": false, "schema_version": 3, "solution": true}
def flash_attention_forward(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n"]]:
    """No scores and no mask larger than a tile: softmax(q kᵀ / √d) v, and the logsumexp of
    every row."""
    ### BEGIN SOLUTION
    n, m, scale = q.shape[-2], k.shape[-2], 1 / math.sqrt(q.shape[-1])
    outputs, logsumexps = [], []
    for i in range(0, n, block_q):
        q_i = q[..., i : i + block_q, :]
        positions = torch.arange(i, i + q_i.shape[-2], device=q.device) + (m - n)  # among the keys
        end = min(i + block_q, n) + (m - n) if causal else m  # the whole tile sees no key from here on
        m_i = q.new_full(q_i.shape[:-1], -math.inf)
        l_i = q.new_zeros(q_i.shape[:-1])
        acc = q.new_zeros(*q_i.shape[:-1], v.shape[-1])
        for j in range(0, end, block_k):
            s = q_i @ k[..., j : j + block_k, :].mT * scale  # (*batch, block_q, block_k)
            if causal:
                keys = torch.arange(j, j + s.shape[-1], device=q.device)
                s = s.masked_fill(keys > positions[:, None], -math.inf)
            m_new = torch.maximum(m_i, s.amax(dim=-1))
            shift = m_new.masked_fill(m_new == -math.inf, 0.0)
            p = torch.exp(s - shift[..., None])
            rescale = torch.exp(m_i - shift)
            l_i = rescale * l_i + p.sum(dim=-1)
            acc = rescale[..., None] * acc + p @ v[..., j : j + block_k, :]
            m_i = m_new
        outputs.append(acc / l_i.masked_fill(l_i == 0, 1.0)[..., None])  # a row that saw nothing stays 0
        logsumexps.append(m_i + torch.log(l_i))
    return torch.cat(outputs, dim=-2), torch.cat(logsumexps, dim=-1)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: begin small</summary>
#
# Write it with one tile of queries (all of them) and a loop over tiles of keys, without `causal`. Then put the second
# loop around it. Then the mask.
# </details>
# <details><summary>Hint 2: what belongs to which loop?</summary>
#
# m_i, l_i and acc belong to a tile of queries: they start afresh for each, outside the loop over keys. The division by
# l_i and the logsumexp come after that loop.
# </details>
# <details><summary>Hint 3: positions</summary>
#
# `torch.arange(i, i + rows) + (m - n)` are the positions of the queries of a tile, `torch.arange(j, j + columns)` those
# of its keys. A column against a row gives the mask of the tile: `keys > positions[:, None]` is what must be hidden.
# </details>
# <details><summary>Hint 4: in words</summary>
#
#     for every tile of queries:
#         m_i, l_i, acc = −∞, 0, 0
#         for every tile of keys (and values):
#             s       = scores of the two tiles, scaled; −∞ where hidden
#             m_new   = larger of m_i and the row maxima of s
#             p       = exp(s − m_new)
#             rescale = exp(m_i − m_new)
#             l_i     = rescale × l_i + row sums of p
#             acc     = rescale × acc + p @ values
#             m_i     = m_new
#         output of the tile = acc / l_i;  logsumexp = m_i + log l_i
#     join the tiles
# </details>
# <details><summary>If it is right with one tile of keys and wrong with more</summary>
#
# Is the accumulator rescaled, as the sum is? Is it divided by l_i once, after the last tile, and not in every tile? Do
# you rescale with the old maximum before you overwrite it?
# </details>
# <details><summary>If every value is NaN</summary>
#
# Look at the factor in the first tile. $e^{m_i - m_i^{\text{new}}}$ is $e^{-\infty} = 0$ there. The other way round it
# is ∞, and ∞ · 0 is NaN.
# </details>
# <details><summary>If you see NaN only with causal=True</summary>
#
# If n > m, the first rows see nothing at all, and their maximum stays −∞. Do as in 9.2: subtract 0 there. And divide by
# something else where l_i = 0.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64, $d \ne d_v$, any number of leading axes, ragged tiles, tiles larger than the input. No
#   gradients.
# - Inputs may be views, such as heads that were split off and transposed: `view` fails on them, `reshape` doesn't.
# - Scores may climb by 90 per key or lie near $-30{,}000$; a key may be all zeros.
# - Size, with $n$ and $m$ from 150 to 190, widths of 2 and 3, and tiles such as 32 × 8: no tensor, masks included, has
#   more than $2 \cdot \max(n, m) \cdot \max(d, d_v)$ numbers. A scaled copy of `q` is fine.
# - At one time you hold at most ¾ as many numbers as a row of tiles has scores, `block_q` $\cdot\, m$, the output
#   included and the inputs not. A right answer needs about ⅓. A list of output tiles and its `torch.cat` fit.
# - The scores are made once: matrix products take at most $2.5\,n m (d + d_v)$ FLOPs. Skipping hidden tiles is not
#   asked for here.
# </details>

# %% nbgrader={"grade": true, "grade_id": "flash_attention_forward_test", "locked": true, "points": 5, "schema_version": 3, "solution": false}
check.flash_attention_forward(flash_attention_forward, points=5)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.flash_attention_forward(flash_attention_forward, points=5, cases=hidden.flash_attention_forward)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** The largest tensor is counted while both run.

# %%
torch.manual_seed(0)
plots.largest_tensor(flash_attention_forward, lengths=[128, 256, 512, 1024, 2048], d=16, block=64)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# At first one tile of scores is the largest, $64 \cdot 64$. From $n = 256$ on it is the output, which nobody can avoid.
# For the sizes of your prediction that is $4096 \cdot 64 = 262{,}144$ numbers, against 16.8 million scores.
# </details>

# %% [markdown]
# ## 9.5 Tiles that need no visit  ●●○ · 20 min · 2 points
#
# Causal attention hides half of all pairs. A mask saves no work: the scores are computed first and hidden afterward.
# Skipping whole tiles does save work. Tiles come in three kinds.

# %%
plots.causal_tiles_map((12, 12, 3, 3), (8, 14, 3, 4))

# %% [markdown]
# Dark tiles need no mask. Those on the diagonal do. White ones need not be made at all. With $T$ tiles along each side
# of a square, $T(T + 1)/2$ of $T^2$ are visited.
#
# **By hand.** $n = m = 12$, tiles of 3: $T = 4$, so $4 \cdot 5/2 = 10$ of 16. Which key does the last query of the
# second row of tiles see last? Query 5 sees key 5. That is in the second tile, so this row has two tiles.
#
# **(a)** Return the number of tiles that a causal pass must visit: those with at least one allowed pair.
#
# **(b)** Does your `flash_attention_forward` visit only those? If not, change its loop over the keys in its own cell,
# up in 9.4, run that cell and its check again, and come back to the check below.

# %% nbgrader={"grade": false, "grade_id": "causal_tiles", "locked": false, "schema_version": 3, "solution": true}
def causal_tiles(n: int, m: int, block_q: int, block_k: int) -> int:
    """Tiles with at least one pair j ≤ i + (m − n), for n queries and m keys."""
    ### BEGIN SOLUTION
    tiles = 0
    for i in range(0, n, block_q):
        last = min(i + block_q, n) - 1  # the last query of the tile sees most
        tiles += math.ceil(max(last + (m - n) + 1, 0) / block_k)
    return tiles
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: one row of tiles</summary>
#
# The last query of a tile sees more than the others. It sees the keys 0 to i + (m − n). How many keys is that, and how
# many tiles do they touch? Careful if it is negative: that is no key, and no tile. And careful with a short last tile:
# its last query is n − 1.
# </details>
# <details><summary>Hint 2: skipping</summary>
#
# The loop over the keys is `range(0, m, block_k)`. Which end does it need, if the tile of queries sees so many keys and
# no more?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - (a) Any $n$, $m$ and tile sizes, $n > m$ as well. A whole number, exact.
# - (b) With `causal=True` matrix products take at most `2 * block_q * block_k * (d + d_v + 1)` FLOPs per tile of (a).
#   So a tile is left out before its scores are made, even the first hidden one.
# - (b) No tensor has more than $2 \cdot \max(n, m) \cdot \max(d, d_v)$ numbers per sequence.
# - (b) Values are right with and without `causal`. The points of this section depend on (b), those of 9.4 don't.
# </details>

# %% nbgrader={"grade": true, "grade_id": "causal_tiles_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.causal_tiles(causal_tiles, flash_attention_forward, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.causal_tiles(causal_tiles, flash_attention_forward, points=2, cases=hidden.causal_tiles)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** Predict first: with ever smaller tiles, what does the share of FLOPs tend to? And what speaks against
# very small tiles?

# %%
guess_share = None  # a share, between 0 and 1

# %%
torch.manual_seed(0)
plots.causal_saving(flash_attention_forward)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# One half, from above. And very small tiles read keys and values too often (9.1), with little work for each. With a
# window (unit 03) the tiles before it need no visit either: a row of tiles visits equally many, however long the text.
# </details>

# %% [markdown]
# ## 9.6 The backward pass  ●●● · 50 min · 4 points
#
# Training needs gradients with respect to $Q$, $K$ and $V$. Standard attention keeps $P$ for that: $n^2$ numbers, in
# every layer, until the backward pass. Flash attention keeps $L$, one number per row, and makes $P$ again, tile by
# tile:
#
# $$P_{ij} = e^{S_{ij} - L_i}$$
#
# No running maximum is needed this time: $L_i$ contains the final one, and the sum.
#
# Let $dO$ be the gradient that arrives at the output. From $O = PV$:
#
# $$dV = P^\top dO, \qquad dP = dO\,V^\top$$
#
# Then back through the softmax. Its Jacobian (2.11) is $\partial P_{ik} / \partial S_{ij} = P_{ik}([k = j] - P_{ij})$,
# where $[k = j]$ is 1 if $k = j$ and 0 otherwise. So
#
# $$dS_{ij} = \sum_k dP_{ik}\,P_{ik}([k = j] - P_{ij}) = P_{ij}\Bigl(dP_{ij} - \sum_k P_{ik}\,dP_{ik}\Bigr)$$
#
# The sum runs over a whole row of keys, and again a tile has only a piece. But look what it is:
#
# $$\sum_k P_{ik}\,dP_{ik} = \sum_k P_{ik} \sum_c dO_{ic} V_{kc}
# = \sum_c dO_{ic} \sum_k P_{ik} V_{kc} = \sum_c dO_{ic}\,O_{ic} = D_i$$
#
# It is the row sum of $dO \circ O$, and both are at hand before the walk begins. So with
# $D = \operatorname{rowsum}(dO \circ O)$
#
# $$dS = P \circ (dP - D), \qquad dQ = dS\,K/\sqrt d, \qquad dK = dS^\top Q/\sqrt d$$
#
# (The backward algorithm in the FlashAttention-2 paper leaves $1/\sqrt d$ out. It belongs there, because $S$ contains
# it.)
#
# **By hand.** One query, two keys, weights $P = (¾, ¼)$, values 10 and 30, so $O = 15$. Let $dO = 1$. Then
# $dP = (10, 30)$ and $D = 1 \cdot 15 = 15$. So $dS = (¾ \cdot (10 - 15),\ ¼ \cdot (30 - 15)) = (-3.75,\ 3.75)$. To
# raise the output, move attention to the key whose value lies *above* the output: $D$ is what a value is compared with.
# The two entries sum to 0, as the rows of the Jacobian do. And $dV = (¾, ¼)$.
#
# Every tile of pairs adds to a tile of $dQ$, of $dK$ and of $dV$. Walk over the square in any order you like.

# %%
plots.backward_flow()

# %% [markdown]
# **(a)** `flash_attention_backward`: the gradients from `q`, `k`, `v`, `out`, `lse` and `grad_out` ($dO$), tile by
# tile. In a row that saw nothing $S$ and $L$ are both $-\infty$, so $e^{S - L}$ is NaN, though no key can change the
# output: its gradients are 0.
#
# **(b)** `flash_attention`: a function that PyTorch can differentiate. `torch.autograd.Function` takes a forward and a
# backward of your own. `forward` saves what `backward` needs, in `ctx`: several calls may be under way at once.
# `backward` gets the gradient of the output and returns one gradient for each input of `forward`, `None` for `causal`.
#
# **Before you write:** the forward pass has 2 matrix products per tile. How many does the backward pass have?

# %%
guess_products = None  # a number

# %% nbgrader={"grade": false, "grade_id": "flash_attention_backward", "locked": false, "schema_version": 3, "solution": true}
def flash_attention_backward(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    out: Float[Tensor, "*batch n d_v"],
    lse: Float[Tensor, "*batch n"],
    grad_out: Float[Tensor, "*batch n d_v"],
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[
    Float[Tensor, "*batch n d"],
    Float[Tensor, "*batch m d"],
    Float[Tensor, "*batch m d_v"],
]:
    """dq, dk and dv, with P made again from the logsumexp, tile by tile."""
    ### BEGIN SOLUTION
    n, m, scale = q.shape[-2], k.shape[-2], 1 / math.sqrt(q.shape[-1])
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    delta = (grad_out * out).sum(dim=-1)  # D
    lse = lse.masked_fill(lse == -math.inf, 0.0)  # all scores of such a row are −∞, and exp(−∞ − 0) = 0
    for i in range(0, n, block_q):
        rows = slice(i, min(i + block_q, n))
        positions = torch.arange(rows.start, rows.stop, device=q.device) + (m - n)
        for j in range(0, rows.stop + (m - n) if causal else m, block_k):
            keys = slice(j, min(j + block_k, m))
            s = q[..., rows, :] @ k[..., keys, :].mT * scale
            if causal:
                hidden = torch.arange(keys.start, keys.stop, device=q.device) > positions[:, None]
                s = s.masked_fill(hidden, -math.inf)
            p = torch.exp(s - lse[..., rows, None])
            dp = grad_out[..., rows, :] @ v[..., keys, :].mT
            ds = p * (dp - delta[..., rows, None]) * scale
            dv[..., keys, :] += p.mT @ grad_out[..., rows, :]
            dk[..., keys, :] += ds.mT @ q[..., rows, :]
            dq[..., rows, :] += ds @ k[..., keys, :]
    return dq, dk, dv
    ### END SOLUTION


class FlashAttention(torch.autograd.Function):
    """Attention with the forward pass of 9.4 and the backward pass above."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        ### BEGIN SOLUTION
        out, lse = flash_attention_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_out):
        ### BEGIN SOLUTION
        dq, dk, dv = flash_attention_backward(*ctx.saved_tensors, grad_out, ctx.causal)
        return dq, dk, dv, None
        ### END SOLUTION


def flash_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    causal: bool = False,
) -> Float[Tensor, "*batch n d_v"]:
    """softmax(q kᵀ / √d) v, with gradients."""
    return FlashAttention.apply(q, k, v, causal)

# %% [markdown]
# <details><summary>Hint 1: the same loops</summary>
#
# Start from your forward pass. The scores and the mask of a tile are the same. What comes after them is new: there is
# no running maximum, no sum and no rescaling.
# </details>
# <details><summary>Hint 2: adding up</summary>
#
# Three tensors of zeros, like q, k and v. Every tile adds to a slice of each: `dv[..., keys, :] += …`.
# </details>
# <details><summary>Hint 3: which shapes fit?</summary>
#
# p and ds are (rows × keys). dQ is a sum over keys, so ds stands on the left as it is. dK and dV are sums over rows:
# which of the two axes must come last?
# </details>
# <details><summary>Hint 4: one tile, in words</summary>
#
#     s  = scaled scores, −∞ where hidden
#     p  = exp(s − lse)
#     dp = grad_out @ values transposed
#     ds = p × (dp − D) / √d
#     dV += p transposed @ grad_out
#     dK += ds transposed @ queries
#     dQ += ds @ keys
# </details>
# <details><summary>Hint 5 for (b): ctx</summary>
#
# `ctx.save_for_backward(q, k, v, out, lse)` keeps tensors, `ctx.saved_tensors` gives them back in that order. Other
# things are plain attributes: `ctx.causal = causal`.
# </details>
# <details><summary>If only dQ and dK are wrong, by a factor</summary>
#
# Compare the factor with √d. If it isn't one number for all entries, look at D.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - (a) float32 and float64, views, ragged and large tiles as in 9.4. A hidden score may be 200 above all that are seen.
# - (a) Size, with $n$ and $m$ near 200, widths of 2, and tiles such as 50 × 7 and 7 × 50: no tensor has more than
#   $2 \cdot \max(n, m) \cdot \max(d, d_v)$ numbers. At one time you hold at most ¾ of a row or a column of tiles
#   (`block_q` $\cdot\, m$ or `block_k` $\cdot\, n$, the larger), the gradients included and the inputs not. A right
#   answer needs less than half.
# - (a) Matrix products take at most $16\,n m (d + d_v)$ FLOPs, three times what is needed. Skipping hidden tiles is
#   welcome, and not asked for.
# - (b) Output and gradients are those of attention, in float64. A second call comes before the backward pass of the
#   first.
# - (b) With 400 to 500 tokens neither pass makes a tensor of more than $n m/2$ numbers, and no more are kept from one
#   to the other. So standard attention under autograd doesn't pass.
# </details>

# %% nbgrader={"grade": true, "grade_id": "flash_attention_backward_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.flash_attention_backward(flash_attention_backward, flash_attention, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.flash_attention_backward(flash_attention_backward, flash_attention, points=4,
                               cases=hidden.flash_attention_backward)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** The same gradients, for what price? Counted on both ways: the numbers that forward keeps for backward,
# and the memory at the worst moment of both.

# %%
torch.manual_seed(0)
plots.backward_memory(flash_attention, lengths=[128, 256, 512, 1024])

# %% [markdown]
# <details><summary>How many products?</summary>
#
# Five per tile ($S$, $dP$, $dV$, $dK$, $dQ$) against two: the backward pass costs 2.5 times the forward pass. One of
# the five makes $S$ a second time, which is cheaper than fetching it.
# </details>

# %% [markdown]
# ## 9.7 A first kernel  ●●○ · 25 min · 2 points
#
# In PyTorch your tiles are slow on a GPU. Each line starts work of its own and sends its result back to the large
# memory, even the tile of scores. To keep a tile on the chip, all lines must be *one* piece of work: a **kernel**.
# Triton (Tillet et al., 2019) lets you write one in Python.
#
# A kernel is a function that is started many times at once. Each start is a **program**. All get the same arguments,
# and each can ask for its number, `tl.program_id(0)`, which decides the tile that it works on. What is new is memory:
#
# - A program gets no tensors. It gets **pointers**: the address of element 0.
# - Element $(i, j)$ lies `i * stride_0 + j * stride_1` elements behind it. The strides say how far it is to the next
#   row and to the next column. A transposed view has the same memory and other strides.
# - A tile is a rectangle of addresses: a column of row offsets plus a row of column offsets.
#   `tl.load(addresses, mask=…, other=0.0)` fetches it, `tl.store(addresses, tile, mask=…)` writes it.
# - Sides of tiles are powers of two. Slots beyond the edge are **masked**: not read, not written.
# - Nobody checks. Without a mask you read a neighbor's number, or the memory of something else.
#
# **By hand.** Find $x_{3,1}$ in both pictures below. Row-major, strides (3, 1): $3 \cdot 3 + 1 \cdot 1 = 10$. In the
# transposed view, strides (1, 5): $3 \cdot 1 + 1 \cdot 5 = 8$. And what would be read in the slot marked "3 ✗" on the
# left?

# %%
plots.program_offsets(n=5, d=3, block=2)

# %% [markdown]
# (It is offset 3, which is $x_{1,0}$: no error, but a wrong number.)
#
# `triton` and its language `tl` were loaded at the top. With a GPU, kernels are compiled. Without one, Triton's
# *interpreter* runs the programs one after the other on the CPU: slow, right, and easy to look into, since `print`
# works. It can also be watched, so the check tells you where you ran past the edge of a tensor. On a GPU it can't,
# unless you put `%env TRITON_INTERPRET=1` above the first cell and restart. Triton exists only for Linux. On other
# systems the cells of 9.7 to 9.9 say what to do, and the rest of the unit works.
#
# **The task.** Write the body of the kernel: row $i$ of `x` times `factor[i]`. Each program takes `BLOCK_N` rows, and
# `BLOCK_D` $\ge d$ columns. The launcher below it is done: it makes the output and starts $\lceil n/$`BLOCK_N`$\rceil$
# programs. PyTorch gives the strides, Triton turns tensors into pointers. (Even the output's
# can differ from those of `x`: a slice has gaps, a new tensor has none.)
#
# **Save before you run a kernel.** A store that leaves its tensor can end the whole process: if the notebook's kernel
# restarts by itself, look at your stores.

# %% nbgrader={"grade": false, "grade_id": "triton_rows", "locked": false, "schema_version": 3, "solution": true}
@triton.jit
def scale_rows_kernel(
    X, FACTOR, OUT,  # pointers
    x_strides, factor_stride, out_strides,  # x_strides: to the next row, to the next column
    n, d,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """Program p: OUT[i, j] = X[i, j] · FACTOR[i], rows p · BLOCK_N …, all columns."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, BLOCK_D)
    inside = (rows[:, None] < n) & (columns[None, :] < d)
    x = tl.load(X + rows[:, None] * x_strides[0] + columns[None, :] * x_strides[1], mask=inside, other=0.0)
    factor = tl.load(FACTOR + rows * factor_stride, mask=rows < n, other=0.0)
    out_at = OUT + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1]
    tl.store(out_at, x * factor[:, None], mask=inside)
    ### END SOLUTION


def scale_rows(x: Float[Tensor, "n d"], factor: Float[Tensor, "n"]) -> Float[Tensor, "n d"]:
    """Every row of x times its factor. x may be any view: its strides are passed on."""
    n, d = x.shape
    out = torch.empty_like(x)
    block_n, block_d = 16, triton.next_power_of_2(d)
    scale_rows_kernel[(triton.cdiv(n, block_n),)](
        x, factor, out, x.stride(), factor.stride(0), out.stride(), n, d,
        BLOCK_N=block_n, BLOCK_D=block_d,
    )
    return out

# %% [markdown]
# <details><summary>Hint 1: which rows are mine?</summary>
#
# `tl.arange(0, BLOCK_N)` counts from 0. Program 1 starts where program 0 ends: how far is that?
# </details>
# <details><summary>Hint 2: a rectangle of addresses</summary>
#
# As in PyTorch: `rows[:, None]` is a column, `columns[None, :]` is a row, and their sum is a rectangle. Multiply each
# with its stride first. The mask is made in the same way, with `<` and `&`.
# </details>
# <details><summary>Hint 3: in words</summary>
#
#     rows    = program number × BLOCK_N + 0 … BLOCK_N − 1
#     columns = 0 … BLOCK_D − 1
#     inside  = row exists and column exists
#     load the tile of X, load the factors of these rows, multiply, store
# </details>
# <details><summary>If only the last rows are wrong, or the process dies</summary>
#
# Each load and each store needs its mask. The factors have one too: for rows only.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32. `x` may be any view, such as a transposed matrix, and `factor` may be a column of one. The output may lie
#   in memory in another way than `x`: `torch.empty_like` keeps the strides of a transposed tensor, and not those of a
#   slice.
# - $n$ and $d$ need not be multiples of anything, and may be 1.
# - No program reads or writes beyond its tensors, not even what it then throws away: every load and every store has its
#   mask if some of its slots may lie outside. A GPU doesn't show it; grading interprets the kernel, and sees it.
# - The kernel writes every element. The launcher stays as it is.
# </details>

# %% nbgrader={"grade": true, "grade_id": "triton_rows_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.triton_rows(scale_rows, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.triton_rows(scale_rows, points=2, cases=hidden.triton_rows)
### END HIDDEN TESTS

# %% [markdown]
# ## 9.8 Flash attention as a kernel  ●●● · 60 min · 5 points
#
# In 9.4 the rows of tiles don't need each other. So each becomes one program, and all rows of all heads run side by
# side: program `(tile, pair)` does tile number `tile` of the queries of one head of one sequence, and walks through the
# keys. That is one row of the walk in 9.4. The scores, $m_i$, $\ell_i$ and the accumulator never leave the chip.
#
# You know the algorithm. Only the words are new:
#
# | PyTorch, 9.4 | Triton |
# |---|---|
# | `q[..., i : i + block_q, :]` | `tl.load(Q + rows[:, None] * q_strides[2] + columns[None, :] * q_strides[3], mask=…, other=0.0)` |
# | `a @ b`, `k.mT` | `tl.dot(a, b, input_precision="ieee")`, `tl.trans(k)` |
# | `s.amax(dim=-1)`, `p.sum(dim=-1)` | `tl.max(s, axis=1)`, `tl.sum(p, axis=1)` |
# | `torch.maximum`, `torch.exp` | `tl.maximum`, `tl.exp` |
# | `s.masked_fill(hidden, -math.inf)` | `tl.where(seen, s, -float("inf"))` |
# | `m_new.masked_fill(m_new == -math.inf, 0.0)` | `tl.where(m_new == -float("inf"), 0.0, m_new)` |
# | `m_new[..., None]` | `m_new[:, None]` |
# | `out[..., i : i + block_q, :] = o` | `tl.store(OUT + …, o, mask=…)`, which rounds `o` to the dtype of `OUT` |
#
# (`"ieee"` asks for full float32. GPUs would otherwise round the operands to 10 bits after the point. `tl.dot` wants
# both operands in one dtype, such as `p.to(v.dtype)` and `v`, and no side shorter than 16: so `BLOCK_D` is at least
# 16.)
#
# Fill **five holes**; nothing runs before all are filled. The tile of queries is loaded for you, as a
# pattern.
#
# 1. **Offsets.** `rows`: the numbers of this program's `BLOCK_Q` queries. `columns`: 0 … `BLOCK_D` − 1.
# 2. **Loads.** `k` and `v`: the tiles (`BLOCK_K`, `BLOCK_D`) of the keys `keys`, masked at both edges.
# 3. **Scores.** `s`: scaled scores, in float32 as `tl.dot` gives them, $-\infty$ where there is no key (`keys >= m`),
#    and where `CAUSAL` hides it. (With `CAUSAL` the second hides the first too: no query stands behind the last key.)
# 4. **Rescale.** New `m_i`, `l_i` and `acc`.
# 5. **Store.** The output and the logsumexp of the rows that exist. `OUT` and `LSE` are new and contiguous: row $i$ of
#    the head starts at `(pair * n + i) * d` and at `pair * n + i`.
#
# This is what the programs of one head see with `CAUSAL`, for $n = 13$ queries, $m = 19$ keys and tiles of 8 × 8. Each
# program works through one row of tiles:

# %%
plots.kernel_tiles(n=13, m=19, block=8)

# %% [markdown]
# **By hand.** In the second program rows 8 to 12 exist: 3 of 8 slots are empty. Its third tile has keys 16 to 23, of
# which three exist. The others are loaded as zeros. Their scores are then 0, and their weights $e^{0 - m_i}$, which is
# not 0. What must their scores be?

# %% nbgrader={"grade": false, "grade_id": "triton_forward", "locked": false, "schema_version": 3, "solution": true}
@triton.jit
def forward_kernel(
    Q, K, V, OUT, LSE,  # pointers
    q_strides, k_strides, v_strides,  # each (sequence, head, row, column)
    heads, n, m, d, scale,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """One program: one tile of queries of one head, and all the keys that it may see."""
    tile, pair = tl.program_id(0), tl.program_id(1)
    b, h = pair // heads, pair % heads
    # from here on: pointers to the first row of this head
    Q += b * q_strides[0] + h * q_strides[1]
    K += b * k_strides[0] + h * k_strides[1]
    V += b * v_strides[0] + h * v_strides[1]

    # Hole 1: offsets. rows (BLOCK_Q), columns (BLOCK_D)
    ### BEGIN SOLUTION
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, BLOCK_D)
    ### END SOLUTION

    inside = (rows[:, None] < n) & (columns[None, :] < d)
    q_at = Q + rows[:, None] * q_strides[2] + columns[None, :] * q_strides[3]
    q = tl.load(q_at, mask=inside, other=0.0)
    m_i = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    l_i = tl.full((BLOCK_Q,), 0.0, tl.float32)
    acc = tl.full((BLOCK_Q, BLOCK_D), 0.0, tl.float32)

    end = m
    if CAUSAL:  # no query of the tile sees a key from there on
        end = tl.minimum(m, (tile + 1) * BLOCK_Q + (m - n))
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)

        # Hole 2: loads. k and v (BLOCK_K, BLOCK_D)
        ### BEGIN SOLUTION
        real = (keys[:, None] < m) & (columns[None, :] < d)
        k = tl.load(K + keys[:, None] * k_strides[2] + columns[None, :] * k_strides[3], mask=real, other=0.0)
        v = tl.load(V + keys[:, None] * v_strides[2] + columns[None, :] * v_strides[3], mask=real, other=0.0)
        ### END SOLUTION

        # Hole 3: scores. s (BLOCK_Q, BLOCK_K), −∞ for pairs that don't exist or are hidden
        ### BEGIN SOLUTION
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = keys[None, :] < m
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
        s = tl.where(seen, s, -float("inf"))
        ### END SOLUTION

        # Hole 4: rescale. m_i and l_i (BLOCK_Q), acc (BLOCK_Q, BLOCK_D)
        ### BEGIN SOLUTION
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp(s - shift[:, None])
        rescale = tl.exp(m_i - shift)
        l_i = rescale * l_i + tl.sum(p, axis=1)
        acc = rescale[:, None] * acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
        ### END SOLUTION

    # Hole 5: store. OUT and LSE; a row that saw nothing has output 0 and logsumexp −∞
    ### BEGIN SOLUTION
    total = tl.where(l_i == 0.0, 1.0, l_i)
    tl.store(OUT + (pair * n + rows[:, None]) * d + columns[None, :], acc / total[:, None], mask=inside)
    tl.store(LSE + pair * n + rows, m_i + tl.log(total), mask=rows < n)
    ### END SOLUTION


def triton_forward(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m d"],
    causal: bool = False,
    block_q: int = 16,
    block_k: int = 16,
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h n"]]:
    """Output and logsumexp, by `forward_kernel`. Any strides, any n, m and d."""
    (b, h, n, d), m = q.shape, k.shape[-2]
    out = torch.empty((b, h, n, d), dtype=q.dtype, device=q.device)
    lse = torch.empty((b, h, n), dtype=torch.float32, device=q.device)
    forward_kernel[(triton.cdiv(n, block_q), b * h)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), h, n, m, d, 1 / math.sqrt(d),
        CAUSAL=causal, BLOCK_Q=block_q, BLOCK_K=block_k,
        BLOCK_D=max(16, triton.next_power_of_2(d)),
    )
    return out, lse

# %% [markdown]
# <details><summary>Hint 1: all holes have been filled before</summary>
#
# Holes 1, 2 and 5 are your first kernel. Holes 3 and 4 are the inner loop of 9.4, line by line, with its care for rows
# that have seen nothing yet.
# </details>
# <details><summary>Hint 2: loads</summary>
#
# Take the line that loads q. Instead of rows there are keys, instead of n there is m. K and V have strides of their
# own: nobody promised that they are laid out like Q.
# </details>
# <details><summary>Hint 3: which pairs count?</summary>
#
# `seen = keys[None, :] < m`, and inside `if CAUSAL:` one more condition, joined with `&`. `rows` are numbers of
# queries; their positions are `rows + (m - n)`. In Triton a new shape comes from broadcasting: (1, BLOCK_K) with
# (BLOCK_Q, 1) is (BLOCK_Q, BLOCK_K).
# </details>
# <details><summary>Hint 4: 16-bit inputs</summary>
#
# `tl.dot` wants both operands in one dtype. p is float32, v may be float16: `p.to(v.dtype)`. The accumulator stays
# float32.
# </details>
# <details><summary>Hint 5: the end</summary>
#
# The mask of the output is that of q: it is called `inside`. Divide by 1 where l_i is 0:
# `tl.where(l_i == 0.0, 1.0, l_i)`. Its logarithm is then 0, and m_i + 0 is −∞.
# </details>
# <details><summary>If the first rows are right and the last ones are wrong</summary>
#
# The tail: n, m or d is no multiple of the tile. Which load, score or store has no mask?
# </details>
# <details><summary>If you see NaN</summary>
#
# If it is everywhere, the factor is upside down, as in 9.4. If it is only with CAUSAL and n > m, the first rows see
# nothing: −∞ − (−∞) in hole 4. Subtract 0 there instead of m_new, in the exponent and in the factor.
# </details>
# <details><summary>If Triton says that a type changes in the loop</summary>
#
# A variable that lives across iterations must keep its dtype and shape: m_i, l_i and acc are float32 before the loop
# and after every round.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float16, any number of heads and sequences, $d$ up to 128. Lengths and widths need not be multiples of
#   the tiles, and `BLOCK_Q` need not equal `BLOCK_K`.
# - Q, K and V may be views, each laid out in its own way.
# - Scores may be near 1000 in float16, or fall to $-420$. A key may be all zeros.
# - A row that sees nothing has output 0 and logsumexp $-\infty$. The logsumexp is a natural one.
# - As in 9.7: no load and no store leaves its tensor, the kernel writes every element, and the launcher stays as it is.
# </details>

# %% nbgrader={"grade": true, "grade_id": "triton_forward_test", "locked": true, "points": 5, "schema_version": 3, "solution": false}
check.triton_forward(triton_forward, points=5)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.triton_forward(triton_forward, points=5, cases=hidden.triton_forward)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** On a GPU the same source is compiled, and the dashed line is the speed of bare matrix products on your
# device. **Predict** whether large tiles or small ones come closer. Without a GPU the programs are simulated one after
# the other. Their time would say nothing, but every load and store can be counted: **predict** what tiles twice as high
# save.

# %%
torch.manual_seed(0)
plots.kernel_speed(triton_forward)

# %% [markdown]
# Larger tiles read the keys less often and keep the multipliers busy, until they no longer fit into registers and
# shared memory. The gap that remains is the subject of the next two papers. FlashAttention-2 reports up to 73% of an
# A100's peak (Dao, 2023). FlashAttention-3, which lets softmax and products overlap, reports 75% of an H100's in 16
# bits (Shah et al., 2024; the abstract of the later conference version says 85%, in BF16). (Triton doesn't use the
# tensor cores of a T4: there the kernel is right, but not fast.) For grouped heads (unit 04) only two lines would
# change: `K` and `V` begin at the head that the query head shares, not at head `h`.

# %% [markdown]
# ## 9.9 The backward pass as kernels  ●●● · 60 min · 2 points
#
# (A side road: nothing later needs it. It is a lot of work for few points, so do it last, or leave it out.)
#
# The formulas of 9.6 still hold, but the loops raise a new question: **who may write where?** In 9.6 each tile of pairs
# added to three gradients, one tile after the other. Now programs run at the same time. If two of them add to the same
# numbers, one may read before the other has written, and a sum is lost.
#
# One way out: no two programs write the same tile. Then there are two kernels, each with a walk of its own, and both
# compute the scores. That makes seven products per tile of pairs, where five would do. (The other way is
# FlashAttention-2's: one kernel, in which the programs add to $dQ$ by *atomic* additions, one at a time; Dao, 2023,
# section 3.2. It saves the two products, and the last digits of $dQ$ differ from run to run.) We take the two kernels:

# %%
plots.backward_walks()

# %% [markdown]
# - `keys_kernel`: a program owns a tile of keys. It walks *down* the queries and collects $dK$ and $dV$ on the chip.
# - `queries_kernel`: a program owns a tile of queries. It walks *along* the keys and collects $dQ$.
#
# The launcher computes $D$ and makes everything contiguous, so there are no strides. `load_tile` loads rows of a head
# with zeros beyond the edges. Fill **three holes**: $P$ of a tile (used by both kernels), and the two inner loops.
# Shapes: `q`, `grad` (`BLOCK`, `BLOCK_D`) are tiles of queries and of $dO$, `k`, `v` likewise of keys; `lse` and
# `delta` hold $L$ and $D$ of the queries.
#
# **Which pairs count?** Keys beyond $m$ are loaded as zeros, so their scores are 0 and their weights $e^{0 - L}$. If
# all real scores are near $-120$, so is $L$, and $e^{120}$ is infinite in float32: $\infty \cdot 0$ makes $dQ$ NaN. A
# row that saw nothing has $L = -\infty$, with the same effect. Multiplying by a mask afterward comes too late. With
# $-\infty$ as the exponent the weight is 0.
#
# **By hand.** With `CAUSAL`, $n = m$ and tiles of 16: which tiles of queries can see the keys 32 to 47? Those from
# query 32 on, so the walk down starts at tile 2.

# %% nbgrader={"grade": false, "grade_id": "triton_backward", "locked": false, "schema_version": 3, "solution": true}
@triton.jit
def load_tile(X, rows, columns, length, d):
    """These rows of a head that lies row after row behind X; zeros beyond its edges."""
    inside = (rows[:, None] < length) & (columns[None, :] < d)
    return tl.load(X + rows[:, None] * d + columns[None, :], mask=inside, other=0.0)


@triton.jit
def store_tile(X, tile, rows, columns, length, d):
    """Writes a tile to these rows and columns, where they exist."""
    inside = (rows[:, None] < length) & (columns[None, :] < d)
    tl.store(X + rows[:, None] * d + columns[None, :], tile, mask=inside)


@triton.jit
def weights_again(q, k, lse, rows, keys, n, m, scale, CAUSAL: tl.constexpr):
    """P of one tile, (rows, keys), from scores and logsumexp; 0 for pairs that don't count."""
    # Hole 1. Put −∞ into the exponent, with tl.where, for every pair that doesn't count.
    ### BEGIN SOLUTION
    seen = (rows[:, None] < n) & (keys[None, :] < m)
    if CAUSAL:
        seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    return tl.exp(tl.where(seen, s - lse[:, None], -float("inf")))
    ### END SOLUTION


@triton.jit
def keys_kernel(
    Q, K, V, GRAD, LSE, DELTA, DK, DV, n, m, d, scale,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """One program: dK and dV of one tile of keys, from all the queries that see it."""
    tile, pair = tl.program_id(0), tl.program_id(1)
    keys, columns = tile * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    k = load_tile(K + pair * m * d, keys, columns, m, d)
    v = load_tile(V + pair * m * d, keys, columns, m, d)
    dk = tl.full((BLOCK, BLOCK_D), 0.0, tl.float32)
    dv = tl.full((BLOCK, BLOCK_D), 0.0, tl.float32)
    first = 0
    if CAUSAL:  # earlier tiles see none of these keys
        first = tl.maximum(tile * BLOCK - (m - n), 0) // BLOCK * BLOCK
    for start in range(first, n, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q = load_tile(Q + pair * n * d, rows, columns, n, d)
        grad = load_tile(GRAD + pair * n * d, rows, columns, n, d)
        lse = tl.load(LSE + pair * n + rows, mask=rows < n, other=0.0)
        delta = tl.load(DELTA + pair * n + rows, mask=rows < n, other=0.0)
        # Hole 2: add this tile's part to dk and dv
        ### BEGIN SOLUTION
        p = weights_again(q, k, lse, rows, keys, n, m, scale, CAUSAL)
        dv += tl.dot(tl.trans(p.to(grad.dtype)), grad, input_precision="ieee")
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
        ### END SOLUTION
    store_tile(DK + pair * m * d, dk, keys, columns, m, d)
    store_tile(DV + pair * m * d, dv, keys, columns, m, d)


@triton.jit
def queries_kernel(
    Q, K, V, GRAD, LSE, DELTA, DQ, n, m, d, scale,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """One program: dQ of one tile of queries, from all the keys that it sees."""
    tile, pair = tl.program_id(0), tl.program_id(1)
    rows, columns = tile * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    q = load_tile(Q + pair * n * d, rows, columns, n, d)
    grad = load_tile(GRAD + pair * n * d, rows, columns, n, d)
    lse = tl.load(LSE + pair * n + rows, mask=rows < n, other=0.0)
    delta = tl.load(DELTA + pair * n + rows, mask=rows < n, other=0.0)
    dq = tl.full((BLOCK, BLOCK_D), 0.0, tl.float32)
    end = m
    if CAUSAL:
        end = tl.minimum(m, (tile + 1) * BLOCK + (m - n))
    for start in range(0, end, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        k = load_tile(K + pair * m * d, keys, columns, m, d)
        v = load_tile(V + pair * m * d, keys, columns, m, d)
        # Hole 3: add this tile's part to dq
        ### BEGIN SOLUTION
        p = weights_again(q, k, lse, rows, keys, n, m, scale, CAUSAL)
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
        ### END SOLUTION
    store_tile(DQ + pair * n * d, dq, rows, columns, n, d)


def triton_backward(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m d"],
    out: Float[Tensor, "b h n d"],
    lse: Float[Tensor, "b h n"],
    grad_out: Float[Tensor, "b h n d"],
    causal: bool = False,
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"], Float[Tensor, "b h m d"]]:
    """dq, dk and dv, by the two kernels."""
    (b, h, n, d), m, block = q.shape, k.shape[-2], 16
    delta = (grad_out.float() * out.float()).sum(dim=-1)  # D
    q, k, v, grad, lse = (x.contiguous() for x in (q, k, v, grad_out, lse))
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    sizes = {"CAUSAL": causal, "BLOCK": block, "BLOCK_D": max(16, triton.next_power_of_2(d))}
    common, lengths = (q, k, v, grad, lse, delta), (n, m, d, 1 / math.sqrt(d))
    keys_kernel[(triton.cdiv(m, block), b * h)](*common, dk, dv, *lengths, **sizes)
    queries_kernel[(triton.cdiv(n, block), b * h)](*common, dq, *lengths, **sizes)
    return dq, dk, dv

# %% [markdown]
# <details><summary>Hint 1: weights</summary>
#
# `exp(scaled scores − lse)`. A pair counts if its key is below m, and with CAUSAL the key isn't later than the query's
# position. Let `tl.where` put −∞ into the exponent of all others. Rows from n on add nothing in either kernel, tested
# or not: their q, dO, L and D are loaded as zeros.
# </details>
# <details><summary>Hint 2: which one is transposed?</summary>
#
# In both kernels p and ds are (queries, keys). dk and dv have a row for each key, and dq has one for each query.
# `tl.trans` turns a tile.
# </details>
# <details><summary>Hint 3: the second hole, in words</summary>
#
#     p   = weights again
#     dv += p transposed · grad
#     dp  = grad · v transposed
#     ds  = p × (dp − delta, a column) × scale
#     dk += ds transposed · q
#
# `tl.dot` wants both operands in one dtype, as in 9.8: p and ds are float32, grad and q may be float16.
# </details>
# <details><summary>If only dK is wrong</summary>
#
# Is it q or k that is multiplied by ds? And is the scale in it?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float16; any number of heads and sequences. Lengths and widths need not be multiples of 16.
# - With `CAUSAL` rows may see nothing. Without, all scores may lie between $-150$ and $-120$.
# - As in 9.7: no load and no store leaves its tensor, the kernels write every element, and the launcher stays as it is.
# </details>

# %% nbgrader={"grade": true, "grade_id": "triton_backward_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.triton_backward(triton_backward, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.triton_backward(triton_backward, points=2, cases=hidden.triton_backward)
### END HIDDEN TESTS

# %% [markdown]
# ## 9.10 One query, many workers  ●●○ · 25 min · 2 points
#
# When a model writes (unit 08) there is *one* query per head, and a long cache of keys. Your kernel starts one program
# per head. With 32 heads, 32 of an H100's 132 multiprocessors walk through all the keys, and 100 stand idle.
#
# 9.3 helps. Cut the **keys** into parts, let every part be worked on at the same time, and merge by logsumexp. This is
# flash decoding (Dao et al., 2023).

# %%
plots.decoding_splits(tiles=12, workers=4)

# %% [markdown]
# Write it in PyTorch, with an axis for the parts, in the merging too: a loop over them would be one worker again.
#
# **By hand.** $m = 10$ keys in 4 parts of $\lceil 10/4 \rceil = 3$: 3, 3, 3 and 1. And 5 keys in 4 parts of 2: 2, 2, 1
# and 0. The last part is empty, and must not count. An axis needs parts of equal length, so short parts are padded, and
# the padding must not count either. Recognize it by its position,
# not by its value: a real key may be zero.
#
# **Predict:** why is the result of 4 parts not equal to that of 1 part in every bit?

# %% nbgrader={"grade": false, "grade_id": "flash_decoding", "locked": false, "schema_version": 3, "solution": true}
def flash_decoding(
    q: Float[Tensor, "*batch 1 d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    splits: int,
) -> Float[Tensor, "*batch 1 d_v"]:
    """Attention of one query: the keys in `splits` parts, all at once, merged by logsumexp."""
    ### BEGIN SOLUTION
    m, size = k.shape[-2], math.ceil(k.shape[-2] / splits)
    padding = splits * size - m
    k, v = (F.pad(x, (0, 0, 0, padding)).unflatten(-2, (splits, size)) for x in (k, v))
    real = (torch.arange(splits * size, device=q.device) < m).view(splits, 1, size)
    s = q.unsqueeze(-3) @ k.mT / math.sqrt(q.shape[-1])  # (*batch, splits, 1, size)
    s = s.masked_fill(~real, -math.inf)

    top = s.amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)  # an empty part
    p = torch.exp(s - top)
    total = p.sum(dim=-1, keepdim=True)
    out = p @ v / total.masked_fill(total == 0, 1.0)  # of every part: (*batch, splits, 1, d_v)
    lse = top + torch.log(total)  # (*batch, splits, 1, 1)

    weight = torch.exp(lse - lse.amax(dim=-3, keepdim=True))
    return (weight * out).sum(dim=-3) / weight.sum(dim=-3)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: an axis for the parts</summary>
#
# `F.pad(k, (0, 0, 0, extra))` adds rows of zeros. `k.unflatten(-2, (splits, size))` turns m rows into splits × size.
# The query needs an axis of length 1 there: `q.unsqueeze(-3)`.
# </details>
# <details><summary>Hint 2: rows that were added</summary>
#
# They need the score −∞. An empty part then has nothing but −∞: the maximum needs the care of 9.2, the sum that of 9.4.
# </details>
# <details><summary>Hint 3: merging more than two</summary>
#
# The formula of 9.3 with a sum over all parts: weights $e^{L - \max L}$, along the axis of the parts. Leave room for
# d_v: keep axes with `keepdim=True`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64, any number of leading axes. `splits` may be 1, and may be larger than $m$: then several parts
#   are empty.
# - Scores may climb by 40 per key or lie near $-30{,}000$.
# - No loop over the parts: 48 or 64 of them take at most 120 tensor operations (a view is one, an `einsum` several). A
#   right answer takes about 40.
# - There are parts: some tensor is large enough for the outputs of all parts that have keys, $d_v$ numbers each,
#   whatever its shape. And none has more than `splits` $\cdot\, m (d + d_v)$ numbers per sequence.
# </details>

# %% nbgrader={"grade": true, "grade_id": "flash_decoding_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.flash_decoding(flash_decoding, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.flash_decoding(flash_decoding, points=2, cases=hidden.flash_decoding)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Why not in every bit?</summary>
#
# Floating-point sums depend on the order of their terms. The last bits differ, nothing else does.
# </details>

# %% [markdown]
# ## 9.11 Eight bits and outliers  ●●○ · 25 min · 2 points
#
# (A side road: nothing later needs it.) Half the bits are half the bytes, and twice the FLOPs on recent GPUs. FP8
# (e4m3) has 3 bits after the point: neighboring numbers lie up to 12% apart, so rounding is off by up to 6%. In a sum
# of many products such errors partly cancel. One *large* product has one large error, which nothing cancels. And
# queries and keys of trained models do have outliers: a few features that are far larger than the rest.
#
# The trick of FlashAttention-3 (Shah et al., 2024): turn queries and keys by the same orthogonal matrix $R$. Scores
# don't change,
#
# $$(qR)(kR)^\top = q\,R R^\top k^\top = q\,k^\top,$$
#
# and an outlier is spread over all features. A good $R$ is random signs, then a Hadamard matrix: a matrix of $\pm 1$
# with orthogonal rows, built by doubling.
#
# $$H_1 = (1), \qquad H_{2d} = \begin{pmatrix} H_d & H_d \\ H_d & -H_d \end{pmatrix}, \qquad
# x' = (x \circ \text{signs})\,\frac{H_d}{\sqrt d}$$
#
# **By hand.** $d = 2$, signs $(1, 1)$. The query $(8, 1)$ becomes $(9, 7)/\sqrt 2 = (6.4, 4.9)$: no feature stands out
# any more. The key $(1, 2)$ becomes $(3, -1)/\sqrt 2$. Score before: $8 + 2 = 10$. After: $(27 - 7)/2 = 10$.
#
# **Predict:** a token has one feature of 30, and the sizes of the other 63 are near 1. How large is its largest feature
# after the rotation, about? (Two things add up.)

# %%
guess_largest_feature = None  # a number

# %% nbgrader={"grade": false, "grade_id": "incoherent_rotation", "locked": false, "schema_version": 3, "solution": true}
def hadamard(d: int) -> Float[Tensor, "d d"]:
    """H_d / √d: entries ±1/√d, orthonormal rows. d is a power of two, 1 included."""
    ### BEGIN SOLUTION
    h = torch.ones(1, 1)
    while len(h) < d:
        h = torch.cat([torch.cat([h, h], dim=1), torch.cat([h, -h], dim=1)])
    return h / math.sqrt(d)
    ### END SOLUTION


def rotate(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], signs: Float[Tensor, "d"]
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch m d"]]:
    """In the dtype of q and k: (q ∘ signs) H/√d and (k ∘ signs) H/√d. `signs` holds +1 and −1,
    always in float32."""
    ### BEGIN SOLUTION
    turn = (signs[:, None] * hadamard(len(signs))).to(q)  # the signs of the features flip rows of H
    return q @ turn, k @ turn
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: doubling</summary>
#
# Start with a 1×1 matrix of 1. `torch.cat` along dim 1 sets matrices side by side, along dim 0 one below the other.
# Divide by √d once, at the end.
# </details>
# <details><summary>Hint 2: a test of your own</summary>
#
# `hadamard(8) @ hadamard(8).T` must be the identity. And q @ k.T must not change when both are rotated. Matrix and
# signs must have the dtype of q, which may be 16-bit: `.to(q)`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - `hadamard`: float32 or float64. $d$ is a power of two, 1 included. Orthonormal rows and entries $\pm 1/\sqrt d$, to
#   within 0.0001: any such matrix is right, with its rows in another order, or with the minus in another of the four
#   blocks.
# - `rotate`: float32, float64 and float16; what comes back has the dtype of `q` and `k`. A float32 $H/\sqrt d$ is exact
#   enough even for float64. Any number of leading axes.
# - Scores stay to within 0.0001 (relative; 0.01 in float16). A token with a single feature gets the same size in all
#   features. Flipping signs by hand, and then rotating with signs of $+1$, gives the same.
# </details>

# %% nbgrader={"grade": true, "grade_id": "incoherent_rotation_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.incoherent_rotation(hadamard, rotate, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import flash_attention as hidden
check.incoherent_rotation(hadamard, rotate, points=2, cases=hidden.incoherent_rotation)
### END HIDDEN TESTS

# %%
plots.rotated_outliers(hadamard, rotate)

# %% [markdown]
# <details><summary>The largest feature</summary>
#
# About 6. The outlier leaves $30/\sqrt{64} = 3.75$ in every feature, plus or minus. The other 63, with random signs and
# divided by 8, add a number of size 1 or so to each, and the largest of 64 such sums is near 6.
# </details>
#
# **Measure it:** attention with all operands rounded to FP8, against float32.

# %%
plots.fp8_error(hadamard, rotate)

# %% [markdown]
# Without outliers there is nothing to gain. With them the error falls to less than half. The rotation costs little:
# with $H$ in its doubled form it takes $d \log_2 d$ additions per row, and it fits into the step before the kernel,
# where positions are turned anyway (unit 05).

# %% [markdown]
# ## 9.12 Measure it: time and memory  ●○○ · 10 min
#
# One head, $d = 64$, on your machine: attention in three steps, PyTorch's own fused operator, your 9.4 with tiles of
# 256, and on a GPU your kernel of 9.8. **Predict** the exponents of $n$ in both pictures: of the time, for all of them,
# and of the memory of your tiles.

# %%
guess_time_exponent = None  # 1, 2 or 3
guess_memory_exponent = None  # 1, 2 or 3

# %%
torch.manual_seed(0)


def naive(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


plots.time_and_memory({
    "three steps": naive,
    "SDPA": F.scaled_dot_product_attention,
    "yours, tiled": lambda q, k, v: flash_attention_forward(q, k, v, block_q=256, block_k=256),
}, lengths=[512, 1024, 2048, 4096], kernels={
    "yours, Triton": lambda q, k, v: triton_forward(q, k, v, block_q=32, block_k=32),
})

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Time grows about like $n^2$ for all: the FLOPs are the same. Memory tells them apart: $n^2$ for the three steps, $n$
# or less for the others, whose tiles have a fixed size. Even on a CPU your tiles win for long sequences: a tile of
# scores stays in the processor's cache, and the full matrix no longer fits (its exponent of time is then above 2). On a
# GPU the Python loop is slow, and that is what the kernel of 9.8 is for.
# </details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_exact_question", "locked": true, "schema_version": 3, "solution": false}
# ## 9.13 Why is it exact?  ●●○ · 10 min · 2 points
#
# Many fast kinds of attention (unit 10) are approximations. A colleague says: "Flash attention works on pieces of a
# row, so its softmax must be an approximation too." Explain why it is not. Name the identity that lets it work on
# pieces, say what is kept between the pieces and why that is enough, and say why two exact implementations can still
# differ in their last bits.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (2 points).**
# - ½ point: the identity $e^{x - m'} = e^{m - m'} e^{x - m}$ (or: a common factor cancels between numerator and
#   denominator), so sums relative to an old maximum are corrected by one factor, exactly.
# - ½ point: what is kept: running maximum, running sum and the unnormalized output of each row (or output and logsumexp
#   of each part).
# - ½ point: why it is enough: numerator and denominator are both plain sums over the keys, a sum can be taken in pieces
#   and in any order, and every pair of query and key has contributed with its full weight; nothing is left out.
# - ½ point: floating-point addition isn't associative (and exponentials are rounded), so another order of the same
#   operations gives other last bits; that is rounding, not approximation.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_exact", "locked": false, "points": 2, "schema_version": 3, "solution": true}
# The output of a query is a quotient of two sums over the keys: $\sum_j e^{S_j} v_j$ over $\sum_j e^{S_j}$. Sums can be
# taken piece by piece. The only thing that seems to need the whole row is the maximum that is subtracted for safety,
# and it cancels in the quotient. If it changes from $m$ to $m'$, all old terms change by the same factor,
# $e^{x - m'} = e^{m - m'} e^{x - m}$, so it is enough to keep the maximum, the sum and the unnormalized output, and to
# multiply the last two by that factor. No key is left out and no weight is guessed. Last bits can differ because
# floating-point sums depend on the order in which they are added, and tiles add in another order. A different size of
# tile changes them too.

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_faster_question", "locked": true, "schema_version": 3, "solution": false}
# ## 9.14 More arithmetic, less time  ●●○ · 10 min · 2 points
#
# Flash attention does as many FLOPs as standard attention in the forward pass, or a few more, and clearly more in the
# backward pass. Yet it is several times faster. Explain how that can be, with at least one number (from 9.1, from the
# roofline, or your own measurement). Then name a case in which it brings little or nothing, and say why.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (2 points).**
# - ½ point: standard attention is limited by memory traffic, not by arithmetic: the n × n matrices travel to and from
#   the large memory four times, and the units wait.
# - ½ point: tiles keep scores on the chip, so the traffic falls by about 2B/d (Θ(n²d²/M) against Θ(n² + nd));
#   recomputing a tile costs FLOPs that were idle anyway and is cheaper than fetching it.
# - ½ point: a right number: for instance d/2 = 32 FLOPs per byte at d = 64 in 16 bits against a ridge of 295 on an
#   H100; or the factor of traffic from 9.1; or an own measurement with its setting.
# - ½ point: a case with a reason: short sequences (scores fit into the cache, launches and projections dominate); one
#   query with a cache (the keys must be read once in any case; memory-bound either way); hardware where arithmetic is
#   the limit; large d relative to the chip (small tiles, many re-reads); a Python loop on a GPU.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_faster", "locked": false, "points": 2, "schema_version": 3, "solution": true}
# Time is set by arithmetic or by traffic, whichever takes longer. Standard attention does $d$ FLOPs for each number
# that it moves. With $d = 64$ in 16 bits that is 32 FLOPs per byte, and an H100 could do 295 in the time of one byte:
# nine tenths of its arithmetic stand idle while four journeys of an $n \times n$ matrix go on. Tiles of $B$ rows move
# about $2B/d$ times fewer numbers (6 times for $B = 192$), so the same FLOPs no longer wait. In the backward pass the
# scores are computed a second time. Those FLOPs are cheaper than fetching $n^2$ stored weights. It brings little when a
# single query reads a long cache: each key and value must be fetched once in any case, and there is no large matrix to
# save. Short sequences gain little too, because their scores fit into the cache as they are.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "9.1 Twice the tokens: standard traffic times": (
        guess_twice_the_tokens, lambda: standard_traffic(8192, 64, 2) / standard_traffic(4096, 64, 2)
    ),
    "9.1 Twice the chip: tiled traffic times": (
        guess_twice_the_chip, lambda: tiled_traffic(8192, 64, 400_000, 2) / tiled_traffic(8192, 64, 200_000, 2)
    ),
    "9.2 The factor of the third block": (guess_third_factor, 1),
    "9.4 Numbers in your largest tensor": (guess_largest_tensor, 4096 * 64),
    "9.5 Share of FLOPs that causal tiles tend to": (guess_share, 0.5),
    "9.6 Products per tile in the backward pass": (guess_products, 5),
    "9.11 Largest feature after the rotation, about": (guess_largest_feature, 6.1),
    "9.12 Exponent of the time": (guess_time_exponent, 2),
    "9.12 Exponent of the memory of your tiles": (guess_memory_exponent, 1),
})

# %% [markdown]
# ## What you have now
#
# - Attention waits for memory: $d/2$ FLOPs per byte in 16 bits. Tiles of $B$ rows raise it to about $B$.
# - **Online softmax**: keep $m_i$ and $\ell_i$; when the maximum grows, multiply what you have by
#   $e^{m_i - m_i^{\text{new}}}$.
# - **Output and logsumexp** of any set of keys can be merged with those of any other: in tiles, over workers, over
#   machines.
# - **Backward**: $P = e^{S - L}$ is made again, and $D = \operatorname{rowsum}(dO \circ O)$ replaces the sum over a
#   row.
# - **A kernel** is one row of the walk: offsets, masks, a loop, a store. Two programs must not write the same place.
# - Causal attention skips whole tiles, one query is split over its keys, and a rotation makes outliers fit into 8 bits.
#
# **Read more**
#
# - Dao et al. (2022), *FlashAttention*: sections 2 and 3 are 9.1 to 9.6. Then Dao (2023) and Shah et al. (2024),
#   versions 2 and 3: what was left to gain.
# - Milakov & Gimelshein (2018), *Online normalizer calculation for softmax*: four pages, and the whole trick.
# - Rabe & Staats (2021), *Self-attention Does Not Need O(n²) Memory*: the same idea without a kernel.
# - The Triton tutorial *Fused Attention*, triton-lang.org: a faster relative of your kernel.
# - Dao et al. (2023), *Flash-Decoding for long-context inference*, a blog post of pytorch.org: 9.10.
#
# **Next:** attention is now exact and fast, and it still looks at $n^2$ pairs. Unit 10 asks which of them can be left
# out.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=9)
