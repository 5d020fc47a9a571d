"""The end of unit 08: the story model on a student's parts, what is counted, what is said where a part isn't right."""

import math

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from helpers import plots
from helpers.kv_cache.cache import KVCache
from helpers.kv_cache.decoding import decode_step, generate_cached
from helpers.kv_cache.generation import CountedModel, generate_without_cache
from helpers.transformer_lm.course_writer import course_writer
from helpers.transformer_lm.story_teller import story_teller

matplotlib.use("Agg")
PROMPTS = ["Ada Stone meets", "Tom Lake meets"]


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


def story_model(step=decode_step, new_cache=KVCache, trained=story_teller):
    """As the notebook builds it, around this step and this cache."""
    lm, vocabulary = trained()
    h, d_h = lm.config.h, lm.config.d_h

    def model(tokens, start, cache):
        none = torch.zeros(len(tokens), h, 0, d_h)
        cache = cache or [(new_cache(len(tokens), h, 128, d_h), none, none) for _ in lm.blocks]
        x, filled = lm.embedding(tokens) * math.sqrt(lm.config.d), []
        for block, (room, keys, values) in zip(lm.blocks, cache):
            layer = block.attention
            weights = (linear.weight.T for linear in (layer.w_q, layer.w_k, layer.w_v, layer.w_o))
            out, keys, values = step(block.norm_1(x), keys, values, *weights)
            filled.append((room, *room.append(keys[:, :, start:], values[:, :, start:])))
            x = x + out
            x = x + block.mlp(block.norm_2(x))
        return lm.norm(x) @ lm.embedding.weight.T, filled

    return model, lm, vocabulary


def tell(generate=generate_cached, n=20, **parts):
    model, lm, vocabulary = story_model(**parts)
    plots.tell_stories(model, generate, lm, vocabulary, PROMPTS, n)


def test_the_layers_put_together_are_the_model():
    model, lm, vocabulary = story_model()
    tokens = torch.randint(len(vocabulary), (3, 11))
    torch.testing.assert_close(model(tokens, 0, None)[0], lm(tokens), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("p, n", [(4, 60), (1, 1), (7, 3)])
def test_positions_are_those_that_the_text_says(p, n):
    model, _, vocabulary = story_model()
    prompt = torch.randint(len(vocabulary), (2, p))
    with_cache, without = CountedModel(model), CountedModel(model)
    assert torch.equal(generate_cached(with_cache, prompt, n), generate_without_cache(without, prompt, n))
    assert with_cache.positions == 2 * (p + n - 1)
    assert without.positions == 2 * sum(range(p, p + n))


def test_right_parts_tell_the_same_story_twice(capsys):
    tell()
    assert plt.get_fignums()
    out = capsys.readouterr().out
    assert "the same 40 words" in out and out.startswith("Ada Stone meets ")


def test_the_model_that_writes_english_has_the_same_cache(capsys):
    model, lm, characters = story_model(trained=course_writer)
    plots.tell_stories(model, generate_cached, lm, characters, ["Attention is a "], 30)
    out = capsys.readouterr().out
    assert out.startswith("Attention is a ") and "the same 30 characters" in out


def unscaled(x, *rest):
    return decode_step(5 * x, *rest)


def forgetful(model, prompt, n):
    return generate_cached(lambda tokens, start, cache: model(tokens, 0, None), prompt, n)


class NoRoom(KVCache):
    def append(self, k, v):
        raise ValueError("full")


@pytest.mark.parametrize(
    "parts, words",
    [
        ({"step": unscaled}, "Written without a cache, the words are not those of the model."),
        ({"generate": forgetful}, "Written with your cache, the words are not those of the model."),
        ({"new_cache": NoRoom}, "your parts stop with an error: ValueError: full"),
    ],
)
def test_a_part_that_is_not_right_yet_is_said_in_one_line(parts, words, capsys):
    tell(**parts)
    out = capsys.readouterr().out
    assert words in out and out.count("\n") == 1 and not plt.get_fignums()


def test_an_unsolved_part_is_waited_for(capsys):
    def unsolved(*_):
        raise NotImplementedError

    tell(step=unsolved)
    assert "needs your answer to exercises 8.4 (The cache)" in capsys.readouterr().out
