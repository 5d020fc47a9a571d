"""A small grammar of little stories, and how much of them is chance: the floor of every loss curve in this unit.

    Ada Stone meets Leo Hill . Leo Hill sees two dogs ( old [ grey ] ) that sleep . so says Ada Stone

To predict the next word well, a model must look back: the verb agrees with a noun several words before it, brackets close in the order in
which they were opened, a surname follows its first name, and the story ends with the name it began with. What is left is chance, and
the grammar says how much: every choice is a uniform draw from a short list.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

FIRST = ("Ada", "Ben", "Eva", "Leo", "Mia", "Tom")
LAST = ("Brook", "Field", "Hill", "Lake", "Stone", "Wood")
NOUNS = {
    "one": ("bird", "cat", "dog", "fox", "horse", "mouse"),
    "two": ("birds", "cats", "dogs", "foxes", "horses", "mice"),
}
VERBS = {
    "one": ("hides", "jumps", "runs", "sings", "sleeps", "waits"),
    "two": ("hide", "jump", "run", "sing", "sleep", "wait"),
}
ADJECTIVES = ("brown", "grey", "happy", "old", "quiet", "small")
CLOSES = {"(": ")", "[": "]"}
DEEPEST, MOST = 3, 3  # brackets within brackets; sentences in a story
VOCABULARY = (
    "<end>", ".", "meets", "sees", "that", "so", "says", *CLOSES, *CLOSES.values(), *NOUNS, *FIRST, *LAST,
    *NOUNS["one"], *NOUNS["two"], *VERBS["one"], *VERBS["two"], *ADJECTIVES,
)  # fmt: skip
END, IGNORED = 0, -100  # the token at both edges of a story; a target that costs nothing
NUMBER = {word: number for number, word in enumerate(VOCABULARY)}
Choose = Callable[[Sequence[str]], str]


def _story(choose: Choose) -> Iterator[str]:
    """The words of one story. `choose` picks the next word from a list: each place in it is equally likely."""
    first = choose(FIRST)
    yield first
    surname = choose(LAST)
    yield from (surname, "meets")
    other = choose([name for name in FIRST if name != first])
    yield other
    surnames = {first: surname, other: choose([name for name in LAST if name != surname])}
    yield from (surnames[other], ".")
    word = choose((first, other))
    for sentence in range(MOST):
        yield from (word, surnames[word], "sees")
        yield from _thing(choose)
        word = choose((first, other, "so")) if sentence < MOST - 1 else "so"
        if word == "so":
            break
    yield from ("so", "says", first, surname)


def _thing(choose: Choose) -> Iterator[str]:
    """One dog or two dogs, something about them in brackets or not, and what they do."""
    number = choose(tuple(NOUNS))
    yield number
    yield choose(NOUNS[number])
    word = choose(("that", *CLOSES))
    if word in CLOSES:
        yield word
        yield from _inside(choose, CLOSES[word], depth=1)
    yield "that"
    yield choose(VERBS[number])
    yield "."


def _inside(choose: Choose, closing: str, depth: int) -> Iterator[str]:
    """After an opening bracket: an adjective, a bracket within the bracket or not, and the closing bracket that fits."""
    yield choose(ADJECTIVES)
    word = choose((closing, closing, *CLOSES)) if depth < DEEPEST else closing
    if word in CLOSES:
        yield word
        yield from _inside(choose, CLOSES[word], depth + 1)
    yield closing


def story(chance: random.Random) -> list[str]:
    """The words of one story, without the end token."""
    return list(_story(chance.choice))


def surprises(words: Sequence[str]) -> list[float]:
    """−log p in nats of each word of a story and of the end token after it, given the words before: 0 where nothing is left to chance.

    ValueError if the grammar can't make these words.
    """
    found: list[float] = []
    nats, place = 0.0, 0

    def choose(options: Sequence[str]) -> str:
        nonlocal nats
        word = words[place] if place < len(words) else ""
        if word not in options:
            raise ValueError(f"word {place + 1}, {word!r}, is none of {', '.join(dict.fromkeys(options))}.")
        nats += math.log(len(options) / list(options).count(word))
        return word

    made = _story(choose)
    for place, word in enumerate(words):  # noqa: B007 (`choose` reads the place)
        expected = next(made, None)
        if expected != word:
            raise ValueError(f"word {place + 1} is {word!r} where only {expected!r} can stand.")
        found.append(nats)
        nats = 0.0
    if next(made, None) is not None:
        raise ValueError("the story ends too early.")
    return [*found, 0.0]


def is_story(words: Sequence[str]) -> bool:
    """Whether the grammar can make these words."""
    try:
        return bool(surprises(words))
    except ValueError:
        return False


def expected_nats_and_tokens() -> tuple[float, float]:
    """Of a story: the mean of its choices' entropies, and of its length in tokens, with the end token."""
    sentences = sum((2 / 3) ** index for index in range(MOST))  # a story goes on with probability 2/3
    log, aside = math.log, _inside_nats_and_tokens(1)
    thing = (log(2) + log(6) + log(3) + 2 / 3 * aside[0] + log(6), 5 + 2 / 3 * (1 + aside[1]))
    goes_on = sum((2 / 3) ** index for index in range(MOST - 1)) * log(3)  # another sentence, about whom, or the end
    nats = 2 * log(6) + 2 * log(5) + log(2) + goes_on + sentences * thing[0]
    return nats, 6 + sentences * (3 + thing[1]) + 5


def _inside_nats_and_tokens(depth: int) -> tuple[float, float]:
    """The same for what follows an opening bracket."""
    if depth == DEEPEST:
        return math.log(6), 2.0
    nats, tokens = _inside_nats_and_tokens(depth + 1)
    return math.log(6) + 1.5 * math.log(2) + nats / 2, 2 + (1 + tokens) / 2


def entropy_per_token() -> float:
    """The entropy rate in nats: the expected surprise of a story over its expected length. No model that sees only the past gets below it."""
    nats, tokens = expected_nats_and_tokens()
    return nats / tokens


def batch(size: int, chance: random.Random) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """`size` new stories. Inputs: <end> and the words; targets: the words and <end>, then −100."""
    rows = [[NUMBER[word] for word in story(chance)] for _ in range(size)]
    n = max(map(len, rows)) + 1
    inputs, targets = torch.full((size, n), END), torch.full((size, n), IGNORED)
    for number, row in enumerate(rows):
        inputs[number, 1 : len(row) + 1] = torch.tensor(row)
        targets[number, : len(row) + 1] = torch.tensor([*row, END])
    return inputs, targets


def words(tokens: Sequence[int]) -> list[str]:
    """The words of a story up to its end, for reading."""
    found = [VOCABULARY[token] for token in tokens]
    return found[: found.index("<end>")] if "<end>" in found else found
