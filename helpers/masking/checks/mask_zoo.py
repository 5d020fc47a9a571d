"""The check of `mask_zoo`: seven masks, each with the number of pairs that it allows, from a formula."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.misconceptions import Misconception
from helpers.engine.wrong_answers import wrong_answers

from .. import masks
from .masks import _ones

__all__ = ["mask_zoo"]

COUNTING = (
    "_local_scalar_dense ^item$ ^tolist$ ^numpy$ ^__int__$ ^__bool__$ ^__float__$ ^__index__$ "
    "^nonzero to_sparse _nnz argwhere unique bincount masked_select"
).split()
"""What makes a number of Python's from a tensor's values, as such or as a shape: out of bounds."""

NO_TENSOR = Property(
    "the number of pairs is no tensor",
    lambda output, *_: not isinstance(output[1], Tensor),
    "Your number of pairs is a tensor, as what is added up on a mask is. Work it out from the sizes.",
)


def _zoo(reference: Callable, cases: list[Case], **slips: Callable) -> Check:
    wrong = [_whatever_the_count(reference, slip) for slip in wrong_answers(__file__, **slips)]
    names = ("mask", "number of pairs")
    return Check(reference, cases, wrong, properties=[NO_TENSOR], forbids=COUNTING, within=(0.0, 0.0), names=names)


def _whatever_the_count(reference: Callable, slip: Misconception) -> Misconception:
    """A wrong mask is known by itself, whether the count beside it is right or goes with it; so is a wrong count beside
    a right mask."""

    def shown(seen) -> bool:
        mask, count = seen.output
        (slipped, miscounted), (right, number) = slip.function(*seen.args), reference(*seen.args)
        if not torch.equal(mask, right):
            return torch.equal(mask, slipped)
        return torch.equal(slipped, right) and count == miscounted != number

    return replace(slip, recognise=shown)


def miscounted(reference: Callable, count: Callable) -> Callable:
    """The right mask, and another count."""
    return lambda *args: (reference(*args)[0], count(*args))


def _band(n) -> Tensor:
    """i − j for all pairs: how far key j lies behind query i."""
    return torch.arange(n)[:, None] - torch.arange(n)


def _triangle(n):
    return n * (n + 1) // 2


SIZES = [random_case(n=n) for n in (5, 3, 8, 1)]

encoder_mask = _zoo(
    masks.encoder_mask,
    SIZES,
    causal=lambda n: (_band(n) >= 0, _triangle(n)),
    own_left_out=lambda n: (_band(n) != 0, n * (n - 1)),
    pairs_once=miscounted(masks.encoder_mask, _triangle),
)

decoder_mask = _zoo(
    masks.decoder_mask,
    SIZES,
    own_hidden=lambda n: (_band(n) > 0, n * (n - 1) // 2),
    half_as_count=miscounted(masks.decoder_mask, lambda n: n * n // 2),
    sees_everything=lambda n: (_ones(n, n), n * n),
)

cross_mask = _zoo(
    masks.cross_mask,
    [random_case(n=n, m=m) for n, m in ((3, 5), (6, 4), (6, 5), (4, 4), (1, 3))],
    cross_causal=lambda n, m: (_ones(n, m).tril(), sum(min(i + 1, m) for i in range(n))),
    swapped=lambda n, m: (_ones(m, n), n * m),
    m_ignored=lambda n, m: (_ones(n, n), n * n),
)


def _seen_from_inside(n, p):
    own = torch.arange(n) < p
    return torch.where(own[:, None], own, (_band(n) >= 0) & ~own), p * p + _triangle(n - p)


def _prefix_miscounted(more: Callable) -> Callable:
    return miscounted(masks.prefix_mask, lambda n, p: _triangle(n) + more(p))


prefix_mask = _zoo(
    masks.prefix_mask,
    [random_case(n=n, p=p) for n, p in ((6, 3), (6, 1), (8, 5), (4, 4), (1, 1))],
    prefix_causal=lambda n, p: (_band(n) >= 0, _triangle(n)),
    prefix_sees_all=lambda n, p: (
        (_band(n) >= 0) | (torch.arange(n)[:, None] < p),
        _triangle(n) + sum(range(n - p, n)),
    ),
    prefix_too_long=lambda n, p: masks.prefix_mask(n, min(p + 1, n)),
    seen_from_inside=_seen_from_inside,
    prefix_twice=_prefix_miscounted(lambda p: p * p),
    diagonal_twice=_prefix_miscounted(_triangle),
    causal_count=_prefix_miscounted(lambda p: 0),
)


def _pairs_of_window(n, w):
    return sum(min(i + 1, w) for i in range(n))


def _window_miscounted(count: Callable) -> Callable:
    return miscounted(masks.sliding_window_mask, count)


sliding_window_mask = _zoo(
    masks.sliding_window_mask,
    [
        random_case(n=7, w=3),
        random_case(n=7, w=1),
        random_case(n=4, w=6, label="a window longer than the text"),
        random_case(n=9, w=3),
    ],
    too_wide=lambda n, w: ((_band(n) >= 0) & (_band(n) <= w), _pairs_of_window(n, w + 1)),
    own_hidden_in_window=lambda n, w: ((_band(n) >= 1) & (_band(n) <= w), _pairs_of_window(n, w + 1) - n),
    both_sides=lambda n, w: (_band(n).abs() < w, 2 * _pairs_of_window(n, w) - n),
    no_causal=lambda n, w: (_band(n) < w, n * n - sum(max(i + 1 - w, 0) for i in range(n))),
    n_w_as_count=_window_miscounted(lambda n, w: n * w),
    short_windows_only=_window_miscounted(lambda n, w: n * w - w * (w - 1) // 2),
    one_row_too_many=_window_miscounted(lambda n, w: n * min(n, w) - _triangle(min(n, w))),
)


def _near(n, r) -> Tensor:
    return _band(n).abs() <= r


def _global(n, g) -> Tensor:
    """Pairs of which one is global."""
    first = torch.arange(n) < g
    return first | first[:, None]


def _pairs_of_band(n, r):
    return sum(min(i + r, n - 1) - max(i - r, 0) + 1 for i in range(n))


def _one_way(n, r, g):
    """Pairs of a band, and of global tokens either seen or seeing."""
    return _pairs_of_band(n, r) + sum(min(max(i - r, 0), g) for i in range(n))


def _global_miscounted(more: Callable) -> Callable:
    """The right mask, and more pairs than in the g full rows and columns."""
    return miscounted(masks.global_tokens_mask, lambda n, r, g: 2 * g * n - g * g + more(n, r, g))


def _others(n, r, g):
    """Pairs among the n − g tokens that are not global."""
    return masks.global_tokens_mask(n, r, g)[1] - 2 * g * n + g * g


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
    seen_only=lambda n, r, g: (_near(n, r) | (torch.arange(n) < g), _one_way(n, r, g)),
    seeing_only=lambda n, r, g: (_near(n, r) | (torch.arange(n) < g)[:, None], _one_way(n, r, g)),
    back_only=lambda n, r, g: (
        (_near(n, r) & (_band(n) >= 0)) | _global(n, g),
        _pairs_of_window(n - g, r + 1) + 2 * g * n - g * g,
    ),
    global_twice=_global_miscounted(lambda n, r, g: _pairs_of_band(n, r) + g * g),
    crossing_twice=_global_miscounted(lambda n, r, g: _others(n, r, g) + g * g),
    crossing_as_g=_global_miscounted(lambda n, r, g: _others(n, r, g) + g * g - g),
    narrow_bands_only=_global_miscounted(lambda n, r, g: (n - g) * (2 * r + 1) - r * (r + 1)),
    ends_not_cut=_global_miscounted(lambda n, r, g: (n - g) * (2 * max(0, min(r, n - g - 1)) + 1)),
    no_global=lambda n, r, g: (_near(n, r), _pairs_of_band(n, r)),
    too_narrow=lambda n, r, g: (
        _near(n, max(r - 1, 0)) | _global(n, g),
        masks.global_tokens_mask(n, max(r - 1, 0), g)[1],
    ),
    band_without_ends=_global_miscounted(lambda n, r, g: (n - g) * (2 * r + 1)),
)


def _triangles(lengths):
    return sum(_triangle(size) for size in lengths)


def _document(lengths) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def _same(document) -> Tensor:
    return document[:, None] == document


def _borders(lengths, right: bool, shift: int = 0) -> Tensor:
    """The number of each token's document, found among the borders between the documents."""
    return torch.bucketize(torch.arange(sum(lengths)), torch.tensor(list(accumulate(lengths))) + shift, right=right)


def _packed_by(document: Callable) -> Callable:
    return lambda lengths: ((_band(sum(lengths)) >= 0) & _same(document(lengths)), _triangles(lengths))


packed_mask = _zoo(
    masks.packed_mask,
    [
        explicit_case("lengths 3, 2, 4", (3, 2, 4)),
        explicit_case("lengths 1, 5", (1, 5)),
        explicit_case("lengths 2, 2, 1, 3", (2, 2, 1, 3)),
        explicit_case("one document of 4", (4,)),
        explicit_case("three documents of 3", (3, 3, 3)),
    ],
    leaking=lambda lengths: (_band(sum(lengths)) >= 0, _triangle(sum(lengths))),
    not_causal=lambda lengths: (_same(_document(lengths)), sum(size * size for size in lengths)),
    whole_triangle=miscounted(masks.packed_mask, lambda lengths: _triangle(sum(lengths))),
    others_only=lambda lengths: (
        (_band(sum(lengths)) >= 0) & ~_same(_document(lengths)),
        _triangle(sum(lengths)) - _triangles(lengths),
    ),
    first_length=_packed_by(lambda lengths: torch.arange(sum(lengths)) // lengths[0]),
    known_by_length=_packed_by(lambda lengths: torch.tensor(lengths).repeat_interleave(torch.tensor(lengths))),
    last_to_next=_packed_by(lambda lengths: _borders(lengths, right=True, shift=-1)),
    first_to_previous=_packed_by(lambda lengths: _borders(lengths, right=False)),
)

mask_zoo = CheckGroup(
    "mask_zoo",
    *(encoder_mask, decoder_mask, cross_mask, prefix_mask, sliding_window_mask, global_tokens_mask, packed_mask),
)
