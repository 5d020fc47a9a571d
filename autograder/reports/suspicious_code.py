"""Code that reaches for more than an exercise needs: Python's own insides, other processes, the network, the checks
themselves. What it tries fails in the sandbox, or finds nothing; a teacher may want to know. It is read and never
run."""

import io
import re
import token
import tokenize
from collections.abc import Iterable, Iterator

WORDS = {
    *("ctypes", "gc", "importlib", "inspect", "marshal", "multiprocessing", "pickle", "signal", "socket", "subprocess"),
    *("_getframe", "eval", "exec", "get_ipython", "globals", "settrace", "setprofile"),
    *("__builtins__", "__closure__", "__code__", "__globals__", "__mro__", "__subclasses__"),
}
CHECKS = {"check", "helpers"}
_LEFT_OUT = {token.COMMENT, token.NL, token.INDENT, token.DEDENT, token.ENCODING}


def suspicious_lines(code: str, known: Iterable[str] = ()) -> list[str]:
    """The lines that use one of the words, or write into the checks. known: lines that everybody was given."""
    usual, found = {_plain(line) for line in known}, {}
    for row, words in _rows(code):
        if _uses_a_word(words) or _writes_into_checks(words):
            found[row] = None
    texts = code.splitlines()
    return [texts[row - 1].strip() for row in found if row <= len(texts) and _plain(texts[row - 1]) not in usual]


def _uses_a_word(words: list[str]) -> bool:
    """`model.eval()` is another thing than `eval(…)`; behind a dot only what begins with an underscore counts."""
    return any(
        word in WORDS and (word[0] == "_" or before != ".") for before, word in zip(["", *words], words, strict=False)
    )


def _writes_into_checks(words: list[str]) -> bool:
    """`check.x = …`, `setattr(helpers.check, …)`."""
    if "setattr" in words or "delattr" in words:
        return bool(CHECKS.intersection(words))
    before = words[: words.index("=")] if "=" in words else []
    return len(before) > 2 and before[0] in CHECKS and before[1] == "." and "(" not in before


def _rows(code: str) -> Iterator[tuple[int, list[str]]]:
    """Logical lines: where each begins, and its words; what is no Python any more is read as far as it goes."""
    words: list[str] = []
    start = 1
    try:
        for one in tokenize.generate_tokens(io.StringIO(code).readline):
            if one.type in (token.NEWLINE, token.ENDMARKER) and words:
                yield start, words
                words = []
            elif one.type not in _LEFT_OUT and one.type not in (token.NEWLINE, token.ENDMARKER):
                start = start if words else one.start[0]
                words.append("" if one.type == token.STRING else one.string)
    except (tokenize.TokenError, SyntaxError):
        pass
    if words:
        yield start, words


def _plain(line: str) -> str:
    return re.sub(r"\s+", "", line)
