"""The trained model that ships with the course: it is small, loads without the grammar, and tells its stories."""

import subprocess
import sys

import pytest
import torch

from helpers.kv_cache.generation import generate_without_cache
from helpers.transformer_lm import grammar, story_teller
from helpers.transformer_lm.transformer import Config, DecoderLM


def told(first: str, surname: str) -> list[str]:
    """The story that goes on with "Ada Stone meets", word by word the likeliest, up to its end."""
    model, vocabulary = story_teller.story_teller()
    prompt = torch.tensor([[0, *map(vocabulary.index, (first, surname, "meets"))]])
    row = generate_without_cache(lambda tokens, *_: (model(tokens), None), prompt, 76)[0].tolist()
    return [first, surname, "meets", *(vocabulary[token] for token in row[: row.index(0)])]


def test_its_file_is_small_and_carries_its_own_words():
    assert story_teller.WEIGHTS.stat().st_size < 500_000
    model, vocabulary = story_teller.story_teller()
    assert len(vocabulary) == model.config.vocabulary == len(set(vocabulary))
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_it_loads_without_the_grammar():
    code = (
        "import sys; from helpers.transformer_lm.story_teller import story_teller; story_teller(); "
        "sys.exit(any('grammar' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", [("Ada", "Stone"), ("Eva", "Lake"), ("Tom", "Field")])
def test_its_stories_are_stories_of_the_grammar(name):
    assert grammar.is_story(told(*name))


def test_what_is_saved_comes_back(tmp_path):
    model = DecoderLM(Config(vocabulary=7, d=12, h=3, h_kv=3, layers=2))
    story_teller.save(model, tuple("abcdefg"), tmp_path / "model.npz")
    again, vocabulary = story_teller.story_teller(tmp_path / "model.npz")
    tokens = torch.tensor([[0, 3, 6, 2]])
    torch.testing.assert_close(again(tokens), model(tokens), rtol=1e-2, atol=1e-2)  # 16 bits
    assert vocabulary == tuple("abcdefg") and again.config == model.config
