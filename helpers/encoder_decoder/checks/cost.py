"""Checks of the costs: the terms of an encoder layer and a decoder layer, and what each is called."""

from collections.abc import Callable

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.drivers import choice
from helpers.engine.table_check import Table

from .. import cost as reference

__all__ = ["enc_dec_cost", "enc_dec_cost_terms"]


def _changed(change: Callable) -> Callable:
    """The right table with some of its rows replaced by those of `change(n, m, d)`."""

    def table(n, m, d):
        return reference.enc_dec_cost(n, m, d) | change(n, m, d)

    return table


def multiply_adds(n, m, d):
    return {row: (scores // 2, weights // 2) for row, (scores, weights) in reference.enc_dec_cost(n, m, d).items()}


def lengths_swapped(n, m, d):
    return reference.enc_dec_cost(m, n, d)


enc_dec_cost = Table(
    reference=reference.enc_dec_cost,
    columns=("scores and mixing", "products with weights"),
    cases=[random_case(n=5, m=7, d=4), random_case(n=11, m=3, d=8), random_case(n=100, m=640, d=64), random_case(n=1, m=9, d=6), random_case(n=5, m=3, d=8), random_case(n=5, m=7, d=8)],
    within=(0.0, 0.0),
    misconceptions=[
        Misconception(
            "one FLOP for a multiply-add", multiply_adds,
            "A multiplication and an addition count as 2: an (a, b) times (b, c) product has 2·a·b·c FLOPs.",
        ),
        Misconception(
            "source and target swapped", lengths_swapped, "The encoder reads the m tokens of the source, the decoder writes the n of the target.",
        ),
        Misconception(
            "cross-attention forgotten", _changed(lambda n, m, d: {"cross_attention": (0, 0)}),
            "Between its two other sublayers the decoder reads the memory: n queries, m keys and values.",
        ),
        Misconception(
            "cross-attention with n² scores", _changed(lambda n, m, d: {"cross_attention": (4 * n * n * d, 4 * n * d * d + 4 * m * d * d)}),
            "In cross-attention n queries meet m keys: n·m scores.",
        ),
        Misconception(
            "cross-attention with m² scores", _changed(lambda n, m, d: {"cross_attention": (4 * m * m * d, 4 * n * d * d + 4 * m * d * d)}),
            "In cross-attention n queries meet m keys: n·m scores.",
        ),
        Misconception(
            "cross-attention's keys and values made of the target", _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 8 * n * d * d)}),
            "Of its four projections two are of the n target tokens (W_Q, W_O) and two of the m tokens of the memory (W_K, W_V).",
        ),
        Misconception(
            "cross-attention's projections all of the memory", _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 8 * m * d * d)}),
            "The queries and the output belong to the n target tokens. Only keys and values are made of the memory.",
        ),
        Misconception(
            "one projection of the memory, three of the target", _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 6 * n * d * d + 2 * m * d * d)}),
            "Keys *and* values are made of the memory's m tokens: two projections of the memory, two of the target (W_Q, W_O).",
        ),
        Misconception(
            "cross-attention without the projections of the memory", _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 4 * n * d * d)}),
            "The encoder gives the memory. Its keys and values are made by cross-attention's own W_K and W_V, of all m tokens.",
        ),
        Misconception(
            "cross-attention without projections", _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 0)}),
            "Cross-attention has four projections like any other attention.",
        ),
        Misconception(
            "keys and values of the memory projected again for every target token",
            _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 4 * n * d * d + 4 * n * m * d * d)}),
            "The memory doesn't change while the target is written, so its keys and values are made once.",
        ),
        Misconception(
            "the mixing left out", lambda n, m, d: {row: (s // 2, w) for row, (s, w) in reference.enc_dec_cost(n, m, d).items()},
            "The scores are one product, the weights times the values are another of the same size.",
        ),
        Misconception(
            "three projections instead of four", _changed(lambda n, m, d: {
                "encoder_self_attention": (4 * m * m * d, 6 * m * d * d), "decoder_self_attention": (4 * n * n * d, 6 * n * d * d),
                "cross_attention": (4 * n * m * d, 2 * n * d * d + 4 * m * d * d)}),
            "W_Q, W_K, W_V, and W_O at the end: four.",
        ),
        Misconception(
            "half of the causal scores", _changed(lambda n, m, d: {"decoder_self_attention": (2 * n * (n + 1) * d, 8 * n * d * d)}),
            "The plain matrix form computes all n² scores and throws the masked ones away. Count what is computed.",
        ),
        Misconception(
            "a feed-forward network of width d", _changed(lambda n, m, d: {
                "encoder_feed_forward": (0, 4 * m * d * d), "decoder_feed_forward": (0, 4 * n * d * d)}),
            "It is 4d wide inside: two products, each with a d × 4d matrix.",
        ),
        Misconception(
            "one of the two products of the feed-forward network", _changed(lambda n, m, d: {
                "encoder_feed_forward": (0, 8 * m * d * d), "decoder_feed_forward": (0, 8 * n * d * d)}),
            "There is a product on the way up to 4d, and one on the way down.",
        ),
        Misconception(
            "cross-attention's output projection made of the memory",
            _changed(lambda n, m, d: {"cross_attention": (4 * n * m * d, 2 * n * d * d + 6 * m * d * d)}),
            "W_O works on what the queries have read: a row for each of the n target tokens. Only W_K and W_V are of the memory.",
        ),
        Misconception(
            "one of the two products of the decoder's feed-forward network", _changed(lambda n, m, d: {"decoder_feed_forward": (0, 8 * n * d * d)}),
            "It has a product on the way up to 4d and one on the way down, as the encoder's has.",
        ),
        Misconception(
            "one of the two products of the encoder's feed-forward network", _changed(lambda n, m, d: {"encoder_feed_forward": (0, 8 * m * d * d)}),
            "It has a product on the way up to 4d and one on the way down, as the decoder's has.",
        ),
        Misconception(
            "feed-forward networks that read the other sequence", _changed(lambda n, m, d: {
                "encoder_feed_forward": (0, 16 * n * d * d), "decoder_feed_forward": (0, 16 * m * d * d)}),
            "The encoder's works on the m tokens of the source, the decoder's on the n of the target.",
        ),
        Misconception(
            "a decoder that reads source and target as one sequence",
            _changed(lambda n, m, d: {"decoder_self_attention": (4 * (n + m) ** 2 * d, 8 * (n + m) * d * d)}),
            "That is a model without an encoder. Here the decoder's self-attention has the n target tokens, and the source comes in by cross-attention.",
        ),
    ],
)  # fmt: skip

enc_dec_cost_terms = Check(
    reference=reference.enc_dec_cost_terms,
    cases=[explicit_case("five letters in their order")],
    drive=choice,
    misconceptions=[
        Misconception(
            "encoder and decoder swapped", lambda: "bfced", "n is the length of the target, which the decoder writes; m that of the source.",
        ),
        Misconception(
            "scores and products with weights swapped", lambda: "ecfbd",
            "d² comes from a d × d matrix of weights. A square of a length comes from tokens that meet tokens.",
        ),
        Misconception(
            "the scores of encoder and decoder swapped", lambda: "becfd",
            "n is the length of the target: n²d are the scores of the *decoder's* self-attention, m²d those of the encoder's. The products with weights you have right.",
        ),
        Misconception(
            "the products of source and target swapped", lambda: "cfbed",
            "nd² comes from the n tokens of the target, md² from the m of the source. The scores you have right.",
        ),
        Misconception(
            "a mask instead of cross-attention", lambda: "cebfa",
            "A mask costs no product. nm says that n tokens meet m others: the target's queries and the memory's keys.",
            lambda seen: "a" in seen.output,
        ),
        Misconception(
            "the whole decoder alone", lambda: "cebfg", "A model that is only a decoder has (n + m)² scores. The single term nmd is where the two lengths meet.",
            lambda seen: "g" in seen.output,
        ),
        Misconception(
            "a letter missing", lambda: "cebf", "Five letters are wanted, one for each term, in the order of the question.",
            lambda seen: len(seen.output) < 5,
        ),
    ],
)  # fmt: skip
