"""A trained model that ships with the course and writes like it, character by character, and the text it has read.

The text is a snapshot of the notebooks' prose (CC BY 4.0, see LICENSE), a paragraph a line. It is as old as the weights
and stays so: a notebook may say something else today. `course_text` and `train_course_writer` among the benchmarks make
the two files.
"""

import gzip
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from .sampling import generate, next_token_probabilities
from .story_teller import story_teller
from .transformer import Config, DecoderLM

TEXT, WEIGHTS = (Path(__file__).with_name(name) for name in ("course_text.txt.gz", "course_writer.npz"))
CONTEXT = 128  # characters that the model reads
HELD_OUT = 10  # every tenth paragraph is kept from training
STEPS, PEAK, SIZE, SEED = 1_600, 4e-3, 16, 0


def course_writer() -> tuple[DecoderLM, str]:
    """The trained model, in float32 and without gradients, and its alphabet: token t is character number t."""
    model, characters = story_teller(WEIGHTS)
    return model, "".join(characters)


def untrained() -> DecoderLM:
    """The same model before training: as wide and as deep as fits into 1 MB."""
    torch.manual_seed(SEED)
    return DecoderLM(Config(len(alphabet()), d=96, h=4, h_kv=4, layers=4))


def course_text(held_out: bool) -> str:
    """What training has read, or the paragraphs that were kept from it."""
    lines = gzip.decompress(TEXT.read_bytes()).decode().splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines, start=1) if (number % HELD_OUT == 0) == held_out)


def alphabet() -> str:
    """The characters of the text, in order."""
    return "".join(sorted(set(course_text(False) + course_text(True))))


def encode(text: str, characters: str) -> Int[Tensor, "n"]:
    """Tokens. What isn't among the characters is left out."""
    return torch.tensor([characters.index(one) for one in text if one in characters], dtype=torch.long)


def decode(tokens: Int[Tensor, "n"], characters: str) -> str:
    """The text of tokens."""
    return "".join(characters[token] for token in tokens.tolist())


def batches() -> Iterator[tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]]:
    """Pieces of the text without end, from random places: inputs, and targets one character on."""
    tokens, generator = encode(course_text(False), alphabet()), torch.Generator().manual_seed(SEED)
    while True:
        starts = torch.randint(len(tokens) - CONTEXT, (SIZE, 1), generator=generator)
        pieces = tokens[starts + torch.arange(CONTEXT + 1)]
        yield pieces[:, :-1], pieces[:, 1:]


@torch.no_grad()
def bits(model: Callable, characters: str, text: str) -> tuple[float, float, float]:
    """−log₂ p of a character: the mean of all, of the letters that begin a word, and of those within one. Each has half
    a context or more before it."""
    pieces = encode(text, characters).unfold(0, CONTEXT + 1, CONTEXT // 2)
    logits = model(pieces[:, :-1])[:, CONTEXT // 2 :]
    before, targets = pieces[:, CONTEXT // 2 : -1], pieces[:, CONTEXT // 2 + 1 :]
    found = F.cross_entropy(logits.mT, targets, reduction="none") / math.log(2)
    letters = torch.tensor([one.isalpha() for one in characters])
    begins, within = letters[targets] & ~letters[before], letters[targets] & letters[before]
    return found.mean().item(), found[begins].mean().item(), found[within].mean().item()


def sample(model: Callable, characters: str, prompt: str, n: int) -> str:
    """n characters that go on with the prompt, drawn at temperature 0.7 and top-p 0.95."""
    choose = lambda logits: torch.multinomial(next_token_probabilities(logits, 0.7, None, 0.95), 1)[:, 0]
    return decode(generate(model, encode(prompt, characters)[None], n, CONTEXT, choose)[0], characters)
