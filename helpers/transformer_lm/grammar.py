"""A small grammar of little stories, and how much of them is chance: the floor of every loss curve in this unit.

    Ada Stone meets Leo Hill . Leo Hill sees two dogs ( old [ grey ] ) that hop left left right left right right right
    left again left left right left right right right left . so say Ada Stone and Leo Hill

To predict the next word well, a model must look back: the verb agrees with a noun several words before it, the bracket
that was opened last closes first, a surname follows its first name, a dance is danced again step by step, and the story
ends with the names it began with. What is left is chance, and the grammar says how much: every choice is a uniform draw
from a short list.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

FIRST = ("Ada", "Eva", "Leo", "Tom")
LAST = ("Brook", "Field", "Hill", "Lake", "Stone", "Wood")
NOUNS = {
    "one": ("bird", "cat", "dog", "fox", "horse", "mouse"),
    "two": ("birds", "cats", "dogs", "foxes", "horses", "mice"),
}
VERBS = {
    "one": ("dances", "hops", "jumps", "runs", "skips", "walks"),
    "two": ("dance", "hop", "jump", "run", "skip", "walk"),
}
STEPS = ("left", "right")
ADJECTIVES = ("brown", "grey", "happy", "old", "quiet", "small")
CLOSES = {"(": ")", "[": "]"}
DEEPEST, MOST, DANCE = 2, 2, 8  # brackets within brackets; sentences in a story; steps of a dance
VOCABULARY = (
    "<end>",
    ".",
    "meets",
    "sees",
    "that",
    "again",
    "so",
    "say",
    "and",
    *CLOSES,
    *CLOSES.values(),
    *NOUNS,
    *FIRST,
    *LAST,
    *NOUNS["one"],
    *NOUNS["two"],
    *VERBS["one"],
    *VERBS["two"],
    *STEPS,
    *ADJECTIVES,
)
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
    yield from ("so", "say", first, surname, "and", other, surnames[other])


def _thing(choose: Choose) -> Iterator[str]:
    """One dog or two dogs, something about them in brackets or not, how they move, and their steps, twice."""
    number = choose(tuple(NOUNS))
    yield number
    yield choose(NOUNS[number])
    word = choose(("that", *CLOSES))
    if word in CLOSES:
        yield word
        yield from _inside(choose, CLOSES[word], depth=1)
    yield "that"
    yield choose(VERBS[number])
    dance = []
    for _ in range(DANCE):
        dance.append(choose(STEPS))
        yield dance[-1]
    yield from ("again", *dance, ".")


def _inside(choose: Choose, closing: str, depth: int) -> Iterator[str]:
    """After an opening bracket: an adjective, a bracket within it or not, and the closing bracket that fits."""
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
    """−log p in nats of each word of a story and of the end token after it, given the words before: 0 where nothing is
    left to chance.

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


def kinds(words: Sequence[str]) -> list[str]:
    """Of what kind the place of each word of a story is, and that of the end token after it.

    What has come before decides, never the word itself: so no model that sees only the past gets below the floor of a
    kind either.
    """
    return [_kind(words[:place]) for place in range(len(words) + 1)]


def _kind(before: Sequence[str]) -> str:
    last = before[-1] if before else "."
    sentence = before[max((place for place, word in enumerate(before) if word == "."), default=-1) + 1 :]
    danced_again = sentence[sentence.index("again") + 1 :] if "again" in sentence else None
    inside = sum((word in CLOSES) - (word in CLOSES.values()) for word in sentence) > 0
    if last in before[:-1] and last in FIRST or last in ("say", "and"):
        return "a name again"
    if last == "that":
        return "a verb"
    if inside and last not in CLOSES:
        return "a bracket"
    return "a step again" if danced_again is not None and len(danced_again) < DANCE else "the rest"


def expected_by_kind() -> dict[str, tuple[float, float]]:
    """For each kind of place, of a story: the mean of its choices' entropies in nats, and of their number."""
    log, sentences = math.log, sum((2 / 3) ** index for index in range(MOST))  # a story goes on with probability 2/3
    goes_on = sum((2 / 3) ** index for index in range(MOST - 1)) * log(3)  # another sentence, about whom, or the end
    names = log(len(FIRST) * (len(FIRST) - 1)) + log(len(LAST) * (len(LAST) - 1)) + log(2)  # whose they are, who sees
    nats, places, adjectives = (2 / 3 * mean for mean in _brackets(1))
    number_noun_bracket = log(2) + log(6) + log(3)
    rest = number_noun_bracket + adjectives * log(6) + DANCE * log(len(STEPS))
    return {
        "a name again": (0.0, sentences + 4),
        "a step again": (0.0, sentences * DANCE),
        "a bracket": (sentences * nats, sentences * places),
        "a verb": (sentences * log(6), sentences),
        "the rest": (names + goes_on + sentences * rest, 10 + sentences * (7 + 2 / 3 + adjectives + DANCE)),
    }


def _brackets(depth: int) -> tuple[float, float, float]:
    """After an opening bracket: nats and number of the places where one may close, and of adjectives. All are means."""
    if depth == DEEPEST:
        return 0.0, 1.0, 1.0
    nats, places, adjectives = _brackets(depth + 1)
    return 1.5 * math.log(2) + nats / 2, 1 + (places + 1) / 2, 1 + adjectives / 2


def expected_nats_and_tokens() -> tuple[float, float]:
    """Of a story: the mean of its choices' entropies, and of its length in tokens, with the end token."""
    nats, tokens = zip(*expected_by_kind().values())
    return sum(nats), sum(tokens)


def entropy_per_token() -> float:
    """The entropy rate in nats: the expected surprise of a story over its expected length. No model that sees only the
    past gets below it."""
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
