# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · Beyond quadratic
#
# Full attention lets every token read every token, and pays for $n^2$ pairs. At 1000 tokens that is cheap. At 100 000 tokens it costs
# more than everything else together. There are three ways out: leave pairs out, sum the keys up, or move a pair of brackets.
#
# **After this unit you can**
# - compute attention in a band in $O(n\,w\,d)$, with global tokens where news has to travel far;
# - build a pattern of $O(n\sqrt n)$ pairs that connects every two tokens in two layers;
# - shorten the list of keys itself, and say when that loses little;
# - write linear attention in three forms, at once, as a recurrence and in chunks, and see that it is an RNN;
# - predict the cost of each, count it, measure it, and choose.
#
# **How to work.** For each kind of attention: predict how it grows, write it, and let the check count what it really does. A right
# output is not enough here. A hidden $n \times n$ matrix is found. You have about two and a half hours, and 20 points to earn.
#
# **For all functions here:** `*batch` stands for any number of axes in front, none included. Leave the inputs unchanged, and compute in their dtype (the checks also
# use float64). Scores may be large. All functions of PyTorch may be used.
#
# **Letters.** Besides $n$, $m$, $d$ and $d_v$: $w$ neighbours on each side, $g$ global tokens, $r$ summaries. In 10.3 a query has $c$ slots; in 10.5 a chunk has $c$ tokens.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% [markdown]
# ### 10.1 A window  ●●○ · 25 min · 4 points
#
# Most of what a word needs stands near it. So let token $i$ read only the tokens $j$ with $\lvert i - j\rvert \le w$: $w$ neighbours to the
# left, $w$ to the right, and itself. Drawn as a matrix, the allowed pairs form a **band**. At the ends the window is cut off.
#
# You write the second picture of this row now, the third in 10.2 and the fourth in 10.3.

# %%
plots.attention_patterns(n=25, w=2, g=1)

# %% [markdown]
# A mask gives the right output, and saves nothing: all $n^2$ scores are computed and most are thrown away. To save work, never
# compute a score outside the band. Store the band as a *table*: row $i$ holds the keys of token $i$, one slot each.
#
# Two rules: no query scores all $n$ keys, and no tensor holds a number for each of the $n \times n$ pairs. The check counts both on long sequences with a small $w$.
# Any $w \ge 0$ may come: with $w = 0$ each token reads itself alone, and a window wider than the text reads all of it.
#
# **By hand.** $n = 6$, $w = 1$: the four tokens in the middle read 3 keys, the two at the ends 2. That is 16 of 36 pairs. The table
# has $6 \cdot 3 = 18$ slots, and 2 of them hold no key.

# %%
plots.window_slots(n=7, w=2)

# %% [markdown]
# **Predict:** with $n = 4096$ and $w = 128$, how many times fewer scores than $n^2$? And if $n$ doubles, by what factor does the work grow?

# %% nbgrader={"grade": false, "grade_id": "local_attention", "locked": false, "schema_version": 3, "solution": true}
def local_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"], w: int
) -> Float[Tensor, "*batch n d_v"]:
    """Token i attends to the tokens j with |i − j| ≤ w. O(n w d): no tensor of n × n elements."""
    ### BEGIN SOLUTION
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)  # (n, 2w + 1): which key stands in which slot
    inside = (keys >= 0) & (keys < n)
    keys = keys.clamp(0, n - 1)  # any valid index will do: slots that aren't inside are masked
    scores = (k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])  # (*batch, n, 2w + 1)
    weights = scores.masked_fill(~inside, -math.inf).softmax(dim=-1)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: the table of keys</summary>
#
# `torch.arange(n)[:, None] + torch.arange(-w, w + 1)` is the table of the picture above, with numbers below 0 and above n − 1 in the
# empty slots. Indexing with a table gathers: `k[..., table, :]` has shape (…, n, 2w + 1, d).
# </details>
# <details><summary>Hint 2: one query, its own keys</summary>
#
# You want n small products, each of one query with its own 2w + 1 keys. `@` treats all axes but the last two as a batch: which shape
# must q get?
# </details>
# <details><summary>Hint 3: other ways</summary>
#
# `F.pad` and `unfold` make the windows without an index. Or cut the queries into blocks and give each block its neighbours' keys. Or
# loop over the tokens with slices. All are right if nobody scores all n keys.
# </details>
# <details><summary>If only the first and last rows are wrong</summary>
#
# What is in the slots beyond the ends, and what score does it have? A key of zeros has score 0, and $e^0 = 1$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "local_attention_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.local_attention(local_attention, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.local_attention(local_attention, points=4, cases=hidden.local_attention)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** Both lines compute the same output, here with $w = 8$ and $d = 16$. The exponent in the legend is the slope of the line: 2 means that twice the
# length costs four times as much. If you gathered keys, your largest tensor holds $n(2w + 1)d$ numbers. With these sizes it is smaller than $n^2$ only from
# $n = 17 \cdot 16 = 272$ on.
#
# <details><summary>Your prediction</summary>
#
# $4096/257$: about 16 times fewer. And the work doubles.
# </details>

# %%
torch.manual_seed(0)
plots.local_growth(local_attention, lengths=[128, 256, 512, 1024], d=16, w=8)

# %% [markdown]
# ### 10.2 A few tokens that read everything  ●●○ · 20 min · 3 points
#
# In a band, news travels $w$ tokens a layer. From one end of 4096 tokens to the other with $w = 128$ takes 32 layers. The way out of
# Longformer (Beltagy et al., 2020): let the first $g$ tokens be **global**. They read all tokens, and all tokens read them. Any two tokens are then
# two steps apart. A classification token is a natural choice.
#
# For the other tokens the global keys join the window, in *one* softmax. Careful near the start: a global token may stand in a window
# too. It is one key, and gets one share. Any $g$ from 0 (a window alone) to $n$ (full attention) may come.
#
# **By hand.** $n = 9$, $w = 1$, $g = 1$. Token 0 reads 9 keys. Token 5 reads 0, 4, 5, 6. Token 1 reads 0, 1, 2: three keys, not four.
#
# **Predict:** the band costs $n(2w + 1)$ slots. What do $g$ global tokens add?

# %% nbgrader={"grade": false, "grade_id": "global_local", "locked": false, "schema_version": 3, "solution": true}
def global_local_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    w: int,
    g: int,
) -> Float[Tensor, "*batch n d_v"]:
    """Tokens 0 … g − 1 read all and are read by all; the others read |i − j| ≤ w too. O(n (w + g) d)."""
    ### BEGIN SOLUTION
    n, scale = q.shape[-2], math.sqrt(q.shape[-1])
    first = torch.softmax(q[..., :g, :] @ k.mT / scale, dim=-1) @ v  # the global rows: g × n
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    keys = torch.cat([torch.arange(g).expand(n - g, g), window], dim=1)  # (n − g, g + 2w + 1)
    near = (window >= g) & (window < n)  # a global key has its place in front already
    valid = torch.cat([torch.ones(n - g, g, dtype=torch.bool), near], dim=1)
    keys = keys.clamp(0, n - 1)
    scores = (k[..., keys, :] @ q[..., g:, :, None]).squeeze(-1) / scale
    weights = scores.masked_fill(~valid, -math.inf).softmax(dim=-1)
    return torch.cat([first, (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)], dim=-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two kinds of rows</summary>
#
# The first g rows are plain attention of g queries to all n keys. Compute the other rows by themselves and join the two with
# `torch.cat`.
# </details>
# <details><summary>Hint 2: one longer table</summary>
#
# For the other rows put g columns in front of the window's table: 0, 1, …, g − 1 in every row. Which slots of the window are then invalid?
# </details>

# %% nbgrader={"grade": true, "grade_id": "global_local_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.global_local(global_local_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.global_local(global_local_attention, points=3, cases=hidden.global_local)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** One token is changed. Blue marks the tokens whose output has changed, layer after layer.

# %%
torch.manual_seed(0)
plots.hops(global_local_attention, n=64, w=4)

# %% [markdown]
# The global token hears of it in layer 1 and tells everybody in layer 2. All of it goes through one vector of width
# $d$. The next section spreads that load.
#
# ### 10.3 Every pair in two layers, √n keys each  ●●○ · 25 min · 3 points
#
# Can every token reach every other in two layers if *no* token reads more than about $\sqrt n$ keys? Count first. In two layers a token reaches
# at most (keys it reads) × (keys those read) tokens. For $n$ tokens it must read at least $\sqrt n$. So $n\sqrt n$ pairs is the least possible, and
# the strided pattern of Sparse Transformers (Child et al., 2019) needs less than three times as many. With $s = \lceil\sqrt n\,\rceil$, token $i$ reads
#
# - its **window**: all $j$ with $\lvert i - j\rvert < s$;
# - its **column**: all $j$ with $i - j$ divisible by $s$.
#
# Column first, then window: jump to the neighbourhood, then walk.
#
# **By hand.** $n = 16$, $s = 4$. Token 5 reads 2, 3, …, 8 and of its column 1, 9, 13 as well: 10 keys. To hear of token 15 it reads 13, which reads
# 15. Why is a window of $s/2$ to each side not enough?
#
# <details><summary>Look at the ends</summary>
#
# In the middle it is: of $i$'s column, one token is never more than $s/2$ away. But with $n = 16$ token 0 has the column 0, 4, 8, 12, and with a window of 2 token 12 reads up
# to 14. Nobody whom token 0 reads reads token 15.
# </details>
#
# **(a)** `strided_keys(n)` returns the pattern: for each token the list of the keys it reads. Any pattern gets the points if it has four
# properties: different keys from $0 … n-1$ in each list; every token reads itself; no token reads more than $3\lceil\sqrt n\,\rceil$ keys; two
# layers connect every pair. ($n \ge 1$. The factor 3 is the limit; the strided pattern is one of several that keep it.)
#
# **(b)** `gathered_attention` computes attention of $n$ queries to $m$ keys for *any* pattern. It is given as a table with $c$ slots a row: `keys[i]` holds the keys of query $i$, and
# `allowed[i]` says which slots count. The lists have different lengths, so some slots of a row are not allowed; they may stand anywhere in it, and hold any number from
# $0 … m-1$. Every row has at least one slot that is allowed. The rules of 10.1 hold: no query scores all $m$ keys, and there is no tensor of $n \times m$ elements.

# %% nbgrader={"grade": false, "grade_id": "strided_sparse", "locked": false, "schema_version": 3, "solution": true}
def strided_keys(n: int) -> list[list[int]]:
    """For each of n tokens the keys it reads: at most 3⌈√n⌉. Two layers connect every pair."""
    ### BEGIN SOLUTION
    step = math.ceil(math.sqrt(n))
    rows = []
    for i in range(n):
        window = range(max(i - step + 1, 0), min(i + step, n))
        column = range(i % step, n, step)
        rows.append(sorted({*window, *column}))
    return rows
    ### END SOLUTION


def gathered_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    keys: Int[Tensor, "n c"],
    allowed: Bool[Tensor, "n c"],
) -> Float[Tensor, "*batch n d_v"]:
    """Query i reads key keys[i, s] for every slot s with allowed[i, s]: O(n c d)."""
    ### BEGIN SOLUTION
    scores = torch.einsum("...nd,...ncd->...nc", q, k[..., keys, :]) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
    return torch.einsum("...nc,...ncv->...nv", weights, v[..., keys, :])
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint for (a): once each</summary>
#
# Window and column overlap, at least in token i itself. A Python set holds each number once. `range(i % s, n, s)` is the whole column.
# </details>
# <details><summary>Hint for (a): a test of your own</summary>
#
# Turn the lists into a mask of zeros and ones. Entry (i, j) of `mask @ mask` counts the ways from i to j in two layers. Which entries may be
# 0?
# </details>
# <details><summary>Hint for (b)</summary>
#
# You have written it before: it is your window of 10.1 with another table.
# </details>

# %% nbgrader={"grade": true, "grade_id": "strided_sparse_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.strided_sparse(strided_keys, gathered_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.strided_sparse(strided_keys, gathered_attention, points=3, cases=hidden.strided_sparse)
### END HIDDEN TESTS

# %%
plots.two_layers(strided_keys, n=36)

# %% [markdown]
# **Measure it.** Predict the two exponents first: one line is $n^2$. What is $n\sqrt n$ on a plot of this kind?

# %%
torch.manual_seed(0)
plots.strided_growth(strided_keys, gathered_attention, lengths=[64, 144, 324, 729], d=16)

# %% [markdown]
# Gathering has a price that FLOPs don't show. The table of gathered keys holds $n\,c\,d$ numbers, and scattered memory is slow to read. That is why
# real kernels work on *blocks* of neighbouring keys.
#
# ### 10.4 A summary of the keys  ●○○ · 10 min · 2 points
#
# So far pairs were left out. Linformer (Wang et al., 2020) leaves none out and makes the list shorter: $m$ keys are mixed down to $r$ before any query
# sees them, and the values likewise. $E$ and $F$ are learned matrices of shape $r \times m$:
#
# $$\operatorname{softmax}\!\left(\frac{q\,(E k)^\top}{\sqrt d}\right) F v$$
#
# (The paper calls $r$ by the name $k$. That letter is taken here. In the code the two matrices are `e` and `f`, for `F` is `torch.nn.functional` there.) No tensor of $n \times m$
# elements may be made. PyTorch's own `F.scaled_dot_product_attention` may be used.
#
# **By hand.** One feature, four keys 1, 3, 10, 20, and $E$ with the rows (½, ½, 0, 0) and (0, 0, ½, ½). Then $E k$ is 2 and 15: two summaries of two keys
# each. $E$ stands on the *left*: it mixes rows, that is positions. A matrix on the right would mix features, and the list would be as long as before.

# %%
plots.summary_shapes(n=12, r=3, d=4)

# %% [markdown]
# **Predict:** with $n = m = 4096$ and $r = 256$, how many scores are left? Could a model that writes a text, one token after the other, use such a layer?

# %% nbgrader={"grade": false, "grade_id": "low_rank_attention", "locked": false, "schema_version": 3, "solution": true}
def low_rank_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    e: Float[Tensor, "r m"],
    f: Float[Tensor, "r m"],
) -> Float[Tensor, "*batch n d_v"]:
    """softmax(q (E k)ᵀ / √d) (F v), in O((n + m) r d)."""
    ### BEGIN SOLUTION
    short_k, short_v = e @ k, f @ v  # (*batch, r, d) and (*batch, r, d_v)
    weights = torch.softmax(q @ short_k.mT / math.sqrt(q.shape[-1]), dim=-1)  # (*batch, n, r)
    return weights @ short_v
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: in which order?</summary>
#
# $q\,(E k)^\top = (q\,k^\top) E^\top$. Both are right on paper. Which of the two makes an n × m matrix on the way?
# </details>

# %% nbgrader={"grade": true, "grade_id": "low_rank_attention_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.low_rank_attention(low_rank_attention, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.low_rank_attention(low_rank_attention, points=2, cases=hidden.low_rank_attention)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** How good is a summary? Here $E$ and $F$ take plain means over stretches of the sequence, and the output is compared with full attention.
# The answer depends on the tokens.

# %%
torch.manual_seed(0)
plots.summary_error(low_rank_attention, ranks=[4, 8, 16, 32, 64, 128, 256])

# %% [markdown]
# If neighbours resemble each other, a fraction of the keys says nearly everything. If every token has news of its own, a summary must lose some
# of it. Two more limits: $E$ has a fixed number of columns, so the length is fixed, and a summary of *all* positions contains the future, so the causal form is
# lost. (Your answer to the prediction.)
#
# ### 10.5 Moving the brackets: linear attention  ●●● · 40 min · 4 points
#
# What forces us to make the $n \times n$ scores? Only the softmax: it stands between $q k^\top$ and $v$. Replace $e^{q \cdot k}$ by a product of *features*,
# $\varphi(q) \cdot \varphi(k)$, with $\varphi$ applied to every entry. Then nothing stands between, and matrix products may be bracketed as we like
# (Katharopoulos et al., 2020):
#
# $$\big(\varphi(q)\,\varphi(k)^\top\big)\,v \;=\; \varphi(q)\,\big(\varphi(k)^\top v\big)$$

# %%
plots.brackets(n=10, d=3)

# %% [markdown]
# The inner product on the right is $d \times d_v$, however long the sequence is. Weights must be positive and sum to 1. So $\varphi$ must be positive, for instance
# $\varphi(x) = \operatorname{elu}(x) + 1$, and each row is divided by the sum of its weights, the **normaliser**. There is no $1/\sqrt d$: it
# was there for the softmax. And nothing is added to the normaliser: $\varphi$ is positive, so it is never 0. (The paper's code adds a small number, which shows where all features are small.)
#
# $$\text{out}_i = \frac{\varphi(q_i)\,S}{\varphi(q_i) \cdot z}, \qquad S = \sum_j \varphi(k_j)^\top v_j, \qquad z = \sum_j \varphi(k_j)$$
#
# **By hand.** Two keys with features (2, 1) and (1, 3), values 10 and 40. $S = (2 \cdot 10 + 1 \cdot 40,\; 1 \cdot 10 + 3 \cdot 40) = (60, 130)$ and $z = (3, 4)$. A query
# with features (1, 2) gets $(60 + 260)/(3 + 8) = 320/11 = 29.1$. The other way round: its weights are 4 and 7, and $(4 \cdot 10 + 7 \cdot 40)/11$ is 29.1 again.
#
# **(a)** `linear_attention`: every query reads all keys, in $O((n + m)\,d\,d_v)$.
#
# **(b)** `recurrent_linear_attention`, the causal form. Token $t$ may read tokens $0 … t$, so its sums end there:
#
# $$S_t = S_{t-1} + \varphi(k_t)^\top v_t, \qquad z_t = z_{t-1} + \varphi(k_t), \qquad \text{out}_t = \frac{\varphi(q_t)\,S_t}{\varphi(q_t) \cdot z_t}$$
#
# This is an **RNN** with the matrix $S$ as its state, and nothing grows with $n$. Note that the state is updated first and read then: a token reads itself. A loop is the plain way.
# Cumulative sums over the tokens count too, if the work stays $O(n\,d\,d_v)$. A triangle of $n \times n$ weights doesn't, and neither does a sum over the whole past for every token.
#
# **(c)** `chunked_linear_attention`, the middle way that is used in practice. Cut the sequence into chunks of $c$ tokens. What lies *before* the chunk comes from
# the state. What lies *inside* it comes from a $c \times c$ triangle of scores. Then the whole chunk is added to the state. Work: $O(n\,d\,d_v + n\,c\,(d + d_v))$. The check counts your calls
# of PyTorch: about $n/c$ steps, not $n$. Fewer are fine, such as all chunks at once. $c$ may be larger than $n$.

# %% nbgrader={"grade": false, "grade_id": "feature_map", "locked": true, "schema_version": 3, "solution": false}
def phi(x):
    """The feature map φ: positive, and the same for every entry."""
    return F.elu(x) + 1

# %% nbgrader={"grade": false, "grade_id": "linear_attention", "locked": false, "schema_version": 3, "solution": true}
def linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """φ(q) (φ(k)ᵀ v), each row divided by φ(q) · Σ φ(k). Not causal; no n × m matrix."""
    ### BEGIN SOLUTION
    q, k = phi(q), phi(k)
    state = k.mT @ v  # (*batch, d, d_v)
    normaliser = q @ k.sum(dim=-2).unsqueeze(-1)  # (*batch, n, 1)
    return q @ state / normaliser
    ### END SOLUTION


def recurrent_linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form, token after token, with a running state and a running normaliser."""
    ### BEGIN SOLUTION
    q, k = phi(q), phi(k)
    state, z, outputs = 0, 0, []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]  # (*batch, d, d_v)
        z = z + k[..., t, :]
        above = (q[..., t, None, :] @ state).squeeze(-2)
        outputs.append(above / (q[..., t, :] * z).sum(dim=-1, keepdim=True))
    return torch.stack(outputs, dim=-2)
    ### END SOLUTION


def chunked_linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"], c: int
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form in chunks of c tokens (the last may be shorter), in n/c steps or fewer."""
    ### BEGIN SOLUTION
    q, k = phi(q), phi(k)
    state = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    z = q.new_zeros(*q.shape[:-2], q.shape[-1], 1)
    outputs = []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        inside = torch.tril(q_c @ k_c.mT)  # (*batch, c, c)
        normaliser = q_c @ z + inside.sum(dim=-1, keepdim=True)
        outputs.append((q_c @ state + inside @ v_c) / normaliser)
        state = state + k_c.mT @ v_c
        z = z + k_c.sum(dim=-2).unsqueeze(-1)
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: brackets in Python</summary>
#
# `a @ b @ c` is `(a @ b) @ c`. Where do you need brackets of your own?
# </details>
# <details><summary>Hint 2: the normaliser</summary>
#
# $\varphi(q_i) \cdot z$ is one number for each query. Keep its axis, (…, n, 1), so that it divides rows.
# </details>
# <details><summary>Hint 3 for (b): an outer product</summary>
#
# $\varphi(k_t)^\top v_t$ is a column times a row, (d, 1) times (1, d_v). With a slice `t : t + 1` the axes stay, and `@` does it.
# </details>
# <details><summary>Hint 4 for (c): two parts of everything</summary>
#
# Numerator and normaliser each have a part from the state and a part from the triangle. Read the state before you add the chunk to it, or the chunk
# counts twice.
# </details>
# <details><summary>If you see NaN in the first row</summary>
#
# 0/0: the first token reads a state that holds nothing yet. Does it read itself?
# </details>

# %% nbgrader={"grade": true, "grade_id": "linear_attention_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.linear_attention(linear_attention, recurrent_linear_attention, chunked_linear_attention, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.linear_attention(linear_attention, recurrent_linear_attention, chunked_linear_attention, points=4,
                       cases=hidden.linear_attention)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** First the growth of (a), then the three causal forms on the same tokens.

# %%
torch.manual_seed(0)
plots.linear_growth(linear_attention, lengths=[128, 256, 512, 1024], d=16)
plots.three_forms(recurrent_linear_attention, chunked_linear_attention, n=80, d=8, c=16)

# %% [markdown]
# **Back to unit 01.** There an RNN had to wait for its own past, and attention did not. Here one function is both. In training it runs in parallel, because
# all tokens are known. In writing it runs as an RNN, and keeps a state of fixed size instead of a growing cache of keys and values (unit 08). The state is a
# *linear* recurrence, $S_t = 1 \cdot S_{t-1} + b_t$, so even the scan of unit 01 applies.
#
# **Predict:** after how many tokens does the state of a head with $d = 64$ become smaller than a cache of keys and values?

# %%
plots.state_or_cache(d=64, lengths=[1, 4, 16, 64, 256, 1024, 4096, 16384])

# %% [markdown]
# **Which chunk size?** With $c = 1$ the chunked form is the RNN: few FLOPs, many steps. With $c = n$ it is the full triangle: one step, many FLOPs. Where will your
# machine be fastest?

# %%
torch.manual_seed(0)
plots.chunk_sizes(chunked_linear_attention, sizes=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], n=1024, d=32)

# %% [markdown]
# **What is lost.** $e^{q \cdot k}$ can single out one key in a thousand. $\varphi(q) \cdot \varphi(k)$ is a plain dot product of positive vectors, and those always overlap. Here every query
# looks for exactly one key, the one on the diagonal:

# %%
plots.blurred_weights(n=12, d=16)

# %% [markdown]
# The state explains it too: $d \times d_v$ numbers can't hold $n \gg d$ values apart. Linear attention remembers the gist and forgets the quotation.
#
# ### 10.6 What each of them costs  ●●○ · 15 min · 2 points
#
# Now the formulas. Count the FLOPs of the **matrix products** alone, as PyTorch's counter does, for one head with $d_v = d$ and $n = m$. A product of $(a \times b)$ and
# $(b \times c)$ costs $2\,a\,b\,c$. Leave out sums, softmaxes, masks and normalisers. Full attention is done for you: scores $2\,n^2 d$, mixture $2\,n^2 d$, together
# $4\,n^2 d$.
#
# Count what is *computed*, used or not:
#
# - **local**: every token computes all its $2w + 1$ slots, also those that are masked at the ends;
# - **local and global**: $n - g$ tokens with $g$ global slots and a window of $2w + 1$; $g$ global tokens with $n$ keys;
# - **strided**: $n$ is a square number. A token in the middle reads the most keys (10.3), and every token gets that many slots;
# - **low rank**: the two projections count;
# - **linear**: the form of 10.5 (a);
# - **chunked**: $c$ divides $n$; the $c \times c$ squares are computed whole, then cut to triangles.
#
# **Check by hand.** For $n = 16$ and $d = 2$: full 2048; local ($w = 1$) 384; local and global ($w = 1$, $g = 2$) 816; strided 1280; low rank ($r = 2$) 512; linear 256;
# chunked ($c = 4$) 768.

# %% nbgrader={"grade": false, "grade_id": "cost_of_all", "locked": false, "schema_version": 3, "solution": true}
def local_flops(n: int, d: int, w: int) -> int:
    """A window of w to each side."""
    ### BEGIN SOLUTION
    return 4 * n * (2 * w + 1) * d
    ### END SOLUTION


def global_local_flops(n: int, d: int, w: int, g: int) -> int:
    """g global tokens; the others with those and a window."""
    ### BEGIN SOLUTION
    slots = (n - g) * (g + 2 * w + 1) + g * n
    return 4 * slots * d
    ### END SOLUTION


def strided_flops(n: int, d: int) -> int:
    """Window and column of step √n; n is a square number."""
    ### BEGIN SOLUTION
    step = math.isqrt(n)
    return 4 * n * (2 * (step - 1) + 1 + step - 1) * d
    ### END SOLUTION


def low_rank_flops(n: int, d: int, r: int) -> int:
    """Keys and values projected to r, then attention of n queries to them."""
    ### BEGIN SOLUTION
    projections, attention = 2 * (2 * r * n * d), 2 * (2 * n * r * d)
    return projections + attention
    ### END SOLUTION


def linear_flops(n: int, d: int) -> int:
    """The state, and reading it."""
    ### BEGIN SOLUTION
    return 2 * n * d**2 + 2 * n * d**2
    ### END SOLUTION


def chunked_flops(n: int, d: int, c: int) -> int:
    """n/c chunks: the square, its mixture, the state read, the state updated."""
    ### BEGIN SOLUTION
    one_chunk = 2 * c * c * d + 2 * c * c * d + 2 * c * d * d + 2 * c * d * d
    return n // c * one_chunk
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: slots</summary>
#
# A query that meets s keys costs 2 s d for the scores and 2 s d for the mixture. So for everything with a softmax: 4 d times the number of all slots.
# </details>
# <details><summary>Hint 2: a token in the strided middle</summary>
#
# √n − 1 neighbours before, as many after, itself, and √n − 1 more in its column.
# </details>

# %% nbgrader={"grade": true, "grade_id": "cost_of_all_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.cost_of_all(local_flops, global_local_flops, strided_flops,
                  low_rank_flops, linear_flops, chunked_flops, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.cost_of_all(local_flops, global_local_flops, strided_flops,
                  low_rank_flops, linear_flops, chunked_flops, points=2, cases=hidden.cost_of_all)
### END HIDDEN TESTS

# %%
n, d, w, g, r, c = 1024, 32, 8, 4, 24, 64
plots.formulas_and_counts({
    "local": lambda: local_flops(n, d, w),
    "local + global": lambda: global_local_flops(n, d, w, g),
    "strided": lambda: strided_flops(n, d),
    "low rank": lambda: low_rank_flops(n, d, r),
    "linear": lambda: linear_flops(n, d),
    "linear, chunked": lambda: chunked_flops(n, d, c),
}, n=n, d=d, w=w, g=g, r=r, c=c)

# %% [markdown]
# **Measure it: all of them, on your machine.** The left picture is your formulas. **Predict** before you run: which line is lowest on the left at $n = 3600$? Will the
# same one win on the clock? Why might the strided line look worse in the middle and on the right than on the left?

# %%
torch.manual_seed(0)
plots.cost_of_all(lengths=[64, 144, 324, 729, 1600, 3600], d=32, w=8, g=4, r=24, c=64)

# %% [markdown]
# **What you should see.** Counted FLOPs grow with exponent 2 (full), 1.5 (strided) and 1 (all others). In the middle the linear ones lie on one line: their largest
# tensor is no larger than the input. On the clock full attention is among the fastest at 64 tokens: it is two big products, and everything else is small
# pieces. The strided pattern, gathered key by key, needs long sequences to catch up. Where an exponent on the clock is above the counted one, memory is
# the usual reason: tensors that no longer fit into the cache must be fetched from afar. (Or another program wanted the processor.) Fewer FLOPs are not fewer seconds.

# %% [markdown] nbgrader={"grade": false, "grade_id": "which_one_question", "locked": true, "schema_version": 3, "solution": false}
# ### 10.7 Which one?  ●●○ · 15 min · 2 points
#
# Choose a kind of attention for each of these three workloads. Give one reason from the *task* and one *number* (FLOPs, pairs, or numbers kept in memory) that
# supports it. All have heads of width $d = 64$.
#
# 1. **Contracts.** A model reads contracts of 50 000 tokens and gives one verdict each. Clauses mostly refer to text nearby, and the verdict depends on all of them.
# 2. **Live captions.** A phone writes captions for hours, about 3 tokens a second, with a few megabytes for the whole model's memory of the past. The gist of what was said is enough.
# 3. **Sentences.** A translator reads sentences of at most 60 tokens.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (2 points).**
# - ½ point, contracts: window plus global token(s), because dependencies are local and one place must read all. Also accept strided, or low rank with the remark that
#   50 000 is then a fixed length. Full attention without an argument about its cost earns nothing here.
# - ½ point, captions: linear attention (as a recurrence), because the state has a fixed size and a token costs the same at any time. Also accept a causal window with
#   a ring buffer of 2w·d numbers, if it is said that older speech is forgotten. Low rank earns nothing: it is not causal.
# - ½ point, sentences: full attention. At n = 60 < d nothing is saved by the others: 4n²d = 0.92 million FLOPs, linear 4nd² = 0.98 million.
# - ½ point: a right number for at least two of the three, with what it is compared to.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "which_one", "locked": false, "points": 2, "schema_version": 3, "solution": true}
# **Contracts:** a window with a global token at the front. Clauses need their neighbourhood, and the verdict is formed in the global token, which reads all. With $w = 256$ and
# $g = 1$ that is about $50\,000 \cdot 514 + 50\,000 = 26$ million pairs a head, and full attention would need $2.5$ billion, about 100 times as many.
#
# **Live captions:** linear attention, run as a recurrence. The state of a head has $d^2 + d = 4160$ numbers, for ever. A cache would hold $2 \cdot 64 \cdot 10\,800 = 1.4$
# million numbers a head after one hour, and every new token would cost more than the last. For 12 layers of 8 heads in float32 that is 1.6 MB against 530 MB. The blurred memory is acceptable, as the gist is enough.
#
# **Sentences:** full attention. $4 n^2 d = 4 \cdot 3600 \cdot 64 = 0.92$ million FLOPs a head, and linear attention would take $4 n d^2 = 0.98$ million: with $n < d$ it is even dearer. There is nothing to
# save, and exact weights to lose.

# %% [markdown]
# ## What you have now
#
# - **Leave pairs out:** a window costs $O(n\,w\,d)$; global tokens connect everything through a few vectors; strided patterns spread the load, $O(n\sqrt n\,d)$.
# - **Shorten the list:** $r$ summaries of the keys, $O(n\,r\,d)$, if the tokens can be summed up, the length is fixed and nothing is causal.
# - **Move the brackets:** without a softmax, $q\,(k^\top v)$ costs $O(n\,d^2)$ and runs as an RNN with a state of fixed size, or in chunks.
# - A right output proves nothing about cost. Count. And FLOPs prove nothing about seconds. Measure.
# - Below a few hundred tokens full attention is hard to beat.
#
# **Next:** you have come full circle. Unit 01 asked why a sequence must be read one token after another. Now you can say what it costs to avoid it, and choose. Where full
# attention is the right choice, unit 09 makes it fast without changing a digit.
