"""Answers that are more alike than a class's usually are: winnowing (Schleimer, Wilkerson, Aiken, SIGMOD 2003) over the
tokens of the code. Names, strings and numbers count as their kind alone. What the released notebook, the solution or a
right alternative has too counts for nothing, and neither does what many students have."""

import hashlib
import io
import keyword
import token
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

GRAM, WINDOW = 12, 4
"""Tokens of a fingerprint; of so many neighbours the least is kept. Whatever GRAM + WINDOW - 1 tokens two share is
found."""
COMMON = 0.1
"""A fingerprint that more of the class have is taken for a way in which one writes it."""
BETWEEN = "\n\f\n"
"""What stands between the cells of an answer."""
LEAST_SHARED, LEAST_SHARE = 8, 0.5
MOST_PAIRS = 20
_LEFT_OUT = {token.COMMENT, token.NL, token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER, token.ENCODING}
_KINDS = {token.STRING: "S", token.NUMBER: "N"}


@dataclass(frozen=True)
class Pair:
    """Two students, what they share of the rarer fingerprints of the shorter answer (0 … 1), and how many that are."""

    first: str
    second: str
    share: float
    shared: int


def similar_pairs(answers: dict[str, str], known: Iterable[str]) -> list[Pair]:
    """The pairs of students, the most alike first. answers: student → code; known: code that everybody may have."""
    usual = {gram for code in known for gram in _grams(code)}  # all of them: which are kept depends on their neighbours
    found = {student: fingerprints(code) - usual for student, code in answers.items()}
    holders = Counter(print_ for prints in found.values() for print_ in prints)
    most = max(2, COMMON * len(answers))
    rare = {student: {one for one in prints if holders[one] <= most} for student, prints in found.items()}
    together: Counter[tuple[str, str]] = Counter()
    for group in _holders(rare).values():
        together.update(combinations(sorted(group), 2))
    made = [Pair(a, b, shared / min(len(rare[a]), len(rare[b])), shared) for (a, b), shared in together.items()]
    alike = [one for one in made if one.shared >= LEAST_SHARED and one.share >= LEAST_SHARE]
    return sorted(alike, key=lambda one: (-one.share, -one.shared, one.first, one.second))


def identical_groups(texts: dict[str, str], known: Iterable[str], least: int = 60) -> list[list[str]]:
    """Groups of students whose text is the same but for white space, and has at least `least` characters."""
    usual, groups = {"".join(text.split()) for text in known}, defaultdict(list)
    for student, text in sorted(texts.items()):
        plain = "".join(text.split())
        if len(plain) >= least and plain not in usual:
            groups[plain].append(student)
    return sorted((group for group in groups.values() if len(group) > 1), key=lambda group: (-len(group), group))


def fingerprints(code: str) -> set[int]:
    """The winnowed hashes of a piece of code; what is no Python any more is read as far as it goes."""
    kept: set[int] = set()
    for cell in code.split(BETWEEN):
        grams = _grams(cell)
        kept |= {min(grams[i : i + WINDOW]) for i in range(max(1, len(grams) - WINDOW + 1))} if grams else set()
    return kept


def _grams(code: str) -> list[int]:
    """The hash of every passage of GRAM tokens; none reaches over the end of a cell."""
    cells = map(_words, code.split(BETWEEN))
    return [_hash(words[i : i + GRAM]) for words in cells for i in range(len(words) - GRAM + 1)]


def _words(code: str) -> list[str]:
    words = []
    try:
        for one in tokenize.generate_tokens(io.StringIO(code).readline):
            if one.type == token.NAME and not keyword.iskeyword(one.string):
                words.append("V")
            elif one.type not in _LEFT_OUT:
                words.append(_KINDS.get(one.type, one.string))
    except (tokenize.TokenError, SyntaxError):
        pass
    return words


def _hash(words: list[str]) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest(), "big")


def _holders(rare: dict[str, set[int]]) -> dict[int, list[str]]:
    found = defaultdict(list)
    for student, prints in rare.items():
        for one in prints:
            found[one].append(student)
    return found
