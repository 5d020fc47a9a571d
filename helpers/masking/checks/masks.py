"""Checks of masks: who may attend to whom, and how many pairs that makes."""

import operator
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property

from .. import masks

__all__ = ["causal_mask", "combine_masks", "mask_zoo", "padding_mask", "which_positions"]


def _ones(n, m) -> Tensor:
    return torch.ones(n, m, dtype=torch.bool)


def _after_somebody_wrote_into_it(answer, n, m=None) -> Tensor:
    """The second of two masks; the first was overwritten in between, as its owner may. If one cell of the first can't be written
    without others, what became of it."""
    first = answer(n) if m is None else answer(n, m)
    if isinstance(first, Tensor) and first.numel():
        alone, corner = first.clone(), (0,) * first.dim()
        alone[corner], first[corner] = False, False
        if not torch.equal(first, alone):
            return first
        first.fill_(False)
    return answer(n) if m is None else answer(n, m)


kept_masks: dict[tuple, Tensor] = {}


def one_tensor_for_all_callers(n, m=None) -> Tensor:
    return kept_masks.setdefault((n, m), masks.causal_mask(n, m))


causal_mask = Check(
    reference=masks.causal_mask,
    drive=_after_somebody_wrote_into_it,
    cases=[
        explicit_case("n = 5", 5),
        explicit_case("n = 3 queries, the last of m = 7", 3, 7),
        explicit_case("n = 1 query, the last of m = 4", 1, 4),
        explicit_case("n = m = 4", 4, 4),
        explicit_case("n = 1", 1),
        explicit_case("n = 150", 150),
        explicit_case("n = 3 queries, the last of m = 2100", 3, 2100),
    ],
    misconceptions=[
        Misconception(
            "its own token hidden", lambda n, m=None: _ones(n, m or n).tril((m or n) - n - 1),
            "Token i predicts token i + 1, so it may use itself: j ≤ i, not j < i. With j < i the first token would have nothing to look at.",
        ),
        Misconception(
            "the upper triangle", lambda n, m=None: _ones(n, m or n).triu((m or n) - n),
            "Row i is a query, column j a key. Row 0 must see only key 0, and your row 0 sees everything: the past is to the left, so the "
            "lower triangle is allowed.",
        ),
        Misconception(
            "True where attention is forbidden", lambda n, m=None: _ones(n, m or n).triu((m or n) - n + 1),
            "Here True means may attend, as in `F.scaled_dot_product_attention`. (`nn.MultiheadAttention` means the opposite, which has "
            "cost many an afternoon.)",
        ),
        Misconception(
            "aligned to the wrong corner", lambda n, m=None: _ones(n, m or n).tril(),
            "The queries are the last n of the m positions: the last query sees all m keys. Row 0 of your mask belongs to position 0, "
            "and it should belong to position m − n.",
        ),
        Misconception(
            "numbers instead of True and False", lambda n, m=None: torch.ones(n, m or n).tril((m or n) - n),
            "The ones are in the right place, but the mask is boolean: `torch.ones(…, dtype=torch.bool)`, or a comparison of positions.",
        ),
        Misconception(
            "0 and −∞, to be added", lambda n, m=None: torch.full((n, m or n), -torch.inf).triu((m or n) - n + 1),
            "That is a mask for adding to the scores. Here masks are boolean, True = may attend: they can be combined and counted.",
        ),
        Misconception(
            "m is ignored", lambda n, m=None: _ones(n, n).tril(),
            "The mask has a row for each query and a column for each key: n × m. With m > n there are m − n earlier positions that all "
            "queries may see.",
        ),
        Misconception(
            "the diagonal shifted the wrong way", lambda n, m=None: _ones(n, m or n).tril(n - (m or n)),
            "`tril(k)` moves the edge to the right for a positive k. The last query sees all m keys, so k is m − n, not n − m.",
        ),
        Misconception(
            "one token of the future", lambda n, m=None: _ones(n, m or n).tril((m or n) - n + 1),
            "The diagonal is one too high: token i sees token i + 1, which is what it is to predict.",
        ),
        Misconception(
            "a table of fixed size", lambda n, m=None: _ones(64, 64).tril()[(m or n) - n : m or n, : m or n],
            "A mask that is cut out of a table can't be larger than the table. Make it from n and m.",
        ),
        Misconception(
            "one tensor for all callers", one_tensor_for_all_callers,
            "The second call with the same sizes hands out the same memory as the first. If one caller changes the mask in place, it changes for all: make a new one at "
            "each call.",
        ),
        Misconception(
            "cells that share one memory", lambda n, m=None: torch.tensor(True).expand(1, m or n) if n == 1 else masks.causal_mask(n, m),
            "Here somebody wrote False into the cell [0, 0] of your mask, and others turned False with it: `expand` makes no copies. Whoever gets a mask "
            "may write into it, so make a cell for every pair.",
        ),
        Misconception(
            "an axis of size 1 dropped", lambda n, m=None: masks.causal_mask(n, m).squeeze(),
            "`squeeze()` drops every axis of size 1, that of a single query too. A mask always has two axes.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ padding, combining


def padded_queries(lengths, n, m) -> Tensor:
    real = torch.arange(n) < lengths[:, None]
    return real[:, None, :, None].expand(-1, 1, n, m)


def padded_on_both_sides(lengths, n, m) -> Tensor:
    queries, keys = torch.arange(n) < lengths[:, None], torch.arange(m) < lengths[:, None]
    return (queries[:, :, None] & keys[:, None, :])[:, None]


def _keys_as_mask(keys, n) -> Tensor:
    return keys[:, None, None, :].expand(-1, 1, n, -1)


def padding_cut_from_the_end(lengths, n, m) -> Tensor:
    mask = torch.ones(len(lengths), 1, n, m, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, ..., -(m - length) :] = False
    return mask


padding_mask = Check(
    reference=masks.padding_mask,
    cases=[
        explicit_case("lengths 3, 5, 1, n = 4, m = 6", torch.tensor([3, 5, 1]), 4, 6),
        explicit_case("one sequence without padding", torch.tensor([7, 2]), 5, 7),
        explicit_case("n = m = 4, lengths 4, 1, 3", torch.tensor([4, 1, 3]), 4, 4),
        explicit_case("lengths 6, 2, 4, n = 4, m = 6", torch.tensor([6, 2, 4]), 4, 6),
        explicit_case("an empty sequence beside a full one", torch.tensor([0, 6]), 3, 6),
        explicit_case("one sequence, n = 1", torch.tensor([2]), 1, 5),
        explicit_case("as many sequences as queries and keys", torch.tensor([3, 1, 2]), 3, 3),
    ],
    misconceptions=[
        Misconception(
            "the queries masked instead of the keys", padded_queries,
            "Padding must not be looked at, so columns are hidden. A row of a padded query may hold anything: nobody reads its output.",
        ),
        Misconception(
            "queries and keys masked", padded_on_both_sides,
            "A row with nothing allowed is where NaNs come from, and it is not needed: the output at padding is never used. Hide columns only.",
        ),
        Misconception(
            "True where the padding is", lambda lengths, n, m: _keys_as_mask(torch.arange(m) >= lengths[:, None], n),
            "True means may attend. Keys 0 … length − 1 are real, the rest is padding.",
        ),
        Misconception(
            "one key too many", lambda lengths, n, m: _keys_as_mask(torch.arange(m) <= lengths[:, None], n),
            "Positions count from 0: a sequence of length 3 has the keys 0, 1, 2.",
        ),
        Misconception(
            "padding expected on the left", lambda lengths, n, m: _keys_as_mask(torch.arange(m) >= m - lengths[:, None], n),
            "Here the real tokens come first and the padding stands on the right. (Left padding exists too: unit 08.)",
        ),
        Misconception(
            "no axis for the heads", lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[:, None, :].expand(-1, n, m),
            "Scores have the shape (b, h, n, m). A mask (b, n, m) would put its batch axis on the heads: it needs a 1 there, (b, 1, n, m).",
        ),
        Misconception(
            "one row for all queries", lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[:, None, None, :],
            "The rows of the n queries are alike, and a mask (b, 1, 1, m) would do in most places. Asked is (b, 1, n, m): `expand` it along the queries.",
        ),
        Misconception(
            "the axis of the heads before the batch", lambda lengths, n, m: (torch.arange(m) < lengths[:, None])[None, :, None].expand(1, -1, n, m),
            "The batch is the first axis, the heads are the second: (b, 1, n, m), not (1, b, n, m).",
        ),
        Misconception(
            "as many columns as the longest sequence has keys", lambda lengths, n, m: _keys_as_mask(torch.arange(int(lengths.max())) < lengths[:, None], n),
            "The mask has m columns. All sequences may be shorter than that.",
        ),
        Misconception(
            "a sequence without padding hidden altogether", padding_cut_from_the_end,
            "A slice from −k reaches the last k columns, but not for k = 0: `[-0:]` is `[0:]`, and that is all of them. Start it at the length.",
        ),
        Misconception(
            "an empty sequence that keeps a key", lambda lengths, n, m: masks.padding_mask(lengths.clamp(min=1), n, m),
            "A length of 0 means no real key: the rows are all False. What becomes of such rows is the softmax's affair (3.3).",
        ),
        Misconception(
            "numbers instead of True and False", lambda lengths, n, m: masks.padding_mask(lengths, n, m).float(),
            "The ones are in the right place, but the mask is boolean.",
        ),
    ],
)  # fmt: skip


def any_mask(*shape) -> RandomArg:
    return RandomArg(lambda generator: torch.rand(shape, generator=generator) < 0.6)


def any_of_them(*masks) -> Tensor:
    together = masks[0]
    for mask in masks[1:]:
        together = together | mask
    return together


def an_odd_number_of_them(*masks) -> Tensor:
    together = masks[0]
    for mask in masks[1:]:
        together = together ^ mask
    return together


def their_product_as_numbers(*masks) -> Tensor:
    product = 1
    for mask in masks:
        product = product * mask.long()
    return product


def grown_in_place(*masks) -> Tensor:
    together = masks[0].clone()
    for mask in masks[1:]:
        together &= mask
    return together


combine_masks = Check(
    exercise="combine_masks",
    reference=masks.combine_masks,
    cases=[
        explicit_case("masks of 3×1×4×6 and 4×6", any_mask(3, 1, 4, 6), any_mask(4, 6)),
        explicit_case("three masks", any_mask(2, 1, 5, 6), any_mask(5, 6), any_mask(2, 3, 5, 6)),
        explicit_case("one for each head: 4×5×5 and 5×5", any_mask(4, 5, 5), any_mask(5, 5)),
        explicit_case("one mask alone", any_mask(3, 4)),
        explicit_case("four masks, the smallest first", any_mask(6), any_mask(5, 6), any_mask(2, 1, 1, 6), any_mask(2, 3, 5, 6)),
    ],
    misconceptions=[
        Misconception(
            "`or` for `and`", any_of_them,
            "A key must be allowed by every mask: one that is real but in the future stays hidden, and so does padding in the past.",
        ),
        Misconception(
            "allowed where the masks disagree", an_odd_number_of_them,
            "`^` and `!=` are True where exactly one of two masks is True. You want both.",
        ),
        Misconception(
            "numbers instead of True and False", their_product_as_numbers,
            "The product of zeros and ones is an `and`, but the result must be boolean again. `&` does it directly.",
        ),
        Misconception(
            "the first two masks only", lambda *masks: masks[0] & masks[1],
            "There may be any number of masks: padding, causal, window, documents. Go through all of them.",
            raises="IndexError",
        ),
        Misconception(
            "the first mask and the last only", lambda *masks: masks[0] & masks[-1],
            "You combine two of the masks. There may be more, and those in between count too. Go through all of them.",
        ),
        Misconception(
            "the first mask only", lambda *masks: torch.broadcast_tensors(*masks)[0].clone(),
            "The other masks count too: a pair is allowed if all masks allow it.",
        ),
        Misconception(
            "a result that keeps the shape of the first mask", grown_in_place,
            "`&=` and `logical_and_` write into a tensor that is there already, and it can't grow. Make a new one: `together = together & mask`. (Written into the "
            "first mask itself, they would change your caller's mask too.)",
            raises="RuntimeError",
        ),
        Misconception(
            "stacked without broadcasting", lambda *masks: torch.stack(masks).all(dim=0),
            "`torch.stack` wants equal shapes, and these only broadcast. `torch.broadcast_tensors` comes first, or `&`, which broadcasts by itself.",
            raises="RuntimeError",
        ),
        Misconception(
            "allowed if two masks allow it", lambda *masks: sum(mask.int() for mask in masks) >= min(2, len(masks)),
            "With three masks, two that say True are not enough. Every one of them must.",
        ),
        Misconception(
            "the last two masks only", lambda *masks: masks[-1] & masks[-2 if len(masks) > 1 else -1],
            "There may be any number of masks. Go through all of them.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ the zoo


def _band(n) -> Tensor:
    """i − j for all pairs: how far key j lies behind query i."""
    place = torch.arange(n)
    return place[:, None] - place


def _triangle(n):
    return n * (n + 1) // 2


def _pairs_of_window(n, w):
    return sum(min(i + 1, w) for i in range(n))


COUNTING = (
    "sum", "count_nonzero", "^nonzero", "to_sparse", "_nnz", "argwhere", "bincount", "unique", "tolist", "trace", "^mean$", "masked_select", "^numel$", "^numpy$",
    "norm", "^dot$", "^item$", "^__int__$", "^__bool__$", "^__float__$", "^__index__$",
)  # fmt: skip


def _whole(output, *_) -> bool:
    return not isinstance(output[1], Tensor) and operator.index(output[1]) >= 0


def _zoo(reference, cases, misconceptions):
    """Counts are exact, and come from a formula: adding the mask up is out of bounds."""
    whole = Property(
        "a whole number of pairs, as int",
        _whole,
        "A number of pairs is an `int`: multiply, or divide with `//`. A single `/` makes a float, and what is read off the mask is a tensor.",
    )
    return Check(reference, cases, [_whatever_the_count(reference, slip) for slip in misconceptions],
                 properties=[whole], forbids=COUNTING, within=(0.0, 0.0), names=("mask", "number of pairs"))  # fmt: skip


def _whatever_the_count(reference, slip):
    """A wrong mask is known by itself, whether the count beside it is right or goes with it; a wrong count beside a right mask too."""

    def shown(seen) -> bool:
        (mask, count), (slipped, miscounted), (right, number) = (
            seen.output,
            slip.function(*seen.args),
            reference(*seen.args),
        )
        if not torch.equal(mask, right):
            return torch.equal(mask, slipped)
        return torch.equal(slipped, right) and count == miscounted != number

    return replace(slip, recognise=shown)


encoder_mask = _zoo(
    masks.encoder_mask,
    [random_case(n=5), random_case(n=3), random_case(n=8), random_case(n=1)],
    [
        Misconception(
            "the encoder made causal", lambda n: (_band(n) >= 0, _triangle(n)),
            "An encoder reads a text that is all there. Nothing is predicted from left to right, so every token may see every token.",
        ),
        Misconception(
            "its own token left out", lambda n: (_band(n) != 0, n * (n - 1)),
            "A token may look at itself: the diagonal is allowed, and there are n² pairs.",
        ),
        Misconception(
            "the right mask, pairs counted once", lambda n: (_ones(n, n), _triangle(n)),
            "\"i looks at j\" and \"j looks at i\" are two different entries of the mask: n rows of n.",
        ),
    ],
)  # fmt: skip

decoder_mask = _zoo(
    masks.decoder_mask,
    [random_case(n=5), random_case(n=3), random_case(n=8), random_case(n=1)],
    [
        Misconception(
            "its own token hidden", lambda n: (_band(n) > 0, n * (n - 1) // 2),
            "Token i sees i + 1 tokens: those before it and itself. With its own token hidden the first row would be empty.",
        ),
        Misconception(
            "the right mask, half of n² as count", lambda n: (_band(n) >= 0, n * n // 2),
            "The diagonal is allowed too: 1 + 2 + … + n is a little more than half of n².",
        ),
        Misconception(
            "the decoder sees everything", lambda n: (_ones(n, n), n * n),
            "A decoder learns to predict the next token at every position at once. It must not see it: j ≤ i.",
        ),
    ],
)  # fmt: skip

cross_mask = _zoo(
    masks.cross_mask,
    [random_case(n=3, m=5), random_case(n=6, m=4), random_case(n=6, m=5), random_case(n=4, m=4), random_case(n=1, m=3)],
    [
        Misconception(
            "cross-attention made causal", lambda n, m: (_ones(n, m).tril(), sum(min(i + 1, m) for i in range(n))),
            "The decoder's token i and the encoder's token i have nothing to do with each other. The source text is finished: all of it may be seen.",
        ),
        Misconception(
            "queries and keys swapped", lambda n, m: (_ones(m, n), n * m),
            "Queries are rows and come from the decoder (n), keys are columns and come from the encoder (m): n × m.",
        ),
        Misconception(
            "m is ignored", lambda n, m: (_ones(n, n), n * n),
            "The keys come from another sequence, of its own length m: the mask is n × m.",
        ),
    ],
)  # fmt: skip

prefix_mask = _zoo(
    masks.prefix_mask,
    [random_case(n=6, p=3), random_case(n=6, p=1), random_case(n=8, p=5), random_case(n=4, p=4), random_case(n=1, p=1)],
    [
        Misconception(
            "the prefix causal like the rest", lambda n, p: (_band(n) >= 0, _triangle(n)),
            "The prefix is given, not predicted: its tokens may see each other both ways.",
        ),
        Misconception(
            "a prefix that sees the whole text", lambda n, p: ((_band(n) >= 0) | (torch.arange(n)[:, None] < p), _triangle(n) + sum(range(n - p, n))),
            "The prefix may see the prefix, not what is to be predicted after it: information would flow back through it in the next layer. "
            "The keys are what must lie in the prefix.",
        ),
        Misconception(
            "a prefix one token too long",
            lambda n, p: ((_band(n) >= 0) | (torch.arange(n) <= p), _triangle(n) + min(p + 1, n) * (min(p + 1, n) - 1) // 2),
            "The prefix is the keys 0 … p − 1. Key p is the first token to be predicted.",
        ),
        Misconception(
            "a prefix that is seen from inside only",
            lambda n, p: (torch.where(torch.arange(n)[:, None] < p, torch.arange(n) < p, (_band(n) >= 0) & (torch.arange(n) >= p)),
                          p * p + _triangle(n - p)),
            "What comes after the prefix is written from it, so it sees the prefix as well: all of the past stays allowed.",
        ),
        Misconception(
            "the right mask, prefix pairs counted twice",
            lambda n, p: ((_band(n) >= 0) | (torch.arange(n) < p), _triangle(n) + p * p),
            "Of the p² pairs in the prefix, the causal triangle holds p(p + 1)/2 already. Only p(p − 1)/2 are new.",
        ),
        Misconception(
            "the right mask, the prefix's diagonal counted twice",
            lambda n, p: ((_band(n) >= 0) | (torch.arange(n) < p), _triangle(n) + _triangle(p)),
            "The causal triangle holds the diagonal already. New is only what lies *above* it in the p × p block: p(p − 1)/2.",
        ),
        Misconception(
            "the right mask, the causal count", lambda n, p: ((_band(n) >= 0) | (torch.arange(n) < p), _triangle(n)),
            "The prefix adds pairs: those above the diagonal of its p × p block.",
        ),
    ],
)  # fmt: skip

sliding_window_mask = _zoo(
    masks.sliding_window_mask,
    [random_case(n=7, w=3), random_case(n=7, w=1), random_case(n=4, w=6, label="a window longer than the text"), random_case(n=9, w=3)],
    [
        Misconception(
            "a window one token too wide", lambda n, w: ((_band(n) >= 0) & (_band(n) <= w), _pairs_of_window(n, w + 1)),
            "w counts the token itself: it sees itself and the w − 1 before it. With w = 1 a token sees only itself.",
        ),
        Misconception(
            "its own token hidden", lambda n, w: ((_band(n) >= 1) & (_band(n) <= w), _pairs_of_window(n, w + 1) - n),
            "The window ends at the token: it sees itself and the w − 1 before it.",
        ),
        Misconception(
            "a window to both sides", lambda n, w: (_band(n).abs() < w, 2 * _pairs_of_window(n, w) - n),
            "This window is causal: it reaches back and not ahead. i − j must not be negative.",
        ),
        Misconception(
            "no causal mask", lambda n, w: (_band(n) < w, n * n - sum(max(i + 1 - w, 0) for i in range(n))),
            "i − j < w is true of all later keys as well, since there i − j is negative. Ask for j ≤ i too.",
        ),
        Misconception(
            "the right mask, n·w as count", lambda n, w: ((_band(n) >= 0) & (_band(n) < w), n * w),
            "The first w − 1 tokens have fewer than w tokens to see. Take w(w − 1)/2 off, and mind a window that is longer than the text.",
        ),
        Misconception(
            "the right mask, a count for short windows only",
            lambda n, w: ((_band(n) >= 0) & (_band(n) < w), n * w - w * (w - 1) // 2),
            "The formula holds for w ≤ n. A longer window sees no more than the whole past: put min(n, w) in.",
        ),
        Misconception(
            "the right mask, one row too many cut short",
            lambda n, w: ((_band(n) >= 0) & (_band(n) < w), n * min(n, w) - min(n, w) * (min(n, w) + 1) // 2),
            "The first w − 1 rows miss w − 1, w − 2, …, 1 keys: together w(w − 1)/2.",
        ),
    ],
)  # fmt: skip


def _is_global(n, g) -> Tensor:
    return torch.arange(n) < g


def _pairs_of_band(n, r):
    return sum(min(i + r, n - 1) - max(i - r, 0) + 1 for i in range(n))


def _reach(n: int, r: int, g: int) -> int:
    """How far one of the n − g other tokens can see another at most."""
    return max(0, min(r, n - g - 1))


global_tokens_mask = _zoo(
    masks.global_tokens_mask,
    [
        random_case(n=8, r=1, g=2), random_case(n=8, r=2, g=2), random_case(n=6, r=0, g=3), random_case(n=5, r=4, g=2, label="a band as wide as the text"),
        random_case(n=8, r=2, g=0), random_case(n=4, r=1, g=4), random_case(n=9, r=12, g=1, label="a band wider than the text"), random_case(n=7, r=4, g=2),
    ],
    [
        Misconception(
            "global tokens that are seen but don't see",
            lambda n, r, g: ((_band(n).abs() <= r) | _is_global(n, g),
                             _pairs_of_band(n, r) + sum(max(i - r, 0) if i - r < g else g for i in range(n))),
            "Global works both ways: all tokens see the first g, and the first g see all. Your rows 0 … g − 1 have only the band.",
        ),
        Misconception(
            "global tokens that see but are not seen",
            lambda n, r, g: ((_band(n).abs() <= r) | _is_global(n, g)[:, None],
                             _pairs_of_band(n, r) + sum(max(i - r, 0) if i - r < g else g for i in range(n))),
            "Global works both ways: the first g see all, and all tokens see the first g. Your columns 0 … g − 1 have only the band.",
        ),
        Misconception(
            "a band that looks back only",
            lambda n, r, g: (((_band(n) >= 0) & (_band(n) <= r)) | _is_global(n, g) | _is_global(n, g)[:, None],
                             _pairs_of_window(n - g, r + 1) + 2 * g * n - g * g),
            "This is an encoder's mask: the band reaches r tokens to either side.",
        ),
        Misconception(
            "the right mask, global pairs counted twice",
            lambda n, r, g: ((_band(n).abs() <= r) | _is_global(n, g) | _is_global(n, g)[:, None], _pairs_of_band(n, r) + 2 * g * n),
            "g rows and g columns overlap in g² pairs, and both overlap with the band. Count the band among the n − g other tokens, then add "
            "2gn − g².",
        ),
        Misconception(
            "the right mask, the crossing of rows and columns counted twice",
            lambda n, r, g: (masks.global_tokens_mask(n, r, g)[0], masks.global_tokens_mask(n, r, g)[1] + g * g),
            "g full rows and g full columns cross in a g × g block. It belongs to both and counts once: 2gn − g².",
        ),
        Misconception(
            "the right mask, the crossing taken off as g pairs",
            lambda n, r, g: (masks.global_tokens_mask(n, r, g)[0], masks.global_tokens_mask(n, r, g)[1] + g * g - g),
            "You take off g pairs for those that are counted twice. But g rows and g columns cross in a whole block, not along its diagonal only: g · g pairs.",
        ),
        Misconception(
            "the right mask, a count for narrow bands only",
            lambda n, r, g: (masks.global_tokens_mask(n, r, g)[0], (n - g) * (2 * r + 1) - r * (r + 1) + 2 * g * n - g * g),
            "The formula holds while r is smaller than the number of other tokens, n − g. A wider band can't see more than all of them.",
        ),
        Misconception(
            "the right mask, the ends of the band not cut",
            lambda n, r, g: (masks.global_tokens_mask(n, r, g)[0], 2 * g * n - g * g + (n - g) * (2 * _reach(n, r, g) + 1)),
            "Near either end of the text a token has fewer than r neighbours on that side: together r(r + 1) pairs less.",
        ),
        Misconception(
            "no global tokens", lambda n, r, g: (_band(n).abs() <= r, _pairs_of_band(n, r)),
            "The band is there. Beside it, the first g tokens see all and are seen by all.",
        ),
        Misconception(
            "a band one token too narrow", lambda n, r, g: ((_band(n).abs() < r) | torch.eye(n).bool() | _is_global(n, g) | _is_global(n, g)[:, None],
                                                        masks.global_tokens_mask(n, max(r - 1, 0), g)[1]),
            "r tokens to either side: a distance of exactly r is allowed.",
        ),
        Misconception(
            "the right mask, a band without its ends",
            lambda n, r, g: ((_band(n).abs() <= r) | _is_global(n, g) | _is_global(n, g)[:, None],
                             (n - g) * (2 * r + 1) + 2 * g * n - g * g),
            "The first and the last r tokens of a band have fewer than 2r + 1 neighbours. Together r(r + 1) pairs are missing, if r is smaller "
            "than the number of tokens.",
        ),
    ],
)  # fmt: skip


def _document(lengths) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def _same_document(lengths) -> Tensor:
    return _document(lengths)[:, None] == _document(lengths)


def _borders(lengths, right: bool, shift: int = 0) -> Tensor:
    """The number of each token's document, found among the borders between the documents."""
    return torch.bucketize(torch.arange(sum(lengths)), torch.tensor(list(accumulate(lengths))) + shift, right=right)


packed_mask = _zoo(
    masks.packed_mask,
    [
        explicit_case("lengths 3, 2, 4", (3, 2, 4)), explicit_case("lengths 1, 5", (1, 5)), explicit_case("lengths 2, 2, 1, 3", (2, 2, 1, 3)),
        explicit_case("one document of 4", (4,)), explicit_case("three documents of 3", (3, 3, 3)),
    ],
    [
        Misconception(
            "documents that leak into each other", lambda lengths: (_band(sum(lengths)) >= 0, _triangle(sum(lengths))),
            "The mask is causal, but token 0 of the second document sees the whole first one. Two texts that only share a sequence must not "
            "see each other.",
        ),
        Misconception(
            "documents apart, but not causal", lambda lengths: (_same_document(lengths), sum(size * size for size in lengths)),
            "The documents are apart, as they should be. Within each the mask must still be causal.",
        ),
        Misconception(
            "the right mask, the whole triangle as count",
            lambda lengths: ((_band(sum(lengths)) >= 0) & _same_document(lengths), _triangle(sum(lengths))),
            "The pairs across documents are hidden. Add up the triangles of the documents, each from its own length.",
        ),
        Misconception(
            "each document sees only the others", lambda lengths: (
                (_band(sum(lengths)) >= 0) & ~_same_document(lengths),
                _triangle(sum(lengths)) - sum(size * (size + 1) // 2 for size in lengths),
            ),
            "The comparison is the wrong way round: a pair is allowed if query and key are of the same document.",
        ),
        Misconception(
            "all documents as long as the first", lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(torch.arange(sum(lengths)) // lengths[0]),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Division by one length numbers the documents only if all are equally long. `torch.repeat_interleave` takes a length for each.",
        ),
        Misconception(
            "documents known by their length", lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(torch.tensor(lengths).repeat_interleave(torch.tensor(lengths))),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Two documents of the same length are one and the same for your mask, and see each other. Give each a number of its own.",
        ),
        Misconception(
            "the last token of a document given to the next", lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(_borders(lengths, right=True, shift=-1)),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Lengths 3 and 2 mean tokens 0–2 and tokens 3–4: token 2 still belongs to the first document.",
        ),
        Misconception(
            "the first token of a document given to the one before", lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(_borders(lengths, right=False)),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Lengths 3 and 2 mean tokens 0–2 and tokens 3–4: token 3 begins the second document. (`torch.bucketize` puts a border into the lower "
            "bucket unless you say `right=True`.)",
        ),
    ],
)  # fmt: skip

mask_zoo = CheckGroup(
    "mask_zoo",
    encoder_mask,
    decoder_mask,
    cross_mask,
    prefix_mask,
    sliding_window_mask,
    global_tokens_mask,
    packed_mask,
)

which_positions = Check(
    reference=masks.which_positions,
    quiz=True,
    cases=[explicit_case("the positions that query 7 sees")],
    misconceptions=[
        Misconception(
            "a document that leaks", lambda: (4, 5, 6, 7),
            "A window of four tokens would allow position 4, but that belongs to the first document: all masks must allow a pair.",
        ),
        Misconception(
            "its own token hidden", lambda: (5, 6),
            "Query 7 may see itself.",
        ),
        Misconception(
            "the future seen", lambda: (5, 6, 7, 8),
            "Position 8 comes after query 7: causal.",
        ),
        Misconception(
            "one row too far", lambda: (5, 6, 7, 8, 9),
            "Positions count from 0: nine tokens have the positions 0 … 8, and query 7 is not the last.",
        ),
        Misconception(
            "the window alone, one too wide", lambda: (3, 4, 5, 6, 7),
            "A window of 4 holds the token itself and three before it. And which document does the first of these belong to?",
        ),
    ],
)  # fmt: skip
