# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 04 · Many heads
#
# One head of attention gives every token one look at the others: one set of weights, one mixture. A token often needs
# two looks. Which word came just before me? How did this sentence begin? Multi-head attention runs several small heads
# side by side, and this unit shows that they cost nothing extra.
#
# **After this unit you can**
# - cut the width of a token into heads and put it together again, without mixing up tokens;
# - write multi-head attention as a PyTorch module, with masks and cross-attention, that takes the weights of
#   `nn.MultiheadAttention`;
# - count its parameters and FLOPs, and say why the number of heads does not appear in them;
# - share keys and values among heads (grouped-query attention), the first step towards a small KV cache in unit 08;
# - build heads by hand, and compose two of them into a circuit that completes a pattern it has never seen.
#
# **How to work.** As in unit 02: read, predict, write, run the check. You have a bit more than 3 hours, and 23 points
# to earn.
#
# **Heads are counted from 0**, as in code. The formulas of papers count from 1 (in 4.3, 4.8 and 4.11).

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
# ## 4.1 Cut the width into heads  ●○○ · 10 min · 1 point
#
# A token is a row of $d$ numbers. With $h$ heads, each head gets $d_h = d/h$ of them: head 0 the first $d_h$, head 1
# the next, and so on. Then each head is an attention of its own, on $n$ tokens of width $d_h$. To let one matrix
# product serve all heads, the head axis goes to the front, beside the batch:
#
# $$(b, n, d) \;\to\; (b, n, h, d_h) \;\to\; (b, h, n, d_h)$$
#
# **By hand.** One token $(1, 2, 3, 4, 5, 6)$ and two heads: head 0 gets $(1, 2, 3)$, head 1 gets $(4, 5, 6)$.
#
# **Look closely at the third panel.** A `view` straight from $(b, n, d)$ to $(b, h, n, d_h)$ has the right shape and
# raises no error. What does its head 0 get? (Letters are tokens, numbers are features.)

# %%
plots.heads_cut(n=3, d=6, h=2)

# %% nbgrader={"grade": false, "grade_id": "split_heads", "locked": false, "schema_version": 3, "solution": true}
def split_heads(x: Float[Tensor, "b n d"], h: int) -> Float[Tensor, "b h n d_h"]:
    """The features of every token, divided among h heads; h divides d."""
    ### BEGIN SOLUTION
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).transpose(1, 2)  # (b, n, h, d_h) -> (b, h, n, d_h)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two steps</summary>
#
# First give the feature axis two axes in its place. `reshape` may split one axis into two without moving anything. Then
# swap two axes.
# </details>
# <details><summary>Hint 2: (h, d_h) or (d_h, h)?</summary>
#
# In a reshape the last axis moves fastest. The numbers that lie side by side are those of one head, so which axis comes
# last?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $b$, $n$, $d$ and $h$, also $h = 1$ and $h = d$. All four axes stay, even where one has length 1.
# - float32 and float64. The input lies in memory row by row, so `view` works on it; what you return may be a view.
# - Gradients with respect to `x`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "split_heads_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.split_heads(split_heads, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.split_heads(split_heads, points=1, cases=hidden.split_heads)
### END HIDDEN TESTS
# %% [markdown]
# <details><summary>What the view gives to head 0</summary>
#
# The first $1/h$ of all numbers, as they lie in memory: here all features of token a and half of those of token b. Such
# a head would not see the later tokens at all. The shape is right; only the content gives it away.
# </details>

# %% [markdown]
# ## 4.2 Put the heads back  ●○○ · 5 min · 1 point
#
# When the heads are done, their outputs are put side by side again: $(b, h, n, d_h) \to (b, n, h \cdot d_h)$.
#
# It is not enough that merging undoes splitting: two wrong views undo each other, too.

# %% nbgrader={"grade": false, "grade_id": "merge_heads", "locked": false, "schema_version": 3, "solution": true}
def merge_heads(x: Float[Tensor, "b h n d_h"]) -> Float[Tensor, "b n d"]:
    """The heads' features side by side: head 0 first. d = h·d_h."""
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)  # (b, n, h, d_h) -> (b, n, d)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: the same steps backwards</summary>
#
# Swap first, then join. Only axes that stand next to each other can be joined.
# </details>
# <details><summary>If you see "view size is not compatible with input tensor's size and stride"</summary>
#
# After a transpose the numbers no longer lie in memory in the order of the axes, and `view` never copies. `reshape` and
# `flatten` copy where they must.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Your result is compared with the right one, not with what your `split_heads` was given. Any $b$, $h$, $n$ and $d_h$.
# - float32 and float64. The input lies in memory row by row.
# - Gradients with respect to `x`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "merge_heads_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.merge_heads(merge_heads, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.merge_heads(merge_heads, points=1, cases=hidden.merge_heads)
### END HIDDEN TESTS
# %% [markdown]
# ## 4.3 One head at a time  ●●○ · 20 min · 3 points
#
# Now the layer, as the paper states it (Vaswani et al., 2017, section 3.2.2). Each head $i$ has three projections of
# its own, to its width $d_h$:
#
# $$\text{head}_i = \operatorname{softmax}\!\left(\frac{(X W_Q^{(i)})\,(M W_K^{(i)})^\top}{\sqrt{d_h}}\right)
# M W_V^{(i)}, \qquad
# \text{output} = [\,\text{head}_1, \dots, \text{head}_h\,]\; W_O$$
#
# The queries come from $X$. Keys and values come from $M$, the **memory**. If $M = X$, this is self-attention. If $M$
# is another sequence, it is **cross-attention**: the queries come, say, from the French sentence that is being written,
# and keys and values from the English one that it translates.
#
# The width of a head is the last axis of `w_q`. In the paper it is $d/h$; here it may be anything. The mask holds for
# every head.
#
# **By hand.** With $d = 512$ and $h = 8$, the scores of a head are dot products of $d_h = 64$ terms. Their spread is
# $\sqrt{64} = 8$ (section 2.6). What would dividing by $\sqrt{512} = 22.6$ do to it? The spread would be 0.35 instead
# of 1, and all heads would look everywhere.
#
# Write it out, without PyTorch's own attention. A loop over the heads is slow but unambiguous; the next exercise must
# give the same.
#
# **Watch it.** The four words of 2.5 again. Head 0 is the one you know; head 1 reads other features of the same words.

# %%
plots.two_heads_flow()

# %% nbgrader={"grade": false, "grade_id": "multi_head_loop", "locked": false, "schema_version": 3, "solution": true}
def multi_head_loop(
    x: Float[Tensor, "b n d"],
    memory: Float[Tensor, "b m d"],
    w_q: Float[Tensor, "h d d_h"],
    w_k: Float[Tensor, "h d d_h"],
    w_v: Float[Tensor, "h d d_h"],
    w_o: Float[Tensor, "h*d_h d"],
    mask: Bool[Tensor, "n m"],
) -> Float[Tensor, "b n d"]:
    """Without PyTorch's own attention: [head_1, …, head_h] W_O, head by head.

    Queries from x, keys and values from memory. mask: True = may attend."""
    ### BEGIN SOLUTION
    heads = []
    for i in range(len(w_q)):
        q, k, v = x @ w_q[i], memory @ w_k[i], memory @ w_v[i]  # (b, n, d_h), (b, m, d_h), (b, m, d_h)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (b, n, m)
        weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
        heads.append(weights @ v)
    return torch.cat(heads, dim=-1) @ w_o  # (b, n, h·d_h) @ (h·d_h, d)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: what you have already</summary>
#
# The body of the loop is 2.5 with a mask. What comes after the loop is one concatenation and one product.
# </details>
# <details><summary>Hint 2: which axis do the heads share?</summary>
#
# Every head gives (b, n, d_h). The result before W_O is (b, n, h·d_h).
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $b$, $n$, $m$, $d$ and $h$. $d_h$ is the same for queries, keys and values, and $h \cdot d_h$ need not be $d$.
# - The mask is one $(n, m)$ for all sequences and heads, and each row allows at least one key.
# - float32 and float64. Scores may be in the hundreds, rows may lie far apart, and a hidden key may have the largest
#   score.
# - Gradients with respect to x, memory and all four weights.
# - No `F.scaled_dot_product_attention`, `nn.MultiheadAttention` or other ready-made attention. A loop isn't required.
# </details>

# %% nbgrader={"grade": true, "grade_id": "multi_head_loop_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.multi_head_loop(multi_head_loop, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.multi_head_loop(multi_head_loop, points=3, cases=hidden.multi_head_loop)
### END HIDDEN TESTS
# %% [markdown]
# ## 4.4 All heads at once  ●●● · 30 min · 4 points
#
# In this layer $d_h = d/h$ again. Lay the $h$ matrices $W_Q^{(i)}$ side by side, and you have one matrix $W_Q$ of size
# $d \times d$. One product with it makes the queries of all heads at once, and block $i$ of the result is head $i$:
# just what `split_heads` cuts out. So the whole layer is four `nn.Linear(d, d)`, a split, one batched attention and a
# merge:
#
# $$(b, n, d) \xrightarrow{\;W_Q, W_K, W_V\;} (b, n, d) \xrightarrow{\text{split}}
# (b, h, n, d_h) \xrightarrow{\text{attention}} (b, h, n, d_h) \xrightarrow{\text{merge}} (b, n, d)
# \xrightarrow{\;W_O\;} (b, n, d)$$
#
# **The mask** comes as $(n, m)$, the same for all, or as $(b, n, m)$, one for each of the $b$ sequences. The scores are
# $(b, h, n, m)$.
#
# **Before you write:** shapes are lined up from the right. Which axis of the scores does the $b$ of a mask $(b, n, m)$
# meet, if you do nothing? When does that raise an error, and when does it pass unnoticed?
#
# Call the four layers `w_q`, `w_k`, `w_v` and `w_o`: the check loads its weights under these names. (The fold below the
# check copies the weights of `nn.MultiheadAttention` into your layer.) You have written attention by hand twice now. If
# you like, call `F.scaled_dot_product_attention` here, as real code does.

# %% nbgrader={"grade": false, "grade_id": "MultiHeadAttention", "locked": false, "schema_version": 3, "solution": true}
class MultiHeadAttention(nn.Module):
    """Without `nn.MultiheadAttention`: self- and cross-attention with h heads.

    Parameters: w_q, w_k, w_v, w_o, each nn.Linear(d, d)."""

    def __init__(self, d: int, h: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.h = h
        self.w_q = nn.Linear(d, d)
        self.w_k = nn.Linear(d, d)
        self.w_v = nn.Linear(d, d)
        self.w_o = nn.Linear(d, d)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"] | None = None,
        mask: Bool[Tensor, "*b n m"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Queries from x, keys and values from memory (from x if there is none).

        mask: (n, m) or (b, n, m), True = may attend; without one every key is visible."""
        ### BEGIN SOLUTION
        memory = x if memory is None else memory
        projected = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q, k, v = (split_heads(t, self.h) for t in projected)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (b, h, n, m)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -math.inf)  # an axis for the heads
        heads = torch.softmax(scores, dim=-1) @ v  # (b, h, n, d_h)
        return self.w_o(merge_heads(heads))
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: in words</summary>
#
#     memory  = x where there is none
#     q, k, v = projections of x, memory, memory, each split into heads
#     scores  = queries times transposed keys / root of the head's width
#     hidden scores become minus infinity
#     heads   = softmax of the scores along the keys, times v
#     output  = w_o of the merged heads
# </details>
# <details><summary>Hint 2: an axis for the heads</summary>
#
# `mask.unsqueeze(-3)` turns (n, m) into (1, n, m) and (b, n, m) into (b, 1, n, m). An axis of size 1 fits any number of
# heads. (If you fold the heads into the batch axis instead, its rows run sequence by sequence, all heads of one first.
# `repeat_interleave` lays out the masks like that; `repeat` doesn't.)
# </details>
# <details><summary>If you see "Missing key(s) in state_dict"</summary>
#
# The check loads weights by name, and yours have other names, or are created somewhere else than in `__init__`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A weight and a bias are loaded for each of `w_q`, `w_k`, `w_v`, `w_o`. The layer has no other parameters or saved
#   buffers. (`nn.Linear` stores its weight as (out, in): call the module, and you need not think of that.)
# - $h$ divides $d$. With and without a memory; no mask, $(n, m)$ or $(b, n, m)$. By chance $n$ may be $b$: the number
#   of axes tells the two apart. Each row allows at least one key (3.3 has the empty rows).
# - A layer is called again with another mask, memory or weights: keep nothing of a call in `self`.
# - float32 and float64. Scores may be in the hundreds, rows may lie far apart, and a hidden key may have the largest
#   score.
# - Gradients with respect to x and memory, and they must reach the weights of all four layers.
# - Allowed is everything except `nn.MultiheadAttention` and `F.multi_head_attention_forward`. No dropout.
# </details>

# %% nbgrader={"grade": true, "grade_id": "MultiHeadAttention_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.MultiHeadAttention(MultiHeadAttention, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.MultiHeadAttention(MultiHeadAttention, points=4, cases=hidden.MultiHeadAttention)
### END HIDDEN TESTS
# %% [markdown]
# <details><summary>Where the b of a mask ends up</summary>
#
# Lined up from the right, $(b, n, m)$ meets the last three axes of $(b, h, n, m)$: its $b$ meets the heads. If $b$ and
# $h$ differ (and neither is 1), that is an error. If they are equal there is silence: head $i$ of every sequence gets
# the mask of sequence $i$.
# </details>
# <details><summary>PyTorch's weights in your layer</summary>
#
# `nn.MultiheadAttention` packs the first three layers into one: queries, then keys, then values. In a cell of your own:
#
#     theirs, yours = nn.MultiheadAttention(12, 3, batch_first=True), MultiHeadAttention(12, 3)
#     weights = {"w_o.weight": theirs.out_proj.weight, "w_o.bias": theirs.out_proj.bias}
#     packed = zip("qkv", theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3))
#     for name, weight, bias in packed:
#         weights |= {f"w_{name}.weight": weight, f"w_{name}.bias": bias}
#     yours.load_state_dict(weights)
#     x = torch.randn(2, 5, 12)
#     print((yours(x) - theirs(x, x, x)[0]).abs().max())  # only rounding is left
# </details>

# %% [markdown]
# ## 4.5 Why more than one head?  ●○○ · 10 min
#
# A small task settles it. There are eight random tokens, each of one of eight kinds. At every position from the third
# on, the layer must name **two** of them: the very first, and the one just before. What a head looks at depends only on
# *places*: queries and keys are made from positions, values from tokens. The width is always 32, cut into one, two or
# four heads, so the number of parameters stays the same.
#
# The dashed line in the picture, $\tfrac{7}{16}\ln 2 = 0.30$, is the best that one head can do here: one answer always
# right, the other a toss-up between the two tokens in the 7 of 8 cases in which they differ. (Why no better? That is
# the question below.) In the maps rings mark the two tokens that each position must name.
#
# **Predict:** how many heads are needed to solve the task: 1, 2 or 4? And what will each of them have learned to look
# at?

# %%
guess_heads_needed = None  # 1, 2 or 4

# %%
from helpers.waiting import waiting


def train_two_answers(h, n=8, kinds=8, d=32, steps=200, lr=0.01):
    """Train one layer of PyTorch's own attention to name the first and the previous token."""
    torch.manual_seed(1)
    embed, place = nn.Embedding(kinds, d), nn.Embedding(n, d)
    layer, read = nn.MultiheadAttention(d, h, batch_first=True), nn.Linear(d, 2 * kinds)
    parameters = [p for part in (embed, place, layer, read) for p in part.parameters()]
    optimizer = torch.optim.Adam(parameters, lr)
    losses = []
    for _ in waiting(range(steps), steps, f"heads: {h}"):
        tokens = torch.randint(kinds, (32, n))
        first, previous = tokens[:, :1].expand(-1, n - 2), tokens[:, 1:-1]  # asked for at 2 … n − 1
        places = place.weight.expand(32, n, d)
        # weights: (b, h, n, n)
        output, weights = layer(places, places, embed(tokens), average_attn_weights=False)
        answers = read(output[:, 2:]).view(-1, kinds)
        loss = F.cross_entropy(answers, torch.stack([first, previous], dim=-1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights[0].detach()


losses, maps = {}, {}
for h, name in ((1, "1 head"), (2, "2 heads"), (4, "4 heads")):
    losses[name], maps[name] = train_two_answers(h)
del maps["4 heads"]  # three maps are enough to look at
plots.heads_learned(losses, 7 / 16 * math.log(2), maps)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Two heads are enough. One has learned to look at the first token, the other at the one before. The single head must
# settle on one of the two or split its attention. With this seed it has settled on the first token. Its other answer
# stays a guess among eight, so the mean loss is $\tfrac12 \ln 8 = 1.04$, far above the dashed line.
#
# Try other seeds: with seed 2 the one head splits, about half and half. Both answers are then a toss-up wherever the
# tokens differ, $\tfrac78 \ln 2 = 0.61$. Now and then two heads get stuck as well, because both can settle on the same
# token (seed 3: still near 0.28 after 200 steps, so below the line, and not solved). One head never comes below the
# line, however long it is trained.
# </details>
#
# (In the maps the first two rows are never asked about, so they may be anything.)

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_many_heads_question", "locked": true, "schema_version": 3, "solution": false}
# ### What can two heads do that one cannot?  ●●○ · 5 min · 1 point
#
# The single head has as many parameters as the two together. Why does its loss stay above the dashed line, however long
# it is trained? And why does "look at both tokens, half and half" not solve the task?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: one head has one distribution over the keys for each query. It must choose between the two tokens or share
#   its attention between them; two heads have a distribution each.
# - ½ point: half and half gives the mean of the two values, and the mean does not say which value came from where: (A
#   first, B before) and (B first, A before) give the same output. Two heads write into different features, so W_O can
#   tell them apart.
#
# Also right for the second half: with unequal shares the larger one can be read, but what is read of the smaller one is
# always outvoted by the larger. Accept: "the averaged output mixes both and can't be unmixed". "More heads have more
# parameters" is wrong and earns nothing. (The claim needs both: attention only by place, and an answer that is linear
# in the output. A head that looks at tokens too can solve this task.)
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_many_heads", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# For each query a head has one set of weights that sum to 1, here fixed by the places. If it looks at the first token
# it can't look at the one before, so one answer stays a guess among 8 tokens: a loss of $\ln 8$ on half of the answers,
# 1.04 on average. If it splits its attention half and half, the output is the mean of two values. A mean doesn't say
# which of its parts was the first token and which the previous one: swap the two and the output is the same. A little
# more for one of them names that one, and leaves the other a guess between two: that is the dashed line, $\ln 2$ on
# half of the answers, in the 7 of 8 cases in which the two tokens differ. Two heads bring two distributions, and write
# what they find into different features, so that $W_O$ and the layers after it can tell them apart.

# %% [markdown]
# ## 4.6 What heads cost: parameters  ●○○ · 10 min · 1 point
#
# Two heads solved what one could not, and this unit began with the claim that they cost nothing. Count. (If time is
# short, go on to 4.7: it counts the same shapes.) The layer has four projections with biases: three from $d$ to
# $h \cdot d_h$, and one from $h \cdot d_h$ back to $d$. Here $d_h$ is free: it need not be $d/h$.
#
# **By hand.** $d = 512$, $h = 8$, $d_h = 64$: the four weights have $512^2$ entries each, the biases 512 each, together
# 1,050,624. With one head of width 512?

# %% nbgrader={"grade": false, "grade_id": "head_parameters", "locked": false, "schema_version": 3, "solution": true}
def head_parameters(d: int, h: int, d_h: int) -> int:
    """How many weights and biases a layer has: h heads of width d_h, tokens of width d."""
    ### BEGIN SOLUTION
    inside = h * d_h
    return 3 * (d * inside + inside) + (inside * d + d)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: one projection</summary>
#
# `nn.Linear(a, b)` has a·b weights and b biases. Which are a and b, for the first three and for the last?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A whole number, exact, for any $d$, $h$ and $d_h$: $h \cdot d_h$ need not be $d$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "head_parameters_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.head_parameters(head_parameters, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.head_parameters(head_parameters, points=1, cases=hidden.head_parameters)
### END HIDDEN TESTS
# %% [markdown]
# ## 4.7 What heads cost: FLOPs  ●●○ · 15 min · 2 points
#
# Now the work. Count the FLOPs of all matrix products when $n$ tokens attend to each other: the four projections, the
# scores, and the weights times the values. An $(a, b)$ matrix times a $(b, c)$ matrix takes $2abc$ FLOPs, because a
# multiply-add counts as two. Softmax, scale and biases are left out: they are small.
#
# **By hand.** $n = 5$, $d = 6$, two heads of width 3: each of the four projections takes
# $2 \cdot 5 \cdot 6 \cdot 6 = 360$. In each head the scores take $2 \cdot 5 \cdot 3 \cdot 5 = 150$, and so does the
# weighted sum. Together $4 \cdot 360 + 2 \cdot 2 \cdot 150 = 2040$.

# %% nbgrader={"grade": false, "grade_id": "head_flops", "locked": false, "schema_version": 3, "solution": true}
def head_flops(n: int, d: int, h: int, d_h: int) -> int:
    """FLOPs of all matrix products: n tokens of width d attend, h heads of width d_h."""
    ### BEGIN SOLUTION
    projections = 3 * (2 * n * d * h * d_h) + 2 * n * h * d_h * d
    scores = h * (2 * n * d_h * n)
    weighted_sum = h * (2 * n * n * d_h)
    return projections + scores + weighted_sum
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: shapes first</summary>
#
# Write down the shapes of both factors of each product: Q, K and V; the scores of one head; the output of one head; the
# output projection.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A whole number, exact, for one sequence without a mask. Here, too, $h \cdot d_h$ need not be $d$.
# - Only matrix products count, each 2abc.
# </details>

# %% nbgrader={"grade": true, "grade_id": "head_flops_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.head_flops(head_flops, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.head_flops(head_flops, points=2, cases=hidden.head_flops)
### END HIDDEN TESTS
# %% [markdown]
# **Measure it.** PyTorch can count FLOPs while a layer runs. Compare with your `head_flops(128, 64, h, 64 // h)`. Then
# look at the curves: what grows with $h$?

# %%
from torch.utils.flop_counter import FlopCounterMode

x = torch.randn(1, 128, 64)
for h in (1, 4, 16):
    with FlopCounterMode(display=False) as counter:
        nn.MultiheadAttention(64, h, batch_first=True)(x, x, x)
    print(f"h = {h:2}: {counter.get_total_flops():,} FLOPs counted")
plots.cost_over_heads(head_parameters, head_flops, n=1024, d=512, heads=[1, 2, 4, 8, 16, 32])

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_d_over_h_question", "locked": true, "schema_version": 3, "solution": false}
# ### Why $d_h = d/h$?  ●○○ · 5 min · 1 point
#
# Say what this choice keeps constant when the number of heads changes. Then say what is lost in the extreme case:
# $h = d$ heads of width 1.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: h·d_h = d, so parameters and FLOPs (of the projections and of the scores) do not depend on h; heads are
#   free, where heads of width d would cost h times as much. (Also accepted as part of it: the merged width is d again.)
# - ½ point: narrow heads compare badly: with d_h features a query can single out only few keys, since the n × n scores
#   have rank at most d_h; with width 1 a score is a product of two numbers, and a query can only prefer the largest or
#   the smallest key. (Also accepted: values of width 1 carry next to no information.)
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_d_over_h", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# With $d_h = d/h$ the heads together are as wide as the token, $h \cdot d_h = d$. Parameters and FLOPs contain only the
# product $h \cdot d_h$, so they stay the same for every $h$: more looks for the same money. With heads of width $d$
# everything would cost $h$ times as much. The price is paid in width: a head compares queries and keys in $d_h$
# dimensions, so its $n \times n$ scores have rank at most $d_h$ (a bottleneck that Bhojanapalli et al. described in
# 2020). At width 1 a score is a product of two numbers: a query can ask for the largest key or for the smallest, but
# for none in between.

# %% [markdown]
# ## 4.8 The output is a sum over heads  ●●○ · 15 min · 2 points
#
# "Concatenate, then multiply by $W_O$" hides something. Cut $W_O$ into $h$ blocks of $d_h$ rows. In the product, the
# features of head $i$ meet block $i$ and nothing else:
#
# $$[\,\text{head}_1, \dots, \text{head}_h\,]\; W_O = \sum_{i} \text{head}_i\, W_O^{(i)}$$
#
# So a layer is a **sum of heads**: each reads the tokens and adds a part of its own to the output, independently of the
# others. That is why one can ask what a single head does, switch one off, or copy one into another model. Elhage et al.
# (2021) build their analysis of Transformers on this.
#
# **By hand.** Two heads of width 1 with outputs 3 and 5, and $W_O$ with the rows $(2, 0)$ and $(1, 1)$: head 0 adds
# $(6, 0)$, head 1 adds $(5, 5)$, the output is $(11, 5)$.
#
# Return both: what each head adds, and the sum.

# %% nbgrader={"grade": false, "grade_id": "heads_as_sum", "locked": false, "schema_version": 3, "solution": true}
def heads_as_sum(
    heads: Float[Tensor, "b h n d_h"], w_o: Float[Tensor, "h*d_h d"]
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b n d"]]:
    """head_i W_O[i] for every head, W_O[i] the i-th block of d_h rows; and their sum."""
    ### BEGIN SOLUTION
    h, d_h = heads.shape[1], heads.shape[-1]
    parts = heads @ w_o.reshape(h, d_h, -1)  # (b, h, n, d_h) @ (h, d_h, d)
    return parts, parts.sum(dim=1)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: rows or columns?</summary>
#
# In a row vector times a matrix, entry j of the vector multiplies row j of the matrix.
# </details>
# <details><summary>Hint 2: all heads in one product</summary>
#
# `@` treats leading axes as batch axes, and lines them up: (b, h, n, d_h) @ (h, d_h, d) is one product for each b and
# each h.
# </details>
# <details><summary>If the sum is right and the first part isn't</summary>
#
# After `total = parts[0]` both are one tensor, and `total += …` changes the part as well. Use `sum`, or start from a
# new tensor.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A pair: the parts $(b, h, n, d)$, then their sum $(b, n, d)$, added up or by one product with $W_O$.
# - Any sizes; $h \cdot d_h$ need not be $d$. float32 and float64.
# - Gradients with respect to heads and `w_o`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "heads_as_sum_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.heads_as_sum(heads_as_sum, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.heads_as_sum(heads_as_sum, points=2, cases=hidden.heads_as_sum)
### END HIDDEN TESTS
# %%
w_o = [[1.0, 0.3], [0.2, 0.9], [-1.2, 0.4], [0.6, 0.8]]  # four heads of width 1, d = 2
plots.parts_add_up(heads_as_sum, features=[3.0, 2.0, 1.5, 2.0], w_o=w_o)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The parts of four heads, put tip to tail, end where the dashed output ends. Head 2 points against head 0 and takes
# back part of what it wrote.
# </details>

# %% [markdown]
# ## 4.9 Fewer keys and values than queries  ●●○ · 20 min · 3 points
#
# A model that writes text keeps the keys and values of all earlier tokens (unit 08). With many heads that is a lot of
# memory, and reading it is what makes writing slow. But must every query head have keys of its own?
#
# - **Multi-query attention** (Shazeer, 2019): all query heads share one head of keys and values.
# - **Grouped-query attention** (Ainslie et al., 2023): $h$ query heads in $h_{kv}$ groups of neighbors; each group
#   shares one.
#
# Query head $i$ uses key/value head $\lfloor i / (h / h_{kv}) \rfloor$. With $h_{kv} = h$ this is multi-head attention,
# with $h_{kv} = 1$ multi-query attention. (Llama 3 70B has 64 query heads and 8 key/value heads: Grattafiori et al.,
# 2024.)

# %%
plots.shared_heads(8, groups=(8, 2, 1), names=("multi-head: 8", "grouped-query: 2", "multi-query: 1"))
plots.cache_per_token({"multi-head: 64": 64, "grouped, Llama 3 70B: 8": 8, "multi-query: 1": 1}, d_h=128)

# %% [markdown]
# **By hand.** $h = 6$ and $h_{kv} = 2$: groups of 3. Query heads 0, 1, 2 use key/value head 0, and 3, 4, 5 use head 1.
#
# **Predict:** `k.repeat(1, 3, 1, 1)` also makes six heads out of two. In which order? (And with which values of
# $h_{kv}$ does the order make no difference?)
#
# Write it out once more, without PyTorch's own attention.

# %%
guess_order = None  # "000111" or "010101" (quotes included)

# %% nbgrader={"grade": false, "grade_id": "grouped_query_attention", "locked": false, "schema_version": 3, "solution": true}
def grouped_query_attention(
    q: Float[Tensor, "b h n d_h"],
    k: Float[Tensor, "b h_kv m d_h"],
    v: Float[Tensor, "b h_kv m d_h"],
) -> Float[Tensor, "b h n d_h"]:
    """Without PyTorch's own attention: runs of h / h_kv query heads share a key/value head."""
    ### BEGIN SOLUTION
    b, h, n, d_h = q.shape
    q = q.reshape(b, k.shape[1], -1, n, d_h)  # (b, h_kv, h / h_kv, n, d_h)
    scores = q @ k.unsqueeze(2).transpose(-2, -1) / math.sqrt(d_h)  # one key head for all of its group
    heads = torch.softmax(scores, dim=-1) @ v.unsqueeze(2)
    return heads.reshape(b, h, n, d_h)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two ways</summary>
#
# Either repeat each key/value head once for every query head of its group. Or give the query heads two axes,
# (h_kv, h / h_kv), and let an axis of size 1 in k and v do the sharing without a copy.
# </details>
# <details><summary>Hint 2: repeat in which order?</summary>
#
# `torch.repeat_interleave` gives 0 0 0 1 1 1. `Tensor.repeat` gives 0 1 0 1 0 1.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $h_{kv}$ divides $h$, and may be 1 or $h$. All sizes are free; $d_h$ is the same for queries, keys and values.
# - There is no mask: every query sees all $m$ keys.
# - float32 and float64, with all its digits. (Llama's released code computes the softmax in float32: here that would
#   lose some.)
# - Scores may be in the hundreds, and rows may lie far apart.
# - Gradients with respect to q, k and v.
# - No `F.scaled_dot_product_attention`, `nn.MultiheadAttention` or other ready-made attention.
# </details>

# %% nbgrader={"grade": true, "grade_id": "grouped_query_attention_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.grouped_query_attention(grouped_query_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.grouped_query_attention(grouped_query_attention, points=3, cases=hidden.grouped_query_attention)
### END HIDDEN TESTS
# %% [markdown]
# <details><summary>The order of <code>repeat</code></summary>
#
# 0 1 0 1 0 1, not 0 0 0 1 1 1. With $h_{kv} = 1$ there is nothing to mix up, and with $h_{kv} = h$ nothing is repeated:
# a test of only these two would pass.
# </details>

# %% [markdown]
# ## 4.10 Heads made by hand  ●●● · 40 min · 3 points
#
# Section 4.5 found a head that looks one token back, and one that looks at the start. Here you write such heads down
# yourself and compose them into a circuit that trained language models grow as well: the **induction head** (Elhage et
# al., 2021; Olsson et al., 2022). It completes patterns. After *A B … A* it says *B*, for any A and B, even if it has
# never seen them together before.
#
# **The stream.** A token's row has three parts: which token it is (one-hot, $v$ columns), an empty part to write into
# ($v$ columns), and its position (one-hot, $n$ columns). So $d = 2v + n$. Token 0 is the start token `^`: it stands at
# position 0 and nowhere else.

# %%
def stream(tokens: Int[Tensor, "l"], v: int, n: int) -> Float[Tensor, "l d"]:
    """One-hot token, v zeros, one-hot position."""
    token, position = torch.eye(v)[tokens], torch.eye(n)[: len(tokens)]
    return torch.cat([token, torch.zeros_like(token), position], dim=-1)


def causal_weights(
    x: Float[Tensor, "l d"], w_q: Float[Tensor, "d d_h"], w_k: Float[Tensor, "d d_h"]
) -> Float[Tensor, "l l"]:
    """Attention weights of one head. No token sees later ones."""
    scores = (x @ w_q.float()) @ (x @ w_k.float()).T / math.sqrt(w_q.shape[1])
    hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)


NAMES = "^ABCD"
V, N = len(NAMES), 12


def numbers(text: str) -> Int[Tensor, "l"]:
    """The numbers of the tokens: ^AB is 0, 1, 2."""
    return torch.tensor([NAMES.index(name) for name in text])


x = stream(numbers("^ABCDA"), V, N)
plots.stream_columns(x, "^ABCDA", {"token": V, "empty": V, "position": N})

# %% [markdown]
# A **head** is four matrices: `w_q` and `w_k`, both $(d, d_h)$; `w_v`, $(d, d_v)$; and `w_o`, $(d_v, d)$. It adds
# `weights @ (x @ w_v) @ w_o` to the stream. You choose the widths $d_h$ and $d_v$; scores are divided by $\sqrt{d_h}$.
# Write three heads:
#
# **(a) `previous_token_head`**: position $i$ gives all its attention to position $i - 1$. (Position 0 can see only
# itself, so it needs nothing.) It writes *which token* stood there into the empty columns, as a one-hot.
#
# **(b) `first_token_head`**: every position gives all its attention to position 0. Only `w_q` and `w_k` are asked for.
#
# **(c) `induction_head`**: it reads the stream after (a) has written into it. A token $A$ looks at all positions up to
# its own whose *previous* token is $A$, in equal shares. If there is none, it rests on position 0, as in (b). It writes
# the token that it finds there into the first $v$ columns: a prediction of what comes next.
#
# **By hand, for (a).** Let the query of position $i$ be the one-hot vector of $i - 1$ times 100, and the key of
# position $j$ the one-hot vector of $j$. Then $d_h = n$, and the score of $(i, j)$ is $100/\sqrt n$ if $j = i - 1$,
# else 0: with $n = 12$ that is 29, with $n = 100$ still 10, which is just enough. A row of `w_q` says what one column
# of the stream turns into. Which rows are not zero?
#
# **Before you write (c):** how strong must a match be, compared with the resting place? What happens if both are equal?
# And what has (a) written at position 0, which sees only itself?
#
# <details><summary>Compare</summary>
#
# Clearly stronger, or attention is split between match and resting place: with equal scores, half and half. At position
# 0 (a) has written `^` itself, so only a `^` could ever match it, and `^` stands nowhere else.
# </details>

# %% nbgrader={"grade": false, "grade_id": "two_hand_made_heads", "locked": false, "schema_version": 3, "solution": true}
def previous_token_head(v: int, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(a) w_q, w_k, w_v, w_o: look one back, and write that token into columns v … 2v − 1."""
    ### BEGIN SOLUTION
    d = 2 * v + n
    w_q, w_k, w_v, w_o = torch.zeros(d, n), torch.zeros(d, n), torch.zeros(d, v), torch.zeros(v, d)
    for i in range(1, n):
        w_q[2 * v + i, i - 1] = 100.0  # position i asks for i − 1
    w_k[2 * v :] = torch.eye(n)  # position j answers to j
    w_v[:v] = torch.eye(v)  # what is handed over: the token
    w_o[:, v : 2 * v] = torch.eye(v)  # where it is written: the empty columns
    return w_q, w_k, w_v, w_o
    ### END SOLUTION


def first_token_head(v: int, n: int) -> tuple[Tensor, Tensor]:
    """(b) w_q, w_k: everybody looks at position 0."""
    ### BEGIN SOLUTION
    w_q, w_k = torch.zeros(2 * v + n, 1), torch.zeros(2 * v + n, 1)
    w_q[2 * v :] = 30.0  # all positions ask the same question
    w_k[2 * v] = 1.0  # position 0 alone answers it
    return w_q, w_k
    ### END SOLUTION


def induction_head(v: int, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(c) w_q, w_k, w_v, w_o: look at what came after earlier copies of this token, else at 0.

    Write the token that stands there into columns 0 … v − 1."""
    ### BEGIN SOLUTION
    d, d_h = 2 * v + n, v + 1
    w_q, w_k, w_v, w_o = torch.zeros(d, d_h), torch.zeros(d, d_h), torch.zeros(d, v), torch.zeros(v, d)
    w_q[:v, :v] = 60 * math.sqrt(d_h) * torch.eye(v)  # the query: which token am I?
    w_k[v : 2 * v, :v] = torch.eye(v)  # the key: which token was before me? (a) has written it there
    w_q[2 * v :, v] = 30 * math.sqrt(d_h)  # one more column, for (b) at half the strength
    w_k[2 * v, v] = 1.0
    w_v[:v] = torch.eye(v)
    w_o[:, :v] = torch.eye(v)
    return w_q, w_k, w_v, w_o
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: matrices that pick columns</summary>
#
# Start from zeros. `w[a:b] = torch.eye(b - a)` reads columns a … b − 1 of the stream and passes them on as they are.
# Everything else is ignored.
# </details>
# <details><summary>Hint 2 for (a): a shift</summary>
#
# With the same identity for queries and keys, every position finds itself. Which one do you shift, and which way?
# </details>
# <details><summary>Hint 3 for (b): the shortest vectors</summary>
#
# Width d_h = 1 is enough. All positions ask with the same number. What is the key of position 0, and of all others?
# </details>
# <details><summary>Hint 4 for (c): whose token meets whose?</summary>
#
# The query is "I am an A". The key is "the one before me was an A". Which columns does each read? The resting place is
# one more feature of both.
# </details>
# <details><summary>If the card says "scores that are too weak"</summary>
#
# e^5 against ten others is 0.94. And the √d_h in the denominator makes scores smaller: multiply the query by it.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $v$ from 2 to 20, any $n$ up to 100, sequences of any length up to $n$. `^` is token 0 and stands only at
#   position 0; it is handed over like any other token.
# - A tuple or list of matrices, four for (a) and (c), two for (b), in any dtype.
# - Every attention weight is right to within 0.01: "all" is at least 0.99, and so each equal share.
# - So is every number that (a) and (c) write, in all $d$ columns: they write into no other columns.
# - The three are tried one by one. (b) reads the stream as it is at first. (c) reads it after a right (a), not after
#   yours: that one has written exact one-hots.
# - (c) "Up to its own" includes its own: in `^BAA` the last *A* looks at itself, for the token before it is an *A*.
# </details>

# %% nbgrader={"grade": true, "grade_id": "two_hand_made_heads_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.two_hand_made_heads(previous_token_head, first_token_head, induction_head, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.two_hand_made_heads(previous_token_head, first_token_head, induction_head, points=3,
                          cases=hidden.two_hand_made_heads)
### END HIDDEN TESTS
# %% [markdown]
# **See it.** First the two simple heads, on the sequence `^ABCDA`:

# %%
def maps_of_both():
    x = stream(numbers("^ABCDA"), V, N)
    (w_q, w_k, _, _), first = previous_token_head(V, N), first_token_head(V, N)
    return causal_weights(x, w_q, w_k), causal_weights(x, *first[:2])


plots.two_heads(maps_of_both, "^ABCDA")

# %% [markdown]
# Now the two layers together, on `^ABCDABA`. Follow the last row, the last *A*: layer 1 has written "after A" into both
# *B*s. Layer 2 asks for "after A", finds them, and guesses *B*. **Predict** what the guess is in the rows of the first
# *A*, *B*, *C* and *D*, before you look.

# %%
guess_of_a_new_token = None  # one of the tokens "^", "A", "B", "C", "D"

# %%
def circuit(tokens):
    """Attention of layer 1, attention of layer 2, and the guess (l, v) after each token."""
    x = stream(tokens, V, N)
    w_q, w_k, w_v, w_o = (w.float() for w in previous_token_head(V, N))
    first = causal_weights(x, w_q, w_k)
    x = x + first @ (x @ w_v) @ w_o
    w_q, w_k, w_v, w_o = (w.float() for w in induction_head(V, N))
    second = causal_weights(x, w_q, w_k)
    return first, second, (second @ (x @ w_v) @ w_o)[:, :V]


plots.induction_steps(circuit, "^ABCDABA", numbers("^ABCDABA"), NAMES)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# A new token finds nothing, rests on `^` and guesses `^`: "I don't know". The others guess what came after their
# earlier copy.
# </details>
#
# And now it writes. The prompt is `^BADCB`, nothing that it was made for. Each line is one step: the last token (blue)
# looks at the one (orange) that came after its earlier copy, and adds the same token (green).

# %%
plots.completion(circuit, numbers("^BADCB"), NAMES, steps=5)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# It goes on with the pattern *BADC*, *BADC*, though no weight in it knows *B* from *A*. It copies by *place*, not by
# knowledge. A single layer can't do that: the key must say what stood *before* it, and somebody has to write that down
# first. Olsson et al. (2022) found heads that do the same in trained models, and saw them appear at the moment when
# these models learn to use long contexts. The resting place is also real: trained models put unused attention on the
# first token (Xiao et al., 2023).
# </details>

# %% [markdown]
# ## 4.11 A slope for every head  ●●○ · 15 min · 1 point
#
# The heads of 4.10 knew positions because the stream had columns for them. There is a shorter way: tell the *scores*
# how far away a key is. **ALiBi** (attention with linear biases; Press et al., 2022, section 3) counts the heads from
# 1, and in head $k$ it adds to the score of query $i$ and key $j$
#
# $$-\,m_k\,(i - j), \qquad m_k = 2^{-8k/h}, \quad k = 1, \dots, h$$
#
# One step further away costs $m_k$, whatever the tokens are. A head with a steep slope looks at its neighbors; one with
# a flat slope sees far. The slopes are not trained. Later keys, $j > i$, get $-\infty$, as in unit 03, which no score
# can outweigh. So one $(h, n, n)$ tensor, added to the scores, is position and causal mask at once.
#
# **By hand.** $h = 2$: the slopes are $2^{-4} = 1/16$ and $2^{-8} = 1/256$. With $n = 3$ the last row of head 1 is
# $(-2/16, -1/16, 0)$, and its first row $(0, -\infty, -\infty)$.
#
# **Predict:** with $h = 8$ the slopes are ½, ¼, … 1/256. If all scores are equal, how far back is the last token to
# which head 8 gives more than half the weight of its own token?

# %%
guess_tokens_back = None  # a number

# %% nbgrader={"grade": false, "grade_id": "alibi_bias", "locked": false, "schema_version": 3, "solution": true}
def alibi_bias(n: int, h: int) -> Float[Tensor, "h n n"]:
    """What is added to the scores: −m_k (i − j) for keys j ≤ i, −∞ for later keys.

    Head k = 1 … h stands at index k − 1."""
    ### BEGIN SOLUTION
    slopes = torch.tensor([2 ** (-8 * k / h) for k in range(1, h + 1)])
    i, j = torch.arange(n)[:, None], torch.arange(n)
    bias = -slopes.view(h, 1, 1) * (i - j)  # (h, 1, 1) * (n, n) -> (h, n, n)
    return bias.masked_fill(j > i, -math.inf)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: all distances at once</summary>
#
# A column of n numbers minus a row of n numbers is an (n, n) matrix. Which of the two holds the queries?
# </details>
# <details><summary>Hint 2: an axis for the heads</summary>
#
# The slopes are h numbers, the distances (n, n). What shape must the slopes have, so that their product is (h, n, n)?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $n$ and $h$, and the same formula for every $h$. (The code released with the paper takes other slopes where $h$
#   is not a power of two.)
# - Later keys have $-\infty$ itself, no large negative number. The diagonal is 0.
# - float32, and here no more than that: a float64 bias would change the dtype of the scores it is added to.
# </details>

# %% nbgrader={"grade": true, "grade_id": "alibi_bias_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.alibi_bias(alibi_bias, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import multi_head as hidden
check.alibi_bias(alibi_bias, points=1, cases=hidden.alibi_bias)
### END HIDDEN TESTS

# %%
plots.alibi_reach(alibi_bias, n=64, heads=(1, 4, 8), h=8)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The maps show $e^{\text{bias}}$: the factor by which the softmax multiplies every weight. With equal scores a weight
# falls by the factor $e^{-m_k}$ with each step back: head 1 gives 39% to its own token and reaches a handful of
# others, head 8 spreads over all 64. (Half of the weight of its own token is left $256 \ln 2 = 177$ tokens back.)
# Nothing here depends on where a token stands, only on distances. Press et al. report that models trained on short
# sequences kept their quality on longer ones.
# </details>

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "4.5 Heads needed to name two tokens": (guess_heads_needed, lambda: 1 if losses["1 head"][-1] < 0.1 else 2),
    "4.9 The order of k.repeat(1, 3, 1, 1)": (guess_order, "".join(map(str, torch.tensor([0, 1]).repeat(3).tolist()))),
    "4.10 What a new token guesses": (guess_of_a_new_token, "^"),
    "4.11 Tokens back at which head 8 still puts half of its own weight": (guess_tokens_back, 256 * math.log(2)),
})

# %% [markdown]
# ## What you have now
#
# - **Split** cuts features, never tokens: reshape, then transpose. **Merge** is the way back: transpose, then join.
# - **Multi-head attention** is four projections around one batched attention. Scale by $\sqrt{d_h}$, give the mask an
#   axis for the heads, take keys and values from the memory.
# - With $d_h = d/h$ the number of heads appears neither in the parameters nor in the FLOPs.
# - The output is a **sum over heads**: each adds its part, and one layer's heads can read what an earlier layer's
#   wrote.
# - **Grouped-query attention** keeps the queries and shares the keys and values.
# - A **bias** on the scores that falls with the distance gives a layer a sense of place, without a single parameter.
#
# **Read more**
#
# - Vaswani et al. (2017), section 3.2.2: the layer, and why its heads are narrow.
# - Elhage et al. (2021), *A Mathematical Framework for Transformer Circuits*, and Olsson et al. (2022), *In-context
#   Learning and Induction Heads*, transformer-circuits.pub: heads that read each other, found in trained models.
# - Voita et al. (2019) and Michel et al. (2019), *Are Sixteen Heads Really Better than One?*: what is left when heads
#   are removed.
# - Shazeer (2019) and Ainslie et al. (2023), *GQA*: one key/value head, or a few.
# - Press et al. (2022), *Train Short, Test Long*: ALiBi.
#
# **Next:** unit 05 puts this layer into a language model. Positions, which were one-hot columns here, become waves. And
# in unit 08 the keys and values of `grouped_query_attention` become the cache.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=4)
