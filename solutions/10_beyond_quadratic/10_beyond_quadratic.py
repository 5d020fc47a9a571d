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
# Full attention lets every token read every token, and pays for $n^2$ pairs. At 1000 tokens that is cheap. At 100,000
# tokens it costs more than everything else together. There are three ways out: leave pairs out, summarize the keys,
# or move a pair of brackets. The third one ends in a memory of fixed size, and then the question is what such a memory
# should forget.
#
# **After this unit you can**
# - compute attention in a band in $O(n\,w\,d)$, with global tokens where news has to travel far;
# - build a pattern of $O(n\sqrt n)$ pairs that connects every two tokens in two layers;
# - shorten the list of keys itself, and say when that loses little;
# - write linear attention in three forms, in one product, as a recurrence and in chunks, and see that it is an RNN;
# - let its memory fade (RetNet, Mamba-2) or correct itself (DeltaNet), and say which of them can replace what it knows;
# - predict the cost of each, count it, measure it, and choose.
#
# **How to work.** For each kind of attention: predict how it grows, write it, and let the check count what it really
# does: a right output at too high a price earns at most half of the points. You have about 3½ hours, and 25 points to
# earn.
#
# **For all functions here:** where there is a softmax, scores may be in the tens of thousands, above 0 and below, so
# mask with $-\infty$. Gradients are checked in all exercises but 10.8, in float64, so don't overwrite
# what the backward pass needs: `state = state + new`, not `state += new`.
# PyTorch's own attention may be called.
#
# **Letters.** Besides $n$, $m$, $d$ and $d_v$: $w$ neighbors on each side, $g$ global tokens, $r$ summaries, $\gamma_t$
# what is left after a step, $\beta_t$ how much of a correction is written. In 10.3 a query has $c$ slots; from 10.5 on
# a chunk has $c$ tokens.

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
# ## 10.1 A window  ●●○ · 25 min · 3 points
#
# Most of what a word needs stands near it. So let token $i$ read only the tokens $j$ with $\lvert i - j\rvert \le w$:
# $w$ neighbors to the left, $w$ to the right, and itself (Beltagy et al., 2020, section 3.1). Drawn as a matrix, the
# allowed pairs form a **band**. At the ends the window is cut off. Otherwise it is the attention of unit 02, here and
# in 10.2 and 10.3: scores $q \cdot k / \sqrt d$, and a softmax over the keys that are allowed.
#
# You write the second picture of this row now, the third in 10.2 and the fourth in 10.3.

# %%
plots.attention_patterns(n=25, w=2, g=1)

# %% [markdown]
# A mask gives the right output, and saves nothing: all $n^2$ scores are computed and most are thrown away. To save
# work, never compute a score outside the band. Store the band as a *table*: row $i$ holds the keys of token $i$, one
# slot each. Then no query scores all $n$ keys, and no tensor holds a number for each of the $n \times n$ pairs.
#
# **By hand.** $n = 6$, $w = 1$: the four tokens in the middle read 3 keys, the two at the ends 2. That is 16 of 36
# pairs. The table has $6 \cdot 3 = 18$ slots, and 2 of them hold no key.

# %%
plots.window_slots(n=7, w=2)

# %% [markdown]
# **Predict:** with $n = 4096$ and $w = 128$, how many times fewer scores than $n^2$? And if $n$ doubles, by what factor
# does the work grow?

# %%
guess_times_fewer = None  # a number
guess_work_doubles = None  # by what factor the work grows if n doubles

# %% nbgrader={"grade": false, "grade_id": "local_attention", "locked": false, "schema_version": 3, "solution": true}
def local_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    w: int,
) -> Float[Tensor, "*batch n d_v"]:
    """Without an n × n tensor: token i attends to the tokens j with |i − j| ≤ w. O(n w d)."""
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
# `torch.arange(n)[:, None] + torch.arange(-w, w + 1)` is the table of the picture above, with numbers below 0 and above
# n − 1 in the empty slots. Indexing with a table gathers: `k[..., table, :]` has shape (…, n, 2w + 1, d).
# </details>
# <details><summary>Hint 2: one query, its own keys</summary>
#
# You want n small products, each of one query with its own 2w + 1 keys. `@` treats all axes but the last two as a
# batch: which shape must q get?
# </details>
# <details><summary>Hint 3: other ways</summary>
#
# `F.pad` and `unfold` make the windows without an index. Or cut the queries into blocks and give each block its
# neighbors' keys (at most 2w + 2 tokens in a block). Or loop over the tokens with slices.
# </details>
# <details><summary>If only the first and last rows are wrong</summary>
#
# What is in the slots beyond the ends, and what score does it have? A key of zeros has score 0, and $e^0 = 1$.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $w$ is 0 or more, and the window may be wider than the text (by a few tokens, so a table of $2w + 1$ slots fits).
#   With $w = 0$ each token reads only itself.
# - float32 and float64. A key and its value may be all zeros.
# - Counted with $n$ of 300 to 400 and $w$ of 5 at most: the FLOPs of the matrix products, the elements of the
#   largest tensor, of the backward pass too, and the numbers that elementwise operations and sums go through. About
#   twice what the table of keys takes is allowed (elementwise, ten times).
# </details>

# %% nbgrader={"grade": true, "grade_id": "local_attention_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.local_attention(local_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.local_attention(local_attention, points=3, cases=hidden.local_attention)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** Both lines compute the same output, here with $w = 8$ and $d = 16$. The exponent in the legend is the
# slope of the line: 2 means that twice the length costs four times as much. If you gathered keys, your largest tensor
# holds $n(2w + 1)d$ numbers. With these sizes it is smaller than $n^2$ only above $n = 17 \cdot 16 = 272$.
#
# <details><summary>Your prediction</summary>
#
# $4096/257$: about 16 times fewer. And the work doubles.
# </details>

# %%
torch.manual_seed(0)
plots.local_growth(local_attention, lengths=[128, 256, 512, 1024], d=16, w=8)

# %% [markdown]
# ## 10.2 A few tokens that read everything  ●●○ · 20 min · 3 points
#
# In a band, news travels $w$ tokens per layer. From one end of 4096 tokens to the other with $w = 128$ takes 32 layers.
# The way out of Longformer (Beltagy et al., 2020): let the first $g$ tokens be **global**. They read all tokens, and
# all tokens read them. Any two tokens are then at most two steps apart. A token that stands for the whole text, such as
# BERT's `[CLS]`, is a natural choice.

# %%
plots.window_film()

# %% [markdown]
# For the other tokens the global keys join the window, in *one* softmax. Careful near the start: a global token may
# stand in a window too. It is one key, and gets one share. Only the $g$ global queries score all $n$ keys.
#
# **By hand.** $n = 9$, $w = 1$, $g = 2$. Tokens 0 and 1 read 9 keys. Token 5 reads 0, 1, 4, 5, 6. Token 2 reads 0, 1,
# 2, 3: four keys, not five. (With $g = 0$ token 0 reads 0 and 1.)
#
# **Predict:** the band costs $n(2w + 1)$ slots. What do $g$ global tokens add? Give a number for $n = 4096$, $w = 128$,
# $g = 2$.

# %%
guess_added_slots = None  # a number

# %% nbgrader={"grade": false, "grade_id": "global_local", "locked": false, "schema_version": 3, "solution": true}
def global_local_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    w: int,
    g: int,
) -> Float[Tensor, "*batch n d_v"]:
    """Without an n × n tensor: tokens 0 … g − 1 read all and are read by all, and the others
    read |i − j| ≤ w too. O(n (w + g) d)."""
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
# The first g rows are plain attention of g queries to all n keys. Compute the other rows by themselves and join the two
# with `torch.cat`.
# </details>
# <details><summary>Hint 2: one longer table</summary>
#
# For the other rows put g columns in front of the window's table: 0, 1, …, g − 1 in every row. Which slots of the
# window are then invalid?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $w$ as in 10.1; $g$ from 0 (only the window) to $n$ (full attention). float32 and float64.
# - The global keys may score hundreds more, or less, than those of the window. A key and its value may be all zeros.
# - Counted as in 10.1, with the rows of the global tokens on top.
# </details>

# %% nbgrader={"grade": true, "grade_id": "global_local_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.global_local(global_local_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.global_local(global_local_attention, points=3, cases=hidden.global_local)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** One token is changed. Blue marks the tokens whose output has changed, layer after layer.
#
# <details><summary>Your prediction</summary>
#
# $2\,g\,n$, nearly, so about 16,000: each of the $n - g$ other tokens has $g$ more slots, and each of the $g$ global
# tokens has $n$ instead of $2w + 1$.
# </details>

# %%
torch.manual_seed(0)
plots.hops(global_local_attention, n=64, w=4)

# %% [markdown]
# The global token hears of it in layer 1 and tells everybody in layer 2. All of it goes through one vector of width
# $d$. The next section spreads that load. (A language model looks only back: its table ends with token $i$ itself, and
# its global tokens are read by all later ones, but read nothing later.)
#
# **BigBird** (Zaheer et al., 2020) has your window and your global tokens, and a third part: every token reads a few
# keys drawn at random. In a graph with random edges no two tokens are many steps apart, so news travels along many
# paths, not only through the global tokens. With a constant number of each the cost stays linear in $n$. What is lost:
# no pattern with about $n$ pairs does all that full attention does in as few layers. The authors name a task that one
# full layer solves, and that takes such patterns about $n$ layers (section 3.4, under a standard assumption on
# complexity).
#
# ## 10.3 Every pair in two layers, about √n keys each  ●●○ · 25 min · 3 points
#
# Can every token reach every other in two layers if *no* token reads more than about $\sqrt n$ keys? Count first. If no
# token may read more than $u$ keys, two layers bring it news of at most $u \cdot u$ tokens. For all $n$ of them $u$
# must be at least $\sqrt n$.
#
# The strided pattern of Sparse Transformers (Child et al., 2019, section 4.3; causal there) comes near it. With
# $s = \lceil\sqrt n\,\rceil$, token $i$ reads
#
# - its **window**: all $j$ with $\lvert i - j\rvert < s$;
# - its **column**: all $j$ with $i - j$ divisible by $s$.
#
# Column first, then window: jump to the neighborhood, then walk. (If one token may read everything, fewer pairs are
# enough: the global token of 10.2 connects all tokens with about $3n$ of them.)
#
# **By hand.** $n = 16$, $s = 4$. Token 5 reads 2, 3, …, 8 and of its column 1, 9, 13 as well: 10 keys. To hear of token
# 15 it reads 13, which reads 15. Why is a window of $s/2$ to each side not enough?
#
# <details><summary>Look at the ends</summary>
#
# In the middle it is: of $i$'s column, one token is never more than $s/2$ away. But take $n = 16$ and a window of 2.
# Token 15 is read by 13 and 14 (it is in their windows), by 3, 7 and 11 (its column) and by itself. Token 0 reads 0, 1,
# 2, 4, 8 and 12: none of these.
# </details>
#
# **(a)** `strided_keys(n)` returns this pattern, or another one that connects every pair in two layers with at most
# $3\lceil\sqrt n\,\rceil$ keys per token: for each token the list of the keys it reads, itself included.
#
# **(b)** `gathered_attention` computes attention of $n$ queries to $m$ keys for *any* pattern. It is given as a table
# with $c$ slots per row: `keys[i]` holds the keys of query $i$, and `allowed[i]` says which slots count. The lists have
# different lengths, so some slots of a row are empty: `allowed` alone tells which.

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
    """Without an n × m tensor: query i reads key keys[i, s] for all s with allowed[i, s].
    O(n c d)."""
    ### BEGIN SOLUTION
    scores = torch.einsum("...nd,...ncd->...nc", q, k[..., keys, :]) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
    return torch.einsum("...nc,...ncv->...nv", weights, v[..., keys, :])
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint for (a): once each</summary>
#
# Window and column overlap, at least in token i itself. A Python set holds each number once. `range(i % s, n, s)` is
# the whole column.
# </details>
# <details><summary>Hint for (a): a test of your own</summary>
#
# Turn the lists into a mask of zeros and ones. Entry (i, j) of `mask @ mask` counts the ways from i to j in two layers.
# Which entries may be 0?
# </details>
# <details><summary>Hint for (b)</summary>
#
# You have written it before: it is your window of 10.1 with another table.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - (a) Four properties of any pattern: each list holds different keys from $0 … n-1$; every token reads itself; no
#   token reads more than $3\lceil\sqrt n\,\rceil$ keys; two layers connect every pair. Tuples or sets are fine too.
# - (b) Every row has at least one allowed slot, and no key stands in two allowed ones. An empty slot holds any number
#   from $0 … m-1$, perhaps that of an allowed key. float32 and float64.
# - (b) Counted with $n = 300$, $m = 350$, $c = 8$: the FLOPs and the largest tensor, twice what the table of keys
#   takes, and elementwise work as in 10.1. The largest tensor of the backward pass is counted too.
# - (a) and (b) share the points equally.
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
# **Measure it.** One line is $n^2$, so its slope is 2. **Predict:** what is the slope of $n\sqrt n$?

# %%
guess_slope = None  # a number

# %%
torch.manual_seed(0)
plots.strided_growth(strided_keys, gathered_attention, lengths=[64, 144, 324, 729], d=16)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# A slope of 1.5: $n\sqrt n = n^{1.5}$. If you gathered keys, your line in the right picture lies above the gray one:
# the table holds about $3\sqrt n\,n\,d$ numbers. With $d = 16$ that is less than $n^2$ only from about
# $n = 48^2 = 2304$ on.
# </details>
#
# Gathering has a price that FLOPs don't show. The table of gathered keys holds $n\,c\,d$ numbers, and scattered memory
# is slow to read. That is why real kernels work on *blocks* of neighboring keys, BigBird's among them. (Your
# `gathered_attention` computes BigBird's rows too, from a table of each token's window, global and random keys. Only
# the global tokens' own rows are plain attention, as in 10.2.)
#
# ## 10.4 A summary of the keys  ●○○ · 10 min · 2 points
#
# So far pairs were left out. Linformer (Wang et al., 2020, equation 7) leaves none out and makes the list shorter: $m$
# keys are mixed down to $r$ before any query sees them, and the values likewise. $E$ and $F$ are learned matrices of
# shape $r \times m$:
#
# $$\operatorname{softmax}\!\left(\frac{q\,(E k)^\top}{\sqrt d}\right) F v$$
#
# (The paper's letter for $r$ is $k$, which is taken here. In code the matrices are `e` and `f`, because `F` is
# `torch.nn.functional`.)
#
# **By hand.** One feature, four keys 1, 3, 10, 20, and $E$ with the rows (½, ½, 0, 0) and (0, 0, ½, ½). Then $E k$ is 2
# and 15: two summaries of two keys each. $E$ stands on the *left*: it mixes rows, that is, positions. A matrix on the
# right would mix features, and the list would be as long as before.

# %%
plots.summary_shapes(n=12, r=3, d=4)

# %% [markdown]
# **Predict:** with $n = m = 4096$ and $r = 256$, how many scores are left? Could a model that writes a text, one token
# after the other, use such a layer?

# %%
guess_scores_left = None  # a number
guess_writes_with_it = None  # "yes" or "no" (quotes included)

# %% nbgrader={"grade": false, "grade_id": "low_rank_attention", "locked": false, "schema_version": 3, "solution": true}
def low_rank_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    e: Float[Tensor, "r m"],
    f: Float[Tensor, "r m"],
) -> Float[Tensor, "*batch n d_v"]:
    """Without an n × m tensor: softmax(q (E k)ᵀ / √d) (F v), in O((n + m) r d)."""
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
# <details><summary>What exactly is checked</summary>
#
# - $r$ from 1 to $m$. $E$ and $F$ are used as they are: entries may be negative, and rows need not sum to 1. float32
#   and float64.
# - Counted with $n$ and $m$ of 250 to 350: twice the FLOPs of the four products, and tensors of up to $2\,m\,r\,d$
#   numbers, far fewer than $n \times m$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "low_rank_attention_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.low_rank_attention(low_rank_attention, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.low_rank_attention(low_rank_attention, points=2, cases=hidden.low_rank_attention)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** How good is a summary? Here $E$ and $F$ take plain means over stretches of the sequence, and the output is
# compared with full attention. The answer depends on the tokens.

# %%
torch.manual_seed(0)
plots.summary_error(low_rank_attention, ranks=[4, 8, 16, 32, 64, 128, 256])

# %% [markdown]
# If neighbors resemble each other, a fraction of the keys says nearly everything. If every token has news of its own, a
# summary must lose some of it. Two more limits: $E$ has a fixed number of columns, so the length is fixed, and a
# summary of *all* positions contains the future, so the causal form is lost.
#
# <details><summary>Your prediction</summary>
#
# $4096 \cdot 256$, about one million, 16 times fewer than $4096^2$. And no: a model that writes would read summaries of
# text that it hasn't written yet.
# </details>
#
# ## 10.5 Moving the brackets: linear attention  ●●● · 40 min · 4 points
#
# What forces us to make the $n \times n$ scores? Only the softmax: it stands between $q k^\top$ and $v$. Replace
# $e^{q \cdot k}$ by a product of *features*, $\varphi(q) \cdot \varphi(k)$, with $\varphi$ applied to every entry. Then
# nothing stands in between, and we can move the brackets of the matrix products as we like (Katharopoulos et al., 2020,
# section 3.2):
#
# $$\big(\varphi(q)\,\varphi(k)^\top\big)\,v \;=\; \varphi(q)\,\big(\varphi(k)^\top v\big)$$

# %%
plots.brackets(n=10, d=3)

# %% [markdown]
# The product in parentheses on the right is $d \times d_v$, however long the sequence is. Weights must be positive and
# sum to 1. So $\varphi$ must be positive, for instance $\varphi(x) = \operatorname{elu}(x) + 1$, and each row is
# divided by the sum of its weights, the **normalizer**. There is no $1/\sqrt d$: it was there for the softmax. And
# nothing is added to the normalizer: $\varphi$ is positive, so on paper it is never 0. (The paper's code adds a small
# number, which shows where all features are small.)
#
# $$\text{out}_i = \frac{\varphi(q_i)\,S}{\varphi(q_i) \cdot z}, \qquad S = \sum_j \varphi(k_j)^\top v_j, \qquad
# z = \sum_j \varphi(k_j)$$
#
# **By hand.** Two keys with features (2, 1) and (1, 3), values 10 and 40.
# $S = (2 \cdot 10 + 1 \cdot 40,\; 1 \cdot 10 + 3 \cdot 40) = (60, 130)$ and $z = (3, 4)$. A query with features (1, 2)
# gets $(60 + 260)/(3 + 8) = 320/11 = 29.1$. The other way around: its weights are 4 and 7, and
# $(4 \cdot 10 + 7 \cdot 40)/11$ is 29.1 again.
#
# **(a)** `linear_attention`: every query reads all keys, in $O((n + m)\,d\,d_v)$.
#
# **(b)** `recurrent_linear_attention`, the causal form. Token $t$ may read tokens $0 … t$, so its sums end there:
#
# $$S_t = S_{t-1} + \varphi(k_t)^\top v_t, \qquad z_t = z_{t-1} + \varphi(k_t), \qquad
# \text{out}_t = \frac{\varphi(q_t)\,S_t}{\varphi(q_t) \cdot z_t}$$
#
# This is an **RNN** with the matrix $S$ as its state, and nothing grows with $n$. The state is updated first and read
# afterwards: a token reads itself.
#
# **(c)** `chunked_linear_attention`, the middle way that is used in practice (Hua et al., 2022). Cut the sequence into
# chunks of $c$ tokens. What lies *before* the chunk comes from the state. What lies *inside* it comes from a
# $c \times c$ triangle of scores. Then the whole chunk is added to the state. Work: $O(n\,d\,d_v + n\,c\,(d + d_v))$.

# %% nbgrader={"grade": false, "grade_id": "feature_map", "locked": true, "schema_version": 3, "solution": false}
def phi(x):
    """The feature map φ: positive, and the same for every entry."""
    return F.elu(x) + 1

# %% nbgrader={"grade": false, "grade_id": "linear_attention", "locked": false, "schema_version": 3, "solution": true}
def linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
) -> Float[Tensor, "*batch n d_v"]:
    """Without an n × m tensor: φ(q) (φ(k)ᵀ v), each row divided by φ(q) · Σ φ(k)."""
    ### BEGIN SOLUTION
    q, k = phi(q), phi(k)
    state = k.mT @ v  # (*batch, d, d_v)
    normalizer = q @ k.sum(dim=-2).unsqueeze(-1)  # (*batch, n, 1)
    return q @ state / normalizer
    ### END SOLUTION


def recurrent_linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form, token after token, with a running state and a running normalizer."""
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
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    c: int,
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form in chunks of c tokens (the last may be shorter)."""
    ### BEGIN SOLUTION
    q, k = phi(q), phi(k)
    state = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    z = q.new_zeros(*q.shape[:-2], q.shape[-1], 1)
    outputs = []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        inside = torch.tril(q_c @ k_c.mT)  # (*batch, c, c)
        normalizer = q_c @ z + inside.sum(dim=-1, keepdim=True)
        outputs.append((q_c @ state + inside @ v_c) / normalizer)
        state = state + k_c.mT @ v_c
        z = z + k_c.sum(dim=-2).unsqueeze(-1)
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: brackets in Python</summary>
#
# `a @ b @ c` is `(a @ b) @ c`. Where do you need brackets of your own?
# </details>
# <details><summary>Hint 2: the normalizer</summary>
#
# $\varphi(q_i) \cdot z$ is one number for each query. Keep its axis, (…, n, 1), so that it divides rows.
# </details>
# <details><summary>Hint 3 for (b): an outer product</summary>
#
# $\varphi(k_t)^\top v_t$ is a column times a row, (d, 1) times (1, d_v). With a slice `t : t + 1` the axes stay, and
# `@` does it.
# </details>
# <details><summary>Hint 4 for (c): two parts of everything</summary>
#
# Numerator and normalizer each have a part from the state and a part from the triangle. Read the state before you add
# the chunk to it, or the chunk counts twice.
# </details>
# <details><summary>If you see NaN in the first row</summary>
#
# 0/0: the first token reads a state that holds nothing yet. Does it read itself?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The three functions share the points equally. float32 and float64.
# - Entries of `q` and `k` lie between about −15 and 15, in float32 seldom beyond ±10. (Further down
#   $\operatorname{elu}(x) + 1$ is rounded, in float32 to exactly 0 from about $-17$ on.)
# - (a) Counted with $n$ and $m$ of 240 to 400: twice the FLOPs of the formula, and tensors of up to
#   $2\,n\,(d+1)(d_v+1)$ numbers. Elementwise operations together go through at most five times as
#   many: so no number by number. No $n \times m$ matrix, not for the normalizer either.
# - (b) Counted likewise (elementwise up to eight times), with $n$ of 250 to 300. Cumulative sums are fine, and may keep
#   all states, $n\,d\,d_v$ numbers. A triangle of $n \times n$ weights costs too much, and so does a sum over the whole
#   past for every token.
# - (c) Any $c$, even 1 or more than $n$. Counted with $n$ of 525 to 608 and $c$ of 4 to 30, likewise.
# - (c) Up to 120 of PyTorch's operations per chunk, the short last one included. Plain answers take 20 to 70, a loop
#   over 25 tokens takes more, and an `einsum` counts as 5 to 12. All chunks at once is fine.
# - (c) A key and its value may be many thousand times as large as those before. If you use running sums, shift them by
#   one chunk: to subtract a chunk's own sum again costs the small numbers their digits.
# - (c) If you fill up the last chunk with features of 0, cut these rows off *before* you divide: their 0/0 spoils the
#   gradients.
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
# **Back to unit 01.** There an RNN had to wait for its own past, and attention did not. Here one function is both. In
# training it runs in parallel, because all tokens are known. While it writes it runs as an RNN, and keeps a state of
# fixed size instead of a growing cache of keys and values (unit 08). The state is a *linear* recurrence,
# $S_t = 1 \cdot S_{t-1} + b_t$, so even the scan of unit 01 applies.
#
# **Predict:** after how many tokens does the state of a head with $d = 64$ become smaller than a cache of keys and
# values?

# %%
guess_state_smaller = None  # a number

# %%
plots.state_or_cache(d=64, lengths=[1, 4, 16, 64, 256, 1024, 4096, 16384])

# %% [markdown]
# <details><summary>State or cache?</summary>
#
# After 33 tokens: the state has $64 \cdot 64$ numbers and $z$ another 64, the cache 128 for each token.
# </details>
#
# **Which chunk size?** With $c = 1$ the chunked form is the RNN: few FLOPs, many steps. With $c = n$ it is the full
# triangle: one step, many FLOPs. Where will your machine be fastest?

# %%
torch.manual_seed(0)
plots.chunk_sizes(chunked_linear_attention, sizes=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], n=1024, d=32)

# %% [markdown]
# The best size lies in between, usually at a few dozen tokens.
#
# **What is lost.** $e^{q \cdot k}$ can single out one key in a thousand. $\varphi(q) \cdot \varphi(k)$ is a plain dot
# product of positive vectors, and those always overlap. Here every query looks for exactly one key, the one on the
# diagonal. (The right map belongs to Performer, in the fold below.)

# %%
plots.blurred_weights(n=12, d=16)

# %% [markdown]
# The state explains it too: $d \times d_v$ numbers can't keep $n \gg d$ values apart. Linear attention remembers the
# gist and forgets the quotation.
#
# <details><summary>Performer: features that estimate the softmax (a side road: nothing later needs it)</summary>
#
# Performer (Choromanski et al., 2021) keeps the brackets and takes another $\varphi$. Your $\varphi$ makes weights of a
# new kind, and a model has to be trained with them. Performer's features estimate the old ones: draw $r$ random
# directions $\omega$ from a normal distribution, and let $\varphi(x)$ have the entries
# $e^{\omega \cdot x - |x|^2/2} / \sqrt r$. They are positive, and *on average* $\varphi(q) \cdot \varphi(k)$ is
# $e^{q \cdot k}$ (lemma 1). So this estimates softmax attention in $O(n\,r\,d)$, and runs in the same three forms as
# yours (section 2.2; the causal one in appendix B.1). What is lost is exactness. The noise falls only as $1/\sqrt r$,
# and it is largest where $q + k$ is long, that is, where softmax is sharp. The right map shows it for $r = 64$.
# </details>
#
# ## 10.6 A memory that fades  ●●● · 30 min · 3 points
#
# The state of 10.5 forgets nothing on purpose: after a whole book the first word weighs as much as the last. Let it
# fade. Before token $t$ is added, multiply the state by a factor $\gamma_t$ with $0 < \gamma_t \le 1$:
#
# $$S_t = \gamma_t\,S_{t-1} + k_t^\top v_t, \qquad \text{out}_t = q_t\,S_t$$
#
# Who chooses the factor? In **RetNet** (Sun et al., 2023, section 2.1) it is a constant, a different one for each head:
# $1 - \tfrac{1}{32}$, $1 - \tfrac{1}{64}$, … (equation 8; its queries and keys are also rotated, as in unit 05). In
# **Mamba-2** (Dao & Gu, 2024, section 5) the token chooses it, through a gate: "here begins another topic, forget".
# Gated linear attention (Yang et al., 2024a) has a gate for each of the $d$ rows of the state. You write the form in
# the middle: one factor for each head and token.
#
# There is no $\varphi$ here and no normalizer. Queries and keys are taken as they are. Weights may be negative and
# cancel each other, so they can't be made to sum to 1; the layer normalizes its *output* instead (in RetNet by a
# GroupNorm, section 2.2).
#
# **Written out**, token $s$ has faded by the factors of all tokens *after* it when token $t$ reads it, but not by its
# own:
#
# $$\text{out}_t = \sum_{s \le t} D_{ts}\,(q_t \cdot k_s)\,v_s, \qquad
# D_{ts} = \gamma_{s+1}\,\gamma_{s+2} \cdots \gamma_t, \qquad D_{tt} = 1$$
#
# So $D$ takes the place of the triangle of ones: a causal mask with shades. With one constant factor it is
# $\gamma^{t-s}$.
#
# **By hand.** Three tokens, all queries and keys 1, values 16, 4, 5, factors 1, ½, ¼. The state is 16, then
# $\tfrac12 \cdot 16 + 4 = 12$, then $\tfrac14 \cdot 12 + 5 = 8$. The last row of $D$ is ⅛, ¼, 1, and $16/8 + 4/4 + 5$
# is 8 again.
#
# **Predict:** a head of RetNet has $\gamma = 31/32$. After how many tokens is half of a token left? What does a gate
# that is 0.0001 at token 9, and 1 elsewhere, do to $D$?
#
# **(a)** `recurrent_decayed_attention`: token after token, as the formula says, in $O(n\,d\,d_v)$.
#
# **(b)** `chunked_decayed_attention`: start from your `chunked_linear_attention`, without $\varphi$ and the normalizer.
# Then put decay in its four places: the scores inside a chunk; what token $t$ of a chunk finds of the old state; what
# is left of the old state when the chunk is over; and what is left by then of each of the chunk's own keys. Each is a
# product of some of the chunk's factors. Which? Careful: a product of 130 factors of 0.001 is 0 for a computer, and 0/0
# is NaN.

# %%
guess_half_left = None  # a number

# %% nbgrader={"grade": false, "grade_id": "decayed_attention", "locked": false, "schema_version": 3, "solution": true}
def recurrent_decayed_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gamma: Float[Tensor, "*batch n"],
) -> Float[Tensor, "*batch n d_v"]:
    """S_t = γ_t S_{t−1} + k_tᵀ v_t, read by q_t, token after token. No φ, no normalizer."""
    ### BEGIN SOLUTION
    state, outputs = 0, []
    for t in range(q.shape[-2]):
        new = k[..., t, :, None] * v[..., t, None, :]  # (*batch, d, d_v)
        state = gamma[..., t, None, None] * state + new
        outputs.append((q[..., t, None, :] @ state).squeeze(-2))
    return torch.stack(outputs, dim=-2)
    ### END SOLUTION


def chunked_decayed_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gamma: Float[Tensor, "*batch n"],
    c: int,
) -> Float[Tensor, "*batch n d_v"]:
    """The same in chunks of c tokens (the last may be shorter)."""
    ### BEGIN SOLUTION
    state = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    outputs = []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        total = gamma[..., start : start + c].log().cumsum(dim=-1)  # (*batch, c): logarithms, for products underflow
        gap = total[..., :, None] - total[..., None, :]  # (*batch, c, c): log D for s ≤ t
        later = torch.ones(gap.shape[-2:], dtype=torch.bool).triu(1)
        mask = gap.masked_fill(later, -math.inf).exp()
        old = total.exp()[..., None]  # (*batch, c, 1): the factors up to token t
        outputs.append(old * (q_c @ state) + (q_c @ k_c.mT * mask) @ v_c)
        kept = (total[..., -1:] - total).exp()[..., None] * k_c  # each key with the factors after it
        state = old[..., -1:, :] * state + kept.mT @ v_c
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1 for (a): a factor for each head</summary>
#
# $\gamma_t$ is `gamma[..., t]`, of shape (…). It multiplies a state of shape (…, d, d_v). Which axes are missing?
# </details>
# <details><summary>Hint 2 for (b): differences of sums</summary>
#
# With `total = gamma.log().cumsum(-1)` the logarithm of $\gamma_{s+1} \cdots \gamma_t$ is `total[t] - total[s]`. A
# column minus a row gives all pairs at once. (Or without logarithms: a square with $\gamma_t$ in row t below the
# diagonal and 1 elsewhere, `cumprod(-2)`, then `tril()`. That loses no digits, however long the chunk is.)
# </details>
# <details><summary>Hint 3 for (b): the four places</summary>
#
# Number the chunk's tokens 0 … c − 1. The score of the pair (t, s) gets $\gamma_{s+1} \cdots \gamma_t$. Token t finds
# $\gamma_0 \cdots \gamma_t$ of the old state. When the chunk is over, $\gamma_0 \cdots \gamma_{c-1}$ of it are left,
# and $\gamma_{s+1} \cdots \gamma_{c-1}$ of key s: that is the last row of the mask.
# </details>
# <details><summary>If the values are right and the gradients are NaN</summary>
#
# For later tokens, s > t, the difference of the logarithms is positive and may be 900. Its exponential is infinite.
# `tril` turns it into 0 in the forward pass. In the backward pass 0 is multiplied by that infinite slope. Set these
# differences to −∞ *before* the exponential, as the scores of unit 03.
# </details>
# <details><summary>A test of your own</summary>
#
# With c = 1 the chunked form is (a). With all factors 1 it is the numerator of 10.5 (c), without $\varphi$.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; the result has the dtype of the inputs. (a) and (b) share the points equally.
# - Factors from $10^{-15}$ to 1, never exactly 0.
# - (a) is counted as 10.5 (b), and (b) as 10.5 (c), with $c$ up to 50: no past is summed up again, and no loop runs
#   over the tokens of a chunk, not for its mask either.
# - (b) Any $c$, even 1 or more than $n$. Long chunks of small factors: $c = 128$ with all factors 0.001, in float64.
# - (b) In float32 chunks have at most 30 tokens, in texts of up to 700. Begin each chunk's sum of logarithms at 0: sums
#   over the whole text are so large that their differences have lost the last digits.
# </details>

# %% nbgrader={"grade": true, "grade_id": "decayed_attention_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.decayed_attention(recurrent_decayed_attention, chunked_decayed_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.decayed_attention(recurrent_decayed_attention, chunked_decayed_attention, points=3,
                        cases=hidden.decayed_attention)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Give your function queries and keys of 1, and to each token a value of its own: then the output *is* $D$.
# (It is computed in chunks of 7. Can you see where they end?)

# %%
plots.fading_memory(chunked_decayed_attention, n=24, begins=(0, 9, 17))

# %% [markdown]
# <details><summary>What you should see</summary>
#
# With one factor each row is the row above it, faded and moved by one: a soft window whose width the head has chosen.
# With a gate the mask falls into blocks: to forget everything at token 9 is to begin a new document, like the packed
# documents of unit 03. Heads with different factors look back to different distances.
# </details>
#
# <details><summary>Your prediction</summary>
#
# $(31/32)^{22}$ is 0.497: half is gone after 22 tokens. The gate cuts $D$ into two triangles. Nothing from before token
# 9 is read afterwards, or only a ten-thousandth of it.
# </details>
#
# Large models compute the chunked form, in RetNet equation 7 and in Mamba-2 section 6, for the reason that you saw
# under "Which chunk size?". With a gate for every row of the state the mask no longer factors out of $q\,k^\top$, and
# more care is needed (Yang et al., 2024a, section 4.3). What is lost: decay is blind. It takes from all keys alike,
# from what is out of date and from what will be asked for.
#
# ## 10.7 A memory that corrects itself  ●●● · 30 min · 3 points
#
# Think of the state as a table that is looked up by keys. Writing adds $k^\top v$. Looking up $k$ returns
# $k\,S = |k|^2\,v$ plus what other keys have left in that direction. If all keys have length 1 and stand at right
# angles, each returns its own value, exactly. Now write the *same* key a second time. The table returns the sum of both
# values. But a key that comes again usually has news: the door is *open*, the door is *closed*. The new value should
# take the old one's place.
#
# So look up the key before you write, and write only the difference:
#
# $$S_t = S_{t-1} + \beta_t\,k_t^\top\big(v_t - k_t\,S_{t-1}\big), \qquad \text{out}_t = q_t\,S_t$$
#
# That is the **delta rule** (for linear attention: Schlag et al., 2021, section 4.2, equation 24). It is one step of
# gradient descent on $\tfrac12\,|k_t S - v_t|^2$ with learning rate $\beta_t$: the layer learns while it reads (Yang et
# al., 2024b, section 2.2). A gate chooses $\beta_t$ between 0 (write nothing) and 1 (replace). Multiplied out it is
# $S_t = (1 - \beta_t\,k_t^\top k_t)\,S_{t-1} + \beta_t\,k_t^\top v_t$ (here 1 is the unit matrix). Decay takes from all
# that is stored. This takes only what stands under *this* key.
#
# **Length 1.** A key of length 2 looks up 4 times what it wrote. With $\beta = 1$ the correction overshoots, and the
# state can grow without bound. So your function first divides each key by its length, $k_t \leftarrow k_t / |k_t|$.
# Queries and values stay as they are, and there is no $\varphi$ and no normalizer.
#
# **By hand.** The key (1, 0) is written with the value 10, then again with 40. Linear attention returns 50. The delta
# rule with $\beta = 1$: the table holds 10, the difference is 30, and $10 + 30 = 40$. With $\beta = 0.2$ at the second
# token: $10 + 6 = 16$. What stands under (0, 1) is not touched.
#
# **Predict:** keys A, B and C stand at right angles. Written are A = 2, B = 5, A = 6, C = 1, A = 7. What do four
# memories return for A: a plain sum, decay, softmax attention with sharp scores, the delta rule with $\beta = 1$?
# (Decay needs its factor: say only whether it returns more or less than 7.)

# %%
guess_plain_sum = None  # a number
guess_decay = None  # "more" or "less" (quotes included)
guess_softmax = None  # a number
guess_delta_rule = None  # a number

# %% nbgrader={"grade": false, "grade_id": "delta_rule", "locked": false, "schema_version": 3, "solution": true}
def delta_rule(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    beta: Float[Tensor, "*batch n"],
) -> Float[Tensor, "*batch n d_v"]:
    """S_t = S_{t−1} + β_t k_tᵀ (v_t − k_t S_{t−1}), read by q_t. Keys are first divided by
    their length."""
    ### BEGIN SOLUTION
    k = k / k.norm(dim=-1, keepdim=True)
    state, outputs = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        key = k[..., t : t + 1, :]  # (*batch, 1, d)
        difference = v[..., t : t + 1, :] - key @ state  # (*batch, 1, d_v)
        state = state + beta[..., t, None, None] * key.mT @ difference
        outputs.append(q[..., t : t + 1, :] @ state)
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: in which order?</summary>
#
# Four steps for each token: look the key up in the *old* state, take the difference, write it, and only then let the
# query read.
# </details>
# <details><summary>Hint 2: shapes</summary>
#
# With the slice `t : t + 1` a key is a row, (…, 1, d). Looking up is `key @ state`, (…, 1, d_v). Writing is a column
# times a row, `key.mT @ difference`, (…, d, d_v).
# </details>
# <details><summary>If the numbers explode</summary>
#
# How long are your keys? The length is taken over the last axis, and each key has its own.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; the result has the dtype of the inputs. $\beta$ lies between 0 and 1.
# - No key is zero, but some are only about $10^{-7}$ long: add nothing to a length. `F.normalize` is fine, because its
#   smallest length is $10^{-12}$.
# - You may keep all states, but no tensor has $n \times n$ numbers. Counted with $n$ of 250 to 300: tensors of
#   up to $2\,n\,(d+1)(d_v+1)$ numbers, and FLOPs that leave room for the multiplied-out form, or for chunks of up to 16
#   tokens, as at the end of this section.
# </details>

# %% nbgrader={"grade": true, "grade_id": "delta_rule_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.delta_rule(delta_rule, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import beyond_quadratic as hidden
check.delta_rule(delta_rule, points=3, cases=hidden.delta_rule)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Keys at right angles, some of them written again: drag along the writes. ✓ is the newest value. Below,
# random keys of length 1 with $d = 16$, each written twice, and what is asked for is the second value.

# %%
plots.recall_film(delta_rule, recurrent_decayed_attention)
torch.manual_seed(0)
plots.overwritten_keys(delta_rule, recurrent_decayed_attention, d=16)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The plain sum is right where a key was written once. Softmax finds all copies of a key and returns their mean,
# because nothing tells it which one is newest. (A trained model tells it, by positions.) Decay prefers what is new, and
# loses what is old. Only the delta rule is right everywhere. Below, random keys are not at right angles, so writing one
# disturbs the others a little. With few keys the delta rule is best by far. As they come near $d$, the state is full,
# and its lead is gone. Softmax doesn't care how many keys there are: it has kept them all.
# </details>
#
# <details><summary>Your prediction</summary>
#
# The plain sum returns $2 + 6 + 7 = 15$, softmax their mean, 5, the delta rule 7. Decay returns 7 and what is left of 6
# and 2. With $\gamma = 0.8$ that is $7 + 0.64 \cdot 6 + 0.41 \cdot 2 = 11.7$. (The film writes C = 3 and D = 4 as
# well, so 2 has faded longer there: 11.4.)
# </details>
#
# **In chunks?** A correction depends on the state, so token $t$ must wait for token $t - 1$, or so it seems. But the
# corrections $u_t$ of a chunk solve $c$ linear equations. With $K$, $V$, $U$ the chunk's keys, values and corrections,
# and $S$ the state before it: $u_t = \beta_t\,(v_t - k_t S - \sum_{s<t} (k_t \cdot k_s)\,u_s)$, a triangle. Solve it,
# and what remains is your chunked form of 10.6 without decay, with $U$ instead of $V$. That is how DeltaNet is trained
# (Yang et al., 2024b, section 3). One more line before the look-up, `state = gamma[..., t, None, None] * state`, makes
# the *gated* delta rule (Yang, Kautz & Hatamizadeh, 2025, section 3.1): the gate forgets a topic, the delta rule a
# fact.
#
# ## 10.8 What each of them costs  ●●○ · 15 min · 2 points
#
# How many FLOPs do the **matrix products** of each take, for one head with $d_v = d$ and $n = m$? A product of $(a
# \times b)$ and $(b \times c)$ costs $2\,a\,b\,c$, so full attention takes $2\,n^2 d$ for the scores and as much for
# the mixture. Write the other formulas: local, local and global, strided, low rank, linear (10.5 (a)) and chunked (10.5
# (c)), both without their normalizers. What is computed counts, used or not: a row at the edge has as many slots as one
# in the middle.
#
# **Check by hand.** For $n = 36$ and $d = 7$: full 36,288; local ($w = 4$) 9072; local and global ($w = 4$, $g = 3$)
# 14,112; strided 16,128; low rank ($r = 10$) 20,160; linear 7056; chunked ($c = 12$) 19,152.

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
# A query that meets s keys costs 2 s d for the scores and 2 s d for the mixture. So for
# everything with a window or a table: 4 d times the number of all slots.
# </details>
# <details><summary>Hint 2: a token in the strided middle</summary>
#
# √n − 1 neighbors before, as many after, itself, and √n − 1 more in its column.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Six formulas, exact, which share the points equally.
# - Local: all $2w + 1$ slots of every token, even those that are masked at the ends, and even where $2w + 1 > n$.
# - Local and global: $n - g$ tokens with $g$ global slots and a window; $g$ tokens with $n$ keys.
# - Strided: $n$ is a square number, and every token has as many slots as one in the middle reads (10.3).
# - Low rank: the two projections count. Chunked: $c$ divides $n$, and the $c \times c$ squares are computed whole.
# - No sums, softmaxes, masks or normalizers.
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
# **Measure it: your own functions, on your machine.** The upper picture counts what your formulas say. **Predict**
# before you run: which line is lowest in it at $n = 3600$? Will the same one win on the clock? Why might the strided
# line look worse in the second and third picture than in the first? And the delta rule: few FLOPs, but how many steps?
# (Where an answer of yours is missing, the course's own function runs, and a line says so.)

# %%
torch.manual_seed(0)
plots.cost_of_all({
    "local": local_attention,
    "local + global": global_local_attention,
    "strided": (strided_keys, gathered_attention),
    "low rank": low_rank_attention,
    "linear": linear_attention,
    "linear, chunked": chunked_linear_attention,
    "decay, chunked": chunked_decayed_attention,
    "delta rule": delta_rule,
}, lengths=[64, 144, 324, 729, 1600, 3600], d=32, w=8, g=4, r=24, c=64)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Counted FLOPs grow with exponent 2 (full), 1.5 (strided) and 1 (all others). At $n = 3600$ the window is lowest: its
# 17 slots per token are fewer than the 32 rows of a state.
#
# In the second picture low rank, the linear ones, decay and delta rule can lie on one line: no tensor larger than the
# output is needed. (At $n = 64$ the square of one chunk is larger.) If yours lie higher: which tensor is it?
#
# On the clock full attention is among the fastest at 64 tokens: it is two big products and little else. The strided
# pattern, gathered key by key, needs long sequences to catch up. The delta rule has one and a half times the FLOPs of
# linear attention, and as a loop over tokens it is the slowest of all for a long time: $n$ steps, one after the other.
# That is what its chunks are for. Where an exponent on the clock is above the counted one, memory is the usual reason:
# tensors that no longer fit into the cache must be fetched from afar. (Or another program wanted the processor.) Fewer
# FLOPs are not fewer seconds.
# </details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "which_one_question", "locked": true, "schema_version": 3, "solution": false}
# ## 10.9 Which one?  ●●○ · 15 min · 2 points
#
# Choose a kind of attention for each of these three workloads. Give one reason from the *task* and one *number* (FLOPs,
# pairs, or numbers kept in memory) that supports it. All have heads of width $d = 64$.
#
# 1. **Contracts.** A model reads contracts of 50,000 tokens and gives one verdict each. Clauses mostly refer to text
#    nearby, and the verdict depends on all of them.
# 2. **Live captions.** A phone writes captions for hours, about 3 tokens per second, with a few megabytes for the
#    memory of the past of all 12 layers of 8 heads. The gist of what was said is enough.
# 3. **Sentences.** A translator reads sentences of at most 60 tokens.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (2 points).**
# - ½ point, contracts: window plus global token(s), because dependencies are local and one place must read all. Also
#   accept strided, or low rank with the remark that 50,000 is then a fixed length. Full attention without an argument
#   about its cost earns nothing here.
# - ½ point, captions: linear attention as a recurrence, with decay or with the delta rule as well, because the state
#   has a fixed size and a token costs the same at any time. Also accept a causal window with a ring buffer of 2w·d
#   numbers, if it is said that older speech is forgotten. Low rank earns nothing: it is not causal.
# - ½ point, sentences: full attention. At n = 60 < d nothing is saved by the others: 4n²d = 0.92 million FLOPs, linear
#   4nd² = 0.98 million.
# - ½ point: a right number for at least two of the three, with what it is compared to.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "which_one", "locked": false, "points": 2, "schema_version": 3, "solution": true}
# **Contracts:** a window with a global token at the front. Clauses need their neighborhood, and the verdict is formed
# in the global token, which reads all. With $w = 256$ and $g = 1$ that is about $50{,}000 \cdot 514 + 50{,}000 = 26$
# million pairs per head, and full attention would need $2.5$ billion, about 100 times as many.
#
# **Live captions:** linear attention, run as a recurrence. The state of a head has $d^2 + d = 4160$ numbers, forever. A
# cache would hold $2 \cdot 64 \cdot 10{,}800 = 1.4$ million numbers per head after one hour, and every new token would
# cost more than the last. For 12 layers of 8 heads in float32 that is 1.6 MB against 531 MB. The blurred memory is
# acceptable, as the gist is enough.
#
# **Sentences:** full attention. $4 n^2 d = 4 \cdot 3600 \cdot 64 = 0.92$ million FLOPs per head, and linear attention
# would take $4 n d^2 = 0.98$ million: with $n < d$ it costs even more. There is nothing to save, and exact weights to
# lose.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "10.1 Times fewer scores than n²": (guess_times_fewer, 4096 / 257),
    "10.1 Twice the length: work times": (guess_work_doubles, 2),
    "10.2 Slots that two global tokens add": (guess_added_slots, 2.0 * (4096 - 2) + 2 * (4096 - 257)),
    "10.3 The slope of n √n": (guess_slope, 1.5),
    "10.4 Scores that are left": (guess_scores_left, 1.0 * 4096 * 256),
    "10.4 Can a model that writes use it?": (guess_writes_with_it, "no"),
    "10.5 The state is smaller than the cache from token": (guess_state_smaller, (64 * 64 + 64) // (2 * 64) + 1),
    "10.6 Half of a token is left after": (guess_half_left, math.log(2) / math.log(32 / 31)),
    "10.7 For A the plain sum returns": (guess_plain_sum, 2 + 6 + 7),
    "10.7 Decay returns, compared with 7,": (guess_decay, "more"),
    "10.7 Softmax returns": (guess_softmax, (2 + 6 + 7) / 3),
    "10.7 The delta rule returns": (guess_delta_rule, 7),
})

# %% [markdown]
# ## What you have now
#
# - **Leave pairs out:** a window costs $O(n\,w\,d)$; global tokens connect everything through a few vectors; strided
#   patterns spread the load, $O(n\sqrt n\,d)$.
# - **Shorten the list:** $r$ summaries of the keys, $O(n\,r\,d)$, if the tokens can be summarized, the length is fixed
#   and nothing is causal.
# - **Move the brackets:** without a softmax, $q\,(k^\top v)$ costs $O(n\,d^2)$ and runs as an RNN with a state of fixed
#   size, or in chunks.
# - **Choose what such a state forgets:** with decay everything alike, step by step or when a gate says so; with the
#   delta rule only what stood under the key that is written again.
# - **Mix:** one model may have several kinds. In Jamba (Lieber et al., 2024) one layer in eight is full attention, and
#   the others have a state of fixed size.
# - A right output proves nothing about cost. Count. And FLOPs prove nothing about seconds. Measure.
#
# **Read more**
#
# - Tay et al. (2022), *Efficient Transformers: A Survey*: all the kinds of 10.1 to 10.5, and many more, in one map.
# - Katharopoulos et al. (2020), *Transformers are RNNs*: linear attention, short and clear.
# - Schlag et al. (2021), *Linear Transformers Are Secretly Fast Weight Programmers*: the state as a table that is
#   written and read, and when it is full (section 4.1).
# - Dao & Gu (2024), *Transformers are SSMs*: why a mask of decays and a recurrence are two views of one matrix.
# - Yang et al. (2024a), *Gated Linear Attention Transformers with Hardware-Efficient Training*, and Yang et al.
#   (2024b), *Parallelizing Linear Transformers with the Delta Rule over Sequence Length*: how chunks run fast on a GPU.
#
# **Next:** you have come full circle. Unit 01 asked why a sequence must be read one token after another. Now you can
# say what it costs to avoid it, and choose. Where full attention is the right choice, unit 09 makes it fast without
# changing a digit.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=10)
