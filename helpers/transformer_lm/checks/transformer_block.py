"""The check of `transformer_block`."""

import torch
from torch import Generator

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
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


def _both(pre, post):
    """A wrong answer from its pre-norm and its post-norm form: functions of (x, layer, norm) or right ones where
    None."""
    right = (lambda x, f, norm: x + f(norm(x)), lambda x, f, norm: norm(x + f(x)))

    def block(x, attention, feed_forward, norm_1, norm_2, pre_norm):
        step = (pre or right[0]) if pre_norm else (post or right[1])
        return step(step(x, attention, norm_1), feed_forward, norm_2)

    return block


def _right(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    return reference.transformer_block(x, attention, feed_forward, norm_1, norm_2, pre_norm)


def _one_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + feed_forward(norm_2(attention(norm_1(x))))
    return norm_2(x + feed_forward(norm_1(attention(x))))


def _around_the_first_input(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        middle = x + attention(norm_1(x))
        return x + feed_forward(norm_2(middle))
    middle = norm_1(x + attention(x))
    return norm_2(x + feed_forward(middle))


def _side_by_side(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + attention(norm_1(x)) + feed_forward(norm_2(x))
    return norm_2(norm_1(x + attention(x) + feed_forward(x)))


def _residual_after_the_norm(x, f, norm):
    normed = norm(x)
    return normed + f(normed)


def _second_residual_after_the_norm(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if not pre_norm:
        return _right(x, attention, feed_forward, norm_1, norm_2, False)
    return _residual_after_the_norm(x + attention(norm_1(x)), feed_forward, norm_2)


def _only(pre_norm: bool, wrong):
    """Wrong in one of the two forms, right in the other."""
    return lambda *inputs: (wrong if inputs[-1] == pre_norm else _right)(*inputs)


def _both_norms_at_the_end(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return _right(x, attention, feed_forward, norm_1, norm_2, True)
    x = x + attention(x)
    return norm_2(norm_1(x) + feed_forward(x))


def _no_attention_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    middle = attention(norm_1(x)) if pre_norm else norm_1(attention(x))
    return middle + feed_forward(norm_2(middle)) if pre_norm else norm_2(middle + feed_forward(middle))


def _no_second_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    middle = x + attention(norm_1(x)) if pre_norm else norm_1(x + attention(x))
    return feed_forward(norm_2(middle)) if pre_norm else norm_2(feed_forward(middle))


transformer_block = Check(
    reference=reference.transformer_block,
    cases=[
        block_inputs("pre-norm, 3 tokens, d = 4", 3, 4, pre_norm=True),
        block_inputs("post-norm, 3 tokens, d = 4", 3, 4, pre_norm=False),
        block_inputs("pre-norm, 2 sequences of 5 tokens, d = 6", 2, 5, 6, pre_norm=True),
        block_inputs("post-norm, 2 sequences of 4 tokens, d = 7", 2, 4, 7, pre_norm=False),
        block_inputs(
            "pre-norm, parts that keep what they read, in float64",
            2,
            3,
            5,
            pre_norm=True,
            dtype=torch.float64,
            keep=True,
        ),
        block_inputs(
            "post-norm, parts that keep what they read, in float64",
            2,
            3,
            5,
            pre_norm=False,
            dtype=torch.float64,
            keep=True,
        ),
    ],
    properties=[NOT_OVERWRITTEN],
    within={torch.float32: (1e-3, 1e-4)},
    misconceptions=wrong_answers(
        __file__,
        *(
            Misconception(f"{name}, in {form}-norm only", _only(form == "pre", wrong), hint)
            for name, wrong, hint in (
                (
                    "the first input added again",
                    _around_the_first_input,
                    "The second residual connection starts from the stream *after* attention, not from the block's input. The other form does it right.",
                ),
                (
                    "attention and feed-forward side by side",
                    _side_by_side,
                    "The feed-forward network reads what attention has written. The other form does it right.",
                ),
                (
                    "one residual around the whole block",
                    _one_residual,
                    "Both layers have a residual connection of their own, as in the other form.",
                ),
                (
                    "the two norms swapped",
                    lambda x, f, g, a, b, pre: _right(x, f, g, b, a, pre),
                    "norm_1 belongs to attention, norm_2 to the feed-forward network.",
                ),
                (
                    "one norm used twice",
                    lambda x, f, g, a, b, pre: _right(x, f, g, a, a, pre),
                    "norm_2 is for the feed-forward network, as in the other form.",
                ),
                (
                    "no second norm",
                    lambda x, f, g, a, b, pre: _right(x, f, g, a, lambda t: t, pre),
                    "Each layer has a norm of its own: norm_2 is for the feed-forward network, as in the other form.",
                ),
                (
                    "no second residual",
                    _no_second_residual,
                    "The feed-forward network's output is added to what it read, as in the other form.",
                ),
            )
            for form in ("pre", "post")
        ),
        pre_norm_post_norm_swapped=lambda x, f, g, a, b, pre: _right(x, f, g, a, b, not pre),
        always_pre_norm=lambda x, f, g, a, b, pre: _right(x, f, g, a, b, True),
        always_post_norm=lambda x, f, g, a, b, pre: _right(x, f, g, a, b, False),
        residual_taken_after_norm=_both(_residual_after_the_norm, None),
        second_residual_taken_after_norm=_second_residual_after_the_norm,
        post_norm_with_norm_inside_branch=_both(None, lambda x, f, norm: x + norm(f(x))),
        one_residual_around_whole_block=_one_residual,
        post_norm_feed_forward_network_reads=_both_norms_at_the_end,
        no_residual_around_attention=_no_attention_residual,
        no_residual_around_feed_forward_network=_no_second_residual,
        no_residuals=_both(lambda x, f, norm: f(norm(x)), lambda x, f, norm: norm(f(x))),
        first_input_added_again=_around_the_first_input,
        attention_feed_forward_side_by_side=_side_by_side,
        feed_forward_network_first=lambda x, f, g, a, b, pre: _right(x, g, f, a, b, pre),
        two_norms_swapped=lambda x, f, g, a, b, pre: _right(x, f, g, b, a, pre),
        one_norm_used_twice=lambda x, f, g, a, b, pre: _right(x, f, g, a, a, pre),
        no_norms=lambda x, f, g, a, b, pre: _right(x, f, g, lambda t: t, lambda t: t, pre),
        norm_on_both_sides=_both(lambda x, f, norm: norm(x + f(norm(x))), lambda x, f, norm: norm(x + f(norm(x)))),
        pre_norm_with_norm_after_layer=_both(lambda x, f, norm: x + norm(f(x)), None),
    ),
)
