# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 06 · Encoder and decoder
#
# A language model continues a text. A translator has a harder task: it reads one sequence and writes *another*, whose
# words come in another order and whose length isn't known beforehand. The Transformer was invented for this (Vaswani et
# al., 2017). One stack of layers reads, a second one writes, and between them stands the one kind of attention that a
# language model doesn't have: cross-attention.
#
# **After this unit you can**
# - write the encoder's and the decoder's layer of 2017, and connect them the right way round;
# - train such a model with teacher forcing, and say why it must be shifted;
# - decode: greedily with the encoder run once, and with a beam whose hypotheses are compared fairly;
# - read an alignment off the weights of cross-attention, and say how far to trust it;
# - count what encoder, decoder and cross-attention cost, and compare them with a decoder-only model.
#
# **How to work.** As before: read, predict, write, run the check. You have about 3½ hours, and 24 points to earn.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import helpers

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from helpers import check, plots, setup
from helpers.multi_head.heads import MultiHeadAttention
from helpers.transformer_lm.positions import sinusoidal_positions

PAD, START, END = 0, 1, 2  # the tokens that are no words, in every vocabulary of this unit

setup()

# %% [markdown]
# `MultiHeadAttention(d, h)` is the layer of unit 04: `attention(x, mask=mask)` is self-attention,
# `attention(x, memory, mask)` cross-attention. The mask is boolean: $(n, m)$, $(b, n, m)$, or $(b, 1, m)$ for all
# queries alike; `None` hides nothing. `sinusoidal_positions(n, d)` is the table of unit 05. In this unit the **source**
# has $m$ tokens and the **target** $n$.
#
# ## 6.1 The encoder's layer  ●○○ · 15 min · 3 points
#
# A layer has two **sublayers**. In the first, tokens read each other: self-attention. In the second, each token is
# worked on by itself: a feed-forward network, $\max(0,\, x W_1 + b_1)\, W_2 + b_2$. Both are wrapped in the same way
# (section 3.1 of the paper):
#
# $$x \;\leftarrow\; \operatorname{norm}\big(x + \operatorname{dropout}(\text{sublayer}(x))\big)$$
#
# The sublayer only *adds* something to the stream. The norm comes after the sum: **post-norm**. (Most models since 2020
# put it before the sublayer, as in unit 05; Xiong et al., 2020, explain why that is easier to train.)
#
# **By hand.** A token $x = (1, 3)$, and a sublayer that gives $(2, -2)$. The sum is $(3, 1)$, its mean 2, its deviation
# 1: the norm gives $(1, -1)$.

# %%
plots.enc_dec_layers()

# %% [markdown]
# **Names.** `self_attn` (a `MultiHeadAttention`), `linear1` and `linear2` with a ReLU between them, `norm1`, `norm2`
# (`nn.LayerNorm`). They are PyTorch's own names, and the check loads weights under them.
#
# In the encoder nothing is causal: the source is known as a whole. Hand on the mask that you are given.

# %% nbgrader={"grade": false, "grade_id": "EncoderLayer", "locked": false, "schema_version": 3, "solution": true}
class EncoderLayer(nn.Module):
    """Without PyTorch's Transformer layers: self-attention, feed-forward network; post-norm.

    Parameters: self_attn, linear1, linear2, norm1, norm2."""

    def __init__(self, d: int, h: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attn = MultiHeadAttention(d, h)
        self.linear1 = nn.Linear(d, d_ff)
        self.linear2 = nn.Linear(d_ff, d)
        self.norm1 = nn.LayerNorm(d)
        self.norm2 = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "b m d"],
        mask: Bool[Tensor, "*b m m"] | None = None,
    ) -> Float[Tensor, "b m d"]:
        """mask: who may attend to whom, True = may."""
        ### BEGIN SOLUTION
        attended = self.self_attn(x, mask=mask)  # (b, m, d)
        x = self.norm1(x + self.dropout(attended))
        fed = self.linear2(F.relu(self.linear1(x)))  # (b, m, d) → (b, m, d_ff) → (b, m, d)
        return self.norm2(x + self.dropout(fed))
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two lines</summary>
#
# Each sublayer is one line: `x = norm(x + dropout(sublayer(x)))`. What is the `x` of the second line?
# </details>
# <details><summary>Hint 2: dropout</summary>
#
# `nn.Dropout(p)` made in `__init__` knows whether the layer is in training mode. `F.dropout` doesn't, unless you tell
# it `self.training`.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - None of PyTorch's own Transformer layers, nor its `nn.MultiheadAttention`.
# - Weights are loaded by name: two names are two modules, and there are no other parameters. `nn.LayerNorm` keeps its
#   usual eps of 1e-5.
# - The mask is `None`, $(m, m)$, $(b, m, m)$ or $(b, 1, m)$. It may hide anything, but leaves each token something to
#   read.
# - In evaluation mode nothing is dropped. In training mode dropout acts once on what each sublayer gives, feature by
#   feature. It divides what it leaves by 1 − rate, and at rate 1 leaves nothing: `nn.Dropout` does all that. Which
#   features it drops is up to chance.
# - PyTorch's own layers drop once more, between ReLU and `linear2`. With that or without it, your layer is right.
# - float32 and float64. Gradients with respect to $x$.
# </details>

# %% nbgrader={"grade": true, "grade_id": "EncoderLayer_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.EncoderLayer(EncoderLayer, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.EncoderLayer(EncoderLayer, points=3, cases=hidden.EncoderLayer)
### END HIDDEN TESTS

# %% [markdown]
# ## 6.2 The decoder's layer  ●●○ · 20 min · 3 points
#
# The decoder's layer has three sublayers, wrapped in the same way:
#
# 1. **masked self-attention** among the target's own tokens (`self_attn`, with `mask`);
# 2. **cross-attention** (`cross_attn`, with `memory_mask`): the target asks, the source answers;
# 3. the feed-forward network (`linear1`, ReLU, `linear2`).
#
# What the encoder gives is called the **memory**. In cross-attention the queries come from the decoder, keys and values
# from the memory. So there are $n \times m$ scores, one row per target token. Bahdanau et al. (2015) had the same idea
# in an RNN: don't squeeze the sentence into one vector, look back at it for every word.
#
# **Predict first:** is cross-attention causal? Word 1 of the target may need the *last* word of the source.

# %%
guess_cross_attention_causal = None  # "yes" or "no" (quotes included)

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. The source is there as a whole before the first word is written. What may be hidden is its padding, and nothing
# else.
# </details>
#
# **Names.** `self_attn`, `cross_attn`, `linear1`, `linear2`, `norm1`, `norm2`, `norm3`, in the order of the sublayers.
# (PyTorch calls `cross_attn` `multihead_attn`.) The layer makes no mask of its own. Gradients flow back through the
# memory too: that is how the encoder learns.
#
# **Watch it.** The four words of 2.5 are now the source, and an Esperanto sentence is being written. Each word that was
# read asks for the next one.

# %%
plots.cross_flow()

# %% nbgrader={"grade": false, "grade_id": "DecoderLayer", "locked": false, "schema_version": 3, "solution": true}
class DecoderLayer(nn.Module):
    """Without PyTorch's Transformer layers: a decoder layer with cross-attention, post-norm.

    Parameters: self_attn, cross_attn, linear1, linear2, norm1, norm2, norm3."""

    def __init__(self, d: int, h: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attn = MultiHeadAttention(d, h)
        self.cross_attn = MultiHeadAttention(d, h)
        self.linear1 = nn.Linear(d, d_ff)
        self.linear2 = nn.Linear(d_ff, d)
        self.norm1 = nn.LayerNorm(d)
        self.norm2 = nn.LayerNorm(d)
        self.norm3 = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"],
        mask: Bool[Tensor, "*b n n"] | None = None,
        memory_mask: Bool[Tensor, "*b n m"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """mask: among the target's tokens. memory_mask: the rows of the memory each may read.

        True = may attend."""
        ### BEGIN SOLUTION
        x = self.norm1(x + self.dropout(self.self_attn(x, mask=mask)))
        x = self.norm2(x + self.dropout(self.cross_attn(x, memory, memory_mask)))  # (b, n, d) asks (b, m, d)
        fed = self.linear2(F.relu(self.linear1(x)))
        return self.norm3(x + self.dropout(fed))
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: who asks whom?</summary>
#
# `attention(x, memory, mask)`: queries from the first, keys and values from the second. The output has one row per
# query.
# </details>
# <details><summary>If you see "The size of tensor a must match the size of tensor b"</summary>
#
# Source and target have different lengths. Look at which sequence asks, and which of the two masks goes where.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - As in 6.1: no ready-made layers, weights loaded by name, the eps of the norms, and dropout, here in three places.
# - `mask` is `None`, $(n, n)$ or $(b, n, n)$, causal or not. `memory_mask` is `None`, $(n, m)$, $(b, n, m)$ or
#   $(b, 1, m)$. Each token has something to read.
# - Cross-attention isn't causal, even where $n = m$.
# - float32 and float64. Gradients with respect to $x$ and the memory.
# </details>

# %% nbgrader={"grade": true, "grade_id": "DecoderLayer_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.DecoderLayer(DecoderLayer, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.DecoderLayer(DecoderLayer, points=3, cases=hidden.DecoderLayer)
### END HIDDEN TESTS

# %% [markdown]
# ## 6.3 Which layer reads which?  ●○○ · 3 min · 1 point
#
# (If you have time: 6.4 gives the answer away.) A model has six encoder layers and six decoder layers. Where do the
# keys and values of the decoder's cross-attentions come from?
#
# - **a** decoder layer $i$ reads encoder layer $i$
# - **b** every decoder layer reads the output of the last encoder layer
# - **c** the first decoder layer reads the last encoder layer; the others read only the decoder layer before
# - **d** the last decoder layer reads the last encoder layer; the others read only the decoder layer before
# - **e** every decoder layer reads the outputs of all encoder layers

# %% nbgrader={"grade": false, "grade_id": "which_connects_where", "locked": false, "schema_version": 3, "solution": true}
def which_connects_where() -> str:
    """The letter of your choice, for example "a"."""
    ### BEGIN SOLUTION
    return "b"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - One letter, from "a" to "e".
# </details>

# %% nbgrader={"grade": true, "grade_id": "which_connects_where_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.which_connects_where(which_connects_where, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.which_connects_where(which_connects_where, points=1, cases=hidden.which_connects_where)
### END HIDDEN TESTS

# %% [markdown]
# ## 6.4 The whole model  ●●● · 35 min · 4 points
#
# Put it together (figure 1 of the paper).
#
# - **In:** $\sqrt d$ times the embedding of a token (section 3.4), plus its position, then dropout (section 5.4). Two
#   vocabularies, two embeddings.
# - **Encoder:** `layers` encoder layers. The padding of the source is hidden from all queries.
# - **Decoder:** `layers` decoder layers with a causal mask. Each reads the memory, its padding hidden.
# - **Out:** `head`, a linear layer from $d$ to the words of the target, with a bias and weights of its own (the paper
#   shares the weights with the embeddings). The model returns logits, without a softmax.
#
# `real` tells `encode` and `decode` which *source* tokens are words. Only `forward` compares the source with PAD. The
# padding of the *target* needs no mask: it stands at the right end, and the causal mask hides it from all real tokens.
#
# **Start small.** `nn.Embedding` starts with numbers of size 1. Times $\sqrt d$ they would drown the positions, which
# are at most 1. So start both with standard deviation $d^{-1/2}$: `nn.init.normal_(embedding.weight, std=d**-0.5)`.
#
# **Each layer its own.** `[layer] * 6` is *one* layer in a list six times. A Transformer's layers share nothing.
#
# **By hand.** A batch of two sources, `[7, 8, 9]` and `[5, 0, 0]`. `real = source != PAD` is `[[1, 1, 1], [1, 0, 0]]`,
# $(b, m)$. As a mask for every query it needs an axis: `real[:, None]`, $(b, 1, m)$.
#
# **Names.** `source_embedding`, `target_embedding` (`nn.Embedding`), `encoder`, `decoder` (`nn.ModuleList`), `head`
# (`nn.Linear`).

# %%
plots.enc_dec_masks("the cat saw dogs".split(), ["<start>", "la", "kato", "hundojn", "vidis"])

# %% nbgrader={"grade": false, "grade_id": "EncoderDecoder", "locked": false, "schema_version": 3, "solution": true}
class EncoderDecoder(nn.Module):
    """Without `nn.Transformer`: the model of 2017.

    Parameters: source_embedding, target_embedding, encoder, decoder, head."""

    def __init__(
        self,
        source_words: int,
        target_words: int,
        d: int,
        h: int,
        d_ff: int,
        layers: int,
        dropout: float = 0.1,
    ):
        """The embeddings start with standard deviation d^(−½)."""
        super().__init__()
        ### BEGIN SOLUTION
        self.d = d
        self.source_embedding = nn.Embedding(source_words, d)
        self.target_embedding = nn.Embedding(target_words, d)
        nn.init.normal_(self.source_embedding.weight, std=d**-0.5)
        nn.init.normal_(self.target_embedding.weight, std=d**-0.5)
        self.encoder = nn.ModuleList([EncoderLayer(d, h, d_ff, dropout) for _ in range(layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d, h, d_ff, dropout) for _ in range(layers)])
        self.head = nn.Linear(d, target_words)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def encode(
        self,
        source: Int[Tensor, "b m"],
        real: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b m d"]:
        """The memory. real: which source tokens are no padding."""
        ### BEGIN SOLUTION
        x = self.source_embedding(source) * math.sqrt(self.d)
        x = self.dropout(x + sinusoidal_positions(source.shape[1], self.d).to(x))
        for layer in self.encoder:
            x = layer(x, real[:, None])  # (b, 1, m): the same keys for all queries
        return x
        ### END SOLUTION

    def decode(
        self,
        target: Int[Tensor, "b n"],
        memory: Float[Tensor, "b m d"],
        real: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b n target_words"]:
        """Logits of the token after each target token.

        real: which rows of the memory are no padding."""
        ### BEGIN SOLUTION
        n = target.shape[1]
        x = self.target_embedding(target) * math.sqrt(self.d)
        x = self.dropout(x + sinusoidal_positions(n, self.d).to(x))
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        for layer in self.decoder:
            x = layer(x, memory, causal, real[:, None])
        return self.head(x)
        ### END SOLUTION

    def forward(
        self,
        source: Int[Tensor, "b m"],
        target: Int[Tensor, "b n"],
    ) -> Float[Tensor, "b n target_words"]:
        """Logits for all target positions at once."""
        ### BEGIN SOLUTION
        real = source != PAD
        return self.decode(target, self.encode(source, real), real)
        ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: in words</summary>
#
#     encode:   embed the source; through all encoder layers; return what comes out at the top
#     decode:   embed the target; through all decoder layers, each with the same memory; head
#     forward:  real = source is not PAD; decode(target, encode(source, real), real)
# </details>
# <details><summary>Hint 2: several layers</summary>
#
# `nn.ModuleList([EncoderLayer(…) for _ in range(layers)])` makes a new one each time. A plain Python list would hide
# the layers' parameters from the optimizer.
# </details>
# <details><summary>If you see NaN</summary>
#
# A query whose keys are all hidden gives NaN. Is it `real[:, None]` (keys) or `real[:, :, None]` (queries)?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - No ready-made Transformer layer. Weights are loaded by name: two names are two modules, and there are no other
#   parameters. Buffers (a table of positions, say) are left as they are.
# - float32 and float64; positions computed in float32 are precise enough. Sequences have up to 1,024 tokens, and one
#   call may be longer or shorter than the one before.
# - In `forward` padding stands at the right end, and each row has a token before it.
# - `encode` and `decode` go by the `real` that they get. It may hide tokens between others, show a PAD, and differ
#   between the two, but leaves something to read in each row.
# - Where the target is PAD the logits may be any numbers, but no NaN. You may hide that padding as keys.
# - Both embeddings start with about the standard deviation asked for. Dropout is that of 6.1: every layer gets the rate
#   `dropout`, and so do both sums of embedding and position.
# - Gradients reach the memory, and through it the encoder.
# </details>

# %% nbgrader={"grade": true, "grade_id": "EncoderDecoder_test", "locked": true, "points": 4, "schema_version": 3, "solution": false}
check.EncoderDecoder(EncoderDecoder, points=4)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.EncoderDecoder(EncoderDecoder, points=4, cases=hidden.EncoderDecoder)
### END HIDDEN TESTS

# %% [markdown]
# ## 6.5 Teacher forcing  ●●○ · 30 min · 3 points
#
# How do you train it? Let the decoder write, and compare? It would write nonsense at first, and learn from nonsense.
# **Teacher forcing** (Williams & Zipser, 1989): at every position the decoder gets the *right* tokens so far, and is
# asked for the next one. With the causal mask all positions are done in one pass. (What it never practices is going on
# from a mistake of its own. That gap is called exposure bias.)
#
# **(a) `teacher_forcing`.** The decoder's **inputs** are START and then the target. The **labels** are the target, END
# after its last word, then PAD.
#
# **By hand.** Target `[7, 8, 0]`: inputs `[1, 7, 8, 0]`, labels `[7, 8, 2, 0]`. At the first position the decoder has
# seen START and must say 7.
#
# **Predict first:** you forget the shift, and feed the labels themselves. Does the loss fall faster or more slowly? And
# what will the model write?

# %%
guess_loss_without_shift = None  # "faster" or "more slowly" (quotes included)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The loss goes to 0 in no time: each label stands in the input at its own position, and the causal mask lets a token
# see itself. The model copies its input. When it has to write by itself, there is nothing to copy.
# </details>

# %% nbgrader={"grade": false, "grade_id": "teacher_forcing", "locked": false, "schema_version": 3, "solution": true}
def teacher_forcing(
    target: Int[Tensor, "b n"],
) -> tuple[Int[Tensor, "b n+1"], Int[Tensor, "b n+1"]]:
    """Inputs: START, the target. Labels: the target, END after its last word, then PAD."""
    ### BEGIN SOLUTION
    edge = torch.full_like(target[:, :1], START)  # (b, 1)
    inputs = torch.cat([edge, target], dim=1)
    labels = torch.cat([target, torch.zeros_like(edge)], dim=1)
    lengths = (target != PAD).sum(dim=1)
    labels[torch.arange(len(target)), lengths] = END
    return inputs, labels
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: END in rows of different lengths</summary>
#
# Make room for one more column of PAD. Then row i gets END at column `lengths[i]`: how many words does it have?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A target has at least one word and PAD only after its last one; END and START aren't in it. Both results have
#   $n + 1$ columns. Where the label is PAD any input is right.
# </details>

# %% nbgrader={"grade": true, "grade_id": "teacher_forcing_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.teacher_forcing(teacher_forcing, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.teacher_forcing(teacher_forcing, points=1, cases=hidden.teacher_forcing)
### END HIDDEN TESTS

# %% [markdown]
# **(b) `exact_match`.** The share of strings that are right from the first token to END, END included. What comes after
# END doesn't count.

# %% nbgrader={"grade": false, "grade_id": "exact_match", "locked": false, "schema_version": 3, "solution": true}
def exact_match(written: Int[Tensor, "b l"], target: Int[Tensor, "b n"]) -> float:
    """The share of rows that are right, END included. `target` itself has PAD and no END."""
    ### BEGIN SOLUTION
    right = 0
    for mine, theirs in zip(written.tolist(), target.tolist(), strict=True):
        wanted = [token for token in theirs if token != PAD] + [END]
        right += mine[: len(wanted)] == wanted
    return right / len(target)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: one row</summary>
#
# What should the row begin with? The target without PAD, and END. Does it?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - A string without END is wrong, and so is one with PAD, or anything else, between its words and END. What was
#   written may be wider or narrower than the target.
# </details>

# %% nbgrader={"grade": true, "grade_id": "exact_match_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.exact_match(exact_match, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.exact_match(exact_match, points=1, cases=hidden.exact_match)
### END HIDDEN TESTS

# %% [markdown]
# **(c) `train_reversal`.** Train *your* `EncoderDecoder` to reverse strings: abcd → dcba. (Get 6.4 right first.)
#
# - The model: $d = 32$, $h = 2$, $d_\text{ff} = 64$, one layer, no dropout, `words` words on both sides.
# - One step of Adam, learning rate 0.01, with each batch in turn; one Adam takes all steps. The loss is cross-entropy
#   that ignores PAD: a mean over the labels that are asked for.
# - Return the model and the list of losses.
#
# The check uses 11 words. An untrained model guesses, so it has about ln 11 = 2.4 as its first loss. The last ones
# should be near 0.

# %% nbgrader={"grade": false, "grade_id": "train_reversal", "locked": false, "schema_version": 3, "solution": true}
def train_reversal(
    sources: Int[Tensor, "steps b n"], targets: Int[Tensor, "steps b n"], words: int
) -> tuple[EncoderDecoder, list[float]]:
    """A new model, trained with one step of Adam on each batch, and the loss of each batch."""
    ### BEGIN SOLUTION
    torch.manual_seed(0)
    model = EncoderDecoder(words, words, d=32, h=2, d_ff=64, layers=1, dropout=0.0)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for source, target in zip(sources, targets, strict=True):
        inputs, labels = teacher_forcing(target)
        logits = model(source, inputs)  # (b, n + 1, words)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: shapes for the loss</summary>
#
# `F.cross_entropy` wants (tokens, words) and (tokens). `flatten(0, 1)` joins batch and positions.
# </details>
# <details><summary>If the loss goes down and the strings are wrong</summary>
#
# Compare inputs and labels at one position. Does the decoder see what it should say?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - Three trainings, each with a new model that leaves the old ones as they are: on 1 and on 2 batches of strings
#   with many PADs, then on 80 batches of 64 strings of 3 letters, one PAD after each (a few seconds).
# - One loss per batch. The first one is between 1 and 5, and in the long training the mean of the last ten is below
#   0.4.
# - The long training's model, writing by itself, gets at least a quarter of the strings backwards, END included: of
#   those in the training, and of others that it has never seen.
# - It says the same when asked twice, goes by the source instead of repeating the letters that it is fed, and looks at
#   no later letter.
# - It hasn't learned to say PAD after END: the loss never asked for that.
# - One Adam takes all steps.
# </details>

# %% nbgrader={"grade": true, "grade_id": "train_reversal_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.train_reversal(train_reversal, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.train_reversal(train_reversal, points=1, cases=hidden.train_reversal)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** Your training, on strings of five letters, and what the trained model's cross-attention looks at. A row is
# a letter being written, a column a letter of the source.
#
# **Predict:** which cells of the map will be dark: those on the diagonal that falls from the upper left, or on the one
# that rises from the lower left?

# %%
guess_diagonal = None  # "falls" or "rises" (quotes included)

# %%
plots.reversal_learned(train_reversal)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# A diagonal from the upper right to the lower left: to write the first letter, look at the last one, and so on. Nobody
# told the model. (With two heads and five letters it need not be sharp everywhere. What a head looks at while END is
# being written, for instance, makes no difference.)
# </details>
#
# ## 6.6 Greedy decoding  ●●○ · 25 min · 3 points
#
# Now it writes by itself. The source doesn't change, so the encoder runs **once**. Then comes one token after the
# other, always the likeliest. You get two functions:
#
#     memory = encode(source)
#     logits, cache = step(tokens, memory, cache)
#
# `step` reads *new* tokens, $(b, 1)$, after those in `cache` (`None` at first). It returns the logits $(b, v)$ of the
# token that comes next, and the cache with the new tokens in it. What it keeps are keys and values: unit 08 opens that
# box.
#
# Begin with START, and take the likeliest token, whatever it is: only END ends a row. A row that has said END writes
# PAD from then on. Stop as soon as every row has said END, or after `longest` tokens. All rows are written together,
# one column per step. END belongs to the answer, START doesn't.
#
# **By hand.** Two rows; the first says 7, END, the second 5, 6, END. Three steps, and the answer is
# `[[7, 2, 0], [5, 6, 2]]`.

# %% nbgrader={"grade": false, "grade_id": "greedy_decode", "locked": false, "schema_version": 3, "solution": true}
def greedy_decode(
    encode,
    step,
    source: Int[Tensor, "b m"],
    longest: int,
) -> Int[Tensor, "b n"]:
    """The likeliest token at each step, up to END; PAD after it. n ≤ longest."""
    ### BEGIN SOLUTION
    memory, cache = encode(source), None
    tokens = torch.full((len(source), 1), START)
    ended = torch.zeros(len(source), 1, dtype=torch.bool)
    written = []
    for _ in range(longest):
        logits, cache = step(tokens, memory, cache)
        tokens = logits.argmax(dim=-1, keepdim=True)  # (b, 1)
        tokens[ended] = PAD
        written.append(tokens)
        ended = ended | (tokens == END)
        if ended.all():
            break
    return torch.cat(written, dim=1)
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: what to remember</summary>
#
# Four things: the cache, the newest tokens (b, 1), which rows have ended (b, 1), and the columns written so far.
# </details>
# <details><summary>If single sentences are right and batches wrong</summary>
#
# Rows end at different times. Stop when *all* have ended. Until then those that have ended write PAD.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - `encode` is called once, and `step` once per column of the answer, with one new token per row.
# - `longest` is at least 1. The likeliest token may be PAD or START.
# - What `step` reads in a row that has ended makes no difference. You may write into the logits.
# </details>

# %% nbgrader={"grade": true, "grade_id": "greedy_decode_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.greedy_decode(greedy_decode, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.greedy_decode(greedy_decode, points=3, cases=hidden.greedy_decode)
### END HIDDEN TESTS

# %% [markdown]
# **A task with an alignment worth looking at.** English into Esperanto, with a small grammar of ours. Esperanto is
# regular: *-o* ends a noun, *-a* an adjective, *-j* marks the plural, *-n* the object, *-as* the present and *-is* the
# past, and an adjective takes the endings of its noun. Our version puts the adjective after its noun and the verb at
# the end (word order is free in Esperanto), so words must move:
#
#     the old cats saw a happy dog   →   la katoj maljunaj hundon feliĉan vidis
#
# The model has two layers with one head each. It trains for ten to twenty seconds (Adam and a warm-up as in section 5.3
# of the paper, without the label smoothing of 5.4), and ends with nearly all of 400 held-out sentences right, word for
# word.

# %%
from helpers.encoder_decoder.training import translation

trained = translation(steps=300)
plots.training_curves(trained)

# %% [markdown]
# **Watch it** write (with your `greedy_decode`, once that is right). Orange lines are the weights of the last layer's
# cross-attention: where does the model look while it writes each word?

# %%
plots.alignment_film(trained, "the old cats saw a happy dog", greedy_decode)

# %%
plots.alignment_maps(trained, "the old cats saw a happy dog")

# %% [markdown] nbgrader={"grade": false, "grade_id": "cross_attention_map_question", "locked": true, "schema_version": 3, "solution": false}
# ### How to read an alignment  ●●○ · 15 min · 1 point
#
# Run the two cells above with some sentences of your own (words: the, a; old, small, happy, quiet; cat, dog, bird, fox,
# girl, poet and their plurals; see, follow, hear, like, paint, with *-s*, or in the past).
#
# (a) *hundon* and *feliĉan* both carry the ending *-n*. Nothing in the words *dog* and *happy* says that they are the
# object. How can the right ending be written all the same: where is this information, and how did it get there?
#
# (b) Somebody concludes from a map: "The weight on *the* is 0, so *the* plays no part in this word." Name a reason why
# the map doesn't show that, and say how you would test it.
#
# <!-- BEGIN MARK SCHEME -->
# **Mark scheme (1 point).**
# - ½ point for (a): each row of the memory is not a word but a word in its context: the encoder's self-attention has
#   written into *dog* (or *happy*) that it stands after the verb, and its number; or the decoder knows from what it has
#   written itself (self-attention over the target) that the subject is done. One of the two ways, said clearly, is
#   enough.
# - ½ point for (b): a reason (the encoder has mixed *the* into the other rows of the memory; there are other layers and
#   heads; a weight says nothing about the size of the value) **and** a test that changes the input or the model, e.g.
#   replace *the* by *a*, or hide it, and see whether the word or its probability changes. "Attention is not
#   explanation" alone earns nothing.
#
# See section 2.14, and Jain & Wallace (2019), Wiegreffe & Pinter (2019).
# <!-- END MARK SCHEME -->

# %% [markdown] nbgrader={"grade": true, "grade_id": "cross_attention_map", "locked": false, "points": 1, "schema_version": 3, "solution": true}
# (a) The decoder doesn't read the bare words. A row of the memory is what the encoder's two layers have made of a word,
# and their self-attention lets *dog* find out that a verb stands before it, and *happy* which noun it belongs to. So
# the row of *dog* can carry "object, singular". Besides, the decoder sees what it has written: after a subject comes
# the object. (b) The weight says which row of the memory is read, not which word of the input matters: the encoder may
# have copied "definite" from *the* into the row of *cats*, and another layer may read what this one doesn't. To test
# it, change the input: write *a* instead of *the* (or hide its column), and see whether the probability of the word
# changes.

# %% [markdown]
# ## 6.7 Beam search  ●●● · 40 min · 3 points
#
# Greedy decoding can be led astray. A first word of probability 0.5 may lead nowhere, and one of 0.4 to the best
# sentence of all. **Beam search** keeps the $k$ best beginnings alive. The probability of a sentence is the product of
# those of its tokens, so its logarithm is a **sum**. (Add logarithms. The product is no use: 150 tokens of probability
# 1/200 make $10^{-345}$, which is 0 in floating point.)
#
# The rules (as in Sutskever et al., 2014, section 3.2):
#
# 1. Begin with one hypothesis, START.
# 2. In every step ask `next_log_probs(prefixes)` **once**, with all live hypotheses, $(j, \text{length})$, START first.
#    It returns the log-probabilities of the next token, $(j, v)$.
# 3. Of all continuations of all live hypotheses keep the best by their sums, as many as there are free places. There
#    are $k$ places. A continuation that says END is **finished**: it is never continued, and its place is taken for
#    good. With $k = 3$ and two finished, *one* continuation is kept.
# 4. Stop when none is alive, or after `longest` tokens. What has not ended then is taken as it is.
# 5. Of all these return the one with the best **score**, and the score:
#
# $$\text{score} = \frac{\log P(Y)}{\left(\frac{5 + |Y|}{6}\right)^{\alpha}}$$
#
# Why divide? Every further token makes the sum smaller, so plain sums favor short sentences. $|Y|$ is the number of
# tokens, END counted, START not (the length penalty of Wu et al., 2016, equation 14).
#
# **By hand.** $\alpha = 2$. Two tokens, $\log P = -1.4$: the penalty is $(7/6)^2 = 1.36$, the score $-1.03$. Seven
# tokens, $\log P = -2.0$: the penalty is $2^2 = 4$, the score $-0.5$. The longer one wins.
#
# Return the tokens, without START, with END if there is one, and the score. (Is every prefix read again in each step,
# then? No: the translator's `next_log_probs` below keeps a cache for every prefix, so a call reads only one new token
# per hypothesis.)

# %% nbgrader={"grade": false, "grade_id": "beam_search", "locked": false, "schema_version": 3, "solution": true}
def beam_search(next_log_probs, k: int, longest: int, alpha: float) -> tuple[list[int], float]:
    """Tokens and score of the best of k hypotheses. next_log_probs: (j, n) → (j, v)."""
    ### BEGIN SOLUTION
    live, finished = [(0.0, [START])], []
    for _ in range(longest):
        prefixes = torch.tensor([tokens for _, tokens in live])
        log_p = next_log_probs(prefixes)
        continued = []
        for (total, tokens), row in zip(live, log_p.tolist(), strict=True):
            continued += [(total + new, [*tokens, token]) for token, new in enumerate(row)]
        continued = sorted(continued, reverse=True)[: k - len(finished)]
        finished += [hypothesis for hypothesis in continued if hypothesis[1][-1] == END]
        live = [hypothesis for hypothesis in continued if hypothesis[1][-1] != END]
        if not live:
            break
    scored = [(total / ((5 + len(tokens) - 1) / 6) ** alpha, tokens[1:]) for total, tokens in finished + live]
    score, tokens = max(scored)
    return tokens, score
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint 1: two lists</summary>
#
# `live` and `finished`, each of pairs (sum, tokens). A step makes a list of all continuations, sorts it, cuts it, and
# splits it between the two.
# </details>
# <details><summary>Hint 2: with tensors</summary>
#
# `sums` is (j, v). `sums.flatten().topk(…)` gives places: place // v is the hypothesis, place % v the token.
# </details>
# <details><summary>If k = 1 is right and larger beams are wrong</summary>
#
# Do you compare *all* continuations with each other, or those of each hypothesis among themselves? And do you begin
# with one START, or with k of them?
# </details>
# <details><summary>What exactly is checked</summary>
#
# - At most `longest` calls of `next_log_probs`, the first with one hypothesis, none with more than $k$.
# - $1 \le k \le v$; $\alpha$ may be 0, and `longest` 1 or 150.
# - The log-probabilities are finite, in float32, in a new tensor that you may write into.
# - The tokens come as a list of whole numbers; the score is a number, or a tensor of one element. Of two sentences that
#   are equally good take either.
# </details>

# %% nbgrader={"grade": true, "grade_id": "beam_search_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.beam_search(beam_search, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.beam_search(beam_search, points=3, cases=hidden.beam_search)
### END HIDDEN TESTS

# %% [markdown]
# **See it.** A tiny language, searched with one hypothesis and with two. A row is a step. In bold stands what is still
# in the race, struck out what was dropped; the numbers are sums of log-probabilities. At the foot each sum is divided
# by its length penalty, and the best score is green.
#
# The first word is *la* (probability 0.55) or *birdo* (0.45). After *la* the likeliest word has 0.4, after *birdo* it
# has 0.9. **Predict:** does greedy search find the best sentence?

# %%
guess_greedy_finds_the_best = None  # "yes" or "no" (quotes included)

# %%
plots.beam_of_a_tree(beam_search, k=2)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# It does not. Greedy search takes the likelier first token, and pays for it later. The beam of two keeps the other
# beginning alive, and finds the better sentence.
# </details>
#
# And in the translator, whose memory and caches are real. It is nearly certain of every sentence of the kind it was
# trained on, so we leave a word out: the one without which your search finds something else with $k = 3$ than with
# $k = 1$, or else leaves the model in most doubt.

# %%
plots.beam_of_a_translation(beam_search, trained, "the old cats saw a happy dog", k=3)

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Without *saw* there is no verb to translate. Our greedy search says *feliĉan* again and again: of all single words
# that one is likeliest. Any one verb is less likely, but behind it the sentence is over at once, for nothing more. The
# beam keeps a verb alive until that pays. (Your model may be led astray elsewhere.)
# </details>
# <details><summary>Is a wider beam always better?</summary>
#
# No. With wide beams real translators get *worse*, because they find short sentences that the model likes too much
# (Koehn & Knowles, 2017, the last of their six challenges; Stahlberg & Byrne, 2019).
# </details>
#
# ## 6.8 What it costs  ●●○ · 20 min · 2 points
#
# One encoder layer over $m$ source tokens, one decoder layer over $n$ target tokens, width $d$, $d_\text{ff} = 4d$; no
# embeddings and no `head`. For each row give two numbers: the FLOPs of scores and mixing, and those of the products
# with weights, the four projections of each attention among them. The target is read all at once, as in training, so
# masked scores are computed too.
#
# | row | scores and mixing | products with weights |
# |---|---|---|
# | `encoder_self_attention` | ? | ? |
# | `encoder_feed_forward` | 0 | ? |
# | `decoder_self_attention` | ? | ? |
# | `cross_attention` | ? | ? |
# | `decoder_feed_forward` | 0 | ? |
#
# **By hand.** $n = 1$, $m = 3$, $d = 1$: the encoder reads the $m$ source tokens. Its self-attention has 9 scores (2
# FLOPs each), as many values are mixed (2 each), and there are four projections of three tokens (2 each): (36, 24).
#
# **Before you write:** of cross-attention's four projections, how many work on the memory's $m$ tokens, and not on the
# target's $n$?

# %%
guess_projections_of_memory = None  # a number

# %% nbgrader={"grade": false, "grade_id": "enc_dec_cost", "locked": false, "schema_version": 3, "solution": true}
def enc_dec_cost(n: int, m: int, d: int) -> dict[str, tuple[int, int]]:
    """Row → (FLOPs of scores and mixing, FLOPs of products with weights)."""
    ### BEGIN SOLUTION
    return {
        "encoder_self_attention": (2 * 2 * m * m * d, 4 * 2 * m * d * d),
        "encoder_feed_forward": (0, 2 * 2 * m * d * 4 * d),
        "decoder_self_attention": (2 * 2 * n * n * d, 4 * 2 * n * d * d),
        "cross_attention": (2 * 2 * n * m * d, 2 * 2 * n * d * d + 2 * 2 * m * d * d),  # W_Q, W_O; W_K, W_V
        "decoder_feed_forward": (0, 2 * 2 * n * d * 4 * d),
    }
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: shapes</summary>
#
# Scores are a product (n, d) × (d, m), mixing is (n, m) × (m, d). In self-attention both lengths are the same. A
# product (a, b) × (b, c) has 2abc FLOPs.
# </details>
# <details><summary>What exactly is checked</summary>
#
# - The five rows, two whole numbers each, exact.
# </details>

# %% nbgrader={"grade": true, "grade_id": "enc_dec_cost_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.enc_dec_cost(enc_dec_cost, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.enc_dec_cost(enc_dec_cost, points=2, cases=hidden.enc_dec_cost)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Which projections?</summary>
#
# Two: keys and values are made from the memory. Queries are made from the target, and $W_O$ works on the output, which
# has one row per query.
# </details>
#
# ## 6.9 Name the terms  ●○○ · 5 min · 1 point
#
# (If you have time: your table once more, in letters.) Without constants the table adds up to
# $n^2 d + n d^2 + m^2 d + m d^2 + n m d$. Where does each of the five terms come from?
#
# - **a** the causal mask
# - **b** scores and mixing of the encoder's self-attention
# - **c** scores and mixing of the decoder's self-attention
# - **d** scores and mixing of cross-attention
# - **e** products of the target's tokens with weights
# - **f** products of the source's tokens with weights
# - **g** scores of a decoder that reads both sequences as one

# %% nbgrader={"grade": false, "grade_id": "enc_dec_cost_terms", "locked": false, "schema_version": 3, "solution": true}
def enc_dec_cost_terms() -> str:
    """Five letters, for the terms in the order n²d, nd², m²d, md², nmd, such as "abcde"."""
    ### BEGIN SOLUTION
    return "cebfd"
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Five letters in the order of the terms.
# </details>

# %% nbgrader={"grade": true, "grade_id": "enc_dec_cost_terms_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.enc_dec_cost_terms(enc_dec_cost_terms, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import encoder_decoder as hidden
check.enc_dec_cost_terms(enc_dec_cost_terms, points=1, cases=hidden.enc_dec_cost_terms)
### END HIDDEN TESTS

# %% [markdown]
# **Or decoder-only?** GPT and its kind (Radford et al., 2018) have no encoder: source and target stand in one row of
# $m + n$ tokens. To compare fairly, let it have two layers for each pair of encoder and decoder layer. Its scores:
# $2\,(m+n)^2 = 2m^2 + 4mn + 2n^2$, against $m^2 + mn + n^2$.
#
# **Predict:** which of the two costs more at 128 tokens?

# %%
guess_dearer = None  # "decoder alone" or "encoder and decoder" (quotes included)

# %%
plots.enc_dec_terms(enc_dec_cost, d=512, lengths=(128, 1024, 8192))

# %% [markdown]
# <details><summary>What you should see</summary>
#
# At 128 tokens the products with weights are nearly everything, and the decoder alone costs 1.8 times as much with
# about the same number of parameters ($24d^2$ in two layers, $28d^2$ in the pair): each of its tokens goes through both
# layers, $48d^2$ FLOPs, and each token of the pair through one of them, $28d^2$. (The T5 paper makes the same
# comparison: Raffel et al., 2020, section 3.2.2.) It also grows faster: at 8,192 tokens the scores count as well, and
# where $m = n$ they are $8n^2$ against $3n^2$, masked ones included. What decides today is something else: a decoder
# alone has one stack to train on all text there is, and its cache serves source and target alike.
# </details>

# %% [markdown]
# ## What you guessed, and what came out
#
# A wrong guess is the more useful kind: it leaves you something to explain.

# %%
from helpers.measuring.guesses import guesses

guesses({
    "6.2 Is cross-attention causal?": (guess_cross_attention_causal, "no"),
    "6.5 Without the shift the loss falls": (guess_loss_without_shift, "faster"),
    "6.5 The dark diagonal of a reversal": (guess_diagonal, "rises"),
    "6.7 Does greedy search find the best sentence?": (guess_greedy_finds_the_best, "no"),
    "6.8 Projections of the memory in cross-attention": (guess_projections_of_memory, 2),
    "6.9 More FLOPs at 128 tokens": (guess_dearer, "decoder alone"),
})

# %% [markdown]
# ## What you have now
#
# - **Encoder layer**: self-attention and feed-forward network, each `norm(x + sublayer(x))`. **Decoder layer**: the
#   same with cross-attention between the two.
# - **Cross-attention**: queries from the target, keys and values from the memory, no causal mask. Every decoder layer
#   reads the output of the last encoder layer.
# - **Teacher forcing** trains all positions at once; inputs and labels are shifted by one.
# - **Decoding** runs the encoder once. **Beam search** adds log-probabilities, keeps what has finished, and makes up
#   for length.
# - The two lengths meet in one term only: $nmd$.
#
# **Read more**
#
# - Vaswani et al. (2017), *Attention Is All You Need*, sections 3.1 and 3.2.3: the two stacks, and the three places of
#   attention, in one page.
# - Rush (2018), *The Annotated Transformer*, nlp.seas.harvard.edu: the same model line by line, trained to translate.
# - Sutskever, Vinyals & Le (2014), *Sequence to Sequence Learning with Neural Networks*: one vector for the whole
#   sentence, and a beam. Then Bahdanau, Cho & Bengio (2015), who look back instead.
# - Wu et al. (2016), *Google's Neural Machine Translation System*, section 7: beam search as it was used, with its
#   penalty for length.
# - Raffel et al. (2020), *Exploring the Limits of Transfer Learning* (T5), section 3.2: encoder and decoder against
#   decoder-only, measured.
#
# **Next:** unit 07 counts the cost of everything, and unit 08 opens the `cache` that `step` handed you here.

# %% [markdown]
# ## Where you stand
#
# What your checks have given so far. Before you hand in, restart the kernel, run all cells, and look here
# once more.

# %%
check.progress(unit=6)
