"""A trained model that the course ships: it writes the stories of unit 05, and later units just run it.

The file beside this one holds the weights in 16 bits and the words that the tokens stand for. `story_teller` among the
benchmarks makes it.
"""

from pathlib import Path

import numpy as np
import torch

from .transformer import Config, DecoderLM

WEIGHTS = Path(__file__).with_name("story_teller.npz")
WORDS, HEADS = "vocabulary", "heads"  # what the file holds beside the weights


def story_teller(path: Path = WEIGHTS) -> tuple[DecoderLM, tuple[str, ...]]:
    """The trained model, in float32 and without gradients, and its vocabulary: token t is word number t. Token 0 begins
    and ends a story."""
    with np.load(path, allow_pickle=False) as file:
        weights = {name: torch.from_numpy(file[name]).float() for name in file.files if name not in (WORDS, HEADS)}
        vocabulary, heads = tuple(file[WORDS].tolist()), int(file[HEADS])
    d, layers = weights["norm.weight"].numel(), len({name.split(".")[1] for name in weights if "blocks" in name})
    model = DecoderLM(Config(len(vocabulary), d, h=heads, h_kv=heads, layers=layers))
    model.load_state_dict(weights)
    return model.requires_grad_(False), vocabulary


def save(model: DecoderLM, vocabulary: tuple[str, ...], path: Path = WEIGHTS) -> None:
    """Write what `story_teller` reads: arrays only, nothing that would run on loading."""
    weights = {name: value.cpu().half().numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(path, **weights, **{WORDS: np.array(vocabulary), HEADS: np.array(model.config.h)})
