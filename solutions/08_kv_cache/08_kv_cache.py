# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 08 · The key/value cache
#
# A language model writes one token, reads the whole text again, writes the next one, and reads it all again. Nearly all
# of that reading has been done before. The remedy: keep the keys
# and values. It makes writing cheap, and memory the new limit: the second half of this unit is about that.
#
# **After this unit you can**
# - say what must be stored, what need not be, and why self-attention must be causal for it;
# - write a cache, a decoding step and a generation loop whose results equal full recomputation at *every* position;
# - predict the FLOPs and the bytes of a token by formula, then count and measure them;
# - shrink a cache in five ways: fewer heads, one latent for all heads, a window, one byte per number, shared pages;
# - prepare prompts of different lengths for one batch;
# - run a trained model on your own cache, step and loop, and say what they save.
#
# **How to work.** Predict with a formula, count what PyTorch really does, then measure. You have about 5 hours, and 31
# points to earn. (For two evenings, stop after 8.9.)

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor, nn

from helpers import check, plots, setup

setup()

# %% [markdown]
# ## 8.1 Work that was done before  ●○○ · 5 min · 1 point
#
# In causal attention a token's key and value depend on that token and on those before it, never on what comes later. So
# the key of token 3 is the same at step 4, at step 5 and at step 1000. Without a cache it is computed every time.
#
# Read $n$ tokens one after the other: step $t$ runs the model over tokens $1 \dots t$. Count a token's key and value in
# one layer as *one* projection. How many projections are computed **again**, over all steps and layers?
#
# **By hand.** Three tokens, one layer. Step 1: nothing again. Step 2: token 1 again. Step 3: tokens 1 and 2 again.
# 3 in all.

# %%
plots.repeated_work(n=7)

# %% nbgrader={"grade": false, "grade_id": "redundant_projections", "locked": false, "schema_version": 3, "solution": true}
def redundant_projections(n: int, layers: int) -> int:
    """How many projections are repeated while n tokens are read one by one without a cache.

    A token's key and value count as one.
    """
    ### BEGIN SOLUTION
    return layers * n * (n - 1) // 2  # step t repeats t - 1 of them
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: count the gray squares</summary>
#
# In the left picture, row t has t − 1 gray squares. What is 0 + 1 + … + (n − 1)?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The count, exact, for any $n$ and any number of layers.
# </details>

# %% nbgrader={"grade": true, "grade_id": "redundant_projections_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.redundant_projections(redundant_projections, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.redundant_projections(redundant_projections, points=1, cases=hidden.redundant_projections)
### END HIDDEN TESTS

# %% [markdown]
# For a text of 1000 tokens that is 499,500 per layer, to get 1000 that are new.
#
# ## 8.2 What to keep  ●○○ · 3 min · 1 point
#
# A model has several layers. What must be kept so that the model can read the next token without reading or projecting
# the old ones again? Keep nothing that will never be needed.
#
# - **a** the queries, keys and values of every layer
# - **b** the attention weights of every layer
# - **c** the keys and values of every layer
# - **d** the keys and values of the last layer
# - **e** the outputs of every layer

# %% nbgrader={"grade": false, "grade_id": "what_to_store", "locked": false, "schema_version": 3, "solution": true}
def what_to_store() -> str:
    """The letter of your choice, for example "a"."""
    ### BEGIN SOLUTION
    return "c"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - One letter.
# </details>

# %% nbgrader={"grade": true, "grade_id": "what_to_store_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.what_to_store(what_to_store, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.what_to_store(what_to_store, points=1, cases=hidden.what_to_store)
### END HIDDEN TESTS

# %% [markdown]
# ## 8.3 One step, in order  ●○○ · 5 min · 1 point
#
# This is one attention layer reading one new token with a cache. Pale cells were computed in earlier steps.

# %%
plots.decoding_step(m=4, d=3)

# %% [markdown]
# Which operations does the layer do for the new token, and in which order? Seven of these ten are needed. The positions
# are rotary (RoPE, Su et al., 2021): a query or key is *rotated* by the position of its token. Keys in the cache have
# already been rotated. The new keys and values go there first and are read with the old ones.
#
# - **a** softmax of the scores
# - **b** append the new key and value to the cache
# - **c** multiply the mixture by $W_O$
# - **d** multiply the new token by $W_Q$, $W_K$ and $W_V$
# - **e** mix all values with the weights, the new one included
# - **f** dot products of the new query with all keys, the new one included
# - **g** turn the new query and the new key by the position of the new token
# - **h** multiply the old tokens by $W_K$ and $W_V$
# - **i** mask the scores of later tokens
# - **j** dot products of the old queries with the new key

# %% nbgrader={"grade": false, "grade_id": "new_operations", "locked": false, "schema_version": 3, "solution": true}
def new_operations() -> str:
    """Seven letters in the order in which the operations are done, for example "abcdefg"."""
    ### BEGIN SOLUTION
    return "dgbfaec"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Seven letters in one string. Only one order is possible.
# </details>

# %% nbgrader={"grade": true, "grade_id": "new_operations_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.new_operations(new_operations, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.new_operations(new_operations, points=1, cases=hidden.new_operations)
### END HIDDEN TESTS

# %% [markdown]
# ## 8.4 The cache  ●●○ · 25 min · 3 points
#
# The first version that everybody writes joins old and new:
#
#     keys = torch.cat([keys, k], dim=2)
#
# It is right, but each time it makes a new tensor and copies everything old into it, about $n^2/2$ tokens over a text
# of $n$: the square is back. So allocate the buffers once, for `capacity` tokens, and write each token into its
# place. `length` says how many are filled. Return a *view* of that part, which copies nothing.
#
# **By hand.** Capacity 6, and a prompt of 4 tokens: slots 0 to 3 are filled, `length` is 4. The next token goes to slot
# 4, and slots 0 to 4 are returned. Three more tokens don't fit, and the cache stays as it is. Compare the lengths
# yourself: PyTorch doesn't always complain.
#
# **Watch it.** The four words of 2.5 arrive one at a time. Follow `length`, and compare the weights at the end with
# those of 3.6.

# %%
plots.cache_flow()

# %% nbgrader={"grade": false, "grade_id": "KVCache", "locked": false, "schema_version": 3, "solution": true}
class KVCache:
    """Keys and values of up to `capacity` tokens. `length` says how many are stored."""

    def __init__(
        self,
        b: int,
        h: int,
        capacity: int,
        d_h: int,
        dtype: torch.dtype = torch.float32,
    ):
        """Room for keys and values, (b, h, capacity, d_h) each, made once. Still empty."""
        ### BEGIN SOLUTION
        self.length = 0
        self.keys = torch.zeros(b, h, capacity, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, capacity, d_h, dtype=dtype)
        ### END SOLUTION

    def append(
        self,
        k: Float[Tensor, "b h n d_h"],
        v: Float[Tensor, "b h n d_h"],
    ) -> tuple[Float[Tensor, "b h length d_h"], Float[Tensor, "b h length d_h"]]:
        """Store n new tokens. Return the keys and the values of all so far, oldest first.

        ValueError, with nothing stored, if they don't fit.
        """
        ### BEGIN SOLUTION
        start, end = self.length, self.length + k.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache holds {self.keys.shape[2]} tokens, not {end}")
        self.keys[:, :, start:end] = k
        self.values[:, :, start:end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: writing into a part</summary>
#
# `room[:, :, start:end] = new` writes into a slice in place. What are `start` and `end` if `length` tokens are there
# and n come?
# </details>
# <details><summary>Hint 2: two layers disturb each other</summary>
#
# Is your tensor made in `__init__`, or in the body of the class? What stands in the body is made once, for all
# instances.
# </details>
# <details><summary>If you see "The expanded size of the tensor must match …"</summary>
#
# More tokens than room. That is the case for the ValueError: compare before you write. And don't wait for this error:
# past the end a slice is empty, and a single token broadcasts into it without a word.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - What `append` returns, and `length` after it. How the buffers lie in memory, and what else the object has, is up to
#   you. Views from earlier calls aren't looked at again.
# - float32, float64 and float16. The tokens may have another dtype than `__init__` gets: keys and values come
#   back in that one. (Writing into a slice converts them.)
# - After an `append` the caller writes other numbers into `k` and `v`: the cache must not change.
# - From the second `append` on, nothing old is copied: no joining, and no tensor larger than the new keys and values
#   together.
# - If the tokens don't fit: a `ValueError`, and nothing is stored. Fewer tokens, which fit, may come afterwards.
# - Two caches share nothing.
# </details>

# %% nbgrader={"grade": true, "grade_id": "KVCache_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.KVCache(KVCache, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.KVCache(KVCache, points=3, cases=hidden.KVCache)
### END HIDDEN TESTS

# %% [markdown]
# **Measure it.** A small Transformer (2 layers, $d = 64$), with your class as the cache of every layer, and without a
# cache. The FLOPs are counted while PyTorch runs. The lines above the picture say how each cost grows, as exponents $p$
# fitted to cost $\approx c \cdot n^p$.
#
# **Predict first:** for one token, what is the exponent of the products with weights, with a cache and without? And
# that of the attention, with a cache?

# %%
guess_weights_with_cache = None  # the exponent of n: 0, 1 or 2
guess_weights_without = None  # 0, 1 or 2
guess_attention_with_cache = None  # 0, 1 or 2

# %%
plots.cost_per_token(KVCache)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The products with weights (projections, MLP, output head) are what a cache saves: $n^0$ with it, $n^1$ without. The
# attention itself stays: one row of scores, $n^1$, instead of a square, $n^2$. On the right: without a cache the square
# of scores comes and goes with every token. From 256 tokens on the cache is smaller. But it *stays*, for every sequence
# that is being written. That is the new price. (To see 4k tokens, run `plots.cost_per_token(KVCache, (256, 512, 1024,
# 2048, 4096))`. It takes up to a minute on two CPU cores.)
# </details>
#
# ## 8.5 A step with a cache  ●●● · 35 min · 3 points
#
# Now the layer itself: causal self-attention of $n$ new tokens that come after $m$ old ones. With $m = 0$ it reads a
# prompt (**prefill**). With $n = 1$ it writes (**decoding**). A long prompt may come in chunks, so everything in
# between happens too. One function does it all:
#
# 1. project the new tokens, `x @ w`, and split the heads: head $i$ has the features $i\,d_h$ to $(i+1)\,d_h - 1$. Shape
#    $(b, h, n, d_h)$;
# 2. turn queries and keys, head by head, by their positions. Which are they?
# 3. join the new keys and values to the old ones;
# 4. attend. New token $i$ (counting from 0) is token $m + i$ of the text. What may it see?
# 5. merge the heads and multiply by $W_O$.
#
# `rotary_embedding(x, positions)` rotates the rows of `x`, $(\dots, n, d_h)$, by whole numbers `positions`, $(n)$. The
# keys you are given were rotated when they were stored, and so are those that you return. A key never moves again.
#
# (Here `torch.cat` is right: the function keeps nothing between two calls, and is easy to test. 8.17 comes back to it.)
#
# **By hand.** Three old tokens, two new ones: $m = 3$, $n = 2$. The new ones stand at positions 3 and 4. The scores are
# 2×5. The first row sees columns 0, 1, 2, 3; the second all five. One entry of ten is masked.
#
# **Before you write:** the usual mask for two tokens hides the upper right corner of a 2×2 square. Where is that corner
# when there are five columns? The animation shows a longer text: a prompt of six tokens in chunks of four and two, then
# two written tokens.

# %%
plots.chunk_mask_film()

# %%
from helpers.transformer_lm.positions import rotary_embedding

# %% nbgrader={"grade": false, "grade_id": "decode_step", "locked": false, "schema_version": 3, "solution": true}
def decode_step(
    x: Float[Tensor, "b n d"],
    keys: Float[Tensor, "b h m d_h"],
    values: Float[Tensor, "b h m d_h"],
    w_q: Float[Tensor, "d d"],
    w_k: Float[Tensor, "d d"],
    w_v: Float[Tensor, "d d"],
    w_o: Float[Tensor, "d d"],
) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b h m+n d_h"], Float[Tensor, "b h m+n d_h"]]:
    """Causal self-attention of n new tokens x after m old ones: `keys` (rotated) and `values`.

    Returns the outputs of the new tokens, and the keys and values of all m + n.
    """
    ### BEGIN SOLUTION
    (b, n, d), h, m = x.shape, keys.shape[1], keys.shape[2]
    q, k, v = ((x @ w).view(b, n, h, d // h).transpose(1, 2) for w in (w_q, w_k, w_v))  # (b, h, n, d_h)
    positions = torch.arange(m, m + n)
    q, k = rotary_embedding(q, positions), rotary_embedding(k, positions)
    keys = torch.cat([keys, k], dim=2)  # (b, h, m + n, d_h)
    values = torch.cat([values, v], dim=2)
    seen = torch.arange(m + n) <= positions[:, None]  # (n, m + n): itself and all before
    scores = (q @ keys.mT / math.sqrt(d // h)).masked_fill(~seen, -torch.inf)
    out = torch.softmax(scores, dim=-1) @ values  # (b, h, n, d_h)
    return out.transpose(1, 2).reshape(b, n, d) @ w_o, keys, values
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: which positions?</summary>
#
# The old tokens stand at 0 … m − 1. The new ones follow. `torch.arange(start, end)`.
# </details>
# <details><summary>Hint 2: the mask</summary>
#
# Compare two ranges: the position of each column with the position of each new token. With one new token nothing is
# hidden.
# </details>
# <details><summary>If prompts are right and single tokens wrong</summary>
#
# Look at the mask for n = 1. A plain lower triangle lets row 0 see only column 0. And look at the position: m, not 0.
# </details>
# <details><summary>If single tokens are right and chunks wrong</summary>
#
# Within a chunk there is a future. Is it masked?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Texts in chunks of any sizes, $m = 0$ and $n = 1$ included. Each call gets the keys and values that your last one
#   returned.
# - $h$ divides $d$, and $d_h$ is even. float32 and float64. Scores may be very large, up to about 100,000.
# - PyTorch's own attention functions may be called.
# </details>

# %% nbgrader={"grade": true, "grade_id": "decode_step_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.decode_step(decode_step, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.decode_step(decode_step, points=3, cases=hidden.decode_step)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Where is the corner?</summary>
#
# In the upper right of the last two columns: row 0 must not see column 4. With $m$ old tokens in front the triangle
# moves $m$ columns to the right.
# </details>
#
# ## 8.6 Writing text  ●●○ · 20 min · 2 points
#
# Around the layers there is a loop. The prompt goes in **as a whole, once**. The last row of its logits says what comes
# next. Then that token goes in by itself, and so on. Your model is a function
#
#     logits, cache = model(tokens, start, cache)
#
# It reads `tokens` $(b, n)$, which stand at positions `start`, `start` + 1, …, after those in `cache` (`None` at
# first). It returns logits $(b, n, v)$ and the cache with the new tokens in it. Write $n$ tokens, and always take the
# likeliest (greedy decoding).
#
# **By hand.** A prompt of 3 and 4 tokens to write. Calls: 3 tokens at start 0, then one each at 3, 4 and 5. The model
# reads 6 tokens. Without a cache: 3 + 4 + 5 + 6 = 18.

# %% nbgrader={"grade": false, "grade_id": "generate_cached", "locked": false, "schema_version": 3, "solution": true}
def generate_cached(model, prompt: Int[Tensor, "b p"], n: int) -> Int[Tensor, "b n"]:
    """The n tokens that the model writes after the prompt, each the argmax of its logits."""
    ### BEGIN SOLUTION
    logits, cache = model(prompt, 0, None)
    written = []
    for start in range(prompt.shape[1], prompt.shape[1] + n):
        written.append(logits[:, -1].argmax(dim=-1, keepdim=True))  # (b, 1)
        if len(written) < n:  # nobody asks what comes after the last one
            logits, cache = model(written[-1], start, cache)
    return torch.cat(written, dim=1)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: where does the first new token come from?</summary>
#
# Row i of the logits is about the token *after* token i. You know it as soon as the prompt has been read, without
# another call.
# </details>
# <details><summary>Hint 2: shapes</summary>
#
# `logits[:, -1].argmax(dim=-1)` has shape (b). The model wants (b, 1): `keepdim=True`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The $n$ new tokens without the prompt, as whole numbers. A prompt may be one token long, and $n$ may be 1.
# - What the model reads: $n$ calls and $p + n - 1$ tokens for a prompt of $p$, no more. A prompt that is fed token by
#   token takes too many calls. Right tokens at a higher price earn little.
# - The model may change the old cache in place: use the one that came back last. Two logits never tie for the largest.
# </details>

# %% nbgrader={"grade": true, "grade_id": "generate_cached_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.generate_cached(generate_cached, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.generate_cached(generate_cached, points=2, cases=hidden.generate_cached)
### END HIDDEN TESTS

# %% [markdown]
# ## 8.7 What can't be cached  ●●○ · 10 min · 1 point
#
# Everything so far rests on one fact: a new token changes nothing about the old ones. Put it to the test. For a layer
# that maps $(n, d)$ to $(n, d)$, measure how much the outputs of $n$ old tokens change when one more token is added at
# the end:
#
# $$\max \lvert\, \mathrm{layer}([x;\, x_\text{new}])_{0 \dots n-1} - \mathrm{layer}(x) \,\rvert$$
#
# **Predict** (the answer stands at the end of the unit): for how many of these three is it 0, apart from rounding:
# causal attention, bidirectional attention (as in BERT), causal attention followed by one bidirectional layer?

# %%
guess_unchanged = None  # 0, 1, 2 or 3

# %% nbgrader={"grade": false, "grade_id": "bidirectional_cannot_cache", "locked": false, "schema_version": 3, "solution": true}
def change_of_old_outputs(
    layer,
    x: Float[Tensor, "n d"],
    new: Float[Tensor, "1 d"],
) -> Float[Tensor, ""]:
    """The largest change, up or down, of old outputs when `new` is added at the end."""
    ### BEGIN SOLUTION
    return (layer(torch.cat([x, new]))[: len(x)] - layer(x)).abs().max()
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: which rows?</summary>
#
# With the new token there are n + 1 rows. The old tokens are still rows 0 … n − 1.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - `layer` is any function from $(n, d)$ to $(n, d)$. float32 and float64.
# - A layer may return its very input: change no output of it in place. It never hands out one buffer twice.
# - A tensor without axes, or a plain number.
# </details>

# %% nbgrader={"grade": true, "grade_id": "bidirectional_cannot_cache_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.bidirectional_cannot_cache(change_of_old_outputs, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.bidirectional_cannot_cache(change_of_old_outputs, points=1, cases=hidden.bidirectional_cannot_cache)
### END HIDDEN TESTS

# %%
torch.manual_seed(0)
plots.changed_outputs(change_of_old_outputs, {
    "causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)[0],
    "bidirectional": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0],
}, torch.randn(13, 8))

# %% [markdown] nbgrader={"grade": false, "grade_id": "bidirectional_cannot_cache_why_question", "locked": true, "schema_version": 3, "solution": false}
# ### Why?  ●●○ · 5 min · 1 point
#
# In the *first* layer of a bidirectional model the keys and values of old tokens don't change either when a token is
# added. Why can't such a model use a cache all the same? Say what happens in the second layer, and why it doesn't
# happen with a causal mask.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point: without a mask the *outputs* of the old tokens in the first layer change, because they attend to the new
#   token; these outputs are the inputs of the second layer, so its keys and values (and those of all later layers)
#   change and what was stored is wrong.
# - ½ point: with a causal mask old tokens don't attend to later ones, so by induction over the layers their inputs,
#   keys and values stay the same in every layer.
#
# "Because it sees the future" alone earns nothing: it must be said what changes (the stored keys and values of later
# layers).
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "bidirectional_cannot_cache_why", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# In the first layer a key is its token times $W_K$, and the token is the same as before. But every old token now
# attends to the new one as well, so its output changes. That output is what the second layer projects. Its keys and
# values change, and so do all those above: what was stored is out of date. With a causal mask an old token gives no
# weight to later ones. Its output in layer 1 stays, so its keys and values in layer 2 stay, and so on up to the top.

# %% [markdown]
# ## 8.8 The price of a token  ●●○ · 20 min · 2 points
#
# Predict what PyTorch will count. One attention layer of width $d$ has six products (one multiply-add is 2 FLOPs): four
# projections ($W_Q$, $W_K$, $W_V$, $W_O$, each $d \times d$), the scores, and the mixing of the values. The number of
# heads doesn't matter. Masked scores are computed and then thrown away, so they count.
#
# Return four numbers:
# 1. step $n$ **with** a cache: one new token, and $n$ keys to score, its own included;
# 2. step $n$ **without**: the layer runs over all $n$ tokens;
# 3. steps $1 \dots n$ together, with a cache;
# 4. steps $1 \dots n$ together, without.
#
# **By hand.** $n = 2$, $d = 3$. With a cache: four projections of one token, $2 \cdot 3 \cdot 3 = 18$ FLOPs each, so
# 72. Two scores of three products each: 12. Two values mixed: 12. Together 96. Without: 144 for the projections, 4
# scores for 24, mixing for 24: 192. Step 1 costs 72 + 6 + 6 = 84 either way. So the answer is (96, 192, 180, 276).

# %% nbgrader={"grade": false, "grade_id": "decode_cost", "locked": false, "schema_version": 3, "solution": true}
def decode_cost(n: int, d: int) -> tuple[int, int, int, int]:
    """FLOPs of one layer: step n with a cache and without, steps 1 … n with and without."""
    ### BEGIN SOLUTION
    with_cache = 8 * d * d + 4 * n * d
    without = 8 * n * d * d + 4 * n * n * d
    all_with = sum(8 * d * d + 4 * t * d for t in range(1, n + 1))
    all_without = sum(8 * t * d * d + 4 * t * t * d for t in range(1, n + 1))
    return with_cache, without, all_with, all_without
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: one product</summary>
#
# (a × b) times (b × c) costs 2abc FLOPs. With a cache the scores are (1 × d) times (d × n).
# </details>
# <details><summary>Hint 2: all steps</summary>
#
# Write the cost of step t and sum over t, with a loop or with Σt = n(n+1)/2 and Σt² = n(n+1)(2n+1)/6.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Four numbers, exact.
# </details>

# %% nbgrader={"grade": true, "grade_id": "decode_cost_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.decode_cost(decode_cost, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.decode_cost(decode_cost, points=2, cases=hidden.decode_cost)
### END HIDDEN TESTS

# %% [markdown]
# Read off the growth. One token: $\Theta(d^2 + nd)$ with a cache, $\Theta(nd^2 + n^2d)$ without. A text of $n$ tokens:
# $\Theta(nd^2 + n^2d)$ with, $\Theta(n^2d^2 + n^3d)$ without. The cache takes away one factor $n$ everywhere.
#
# **Count it.** Your formula against PyTorch's own counter, on a real step:

# %%
plots.counted_steps(decode_step, decode_cost, n=100, d=48, h=4)

# %% [markdown]
# ## 8.9 The price in memory  ●○○ · 10 min · 1 point
#
# FLOPs are saved, and memory is spent. A cache holds a key and a value of $d_h = d/h$ numbers for every layer, every
# sequence of the batch, every token and every key/value head. Write it down, with `size` bytes per number.
#
# **By hand.** Llama 2 7B (Touvron et al., 2023): 32 layers, 32 heads of width 128, float16 (2 bytes). One token:
# $2 \cdot 32 \cdot 32 \cdot 128 \cdot 2$ = 524,288 bytes, half a megabyte. A context of 4096: 2.1 GB for one sequence.
# The weights take 13.5 GB: seven conversations weigh more than the model.

# %% nbgrader={"grade": false, "grade_id": "cache_bytes", "locked": false, "schema_version": 3, "solution": true}
def cache_bytes(layers: int, h: int, h_kv: int, d: int, n: int, b: int, size: int) -> int:
    """Bytes of the cache of b sequences of n tokens: h query and h_kv key/value heads."""
    ### BEGIN SOLUTION
    return 2 * layers * b * n * h_kv * (d // h) * size
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - The number of bytes, exact. $h_{kv}$ divides $h$, and $h$ divides $d$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "cache_bytes_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.cache_bytes(cache_bytes, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.cache_bytes(cache_bytes, points=1, cases=hidden.cache_bytes)
### END HIDDEN TESTS

# %% [markdown]
# **Four published models.** (L, h, h_kv, d): GPT-2 XL (48, 25, 25, 1600; Radford et al., 2019, table 2, and the heads
# from the released model), Llama 2 7B (32, 32, 32, 4096; Touvron et al., 2023), Mistral 7B (32, 32, 8, 4096; Jiang et
# al., 2023, table 1), Llama 3 70B (80, 64, 8, 8192; Grattafiori et al., 2024, table 3).
#
# **Predict:** which one needs the most bytes per token, and which the fewest? Look at $h_{kv}$ before you look at the
# number of parameters.

# %%
guess_needs_most = None  # "GPT-2 XL", "Llama 2 7B", "Mistral 7B" or "Llama 3 70B" (quotes included)
guess_needs_least = None

# %%
plots.cache_over_context(cache_bytes)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Llama 2 7B needs the most, 524 kB per token, and Mistral 7B the least, 131 kB. The number of parameters doesn't decide
# it: Llama 3 70B has ten times as many as Llama 2 7B, and needs 328 kB.
# </details>
#
# A line is dotted where the context is longer than the model was released for. Mistral's line stops rising at 4,096
# tokens, because its cache keeps no more than that (8.12). GPT-2 XL, with 1.5 billion parameters and one key/value head
# for each query head, needs nearly as much per token as Llama 3 with 70 billion: their lines lie on top of each other.
# The next section shows why.
#
# ## 8.10 Fewer heads to store  ●●○ · 15 min · 2 points
#
# Mistral has as many query heads as Llama 2 and a quarter of the cache. Its query heads share keys and values in groups
# (grouped-query attention, Ainslie et al., 2023, section 2.2; unit 04): query head $i$ reads key/value head
# $\lfloor i / (h / h_{kv}) \rfloor$. With $h_{kv} = 1$ it is multi-query attention (Shazeer, 2019).
#
# Write the causal step for grouped heads, with the shifted mask of 8.5. The queries, keys and values of $n$ new tokens
# are given (projected and turned). **Store and return $h_{kv}$ heads, not $h$,** and repeat them only to read them.
#
# **By hand.** $h = 6$, $h_{kv} = 2$: query heads 0, 1, 2 read head 0, and 3, 4, 5 read head 1. The cache is a third.

# %% nbgrader={"grade": false, "grade_id": "mqa_gqa_cache", "locked": false, "schema_version": 3, "solution": true}
def grouped_decode_step(
    q: Float[Tensor, "b h n d_h"],
    k: Float[Tensor, "b h_kv n d_h"],
    v: Float[Tensor, "b h_kv n d_h"],
    keys: Float[Tensor, "b h_kv m d_h"],
    values: Float[Tensor, "b h_kv m d_h"],
) -> tuple[
    Float[Tensor, "b h n d_h"],
    Float[Tensor, "b h_kv m+n d_h"],
    Float[Tensor, "b h_kv m+n d_h"],
]:
    """Causal attention of n new tokens after m old ones: outputs; keys and values of all."""
    ### BEGIN SOLUTION
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    group, n, m = q.shape[1] // k.shape[1], q.shape[2], keys.shape[2]
    spread_keys, spread_values = (t.repeat_interleave(group, dim=1) for t in (keys, values))  # (b, h, m, d_h)
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = (q @ spread_keys.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -torch.inf)
    return torch.softmax(scores, dim=-1) @ spread_values, keys, values
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: two ways to repeat</summary>
#
# Try `torch.tensor([0, 1]).repeat(3)` and `torch.tensor([0, 1]).repeat_interleave(3)`. Which one keeps a group
# together?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Texts in chunks of any sizes, $m = 0$ and $n = 1$ included. Each call gets the keys and values that your last one
#   returned.
# - $h_{kv}$ divides $h$, and may be 1 or $h$. float32 and float64, with scores below 100.
# - PyTorch's own attention functions may be called.
# </details>

# %% nbgrader={"grade": true, "grade_id": "mqa_gqa_cache_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.mqa_gqa_cache(grouped_decode_step, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.mqa_gqa_cache(grouped_decode_step, points=2, cases=hidden.mqa_gqa_cache)
### END HIDDEN TESTS

# %% [markdown]
# ## 8.11 One latent for all heads  ●●● · 25 min · 3 points
#
# Grouped heads store fewer keys and values. **Multi-head latent attention** (MLA) stores none at all (DeepSeek-V2;
# DeepSeek-AI, 2024, section 2.1). A token $x$ leaves one short vector in the cache, its **latent** $c = x\,W_{DKV}$ of
# width $d_c$. The key and the value of head $i$ can be made from it at any time (D is for down, U for up; equations 9
# to 11, with rows for the paper's columns):
#
# $$k_i = c\,W_{UK}^{(i)}, \qquad v_i = c\,W_{UV}^{(i)}$$
#
# All heads share the latent. Each has two matrices of its own. So a token takes $d_c$ numbers per layer, instead of
# $2 \cdot h \cdot d_h$.

# %%
plots.stored_per_token()

# %% [markdown]
# There is a catch. If every step makes all keys and values again, for $n$ tokens and $h$ heads, it does the very work
# that a cache should save. But look at a single score:
#
# $$q_i \, (c\,W_{UK}^{(i)})^\top = (q_i \, W_{UK}^{(i)\top}) \, c^\top$$
#
# On the left $W_{UK}$ meets every token. On the right it meets only the new query, and the result, of width $d_c$,
# reads the latents as they lie in the cache. After the softmax the trick works the other way around: a mixture of
# products is a product of the mixture:
#
# $$\sum_j w_j \, (c_j\,W_{UV}^{(i)}) = \Big(\sum_j w_j \, c_j\Big) W_{UV}^{(i)}$$
#
# Mix latents first, then go up, once. The paper says that $W_{UK}$ is **absorbed** into $W_Q$, and $W_{UV}$ into $W_O$
# (section 2.1.2).
#
# **By hand.** One head, $d_h = 3$, $d_c = 2$. The query is $(1, 2, 0)$, a latent is $(3, 1)$, and the rows of $W_{UK}$
# are $(1, 0, 1)$ and $(0, 2, 1)$. The key is $3 \cdot (1, 0, 1) + 1 \cdot (0, 2, 1) = (3, 2, 4)$, and the score, before
# it is scaled, is $3 + 4 + 0 = 7$. Now the other way: the query against the two rows is $(1, 4)$. Its product with the
# latent is $3 + 4 = 7$. No key was made.
#
# Write one step, with one new token in each of $b$ sequences. **Make no key and no value.**
#
# 1. Its latent is appended to the $m$ old ones.
# 2. Make each head's query, and bring it to the width $d_c$.
# 3. Scores, softmax, mixture of the latents, head by head. One new token needs no mask.
# 4. $W_{UV}$, then $W_O$. The output is the *sum* of what the heads bring (unit 04).
#
# Every matrix but `w_dkv` has an axis for the heads, and `w_o[i]` holds the rows of $W_O$ that belong to head $i$.
# Positions are left out here.
#
# **Before you write:** your scores are now sums of $d_c$ products. Are they divided by $\sqrt{d_c}$, or by
# $\sqrt{d_h}$?

# %%
guess_divided_by_root_of = None  # "d_c" or "d_h" (quotes included)

# %% nbgrader={"grade": false, "grade_id": "latent_attention", "locked": false, "schema_version": 3, "solution": true}
def latent_attention(
    x: Float[Tensor, "b d"],
    latents: Float[Tensor, "b m d_c"],
    w_dkv: Float[Tensor, "d d_c"],
    w_q: Float[Tensor, "h d d_h"],
    w_uk: Float[Tensor, "h d_c d_h"],
    w_uv: Float[Tensor, "h d_c d_h"],
    w_o: Float[Tensor, "h d_h d"],
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b m+1 d_c"]]:
    """Without PyTorch's own attention: the output of a new token x after m others,
    and all m + 1 latents, oldest first."""
    ### BEGIN SOLUTION
    latents = torch.cat([latents, (x @ w_dkv)[:, None]], dim=1)  # (b, m + 1, d_c)
    q = torch.einsum("bd,hde->bhe", x, w_q)
    q = torch.einsum("bhe,hce->bhc", q, w_uk)  # W_UK meets the query, not the tokens
    weights = torch.softmax(q @ latents.mT / math.sqrt(w_q.shape[-1]), dim=-1)  # (b, h, m + 1)
    mixed = weights @ latents  # (b, h, d_c)
    heads = torch.einsum("bhc,hce->bhe", mixed, w_uv)
    return torch.einsum("bhe,hed->bd", heads, w_o), latents
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: a product for every head</summary>
#
# `torch.einsum("bd,hde->bhe", x, w_q)` multiplies x by each head's matrix. To bring a query from width d_h to width
# d_c, which letter of `w_uk` (h, c, e) must be summed over? Take two einsums in a row rather than one with three
# tensors: then the order of the products is yours.
# </details>
# <details><summary>Hint 2: all heads read the same latents</summary>
#
# Use the heads as rows: queries (b, h, d_c) times latents (b, d_c, m + 1) are all scores in one product, and no latent
# is copied.
# </details>
# <details><summary>Hint 3: which root?</summary>
#
# Only the brackets have moved. The score is the same number as before, the dot product of a query and a key of width
# d_h: √d_h.
# </details>
# <details><summary>If the check says "It made a tensor of …"</summary>
#
# Either keys or values are made, or latents are copied. A product of (b, h, 1, d_c) and (b, 1, d_c, m + 1) looks
# harmless, but PyTorch first writes the second one out for every head. See hint 2.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64. Scores may be very large, in the hundreds of thousands. $m$ may be 0, and $h\,d_h$ need not be
#   $d$.
# - No `F.scaled_dot_product_attention` or other ready-made attention.
# - Counted with 300 or 400 tokens and $d_c < h\,d_h/2$: no tensor half as large as the keys of all tokens and heads.
#   The latents are smaller than that.
# - The FLOPs are counted there too: enough for absorbing the weights anew in every step, but not for a product of all
#   latents with `w_uk` or `w_uv`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "latent_attention_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.latent_attention(latent_attention, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.latent_attention(latent_attention, points=3, cases=hidden.latent_attention)
### END HIDDEN TESTS

# %% [markdown]
# **Count it.** Your step, and one that makes all keys and values, in a layer with $d = 256$, $h = 8$, $d_h = 32$ and
# $d_c = 64$:

# %%
plots.cost_of_absorbing(latent_attention, d=256, h=8, d_h=32, d_c=64)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# At 4,096 tokens your step takes about a thirtieth of the FLOPs. Its largest tensor is the latents themselves, a
# quarter of the size of all keys.
# </details>
#
# **What it saves.** DeepSeek-V2 has 60 layers, 128 heads of width 128, and $d_c = 512$ (section 3.1.2). Multi-head
# attention would store $2 \cdot 128 \cdot 128$ = 32,768 numbers per token in each layer. Eight groups, as in Llama 3,
# would store 2,048. MLA stores 576, as many as 2.25 groups (table 1). Why 576 and not 512? The other 64 are for
# positions. A rotation depends on where the key stands. It would come between $W_Q$ and $W_{UK}$, and nothing could
# be absorbed anymore. So a token stores one more key, 64 wide, rotated and shared by all heads. Every query has 64 more
# features for it, and the two scores are added (section 2.1.3; the scale is then $1/\sqrt{128 + 64}$).
#
# **Think it over:** a score of DeepSeek-V2 is now a sum of 512 products instead of 128 (the 64 for positions aside), so
# the scores cost four times as many FLOPs. Why is that a good bargain for a single new token? And is it one for a long
# prompt?
#
# <details><summary>Compare</summary>
#
# For a single token, attention waits for memory, not for arithmetic (unit 07). What counts is how many numbers must be
# read, and these are 57 times fewer (32,768 / 576). A prompt of n tokens has n queries. To bring all of them to the
# width d_c costs as many FLOPs as to make n keys, and then each of the n² scores costs four times as much. So for a
# prompt it is cheaper to make the keys and values, use them, and store only the latents.
# </details>
#
# ## 8.12 A window, in a ring  ●●● · 30 min · 3 points
#
# If a token sees itself and the $w - 1$ tokens before it, older ones need not be kept. The room for $w$ tokens is used
# like a ring: token $t$ lies in slot $t \bmod w$, and the newest overwrites the one that has just left the window. The
# memory no longer grows (Mistral 7B does this with $w = 4096$; Jiang et al., 2023, "rolling buffer cache").

# %%
plots.ring(window=4, n=10)

# %% [markdown]
# Find token 6 in the picture. After it, slot 3 holds token 3, the *oldest*, and slot 2 the newest. A single query sees
# all slots, so their order doesn't matter. For a chunk it does, because the mask asks how old each key is.
#
# Write `attend`: the outputs of $n$ new tokens, each over its own window, and then store them. Between
# calls the two rings are all that is kept, so a token late in the text takes no more work than an early one.
#
# **Before you write:** a chunk of 3 comes, with $w = 4$ and a full ring. Its three tokens overwrite three old ones. How
# many of these does its *first* token still have to see?

# %%
guess_still_seen = None  # 0, 1, 2 or 3

# %% nbgrader={"grade": false, "grade_id": "sliding_cache", "locked": false, "schema_version": 3, "solution": true}
class SlidingCache:
    """Keys and values of the last `window` tokens. `length` counts all tokens ever seen."""

    def __init__(
        self,
        b: int,
        h: int,
        window: int,
        d_h: int,
        dtype: torch.dtype = torch.float32,
    ):
        self.window, self.length = window, 0
        self.keys = torch.zeros(b, h, window, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, window, d_h, dtype=dtype)

    def attend(
        self,
        q: Float[Tensor, "b h n d_h"],
        k: Float[Tensor, "b h n d_h"],
        v: Float[Tensor, "b h n d_h"],
    ) -> Float[Tensor, "b h n d_h"]:
        """The outputs of n new tokens, each over its window. Then they are stored."""
        ### BEGIN SOLUTION
        old = torch.arange(max(0, self.length - self.window), self.length)  # tokens in the ring, oldest first
        new = torch.arange(self.length, self.length + q.shape[2])
        keys = torch.cat([self.keys[:, :, old % self.window], k], dim=2)
        values = torch.cat([self.values[:, :, old % self.window], v], dim=2)
        age = new[:, None] - torch.cat([old, new])  # (n, m)
        seen = (age >= 0) & (age < self.window)
        scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -torch.inf)

        kept = new[-self.window :]  # of a long chunk only the end
        self.keys[:, :, kept % self.window] = k[:, :, -self.window :]
        self.values[:, :, kept % self.window] = v[:, :, -self.window :]
        self.length += len(new)
        return torch.softmax(scores, dim=-1) @ values
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: an easy way</summary>
#
# One token at a time: store it in its slot, then attend to all slots that are filled. No mask is needed. It is right,
# and slow for long prompts.
# </details>
# <details><summary>Hint 2: all at once</summary>
#
# List the old tokens by number, oldest first: `torch.arange(…, self.length)`. Their slots are these numbers mod window.
# Put the new ones after them, and compute the age of each key for each query.
# </details>
# <details><summary>Hint 3: attend, then store</summary>
#
# If you store a chunk first, its end has overwritten what its beginning needs. And a slice of `k` is a view: keep a
# copy, or what the caller writes into `k` later stands in your ring.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Chunks of any length, longer than the window too, while the ring is empty, partly full or full. The window may be 1.
# - float32 and float64, the rings' dtype. Scores may be in the thousands, and a key or value may be all zeros.
# - Keys and values are read from `self.keys` and `self.values`, and kept nowhere else. Which slot a token lies in is up
#   to you. You may put other rings in their place, shorter ones too while they fill up, and score empty slots if you
#   hide them.
# - No ring is longer than the window. A view of a longer tensor keeps all of that tensor: `clone()` what you keep.
# - `length` is the number of all tokens.
# - No tokens are scored but those in the ring and the new ones: no tensor has more than
#   $4 \cdot b \cdot h \cdot n \cdot (w + n) \cdot d_h$ numbers.
# - After a call the caller writes other numbers into `q`, `k` and `v`: keep copies, no views.
# - PyTorch's own attention functions may be called.
# </details>

# %% nbgrader={"grade": true, "grade_id": "sliding_cache_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.sliding_cache(SlidingCache, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.sliding_cache(SlidingCache, points=3, cases=hidden.sliding_cache)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>How many old tokens?</summary>
#
# Two. Let the chunk begin with token 8: tokens 8, 9 and 10 take the slots of 4, 5 and 6, and token 8 sees 5, 6, 7 and
# itself. If the chunk is stored first, 5 and 6 are gone before token 8 has read them.
# </details>
#
# ## 8.13 One byte per number  ●●○ · 20 min · 2 points
#
# Keys and values can be stored as whole numbers from −127 to 127 (int8's −128 stays unused) with a **scale**, the width
# of one step:
#
# $$\text{scale} = \frac{\max \lvert x \rvert}{127}, \qquad
# \text{code} = \operatorname{round}\!\left(\frac{x}{\text{scale}}\right), \qquad
# x \approx \text{code} \cdot \text{scale}$$
#
# Rounding is off by half a step at most, so the step should be small. Over which numbers should the maximum be taken?
# Keys have a few channels that are far larger than the rest, in every token. Values have none (KIVI, Liu et al., 2024).
# So **keys get a scale for each channel** of each head, **values one for each token** of each head.
#
# **By hand.** A channel 0.5, −2.54, 1.0: the largest is 2.54, so the step is 0.02. Codes: 25, −127, 50. All exact. With
# 0.51 the code is round(25.5), and the error is 0.01, half a step.
#
# What if a channel is 0 everywhere? Then the formula divides 0 by 0, and int8 has no NaN: the conversion turns it into
# some whole number, which depends on the machine. So such a channel needs a scale of its
# own: any positive one will do, because its codes are 0.
#
# And what do the scales cost? The third function counts the bytes.

# %% nbgrader={"grade": false, "grade_id": "quantized_cache", "locked": false, "schema_version": 3, "solution": true}
def quantize_keys(
    k: Float[Tensor, "b h n d_h"],
) -> tuple[Int8[Tensor, "b h n d_h"], Float[Tensor, "b h 1 d_h"]]:
    """Codes (torch.int8), and one scale for each channel: codes * scale is nearly k."""
    ### BEGIN SOLUTION
    scale = k.abs().amax(dim=-2, keepdim=True) / 127
    scale = torch.where(scale > 0, scale, 1.0)  # where all is 0, any step will do
    return torch.round(k / scale).to(torch.int8), scale
    ### END SOLUTION


def quantize_values(
    v: Float[Tensor, "b h n d_h"],
) -> tuple[Int8[Tensor, "b h n d_h"], Float[Tensor, "b h n 1"]]:
    """The same with one scale for each token."""
    ### BEGIN SOLUTION
    scale = v.abs().amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale > 0, scale, 1.0)
    return torch.round(v / scale).to(torch.int8), scale
    ### END SOLUTION


def quantized_bytes(b: int, h: int, n: int, d_h: int, size: int) -> int:
    """Bytes of one layer's keys and values: a code takes 1 byte, a scale `size`."""
    ### BEGIN SOLUTION
    return 2 * b * h * n * d_h + size * (b * h * d_h + b * h * n)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: the axis</summary>
#
# `amax(dim, keepdim=True)` takes the maximum *over* `dim`, and `dim` shrinks to 1. Which axis is 1 in the shape of the
# scale that you should return?
# </details>
# <details><summary>Hint 2: a scale of 0</summary>
#
# Put another number in its place before you divide. 0 divided by anything else is 0.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - float32 and float64; a scale may have either dtype. The codes are `torch.int8`, and the scales have the shapes of
#   the type hints.
# - A code times its scale is within half a step of the input, and the largest entry of each channel (of keys) or token
#   (of values) has the code ±127.
# - Every scale is positive; a channel of zeros has the codes 0; one with entries of $10^{-6}$ keeps the scale of the
#   formula. No maximum but 0 is so small that 1/127 of it becomes 0.
# - The bytes: exact, the codes and scales of keys and values together.
# </details>

# %% nbgrader={"grade": true, "grade_id": "quantized_cache_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.quantized_cache(quantize_keys, quantize_values, quantized_bytes, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.quantized_cache(quantize_keys, quantize_values, quantized_bytes, points=2, cases=hidden.quantized_cache)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Keys with two loud channels, stored with one scale per channel and with one per token. On the right: how
# much of each channel is lost at most, either way.

# %%
torch.manual_seed(1)
loudness = torch.ones(16)
loudness[3], loudness[11] = 40, 25
plots.rounding_errors(quantize_keys, quantize_values, torch.randn(1, 1, 12, 16) * loudness)

# %% [markdown]
# A channel's scale is known only when all its tokens are there. So in practice the newest tokens are kept as they are,
# and keys are quantized in blocks of, say, 128 tokens. Values need no such care: a token's scale depends only on that
# token.
#
# ## 8.14 Pages  ●●● · 40 min · 3 points
#
# A server doesn't know how long an answer will be. Room for the longest possible answer is mostly wasted: in the
# systems that Kwon et al. (2023, figure 2) measured, only 20 to 38% of the memory for caches held tokens. And a
# hundred answers to one prompt hold the same keys a hundred times. Operating systems solved this problem with **pages**
# (PagedAttention in vLLM; Kwon et al., 2023). The memory is one pool of pages of `page_size` tokens. Each sequence has
# a **table**, the list of its pages in order. A page is taken when it is needed. Two sequences with a common beginning
# share pages, and a shared page is copied only when one of them writes into it (**copy on write**). A page is free
# again when nobody uses it.

# %%
plots.page_film()

# %% [markdown]
# Write the five methods. A *row* stands for all that a token leaves in the cache: $d$ numbers. `users[p]` counts the
# tables in which page `p` stands, and a page with 0 users is free.
#
# **By hand.** Pages of 4 tokens, 6 tokens in `a`, and the first free page is always taken: page 0 is full, page 1 half
# full, `users` is [1, 1, 0, 0]. Fork: [2, 2, 0, 0], and nothing is copied. `b` adds a row: page 1 is shared, so its
# rows go to page 2 first: [2, 1, 1, 0]. Page 0 is full and will never be written again: it stays shared. Free `a`: [1,
# 0, 1, 0].

# %% nbgrader={"grade": false, "grade_id": "paged_cache", "locked": false, "schema_version": 3, "solution": true}
class PagedCache:
    """Sequences, known by their names, whose rows lie in pages of one pool."""

    def __init__(self, pages: int, page_size: int, d: int, dtype: torch.dtype = torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages  # in how many tables each page stands
        self.table: dict[str, list[int]] = {}  # the pages of each sequence, in order
        self.length: dict[str, int] = {}  # the number of its rows

    @property
    def free_pages(self) -> int:
        """How many pages nobody uses."""
        return self.users.count(0)

    def take(self) -> int:
        """The number of a free page, which now has one user. ValueError if there is none."""
        ### BEGIN SOLUTION
        if self.free_pages == 0:
            raise ValueError("no page is free")
        page = self.users.index(0)
        self.users[page] = 1
        return page
        ### END SOLUTION

    def append(self, name: str, rows: Float[Tensor, "n d"]) -> None:
        """Add rows to a sequence, or begin a new one. Takes no page too early."""
        ### BEGIN SOLUTION
        table = self.table.setdefault(name, [])
        self.length.setdefault(name, 0)
        for row in rows:
            index, slot = divmod(self.length[name], self.pool.shape[1])
            if slot == 0:  # all pages are full
                table.append(self.take())
            elif self.users[table[index]] > 1:  # copy on write
                shared, table[index] = table[index], self.take()
                self.pool[table[index]] = self.pool[shared]
                self.users[shared] -= 1
            self.pool[table[index], slot] = row
            self.length[name] += 1
        ### END SOLUTION

    def read(self, name: str) -> Float[Tensor, "length d"]:
        """The rows of a sequence, oldest first."""
        ### BEGIN SOLUTION
        return self.pool[self.table[name]].flatten(0, 1)[: self.length[name]]
        ### END SOLUTION

    def fork(self, name: str, new: str) -> None:
        """Begin the sequence `new` with all rows of `name`, sharing its pages."""
        ### BEGIN SOLUTION
        self.table[new] = list(self.table[name])
        self.length[new] = self.length[name]
        for page in self.table[new]:
            self.users[page] += 1
        ### END SOLUTION

    def free(self, name: str) -> None:
        """Forget a sequence. Pages that nobody else uses are free again."""
        ### BEGIN SOLUTION
        for page in self.table.pop(name):
            self.users[page] -= 1
        del self.length[name]
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: where does row number t go?</summary>
#
# `divmod(t, page_size)` gives the place in the table and the slot on the page. Slot 0 means: a new page.
# </details>
# <details><summary>Hint 2: copy on write</summary>
#
# Before you write into a page, ask how many use it. If it is more than one: take a page, copy the rows, put its number
# into *this* table, and count the users of the old page down.
# </details>
# <details><summary>If pages leak</summary>
#
# Every +1 in `users` needs its −1: in `free`, and when a sequence moves from a shared page to its copy.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - What `append`, `read`, `fork` and `free` do, and `free_pages` after each of them. What else `__init__` keeps, and
#   which free page you take, is up to you. (`page_size` is `pool.shape[1]`.)
# - If no page is free in the middle of an `append`: a `ValueError`, and `users`, `table` and `length` still fit.
# - No page is taken or copied before a row needs it: a page that is just full has no successor yet, and a full page
#   stays shared.
# - An `append` brings at least one row, of the pool's dtype (float32 or float64; a row may be all zeros). The caller
#   writes other numbers into the rows afterwards.
# - `read` may return a view of the pool or a copy. `read`, `fork` and `free` get names of sequences that have rows, and
#   `fork` a new name with it. After `free` a name may begin a new sequence.
# - After a `ValueError` the rows before it may stay or go. The pages in use are those that the remaining rows need, no
#   more. A new name may be known then or not: nobody reads it.
# - Two caches share nothing.
# </details>

# %% nbgrader={"grade": true, "grade_id": "paged_cache_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.paged_cache(PagedCache, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.paged_cache(PagedCache, points=3, cases=hidden.paged_cache)
### END HIDDEN TESTS

# %% [markdown]
# ## 8.15 Prompts of different lengths  ●●○ · 20 min · 2 points
#
# A batch is a rectangle, and prompts are not equally long. Pad the short ones on the **left**: then all of them end in
# the same column, and the new tokens of all rows go into the next one. What is real and what is padding is kept in a
# mask $(b, m)$: the padding's number may be that of a real token (0 is one), so the numbers don't tell. Two things must
# not notice the padding:
#
# - **positions**: the first real token of a row stands at position 0, wherever its column is;
# - **attention**: no real token attends to padding.
#
# Write the padding first, and then the positions and the mask for the newest $n$ of $m$ columns: $n = m$ for the
# prompts, $n = 1$ for each token after them, anything between for chunks.
#
# **By hand.** Prompts of 3 and 1: row 1 is pad, pad, token. The positions are 0 1 2 and – – 0. The next tokens stand at
# 3 and at 1, in the same column.

# %% nbgrader={"grade": false, "grade_id": "ragged_batch", "locked": false, "schema_version": 3, "solution": true}
def pad_left(
    prompts: list[Int[Tensor, "n"]],
) -> tuple[Int[Tensor, "b m"], Bool[Tensor, "b m"]]:
    """The prompts as rows, padded on the left, and a mask: True where a token is real."""
    ### BEGIN SOLUTION
    m = max(len(prompt) for prompt in prompts)
    tokens = torch.stack([F.pad(prompt, (m - len(prompt), 0)) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    return tokens, torch.arange(m) >= m - lengths[:, None]
    ### END SOLUTION


def positions_and_mask(
    real: Bool[Tensor, "b m"],
    n: int,
) -> tuple[Int[Tensor, "b n"], Bool[Tensor, "b n m"]]:
    """Of the newest n of m columns: positions, and the causal mask without padding.
    True = may attend."""
    ### BEGIN SOLUTION
    m = real.shape[1]
    positions = (real.long().cumsum(dim=1) - 1).clamp(min=0)  # real tokens before this one
    columns = torch.arange(m)
    causal = columns <= columns[m - n :, None]  # (n, m)
    return positions[:, m - n :], causal & real[:, None, :]
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: counting real tokens</summary>
#
# `real.cumsum(dim=1)` counts the True entries from the left. Where should the count begin?
# </details>
# <details><summary>Hint 2: two masks</summary>
#
# One is causal, (n, m), the same for all rows. The other says which columns are real, (b, 1, m), the same for all
# queries. A key must pass both.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Tokens and positions are whole numbers, at least 32 bits wide. Masks are `torch.bool`.
# - In `real` a row is padding first and real tokens from there to its end, one at least. $1 \le n \le m$.
# - What number stands in the padding, and what position and which mask row a padded token gets, doesn't matter.
# </details>

# %% nbgrader={"grade": true, "grade_id": "ragged_batch_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.ragged_batch(pad_left, positions_and_mask, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import kv_cache as hidden
check.ragged_batch(pad_left, positions_and_mask, points=2, cases=hidden.ragged_batch)
### END HIDDEN TESTS

# %%
real = torch.arange(6) >= 6 - torch.tensor([[6], [3], [1]])  # prompts of 6, 3 and 1 tokens
plots.ragged_masks(positions_and_mask, real)

# %% [markdown]
# The rows of padded queries may be empty: nothing is allowed there. A softmax over nothing is 0/0, so real code gives
# such rows a finite number instead of −∞ (unit 03), and nobody reads the result.
#
# ## 8.16 Measure it: more than one sequence  ●○○ · 5 min
#
# Back to the small Transformer and your cache of 8.4, now with more than one sequence. Each has 256 tokens already, and
# gets one more.
#
# **Predict:** a batch of 16 has 16 times the work of a single sequence. From 1 sequence to 16, do the tokens per second
# grow more with a cache, or more without?

# %%
guess_grows_more = None  # "with" or "without" (quotes included)

# %%
plots.tokens_per_second(KVCache)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# With a cache, tokens per second rise with the batch: a single token is a thin matrix product, and the machine waits
# for memory and for Python, not for arithmetic (unit 07's roofline). More sequences fill the wait. Without a cache the
# machine is busy already, and a batch brings little. That is why servers put many sequences into one batch. The size of
# the cache limits that batch, so it decides what a token costs.
# </details>

# %% [markdown]
# ## 8.17 All of it in one model  ●○○ · 10 min
#
# Your cache (8.4), your step (8.5) and your loop (8.6) have never met. Here they do, once their cards are green. The
# course ships a trained model: the Transformer of unit 05, with 4 layers, $d = 64$ and 4 heads. It was trained on the
# stories of that unit, for more steps than there, and without a cache. `story_model` is the whole Transformer
# around your step, in the form that 8.6 asks for. Read it: nearly every line you have met.

# %%
from helpers.transformer_lm.story_teller import story_teller

lm, vocabulary = story_teller()  # a `DecoderLM` of unit 05, and the word of every token


def story_model(tokens: Int[Tensor, "b n"], start: int, cache: list | None):
    """Logits, and the cache: a `KVCache` for each layer, and what it returned last."""
    b, h, d_h = len(tokens), lm.config.h, lm.config.d_h
    if cache is None:
        nothing = torch.zeros(b, h, 0, d_h)
        cache = [(KVCache(b, h, 128, d_h), nothing, nothing) for _ in lm.blocks]
    x, filled = lm.embedding(tokens) * math.sqrt(lm.config.d), []
    for block, (room, keys, values) in zip(lm.blocks, cache):
        layer = block.attention
        weights = [linear.weight.T for linear in (layer.w_q, layer.w_k, layer.w_v, layer.w_o)]
        out, keys, values = decode_step(block.norm_1(x), keys, values, *weights)
        keys, values = room.append(keys[:, :, start:], values[:, :, start:])  # only the new ones
        filled.append((room, keys, values))
        x = x + out
        x = x + block.mlp(block.norm_2(x))
    return lm.norm(x) @ lm.embedding.weight.T, filled

# %% [markdown]
# Six stories, each with 4 tokens of prompt (the mark that begins a story is one of them) and 60 to write. They are
# written twice: by your loop with your cache, and without a cache, reading everything again for every word.
#
# **Predict:** how many positions does the model compute for one of the stories, with the cache and without? Will it be
# faster by the same factor?

# %%
guess_positions_with_cache = None  # a number
guess_positions_without = None  # a number

# %%
prompts = ["Ada Stone meets", "Eva Hill meets", "Leo Wood meets", "Tom Field meets", "Ada Lake meets",
           "Leo Brook meets"]
plots.tell_stories(story_model, generate_cached, lm, vocabulary, prompts, n=60)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# The same words, down to the last one. With the cache a story takes 4 + 59 = 63 positions. Without, it takes
# 4 + 5 + … + 63 = 2,010, 32 times as many. The clock shows a smaller factor, because this model is tiny: a step of a
# single position is mostly the time that Python and PyTorch need to start a few dozen operations. The larger the model
# and the longer the text, the closer the two factors get.
# </details>
#
# The same cache serves the model of 5.18, which writes English: `story_model` reads `lm`, so only that changes. The
# text stays within the 128 characters that it has learned to read. (Your loop always takes the likeliest one, so it
# soon goes in circles.)

# %%
from helpers.transformer_lm.course_writer import course_writer

lm, characters = course_writer()
plots.tell_stories(story_model, generate_cached, lm, characters, ["Attention is a "], n=100)

# %% [markdown]
# One thing is left to fix. Your step still joins old and new with `torch.cat`, so every step copies each layer's keys
# and values once. An engine hands the cache to the layer instead, and the layer attends to what `append` returns: then
# nothing old is ever copied.

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "8.4 Exponent of the products with weights, with a cache": (guess_weights_with_cache, 0),
    "8.4 … without a cache": (guess_weights_without, 1),
    "8.4 Exponent of the attention, with a cache": (guess_attention_with_cache, 1),
    "8.7 Of three kinds of layers, old outputs stay in": (guess_unchanged, 1),
    "8.9 Most bytes per token": (guess_needs_most, "Llama 2 7B"),
    "8.9 Fewest bytes per token": (guess_needs_least, "Mistral 7B"),
    "8.11 Scores of latents are divided by the root of": (guess_divided_by_root_of, "d_h"),
    "8.12 Overwritten tokens that the chunk's first token must see": (guess_still_seen, 2),
    "8.16 Tokens per second grow more": (guess_grows_more, "with"),
    "8.17 Positions of one story with the cache": (guess_positions_with_cache, 4 + 59),
    "8.17 Positions of one story without": (guess_positions_without, sum(range(4, 64))),
})

# %% [markdown]
# ## What you have now
#
# - **Keys and values** of every layer are kept. Queries are not. It works because causal outputs never change.
# - With a cache a token costs $\Theta(d^2 + nd)$ instead of $\Theta(nd^2 + n^2d)$. The cache holds
#   $2 \cdot L \cdot b \cdot n \cdot h_{kv} \cdot d_h$ numbers.
# - New tokens stand at positions $m, m + 1, \dots$; the mask's triangle is shifted by $m$; a chunk needs it, a single
#   token doesn't.
# - Five ways to shrink it: share heads (÷ $h/h_{kv}$), store a latent for all of them ($d_c$ numbers instead of
#   $2 \cdot h \cdot d_h$), a window (constant in $n$), int8 (÷ 2 or ÷ 4), pages (little wasted, beginnings shared).
# - A batch of unequal prompts is padded on the left, and neither positions nor attention may notice.
#
# **Read more**
#
# - Shazeer (2019), *Fast Transformer Decoding: One Write-Head is All You Need*: why writing waits for memory, counted,
#   and the first remedy. Section 8.10 is its descendant.
# - Pope et al. (2022), *Efficiently Scaling Transformer Inference*: the price of a token on many devices, by formulas
#   like those of 8.8 and 8.9.
# - DeepSeek-AI (2024), *DeepSeek-V2*, section 2.1: latent attention, with the rotary part that 8.11 leaves out.
# - Kwon et al. (2023), *Efficient Memory Management for Large Language Model Serving with PagedAttention*: 8.14 as a
#   real server.
# - Liu et al. (2024), *KIVI*: which axis of keys and values to quantize along, with pictures of their channels.
#
# **Next:** the scores of a *prompt* are still an $n \times n$ square. Unit 09 computes attention without ever making
# it.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=8)
