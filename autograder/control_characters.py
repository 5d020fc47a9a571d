"""Text of strangers, before anything else looks at it: libraries that color it, write it to a file or show it stumble
over control characters and halves of characters."""

import re
from typing import Any

MOST_COLORS = 2_000
"""In one text: pages take a time for each that grows with the length of what follows."""
_CODE = r"[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3}|(?!0*[34]8(?!\d))\d{0,3}"
_HARMFUL = re.compile(
    rf"(?P<color>\x1b\[(?:{_CODE})(?:;(?:{_CODE}))*m)"
    r"|(?P<half>[\ud800-\udfff])"
    r"|\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]",
    re.ASCII,
)


def clean(value: Any) -> Any:
    """JSON's values with clean texts in them: halves of characters are replaced, control characters are gone; tabs,
    line ends and the terminal's colors stay."""
    if isinstance(value, str):
        return few_colors(_HARMFUL.sub(_kept, value))
    if isinstance(value, dict):
        return {clean(key): clean(one) for key, one in value.items()}
    return [clean(one) for one in value] if isinstance(value, list | tuple) else value


def few_colors(text: str) -> str:
    """The text, without its colors where there are too many of them."""
    return text if text.count("\x1b") <= MOST_COLORS else _HARMFUL.sub("", text)


def _kept(found: re.Match) -> str:
    return found["color"] or ("\ufffd" if found["half"] else "")
