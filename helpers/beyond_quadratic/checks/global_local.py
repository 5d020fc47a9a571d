"""global_local: the first g tokens read all and are read by all; the others read a window besides, in one softmax."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import power_before_division
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import sparse
from .sparse import (
    Gathered,
    Slots,
    all_pairs_scored,
    attend_to,
    cut_or_not,
    far_below,
    hidden_too_softly,
    long_sequence,
    near,
    other_width,
    overflowed,
    pairs,
    ready_made,
    row_by_row,
    scores_of_all_pairs,
    slots_of,
    square_made,
    square_on_the_way_back,
    with_a_token_of_zeros,
)

__all__ = ["global_local"]

reference = sparse.global_local_attention


def globals_then_window(
    place: Callable = lambda keys, n: keys.clamp(0, n - 1),
    valid: Callable = lambda keys, n, g: (keys >= g) & (keys < n),
) -> Callable:
    """(n, w, g) → keys and valid slots of the tokens from g on: the global keys, then the window without them."""

    def read(n: int, w: int, g: int) -> tuple[Tensor, Tensor]:
        keys = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
        far = torch.arange(g).expand(n - g, g)
        return torch.cat([far, place(keys, n)], dim=1), torch.cat([far >= 0, valid(keys, n, g)], dim=1)

    return read


GLOBALS_THEN_WINDOW = globals_then_window()


@composable
def joined(read: Callable = GLOBALS_THEN_WINDOW, first: Callable | None = None, **changed: Callable) -> Callable:
    """first: the attention of the global tokens, if it is not that of the others."""
    steps = Gathered(**changed)
    of_globals = first or attention(scale=steps.scale, normalise=steps.normalise)

    def answer(q, k, v, w, g) -> Tensor:
        rest = attend_to(steps, q[..., g:, :], k, v, *read(q.shape[-2], w, g))
        return torch.cat([of_globals(steps.queries(q, v)[..., :g, :], k, v), rest], dim=-2)

    return answer


def where_any(normalise: Callable) -> Callable:
    """With all tokens global, or none, there are no scores for the others, or for these."""
    return joined(normalise=lambda hidden, *how: normalise(hidden, *how) if hidden.numel() else hidden)


def at_the_start(i: Tensor | int, j: Tensor, w: int, g: int) -> Tensor:
    """Whether i reads j."""
    return near(i, j, w) | (j < g) | (i < g)


@composable
def under_mask(**changed: Callable) -> Callable:
    return pairs(at_the_start, **changed)


def times(counted: Callable) -> Callable:
    """counted: how often i counts j."""
    return pairs(counted, hide=lambda scores, often: scores + often.to(scores).log())


def nearby_globals_twice(i, j, w, g) -> Tensor:
    return torch.where(i < g, 1, near(i, j, w).float() + (j < g))


def left_edge_twice(i, j, w, g) -> Tensor:
    return at_the_start(i, j, w, g).float() + ((i - j == w) & (i >= g) & (j < g))


def two_softmaxes(together: Callable, window: Callable) -> Callable:
    """Of global keys and of window keys, each one's outputs."""

    def answer(q, k, v, w, g) -> Tensor:
        if not g:
            return pairs(near)(q, k, v, w)
        nearby, far = pairs(window)(q, k, v, w, g), attention()(q, k[..., :g, :], v[..., :g, :])
        return torch.cat([attention()(q[..., :g, :], k, v), together(nearby, far)[..., g:, :]], dim=-2)

    return answer


def rows_twice_if_all_are_global(q, k, v, w, g) -> Tensor:
    right = under_mask()(q, k, v, w, g)
    return torch.cat([right, right], dim=-2) if g == q.shape[-2] else right


def no_rows_counted_from_the_back(q, k, v, w, g) -> Tensor:
    n, steps = q.shape[-2], Gathered(score=lambda q, k: (q[..., None, :] @ k.mT).squeeze(-2))
    rest = attend_to(steps, q[..., -(n - g) :, :], k, v, *GLOBALS_THEN_WINDOW(n, w, g))
    return torch.cat([attention()(q[..., :g, :], k, v), rest], dim=-2)


def less_maximum(largest: Callable) -> Callable:
    """largest: (scores, g) → what is subtracted from them; the first g are those of the global keys."""

    def answer(q, k, v, w, g) -> Tensor:
        def normalise(hidden, valid, scores):
            powers = torch.exp(hidden - largest(hidden, g))
            return powers / powers.sum(-1, keepdim=True)

        return joined(first=attention(), normalise=normalise)(q, k, v, w, g)

    return answer


def own_maximum(scores: Tensor, g: int) -> Tensor:
    parts = [part for part in (scores[..., :g], scores[..., g:]) if part.shape[-1]]
    return torch.cat([part.amax(-1, keepdim=True).expand_as(part) for part in parts], dim=-1)


def far_global(n: int, d_v: int, w: int, g: int, size: float = 20.0) -> Case:
    """For every other query the global keys score hundreds more than its window, for the rest hundreds less: the
    softmax needs the maximum of both."""
    signs = RandomArg(lambda _: (size * (-1.0) ** torch.arange(n))[:, None].expand(n, 4).clone())

    def keys(generator: Generator) -> Tensor:
        return torch.where(torch.arange(n)[:, None] < g, size, torch.randn(n, 4, generator=generator) / 2)

    label = f"n = {n}, g = {g}: scores of the global keys far above or below those of the window"
    return explicit_case(label, signs, RandomArg(keys), normal(n, d_v), w, g)


def long_global(n: int, d: int, d_v: int, w: int, g: int) -> Case:
    return long_sequence(n, d, d_v, n * (4 * w + 4 + g) + 2 * g * n, "n (w + g) d", w=w, g=g)


last_windows_at_start = joined(globals_then_window(lambda keys, n: keys % n, lambda keys, n, g: keys >= g))
ends_valid = joined(globals_then_window(valid=lambda keys, n, g: keys.clamp(min=0) >= g))
end_valid = joined(globals_then_window(valid=lambda keys, n, g: keys >= g))

global_local = Check(
    exercise="global_local",
    reference=reference,
    cases=[
        # n = 9 comes with other w for the same g and with other g for the same w: a table kept is found
        random_case(n=9, d=4, d_v=3, w=1, g=3),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, w=2, g=1, dtype=torch.float64),
        random_case(n=10, d=5, d_v=2, w=2, g=3, scale=2.5, label="n = 10, w = 2, g = 3, large scores"),
        long_global(400, 4, 3, 3, 2),
        long_global(300, 3, 5, 2, 4),
        with_a_token_of_zeros(random_case(n=9, d=4, d_v=3, w=2, g=3, label="n = 9 again, now with w = 2")),
        random_case(n=7, d=3, d_v=4, w=2, g=0, label="g = 0: only the window"),
        random_case(n=5, d=4, d_v=3, w=1, g=5, label="g = n: all tokens global, no other rows"),
        random_case(n=7, d=3, d_v=4, w=9, g=1, label="a window wider than the sequence"),
        explicit_case("scores of several hundred", whole(9, 4), whole(9, 4), normal(9, 3), 2, 1),
        explicit_case("scores near −30,000, in float64", *far_below(8, 8, 3), 2, 1),
        far_global(9, 3, 2, 2),
        random_case(
            "n = 20, w = 1, g = 2: gradients, in float64",
            **{"batch": (2,), "n": 20, "d": 3, "d_v": 4, "w": 1, "g": 2, "dtype": torch.float64},
            gradient=True,
            max_backward_elements=20 * 14 * 4 * 2,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        other_width(reference),
        power_before_division(reference),
        *ready_made(reference),
        *slips(joined, Slots.from_a_view, cost=square_on_the_way_back),
        *slips(joined, Slots.zeros_taken, Slots.axis_from_front, Slots.by_width_of_values, Slots.one_batch_axis),
        *slips(joined, Slots.finite_number, recognise=hidden_too_softly(reference)),
        *slips(joined, Slots.out_of_range, recognise=overflowed),
        *slips(where_any, Softmax.one_maximum),
        *slips(under_mask, Scale.none),
        # the price
        all_pairs=Wrong(under_mask(), cost=scores_of_all_pairs),
        table_of_all_pairs=Wrong(
            joined(lambda n, w, g: slots_of(sparse.band_with_globals(n, w, g)[g:], g + 2 * w + 1)), cost=square_made
        ),
        row_by_row=Wrong(row_by_row(at_the_start), cost=all_pairs_scored),
        # which tokens read which
        globals_counted_twice=times(nearby_globals_twice),
        globals_read_a_window=pairs(lambda i, j, w, g: near(i, j, w) | (j < g)),
        globals_not_read=pairs(lambda i, j, w, g: near(i, j, w) | (i < g)),
        only_window=pairs(lambda i, j, w, g: near(i, j, w)),
        only_globals=pairs(lambda i, j, w, g: (i < g) | (j < g)),
        last_tokens_global=pairs(lambda i, j, w, g: near(i, j, w) | (i >= len(j) - g) | (j >= len(j) - g)),
        one_global=pairs(lambda i, j, w, g: at_the_start(i, j, w, min(g, 1))),
        one_global_more=pairs(lambda i, j, w, g: at_the_start(i, j, w, g + 1)),
        window_row_wins=pairs(lambda i, j, w, g: near(i, j, w) | (i < g) & (j < g)),
        too_narrow=pairs(lambda i, j, w, g: at_the_start(i, j, w - 1, g)),
        cut_to_half=pairs(lambda i, j, w, g: at_the_start(i, j, min(w, len(j) // 2), g)),
        token_g_missing=pairs(lambda i, j, w, g: at_the_start(i, j, w, g) & ((i < g) | (j != g))),
        left_edge_twice=times(left_edge_twice),
        windows_too_far_left=pairs(lambda i, j, w, g: near(i, j + g, w) | (i < g) | (j < g)),
        rows_counted_from_back=rows_twice_if_all_are_global,
        no_rows_counted_from_back=Wrong(no_rows_counted_from_the_back, raises="RuntimeError"),
        # beyond the ends
        end_goes_on_at_start=Wrong(last_windows_at_start, variants=cut_or_not(last_windows_at_start)),
        ends_valid=Wrong(ends_valid, variants=(*cut_or_not(ends_valid), *cut_or_not(end_valid))),
        # one softmax
        averaged=two_softmaxes(lambda one, other: (one + other) / 2, lambda i, j, w, g: near(i, j, w) & (j >= g)),
        averaged_globals_twice=two_softmaxes(lambda one, other: (one + other) / 2, lambda i, j, w, g: near(i, j, w)),
        added=two_softmaxes(lambda one, other: one + other, lambda i, j, w, g: near(i, j, w) & (j >= g)),
        unscaled_globals=joined(first=attention(**Scale.none.steps)),
        unscaled_rest=joined(first=attention(), **Scale.none.steps),
        maximum_of_window=less_maximum(lambda scores, g: scores[..., g:].amax(-1, keepdim=True) if g else 0),
        maximum_of_globals=less_maximum(lambda scores, g: scores[..., :g].amax(-1, keepdim=True) if g else 0),
        maximum_of_each=less_maximum(own_maximum),
    ),
)
