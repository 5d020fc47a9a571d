"""Two tasks whose right alignment is known: strings to reverse, and English sentences to put into Esperanto.

Esperanto is regular: -o ends a noun, -a an adjective, -j marks the plural, -n the object, -as the present, -is the
past, and an adjective takes the endings of its noun. Its word order is free; here the adjective follows its noun and
the verb comes last, so that words must move.
"""

import random
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from .model import END, PAD, START

SPECIAL = ("<pad>", "<start>", "<end>")


def strings(b: int, longest: int, letters: int, generator: Generator, shortest: int = 1) -> Int[Tensor, "b longest"]:
    """Random strings of the tokens 3 … letters + 2, of random lengths; PAD behind the shorter ones."""
    drawn = torch.randint(3, letters + 3, (b, longest), generator=generator)
    lengths = torch.randint(shortest, longest + 1, (b, 1), generator=generator)
    return drawn.masked_fill(torch.arange(longest) >= lengths, PAD)


def reversed_strings(tokens: Int[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    """Each string backwards; its padding stays behind it."""
    lengths = (tokens != PAD).sum(dim=1, keepdim=True)
    places = lengths - 1 - torch.arange(tokens.shape[1])
    return tokens.gather(1, places.clamp_min(0)).masked_fill(places < 0, PAD)


# --------------------------------------------------------------------------------------------------------- translation

NOUNS = {"cat": "kat", "dog": "hund", "bird": "bird", "fox": "vulp", "girl": "knabin", "poet": "poet"}
PLURALS = {noun: noun + ("es" if noun == "fox" else "s") for noun in NOUNS}
ADJECTIVES = {"old": "maljun", "small": "malgrand", "happy": "feliĉ", "quiet": "kviet"}
VERBS = {
    "see": ("saw", "vid"),
    "follow": ("followed", "sekv"),
    "hear": ("heard", "aŭd"),
    "like": ("liked", "ŝat"),
    "paint": ("painted", "pentr"),
}

ENGLISH = (
    *SPECIAL,
    "the",
    "a",
    *ADJECTIVES,
    *NOUNS,
    *PLURALS.values(),
    *(form for verb, (past, _) in VERBS.items() for form in (verb, f"{verb}s", past)),
)
ESPERANTO = (
    *SPECIAL,
    "la",
    *(f"{root}{ending}" for root in ADJECTIVES.values() for ending in ("a", "aj", "an", "ajn")),
    *(f"{root}{ending}" for root in NOUNS.values() for ending in ("o", "oj", "on", "ojn")),
    *(f"{root}{ending}" for _, root in VERBS.values() for ending in ("as", "is")),
)
LONGEST = 7  # words of the longest sentence: the old cats followed the small dog


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation. sources: for each word of the translation, the places of the words that decide
    it, the one that it translates first."""

    english: tuple[str, ...]
    esperanto: tuple[str, ...]
    sources: tuple[tuple[int, ...], ...]


def pair(chance: random.Random) -> Pair:
    """Subject, verb, object; every choice is a fair draw. 144,000 sentences are possible."""
    plural = chance.random() < 0.5
    verb, past = chance.choice(list(VERBS)), chance.random() < 0.5
    subject = _thing(chance, plural, "", start=0)
    place = len(subject.english)  # of the verb
    thing = _thing(chance, chance.random() < 0.5, "n", start=place + 1)
    form = VERBS[verb][0] if past else verb if plural else f"{verb}s"
    written = VERBS[verb][1] + ("is" if past else "as")
    return Pair(
        (*subject.english, form, *thing.english),
        (*subject.esperanto, *thing.esperanto, written),
        (*subject.sources, *thing.sources, (place,)),
    )


def _thing(chance: random.Random, plural: bool, case: str, start: int) -> Pair:
    """(determiner) (adjective) noun → (la) noun (adjective), with the endings of number and case."""
    definite, adjective = chance.random() < 0.5, chance.choice((None, *ADJECTIVES))
    noun = chance.choice(list(NOUNS))
    english = ["the"] if definite else [] if plural else ["a"]
    adjective_place = start + len(english)
    english += [adjective] if adjective else []
    noun_place = start + len(english)
    ending = ("j" if plural else "") + case
    esperanto = [*["la"] * definite, f"{NOUNS[noun]}o{ending}"]
    sources: list[tuple[int, ...]] = [*[(start,)] * definite, (noun_place,)]
    if adjective:
        esperanto.append(f"{ADJECTIVES[adjective]}a{ending}")
        sources.append((adjective_place, noun_place))  # its root from one word, its ending from the other
    return Pair((*english, PLURALS[noun] if plural else noun), tuple(esperanto), tuple(sources))


def numbered(sentences: list[tuple[str, ...]], vocabulary: tuple[str, ...]) -> Int[Tensor, "b n"]:
    """Words as tokens, a sentence a row, PAD behind the shorter ones."""
    rows = torch.full((len(sentences), max(map(len, sentences))), PAD)
    for row, words in zip(rows, sentences, strict=True):
        row[: len(words)] = torch.tensor([vocabulary.index(word) for word in words])
    return rows


def words(tokens: Int[Tensor, "n"], vocabulary: tuple[str, ...]) -> list[str]:
    """The words up to the end token, which is left out like the start and the padding."""
    found = tokens.tolist()
    found = found[: found.index(END)] if END in found else found
    return [vocabulary[token] for token in found if token not in (PAD, START)]
