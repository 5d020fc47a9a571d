"""The colours of the course: one meaning each, in every figure and on every card.

Chosen by measure (`python -m tests.palette`): seen normally, by deuteranopes, by protanopes and in greyscale, any two
of the first five, and each of them and white, are 15 or more apart in CAM02-UCS. In grey only lightness is left, so
they are stairs of it: weights darkest, then queries, outputs, values, keys. More than five things also differ by
marker, hatch or label.
"""

QUERY, KEY, VALUE, WEIGHT, OUTPUT = "#10458f", "#ffa950", "#49a371", "#380550", "#6a6c6f"
"""Blue, orange, green, purple, grey."""

MAY_ATTEND, MASKED = WEIGHT, "#eceef1"
"""The cells of a mask: the key may be used, or may not."""

EDGE = "#b9bcc1"
"""Grey: lines between things, and what doesn't count."""

FAINT_QUERY, FAINT_KEY, FAINT_WEIGHT = "#cfe0f0", "#fbdcb8", "#e6ddee"
HALF_KEY, HALF_WEIGHT = "#f3c48f", "#a98bc0"
"""The same things fetched before, or used in part."""

SKY, RED, PINK, OCHRE = "#6aaede", "#b3261e", "#c2549d", "#8c6d1f"
"""For a sixth thing and more, which also differ by marker, hatch or label: so many colours can't all be told apart."""


def ink(ground: str) -> str:
    """White or black: what can be read on this colour (#rrggbb)."""
    return "black" if luminance(ground) > 0.18 else "white"


def luminance(colour: str) -> float:
    """The relative luminance of #rrggbb, 0 to 1 (WCAG 2.2)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def as_text(colour: str) -> str:
    """The colour (#rrggbb), darkened until words in it can be read on white: a contrast of 4.5."""
    strength = next(share / 20 for share in range(20, 0, -1) if luminance(_darker(colour, share / 20)) <= 0.183)
    return _darker(colour, strength)


def _darker(colour: str, strength: float) -> str:
    return "#" + "".join(f"{round(int(colour[i : i + 2], 16) * strength):02x}" for i in (1, 3, 5))
