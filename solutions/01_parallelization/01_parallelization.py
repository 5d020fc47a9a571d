# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · Parallelization
#
# A modern processor does thousands of multiplications at once, if nothing makes it wait. A recurrent network makes it
# wait at every token. Attention waits only between layers, and pays for that with more arithmetic on long texts. That
# difference is why Transformers could grow.
#
# **After this unit you can**
# - write a recurrent encoder and attention, and say which of their results have to wait for which;
# - say in which step every token of every layer can run, for models that read and models that write;
# - split attention into chunks for a pool of workers, and layers into a pipeline of devices;
# - turn a linear recurrence into a scan of depth $\lceil \log_2 n \rceil$, and say why that fails for a tanh RNN;
# - measure how fast your machine multiplies, and see what waiting costs.
#
# **How to work.** Read a section, write the function, run the check below it. A check tells you what is wrong, not just
# that something is. Hints are folded away: open one at a time. You have about 2¾ hours, and 20 points to earn.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% [markdown]
# ## 1.1 A recurrent encoder  ●○○ · 15 min · 2 points
#
# A recurrent network reads a text as you do: word by word, with a **state** that remembers what came before. Each step
# mixes the new token into the old state:
#
# $$h_t = \tanh(x_t W_x + h_{t-1} W_h + \text{bias}), \qquad h_0 = 0$$
#
# The encoder hands over all its states, one per token. All steps use the same weights. A token is a row, so the weights
# stand on the right.
#
# **By hand.** Width 1, $W_x = 1$, $W_h = ½$, bias 0, and the tokens 1, 0, 0. The states are $\tanh(1) = 0.76$,
# $\tanh(0.38) = 0.36$, $\tanh(0.18) = 0.18$. The first token echoes through all later states, ever more faintly.
#
# Write the steps yourself, without PyTorch's recurrent layers and cells. The encoder is meant to be trained, so
# gradients must find their way back through all the steps of a long text.

# %%
plots.rnn_unrolled(["The", "cat", "sat", "down"])

# %% [markdown]
# **Before you write:** you have as many processors as you like. How many of the four states $h_1 … h_4$ in the picture
# can be computed in the first step?

# %%
guess_first_step = None  # a number

# %% nbgrader={"grade": false, "grade_id": "rnn_encoder", "locked": false, "schema_version": 3, "solution": true}
def rnn_encoder(
    x: Float[Tensor, "b n d_in"],
    w_x: Float[Tensor, "d_in d"],
    w_h: Float[Tensor, "d d"],
    bias: Float[Tensor, "d"],
) -> Float[Tensor, "b n d"]:
    """Without PyTorch's recurrent layers: all h_t = tanh(x_t W_x + h_{t−1} W_h + bias)."""
    ### BEGIN SOLUTION
    state = torch.zeros(x.shape[0], w_h.shape[0], dtype=x.dtype, device=x.device)
    states = []
    for t in range(x.shape[1]):
        state = torch.tanh(x[:, t] @ w_x + state @ w_h + bias)  # (b, d)
        states.append(state)
    return torch.stack(states, dim=1)  # (b, n, d)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: which axis is time?</summary>
#
# `x` has the shape (b, n, d_in): sentence, token, feature. `x[:, t]` is token t of every sentence in the batch.
# </details>
# <details><summary>Hint 2: collecting the states</summary>
#
# Append each new state to a list and put the list together at the end. `torch.stack(states, dim=1)` makes a new axis at
# position 1.
# </details>
# <details><summary>If you see "expected all tensors to be … same dtype"</summary>
#
# The zero state must have the dtype (and device) of the tokens: `x.new_zeros(…)` takes both from `x`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64. What goes into a tanh may be in the hundreds.
# - Texts of up to 1,200 tokens: too many for a function that calls itself once per token.
# - Gradients with respect to `x`, both weights and the bias, through 130 tokens: don't detach a state.
# - No PyTorch function with *rnn*, *gru* or *lstm* in its name: neither layers (`nn.RNN`) nor cells (`nn.RNNCell`).
# </details>

# %% nbgrader={"grade": true, "grade_id": "rnn_encoder_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.rnn_encoder(rnn_encoder, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.rnn_encoder(rnn_encoder, points=2, cases=hidden.rnn_encoder)
### END HIDDEN TESTS

# %% [markdown]
# The check also puts the same weights into PyTorch's own `nn.RNN`, and compares the states.
#
# <details><summary>In the first step</summary>
#
# One state, $h_1$. Each of the others has an arrow from the state before it, so a second processor has nothing to do,
# however many tokens are known. (In training, the gradients then go back through the same chain: another $n$ steps that
# wait for each other.)
# </details>
#
# ## 1.2 One token, then all of them  ●●○ · 25 min · 3 points
#
# **Attention** reaches the other tokens without a state. Every token $i$ has a query $q_i$. Its scores with the keys of
# all tokens become weights, and its output is the mean of all values with these weights. Queries and keys have $d$
# entries:
#
# $$s_j = \frac{q_i \cdot k_j}{\sqrt d}, \qquad \alpha = \operatorname{softmax}(s), \qquad c_i = \sum_j \alpha_j v_j$$
#
# > **What to take on trust here.** Unit 02 takes attention apart. For now:
# >
# > - A layer is given three rows of numbers per token: a **query** (what the token looks for), a **key** (what it
# >   offers to be found by) and a **value** (what it hands over).
# > - The dot product of a query and a key is a **score**. The **softmax** turns the scores of one query into positive
# >   weights that sum to 1.
# > - The output of a token is the mean of all values with these weights. A **Transformer** is a stack of such layers.
# >
# > What counts here is which result needs which others.
#
# **By hand.** Scores 2, 1, 0 give the weights 0.67, 0.24, 0.09. With the values 10, 20, 30 the output is 6.7 + 4.8 +
# 2.7 = 14.2.
#
# Look for what is *not* in the formula: no output $c_{i-1}$. The outputs of different tokens have nothing to do with
# each other. So write it twice, for $n$ queries and $m$ keys (which may belong to another text, so $m$ needn't be $n$):
#
# **(a)** for one token $i$, with a Python loop over the keys: the formula, letter by letter;
#
# **(b)** for all tokens, without a loop. All scores together are $Q K^\top\!/\sqrt d$, a table with one row per token.
# Take a softmax of each row, then multiply by $V$.

# %%
plots.score_table(n=3, m=4)

# %% [markdown]
# **Predict:** a loop over 64 tokens does what (b) does, one token at a time. How many times as many PyTorch calls does
# it make as (b)?

# %%
guess_times_as_many_calls = None  # a number

# %% nbgrader={"grade": false, "grade_id": "attention_one_token", "locked": false, "schema_version": 3, "solution": true}
def attention_one_token(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"], i: int
) -> Float[Tensor, "d_v"]:
    """The output of token i: a loop over the m keys, one softmax, a loop over the m values."""
    ### BEGIN SOLUTION
    scores = torch.stack([q[i] @ key / math.sqrt(q.shape[1]) for key in k])  # (m,)
    output = torch.zeros(v.shape[1], dtype=v.dtype, device=v.device)
    for weight, value in zip(torch.softmax(scores, dim=0), v):
        output = output + weight * value
    return output
    ### END SOLUTION


def attention_all_tokens(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"]
) -> Float[Tensor, "n d_v"]:
    """Without a loop and without `F.scaled_dot_product_attention`: all n outputs."""
    ### BEGIN SOLUTION
    scores = q @ k.T / math.sqrt(q.shape[1])  # (n, m)
    return torch.softmax(scores, dim=1) @ v  # (n, d_v)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1 for (a): when is the softmax taken?</summary>
#
# It needs all scores: their sum is in the denominator. So first a loop that collects scores, then one softmax, then a
# loop that adds up values.
# </details>
# <details><summary>Hint 2 for (b): a table of dot products</summary>
#
# Entry (i, j) of `A @ B` is row i of A times column j of B. You want row i of Q times *row* j of K. What do you do with
# K?
# </details>
# <details><summary>If you see "Your function took … tensor operations"</summary>
#
# Somewhere a Python loop (or a list comprehension) runs over the tokens. Each round calls PyTorch again, and PyTorch
# can't know that the rounds are independent.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $n$ and $m$ ($m < n$ too), $d$ and $d_v$; float32 and float64. Scores may be in the hundreds, and rows of scores
#   may lie far apart.
# - (a) `i` is an `int` from 0 to $n - 1$. Row $i$ of (b) is accepted as well, but you would learn nothing.
# - (b) At most 40 tensor operations, even for 1,100 tokens. (A matrix product is one, an `einsum` several;
#   broadcasting, `einsum` and `torch.vmap` are fine.)
# - (b) All scores stand in one tensor: not block by block, and not as Python numbers.
# - No `F.scaled_dot_product_attention` or other ready-made attention.
# </details>

# %% nbgrader={"grade": true, "grade_id": "attention_one_token_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.attention_one_token(attention_one_token, attention_all_tokens, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.attention_one_token(attention_one_token, attention_all_tokens, points=3,
                          cases=hidden.attention_one_token)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>How many calls?</summary>
#
# 64 times as many: the scores, the softmax and the mixture of one token take as many calls as those of all tokens. With
# a loop over 64 keys inside it, about 64 times more again. (b) makes four or five calls, for any number of tokens.
# </details>
#
# **Measure it.** Your RNN and your attention in matrix form, on this device, over the number of tokens.
#
# **Predict first:** a multiplication and an addition are 2 operations. Attention makes $n^2$ scores of $d$ products
# each, and mixes $n$ values for each of $n$ tokens: together $4 n^2 d$. A step of the RNN is two products of a row with
# a $d \times d$ matrix: $4 n d^2$ for all. With $d = 64$ and $n = 256$ that is four times as much for attention. Which
# one is faster?

# %%
guess_faster = None  # "attention" or "RNN" (quotes included)

# %%
plots.time_over_length(rnn_encoder, attention_all_tokens)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The RNN's line rises in proportion to $n$ from the start: $n$ small steps, each of which waits for the one before.
# Very little of that time is arithmetic. Most of it goes into starting several small operations for each token.
# Attention needs the same few operations for a text of any length, so it is far faster: with the same arithmetic at
# $n = d = 64$, and with more of it beyond. Its $n^2$ shows as soon as the machine is full: on two CPU cores at a few
# hundred tokens, on a GPU much later. Parallel does not mean cheap. Units 07 to 10 are about that price.
# </details>
#
# ## 1.3 The longest chain  ●●○ · 15 min · 2 points
#
# How fast could a model run on a machine with *unlimited* processors? Then only waiting counts. Draw a cell for every
# token in every layer, and an arrow from each cell to those that read it. **Every cell takes one step.** (A
# simplification: a Transformer's cell sums over all $n$ tokens, and that sum alone takes $\lceil \log_2 n \rceil$
# rounds of additions. Section 1.8 counts such rounds.) The **critical path** is the longest chain of cells that wait
# for each other. No machine can be faster.
#
# In the picture, a number is the first step in which a cell can run: one more than the largest number among the cells
# that it reads. Cells with the same number run together. Below it is the same as a film: press play, or step through
# with the arrow keys.
#
# **Before you look at the numbers:** in the stacked RNN layer 2 reads the states of layer 1. Must it wait until layer 1
# has read the whole text?

# %%
guess_layer_2_waits = None  # "yes" or "no"

# %%
plots.dependency_graphs(n=5, layers=3)

# %% [markdown]
# The picture has $n = 5$ tokens and $L = 3$ layers. Now give the critical path for any $n$ and $L$:
#
# 1. of an RNN with one layer that reads $n$ tokens,
# 2. of a stacked RNN with $L$ layers that reads $n$ tokens,
# 3. of a Transformer with $L$ layers that reads $n$ tokens (an encoder, or any Transformer in training, where the whole
#    text is known: section 1.5),
# 4. of a Transformer with $L$ layers that *writes* $n$ tokens, starting from nothing but a start token. Each token
#    written is the next input. Column $t$ of the picture is the pass that writes token $t$: the start token is the
#    input of the first column, and has no column of its own.
#
# **By hand:** the four pictures say 5, 7, 3 and 15. Several formulas give these numbers. Try yours with $n = 1$ and
# with $L = 1$.
#
# <details><summary>Must layer 2 wait for the whole text?</summary>
#
# No. Its first cell needs the first state of layer 1, and nothing else. It starts in step 2, one step behind layer 1.
# </details>

# %% nbgrader={"grade": false, "grade_id": "critical_path", "locked": false, "schema_version": 3, "solution": true}
def rnn_steps(n: int) -> int:
    """Critical path of one RNN layer over n tokens."""
    ### BEGIN SOLUTION
    return n
    ### END SOLUTION


def stacked_rnn_steps(n: int, layers: int) -> int:
    """Critical path of a stacked RNN over n tokens."""
    ### BEGIN SOLUTION
    return n + layers - 1  # a path goes n − 1 times to the right and L − 1 times up
    ### END SOLUTION


def encoder_steps(n: int, layers: int) -> int:
    """Critical path of a Transformer that reads n tokens."""
    ### BEGIN SOLUTION
    return layers  # all arrows go up
    ### END SOLUTION


def decoder_steps(n: int, layers: int) -> int:
    """Critical path of a Transformer that writes n tokens, one after the other."""
    ### BEGIN SOLUTION
    return n * layers  # the next token is known when the last has left the top layer
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: which ways can a path go?</summary>
#
# In the stacked RNN arrows go to the right and up, never back. Every path from the first cell to the last has the same
# number of arrows. How many?
# </details>
# <details><summary>Hint 2: cells, not arrows</summary>
#
# A chain of k arrows has k + 1 cells, and it is the cells that take time.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Exact numbers, for up to 10,000 tokens: a formula or a loop, but no function that calls itself once per token.
# </details>

# %% nbgrader={"grade": true, "grade_id": "critical_path_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.critical_path(rnn_steps, stacked_rnn_steps, encoder_steps, decoder_steps, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.critical_path(rnn_steps, stacked_rnn_steps, encoder_steps, decoder_steps, points=2,
                    cases=hidden.critical_path)
### END HIDDEN TESTS

# %% [markdown]
# ## 1.4 Who runs with whom  ●●○ · 15 min · 2 points
#
# The length of the path is one number. A **schedule** says more: the step in which each cell runs, if every cell runs
# as early as it can. Return a table with one row per layer and one column per token. Row 0 is the first layer (the
# bottom row of the pictures), and the first step is number 1. Mind the arguments: `layers` comes first here, as rows
# do.
#
# A cell of the stacked RNN reads its own layer at the token before, and the layer below at its own token. A cell of the
# Transformer that reads looks at the *whole* layer below. When a Transformer writes, layer 1 reads the token that was
# written before, which came out of the *top* layer; each higher layer reads the one below it.
#
# **By hand.** A stacked RNN with 2 layers and 3 tokens: layer 1 runs in steps 1, 2, 3, and layer 2 one step behind, in
# 2, 3, 4. So the table is $\begin{pmatrix} 1 & 2 & 3 \\ 2 & 3 & 4 \end{pmatrix}$, and two cells run together in steps 2
# and 3.
#
# **Predict:** what is the largest number of cells that can run together in a stacked RNN with 4 layers, if the text is
# long?

# %%
guess_side_by_side = None  # a number

# %% nbgrader={"grade": false, "grade_id": "layers_in_sequence", "locked": false, "schema_version": 3, "solution": true}
def rnn_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The steps of a stacked RNN: a cell reads the cell to its left and the one below."""
    ### BEGIN SOLUTION
    layer, token = torch.arange(layers)[:, None], torch.arange(n)[None, :]
    return layer + token + 1  # a diagonal is a wavefront
    ### END SOLUTION


def transformer_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The steps of a Transformer that reads: a cell reads the whole layer below."""
    ### BEGIN SOLUTION
    layer = torch.arange(layers)[:, None]
    return (layer + 1).expand(layers, n)  # a row is a step
    ### END SOLUTION


def writing_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The steps of a Transformer that writes: layer 1 reads the token just written."""
    ### BEGIN SOLUTION
    layer, token = torch.arange(layers)[:, None], torch.arange(n)[None, :]
    return token * layers + layer + 1  # column after column, from the bottom to the top
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two columns of numbers that broadcast</summary>
#
# `torch.arange(layers)[:, None]` has shape (layers, 1) and `torch.arange(n)` has shape (n,). Their sum has shape
# (layers, n).
# </details>
# <details><summary>Hint 2: a slow way that is always right</summary>
#
# Two loops over layers and tokens, and in each cell one more than the maximum over the cells that it reads. Write that
# if you like: it is right too.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A tensor of whole numbers, int64 (PyTorch's usual) or int32; smaller types can't count the steps of a long text. A
#   view made with `expand` is fine.
# - 1 to 7 layers, up to 300 tokens.
# </details>

# %% nbgrader={"grade": true, "grade_id": "layers_in_sequence_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.layers_in_sequence(rnn_schedule, transformer_schedule, writing_schedule, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.layers_in_sequence(rnn_schedule, transformer_schedule, writing_schedule, points=2,
                         cases=hidden.layers_in_sequence)
### END HIDDEN TESTS

# %%
plots.schedules({
    "stacked RNN": rnn_schedule,
    "Transformer that reads": transformer_schedule,
    "Transformer that writes": writing_schedule,
}, layers=4, n=6)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# All three do the same 24 cells of work. The lower row shows how many run at once. The stacked RNN has a hill that is
# never higher than its number of layers: 4, however long the text. The Transformer that reads runs whole rows: with a
# text of 1000 tokens, 1000 cells at once. While it writes, nothing runs side by side, and most of a GPU is idle. Unit
# 08 starts from there.
# </details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_rnn_waits_question", "locked": true, "schema_version": 3, "solution": false}
# ### Why does an RNN wait?  ●○○ · 5 min · 1 point
#
# In two or three sentences: why can't the tokens of an RNN encoder be computed side by side, not even with unlimited
# processors and with the whole text known? Would it help if the tokens' products $x_t W_x$ were computed beforehand?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: $h_t$ is computed from $h_{t-1}$, which is computed from $h_{t-2}$, and so on: a chain of n dependent
#   steps. That the tokens are all known doesn't help, because the *states* are not. The tanh between the steps keeps
#   the chain from being regrouped or shortened.
# - ½ point: the products $x_t W_x$ depend on no state and can all be computed at once (that saves work inside the
#   chain), but the chain of $h_{t-1} W_h$ and tanh remains: still n steps.
#
# Accept any wording. "Because it has a loop" or "because it is sequential" alone earns nothing: attention can be
# written as a loop too.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_rnn_waits", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# Every state is a function of the state before it, down to the first: a chain of $n$ steps, each of which needs the
# *result* of the one before. Knowing all tokens beforehand is not enough, since nobody knows the states, and because of
# the tanh the chain can't be replaced by a shorter one. The products $x_t W_x$ need no state, so they can all be
# computed at once. That makes each step cheaper, but the chain of $h_{t-1} W_h$ and tanh stays $n$ long.

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_layers_wait_question", "locked": true, "schema_version": 3, "solution": false}
# ### Why can tokens run together, and layers not?  ●○○ · 5 min · 1 point
#
# In two or three sentences: why can all tokens within a layer of a Transformer be computed side by side, and why do its
# layers still have to wait for each other?
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: within a layer, the output of a token is computed from the layer's *inputs* (its own query, the keys and
#   values of all tokens), which are all there when the layer starts; no output of the layer is needed for another
#   output of the same layer.
# - ½ point: the next layer's inputs are this layer's outputs, and because of attention a token of the next layer needs
#   the outputs of *all* tokens of this one, so nothing of it can start before the whole layer is done.
#
# Full points also for a correct answer in terms of arrows in the dependency graph.
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_layers_wait", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# Within a layer every output reads only what comes into the layer: its own query, and the keys and values of all
# tokens. These are all known when the layer starts, and no output reads another output of the same layer, so all can
# run at once. The next layer is made from this layer's outputs, and each of its tokens looks at all of them, so it
# can't begin before the whole layer is done. $L$ layers are $L$ steps in a row.

# %% [markdown]
# ## 1.5 Passes through the model  ●○○ · 3 min · 1 point
#
# (If you have time: 1.3 has nearly given the answers away.) A **forward pass** is one run through all layers, on as
# many tokens as are known. A language model learns to predict each next token from those before it.
#
# In training the text is known. Position $t$ is given the *true* tokens up to $t$, whatever the model would have said
# there: this is called **teacher forcing**. When the model writes, its own words are the inputs.
#
# For a Transformer language model and a text of **128 tokens**, return how many forward passes it takes
#
# 1. to train on it once, so that each of the 128 tokens is predicted from those before it (the first from a start
#    token),
# 2. to write 128 tokens, from only a start token.

# %% nbgrader={"grade": false, "grade_id": "forward_passes", "locked": false, "schema_version": 3, "solution": true}
def forward_passes() -> tuple[int, int]:
    """Forward passes to train once on a text of 128 tokens, and to write one."""
    ### BEGIN SOLUTION
    return 1, 128
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Both numbers, exact.
# </details>

# %% nbgrader={"grade": true, "grade_id": "forward_passes_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.forward_passes(forward_passes, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.forward_passes(forward_passes, points=1, cases=hidden.forward_passes)
### END HIDDEN TESTS

# %% [markdown]
# In that one training pass no position may peek at the token that it has to predict. A mask prevents it: unit 03.
#
# ## 1.6 Work for a pool  ●●○ · 20 min · 2 points
#
# Real machines have 2, 16 or 10,000 processors, not infinitely many. The work has to be cut into **chunks**. Attention
# is easy to cut: the outputs of different tokens don't need each other, so give each worker some of the *queries*. A
# worker then needs its own queries, and the keys and values of **all** tokens. (Unit 09 cuts the keys as well.)
#
# **By hand.** $n = 10$ queries in chunks of 4: rows 0–3, 4–7 and 8–9. That is $\lceil 10/4 \rceil = 3$ chunks, and the
# last is short. A chunk's table of scores is $4 \times m$ instead of $10 \times m$, so it also needs less memory.
#
# **(a)** What a worker does: rows `start` … `stop − 1` of the output, without computing the others.
#
# **(b)** What the program that hands out the work does: call `task(start, stop)` once per chunk of `size` rows, in the
# given `order`, and put the results where they belong. `order = [2, 0, 1]` means that chunk 2 is computed first.
# Workers finish when they like, so the order must not change the result.

# %% nbgrader={"grade": false, "grade_id": "chunked_attention", "locked": false, "schema_version": 3, "solution": true}
def attention_chunk(
    q: Float[Tensor, "n d"],
    k: Float[Tensor, "m d"],
    v: Float[Tensor, "m d_v"],
    start: int,
    stop: int,
) -> Float[Tensor, "c d_v"]:
    """Without `F.scaled_dot_product_attention`: rows start … stop − 1 of softmax(q kᵀ / √d) v,
    and no others; c = stop − start."""
    ### BEGIN SOLUTION
    scores = q[start:stop] @ k.T / math.sqrt(q.shape[1])  # (c, m)
    return torch.softmax(scores, dim=1) @ v
    ### END SOLUTION


def chunked_attention(task, n: int, size: int, order: list[int]) -> Float[Tensor, "n d_v"]:
    """All n rows of the output, from chunks of `size` rows, computed in the given `order`.

    task(start, stop): rows start … stop − 1, computed by a worker.
    """
    ### BEGIN SOLUTION
    rows = [None] * len(order)
    for chunk in order:
        rows[chunk] = task(chunk * size, min(n, (chunk + 1) * size))
    return torch.cat(rows)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1 for (a): what is cut?</summary>
#
# Only Q. Write down the shapes of the scores and of the weights for c queries and m keys.
# </details>
# <details><summary>Hint 2 for (b): results that come in any order</summary>
#
# Keep them under their chunk's number (in a list with empty places, or a dictionary), and join them at the end.
# </details>
# <details><summary>If your output has too few rows</summary>
#
# `n // size` rounds down. How many chunks are there if n isn't a multiple of size?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64. Scores may be in the hundreds, and rows of scores may lie far apart.
# - (a) Your largest tensor is measured, for $c$ rows out of many more ($n > c \cdot d$): $c \times m \times d$ or
#   $c \times m \times d_v$ numbers, as broadcasting makes them, are accepted; $n \times m$ are too many. (Scaling all
#   of `q` first is fine.)
# - (a) No `F.scaled_dot_product_attention`, which doesn't show what it makes inside.
# - (b) `order` is a list with the number of every chunk once. Call `task` one call after the other; threads come in the
#   measurement below.
# - (b) No other call of `task`, not even to learn the width.
# - (b) The last chunk may be short, and `size` may exceed $n$: its `stop` is $n$, not more.
# - (b) Every call returns a new tensor: no need to clone it.
# </details>

# %% nbgrader={"grade": true, "grade_id": "chunked_attention_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.chunked_attention(attention_chunk, chunked_attention, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.chunked_attention(attention_chunk, chunked_attention, points=2, cases=hidden.chunked_attention)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** Your `attention_chunk` runs in pools of workers on this machine: threads, each of which takes the next
# chunk when it is done with its last. (PyTorch releases Python's lock while it multiplies, so threads really run side
# by side.)
#
# **Predict first:** with two workers, will it take exactly half the time, or more?

# %%
guess_two_workers = None  # "half" or "more"

# %%
plots.worker_pool(attention_chunk, n=2048, size=128)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Nearly half, if your machine has two free cores. Why not quite half? The workers share one memory, the last chunks
# don't end at the same moment, and other programs want the cores too. More workers than cores gain nothing.
# </details>
#
# ## 1.7 A pipeline of layers  ●●○ · 15 min · 2 points
#
# A large model doesn't fit on one device. Put each of its $L$ layers on a device of its own. Layers wait for each
# other, so with a single batch only one device works at a time. The remedy is an assembly line (GPipe, Huang et al.,
# 2019): cut the batch into $M$ **micro-batches** and send them in one after the other. While device 2 works on the
# first, device 1 takes the second. The examples of a batch don't need each other, so nothing is lost.
#
# It is the wavefront of the stacked RNN again, with micro-batches for tokens. The hatched corners are the **bubble**:
# devices that wait for work (fill) or have run out of it (drain).

# %%
plots.pipeline_charts(layers=4, micro_batches=[1, 4])

# %% [markdown]
# **By hand.** $L = 4$, $M = 4$: 7 steps. Of the 4 · 7 = 28 places 16 are used and 12 are idle: a fraction of 12/28 =
# 3/7 = 0.43.
#
# For the forward pass, in which each layer takes one step per micro-batch, return two numbers: how many steps it takes
# until the last micro-batch has left the last device, and what fraction of all device time is idle. (In a paper you may
# find $(L - 1)/M$: idle time over *working* time.)

# %% nbgrader={"grade": false, "grade_id": "pipeline_steps", "locked": false, "schema_version": 3, "solution": true}
def pipeline_steps(layers: int, micro_batches: int) -> tuple[int, float]:
    """Steps until all micro-batches are through, and the idle fraction of device time."""
    ### BEGIN SOLUTION
    steps = micro_batches + layers - 1
    return steps, (layers - 1) / steps  # each device works in M of these steps
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: look at one device</summary>
#
# Every device works on M micro-batches, one step each. How many steps does the whole thing take? For the rest of them
# it is idle, and that is the same for all devices.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The number of steps, and the fraction, not rounded: to within a thousandth of itself.
# - More layers than micro-batches, one layer, one micro-batch.
# </details>

# %% nbgrader={"grade": true, "grade_id": "pipeline_steps_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.pipeline_steps(pipeline_steps, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.pipeline_steps(pipeline_steps, points=2, cases=hidden.pipeline_steps)
### END HIDDEN TESTS

# %%
plots.idle_share(pipeline_steps)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# One micro-batch on 16 devices: 94% idle. To keep 16 devices busy nine tenths of the time you need 135 micro-batches
# ($15/(M + 15) \le 0.1$), and each of them gets small.
# </details>
#
# **And the backward pass?** Training goes backward through the same devices, and a layer's backward pass takes about
# twice as long (7.14 says why). Follow one device, and see what the first one has to keep.

# %%
plots.pipeline_film(devices=4, batches=4)

# %% [markdown]
# <details><summary>What the first device has to keep</summary>
#
# Something of all $M$ micro-batches: its backward pass is the last to begin, and needs what the forward pass left
# there. More micro-batches make the bubble smaller and fill the memory. The idle fraction is what it was, since every
# device works three times as long and waits three times as long.
# </details>
#
# ## 1.8 The surprise: a recurrence that need not wait  ●●● · 35 min · 3 points
#
# "Recurrent, so it must wait" is what sections 1.1 to 1.4 seem to say. It isn't true of every recurrence. Take the tanh
# away:
#
# $$h_t = a_t h_{t-1} + b_t$$
#
# A step is a pair $(a, b)$, and stands for the function $h \mapsto a h + b$. Do two steps, first $(a_1, b_1)$, then
# $(a_2, b_2)$:
#
# $$a_2 (a_1 h + b_1) + b_2 = (a_1 a_2)\, h + (a_2 b_1 + b_2)$$
#
# That is *one* step again. So steps can be **combined** before anybody knows $h$, and in any grouping:
# $(x \circ y) \circ z = x \circ (y \circ z)$. The operator is **associative**.
#
# **By hand.** Steps (2, 1), (3, 0), (1, 5). The first two make (6, 3), and with the third (6, 8). The last two make (3,
# 5), and the first with that (6, 8).
#
# All prefixes $x_1,\; x_1 \circ x_2,\; x_1 \circ x_2 \circ x_3, \ldots$ of an associative operator are called a
# **scan**. One after the other they take $n - 1$ rounds. But you may choose the brackets. Combine every element with
# its left neighbor, all at once: now every row covers 2 elements. Combine with the one 2 places to the left: 4. Then 8.
# After $\lceil \log_2 n \rceil$ rounds all are done (Hillis & Steele, 1986).

# %%
plots.scan_rounds(n=8)   # a number: how many elements the cell covers now; blue: all; a dot: no change

# %% [markdown]
# The same for the running sums of 3, 1, 4, 1, 5, 9, 2, 6. Work out each round by hand before you press.

# %%
plots.scan_film()

# %% [markdown]
# **(a)** Write `combine`. A step is the last axis of a tensor: `step[..., 0]` is $a$ and `step[..., 1]` is $b$. It
# combines any number of pairs at once.
#
# **(b)** Write the scan for *any* associative operator. Each row of `elements` is an element. `operator(first, second)`
# combines row 0 with row 0, row 1 with row 1, and so on. Row $i$ of the result is elements $0 \ldots i$ combined,
# element $i$ included, with what comes earlier on the left.
#
# For a recurrence from $h_0 = 0$ the states $h_t$ are then the terms $b$ of the result.
#
# Only the **depth** counts: how many operators stand one inside the other in a result. $x \circ (y \circ z)$ has depth
# 2. Many small calls are fine. The least possible depth is $\lceil \log_2 n \rceil$; twice that is accepted too, since
# there are good scans that go up and down a tree (Blelloch, 1990).
#
# **Predict:** 200 elements take 8 rounds. How many do 200,000 take?

# %%
guess_rounds = None  # a number

# %% nbgrader={"grade": false, "grade_id": "associative_scan", "locked": false, "schema_version": 3, "solution": true}
def combine(
    first: Float[Tensor, "*k 2"],
    second: Float[Tensor, "*k 2"],
) -> Float[Tensor, "*k 2"]:
    """The step that does `first` and then `second`. A step (a, b) is h ↦ a h + b."""
    ### BEGIN SOLUTION
    a1, b1 = first[..., 0], first[..., 1]
    a2, b2 = second[..., 0], second[..., 1]
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)
    ### END SOLUTION


def associative_scan(operator, elements: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
    """Row i: elements 0 … i combined in this order, at a depth of about log2 n."""
    ### BEGIN SOLUTION
    rows, reach = elements, 1  # every row covers up to `reach` elements
    while reach < len(rows):
        rows = torch.cat([rows[:reach], operator(rows[:-reach], rows[reach:])])
        reach = 2 * reach
    return rows
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1 for (b): where to begin</summary>
#
# Let every row remember how many elements it covers: 1 at first. Which row must it be combined with, so that it covers
# twice as many and none of them twice?
# </details>
# <details><summary>Hint 2 for (b): all rows at once</summary>
#
# `rows[reach:]` are all rows that have another row `reach` places to their left, and `rows[:-reach]` are those other
# rows, in the same order. One call of the operator combines them all.
# </details>
# <details><summary>Hint 3 for (b): and the first rows?</summary>
#
# The first `reach` rows are complete already. They are passed on unchanged.
# </details>
# <details><summary>Hint 4 for (b): when is it done?</summary>
#
# After a round with reach r, rows cover up to 2r elements. Go on while that is less than n. (Not "log2 n rounds,
# rounded down".)
# </details>
# <details><summary>What exactly is checked</summary>
#
# - (a) One pair, or any number of axes in front. float32 and float64.
# - (b) The operator need not be commutative, and need have no neutral element: a row with nothing to its left is passed
#   on as it is.
# - (b) The operator's two tensors have the same shape. Don't rely on broadcasting: repeat a row as often as you need it
#   (`expand` is fine). They may have any number of rows, even 0.
# - (b) Elements have any width $w$; $n$ goes up to 3,000. float32 and float64.
# - (b) The depth is at most $2 \lceil \log_2 n \rceil + 1$. It is measured by an operator that writes into the last
#   column of each row: one more than the larger number in its two inputs.
# - (b) All combining is done by `operator`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "associative_scan_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.associative_scan(combine, associative_scan, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.associative_scan(combine, associative_scan, points=3, cases=hidden.associative_scan)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Rounds for 200,000 elements</summary>
#
# 18, since $2^{17} < 200{,}000 \le 2^{18}$. A thousand times the elements, 10 rounds more.
# </details>
#
# **Measure it.** The same linear recurrence, as a loop over the tokens and as your scan with your `combine`. The scan
# does *more* arithmetic, about $\log_2 n$ times as much.

# %%
plots.scan_race(combine, associative_scan)

# %% [markdown]
# This is what Mamba and its relatives do (Gu & Dao, 2023): recurrent, with a state of fixed size, and yet trained in
# parallel over the text. Their $a_t$ and $b_t$ depend on the token, never on the state.
#
# **Why not the tanh RNN?** A step $h \mapsto \tanh(x_t W_x + h W_h)$ is a function too, and functions can always be
# chained. But what is the *one* object that stands for two of them? Two linear steps are again two numbers. Two tanh
# steps are not a tanh step. Here is one entry of the state after 1, 2, 4 and 8 steps, over one entry of the state
# before:

# %%
plots.composed_steps()

# %% [markdown]
# A line stays a line, whatever the number of steps: a slope and a height say it all. The tanh curve gets another bend
# at every step, and to write it down you would have to keep all the steps. So there is nothing short to combine, and
# the RNN has to go step by step. (One can also guess all states at once and improve the guess, round by round, until it
# fits: Lim et al., 2024. That trades waiting for more arithmetic.)
#
# ## 1.9 How fast is fast?  ●○○ · 10 min · 1 point
#
# (If you have time: one line of code, and then the measurement.) All of this pays because machines are so good at one
# thing: products of matrices. An $(m, k)$ matrix times a $(k, n)$ matrix has $m n$ outputs. Each takes $k$
# multiplications, each followed by an addition (the first to a zero). Both count: 2 floating-point operations (FLOPs)
# for each of the $m k n$ products. Speed is counted in GFLOP/s: $10^9$ of them per second.
#
# **By hand.** Two $1000 \times 1000$ matrices in 0.02 seconds: $2 \cdot 10^9$ operations, so 100 GFLOP/s.

# %% nbgrader={"grade": false, "grade_id": "matmul_gflops", "locked": false, "schema_version": 3, "solution": true}
def matmul_gflops(m: int, k: int, n: int, seconds: float) -> float:
    """GFLOP/s of an (m, k) @ (k, n) product in this time; a multiply-add is 2 FLOPs."""
    ### BEGIN SOLUTION
    return 2 * m * k * n / seconds / 1e9
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Any three sizes and any time; the speed not rounded, to within one part in 10,000.
# </details>

# %% nbgrader={"grade": true, "grade_id": "matmul_gflops_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.matmul_gflops(matmul_gflops, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import parallelization as hidden
check.matmul_gflops(matmul_gflops, points=1, cases=hidden.matmul_gflops)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** A product of two matrices, from a loop in Python up to the fastest that this machine has.
# ($1024 \times 1024$; Python gets $64 \times 64$, or you would wait for a minute.)
#
# **Predict first:** by what factor does PyTorch on a single thread beat pure Python: about 10, about 100, or 1000 and
# more?

# %%
guess_factor = None  # 10, 100 or 1000

# %%
plots.gflops_ladder(matmul_gflops)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Three orders of magnitude or more between pure Python and PyTorch on one thread, on one and the same core. Python
# handles every number as an object, while a matrix product works on whole vectors that are already in the cache.
# (`numpy` uses all threads by default.) A GPU adds one to three orders more. An RNN that computes one small product
# after the other never gets off the lower rungs.
# </details>

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "1.1 States that can be computed in the first step": (guess_first_step, 1),
    "1.2 A loop over 64 tokens makes as many times the calls": (guess_times_as_many_calls, 64),
    "1.2 Faster at n = 256, with four times the arithmetic for attention": (guess_faster, "attention"),
    "1.3 Must layer 2 wait until layer 1 has read the text?": (guess_layer_2_waits, "no"),
    "1.4 Cells of a stacked RNN with 4 layers that run together": (
        guess_side_by_side, lambda: rnn_schedule(4, 100).flatten().bincount().max().item()
    ),
    "1.6 With two workers: half the time, or more?": (guess_two_workers, "more"),
    "1.8 Rounds for 200,000 elements": (guess_rounds, math.ceil(math.log2(200_000))),
    "1.9 PyTorch on one thread beats Python by a factor of (and more)": (guess_factor, 1000),
})

# %% [markdown]
# ## What you have now
#
# - The **critical path** says what no machine can beat: $n$ for an RNN, $n + L - 1$ for a stacked one, $L$ for a
#   Transformer that reads, $n L$ for one that writes.
# - Within a layer of **attention** all tokens run at once, as two matrix products. The price is $n^2$ work.
# - **Chunks** of queries can be computed anywhere, in any order. Each needs all keys and values.
# - A **pipeline** of layers is idle for $(L - 1)/(M + L - 1)$ of its time.
# - A recurrence can be **scanned** in $\lceil \log_2 n \rceil$ rounds if two steps combine into one object of the same
#   size: linear ones do, tanh steps don't.
#
# **Read more**
#
# - Vaswani et al. (2017), *Attention Is All You Need*, section 4 and table 1: work, sequential steps and path length of
#   three kinds of layers. 1.2 and 1.3 are that table, by hand.
# - Huang et al. (2019), *GPipe*: the pipeline of 1.7 with its idle corner, and how it trains a real network.
# - Hillis & Steele (1986), *Data Parallel Algorithms*: the scan with doubling reach, and more that is done in log n
#   rounds.
# - Blelloch (1990), *Prefix Sums and Their Applications*: the scan, and how much more than sums it can do.
# - Martin & Cundy (2018), *Parallelizing Linear Recurrent Neural Nets Over Sequence Length*: the scan of this unit as a
#   layer to train.
# - Gu & Dao (2023), *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*: the linear recurrence as a
#   language model.
# - Lim et al. (2024), *Parallelizing Non-Linear Sequential Models over the Sequence Length*: all states guessed at
#   once, and improved.
#
# **Next:** unit 02 opens up attention itself: where the scores, the weights and the $\sqrt d$ come from. The linear
# recurrence comes back in unit 10, where attention without a softmax turns out to be one.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=1)
