"""The numbers that the notebooks work out by hand, or say that a cell shows, computed: a fragment of the text, with the
numbers left open, and what belongs there."""

import math

import pytest
import torch
from conftest import ROOT

from helpers.beyond_quadratic.variant_costs import linear_flops, local_flops
from helpers.complexity.costs import model_flops
from helpers.complexity.pattern_costs import channel_attention, vit_windows
from helpers.encoder_decoder.cost import decoder_alone_cost, enc_dec_cost
from helpers.measuring.devices import DATASHEETS
from helpers.multi_head.heads import head_flops
from helpers.qkv_attention import scores
from helpers.transformer_lm import grammar

TEXTS = {
    path.stem[:2]: " ".join(path.read_text(encoding="utf-8").replace("\n# ", "\n").split())
    for path in (ROOT / "solutions").glob("*/*.py")
}

soft = torch.tensor([2.0, 1.0, 0.0]).softmax(0).tolist()
two, one = math.tanh(0.5 * math.tanh(1)), math.tanh(1)
masked = torch.tensor([2.0, 1.0]).softmax(0).tolist()
everyone = torch.tensor([2.0, 1.0, 3.0]).softmax(0).tolist()
row = torch.tensor([1.0, 3.0, 2.0, 5.0]).softmax(0)
online = math.exp(-2) + 1
flops = 6 * 10**9 * 2 * 10**10


def layer_norm(*x):
    x = torch.tensor(x)
    return ((x - x.mean()) / x.std(unbiased=False)).tolist()


@pytest.mark.parametrize(
    ("unit", "fragment", "numbers"),
    [
        ("00", "The dot products are ${}$ and $3 + 8 = {}$", (1 * 3 + 0 * 4, 1 * 3 + 2 * 4)),
        (
            "01",
            "$\\tanh(1) = {:.2f}$, $\\tanh(0.38) = {:.2f}$, $\\tanh(0.18) = {:.2f}$",
            (one, two, math.tanh(two / 2)),
        ),
        ("01", "Scores 2, 1, 0 give the weights {:.2f}, {:.2f}, {:.2f}", soft),
        (
            "01",
            "7 steps. Of the 4 · 7 = {} places 16 are used and {} are idle: a fraction of 12/28 = 3/7 = {:.2f}",
            (28, 28 - 16, 3 / 7),
        ),
        ("01", "The first two make ({}, {}), and with the third ({}, {})", (2 * 3, 3 * 1 + 0, 6 * 1, 1 * 3 + 5)),
        ("02", "Shares: {:.2f}, {:.2f}, {:.2f}", soft),
        ("02", "the right one gets $e^{{10}}/(e^{{10}} + 3) = {:.5f}$", (math.exp(10) / (math.exp(10) + 3),)),
        ("02", "it gets $e/(e + 3) = {:.2f}$", (math.e / (math.e + 3),)),
        (
            "02",
            "so the largest weight rises, from {:.2f} to {:.2f}",
            (soft[0], torch.tensor([4.0, 0.0, 2.0]).softmax(0)[0].item()),
        ),
        ("02", "dot product {}; scaled 50/√2 = {:.1f}", (3 * 6 + 4 * 8, 50 / math.sqrt(2))),
        ("02", "The softmax gives {:.2f} and {:.2f}. So the output", masked),
        ("03", "Weights: {:.2f}, {:.2f}, 0. These are exactly", masked),
        (
            "03",
            "Softmax over all: {:.2f}, {:.2f}, {:.2f}. Lost: {:.2f}. Left: {:.2f}",
            (*everyone, everyone[2], 1 - everyone[2]),
        ),
        ("03", "the loss is $(0.69 + 1.39)/2 = {:.2f}$", ((math.log(2) + math.log(4)) / 2,)),
        ("04", "the biases 512 each, together {:,}", (4 * 512**2 + 4 * 512,)),
        ("04", "$\\sqrt{{512}} = {:.1f}$ do to it", (math.sqrt(512),)),
        ("04", "scores take $2 \\cdot 5 \\cdot 3 \\cdot 5 = {}$", (2 * 5 * 3 * 5,)),
        ("04", "Together $4 \\cdot 360 + 2 \\cdot 2 \\cdot 150 = {}$", (head_flops(n=5, d=6, h=2, d_h=3),)),
        (
            "05",
            "Row 1 is $({:.3f}, {:.3f}, {:.3f}, {:.3f})$",
            (math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)),
        ),
        (
            "05",
            "at position 1 it becomes $({:.3f}, {:.3f})$, at position 2 $({:.3f}, {:.3f})$",
            (math.cos(1), math.sin(1), math.cos(2), math.sin(2)),
        ),
        ("05", "so $y = ({:.0f}, {:.0f})$. With $d - 1$", layer_norm(1.0, 3.0)),
        ("05", "silu(−2) = −2 · {:.3f}", (1 / (1 + math.exp(2)),)),
        (
            "05",
            "GPT-2 small. It has {:,} parameters",
            (50257 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768,),
        ),
        ("06", "the norm gives $({:.0f}, {:.0f})$", layer_norm(3.0, 1.0)),
        (
            "07",
            "{} FLOPs, {} elements, {} bytes. The intensity is {:.2f}",
            (2 * 2 * 3 * 4, 6 + 12 + 8, 4 * 26, 48 / 104),
        ),
        ("07", "The two sides meet at {} tokens", (2 * 512 + 2048,)),
        ("07", "$144 \\cdot 1024^2 \\cdot 2$ bytes = {:.0f} MB", (144 * 1024**2 * 2 / 1e6,)),
        ("07", "(With $d = 1$ the FLOPs are {:,} and {:,}.)", vit_windows(side=224, patch=16, window=7, d=1)),
        (
            "07",
            "on both sides, are $4 \\cdot 2 \\cdot 5 \\cdot 6 \\cdot 6 = 1440$ FLOPs. Together ({}, {})",
            channel_attention(n=5, d=6, h=3),
        ),
        ("07", "864. Together {}.", (model_flops(b=2, n=3, layers=2, d=2, d_ff=6, vocabulary=5),)),
        ("07", "so it needs about 961,500 seconds: {:.1f} days", (flops / (3.12e14 * 0.4) / 86400,)),
        (
            "07",
            "(The caches of one layer are then {:.1f} GB. All 32 layers of such a model would need {:.0f} GB",
            (128 * 2 * 4000 * 4096 * 2 / 1e9, 32 * 128 * 2 * 4000 * 4096 * 2 / 1e9),
        ),
        ("08", "= {:,} bytes, half a megabyte", (2 * 32 * 32 * 128 * 2,)),
        (
            "08",
            "Llama 2 7B needs the most, {:.0f} kB per token, and Mistral 7B the least, {:.0f} kB",
            (2 * 32 * 32 * 128 * 2 / 1e3, 2 * 32 * 8 * 128 * 2 / 1e3),
        ),
        (
            "08",
            "Without, it takes 4 + 5 + … + 63 = {:,}, {:.0f} times as many",
            (sum(range(4, 64)), sum(range(4, 64)) / 63),
        ),
        ("09", "= {:.3f} + 1 = {:.3f}$", (math.exp(-2), online)),
        (
            "09",
            "Output: $44.38 / 1.203 = {:.2f}$. The softmax of the four scores is {:.3f}, {:.3f}, {:.3f}, {:.3f}",
            ((row * torch.tensor([10.0, 20.0, 30.0, 40.0])).sum().item(), *row.tolist()),
        ),
        ("09", "$32 + 64 = {}$ numbers, in float32 {} bytes", (4 * 8 + 4 * 16, 4 * 96)),
        ("10", "$(4 \\cdot 10 + 7 \\cdot 40)/11$ is {:.1f} again", ((4 * 10 + 7 * 40) / 11,)),
        ("10", "$(31/32)^{{22}}$ is {:.3f}", ((31 / 32) ** 22,)),
    ],
)
def test_the_numbers_of_the_text_are_computed(unit, fragment, numbers):
    assert _plain(fragment.format(*numbers)) in _plain(TEXTS[unit])


def _plain(text: str) -> str:
    return text.replace("-", "−").replace("$", "")


def smallest(dtype: torch.dtype) -> float:
    """The logarithm of the smallest positive number of this dtype, subnormal ones included."""
    return math.log(torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps)


def rounded_to_0(dtype: torch.dtype) -> float:
    """The logarithm of the largest number that this dtype rounds to 0: half of the smallest."""
    return smallest(dtype) - math.log(2)


def cost_of_the_pair(n: int) -> int:
    return sum(map(sum, enc_dec_cost(n, n, 512).values()))


t4, a100, h100 = DATASHEETS
TOKENS = grammar.expected_nats_and_tokens()[1]
activations = 34 * 2048 * 12288 + 5 * 96 * 2048**2
assert local_flops(3600, 32, 8) < linear_flops(3600, 32)


@pytest.mark.parametrize(
    ("unit", "fragment", "numbers"),
    [
        ("01", "One micro-batch on 16 devices: {:.0f}% idle", (100 * 15 / 16,)),
        ("02", "weights {:.2f} and {:.2f}. The sum prefers", torch.tensor([4.0, 1.0]).softmax(0).tolist()),
        ("02", "would need ${:.1f} \\cdot 10^{{11}}$ weights", ((1000 * 512) ** 2 / 1e11,)),
        ("02", "The projections need {:,}", (3 * 512**2,)),
        ("03", "$1 + 2 + \\dots + 6 = {}$ of {}", (sum(range(7)), 6 * 6)),
        (
            "03",
            "the smallest positive float16 is about $6 \\cdot 10^{{-8}} = e^{{{:.1f}}}$",
            (smallest(torch.float16),),
        ),
        ("03", "below $3 \\cdot 10^{{-8}} = e^{{{:.1f}}}$ everything rounds to 0", (rounded_to_0(torch.float16),)),
        (
            "03",
            "until about $e^{{{:.0f}}}$ and $e^{{{:.0f}}}$",
            (rounded_to_0(torch.bfloat16), rounded_to_0(torch.float32)),
        ),
        ("04", "The spread would be {:.2f} instead of 1", (8 / math.sqrt(512),)),
        ("04", "a loss of $\\ln 8$ on half of the answers, {:.2f} on average", (math.log(8) / 2,)),
        ("04", "head 1 gives {:.0f}% to its own token", (100 / sum(math.exp(-i / 2) for i in range(64)),)),
        ("04", "$256 \\ln 2 = {:.0f}$ tokens back", (256 * math.log(2),)),
        ("05", "$8 \\ln 2 = {:.1f}$ nats of chance", (8 * math.log(2),)),
        ("05", "$\\ln 6 = {:.2f}$ for a verb", (math.log(6),)),
        ("05", "$\\ln {} = {:.1f}$, if it gives", (len(grammar.VOCABULARY), math.log(len(grammar.VOCABULARY)))),
        ("05", "$\\ln 12 = {:.2f}$ nats, not $\\ln 6$", (math.log(12),)),
        *(
            ("05", f"| {kind} | {{:.0f}}% | {{:.{'3f' if nats else '0f'}}} |", (100 * count / TOKENS, nats / count))
            for kind, (nats, count) in grammar.expected_by_kind().items()
        ),
        ("05", "| all | 100% | {:.3f} |", (grammar.entropy_per_token(),)),
        ("06", "so it has about ln 11 = {:.1f}", (math.log(11),)),
        (
            "06",
            "the penalty is $(7/6)^2 = {:.2f}$, the score ${:.2f}$. Seven tokens, $\\log P = -2.0$: the penalty is "
            "$2^2 = 4$, the score ${:.1f}$",
            ((7 / 6) ** 2, -1.4 / (7 / 6) ** 2, -2.0 / 2**2),
        ),
        (
            "06",
            "the decoder alone costs {:.1f} times as much",
            (sum(decoder_alone_cost(128, 128, 512)) / cost_of_the_pair(128),),
        ),
        ("07", "Its ridge is at 65,000/320 ≈ {:.0f} FLOPs per byte", (t4.ridge,)),
        ("07", "The A100's ridge is at {:.0f} FLOPs per byte", (a100.ridge,)),
        ("07", "{:.1f} GB per layer, and {:.0f} GB for all 96", (activations / 1e9, 96 * activations / 1e9)),
        ("07", "For GPT-2 small that is {:.0f} against {:.0f} million", (12 * 12 * 768**2 / 1e6, 124_439_808 / 1e6)),
        ("08", "For a text of 1000 tokens that is {:,} per layer", (sum(range(1000)),)),
        ("08", "as many as {} groups", (576 / (2 * 128),)),
        ("08", "these are {:.0f} times fewer (32,768 / 576)", (2 * 128 * 128 / 576,)),
        ("08", "ten times as many as Llama 2 7B, and needs {:.0f} kB", (2 * 80 * 8 * 128 * 2 / 1e3,)),
        ("09", "While an H100 moves one byte it could do {:.0f} FLOPs", (h100.ridge,)),
        ("09", "numbers, against {:.1f} million scores", (4096**2 / 1e6,)),
        ("09", "({:.0f} times for $B = 192$)", (2 * 192 / 64,)),
        ("09", "$30/\\sqrt{{64}} = {:.2f}$ in every feature", (30 / math.sqrt(64),)),
        ("10", "$4096/257$: about {:.0f} times fewer", (4096 / 257,)),
        ("10", "After {} tokens: the state has", (next(n for n in range(100) if 2 * 64 * n > 64 * 64 + 64),)),
        ("10", "$7 + {:.2f} \\cdot 6 + {:.2f} \\cdot 2 = {:.1f}$", (0.8**2, 0.8**4, 7 + 0.8**2 * 6 + 0.8**4 * 2)),
        ("10", "its {} slots per token are fewer than the {} rows of a state", (2 * 8 + 1, 32)),
        ("10", "$50{{,}}000 \\cdot 514 + 50{{,}}000 = {:.0f}$ million pairs", ((50_000 * 514 + 50_000) / 1e6,)),
        (
            "10",
            "in float32 that is {:.1f} MB against {:.0f} MB",
            (12 * 8 * (64**2 + 64) * 4 / 1e6, 12 * 8 * 2 * 64 * 10_800 * 4 / 1e6),
        ),
    ],
)
def test_what_you_should_see_is_computed(unit, fragment, numbers):
    assert _plain(fragment.format(*numbers)) in _plain(TEXTS[unit])


def test_the_spreads_of_the_six_scores_are_those_that_2_6_names():
    torch.manual_seed(0)  # the cell's own
    q, k, w = torch.randn(6, 32), torch.randn(8, 32), torch.randn(32, 32) / math.sqrt(32)
    spread = {
        "cosine": scores.cosine_score(q, k),
        "additive": scores.additive_score(q, k, w, w, torch.ones(32)),
        "location": scores.location_score(q, w[:, :8]),
        "general": scores.general_score(q, w, k),
        "dot": scores.dot_score(q, k),
        "scaled": scores.scaled_dot_score(q, k),
    }
    assert round(spread["cosine"].std().item(), 1) == 0.2
    assert {round(spread[name].std().item()) for name in ("additive", "general", "dot")} <= {4, 5, 6}
    assert {round(spread[name].std().item()) for name in ("scaled", "location")} == {1}
