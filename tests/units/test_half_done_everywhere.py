"""In every exercise: what is half done is told where it is so, and of answers that are off at random nothing is."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from helpers import check, registry
from helpers.engine import two_slips

HALF = ("What you return is right", "is filled in, and right", "everywhere. Is it made", "whatever it is given")
TRUE_OF_NOISE = {
    ("strided_keys", "keys beyond the ends"),
    ("select_one_value", "keys that disturb each other"),
    ("same_output_other_weights", "weights that give another output"),
}
"""Names that say nothing but what an output at random really shows."""


def parts():
    for name in registry.offered("checks"):
        whole = getattr(check, name)
        for part in getattr(whole, "parts", {name: whole}).values():
            if not (part.quiz or part.drive or isinstance(part.reference, type)):
                yield part


def first_alone(leaf):
    return leaf[:1] if isinstance(leaf, Tensor) and leaf.dim() else leaf


def noisy(leaf):
    dice = torch.Generator().manual_seed(1)
    if not isinstance(leaf, Tensor):
        return leaf * 3 + 7 if type(leaf) in (int, float) else leaf
    if leaf.dtype == torch.bool:
        return leaf ^ (torch.rand(leaf.shape, generator=dice) < 0.4)
    noise = torch.randn(leaf.shape, generator=dice) if leaf.is_floating_point() else torch.arange(leaf.numel())
    return leaf + noise.view(leaf.shape).to(leaf)


EVERY = pytest.mark.parametrize("part", [pytest.param(part, id=part.exercise) for part in parts()])


def changed(part, how):
    return part(lambda *args: tree_map(how, part.reference(*args)), points=4, seed=5)


@EVERY
def test_the_first_place_alone_is_told_as_it_is(part):
    score = changed(part, first_alone)
    told = [words for words in HALF if words in score.message]
    assert score.full or told in ([], [HALF[0]]), score.message
    assert not told or score.diagnosis is None


@EVERY
def test_what_is_off_at_random_has_no_name(part, monkeypatch):
    monkeypatch.setattr(two_slips, "WORK", 0)  # pairs take long, and have tests of their own
    score = changed(part, noisy)
    assert not any(words in score.message for words in HALF)
    assert score.diagnosis is None or (part.exercise, score.diagnosis) in TRUE_OF_NOISE, score.message
    assert "this slip" not in score.message
