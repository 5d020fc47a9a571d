# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 00 · Start here
#
# In this course you write attention yourself, from one dot product to a model that tells stories and a kernel for the
# GPU. Five minutes from here to your first green card: you write a function, run the cell below it, and a card tells
# you what is right and what went wrong. Then you warm up with shapes.
#
# **After this unit you can**
# - work in a notebook of this course, on Colab or on your own computer, and hand it in;
# - read a card: what passed, what failed, and what probably happened;
# - multiply matrices row by row, average rows with weights, and read an einsum.
#
# **If you are on Colab**, do this first: *File → Save a copy in Drive*. What you write is then kept when you close the
# tab. The free runtime without a GPU is enough.
#
# **Now run the cell below**, whose code is folded away: press Shift + Enter twice (the first time only steps down to
# it), or on Colab its ▶. There it fetches the course's helpers, which takes a minute. Then it says what it found. You
# have about half an hour, and 4 points to earn.

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
# You should see one line that ends with **Ready**: your versions of Python and PyTorch, the device, and whether Triton
# is there. Triton is the language of the GPU kernels in unit 09. *Compiled* means that it runs on a GPU, *interpreted*
# that it runs slowly on the CPU, which is fine for learning. If you see an error instead, restart (*Runtime → Restart
# session* on Colab, *Kernel → Restart Kernel* in JupyterLab) and run the cell again.
#
# Here is the way through the course, and what you will make on it: take the units from top to bottom. The blue line
# leads to a unit through all that it cannot do without. So you may take 07 before 05, once you have 04, and no unit
# waits for 01: its question is the reason for all the others, and unit 10 comes back to it (the gray line).

# %%
plots.course_map()

# %% [markdown]
# ## What a card looks like
#
# Here is a small task that earns no points: the mean of every row of a matrix. And here is an answer that is wrong on
# purpose. Run both cells.

# %%
def row_means(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """The mean of every row. (Wrong on purpose.)"""
    return x.mean(dim=0)

# %%
check.row_means(row_means, points=1)

# %% [markdown]
# **How to read it.**
# - The headline: the name of the task, and your points.
# - **What happened**: the check knows the slips that people make. If one of them gives exactly your output, it says
#   which one, and what idea was missed.
# - Numbers, for the first input that failed: what was expected and what your function gave. Here even the shapes
#   differ. Where they agree, the difference is drawn too.
# - A line of ✓ and ✗: the inputs that were tried. They are drawn afresh at every run, so numbers can't be learned by
#   heart. `n = 3, d = 4` is a matrix with 3 rows and 4 columns.
# - If your function stops with an error, the card shows the message and your own line.
#
# The next answer is half right. It works for a matrix, but not for a batch of matrices. Most functions in this course
# must work with extra axes in front (`*batch` in the type hints).

# %%
def row_means(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """The mean of every row. (Half right.)"""
    return x.mean(dim=1)


check.row_means(row_means, points=1)

# %% [markdown]
# An amber card: two of three inputs are right, and that earns half of the point. The share is rounded down to a quarter
# of a point. Now the right answer:

# %%
def row_means(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n"]:
    """The mean of every row."""
    return x.mean(dim=-1)


check.row_means(row_means, points=1)

# %% [markdown]
# Green. Your turn.
#
# ## 0.1 All dot products  ●○○ · 5 min · 1 point
#
# Given `a` with $n$ rows and `b` with $m$ rows, all of width $d$: return the table of all dot products. Entry $(i, j)$
# is row $i$ of `a` with row $j$ of `b`. Attention begins with this table: the rows of `a` will be queries, and those of
# `b` keys.
#
# **By hand.** `a` has the rows $(1, 0)$ and $(1, 2)$; `b` has the row $(3, 4)$. The dot products are $3$ and
# $3 + 8 = 11$. The table has 2 rows and 1 column.
#
# Before you write anything, run the check once: a gray card says that nothing was attempted. Then replace
# `raise NotImplementedError` with your answer, run the cell (nothing happens yet), and run the check below it.

# %%
plots.row_pairs(n=3, m=4, d=2, row=1, column=2)

# %% nbgrader={"grade": false, "grade_id": "pairwise_dot", "locked": false, "schema_version": 3, "solution": true}
def pairwise_dot(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Entry (i, j) is the dot product of row i of a with row j of b."""
    ### BEGIN SOLUTION
    return a @ b.T
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: hints are folded away like this one</summary>
#
# Open one at a time, when you are stuck. They begin with a nudge.
# </details>
# <details><summary>Hint 2: a matrix product</summary>
#
# Entry (i, j) of `x @ y` is row i of x with <i>column</i> j of y. You want row j of b. What turns rows into columns?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Such a fold stands above every check and holds the fine print: what comes in, what must hold, what may be used. You
#   rarely need it.
# - Here: two matrices of one width and any numbers of rows, 1 included.
# </details>

# %% nbgrader={"grade": true, "grade_id": "pairwise_dot_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.pairwise_dot(pairwise_dot, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import start_here as hidden
check.pairwise_dot(pairwise_dot, points=1, cases=hidden.pairwise_dot)
### END HIDDEN TESTS
# %% [markdown]
# Green? Then you know how everything here works. The rest is about shapes.
#
# ## 0.2 Weighted averages  ●●○ · 10 min · 2 points
#
# The second half of attention: mixing rows. Given $n$ rows and, for each of $m$ averages, $n$ positive weights:
#
# $$\text{average}_j = \frac{\sum_i w_{ji}\, x_i}{\sum_i w_{ji}}$$
#
# Make it work for batches too: weights $(…, m, n)$ and rows $(…, n, d)$ with any number of axes in front. You need no
# loop over them: `@` treats leading axes as a batch.
#
# **By hand.** Rows $(0, 0)$ and $(4, 8)$ with weights 3 and 1: $(0 + 4, 0 + 8)/4 = (1, 2)$. It lies nearer to the row
# with more weight.

# %%
plots.average_of_rows(weights=[3.0, 1.0, 1.0], rows=[[0.0, 0.0], [4.0, 2.0], [1.0, 3.0]])

# %% nbgrader={"grade": false, "grade_id": "weighted_rows", "locked": false, "schema_version": 3, "solution": true}
def weighted_rows(
    weights: Float[Tensor, "*batch m n"], rows: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch m d"]:
    """Row j is the average of the rows with weights[j]. All weights are positive."""
    ### BEGIN SOLUTION
    return weights @ rows / weights.sum(dim=-1, keepdim=True)  # (*batch, m, d) / (*batch, m, 1)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: write the shapes under the letters</summary>
#
# (m, n) times (n, d) is (m, d). And how many sums of weights are there, one for each row or one for each column?
# </details>
# <details><summary>Hint 2: dividing an (m, d) matrix by m numbers</summary>
#
# Shapes are lined up from the right, so the divisor must be (m, 1). `keepdim=True` leaves an axis of size 1 where the
# sum was taken.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any number of axes in front, the same for weights and rows, or none.
# - The weights are positive and need not sum to 1. float32 and float64.
# </details>

# %% nbgrader={"grade": true, "grade_id": "weighted_rows_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.weighted_rows(weighted_rows, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import start_here as hidden
check.weighted_rows(weighted_rows, points=2, cases=hidden.weighted_rows)
### END HIDDEN TESTS
# %% [markdown]
# ## 0.3 Read the shape  ●○○ · 5 min · 1 point
#
# `torch.einsum` names the axes by letters. The same letter means the same axis. A letter that stands after the arrow
# stays, in the order given there. A letter that doesn't is summed over, and its axis is gone.
#
# **By hand.** `torch.einsum("ij,jk->ik", x, y)` with shapes (2, 3) and (3, 4): j is summed over, i and k stay. That is
# the matrix product, shape (2, 4).
#
# Which shapes do these have? The tensors: `x` (2, 3, 4), `w` (4, 5), `q` (2, 6, 3, 7), `k` (2, 6, 8, 7), `a` (3, 4),
# `c` (5, 4).
#
# | | expression |
# |---|---|
# | 1 | `torch.einsum("bnd,de->bne", x, w)` |
# | 2 | `torch.einsum("bhnk,bhmk->bhnm", q, k)` |
# | 3 | `torch.einsum("bhnk->bnhk", q)` |
# | 4 | `torch.einsum("bnd->d", x)` |
# | 5 | `torch.einsum("nd,md->mn", a, c)` |
#
# This is a **quiz**: you answer with a function as well, so that an unanswered question never stops the notebook. Work
# it out on paper. A shape with one axis is written `(9,)` in Python.

# %% nbgrader={"grade": false, "grade_id": "read_shape", "locked": false, "schema_version": 3, "solution": true}
def read_shape() -> tuple[tuple[int, ...], ...]:
    """The five shapes, in order: five tuples of whole numbers."""
    ### BEGIN SOLUTION
    return (2, 3, 5), (2, 6, 3, 8), (2, 3, 6, 7), (4,), (5, 3)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Five tuples of whole numbers, in order.
# </details>

# %% nbgrader={"grade": true, "grade_id": "read_shape_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.read_shape(read_shape, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import start_here as hidden
check.read_shape(read_shape, points=1, cases=hidden.read_shape)
### END HIDDEN TESTS
# %% [markdown]
# ## How your work is graded
#
# **Checks and hidden tests.** The check in the notebook and the grader's are the same. The grader also tries a few more
# inputs: other sizes, an edge case, large numbers. If your card is green because you understood, they are no surprise.
# Run a green check two or three times: its inputs change.
#
# **What holds everywhere**, so that no exercise has to repeat it:
# - Your function leaves its inputs unchanged, and a second call doesn't depend on the first.
# - No result is less precise than its inputs: the checks use float64 too. A more precise one is fine.
# - Every length is at least 1, and 1 does come up. `*batch` is any number of axes, none included.
# - Where a count is asked for, `6.0` is as good as `6`.
# - Gradients are checked where a fold says so. There, don't write into a tensor of which an earlier step has read
#   anything.
#
# **Partial points.** Every input that you get right counts. A forbidden function (an exercise says so: "without …")
# earns nothing for that exercise.
#
# **Written questions** are marked by a person. Double-click the cell, replace *Your answer here*, and keep to two or
# three sentences unless it says otherwise. Formulas in dollar signs are welcome: `$QK^\top$`.
#
# **Guesses** are not graded. Before a measurement a unit often asks what will come out, with a cell such as
# `guess_factor = None  # a number`. Replace `None` with your guess, run the cell, and measure. The answer is folded
# away below the measurement, and the end of the unit shows your guesses beside what came out. A guess that you leave
# out stops nothing.
#
# **What to leave as it is.** The cells with stubs and checks carry an invisible name by which the grader finds them.
# - Don't delete, copy, split or merge them, and don't rename functions or their parameters.
# - Editing a check is harmless and useless: the grader uses its own.
# - Add as many cells of your own as you like, anywhere.
#
# ## How to hand in
#
# First run everything from the top: *Runtime → Restart session and run all* on Colab, *Kernel → Restart Kernel and Run
# All Cells* in JupyterLab. A function that works only because of something you deleted long ago will fail now.
#
# - **Colab**: *File → Download → Download .ipynb*. Upload that file where your instructor says. (A link to
#   Colab or a PDF can't be graded.)
# - **JupyterLab**: *File → Save Notebook*, and hand in the `.ipynb` file. If your course runs nbgrader's server, use
#   *Nbgrader → Assignment List → Submit* instead.
#
# An unfinished notebook may be handed in. What is not attempted earns nothing and breaks nothing.
#
# ## Conventions of the whole course
#
# A page to come back to. Where papers differ, this is what we mean.
#
# Letters:
#
# - $n$, $m$: the number of queries and of keys. In self-attention both are the number of tokens.
# - $b$: sequences in a batch.
# - $d$: the width of a token (papers: $d_\text{model}$). $d_k$, $d_v$: of a key and of a value. $d_\text{ff}$: of the
#   hidden layer of an FFN.
# - $h$, $h_{kv}$, $d_h$: heads, key/value heads where they are fewer, and the width of one head, usually $d/h$.
# - $L$: layers (and, only in unit 09, the logsumexp of a row).
# - $Q$, $K$, $V$: queries, keys, values. $S$, $P$, $O$: scores, attention weights, output.
# - $w$, $g$: the size of a window, the number of global tokens.
# - $r$: in unit 03 the reach to one side; in 07 and 10 the number of rows to which keys and values are shortened.
#
# Rules:
#
# - **Shapes.** Tokens are rows: $Q$ is $(n, d)$. Axes for batch and heads stand in front: $(b, h, n, d_h)$. Scores are
#   $(n, m)$: rows are queries, columns are keys. Everything is counted from 0.
# - **Masks.** True means: may attend. (PyTorch's `scaled_dot_product_attention` agrees, its `nn.MultiheadAttention`
#   means the opposite.)
# - **FLOPs.** One multiply-add is 2. Only matrix products are counted. A score that is masked afterwards has been
#   computed, so it counts. It does not count where the method never makes it: skipped tiles in unit 09, windows in
#   unit 10.
# - **Memory.** An *element* is one number; its bytes are its `itemsize`. kB, MB and GB are powers of 1000.
# - **Windows.** In causal attention (03, 08) a window of $w$ is the token itself and the $w - 1$ before it. In 7.12 it
#   is $w$ tokens around it, itself among them. In unit 10 it is $w$ to *each* side and itself, $2w + 1$ in all, because
#   that makes the formulas shorter.
# - **Global tokens.** In 03 and 10 they are the first $g$ of the $n$ tokens. In 7.12 they come on top, $n + g$ in all.
# - **Logarithms** are natural ones, and losses are in nats. A target of −100 is ignored. Predictions for token $i + 1$
#   stand in row $i$.
#
# ## What you have now
#
# - **All dot products of rows**: one matrix product, shape (n, m). That is how attention compares.
# - **Weighted averages of rows**: a matrix product, divided by the sums of the weights. That is how attention mixes.
# - **einsum**: letters after the arrow stay, the others are summed over.
# - Cards, hints, hidden tests, and the way to hand in.
#
# **Next:** unit 01 asks why attention took over from recurrent networks: what can be computed at the same time, and
# what has to wait. (No other unit needs its exercises: if time is short, go on with unit 02.)

# %% [markdown]
# ## Where you stand
#
# `check.progress()` in any cell shows what your checks gave so far, what is open, and what comes next. It knows what
# has run since the kernel started, no more. Every unit ends with it.

# %%
check.progress(unit=0)
