"""The numbers that the notebooks work out by hand, computed: a fragment of the text, with the numbers left open, and what belongs there."""

import math

import pytest
import torch
from conftest import ROOT

TEXTS = {path.stem[:2]: " ".join(path.read_text(encoding="utf-8").replace("\n# ", "\n").split())
         for path in (ROOT / "solutions").glob("*/*.py")}  # fmt: skip

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


@pytest.mark.parametrize(("unit", "fragment", "numbers"), [
    ("00", "The dot products are ${}$ and $3 + 8 = {}$", (1 * 3 + 0 * 4, 1 * 3 + 2 * 4)),
    ("01", "$\\tanh(1) = {:.2f}$, $\\tanh(0.38) = {:.2f}$, $\\tanh(0.18) = {:.2f}$", (one, two, math.tanh(two / 2))),
    ("01", "Scores 2, 1, 0 give the weights {:.2f}, {:.2f}, {:.2f}", soft),
    ("01", "7 steps. Of the 4 · 7 = {} places 16 are used and {} are idle: a fraction of 12/28 = 3/7 = {:.2f}", (28, 28 - 16, 3 / 7)),
    ("01", "The first two make ({}, {}), and with the third ({}, {})", (2 * 3, 3 * 1 + 0, 6 * 1, 1 * 3 + 5)),
    ("02", "Shares: {:.2f}, {:.2f}, {:.2f}", soft),
    ("02", "the right one gets $e^{{10}}/(e^{{10}} + 3) = {:.5f}$", (math.exp(10) / (math.exp(10) + 3),)),
    ("02", "it gets $e/(e + 3) = {:.2f}$", (math.e / (math.e + 3),)),
    ("02", "so the largest weight rises, from {:.2f} to {:.2f}", (soft[0], torch.tensor([4.0, 0.0, 2.0]).softmax(0)[0].item())),
    ("02", "dot product {}; scaled 50/√2 = {:.1f}", (3 * 6 + 4 * 8, 50 / math.sqrt(2))),
    ("02", "The softmax gives {:.2f} and {:.2f}. So the output", masked),
    ("03", "Weights: {:.2f}, {:.2f}, 0. These are exactly", masked),
    ("03", "Softmax over all: {:.2f}, {:.2f}, {:.2f}. Lost: {:.2f}. Left: {:.2f}", (*everyone, everyone[2], 1 - everyone[2])),
    ("03", "the loss is $(0.69 + 1.39)/2 = {:.2f}$", ((math.log(2) + math.log(4)) / 2,)),
    ("04", "the biases 512 each, together {:,}", (4 * 512**2 + 4 * 512,)),
    ("04", "$\\sqrt{{512}} = {:.1f}$ do to it", (math.sqrt(512),)),
    ("05", "Row 1 is $({:.3f}, {:.3f}, {:.3f}, {:.3f})$", (math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01))),
    ("05", "at position 1 it becomes $({:.3f}, {:.3f})$, at position 2 $({:.3f}, {:.3f})$",
     (math.cos(1), math.sin(1), math.cos(2), math.sin(2))),
    ("05", "so $y = ({:.0f}, {:.0f})$. With $d - 1$", layer_norm(1.0, 3.0)),
    ("05", "silu(−2) = −2 · {:.3f}", (1 / (1 + math.exp(2)),)),
    ("05", "GPT-2 small. It has {:,} parameters", (50257 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768,)),
    ("06", "the norm gives $({:.0f}, {:.0f})$", layer_norm(3.0, 1.0)),
    ("07", "{} FLOPs, {} elements, {} bytes. The intensity is {:.2f}", (2 * 2 * 3 * 4, 6 + 12 + 8, 4 * 26, 48 / 104)),
    ("07", "The two sides meet at {} tokens", (2 * 512 + 2048,)),
    ("07", "$144 \\cdot 1024^2 \\cdot 2$ bytes = {:.0f} MB", (144 * 1024**2 * 2 / 1e6,)),
    ("07", "so it needs about 961,500 seconds: {:.1f} days", (flops / (3.12e14 * 0.4) / 86400,)),
    ("07", "(The caches of one layer are then {:.1f} GB. All 32 layers of such a model would need {:.0f} GB",
     (128 * 2 * 4000 * 4096 * 2 / 1e9, 32 * 128 * 2 * 4000 * 4096 * 2 / 1e9)),
    ("08", "= {:,} bytes, half a megabyte", (2 * 32 * 32 * 128 * 2,)),
    ("08", "Llama 2 7B needs most, {:.0f} kB a token, and Mistral 7B least, {:.0f} kB",
     (2 * 32 * 32 * 128 * 2 / 1e3, 2 * 32 * 8 * 128 * 2 / 1e3)),
    ("08", "Without, it takes 4 + 5 + … + 63 = {:,}, {:.0f} times as many", (sum(range(4, 64)), sum(range(4, 64)) / 63)),
    ("09", "= {:.3f} + 1 = {:.3f}$", (math.exp(-2), online)),
    ("09", "Output: $44.38 / 1.203 = {:.2f}$. The softmax of the four scores is {:.3f}, {:.3f}, {:.3f}, {:.3f}",
     ((row * torch.tensor([10.0, 20.0, 30.0, 40.0])).sum().item(), *row.tolist())),
    ("09", "$32 + 64 = {}$ numbers, in float32 {} bytes", (4 * 8 + 4 * 16, 4 * 96)),
    ("10", "$(4 \\cdot 10 + 7 \\cdot 40)/11$ is {:.1f} again", ((4 * 10 + 7 * 40) / 11,)),
    ("10", "$(31/32)^{{22}}$ is {:.3f}", ((31 / 32) ** 22,)),
])  # fmt: skip
def test_the_numbers_of_the_text_are_computed(unit, fragment, numbers):
    assert fragment.format(*numbers).replace("-", "−").replace("$", "") in TEXTS[unit].replace("-", "−").replace(
        "$", ""
    )
