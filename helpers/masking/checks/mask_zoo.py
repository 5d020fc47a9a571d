"""The check of `mask_zoo`."""

import operator
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property

from .. import masks
from .masks import _ones

__all__ = ["mask_zoo"]


def _band(n) -> Tensor:
    """i − j for all pairs: how far key j lies behind query i."""
    place = torch.arange(n)
    return place[:, None] - place


def _triangle(n):
    return n * (n + 1) // 2


def _pairs_of_window(n, w):
    return sum(min(i + 1, w) for i in range(n))


COUNTING = (
    "sum",
    "count_nonzero",
    "^nonzero",
    "to_sparse",
    "_nnz",
    "argwhere",
    "bincount",
    "unique",
    "tolist",
    "trace",
    "^mean$",
    "masked_select",
    "^numel$",
    "^numpy$",
    "norm",
    "^dot$",
    "^item$",
    "^__int__$",
    "^__bool__$",
    "^__float__$",
    "^__index__$",
)


def _whole(output, *_) -> bool:
    return not isinstance(output[1], Tensor) and operator.index(output[1]) >= 0


def _zoo(reference, cases, misconceptions):
    """Counts are exact, and come from a formula: adding the mask up is out of bounds."""
    whole = Property(
        "a whole number of pairs, as int",
        _whole,
        "A number of pairs is an `int`: multiply, or divide with `//`. A single `/` makes a float, and what is read off the mask is a tensor.",
    )
    return Check(
        reference,
        cases,
        [_whatever_the_count(reference, slip) for slip in misconceptions],
        properties=[whole],
        forbids=COUNTING,
        within=(0.0, 0.0),
        names=("mask", "number of pairs"),
    )


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
            "the encoder made causal",
            lambda n: (_band(n) >= 0, _triangle(n)),
            "An encoder reads a text that is all there. Nothing is predicted from left to right, so every token may see every token.",
        ),
        Misconception(
            "its own token left out",
            lambda n: (_band(n) != 0, n * (n - 1)),
            "A token may look at itself: the diagonal is allowed, and there are n² pairs.",
        ),
        Misconception(
            "the right mask, pairs counted once",
            lambda n: (_ones(n, n), _triangle(n)),
            '"i looks at j" and "j looks at i" are two different entries of the mask: n rows of n.',
        ),
    ],
)

decoder_mask = _zoo(
    masks.decoder_mask,
    [random_case(n=5), random_case(n=3), random_case(n=8), random_case(n=1)],
    [
        Misconception(
            "its own token hidden",
            lambda n: (_band(n) > 0, n * (n - 1) // 2),
            "Token i sees i + 1 tokens: those before it and itself. With its own token hidden the first row would be empty.",
        ),
        Misconception(
            "the right mask, half of n² as count",
            lambda n: (_band(n) >= 0, n * n // 2),
            "The diagonal is allowed too: 1 + 2 + … + n is a little more than half of n².",
        ),
        Misconception(
            "the decoder sees everything",
            lambda n: (_ones(n, n), n * n),
            "A decoder learns to predict the next token at every position at once. It must not see it: j ≤ i.",
        ),
    ],
)

cross_mask = _zoo(
    masks.cross_mask,
    [random_case(n=3, m=5), random_case(n=6, m=4), random_case(n=6, m=5), random_case(n=4, m=4), random_case(n=1, m=3)],
    [
        Misconception(
            "cross-attention made causal",
            lambda n, m: (_ones(n, m).tril(), sum(min(i + 1, m) for i in range(n))),
            "The decoder's token i and the encoder's token i have nothing to do with each other. The source text is finished: all of it may be seen.",
        ),
        Misconception(
            "queries and keys swapped",
            lambda n, m: (_ones(m, n), n * m),
            "Queries are rows and come from the decoder (n), keys are columns and come from the encoder (m): n × m.",
        ),
        Misconception(
            "m is ignored",
            lambda n, m: (_ones(n, n), n * n),
            "The keys come from another sequence, of its own length m: the mask is n × m.",
        ),
    ],
)

prefix_mask = _zoo(
    masks.prefix_mask,
    [random_case(n=6, p=3), random_case(n=6, p=1), random_case(n=8, p=5), random_case(n=4, p=4), random_case(n=1, p=1)],
    [
        Misconception(
            "the prefix causal like the rest",
            lambda n, p: (_band(n) >= 0, _triangle(n)),
            "The prefix is given, not predicted: its tokens may see each other both ways.",
        ),
        Misconception(
            "a prefix that sees the whole text",
            lambda n, p: ((_band(n) >= 0) | (torch.arange(n)[:, None] < p), _triangle(n) + sum(range(n - p, n))),
            "The prefix may see the prefix, not what is to be predicted after it: information would flow back through it in the next layer. "
            "The keys are what must lie in the prefix.",
        ),
        Misconception(
            "a prefix one token too long",
            lambda n, p: (
                (_band(n) >= 0) | (torch.arange(n) <= p),
                _triangle(n) + min(p + 1, n) * (min(p + 1, n) - 1) // 2,
            ),
            "The prefix is the keys 0 … p − 1. Key p is the first token to be predicted.",
        ),
        Misconception(
            "a prefix that is seen from inside only",
            lambda n, p: (
                torch.where(
                    torch.arange(n)[:, None] < p, torch.arange(n) < p, (_band(n) >= 0) & (torch.arange(n) >= p)
                ),
                p * p + _triangle(n - p),
            ),
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
            "the right mask, the causal count",
            lambda n, p: ((_band(n) >= 0) | (torch.arange(n) < p), _triangle(n)),
            "The prefix adds pairs: those above the diagonal of its p × p block.",
        ),
    ],
)

sliding_window_mask = _zoo(
    masks.sliding_window_mask,
    [
        random_case(n=7, w=3),
        random_case(n=7, w=1),
        random_case(n=4, w=6, label="a window longer than the text"),
        random_case(n=9, w=3),
    ],
    [
        Misconception(
            "a window one token too wide",
            lambda n, w: ((_band(n) >= 0) & (_band(n) <= w), _pairs_of_window(n, w + 1)),
            "w counts the token itself: it sees itself and the w − 1 before it. With w = 1 a token sees only itself.",
        ),
        Misconception(
            "its own token hidden",
            lambda n, w: ((_band(n) >= 1) & (_band(n) <= w), _pairs_of_window(n, w + 1) - n),
            "The window ends at the token: it sees itself and the w − 1 before it.",
        ),
        Misconception(
            "a window to both sides",
            lambda n, w: (_band(n).abs() < w, 2 * _pairs_of_window(n, w) - n),
            "This window is causal: it reaches back and not ahead. i − j must not be negative.",
        ),
        Misconception(
            "no causal mask",
            lambda n, w: (_band(n) < w, n * n - sum(max(i + 1 - w, 0) for i in range(n))),
            "i − j < w is true of all later keys as well, since there i − j is negative. Ask for j ≤ i too.",
        ),
        Misconception(
            "the right mask, n·w as count",
            lambda n, w: ((_band(n) >= 0) & (_band(n) < w), n * w),
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
)


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
        random_case(n=8, r=1, g=2),
        random_case(n=8, r=2, g=2),
        random_case(n=6, r=0, g=3),
        random_case(n=5, r=4, g=2, label="a band as wide as the text"),
        random_case(n=8, r=2, g=0),
        random_case(n=4, r=1, g=4),
        random_case(n=9, r=12, g=1, label="a band wider than the text"),
        random_case(n=7, r=4, g=2),
    ],
    [
        Misconception(
            "global tokens that are seen but don't see",
            lambda n, r, g: (
                (_band(n).abs() <= r) | _is_global(n, g),
                _pairs_of_band(n, r) + sum(max(i - r, 0) if i - r < g else g for i in range(n)),
            ),
            "Global works both ways: all tokens see the first g, and the first g see all. Your rows 0 … g − 1 have only the band.",
        ),
        Misconception(
            "global tokens that see but are not seen",
            lambda n, r, g: (
                (_band(n).abs() <= r) | _is_global(n, g)[:, None],
                _pairs_of_band(n, r) + sum(max(i - r, 0) if i - r < g else g for i in range(n)),
            ),
            "Global works both ways: the first g see all, and all tokens see the first g. Your columns 0 … g − 1 have only the band.",
        ),
        Misconception(
            "a band that looks back only",
            lambda n, r, g: (
                ((_band(n) >= 0) & (_band(n) <= r)) | _is_global(n, g) | _is_global(n, g)[:, None],
                _pairs_of_window(n - g, r + 1) + 2 * g * n - g * g,
            ),
            "This is an encoder's mask: the band reaches r tokens to either side.",
        ),
        Misconception(
            "the right mask, global pairs counted twice",
            lambda n, r, g: (
                (_band(n).abs() <= r) | _is_global(n, g) | _is_global(n, g)[:, None],
                _pairs_of_band(n, r) + 2 * g * n,
            ),
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
            lambda n, r, g: (
                masks.global_tokens_mask(n, r, g)[0],
                (n - g) * (2 * r + 1) - r * (r + 1) + 2 * g * n - g * g,
            ),
            "The formula holds while r is smaller than the number of other tokens, n − g. A wider band can't see more than all of them.",
        ),
        Misconception(
            "the right mask, the ends of the band not cut",
            lambda n, r, g: (
                masks.global_tokens_mask(n, r, g)[0],
                2 * g * n - g * g + (n - g) * (2 * _reach(n, r, g) + 1),
            ),
            "Near either end of the text a token has fewer than r neighbours on that side: together r(r + 1) pairs less.",
        ),
        Misconception(
            "no global tokens",
            lambda n, r, g: (_band(n).abs() <= r, _pairs_of_band(n, r)),
            "The band is there. Beside it, the first g tokens see all and are seen by all.",
        ),
        Misconception(
            "a band one token too narrow",
            lambda n, r, g: (
                (_band(n).abs() < r) | torch.eye(n).bool() | _is_global(n, g) | _is_global(n, g)[:, None],
                masks.global_tokens_mask(n, max(r - 1, 0), g)[1],
            ),
            "r tokens to either side: a distance of exactly r is allowed.",
        ),
        Misconception(
            "the right mask, a band without its ends",
            lambda n, r, g: (
                (_band(n).abs() <= r) | _is_global(n, g) | _is_global(n, g)[:, None],
                (n - g) * (2 * r + 1) + 2 * g * n - g * g,
            ),
            "The first and the last r tokens of a band have fewer than 2r + 1 neighbours. Together r(r + 1) pairs are missing, if r is smaller "
            "than the number of tokens.",
        ),
    ],
)


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
        explicit_case("lengths 3, 2, 4", (3, 2, 4)),
        explicit_case("lengths 1, 5", (1, 5)),
        explicit_case("lengths 2, 2, 1, 3", (2, 2, 1, 3)),
        explicit_case("one document of 4", (4,)),
        explicit_case("three documents of 3", (3, 3, 3)),
    ],
    [
        Misconception(
            "documents that leak into each other",
            lambda lengths: (_band(sum(lengths)) >= 0, _triangle(sum(lengths))),
            "The mask is causal, but token 0 of the second document sees the whole first one. Two texts that only share a sequence must not "
            "see each other.",
        ),
        Misconception(
            "documents apart, but not causal",
            lambda lengths: (_same_document(lengths), sum(size * size for size in lengths)),
            "The documents are apart, as they should be. Within each the mask must still be causal.",
        ),
        Misconception(
            "the right mask, the whole triangle as count",
            lambda lengths: ((_band(sum(lengths)) >= 0) & _same_document(lengths), _triangle(sum(lengths))),
            "The pairs across documents are hidden. Add up the triangles of the documents, each from its own length.",
        ),
        Misconception(
            "each document sees only the others",
            lambda lengths: (
                (_band(sum(lengths)) >= 0) & ~_same_document(lengths),
                _triangle(sum(lengths)) - sum(size * (size + 1) // 2 for size in lengths),
            ),
            "The comparison is the wrong way round: a pair is allowed if query and key are of the same document.",
        ),
        Misconception(
            "all documents as long as the first",
            lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(torch.arange(sum(lengths)) // lengths[0]),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Division by one length numbers the documents only if all are equally long. `torch.repeat_interleave` takes a length for each.",
        ),
        Misconception(
            "documents known by their length",
            lambda lengths: (
                (_band(sum(lengths)) >= 0)
                & (lambda d: d[:, None] == d)(torch.tensor(lengths).repeat_interleave(torch.tensor(lengths))),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Two documents of the same length are one and the same for your mask, and see each other. Give each a number of its own.",
        ),
        Misconception(
            "the last token of a document given to the next",
            lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(_borders(lengths, right=True, shift=-1)),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Lengths 3 and 2 mean tokens 0–2 and tokens 3–4: token 2 still belongs to the first document.",
        ),
        Misconception(
            "the first token of a document given to the one before",
            lambda lengths: (
                (_band(sum(lengths)) >= 0) & (lambda d: d[:, None] == d)(_borders(lengths, right=False)),
                sum(size * (size + 1) // 2 for size in lengths),
            ),
            "Lengths 3 and 2 mean tokens 0–2 and tokens 3–4: token 3 begins the second document. (`torch.bucketize` puts a border into the lower "
            "bucket unless you say `right=True`.)",
        ),
    ],
)

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
