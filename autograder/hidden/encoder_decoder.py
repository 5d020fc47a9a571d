"""Hidden cases of unit 06."""

import torch

from helpers.encoder_decoder.checks.beam_search import tree
from helpers.encoder_decoder.checks.decoder_layer import _decoder
from helpers.encoder_decoder.checks.encoder_decoder import _model
from helpers.encoder_decoder.checks.encoder_layer import _encoder
from helpers.encoder_decoder.checks.exact_match import _exam
from helpers.encoder_decoder.checks.greedy_decode import sentence
from helpers.encoder_decoder.checks.teacher_forcing import _targets
from helpers.engine.cases import RandomArg, explicit_case, random_case

EncoderLayer = [
    _encoder("one head, d_ff = 9, padding", b=4, m=6, d=5, h=1, d_ff=9, masks="padding"),
    _encoder("one mask for all, b = 5", b=5, m=4, d=6, h=3, d_ff=8, masks="shared"),
    _encoder(
        "a batch of one; training mode and gradients, in float64",
        b=1,
        m=3,
        d=12,
        h=6,
        d_ff=7,
        masks="none",
        dtype=torch.float64,
    ),
]
DecoderLayer = [
    _decoder("n = 9, m = 2, one head, both masks", b=3, n=9, m=2, d=7, h=1, d_ff=10, masks="both"),
    _decoder("n = m = 4, padding alone", b=2, n=4, m=4, d=12, h=4, d_ff=9, masks="padding"),
    _decoder(
        "another mask for each token, in float64", b=1, n=3, m=5, d=8, h=2, d_ff=6, masks="rows", dtype=torch.float64
    ),
]
which_connects_where = []
EncoderDecoder = [
    _model("2 layers, m = 3, n = 8, d = 16", b=4, n=8, m=3, d=16, h=4, d_ff=9, layers=2, asks="whole"),
    _model(
        "as many words on both sides, in float64",
        b=1,
        n=5,
        m=4,
        d=8,
        h=2,
        d_ff=6,
        layers=1,
        words=(71, 71),
        dtype=torch.float64,
    ),
]
teacher_forcing = [
    explicit_case("5 targets of up to 9 tokens", _targets(5, 9, shortest=3)),
    explicit_case("two of up to 2", _targets(2, 2)),
    explicit_case(
        "one target of one token", RandomArg(lambda generator: torch.randint(3, 23, (1, 1), generator=generator))
    ),
]
exact_match = [
    _exam("21 strings of up to 6 tokens", 21, 6, 9),
    _exam("8 strings, more behind END", 8, 4, 9, kinds="0909099a"),
]
train_reversal = []
greedy_decode = [
    explicit_case("5 sentences, END at once in one", (1, 4, 7, 2, 5), sentence(5, 8), 11),
    explicit_case("all cut off at 3", (6, 9), sentence(2, 3), 3),
    explicit_case("two tokens at most", (4, 1, 2), sentence(3, 4), 2),
]
beam_search = [
    explicit_case("9 words, k = 3, at most 10 tokens", tree(71, 9, 0.0), 3, 10, 0.7),
    explicit_case("4 words, k = 4, at most 6 tokens", tree(73, 4, 0.0), 4, 6, 0.5),
    explicit_case("one token at most, k = 3", tree(74, 9, 0.0), 3, 1, 0.8),
    explicit_case("12 words, k = 6, at most 5 tokens", tree(72, 12, 0.5), 6, 5, 1.0),
]
enc_dec_cost = [random_case(n=33, m=12, d=10), random_case(n=2, m=1, d=512)]
enc_dec_cost_terms = []
