"""Text of strangers, before it is printed: names of folders, messages of errors."""

import unicodedata

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Control characters, invisible ones (that turn the direction of writing, too), half characters, line separators."""


def printable(text: object) -> str:
    """The text with every character that a terminal would obey, or could not show, as its number."""
    return "".join(_shown(char) if unicodedata.category(char) in HIDDEN else char for char in str(text))


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
