"""A tiny Transformer and a tiny grammar: what a language model learns with a causal mask, and what it learns without.

Small enough to train in seconds on a CPU. The grammar's entropy is known, so the loss of an honest model has a floor.
"""

import math
import random
import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.waiting import waiting

DETERMINERS, ADJECTIVES = ("the", "a"), ("old", "small", "happy", "quiet")
NOUNS, VERBS = ("cat", "dog", "bird", "fox", "girl", "poet"), ("sees", "follows", "hears", "likes", "paints")
VOCABULARY = ("<end>", *DETERMINERS, *ADJECTIVES, *NOUNS, *VERBS, ".")
END, LONGEST = 0, 8  # the end token; words in the longest sentence

_SLOT = "({}) (({}) )?({})".format(*map("|".join, (DETERMINERS, ADJECTIVES, NOUNS)))
_SENTENCE = re.compile(f"{_SLOT} ({'|'.join(VERBS)}) {_SLOT} \\.")


def sentence(chance: random.Random) -> list[str]:
    """determiner (adjective) noun verb determiner (adjective) noun "."; every choice is a fair draw."""

    def thing() -> list[str]:
        adjective = [chance.choice(ADJECTIVES)] if chance.random() < 0.5 else []
        return [chance.choice(DETERMINERS), *adjective, chance.choice(NOUNS)]

    return [*thing(), chance.choice(VERBS), *thing(), "."]


def is_sentence(words: list[str]) -> bool:
    """Whether the grammar can make these words."""
    return _SENTENCE.fullmatch(" ".join(words)) is not None


def entropy_per_token() -> float:
    """Nats of real choice per token, the end token counted: no model that sees only the past can get below it."""
    thing = math.log(len(DETERMINERS)) + math.log(2) + 0.5 * math.log(len(ADJECTIVES)) + math.log(len(NOUNS))
    return (2 * thing + math.log(len(VERBS))) / (2 * 2.5 + 3)


def batch(size: int, chance: random.Random) -> tuple[Tensor, Tensor]:
    """Inputs and targets (size, 9): <end> and the words; the words and <end>, then −100."""
    inputs, targets = torch.zeros(size, LONGEST + 1, dtype=torch.long), torch.full((size, LONGEST + 1), -100)
    for row in range(size):
        words = torch.tensor([VOCABULARY.index(word) for word in sentence(chance)])
        inputs[row, 1 : len(words) + 1], targets[row, : len(words)], targets[row, len(words)] = words, words, END
    return inputs, targets


class TinyTransformer(nn.Module):
    """Two layers of one-head attention, each followed by a small network; `causal` says whether there is a mask."""

    def __init__(self, causal: bool, d: int = 32, layers: int = 2):
        super().__init__()
        self.causal = causal
        self.token, self.position = nn.Embedding(len(VOCABULARY), d), nn.Embedding(2 * LONGEST, d)
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(layers)
        )
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers + 1))
        self.head = nn.Linear(d, len(VOCABULARY))

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits (b, n, vocabulary) and the attention weights (b, n, n) of every layer."""
        n, maps = tokens.shape[1], []
        x = self.token(tokens) + self.position(torch.arange(n))
        hidden = ~torch.ones(n, n, dtype=torch.bool).tril() if self.causal else torch.zeros(n, n, dtype=torch.bool)
        for layer, (qkv, mlp) in enumerate(zip(self.qkv, self.mlp)):
            q, k, v = qkv(self.norm[2 * layer](x)).chunk(3, dim=-1)
            maps.append((q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf).softmax(-1))
            x = x + maps[-1] @ v
            x = x + mlp(self.norm[2 * layer + 1](x))
        return self.head(self.norm[-1](x)), maps


@dataclass
class Trained:
    """A trained model and its loss at every step."""

    model: TinyTransformer
    losses: list[float]


def train(causal: bool, steps: int = 300, size: int = 32, seed: int = 0) -> Trained:
    """The same model, data, order and steps, with or without the mask. About a second on a CPU."""
    torch.manual_seed(seed)
    chance, trained = random.Random(seed), Trained(TinyTransformer(causal), [])
    optimiser = torch.optim.AdamW(trained.model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in waiting(range(steps), steps, "with mask" if causal else "without mask"):
        inputs, targets = batch(size, chance)
        loss = F.cross_entropy(trained.model(inputs)[0].flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        trained.losses.append(loss.item())
    return trained


@torch.no_grad()
def generate(model: TinyTransformer, seed: int = 0) -> list[str]:
    """One sentence, word by word, each drawn from what the model predicts after the words so far."""
    generator, tokens = torch.Generator().manual_seed(seed), [END]
    while len(tokens) < 2 * LONGEST:
        logits = model(torch.tensor([tokens]))[0][0, -1]
        tokens.append(int(torch.multinomial(logits.softmax(-1), 1, generator=generator)))
        if tokens[-1] == END:
            break
    return [VOCABULARY[token] for token in tokens[1:] if token != END]
