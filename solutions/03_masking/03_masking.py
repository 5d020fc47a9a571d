# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03 · Masking
#
# A mask says who may look at whom. It costs one line of code. With it a model learns from all positions of a text at
# once; without it the same model learns to copy, and its loss tells you that all is well.
#
# **After this unit you can**
# - write a mask as one condition on the position of a query and the position of a key;
# - write a masked softmax that survives large scores, half precision and rows with nothing to see;
# - combine masks for padding, order, windows and documents, and count what they allow;
# - find out whether a model peeks into the future, by asking the model itself;
# - say why a loss of nearly 0 can be the worst news of the day.
#
# **How to work.** Read a section, write the function, run the check below it. In every picture of a mask a row is a
# query, a column is a key, and color means *may attend*. You have about 3½ hours, and 24 points to earn.

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
# ## 3.1 The causal mask  ●○○ · 10 min · 1 point
#
# A language model predicts the next token from those before it. So the query at position $i$ may look at the key at
# position $j$ only if
#
# $$j \le i$$
#
# That is the whole mask: one condition on two numbers. Write it for all pairs at once, and it becomes a matrix of True
# and False. **True means: may attend.** PyTorch's `F.scaled_dot_product_attention` has the same convention, and
# `nn.MultiheadAttention` the opposite one. Always ask which.
#
# Sometimes there are fewer queries than keys: a model has read 4 tokens already and is given 3 more. Then the $n$
# queries are the *last* $n$ of $m$ positions. Query 0 stands at position $m - n$.
#
# **By hand.** $n = 3$ queries, $m = 7$ keys. The first query stands at position 4, so it sees the keys 0, 1, 2, 3, 4:
# five of seven. Draw the rest:

# %%
plots.draw_mask("The cat sat on the mat .".split(), queries=3)

# %% [markdown]
# **Before you look at the next picture:** how many cells of the 6×6 mask are allowed?

# %%
guess_allowed_cells = None  # a number

# %%
words = ["The", "cat", "sat", "on", "the", "mat"]
plots.causal_grids({"all six tokens": (6, 6), "the last two, after four": (2, 6)}, words)

# %% nbgrader={"grade": false, "grade_id": "causal_mask", "locked": false, "schema_version": 3, "solution": true}
def causal_mask(n: int, m: int | None = None) -> Bool[Tensor, "n m"]:
    """True where query i may see key j. The n queries are the last n of m positions.
    Without m, m = n."""
    ### BEGIN SOLUTION
    m = n if m is None else m
    return torch.ones(n, m, dtype=torch.bool).tril(m - n)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two ways</summary>
#
# Either compare a column of query positions with a row of key positions, or cut a triangle out of a matrix of ones with
# `torch.tril`. Both are one line.
# </details>
# <details><summary>Hint 2: the corner for n &lt; m</summary>
#
# `tril(diagonal=k)` moves the edge of the triangle k columns to the right. The last row must be all True.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $1 \le n \le m$, with or without $m$, up to 2,100 keys.
# - Every call makes a new boolean tensor with a cell of its own for every pair (no `expand`): whoever gets the mask may
#   write into it.
# </details>

# %% nbgrader={"grade": true, "grade_id": "causal_mask_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.causal_mask(causal_mask, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.causal_mask(causal_mask, points=1, cases=hidden.causal_mask)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>How many cells?</summary>
#
# Row $i$ allows $i + 1$ keys: $1 + 2 + \dots + 6 = 21$ of 36. A little more than half, because the diagonal belongs to
# it.
# </details>
#
# ## 3.2 What is it for?  ●○○ · 3 min · 1 point
#
# A model that *writes* text produces one token after another. The future isn't there yet. So why does a causal
# language model have a mask at all?
#
# - **a** It halves the work: only half of the $n^2$ scores are computed.
# - **b** It lets all $n$ positions of a finished text be trained in one pass, each as if the rest had not been written
#   yet.
# - **c** It is needed to write new text: without it the last token would look at tokens that don't exist yet.
# - **d** It keeps padding out of the attention.

# %% nbgrader={"grade": false, "grade_id": "what_is_it_for", "locked": false, "schema_version": 3, "solution": true}
def what_is_it_for() -> str:
    """One letter: "a", "b", "c" or "d"."""
    ### BEGIN SOLUTION
    return "b"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - The letter, as a string.
# </details>

# %% nbgrader={"grade": true, "grade_id": "what_is_it_for_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.what_is_it_for(what_is_it_for, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.what_is_it_for(what_is_it_for, points=1, cases=hidden.what_is_it_for)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.3 A softmax that doesn't see everything  ●●○ · 25 min · 3 points
#
# A hidden key must get weight 0, and the others must share 1 among themselves, as if the hidden key did not exist.
# What must its score be? The softmax takes exponentials, and only one score has an exponential of 0:
#
# $$e^{-\infty} = 0$$
#
# So: put $-\infty$ where the mask is False, then take the softmax.
#
# **By hand.** Scores 2, 1, 3, the third key hidden. Exponentials: 7.39, 2.72 and 0, with sum 10.11. Weights: 0.73,
# 0.27, 0. These are exactly the weights of a softmax over just 2 and 1.

# %%
plots.masking_a_row([2.0, 1.0, 3.0, -0.5, 2.5], [True, True, False, True, False])

# %% [markdown]
# Three things go wrong in practice, and your function must survive all of them.
#
# - **A row with nothing allowed.** All exponentials are 0, and 0/0 is NaN. Such rows happen (a sequence that is all
#   padding, a padded query). Give them weights 0, and keep NaN out of the gradients. It is best if no NaN ever arises.
#   If you wipe it off afterwards (`nan_to_num`), it matters how the $-\infty$ came in: where it was *filled in*
#   (`masked_fill`, `torch.where`) the backward pass ends there; where it was *added*, the NaN comes back in the
#   gradient.
# - **Half precision.** Old code writes $-10^9$ for $-\infty$. The largest number in float16 is 65,504, so there
#   `masked_fill` stops with an error.
# - **Large scores, on either side of the mask.** A hidden score may be the largest of its row: subtract *that* one, and
#   the exponentials of all allowed keys underflow to 0.

# %% nbgrader={"grade": false, "grade_id": "masked_softmax", "locked": false, "schema_version": 3, "solution": true}
def masked_softmax(
    scores: Float[Tensor, "*batch n m"], mask: Bool[Tensor, "*#batch n m"]
) -> Float[Tensor, "*batch n m"]:
    """Each row's softmax over its allowed keys; hidden keys get 0, and so do empty rows."""
    ### BEGIN SOLUTION
    nothing = ~mask.any(dim=-1, keepdim=True)  # (*batch, n, 1)
    hidden = ~mask & ~nothing  # rows with nothing allowed keep their finite scores: no NaN on the way
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    return weights.masked_fill(nothing, 0.0)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: filling in −∞</summary>
#
# `scores.masked_fill(where, value)` puts `value` where `where` is True. Your mask is True where a score should *stay*.
# </details>
# <details><summary>Hint 2: rows with nothing allowed</summary>
#
# `mask.any(dim=-1, keepdim=True)` finds the rows that have something. Leave the others as they are until after the
# softmax: then their weights are finite, and can be set to 0.
# </details>
# <details><summary>If the values are right and the gradients aren't</summary>
#
# If you added the mask, `nan_to_num` wipes the NaN off the result, but the backward pass goes through the softmax that
# made it, and multiplies by it. Where does the first NaN arise? Or did you write into the result of the softmax
# (`weights[…] = 0`)? It is needed in the backward pass.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any number of batch axes, or none. The mask broadcasts: it may have a 1, or no axis at all, where the scores have a
#   batch or heads (`#` in the shape says so).
# - Scores are finite, up to a million in size (60,000 in half precision), and rows may lie far apart.
# - float32, float64, float16 and bfloat16. (A softmax with `dtype=torch.float32` is too little for float64.)
# - Gradients with respect to the scores: 0 at hidden keys and in rows with nothing allowed.
# - `torch.softmax` is fine.
# </details>

# %% nbgrader={"grade": true, "grade_id": "masked_softmax_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.masked_softmax(masked_softmax, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.masked_softmax(masked_softmax, points=3, cases=hidden.masked_softmax)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.4 Why before the softmax?  ●○○ · 3 min · 1 point
#
# Why is the mask put on the scores, *before* the softmax? Why not set the hidden weights to 0 after it, and be done?
#
# - **a** The softmax is faster that way: it has fewer entries to work on.
# - **b** The softmax can't deal with entries that are 0.
# - **c** After the softmax the hidden keys have had their say in the sum: the weights that are left don't add up to 1,
#   and how much is missing depends on keys that nobody was allowed to see.
# - **d** The weights would become negative.

# %% nbgrader={"grade": false, "grade_id": "why_before_softmax", "locked": false, "schema_version": 3, "solution": true}
def why_before_softmax() -> str:
    """One letter: "a", "b", "c" or "d"."""
    ### BEGIN SOLUTION
    return "c"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - The letter, as a string.
# </details>

# %% nbgrader={"grade": true, "grade_id": "why_before_softmax_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.why_before_softmax(why_before_softmax, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.why_before_softmax(why_before_softmax, points=1, cases=hidden.why_before_softmax)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.5 Mask, then renormalize  ●●○ · 15 min · 1 point
#
# The mistake of 3.4 can be repaired. Set the hidden weights to 0 and divide each row by what is left of it. On paper
# that is the same as masking before the softmax: with $A$ the allowed keys,
#
# $$\frac{e^{s_j} / \sum_k e^{s_k}}{\sum_{i \in A} e^{s_i} / \sum_k e^{s_k}} = \frac{e^{s_j}}{\sum_{i \in A} e^{s_i}}$$
#
# Show it in code: first the softmax over *all* keys, then the mask. Return the renormalized weights, and for
# each row the **lost** share: the attention that went to hidden keys and was taken away. In floating point this way has
# a weakness, which you will see in the picture below.
#
# **By hand.** Scores 2, 1, 3, the third hidden. Softmax over all: 0.24, 0.09, 0.67. Lost: 0.67. Left: 0.33. So
# 0.24/0.33 = 0.73 and 0.09/0.33 = 0.27, as in 3.3.

# %% nbgrader={"grade": false, "grade_id": "mask_then_renormalise", "locked": false, "schema_version": 3, "solution": true}
def mask_then_renormalise(
    scores: Float[Tensor, "*batch n m"], mask: Bool[Tensor, "*#batch n m"]
) -> tuple[Float[Tensor, "*batch n m"], Float[Tensor, "*batch n"]]:
    """The renormalized weights, and the share that each row lost. No row is all hidden.

    Where nothing of a row is left in floating point, 0/0 may stay NaN.
    """
    ### BEGIN SOLUTION
    weights = torch.softmax(scores, dim=-1)
    kept = weights * mask
    lost = (weights * ~mask).sum(dim=-1)
    return kept / kept.sum(dim=-1, keepdim=True), lost
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: a product with True and False</summary>
#
# In a product True counts as 1 and False as 0: `weights * mask` keeps what is allowed. What is `weights * ~mask`?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Every row has an allowed key. Any number of batch axes; the mask may have fewer axes than the scores. float32 and
#   float64.
# - The weights equal those of 3.3, even with a hidden score 40 above the rest: no constant in the denominator, no
#   `F.normalize`.
# - With a hidden score 1000 above the rest nothing is left in floating point: there the weights are NaN (0/0) or 0, and
#   the lost share is 1. Masking first, as in 3.3, shows here and doesn't count.
# - The lost share may be added up, or be 1 minus what is left. Its shape is $(…, n)$.
# - A higher precision also earns the points, but spoils the picture.
# </details>

# %% nbgrader={"grade": true, "grade_id": "mask_then_renormalise_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.mask_then_renormalise(mask_then_renormalise, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.mask_then_renormalise(mask_then_renormalise, points=1, cases=hidden.mask_then_renormalise)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** On paper the two ways are equal. Now let one *hidden* score rise, and watch the error of your function
# in three kinds of floating-point numbers. **Predict first:** the smallest positive float16 is about $6 \cdot 10^{-8} =
# e^{-16.6}$. Smaller ones round to it, or to 0. By how much, roughly, must the hidden score lead before float16 has
# nothing left and gives 0/0?

# %%
guess_lead = None  # a number

# %%
plots.renormalising_error(mask_then_renormalise, [torch.float16, torch.bfloat16, torch.float32])

# %% [markdown] nbgrader={"grade": false, "grade_id": "mask_then_renormalise_precision_question", "locked": true, "schema_version": 3, "solution": false}
# ### Where does the precision go?  ●●○ · 5 min · 1 point
#
# Explain the picture. Why does masking *after* the softmax lose precision, and in the end everything, as a hidden score
# rises? Why does masking *before* the softmax not have this trouble, whatever the hidden scores are?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: the softmax over all keys subtracts the maximum, which is the hidden score; the allowed shares become as
#   small as e^(−gap), fall below the smallest normal number of the dtype (digits are lost), then to 0, and
#   renormalizing gives 0/0. (Also good: 1 − lost cancels when lost is near 1.)
# - ½ point: with −∞ first, the maximum is that of the allowed scores, so the largest allowed exponential is e^0 = 1 and
#   the hidden scores enter nowhere.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "mask_then_renormalise_precision", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# The softmax over all keys subtracts the largest score of the row, and that is the hidden one. The allowed keys get
# shares of about $e^{-\text{gap}}$. Dividing small numbers by their small sum does no harm by itself, but there is a
# smallest number: below $6 \cdot 10^{-5}$ float16 keeps fewer and fewer digits, and below $3 \cdot 10^{-8} = e^{-17.3}$
# everything rounds to 0. Then 0/0 is NaN. bfloat16 and float32 hold out until about $e^{-93}$ and $e^{-104}$. If
# $-\infty$ is put in first, the maximum is taken only over the allowed scores. The largest allowed exponential is 1,
# however large the hidden scores were.

# %% [markdown]
# ## 3.6 Causal attention  ●●○ · 15 min · 2 points
#
# Put the mask into the attention of unit 02, and this time return all three results:
#
# 1. the **scores** $Q K^\top / \sqrt d$ with $-\infty$ where a key is hidden: exactly what goes into the softmax;
# 2. the **weights**, their softmax along the keys;
# 3. the **output**, weights times $V$.
#
# Every query sees at least its own key, so no row is empty and `torch.softmax` is safe.
#
# **By hand.** If $n = m$, the first row has one key: its weight is 1, whatever its score is. So the first output *is*
# the first value.
#
# **Watch it.** The four words of 2.5, *cats drink cold milk*, with a mask. Before you press: what becomes of the weight
# that “drink” gave to “milk”?

# %%
plots.causal_flow()

# %% nbgrader={"grade": false, "grade_id": "causal_attention", "locked": false, "schema_version": 3, "solution": true}
def causal_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
) -> tuple[
    Float[Tensor, "*batch n m"],
    Float[Tensor, "*batch n m"],
    Float[Tensor, "*batch n d_v"],
]:
    """Without `F.scaled_dot_product_attention`: masked scores, weights and output."""
    ### BEGIN SOLUTION
    n, m = q.shape[-2], k.shape[-2]
    place = torch.arange(m, device=q.device)
    mask = place[m - n :, None] >= place  # (n, m)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)  # (*batch, n, m)
    weights = torch.softmax(scores, dim=-1)
    return scores, weights, weights @ v
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: which sizes?</summary>
#
# n is the length of `q`, m that of `k`: `q.shape[-2]`, `k.shape[-2]`. The mask (n, m) broadcasts over all leading axes.
# (And `masked_fill` wants True where a key is *hidden*.)
# </details>
# <details><summary>If you see NaN in some rows</summary>
#
# These queries see nothing. Is the mask upside down (`~`), or a token's own place hidden?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any number of batch axes, the same for q, k and v, or none; $1 \le n \le m$; $d_v$ may differ from $d$.
# - float32, float64, float16 and bfloat16. Scores may be in the hundreds (in half precision near 1), and rows of scores
#   may lie far apart.
# - No `F.scaled_dot_product_attention` or other ready-made attention.
# - If you call your functions of 3.1 and 3.3, they must be right: this check calls whatever your function calls.
# </details>

# %% nbgrader={"grade": true, "grade_id": "causal_attention_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.causal_attention(causal_attention, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.causal_attention(causal_attention, points=2, cases=hidden.causal_attention)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Random queries and keys, so the weights mean nothing. Look at their pattern: which rows are decided, and
# why must the first be?

# %%
plots.causal_steps(causal_attention, ["The", "cat", "sat", "on", "the", "mat"])

# %% [markdown]
# ## 3.7 Padding  ●○○ · 10 min · 1 point
#
# Texts in a batch have different lengths, but the rows of a tensor must all have the same one. So short texts are
# padded with a special token. It means nothing, and no token may look at it.
#
# Make the mask from the lengths. Sequence $b$ has real keys at $0, \dots, \text{lengths}_b - 1$; all other *columns*
# are hidden, in every row. The rows of padded queries stay as they are: nobody reads their output.
#
# Scores of several heads have the shape $(b, h, n, m)$. All heads share one mask, $(b, 1, n, m)$.
#
# **By hand.** Lengths 3 and 1, $m = 4$: every row of the first mask is True, True, True, False; of the second, True,
# False, False, False.

# %% nbgrader={"grade": false, "grade_id": "padding_mask", "locked": false, "schema_version": 3, "solution": true}
def padding_mask(lengths: Int[Tensor, "b"], n: int, m: int) -> Bool[Tensor, "b 1 n m"]:
    """True where the key is real: key j of sequence b, for j < lengths[b]."""
    ### BEGIN SOLUTION
    real = torch.arange(m) < lengths[:, None]  # (b, m)
    return real[:, None, None, :].expand(len(lengths), 1, n, m)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: four axes</summary>
#
# Compare `torch.arange(m)` with the lengths as a column: (b, m). Indexing with `None` adds an axis of size 1, and
# `expand` stretches it.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - `lengths` is int64, each between 0 and $m$. $n$ and $m$ may differ, and no sequence need be as long as $m$.
# - A boolean tensor; a view made with `expand` is fine.
# </details>

# %% nbgrader={"grade": true, "grade_id": "padding_mask_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.padding_mask(padding_mask, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.padding_mask(padding_mask, points=1, cases=hidden.padding_mask)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.8 Several masks at once  ●○○ · 5 min · 1 point
#
# A decoder that is trained on a batch needs both masks: no padding *and* no future. A pair is allowed if **every** mask
# allows it. Combine any number of masks whose shapes broadcast against each other.
#
# **Before you write:** padding is (3, 1, 6, 6), causal is (6, 6). What shape does the combination have?

# %%
guess_shape = None  # for example (3, 6)

# %% nbgrader={"grade": false, "grade_id": "combine_masks", "locked": false, "schema_version": 3, "solution": true}
def combine_masks(*masks: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """True where all masks are True."""
    ### BEGIN SOLUTION
    together = masks[0]
    for mask in masks[1:]:
        together = together & mask
    return together
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: which operator?</summary>
#
# Python's `and` wants single truth values. For tensors there are `&` (both), `|` (at least one) and `~` (not).
# </details>
# <details><summary>What exactly is checked</summary>
#
# - One to four boolean masks, in any order; the smallest may come first.
# - A boolean tensor. If there is only one mask, you may return it itself.
# </details>

# %% nbgrader={"grade": true, "grade_id": "combine_masks_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.combine_masks(combine_masks, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.combine_masks(combine_masks, points=1, cases=hidden.combine_masks)
### END HIDDEN TESTS

# %%
plots.padding_and_causal(padding_mask, combine_masks, lengths=[6, 4, 2], n=6)

# %% [markdown]
# <details><summary>The shape of the combination</summary>
#
# (3, 1, 6, 6): shapes are lined up from the right, and (6, 6) is used for all three sequences and for the one place of
# the heads.
# </details>
#
# **Look at the last rows** of the square at the bottom right ("both", 2 real tokens). Queries 2 to 5 are padding, and
# they still see the two real keys. That does no harm, and leaves no row of theirs empty.
#
# ## 3.9 Which positions?  ●○○ · 3 min · 1 point
#
# (If you have time: an example of 3.8, by hand.) Two documents stand in one sequence of nine tokens: positions 0–4 are
# the first, positions 5–8 the second. Three masks apply at once: causal; a window of 4 tokens (a token sees itself and
# the three before it); and no token sees another document.
#
# Which positions may the query at position **7** attend to?

# %% nbgrader={"grade": false, "grade_id": "which_positions", "locked": false, "schema_version": 3, "solution": true}
def which_positions() -> tuple[int, ...]:
    """The positions that query 7 sees."""
    ### BEGIN SOLUTION
    return 5, 6, 7  # the window: 4, 5, 6, 7; position 4 belongs to the other document
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - All positions, and no others, in increasing order.
# </details>

# %% nbgrader={"grade": true, "grade_id": "which_positions_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.which_positions(which_positions, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.which_positions(which_positions, points=1, cases=hidden.which_positions)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.10 Does it peek?  ●●● · 35 min · 4 points
#
# A causal model has one property that can be tested without reading its code: **if the tokens from position $t$ on
# change, the outputs before $t$ stay as they are.** They would be the same if the text ended there. A model that breaks
# it *leaks*. Leaks are common, hard to see in code, and nothing crashes: the loss is merely better than it has any
# right to be.
#
# The pictures show three models from the outside. Row $i$, column $j$: how far output $i$ moves when token $j$ is
# changed. Color above the orange line is a leak. Only the first is sound.

# %%
plots.influences({
    "mean of the past": lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None],
    "mean of all tokens": lambda x: x.mean(0).expand(len(x), -1),
    "the next token": lambda x: torch.cat([x[1:], x[-1:]]),
})

# %% [markdown]
# **The game.** Here are nine models from $n$ tokens `x` of width $d$ to $n$ outputs. Some peek. Read the code and
# decide which.
#
# | | the model in one line | |
# |---|---|---|
# | **A** | `x.cumsum(0) / counts` | the mean of the tokens so far (`counts`: 1, 2, … as a column) |
# | **B** | attention with `torch.ones(n, n).tril(1)` as its mask | |
# | **C** | `(x - x.mean(0)) / x.std(0)` | normalized |
# | **D** | causal mask, then `scores.softmax(dim=0)` | scores are (n, n) |
# | **E** | `x.sum(0) - (x.flip(0).cumsum(0).flip(0) - x)` | all tokens minus those that follow |
# | **F** | `(x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)` | also normalized |
# | **G** | A, then `y[0:-1:2] += x[1::2]` | |
# | **H** | a tanh RNN | |
# | **I** | causal attention, then `y[:-1] += 0.0005 * x[1:]` | |
#
# Write the letters of those that peek into `my_guess`. Then write a detector, and see who was right: the board below
# compares the two.

# %%
my_guess = ""  # for example "AEH"

# %% [markdown]
# Now the detector. It gets a model as a **black box**, a function from `(n, d)` to `(n, d_out)`, and tokens `x` to try
# it on, and says whether the model leaks.
#
# Replace the future with new random tokens (of standard deviation 1, and without a seed). Rounding alone moves the
# earlier outputs of a sound model, by less than $10^{-5}$, so `==` would accuse it. A leak moves them by more.
#
# **Before you write:** a leak may sit at one position only. In how many places can you cut a text of 9 tokens into past
# and future?

# %%
guess_cuts = None  # a number

# %% nbgrader={"grade": false, "grade_id": "leaks_future", "locked": false, "schema_version": 3, "solution": true}
def leaks_future(model, x: Float[Tensor, "n d"]) -> bool:
    """True if an output of `model`, (n, d) → (n, d_out), depends on a later token."""
    ### BEGIN SOLUTION
    before = model(x)
    for t in range(1, len(x)):  # cut the text before token t
        changed = x.clone()
        changed[t:] = torch.randn_like(x[t:])
        moved = (model(changed) - before)[:t].abs().max()
        if moved > 1e-5:
            return True
    return False
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: one cut</summary>
#
# Choose a t. Copy x, replace the tokens t, t + 1, … by other random ones, and call the model on both. Outputs 0 … t − 1
# come before all of these: which outputs must be equal?
# </details>
# <details><summary>Hint 2: which change?</summary>
#
# Anything that a model could be blind to is a bad probe: the same tokens in another order, the same number added to all
# features, a change of one feature. Random numbers have no pattern that a model could fail to notice.
# </details>
# <details><summary>Hint 3: in words</summary>
#
#     before = the model's output on x
#     for every cut t = 1 … n − 1:
#         changed = x with other random tokens from t on
#         if an output before t moved by more than 0.00001: it leaks
#     otherwise it is sound
#
# One draw for each cut is enough here.
# </details>
# <details><summary>If a sound model is accused</summary>
#
# Do you compare with `==` or `torch.equal`? Floating-point sums may differ in their last digit. Is the probe so large
# that rounding becomes visible? Do you compare texts of different lengths? Is output t itself among those that you
# compare, although token t was changed?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - More than twenty models that peek, each in its own way, and more than a dozen that don't. A detector that says the
#   same of every model gets nothing.
# - A change of more than $10^{-5}$ is a leak, however large the outputs are. Compare outputs of texts of one length:
#   other lengths may round differently.
# - `x` is float32, 1 to 30 tokens. A single token leaves nothing to cut: the models tried on it are sound.
# - No seed: `x` may have been drawn from the very same one.
# - A model may be called as often as you like. It keeps nothing from call to call, leaves its input alone and makes no
#   NaN. Its output may be a view of its input, and wider or narrower than `x`.
# - `True` or `False`, as such or as a tensor.
# </details>

# %% nbgrader={"grade": true, "grade_id": "leaks_future_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.leaks_future(leaks_future, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.leaks_future(leaks_future, points=4, cases=hidden.leaks_future)
### END HIDDEN TESTS

# %%
plots.which_peek(leaks_future, my_guess)

# %% [markdown]
# <details><summary>When you have seen the board: who peeks, and how</summary>
#
# B lets every token see one ahead. C looks harmless and isn't: the mean over *time* contains the future. F does the
# same over the features of each token, which is what layer norm does. D has the right mask and the wrong axis: each
# column is divided among all its queries, so a later query takes weight from an earlier one. E is a clumsy way to write
# a sum over the past; its rounding noise comes from the future, and no model can learn from that. G adds to every other
# output the token that follows. I adds a trace of the next token, and training would find it all the same.
# A and H are sound.
# </details>
#
# ## 3.11 What is to be predicted  ●●○ · 15 min · 2 points
#
# A model that sees the tokens up to $i$ is asked for token $i + 1$. So inputs and targets are the same text, shifted by
# one. One special token, `end`, marks both edges: it comes first in the inputs, so that the first word is predicted
# too, and last in the targets, so that the model learns to stop.
#
# Sequences have different lengths. Where a target would be padding, write **−100**: PyTorch's losses ignore such
# positions (`ignore_index`).

# %%
plots.shifted_rows({
    "length 3": (["end", "the", "cat", "sat"], ["the", "cat", "sat", "end"]),
    "length 1, padded to 3": (["end", "stop", "pad", "pad"], ["stop", "end", "−100", "−100"]),
})

# %% [markdown]
# Each arrow is one prediction. With the causal mask a model makes all of them in a single pass, and none of them sees
# its own answer.
#
# From tokens of shape `(b, n)` make inputs and targets, both `(b, n + 1)`.

# %% nbgrader={"grade": false, "grade_id": "shift_targets", "locked": false, "schema_version": 3, "solution": true}
def shift_targets(
    tokens: Int[Tensor, "b n"], lengths: Int[Tensor, "b"], end: int
) -> tuple[Int[Tensor, "b n+1"], Int[Tensor, "b n+1"]]:
    """Inputs: `end`, then the tokens. Targets: the real tokens, then `end`, then −100."""
    ### BEGIN SOLUTION
    edge = torch.full((len(tokens), 1), end)
    inputs = torch.cat([edge, tokens], dim=1)
    targets = torch.cat([tokens, edge], dim=1)
    place, last = torch.arange(targets.shape[1]), lengths[:, None]
    targets[place == last] = end
    targets[place > last] = -100
    return inputs, targets
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: three zones</summary>
#
# In row b the targets have three zones: positions before lengths[b], the position lengths[b] itself, and those after
# it. Compare `torch.arange(n + 1)` with the lengths as a column.
# </details>
# <details><summary>If you used <code>roll</code></summary>
#
# `roll` puts the end token into the last column of every row. A short sequence ends earlier.
# </details>
# <details><summary>If the inputs change along with the targets</summary>
#
# Slices are views: two slices of one tensor share their numbers. Write into a copy (`clone()`).
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Whole numbers come in (int64) and go out, even above $2^{24}$, which float32 can't hold.
# - A length is 0 … n. A sequence of length n is a whole text, not one that was cut off: its `end` is predicted too.
# - Padding may hold anything, and `end` may be any token, even one that occurs in the text: only `lengths` says what is
#   padding.
# </details>

# %% nbgrader={"grade": true, "grade_id": "shift_targets_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.shift_targets(shift_targets, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.shift_targets(shift_targets, points=2, cases=hidden.shift_targets)
### END HIDDEN TESTS

# %% [markdown]
# ## 3.12 The model that copies  ●●○ · 20 min · 1 point
#
# First the loss. At each position the model gives a logit for every word of the vocabulary; the softmax turns
# them into probabilities. The loss is the mean of $-\log p(\text{target})$ over all positions whose target is not −100.
#
# **By hand.** Two positions count. The targets got probabilities ½ and ¼: the loss is $(0.69 + 1.39)/2 = 1.04$. A model
# that is always right, and sure of it, has loss 0.

# %% nbgrader={"grade": false, "grade_id": "copy_without_mask", "locked": false, "schema_version": 3, "solution": true}
def next_token_loss(
    logits: Float[Tensor, "b n vocab"],
    targets: Int[Tensor, "b n"],
) -> Float[Tensor, ""]:
    """Without `F.cross_entropy`: the mean of −log p(target) where the target is not −100."""
    ### BEGIN SOLUTION
    counts = targets != -100
    log_p = torch.log_softmax(logits, dim=-1)
    chosen = log_p.gather(-1, targets.masked_fill(~counts, 0).unsqueeze(-1)).squeeze(-1)  # (b, n)
    return -chosen[counts].mean()
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: one entry of each row</summary>
#
# `gather(-1, index)` picks from the last axis; its index needs the same number of axes. −100 is no valid index: put any
# valid token in its place, and leave the position out of the mean.
# </details>
# <details><summary>Hint 2: which mean?</summary>
#
# Divide by the number of positions that count, not by b · n.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Logits are finite and may be in the hundreds; positions may lie far apart. float32 and float64.
# - At least one position counts; a whole sequence may be ignored. Only −100 is ignored: token 0 is a word.
# - Gradients with respect to the logits.
# - No `F.cross_entropy`, `F.nll_loss`, `nn.CrossEntropyLoss` or `nn.NLLLoss`. `log_softmax` and `logsumexp` are fine.
# - The check bears the name of the experiment that follows.
# </details>

# %% nbgrader={"grade": true, "grade_id": "copy_without_mask_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.copy_without_mask(next_token_loss, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.copy_without_mask(next_token_loss, points=1, cases=hidden.copy_without_mask)
### END HIDDEN TESTS

# %% [markdown]
# **The experiment.** A tiny Transformer (two layers of attention, width 32) learns sentences such as *the old fox hears
# a bird .* from a small grammar. Every batch is new, so nothing can be learned by heart. We train it twice,
# from the same weights, on the same sentences, with this loss (in PyTorch's version). The only difference: the second
# model has no mask.
#
# The grammar leaves some choices to chance: which noun, which verb. So no model that sees only the past can have a loss
# below a certain floor, on average over many batches: the dotted line in the picture below.
#
# **Predict first:** which of the two models will end with the lower loss? And which will write the better sentences?

# %%
guess_lower_loss = None  # "with mask" or "without mask" (quotes included)
guess_better_writer = None  # "with mask" or "without mask"

# %%
from helpers.masking import copying

trained = {"with mask": copying.train(causal=True), "without mask": copying.train(causal=False)}
plots.loss_curves(trained)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The loss without a mask is hundreds of times smaller, and far below the dotted line. By its loss it is by far the
# better model.
# </details>
#
# Now let both write. Each gets `end` to start from and adds one word at a time, drawn from its own predictions.

# %%
for name, run in trained.items():
    written = [copying.generate(run.model, seed) for seed in range(100)]
    right = sum(map(copying.is_sentence, written))
    print(f"{name}: loss {run.losses[-1]:.4f}, {right} of 100 are sentences of the grammar")
    print(*(f"    {' '.join(words)}" for words in written[:6]), sep="\n")

# %%
plots.who_looks_where(trained, "the old fox hears a happy bird .")

# %% [markdown] nbgrader={"grade": false, "grade_id": "copy_without_mask_why_question", "locked": true, "schema_version": 3, "solution": false}
# ### What has it learned?  ●●○ · 5 min · 1 point
#
# What has the model without a mask learned, and where can you see it in its attention? Why are its sentences worthless
# although its loss is almost 0? And would the loss on held-out sentences have warned you?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: the target of position i is the input at position i + 1, which it sees; it has learned to copy that token
#   (the weights lie just above the diagonal), not to predict from the past.
# - ½ point: when it writes, nothing stands at position i + 1 yet, so what it has learned is of no use; and a held-out
#   loss would not have warned, because copying works there just as well (what warns: generating, a leak detector, a
#   loss below the entropy of the data).
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "copy_without_mask_why", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# At position $i$ it is asked for the token that stands at position $i + 1$ of its own input, and without a mask it may
# look there. So it learned to look one to the right and copy: its weights lie just above the diagonal. It learned next
# to nothing about which word follows which, because it never needed to know. When it writes, the place to the right is
# empty, and all that is left is noise. Held-out sentences don't help: copying works on any sentence, so that loss is
# almost 0 too. What gives it away is a loss below what the grammar leaves to chance, a leak detector, or simply letting
# it write.

# %% [markdown]
# ## 3.13 The zoo  ●●○ · 35 min · 3 points
#
# (A detour: nothing later needs it.) Nearly every mask in the literature is a condition on $i$ and $j$. Write seven of
# them. Each function returns **two** things: the boolean mask, and the number of allowed pairs, by a formula in the
# sizes, never counted on the mask. (A Python `sum` over sizes is a formula, too.) Attention costs one dot product per
# pair, so the formula tells you what a mask saves before you build it.
#
# | mask | who sees whom | where |
# |---|---|---|
# | encoder | all see all | BERT |
# | decoder | causal | GPT |
# | cross | $n$ queries of one sequence see all $m$ keys of another | translation |
# | prefix LM | the first $p$ tokens see each other both ways; the rest is causal, so later tokens see the whole prefix | T5's variants |
# | sliding window | causal, and only $w$ tokens: itself and the $w - 1$ before it | Mistral 7B |
# | global tokens | an encoder: $r$ tokens to either side; the first $g$ see all and are seen by all | Longformer |
# | packed documents | documents one after the other in one sequence: causal, each on its own | pretraining |
#
# **By hand.** Decoder, $n = 4$: the rows allow 1, 2, 3 and 4 pairs, together $4 \cdot 5 / 2 = 10$. Sliding window,
# $n = 4$, $w = 2$: 1, 2, 2, 2, in all 7. That is $n \cdot w = 8$, minus the 1 that is missing at the start.

# %% nbgrader={"grade": false, "grade_id": "mask_zoo", "locked": false, "schema_version": 3, "solution": true}
def encoder_mask(n: int) -> tuple[Bool[Tensor, "n n"], int]:
    """All tokens see all tokens."""
    ### BEGIN SOLUTION
    return torch.ones(n, n, dtype=torch.bool), n * n
    ### END SOLUTION


def decoder_mask(n: int) -> tuple[Bool[Tensor, "n n"], int]:
    """Causal: a token sees itself and what came before."""
    ### BEGIN SOLUTION
    return torch.ones(n, n, dtype=torch.bool).tril(), n * (n + 1) // 2
    ### END SOLUTION


def cross_mask(n: int, m: int) -> tuple[Bool[Tensor, "n m"], int]:
    """n queries see all m keys of another sequence."""
    ### BEGIN SOLUTION
    return torch.ones(n, m, dtype=torch.bool), n * m
    ### END SOLUTION


def prefix_mask(n: int, p: int) -> tuple[Bool[Tensor, "n n"], int]:
    """The first p tokens see each other both ways; everything else is causal. 1 ≤ p ≤ n."""
    ### BEGIN SOLUTION
    place = torch.arange(n)
    mask = (place <= place[:, None]) | (place < p)
    return mask, n * (n + 1) // 2 + p * (p - 1) // 2  # new: what lies above the diagonal of the p × p block
    ### END SOLUTION


def sliding_window_mask(n: int, w: int) -> tuple[Bool[Tensor, "n n"], int]:
    """A token sees itself and the w − 1 before it. The window may be longer than the text."""
    ### BEGIN SOLUTION
    place = torch.arange(n)
    back = place[:, None] - place
    w = min(w, n)
    return (back >= 0) & (back < w), n * w - w * (w - 1) // 2  # the first w − 1 rows miss w − 1, …, 1 keys
    ### END SOLUTION


def global_tokens_mask(n: int, r: int, g: int) -> tuple[Bool[Tensor, "n n"], int]:
    """A token sees itself and r to either side; the first g see all and are seen by all."""
    ### BEGIN SOLUTION
    place = torch.arange(n)
    near = (place[:, None] - place).abs() <= r
    mask = near | (place < g) | (place[:, None] < g)
    rest = n - g  # among these there is only the band
    beyond = max(rest - r - 1, 0)  # two corners of the band are missing, triangles with this many rows
    return mask, rest * rest - beyond * (beyond + 1) + 2 * g * n - g * g
    ### END SOLUTION


def packed_mask(lengths: tuple[int, ...]) -> tuple[Bool[Tensor, "n n"], int]:
    """Documents of these lengths, one after the other: causal, and each sees only itself."""
    ### BEGIN SOLUTION
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    same = document[:, None] == document
    return same.tril(), sum(size * (size + 1) // 2 for size in lengths)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: positions</summary>
#
# With `place = torch.arange(n)`, `place[:, None] - place` is how far key j lies behind query i. Most masks are
# conditions on that number.
# </details>
# <details><summary>Hint 2: counting a union</summary>
#
# Start from a region that you can count and add only what is *new*. Prefix: the causal triangle, plus what lies above
# the diagonal in the p × p block. Global tokens: g full rows and g full columns (they overlap), plus a band among the
# other n − g tokens.
# </details>
# <details><summary>Hint 3: documents</summary>
#
# Give each token the number of its document, for example with `torch.repeat_interleave`. A pair needs equal numbers,
# and causal order.
# </details>
# <details><summary>If the mask is right and the count isn't</summary>
#
# Draw the mask for n = 5 on paper and count row by row. Try the extremes as well: a window of 1, a window longer than
# the text.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $n, m, w \ge 1$; $r \ge 0$; $0 \le g \le n$; $1 \le p \le n$. Windows and bands may be longer than the text.
# - `lengths` is a tuple of `int`s, each at least 1.
# - The number is exact, and no tensor. A Python `sum` over numbers made from the sizes is also a formula.
# - No number is read off a tensor: no `item`, `int(…)`, `tolist`, `nonzero`, `unique`, `mask[mask]`, no `if` on a cell.
#   A function that does so gets no points.
# - A mask may be a view made with `expand`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "mask_zoo_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.mask_zoo(encoder_mask, decoder_mask, cross_mask, prefix_mask, sliding_window_mask, global_tokens_mask,
               packed_mask, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import masking as hidden
check.mask_zoo(encoder_mask, decoder_mask, cross_mask, prefix_mask, sliding_window_mask, global_tokens_mask,
               packed_mask, points=3, cases=hidden.mask_zoo)
### END HIDDEN TESTS

# %%
plots.mask_zoo({
    "encoder, n = 12": lambda: encoder_mask(12),
    "decoder, n = 12": lambda: decoder_mask(12),
    "cross, n = 12, m = 9": lambda: cross_mask(12, 9),
    "prefix LM, p = 5": lambda: prefix_mask(12, 5),
    "sliding window, w = 4": lambda: sliding_window_mask(12, 4),
    "global tokens, r = 1, g = 2": lambda: global_tokens_mask(12, 1, 2),
    "packed, lengths 5, 3, 4": lambda: packed_mask((5, 3, 4)),
})

# %% [markdown]
# **Look at the window and at the global tokens.** For a long text their counts grow in proportion to $n$, by about $w$
# and about $2r + 1 + 2g$ pairs per token, not like $n^2$. Whether that saves anything depends on who computes: the
# plain way makes all $n^2$ scores and throws most of them away. Units 09 and 10 skip what is hidden.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "3.1 Allowed cells of the 6×6 causal mask": (guess_allowed_cells, lambda: int(causal_mask(6).sum())),
    "3.5 The hidden score's lead at which nothing is left in float16, about": (guess_lead, 17.3),
    "3.8 The shape of padding and causal together": (guess_shape, tuple(torch.broadcast_shapes((3, 1, 6, 6), (6, 6)))),
    "3.10 Places to cut a text of 9 tokens": (guess_cuts, 8),
    "3.12 The lower loss at the end": (guess_lower_loss, min(trained, key=lambda name: trained[name].losses[-1])),
    "3.12 The better sentences": (guess_better_writer, "with mask"),
})

# %% [markdown]
# ## What you have now
#
# - A **mask** is a condition on a query and a key. True = may attend. Masks are combined with `&`.
# - It goes on the **scores**, as $-\infty$, before the softmax. Rows with nothing allowed need care.
# - **Causal** masking makes one pass over a text train $n$ predictions at once. The targets are the inputs, shifted by
#   one; −100 is ignored.
# - A **leak** shows as a loss that is too good. Change the future and compare the past, at every cut.
# - Counting pairs tells you what a mask could save.
#
# **Read more**
#
# - Vaswani et al. (2017), section 3.2.3: where the mask of a decoder stands, in one paragraph.
# - Raffel et al. (2020), *Exploring the Limits of Transfer Learning* (T5), section 3.2.1: causal, full and prefix masks
#   as pictures, and compared.
# - Child et al. (2019), *Generating Long Sequences with Sparse Transformers*, and Beltagy et al. (2020), *Longformer*:
#   the zoo's wilder animals.
# - Krell et al. (2021), *Efficient Sequence Packing without Cross-contamination*: why several texts share a row, and
#   the mask that keeps them apart.
#
# **Next:** in unit 04 several heads look at the same tokens, each with weights of its own, and all with the same mask.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=3)
