# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 · A Transformer that writes
#
# You have attention, masks and heads. What is missing for a language model? Positions, because attention by itself sees
# a set. Norms, a small network for each token and the residual stream, because one layer is not enough. A loss, a
# training loop, and a way to write. At the end your own model, trained by your own loop, tells you stories (its
# attention and MLP are given in 5.11). This one is of its elder sister in unit 08. Look at the dance before *again*,
# and after it:
#
# > Ada Stone meets Tom Field . Tom Field sees two dogs ( quiet ) that hop right left right right right left left right
# > again right left right right right left left right . so say Ada Stone and Tom Field
#
# And with weights that have read this course it writes English, or nearly: *Attention is a matrix product of the
# state.*
#
# **After this unit you can**
# - say where a token stands in three ways (digits, sines, rotations), and what the third does better;
# - write every part of a Transformer block, and tell pre-norm from post-norm by what happens in depth;
# - build a decoder-only language model with a tied head, and count its parameters, GPT-2's included;
# - train it down to a loss that you know beforehand;
# - write text greedily, with temperature, top-k and top-p.
#
# **How to work.** As before: predict, write, run the check. You have about 5 hours, and 32 points to earn. A good place
# for a break is after 5.12, before the training, which takes one to two minutes on two CPU cores.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% [markdown]
# This is all of it. The numbers are the sections that are about each part.

# %%
plots.model_map()

# %% [markdown]
# ## 5.1 Positions as digits  ●○○ · 5 min · 1 point
#
# (A side road: nothing later needs it, except a picture in 5.2.) Shuffle the tokens, and attention shuffles its outputs
# (2.12). So each token must be told where it stands, in a row of $d$ numbers. The first idea is the oldest: write the
# position in base 2. Column 0 is the *last* digit and changes at every position. Column 1 changes at every second one,
# column $i$ every $2^i$ positions.
#
# **By hand.** $d = 3$: position 6 is 110 in base 2, so its row is $(0, 1, 1)$. Position 1 is $(1, 0, 0)$.

# %% nbgrader={"grade": false, "grade_id": "binary_positions", "locked": false, "schema_version": 3, "solution": true}
def binary_positions(n: int, d: int) -> Float[Tensor, "n d"]:
    """Row t: the digits of t in base 2, the last one in column 0.

    Digits beyond column d − 1 are left out."""
    ### BEGIN SOLUTION
    return (torch.arange(n)[:, None] // 2 ** torch.arange(d) % 2).float()  # (n, 1) and (d): (n, d)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: one digit</summary>
#
# Dropping the last i digits of t is `t // 2**i`. The last digit of what is left is the remainder by 2.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - There may be more positions than $2^d$, and more than a byte can count. $d$ is at most 60, so that $2^d$ is still an
#   int64.
# - Digits may be floats or whole numbers.
# </details>

# %% nbgrader={"grade": true, "grade_id": "binary_positions_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.binary_positions(binary_positions, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.binary_positions(binary_positions, points=1, cases=hidden.binary_positions)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.2 Positions as sines  ●●○ · 15 min · 2 points
#
# Digits jump. From 7 to 8 four of them change at once, although the positions are neighbors. Replace each digit by
# something that goes around smoothly, like the hand of a clock: a sine and a cosine. Each pair of columns is one clock,
# and each clock is slower than the one before (Vaswani et al., 2017, section 3.5):
#
# $$\mathrm{PE}_{t,\,2i} = \sin(t\,\theta_i), \qquad \mathrm{PE}_{t,\,2i+1} = \cos(t\,\theta_i), \qquad
# \theta_i = \text{base}^{-2i/d}, \qquad i = 0 \dots \tfrac d2 - 1$$
#
# **By hand.** $d = 4$, base 10,000: $\theta_0 = 1$, $\theta_1 = 1/100$. Row 0 is $(0, 1, 0, 1)$. Row 1 is
# $(0.841, 0.540, 0.010, 1.000)$.

# %% nbgrader={"grade": false, "grade_id": "sinusoidal_positions", "locked": false, "schema_version": 3, "solution": true}
def sinusoidal_positions(n: int, d: int, base: float = 10_000.0) -> Float[Tensor, "n d"]:
    """Row t: sin(t θ_0), cos(t θ_0), sin(t θ_1), … with θ_i = base^(−2i/d). d is even."""
    ### BEGIN SOLUTION
    table = torch.zeros(n, d)
    angles = torch.outer(torch.arange(n).double(), base ** (-torch.arange(0, d, 2).double() / d))  # (n, d/2)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: all angles at once</summary>
#
# `torch.outer(a, b)` has the entry a[t] · b[i]. What are a and b?
# </details>
# <details><summary>Hint 2: every second column</summary>
#
# `table[:, 0::2]` are the columns 0, 2, 4, …, and they can be assigned to.
# </details>
# <details><summary>If your columns are right but in another order</summary>
#
# `torch.cat` puts all sines before all cosines. The formula wants them in turn.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Any $n$, any even $d$, other bases than 10,000.
# - Up to 300 positions, right to within about 0.0001: float32 is enough.
# </details>

# %% nbgrader={"grade": true, "grade_id": "sinusoidal_positions_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.sinusoidal_positions(sinusoidal_positions, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.sinusoidal_positions(sinusoidal_positions, points=2, cases=hidden.sinusoidal_positions)
### END HIDDEN TESTS

# %%
plots.position_maps(binary_positions, sinusoidal_positions)
plots.clocks(sinusoidal_positions)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Both maps have the same idea: fast columns on the left, slow ones on the right. Below, each row of clocks is one pair
# of columns. The first hand points somewhere else at every token. The last one has hardly moved.
# </details>

# %% [markdown]
# ## 5.3 Why so many clocks?  ●○○ · 3 min · 1 point
#
# With $d = 512$ and base 10,000 the frequencies fall from 1 to about 1/10,000. Which sentence is right?
#
# - **a** The first pair tells positions apart that are far from each other, the last pair tells neighbors apart.
# - **b** The first pair tells neighbors apart and soon comes around again. The last pair changes slowly and tells
#   distant positions apart.
# - **c** All pairs turn equally fast, and differ in where they start.
# - **d** The last pair is the first to come back to where it was.
# - **e** Any one pair would be enough; the others are there to fill the width.

# %% nbgrader={"grade": false, "grade_id": "frequencies_fall", "locked": false, "schema_version": 3, "solution": true}
def frequencies_fall() -> str:
    """The letter of your choice, for example "a"."""
    ### BEGIN SOLUTION
    return "b"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - One letter, as a string.
# </details>

# %% nbgrader={"grade": true, "grade_id": "frequencies_fall_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.frequencies_fall(frequencies_fall, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.frequencies_fall(frequencies_fall, points=1, cases=hidden.frequencies_fall)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.4 A step forward is a rotation  ●●○ · 15 min · 1 point
#
# Why sines *and* cosines? Because moving $k$ tokens on turns every hand by the angle $k\theta_i$, wherever it stood. So
# there is a matrix $M$ that depends only on $k$, with
#
# $$\mathrm{PE}_{t+k} = \mathrm{PE}_t\, M \quad\text{for all } t$$
#
# (rows times a matrix, as always in this course). That is why the paper chose sines (section 3.5). Write that $M$: 2×2
# blocks along the diagonal, zeros elsewhere. You need
#
# $$\sin(a+b) = \sin a\cos b + \cos a\sin b, \qquad \cos(a+b) = \cos a\cos b - \sin a\sin b$$
#
# **By hand.** $d = 2$, and let $k\theta_0$ be 90° (no whole $k$ gives exactly that, but its sine and cosine are easy):
# row $(\sin t, \cos t)$ becomes $(\cos t, -\sin t)$. So $M = \begin{pmatrix}0 & -1\\ 1 & 0\end{pmatrix}$.

# %% nbgrader={"grade": false, "grade_id": "shift_is_rotation", "locked": false, "schema_version": 3, "solution": true}
def shift_rotation(k: int, d: int, base: float = 10_000.0) -> Float[Tensor, "d d"]:
    """M with PE[t + k] = PE[t] @ M for every t, of the table PE of 5.2. k may be negative."""
    ### BEGIN SOLUTION
    m = torch.zeros(d, d)
    for i in range(0, d, 2):
        angle = k * base ** (-i / d)
        cos, sin = math.cos(angle), math.sin(angle)
        m[i : i + 2, i : i + 2] = torch.tensor([[cos, -sin], [sin, cos]])
    return m
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: read the block off the formulas</summary>
#
# The new sine is (old sine) · cos b + (old cosine) · sin b. So the first *column* of the block is (cos b, sin b). What
# is the second?
# </details>
# <details><summary>If your shift goes backwards</summary>
#
# You may have the matrix for columns, M p. For rows it is the transpose.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - $k$ may be 0 or negative, and is a few dozen at most: float32 is enough.
# - Any even $d$, other bases than 10,000.
# </details>

# %% nbgrader={"grade": true, "grade_id": "shift_is_rotation_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.shift_is_rotation(shift_rotation, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.shift_is_rotation(shift_rotation, points=1, cases=hidden.shift_is_rotation)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.5 Turn the queries and keys  ●●● · 30 min · 2 points
#
# The table of 5.2 is added to the tokens. So positions mix with meanings, and the model must learn to keep the two
# apart. **RoPE** (Su et al., 2021) does it another way: *turn* the query at position $t$ by $t\theta_i$, pair by pair,
# and the key at position $s$ by $s\theta_i$. In the dot product only the difference of the angles is left: with $R_t$
# for the turn of a row by position $t$, $(q R_t)(k R_s)^\top = q R_t R_s^\top k^\top = q R_{t-s}\, k^\top$. So the
# score depends only on the words and on the distance $t - s$. Values are not turned. They are what is handed over.
# LLaMA (Touvron et al., 2023, section 2.2) and most open models since then do it this way.
#
# For a pair of neighboring features $(x_{2i}, x_{2i+1})$ at position $t$, with $\varphi = t\,\theta_i$ (equation 34 of
# the paper):
#
# $$x'_{2i} = x_{2i}\cos\varphi - x_{2i+1}\sin\varphi, \qquad x'_{2i+1} = x_{2i}\sin\varphi + x_{2i+1}\cos\varphi$$
#
# (The rotation of 5.4 turns the other way, because there the sine stands first in a pair.) Positions don't always start
# at 0: in unit 08 a new token comes after a whole text.
#
# **By hand.** $d = 2$, $x = (1, 0)$: at position 0 it stays, at position 1 it becomes $(0.540, 0.841)$, at position 2
# $(-0.416, 0.909)$.
#
# **Before you write:** does a row become longer or shorter, or does it keep its length?

# %%
guess_row = None  # "longer", "shorter" or "as it was" (quotes included)

# %% [markdown]
# <details><summary>Answer</summary>
#
# It keeps its length. A rotation does, so a large position doesn't make large numbers.
# </details>

# %% nbgrader={"grade": false, "grade_id": "rotary_embedding", "locked": false, "schema_version": 3, "solution": true}
def rotary_embedding(
    x: Float[Tensor, "*batch n d"],
    positions: Int[Tensor, "*#batch n"],
    base: float = 10_000.0,
) -> Float[Tensor, "*batch n d"]:
    """Turn features (2i, 2i + 1) of the token in row t by positions[…, t] · base^(−2i/d).

    d is even. The result has the dtype of x, so that a model in half precision stays in it.
    """
    ### BEGIN SOLUTION
    d = x.shape[-1]
    theta = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)  # (d/2)
    angle = positions.unsqueeze(-1) * theta.to(x.device)  # (*batch, n, d/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    turned = torch.empty_like(x)
    turned[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    turned[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return turned
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: the angles</summary>
#
# Positions (…, n) and frequencies (d/2) give angles (…, n, d/2). Which of the two needs a new last axis?
# </details>
# <details><summary>Hint 2: putting pairs together again</summary>
#
# Assign to `out[..., 0::2]` and `out[..., 1::2]`, or stack the two halves on a new last axis and flatten.
# </details>
# <details><summary>If positions 0, 1, 2 are right and 7, 8, 9 are not</summary>
#
# Do you use `positions`, or count rows yourself?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Positions in any order, with gaps, up to 40,000 and more. Any even $d$, other bases than 10,000.
# - `positions` is one list $(n)$ for all, or has as many batch axes as `x`, each as long as that of `x` or of size 1
#   (the `#`): $(b, 1, n)$ beside $(b, h, n, d)$ is one list per sequence, for all its heads.
# - The dtypes: float32, float64 and bfloat16.
# - float32 is enough for the angles, 16 bits are not. But `x` itself keeps its digits: don't cut a float64 row to
#   float32, as `x.float()` in LLaMA's code would.
# - Gradients with respect to `x`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "rotary_embedding_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.rotary_embedding(rotary_embedding, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.rotary_embedding(rotary_embedding, points=2, cases=hidden.rotary_embedding)
### END HIDDEN TESTS

# %%
plots.rotary_scores(rotary_embedding)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# On the left, stripes: the score is the same along every diagonal. On the right, three keys at three places give one
# and the same curve over the distance.
# </details>

# %% [markdown]
# ## 5.6 LayerNorm  ●●○ · 15 min · 2 points
#
# After many additions the numbers of a token can have any size. A norm brings them back. **LayerNorm** (Ba et al.,
# 2016, equation 4) takes the $d$ features of *one token*, subtracts their mean, and divides by their standard
# deviation. Then come a gain and a bias, one number per feature, both learned:
#
# $$y = w \cdot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + b, \qquad \mu = \frac1d\sum_i x_i, \qquad
# \sigma^2 = \frac1d\sum_i (x_i - \mu)^2$$
#
# The variance is divided by $d$. (`torch.var` divides by $d - 1$ unless you tell it otherwise.)
#
# **By hand.** $x = (1, 3)$: $\mu = 2$, $\sigma^2 = 1$, so $y = (-1, 1)$. With $d - 1$ it would be $(-0.71, 0.71)$. With
# a single feature nothing is left of $x$: $y = b$.
#
# Subtract the mean *before* you square. The mean of the squares minus the square of the mean is the same on paper. But
# for a row with mean 300 and deviation 1 it is about 90,001 − 90,000, and float32 has only seven digits.


# %% nbgrader={"grade": false, "grade_id": "layer_norm", "locked": false, "schema_version": 3, "solution": true}
def layer_norm(
    x: Float[Tensor, "*batch d"],
    weight: Float[Tensor, "d"],
    bias: Float[Tensor, "d"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d"]:
    """Without PyTorch's norms: weight · (x − mean) / √(variance + eps) + bias, per token."""
    ### BEGIN SOLUTION
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return weight * (x - mean) / torch.sqrt(variance + eps) + bias
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: shapes</summary>
#
# `keepdim=True` leaves an axis of size 1, (…, 1), which fits beside x.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; any number of axes before the last. Rows may lie far from 0 (mean 300, deviation 1).
# - All features of a row may be equal, and $d$ may be 1. There, too, the gradient is a number.
# - Any ε above 0, larger or smaller than the variance. Gradients with respect to x, weight and bias.
# - No `F.layer_norm`, `nn.LayerNorm` or other ready-made norm.
# </details>

# %% nbgrader={"grade": true, "grade_id": "layer_norm_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.layer_norm(layer_norm, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.layer_norm(layer_norm, points=2, cases=hidden.layer_norm)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.7 RMSNorm  ●○○ · 5 min · 1 point
#
# Does the mean have to be subtracted? **RMSNorm** (Zhang & Sennrich, 2019, equation 4) doesn't subtract it, has no
# bias, and works as well. LLaMA uses it (Touvron et al., 2023, section 2.2), and most models after it:
#
# $$y = w \cdot \frac{x}{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}}$$
#
# **By hand.** $x = (1, 7)$: the mean square is 25, so $y = (0.2, 1.4)$. LayerNorm would give $(-1, 1)$.

# %% nbgrader={"grade": false, "grade_id": "rms_norm", "locked": false, "schema_version": 3, "solution": true}
def rms_norm(
    x: Float[Tensor, "*batch d"],
    weight: Float[Tensor, "d"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d"]:
    """Without PyTorch's norms: weight · x / √(mean of x² + eps), per token."""
    ### BEGIN SOLUTION
    return weight * x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; any number of axes before the last; any ε above 0.
# - A row may be all zeros. There, too, the gradient is a number.
# - Gradients with respect to x and weight.
# - No `F.rms_norm`, `nn.RMSNorm`, `F.layer_norm` or `F.normalize`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "rms_norm_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.rms_norm(rms_norm, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.rms_norm(rms_norm, points=1, cases=hidden.rms_norm)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.8 A small network for every token  ●●○ · 15 min · 2 points
#
# Attention moves information between tokens. A second network then works on what has arrived, for each token *on its
# own*. The paper of 2017 has two layers with a ReLU between them (equation 2), four times as wide inside as outside:
#
# $$\mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2$$
#
# Today's models, LLaMA among them, let one projection *gate* another: **SwiGLU** (Shazeer, 2020, equation 6), with
# $\operatorname{silu}(z) = z \cdot \operatorname{sigmoid}(z) = z / (1 + e^{-z})$:
#
# $$\mathrm{SwiGLU}(x) = \big(\operatorname{silu}(x W_{\text{gate}}) \circ x W_{\text{up}}\big)\, W_{\text{down}}$$
#
# **By hand.** One feature, all weights 1, no biases. $x = -2$: the ReLU network gives 0. SwiGLU: silu(−2) = −2 ·
# 0.119 = −0.2384, times −2 is 0.4768.
#
# The form $z/(1 + e^{-z})$ is dangerous for large negative $z$. At $z = -1000$ the power $e^{1000}$ is infinite. The
# value is still right, $-1000/\infty = 0$, but its gradient is $0 \cdot \infty$, which is NaN. `torch.sigmoid` has no
# such problem.

# %% nbgrader={"grade": false, "grade_id": "feed_forward", "locked": false, "schema_version": 3, "solution": true}
def feed_forward(
    x: Float[Tensor, "*batch d"],
    w_1: Float[Tensor, "d d_ff"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_ff d"],
    b_2: Float[Tensor, "d"],
) -> Float[Tensor, "*batch d"]:
    """max(0, x w_1 + b_1) w_2 + b_2"""
    ### BEGIN SOLUTION
    return F.relu(x @ w_1 + b_1) @ w_2 + b_2
    ### END SOLUTION


def swiglu(
    x: Float[Tensor, "*batch d"],
    w_gate: Float[Tensor, "d d_ff"],
    w_up: Float[Tensor, "d d_ff"],
    w_down: Float[Tensor, "d_ff d"],
) -> Float[Tensor, "*batch d"]:
    """(silu(x w_gate) ∘ x w_up) w_down"""
    ### BEGIN SOLUTION
    gate = x @ w_gate
    return (gate * torch.sigmoid(gate) * (x @ w_up)) @ w_down
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; any number of axes before the last; $d_\text{ff}$ may be smaller than $d$.
# - In `swiglu` numbers may be in the thousands, on both sides of 0. There, too, values and gradients are numbers.
# - Gradients with respect to x and all weights and biases. `F.relu`, `F.silu` and `torch.sigmoid` are fine.
# </details>

# %% nbgrader={"grade": true, "grade_id": "feed_forward_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.feed_forward(feed_forward, swiglu, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.feed_forward(feed_forward, swiglu, points=2, cases=hidden.feed_forward)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.9 The residual stream  ●○○ · 10 min · 1 point
#
# A deep stack of layers is hard to train: a gradient must pass through all of them. So a layer doesn't replace what it
# has read; it *adds* to it (He et al., 2016, equation 1):
#
# $$x_{l+1} = x_l + f_l(x_l)$$
#
# Each token has a **stream** of $d$ numbers that runs from the embedding to the head. Layers read from it and write
# into it. Whatever a layer does, there is a straight path past it, for the numbers and for the gradient.
#
# **By hand.** $x_0 = 1$ and two layers that both double: $f(x) = 2x$. $x_1 = 1 + 2 = 3$, $x_2 = 3 + 6 = 9$.

# %% nbgrader={"grade": false, "grade_id": "residual", "locked": false, "schema_version": 3, "solution": true}
def residual(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Callable],
) -> Float[Tensor, "L+1 *batch n d"]:
    """The stream before the first and after each of L layers, stacked: x_0, x_1, …, x_L."""
    ### BEGIN SOLUTION
    states = [x]
    for layer in layers:
        states.append(states[-1] + layer(states[-1]))
    return torch.stack(states)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - `layers` is a list of functions of one tensor, and may be empty: then $x_0$ is all there is, shape $(1, …)$.
# - The states stand on a new first axis, before all batch axes. float32 and float64.
# - Write into no tensor that a layer has read (no `x += …`): the backward pass needs it.
# </details>

# %% nbgrader={"grade": true, "grade_id": "residual_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.residual(residual, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.residual(residual, points=1, cases=hidden.residual)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.10 The block  ●●○ · 20 min · 3 points
#
# Attention and a feed-forward network, with a residual connection around each and a norm for each. Where does the norm
# stand? There are two answers (Xiong et al., 2020, table 1):
#
# $$\text{pre-norm:}\quad x + f(\operatorname{norm}(x)) \qquad\qquad
# \text{post-norm:}\quad \operatorname{norm}(x + f(x))$$
#
# The paper of 2017 has post-norm. GPT-2 moved the norm to the input of each part, and added one after the last block
# (Radford et al., 2019, section 2.3). Nearly all models since have pre-norm, because it leaves the stream itself
# untouched.

# %%
plots.two_blocks()

# %% [markdown]
# Write a block that can be both: first attention with `norm_1`, then the feed-forward network with `norm_2`.
#
# **By hand.** Let norm give 1 whatever comes in, and $f(x) = 2x$ for both layers, $x = 5$. Pre-norm: $5 + 2 = 7$, then
# $7 + 2 = 9$. Post-norm: 1, and 1 again.

# %% nbgrader={"grade": false, "grade_id": "transformer_block", "locked": false, "schema_version": 3, "solution": true}
def transformer_block(
    x: Float[Tensor, "*batch n d"],
    attention: Callable,
    feed_forward: Callable,
    norm_1: Callable,
    norm_2: Callable,
    pre_norm: bool,
) -> Float[Tensor, "*batch n d"]:
    """Attention with norm_1, then feed_forward with norm_2, a residual connection each."""
    ### BEGIN SOLUTION
    if pre_norm:
        x = x + attention(norm_1(x))
        return x + feed_forward(norm_2(x))
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Both forms, with and without batch axes. All four parts are functions of one tensor, and the two norms differ.
# - float32 and float64.
# - Write into no tensor that a part has read (no `x += …`): the backward pass needs it.
# </details>

# %% nbgrader={"grade": true, "grade_id": "transformer_block_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.transformer_block(transformer_block, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.transformer_block(transformer_block, points=3, cases=hidden.transformer_block)
### END HIDDEN TESTS

# %% [markdown]
# **Predict:** stack 24 blocks with random weights. How large are the numbers in the stream after each of them: with no
# norm, with pre-norm, with post-norm? In which of the three do they stay at 1, and in which do they grow fastest?

# %%
guess_stays_at_1 = None  # "no norm", "pre-norm" or "post-norm" (quotes included)
guess_grows_fastest = None  # "no norm", "pre-norm" or "post-norm"

# %%
plots.norms_through_depth(transformer_block)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Post-norm holds the stream at 1: every block ends with a norm. Pre-norm lets it grow slowly, because each block adds
# something of about the same size, and nothing ever takes it back. That is why a pre-norm model needs one more norm
# before its head. Without norms each block adds in proportion to what it finds: the growth is exponential.
# </details>

# %% [markdown]
# ## 5.11 The language model  ●●● · 45 min · 3 points
#
# Everything comes together. Attention and MLP are given: causal heads as in unit 04, with `rotate` (your
# `rotary_embedding`) on queries and keys, and a feed-forward network with a GELU (Hendrycks & Gimpel, 2016), a smooth
# relative of the ReLU.

# %% nbgrader={"grade": false, "grade_id": "parts", "locked": true, "schema_version": 3, "solution": false}
class Attention(nn.Module):
    """Causal self-attention with h heads; rotate(x, positions) turns queries and keys."""

    def __init__(self, d: int, h: int, rotate: Callable):
        super().__init__()
        self.h, self.rotate = h, rotate
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        projected = self.w_q(x), self.w_k(x), self.w_v(x)
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in projected)  # (b, h, n, d_h)
        positions = torch.arange(x.shape[1], device=x.device)
        scores = self.rotate(q, positions) @ self.rotate(k, positions).mT / math.sqrt(q.shape[-1])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v
        return self.w_o(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two layers on every token by itself, 4d wide in between."""

    def __init__(self, d: int):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        return self.down(F.gelu(self.up(x)))

# %% [markdown]
# Write the block and the model:
#
# 1. look the tokens up in the embedding, and multiply by $\sqrt d$;
# 2. go through `layers` pre-norm blocks with `nn.LayerNorm`, each with weights of its own;
# 3. one more LayerNorm;
# 4. multiply by the *transposed embedding*: the score of a word is the dot product of the stream with that word's row.
#    The head is **tied** (Press & Wolf, 2017), and training moves the table from both sides.
#
# Why $\sqrt d$? As a head, the table wants rows of length about 1, so that scores are of size 1. As input, features
# should be of size 1, and a row of $d$ such numbers has length $\sqrt d$. (The factor is that of
# Vaswani et al., 2017, section 3.4.) So draw the table with standard deviation $1/\sqrt d$. `nn.Embedding` draws it
# with 1: on the stories of 5.15 the first loss would be about 50 instead of 6.
#
# Then count. `lm_parameters` gives the number of trained numbers in such a model. GPT-2 has more of them, in two
# places: a bias for every matrix of its blocks (`bias`), and instead of a rotation a learned row of $d$ numbers for
# each of `context` positions.
#
# **By hand.** $v = 10$, $d = 2$, one layer, neither biases nor context: embedding 20; attention 16, MLP 32, two norms
# 8; last norm 4. In all 80.

# %% nbgrader={"grade": false, "grade_id": "DecoderLM", "locked": false, "schema_version": 3, "solution": true}
class Block(nn.Module):
    """A pre-norm block with norm_1, attention, norm_2 and mlp."""

    def __init__(self, d: int, h: int, rotate: Callable):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm_1, self.attention = nn.LayerNorm(d), Attention(d, h, rotate)
        self.norm_2, self.mlp = nn.LayerNorm(d), MLP(d)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        ### BEGIN SOLUTION
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))
        ### END SOLUTION


class DecoderLM(nn.Module):
    """Tokens → logits of the next token at every position.

    Attributes: embedding, blocks, norm."""

    def __init__(self, vocabulary: int, d: int, h: int, layers: int, rotate: Callable):
        super().__init__()
        ### BEGIN SOLUTION
        self.scale = math.sqrt(d)
        self.embedding = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(Block(d, h, rotate) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        ### END SOLUTION

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        ### BEGIN SOLUTION
        x = self.embedding(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T
        ### END SOLUTION


def lm_parameters(
    vocabulary: int,
    d: int,
    layers: int,
    context: int = 0,
    bias: bool = False,
) -> int:
    """How many numbers are trained in a model with a tied head and an MLP of width 4d."""
    ### BEGIN SOLUTION
    block = 4 * d * d + 8 * d * d + 2 * 2 * d + (4 * d + 5 * d if bias else 0)
    return vocabulary * d + context * d + layers * block + 2 * d
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: several blocks</summary>
#
# `nn.ModuleList(Block(…) for _ in range(layers))` makes a new block each time. `[Block(…)] * layers` is the same block
# several times.
# </details>
# <details><summary>Hint 2: the head</summary>
#
# `x @ self.embedding.weight.T`. There is no second matrix.
# </details>
# <details><summary>If a parameter is missing</summary>
#
# The names come from your attributes. `self.blocks = nn.ModuleList(…)` gives `blocks.0.…`; a plain list gives nothing
# at all.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The weights that are loaded: `embedding.weight`, `norm.weight`, `norm.bias`, and for each block
#   `blocks.0.norm_1`, `blocks.0.attention`, `blocks.0.norm_2`, `blocks.0.mlp`. `Block` is checked inside the model.
# - No other trained numbers. The head may be an `nn.Linear` without a bias whose weight *is* the table.
# - Every token is a word like any other: no row of the table is kept at zero (`padding_idx`) or cut (`max_norm`). How
#   else the table begins isn't checked.
# - `rotate` reaches each block's attention. Logits $(b, n, v)$ for all positions, no probabilities. float32 and
#   float64.
# - Gradients reach the table as input and as head, and come back through a block: write into no tensor that a norm has
#   read (no `x += …`). Dropout isn't asked for.
# - `lm_parameters` is exact, with and without biases and learned positions. A LayerNorm always has gain and bias; the
#   other biases are $4d$ wide inside the MLP and $d$ wide elsewhere.
# </details>

# %% nbgrader={"grade": true, "grade_id": "DecoderLM_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.DecoderLM(DecoderLM, lm_parameters, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.DecoderLM(DecoderLM, lm_parameters, points=3, cases=hidden.DecoderLM)
### END HIDDEN TESTS

# %% [markdown]
# `lm_parameters(50_257, 768, 12, context=1024, bias=True)` is GPT-2 small. It has 124,439,808 parameters, as the
# released weights do. (The paper's table 2 says 117 million, which its authors later corrected in the README of their
# code.)

# %% [markdown]
# ## 5.12 What is trained?  ●○○ · 3 min · 1 point
#
# Which of these are parameters of *your* model, numbers that training changes?
#
# - **a** the table of embeddings
# - **b** the rotary angles
# - **c** $W_Q$, $W_K$, $W_V$ and $W_O$
# - **d** the attention weights
# - **e** gain and bias of the LayerNorms
# - **f** the causal mask
# - **g** the two matrices of the MLP

# %% nbgrader={"grade": false, "grade_id": "what_is_trained", "locked": false, "schema_version": 3, "solution": true}
def what_is_trained() -> str:
    """All letters that fit, for example "abc"."""
    ### BEGIN SOLUTION
    return "aceg"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - A string of letters, in any order.
# </details>

# %% nbgrader={"grade": true, "grade_id": "what_is_trained_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.what_is_trained(what_is_trained, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.what_is_trained(what_is_trained, points=1, cases=hidden.what_is_trained)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.13 The loss  ●●○ · 15 min · 2 points
#
# Row $i$ of the logits says what the model expects *after* token $i$. So its target is token $i + 1$: `tokens` are both
# inputs and, shifted by one, targets. The loss is the mean of $-\log p(\text{target})$ over all real targets.
# ($e^{\text{loss}}$ is called perplexity.) Texts in a batch are padded at the end: text $r$ has `lengths[r]` real
# tokens.
#
# **By hand.** One text of 3 real tokens and 2 of padding: two predictions, token 1 from row 0 and token 2 from row 1.
# If the model gives them probabilities ½ and ¼, the loss is $(\ln 2 + \ln 4)/2 = 1.04$.

# %% nbgrader={"grade": false, "grade_id": "next_token_loss", "locked": false, "schema_version": 3, "solution": true}
def next_token_loss(
    logits: Float[Tensor, "b n v"],
    tokens: Int[Tensor, "b n"],
    lengths: Int[Tensor, "b"],
) -> Float[Tensor, ""]:
    """The mean of −log p(token i + 1 | tokens 0 … i), over all texts, all i + 1 < length."""
    ### BEGIN SOLUTION
    places = torch.arange(tokens.shape[1])
    targets = tokens.masked_fill(places >= lengths[:, None], -100)[:, 1:]  # (b, n − 1)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten(), ignore_index=-100)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: pairs</summary>
#
# `logits[:, :-1]` and `tokens[:, 1:]` have the same length, and belong together.
# </details>
# <details><summary>Hint 2: padding</summary>
#
# −100 among the targets is what `F.cross_entropy` leaves out, both of the sum and of the mean. Beware: `tokens[:, 1:]`
# is a view, and `targets[…] = -100` would write into the tokens. `masked_fill` makes a new tensor.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Every text has at least one real token, and at least one text has two. A text of one token has no target at all.
# - One mean over all targets of the batch. Padding holds words of the vocabulary: only `lengths` tells it from text.
# - float32 and float64. Logits are finite, and may be in the hundreds.
# - Gradients with respect to the logits.
# </details>

# %% nbgrader={"grade": true, "grade_id": "next_token_loss_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.next_token_loss(next_token_loss, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.next_token_loss(next_token_loss, points=2, cases=hidden.next_token_loss)
### END HIDDEN TESTS

# %% [markdown]
# ## 5.14 The learning rate  ●○○ · 10 min · 1 point
#
# At the start gradients are large and say little, so steps should be small: a **warm-up** (Vaswani et al., 2017,
# section 5.3). Toward the end, small steps let the weights settle. Between the two lies half a cosine (Loshchilov &
# Hutter, 2017, equation 5). For step $s = 0, 1, \dots$ of $S$, with $W$ steps of warm-up:
#
# $$\text{rate}(s) = \begin{cases}\text{peak}\cdot\dfrac{s+1}{W} & s < W\\
# \text{floor} + (\text{peak} - \text{floor})\cdot\dfrac{1 + \cos(\pi p)}{2},\quad
# p = \dfrac{s - W}{S - W} & s \ge W\end{cases}$$
#
# **By hand.** Peak 8, floor 2, $W = 4$, $S = 24$: step 0 has 2, step 3 has 8, step 4 has 8 ($p = 0$), step 14 has 5
# ($p = ½$).

# %% nbgrader={"grade": false, "grade_id": "learning_rate", "locked": false, "schema_version": 3, "solution": true}
def learning_rate(step: int, steps: int, warm_up: int, peak: float, floor: float) -> float:
    """The rate of step number `step`, 0 ≤ step < steps."""
    ### BEGIN SOLUTION
    if step < warm_up:
        return peak * (step + 1) / warm_up
    progress = (step - warm_up) / (steps - warm_up)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - $W$ may be 0 (no warm-up) and may be $S$ (no decay). The floor may be 0, and above the first rates of the warm-up.
# - A number, exact apart from rounding.
# </details>

# %% nbgrader={"grade": true, "grade_id": "learning_rate_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.learning_rate(learning_rate, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.learning_rate(learning_rate, points=1, cases=hidden.learning_rate)
### END HIDDEN TESTS

# %%
plots.learning_rates(learning_rate)

# %% [markdown]
# ## 5.15 The training loop  ●●● · 40 min · 3 points
#
# One step: compute the loss of a batch (the cross-entropy of `model(inputs)` with its targets, which are shifted
# already), differentiate, shorten the gradient if it is too long, move the weights.
#
# - **AdamW** (Loshchilov & Hutter, 2019, algorithm 2) with `betas=(0.9, 0.95)`, as GPT-3 had them (Brown et al., 2020,
#   appendix B), and for each step the rate from `rates`.
# - **Weight decay** only for matrices (parameters with two axes or more, the embedding among them). Gains and biases
#   are vectors, and don't decay: nothing is gained by pulling a gain to 0. That takes two parameter groups.
# - **Clipping**: if all gradients together, as one vector, are longer than `clip`, shorten them to that length (Pascanu
#   et al., 2013, algorithm 1). One bad batch then can't ruin the weights. (`nn.utils.clip_grad_norm_` does it.)
#
# Return the losses, each taken *before* its step: so the first is that of the untrained model.

# %% nbgrader={"grade": false, "grade_id": "small_model", "locked": true, "schema_version": 3, "solution": false}
def small_model() -> nn.Module:
    """What the check trains: an embedding, a norm and a head, in float64, the same at every call."""
    generator = torch.Generator().manual_seed(5)
    model = nn.Sequential(nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 11)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model

# %% nbgrader={"grade": false, "grade_id": "train", "locked": false, "schema_version": 3, "solution": true}
def train(
    batches: Iterable[tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]],
    rates: Sequence[float],
    weight_decay: float = 0.1,
    clip: float = 1.0,
    model: nn.Module | None = None,
    watch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train the model, one step for each rate, and call `watch(step, loss)` in each.

    Steps count from 0. There may be more batches than rates: take none of those.
    Returns the losses, as numbers.
    """
    model = small_model() if model is None else model
    ### BEGIN SOLUTION
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    losses = []
    for step, (rate, (inputs, targets)) in enumerate(zip(rates, batches)):
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
        if watch:
            watch(step, losses[-1])
    return losses
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two groups</summary>
#
# `torch.optim.AdamW([{"params": …, "weight_decay": …}, {"params": …, "weight_decay": 0.0}], betas=…)`. A parameter's
# `dim()` tells a matrix from a vector.
# </details>
# <details><summary>Hint 2: a rate for each step</summary>
#
# `for group in optimizer.param_groups: group["lr"] = rate`
# </details>
# <details><summary>Hint 3: the order</summary>
#
# loss, `zero_grad`, `backward`, clip, `step`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The little model above is trained from its fixed start (`model` is None), and the losses of all steps are compared.
#   They come as plain numbers, no tensors. After 60 steps the mean of the last four must be below 0.25.
# - `batches` is a list or a stream of pairs (inputs, targets), already shifted, with at least as many batches as rates.
#   None is taken beyond the rates: `zip(batches, rates)` takes one too many.
# - The loss is the mean over targets that are not −100; some are, never all of a batch. `weight_decay` and `clip` take
#   several values.
# - `watch` is called before or after the weights move.
# - All else is PyTorch's default ($\varepsilon = 10^{-8}$). The model comes without gradients, and in training mode.
# </details>

# %% nbgrader={"grade": true, "grade_id": "train_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.train(train, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.train(train, points=3, cases=hidden.train)
### END HIDDEN TESTS

# %% [markdown]
# **Now train it.** The text comes from a small grammar. It writes stories like these:

# %%
plots.story_examples()

# %% [markdown]
# Some words are chance: nobody can know which animal comes, or how it will dance. Others are not. After `two dogs ( old
# [ grey ] ) that` comes a verb without *s*. A bracket that was opened last is closed first. After the second *Leo*
# comes the surname of the first. A dance is danced *again*: the same eight steps, in the same order. And the story ends
# with the names it began with. To get these right, a model must look back over many words.
#
# The grammar is known, so its **entropy** is known: the nats of all choices, divided by the number of tokens (the words
# and the end token). On average over new stories, no model that sees only the past can have a smaller loss. That is the
# dotted line in the picture below.
#
# **By hand.** Eight steps, left or right: $8 \ln 2 = 5.5$ nats of chance the first time, and 0 the second time. So each
# kind of place has a floor of its own: 0 for a step or a name that is repeated, $\ln 6 = 1.79$ for a verb, one of six.
#
# **Predict:** the vocabulary has 57 tokens. What is the loss of a model that knows nothing, and says so?

# %%
guess_first_loss = None  # a number

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\ln 57 = 4.0$, if it gives all tokens the same probability. A new model starts higher, at 6.2: it knows
# nothing, but doesn't say so. Head and embedding are one table, so the token that it has just read
# looks most likely to come again.
# </details>
#
# The cell trains *your* `DecoderLM`, with your `Block` and `rotary_embedding`, by your `train` and `learning_rate`: 600
# steps of 32 stories, four layers of four heads, $d = 64$. (Where yours isn't right yet, the course's takes its place,
# and a line says so.)

# %%
plots.train_on_stories(train, DecoderLM, rotary_embedding, learning_rate)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# A steep fall: the model learns which words there are, and in what order they come. Then one skill after the other,
# each with a fall of its own, and the last stretch down to the floor. The table tells which skills the model has: where
# the loss of a kind of place is at its floor, nothing more can be learned.
#
# We trained from the seeds 0, 1 and 2, and ended 1.5%, 1.3% and 1.3% above the floor. The cell takes seed 2. (Your
# last digits may differ.)
# </details>
#
# **What is each part good for?** Take one thing out of the model, and train it again: its attention, its positions (no
# rotation), its residual connections. **Predict** which one costs most, and which least. Then try one yourself:
# `plots.train_on_stories(train, without="positions")`, or `"attention"`, or `"residuals"`.

# %%
guess_costs_most = None  # "attention", "positions" or "residuals"
guess_costs_least = None  # "attention", "positions" or "residuals"

# %% [markdown]
# <details><summary>What we measured</summary>
#
# Loss on new stories after 600 steps, in nats per token, for seed 0 (the run above is seed 2); "above" compares all
# tokens with the floor:
#
# | place | tokens | floor | whole | without attention | without positions | without residuals |
# |:--|--:|--:|--:|--:|--:|--:|
# | a name again | 9% | 0 | 0.016 | 1.655 | 0.270 | 1.658 |
# | a step again | 22% | 0 | 0.001 | 0.811 | 0.677 | 0.694 |
# | a bracket | 4% | 0.520 | 0.529 | 1.453 | 0.562 | 0.806 |
# | a verb | 3% | 1.792 | 1.802 | 2.497 | 1.808 | 2.047 |
# | the rest | 62% | 0.685 | 0.693 | 1.296 | 0.707 | 0.746 |
# | all | 100% | 0.495 | 0.502 | 1.262 | 0.685 | 0.858 |
# | above the floor | | | 1.5% | 155% | 38% | 73% |
#
# - **Without attention** the model sees one word. It knows that a verb comes after *that*, but not how many dogs there
#   were: $\ln 12 = 2.48$ nats, not $\ln 6$. It does not know which name comes, or whether a dance is over.
# - **Without residual connections** four layers hardly learn to look back. A name that comes again is nearly a guess,
#   and a step that comes again is a coin toss: $\ln 2 = 0.69$. Every layer must pass on by itself all that later layers
#   need, and attention mixes the tokens more with every layer, until all are alike (Dong et al., 2021). What residual
#   connections are for shows in depth (He et al., 2016, figure 4).
# - **Without positions** brackets close and verbs agree, nearly as well as before, and most names are found. But the
#   steps of a dance are always the same two words. Only its *place* says which of them comes next, and the model has no
#   places: 0.68 nats per step, hardly better than a coin toss.
#
# Is order out of reach without positions, then? No: it only comes late. The causal mask itself breaks the symmetry: the
# first token sees one token, the tenth sees ten, and a model can learn to count from that (Haviv et al., 2022). With
# dances of six steps instead of eight, a model without positions ended 700 steps only 4.7% above the floor. A model
# without a mask would be lost.
# </details>

# %% [markdown]
# ## 5.16 Writing  ●●○ · 30 min · 3 points
#
# A model gives scores. Somebody must choose. Write the two halves:
#
# **From logits to probabilities.** First divide by the **temperature** $T$: $T < 1$ makes the likely likelier, $T > 1$
# evens them out, and $T = 0$ gives the likeliest token probability 1. Then the softmax. Then the cuts: **top-k** keeps
# the $k$ likeliest tokens, and makes them sum to 1. **Top-p** (Holtzman et al., 2020, section 3.1) then keeps the
# smallest set of likeliest tokens that holds *at least* $p$, and makes them sum to 1 again.
#
# **By hand.** Probabilities 0.5, 0.3, 0.2. With top_k = 2 they become 0.625, 0.375, 0. With
# top_p = 0.6 instead 0.5 is not enough, so 0.3 comes along, and the result is the same. With top_p = 0.4 only the first
# token is left.
#
# **The loop.** Read the text, take the logits of the last position, let `choose(logits)` pick a token for each row,
# append it, and so on, $n$ times. A model can't read more than `context` tokens: of a longer text it reads the last
# ones.

# %% nbgrader={"grade": false, "grade_id": "generate", "locked": false, "schema_version": 3, "solution": true}
def next_token_probabilities(
    logits: Float[Tensor, "*batch v"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch v"]:
    """softmax(logits / temperature), cut to the top_k likeliest, then to the fewest that hold
    top_p of these."""
    ### BEGIN SOLUTION
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    p, order = torch.softmax(logits / temperature, dim=-1).sort(dim=-1, descending=True)
    if top_k is not None:
        p = torch.cat([p[..., :top_k], torch.zeros_like(p[..., top_k:])], dim=-1)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        before = p.cumsum(dim=-1) - p  # what likelier tokens hold
        p = torch.where(before < top_p, p, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)
    ### END SOLUTION


def generate(
    model: Callable,
    prompt: Int[Tensor, "b p"],
    n: int,
    context: int,
    choose: Callable,
) -> Int[Tensor, "b n"]:
    """n new tokens. model: tokens (b, m) → logits (b, m, v), m ≤ context.

    choose: logits (b, v) → tokens (b)."""
    ### BEGIN SOLUTION
    tokens = prompt
    for _ in range(n):
        logits = model(tokens[:, -context:])
        tokens = torch.cat([tokens, choose(logits[:, -1])[:, None]], dim=1)
    return tokens[:, prompt.shape[1] :]
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: sort, cut, and back</summary>
#
# `p, order = p.sort(dim=-1, descending=True)`. Afterwards `torch.zeros_like(p).scatter(-1, order, p)` brings everything
# back to its place.
# </details>
# <details><summary>Hint 2: which tokens does top-p keep?</summary>
#
# A token stays if the tokens *before* it hold less than p. `cumsum` also counts the token itself.
# </details>
# <details><summary>Hint 3: the last <code>context</code> tokens</summary>
#
# `tokens[:, -context:]` is all of them while there are fewer.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Probabilities: any number of batch axes, each row with cuts of its own. They are floats, even at $T = 0$. There,
#   too, cuts may be given, which never take the likeliest away, and two logits may be as near as 0.00001.
# - $1 \le k \le v$ and $0 < p \le 1$, where 1 cuts nothing but what rounding loses. At least one token always stays. No
#   two logits of a row are equal, and no sum lies so near to $p$ that rounding decides.
# - $T$ from 0.01 to 80; logits may be in the hundreds or near −1000.
# - The loop: $n \ge 1$; the prompt may be longer than `context`. The model is called exactly $n$ times and never reads
#   more than `context` tokens. `choose` gets the logits as the model gives them.
# </details>

# %% nbgrader={"grade": true, "grade_id": "generate_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.generate(next_token_probabilities, generate, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.generate(next_token_probabilities, generate, points=3, cases=hidden.generate)
### END HIDDEN TESTS

# %%
plots.story_samples(next_token_probabilities, generate)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The untrained model says next to nothing: the token it has just read looks most likely to come again, and it has just
# read `<end>`. At $T = 0$ the trained one tells a single story, always the same. At $T = 1$ it tells many, nearly in
# the proportions of the grammar, and about a third break a rule: 1.3% more loss is 0.4 nats per story. Above that they
# are more varied, and more often wrong.
# </details>
#
# **Look into the heads.** In unit 04 you built an induction head by hand: it looks for an
# earlier copy of the present token, and attends to what came after. Stories need one: after the second *Leo* the
# surname must be taken from what followed the first. They also need a head that looks eight tokens back while a dance
# is danced again. Did training find them? Of the sixteen heads you see four: those that look most where they should, in
# four kinds of places, each with its mean weight there, in 40 new stories. Drag along the story: the word below your
# finger asks, and arcs lead to the words that it looks at, as thick as the weights. The head for such a word is bold.
#
# **Predict:** silence the head that looks from *that* at *one* or *two* (set its output to 0). What happens to the
# verbs?

# %%
guess_silenced = None  # "worse than a guess", "somewhat worse" or "as before" (quotes included)

# %%
plots.trained_heads()

# %% [markdown]
# <details><summary>What we found</summary>
#
# **Where a head looks is not yet what the model depends on.** To know that, take the head away and measure. All four
# kinds are there, and nobody programmed them: the loss made them. (Layers and heads count from 0. In your run other
# heads may do the work.) We silenced some, in the run of seed 2, and measured the losses again without any further
# training, on 500 other stories. (The first row is not the table of 5.15: that was seed 0.)
#
# | silenced | weight on its places | a name again | a step again | a verb | the rest |
# |:--|--:|--:|--:|--:|--:|
# | none | | 0.003 | 0.001 | 1.804 | 0.692 |
# | layer 0, head 0: eight tokens back | 0.86 | 0.315 | 0.912 | 1.803 | 0.703 |
# | layer 0, head 2: from a surname at its first name | 0.75 | 0.907 | 0.002 | 1.804 | 1.084 |
# | layer 1, heads 1 and 2: from a first name at its surname | 0.83 and 0.95 | 1.579 | 0.001 | 1.806 | 0.734 |
# | layer 1, head 0: from *that* at *one* or *two* | 0.93 | 0.005 | 0.001 | 1.802 | 0.693 |
# | layer 0, head 3 and layer 2, head 0: the same, with less weight | 0.52 and 0.47 | 0.019 | 0.070 | 3.829 | 0.784 |
#
# Two heads of layer 1 are induction heads in the wild (Olsson et al., 2022). Without both, a name again is a guess,
# nearly as it is without any attention (1.655 in 5.15), and a dance is danced as well as ever. They work with a head of
# the layer below, which tells a surname what stood before it: the pair that you built in unit 04. Without that one,
# names go wrong and other places as well: it has more than one task. The dance depends on a head of the lowest layer.
#
# The last two rows are a surprise. One head puts 93% of its weight on the word that decides the verb, and the verbs
# are as right without it. Two others look there with half of their weight, and without them the verbs are worse than a
# guess among all twelve (2.48).
# </details>

# %% [markdown]
# ## 5.17 The other objective: BERT  ●●○ · 20 min · 2 points
#
# A model that reads a text in both directions can't be trained to predict the next word, because it already sees it.
# **BERT** (Devlin et al., 2019, section 3.1) hides words instead. 15% of the tokens are picked, and the model must say
# what they were. Of these, 80% are replaced by a mask token, 10% by another token, and 10% stay as they are. Why not
# mask all of these? When the model is used, there is no mask token, and a model that was only ever asked at mask tokens
# has learned nothing about real ones. And a model that may be asked about any word must keep something about every
# word.
#
# One random number per token, `chance`, decides whether it is picked and what becomes of it. Below 0.15 a real token is
# picked: below 0.12, which is 80% of that range, it is masked; from there to below 0.135 it becomes `other`; then it
# stays. Only picked tokens have a target, so only 15% of a text teaches in one pass. The other targets are −100, as in
# 3.11.
#
# **By hand.** Tokens 7, 8, 9, 5 with chances 0.5, 0.1, 0.13, 0.14, other 20, 21, 22, 23, mask token 1: inputs 7, 1, 22,
# 5, targets −100, 8, 9, 5.

# %% nbgrader={"grade": false, "grade_id": "masked_lm_objective", "locked": false, "schema_version": 3, "solution": true}
def masked_lm_objective(
    tokens: Int[Tensor, "b n"],
    real: Bool[Tensor, "b n"],
    chance: Float[Tensor, "b n"],
    other: Int[Tensor, "b n"],
    mask_token: int,
) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """Inputs and targets of the masked language model."""
    ### BEGIN SOLUTION
    picked = real & (chance < 0.15)
    inputs = torch.where(picked & (chance < 0.135), other, tokens)
    inputs = torch.where(picked & (chance < 0.12), mask_token, inputs)
    return inputs, torch.where(picked, tokens, -100)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - "Below" is <: a chance of exactly 0.12 becomes `other`, of 0.135 stays, of 0.15 isn't picked. Chances come in
#   float64, some a hair below these: don't round them to float32.
# - A token may happen to be the mask token, or equal to `other`. It is asked for all the same if it was picked.
# - Padding (`real` is False) is never picked: it stays in the inputs, and is −100 in the targets.
# </details>

# %% nbgrader={"grade": true, "grade_id": "masked_lm_objective_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.masked_lm_objective(masked_lm_objective, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import transformer_lm as hidden
check.masked_lm_objective(masked_lm_objective, points=2, cases=hidden.masked_lm_objective)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade": false, "grade_id": "masked_lm_objective_tasks_question", "locked": true, "schema_version": 3, "solution": false}
# ### Other tasks of the same kind  ●●○ · 10 min · 1 point
#
# Predicting a hidden word is a *generative* task: the model must produce what is missing. A *contrastive* task shows it
# true and false pairs, and it must say which belong together. BERT had one (section 3.1, task 2): does this sentence
# follow that one? (1) Is next-token prediction generative or contrastive? (2) Invent two contrastive tasks for text
# that need no human labels. Say for each what a true pair is, where the false ones come from, and what a model must
# understand to solve it.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ¼ point: next-token prediction is generative.
# - up to ½ point: two tasks that need no labels, each with true pairs and a source of false ones (¼ each). For
#   instance: two halves of one text against halves of different texts; a sentence and the same one with words dropped
#   out, against other sentences; a sentence and its neighbors in their order against swapped ones; was this word
#   replaced by another one (ELECTRA)?; a text and its title.
# - ¼ point: for at least one of them, what the model must understand, or how it could cheat (for instance by topic or
#   only by length).
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "masked_lm_objective_tasks", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# (1) Generative: the model gives probabilities to all possible next words. (2) *Swapped or not*: take two neighboring
# sentences, in their order or swapped. False pairs cost nothing. The model must understand what refers to what, causes
# before effects, names before pronouns. *Same text*: two pieces cut from one text are a true pair, pieces of two
# different texts a false one. The model must grasp topic and persons; if the texts are too different it can cheat by
# single words, so false pieces should come from texts about the same thing.

# %% [markdown]
# ## 5.18 It writes English  ●○○ · 5 min
#
# Nothing to write here, and nothing to earn. The stories have a floor that we know, because their grammar was made up.
# Now your model meets a real text: the prose of this course, 154,000 characters of it. Its tokens are these
# **characters**, 81 in all. So no tokenizer has to be learned, and there is no word that it can't spell. The price: it
# must learn to spell before it can say anything, and 128 tokens of context are two lines.
#
# The loss of a character in **bits** is $-\log_2 p$, the nats of 5.13 divided by $\ln 2$. It is what a file
# compressor with this model inside would need for that character. To know nothing costs $\log_2 81 = 6.3$ bits; a zip
# file of the paragraphs that are kept from training needs 3.4 bits per character of theirs.
#
# **Predict:** how many bits per character does the trained model need, on those paragraphs?

# %%
guess_bits = None  # a number

# %% [markdown]
# The trained weights come with the course: four layers of four heads, $d = 96$. A `state_dict` goes by names, and those
# of 5.11 are the names in *your* model, so they fit in. Your functions of 5.16 draw the characters. The prompt is
# yours:

# %%
plots.write_english(DecoderLM, rotary_embedding, next_token_probabilities, generate, prompt="Attention is ")

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Mostly English words, in sentences that sound like this course and say nothing. We measured 1.93 bits per character
# on the paragraphs kept from training, and 1.34 on some that it has read: with 451,872 parameters for 154,000
# characters it has begun to learn by heart. The first letter of a word costs 4.11 bits, a letter within a word 1.40.
# In the film, what had less than one half is shaded, and what had less than one eighth darker: where a word begins
# there is much to choose from, and then the rest follows. So it has learned to spell, and which words stand side by
# side. What they mean it has not learned.
# </details>
#
# To train it yourself, run `plots.train_on_english(train, DecoderLM, rotary_embedding)` in a new cell (three to four
# minutes of one CPU core), and see what it writes on the way. Then the cell above takes your weights.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "5.5 Turned, a row becomes": (guess_row, "as it was"),
    "5.10 The stream stays at 1 with": (guess_stays_at_1, "post-norm"),
    "5.10 The stream grows fastest with": (guess_grows_fastest, "no norm"),
    "5.15 The loss of a model that knows nothing and says so": (guess_first_loss, math.log(57)),
    "5.15 It costs most to leave out": (guess_costs_most, "attention"),
    "5.15 It costs least to leave out": (guess_costs_least, "positions"),
    "5.16 Without that head the verbs are": (guess_silenced, "as before"),
    "5.18 Bits per character": (guess_bits, 1.93),
})

# %% [markdown]
# ## What you have now
#
# - **Positions**: digits, sines, rotations. With RoPE a score depends only on the words and their distance. Queries and
#   keys are turned, values are not.
# - **The block**: a stream that is only added to. Pre-norm leaves it untouched, and needs one more norm at the end.
# - **The model**: scaled embedding, blocks, norm, tied head: about $12 L d^2$ parameters and $vd$ for the table.
# - **Training**: the next token at every position; AdamW, decay only on matrices, warm-up, cosine, clipping. The loss
#   has a floor, the entropy of the text.
# - **Writing**: temperature before the softmax, then top-k, then top-p, then chance.
#
# **Read more**
#
# - Vaswani et al. (2017), *Attention Is All You Need*, sections 3.3 to 3.5: feed-forward network, embeddings and sines,
#   on one page.
# - Su et al. (2021), *RoFormer*, section 3: from the wish, a score that knows only the distance, to the rotation that
#   grants it.
# - Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*: why post-norm needs a warm-up and
#   pre-norm hardly does. It explains the picture of 5.10.
# - Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*: GPT-2, the model of 5.11 at full size.
# - Holtzman et al. (2020), *The Curious Case of Neural Text Degeneration*: what greedy text looks like, and why top-p
#   helps.
#
# **Next:** unit 06 gives the model a second text to look at: the encoder and decoder of 2017. Unit 07 counts what a
# model like this costs. Unit 08 stops it from reading its whole text again for every new word.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=5)
