"""The check of `transformer_block`."""

import torch
from torch import Generator

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import layers as reference
from .layers import NOT_OVERWRITTEN, _keeping, _layer, _offset

__all__ = ["transformer_block"]


def _norm(d: int) -> RandomArg:
    """A norm with a gain and a bias of its own, so that the two can't be exchanged unseen."""

    def draw(generator: Generator):
        w, b = torch.randn(d, generator=generator) + 1, torch.randn(d, generator=generator)
        return lambda x: reference.layer_norm(x, w.to(x.dtype), b.to(x.dtype))

    return RandomArg(draw)


def _mixing(d: int) -> RandomArg:
    """Stands for attention: tokens are mixed."""

    def draw(generator: Generator):
        w = torch.randn(d, d, generator=generator)
        return lambda x: torch.tanh(x.flip(-2) @ w.to(x.dtype)) * 2

    return RandomArg(draw)


def block_inputs(label: str, *shape: int, pre_norm: bool, dtype=torch.float32, keep: bool = False) -> Case:
    d = shape[-1]
    parts = [_mixing(d), _layer(d), _norm(d), _norm(d)]
    return explicit_case(
        label, _offset(*shape, centre=1.0, dtype=dtype), *(map(_keeping, parts) if keep else parts), pre_norm
    )


def pre(x, f, norm, before):
    return x + f(norm(x))


def post(x, f, norm, before):
    return norm(x + f(x))


RIGHT = (pre, post)


def after_the_norm(x, f, norm, before):
    return norm(x) + f(norm(x))


def inside(x, f, norm, before):
    return x + norm(f(x))


def on_both_sides(x, f, norm, before):
    return norm(x + f(norm(x)))


WITHOUT_RESIDUAL = (lambda x, f, norm, before: f(norm(x)), lambda x, f, norm, before: norm(f(x)))

FIRST_INPUT_AGAIN = (lambda x, f, norm, before: before + f(norm(x)), lambda x, f, norm, before: norm(before + f(x)))


def block(first=RIGHT, second=None):
    """A block of two steps (pre-norm's and post-norm's) around attention and the feed-forward network. before: what
    attention reads."""
    second = second or first

    def answer(x, attention, feed_forward, norm_1, norm_2, pre_norm):
        form = 0 if pre_norm else 1
        return second[form](first[form](x, attention, norm_1, x), feed_forward, norm_2, x)

    return answer


right = block()


def one_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + feed_forward(norm_2(attention(norm_1(x))))
    return norm_2(x + feed_forward(norm_1(attention(x))))


def side_by_side(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + attention(norm_1(x)) + feed_forward(norm_2(x))
    return norm_2(norm_1(x + attention(x) + feed_forward(x)))


def both_norms_at_the_end(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return right(x, attention, feed_forward, norm_1, norm_2, True)
    x = x + attention(x)
    return norm_2(norm_1(x) + feed_forward(x))


def in_one_form(pre_norm, wrong):
    """Wrong in one of the two forms, right in the other."""
    return lambda *inputs: (wrong if inputs[-1] == pre_norm else right)(*inputs)


IN_BOTH_FORMS = {
    "first_input_again": block(FIRST_INPUT_AGAIN),
    "side_by_side": side_by_side,
    "one_residual": one_residual,
    "norms_swapped": lambda x, f, g, a, b, pre_norm: right(x, f, g, b, a, pre_norm),
    "one_norm": lambda x, f, g, a, b, pre_norm: right(x, f, g, a, a, pre_norm),
    "no_second_residual": block(RIGHT, WITHOUT_RESIDUAL),
}

IN_ONE_FORM = IN_BOTH_FORMS | {
    "no_second_norm": lambda x, f, g, a, b, pre_norm: right(x, f, g, a, lambda t: t, pre_norm)
}


transformer_block = Check(
    reference=reference.transformer_block,
    cases=[
        block_inputs("pre-norm, 3 tokens, d = 4", 3, 4, pre_norm=True),
        block_inputs("post-norm, 3 tokens, d = 4", 3, 4, pre_norm=False),
        block_inputs("pre-norm, 2 sequences of 5 tokens, d = 6", 2, 5, 6, pre_norm=True),
        block_inputs("post-norm, 2 sequences of 4 tokens, d = 7", 2, 4, 7, pre_norm=False),
        *(
            block_inputs(
                f"{form}-norm, parts that keep what they read, in float64",
                *(2, 3, 5),
                **{"pre_norm": form == "pre", "dtype": torch.float64, "keep": True},
            )
            for form in ("pre", "post")
        ),
    ],
    properties=[NOT_OVERWRITTEN],
    within={torch.float32: (1e-3, 1e-4)},
    misconceptions=wrong_answers(
        __file__,
        **IN_BOTH_FORMS,
        **{f"{key}_in_pre_norm": in_one_form(True, wrong) for key, wrong in IN_ONE_FORM.items()},
        **{f"{key}_in_post_norm": in_one_form(False, wrong) for key, wrong in IN_ONE_FORM.items()},
        forms_swapped=lambda x, f, g, a, b, pre_norm: right(x, f, g, a, b, not pre_norm),
        always_pre_norm=block((pre, pre)),
        always_post_norm=block((post, post)),
        residual_after_the_norm=block((after_the_norm, post)),
        second_residual_after_the_norm=block(RIGHT, (after_the_norm, post)),
        post_norm_inside=block((pre, inside)),
        pre_norm_inside=block((inside, post)),
        norm_on_both_sides=block((on_both_sides, on_both_sides)),
        both_norms_at_the_end=both_norms_at_the_end,
        no_attention_residual=block(WITHOUT_RESIDUAL, RIGHT),
        no_residuals=block(WITHOUT_RESIDUAL),
        feed_forward_first=lambda x, f, g, a, b, pre_norm: right(x, g, f, a, b, pre_norm),
        no_norms=lambda x, f, g, a, b, pre_norm: right(x, f, g, lambda t: t, lambda t: t, pre_norm),
    ),
)
