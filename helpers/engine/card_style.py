"""The colours of a card, and `style` attributes made of them: an opaque ground under a readable colour."""

INK, PAPER, SHADE = "#202124", "#ffffff", "#f1f3f4"
GREEN, AMBER, RED, GREY = "#146c3f", "#8a5200", "#b3261e", "#54585d"
POSITIVE, NEGATIVE = (33, 102, 172), (214, 96, 17)  # blue and orange: told apart by all readers
NO_NUMBER = "#f6c5c0"
DEEPEST = 0.45  # of a full color: ink can still be read on it, turned over as well


def style(*, colour: str, ground: str, **more: str) -> str:
    """A `style` attribute: `border_left="1px solid"` is `border-left`."""
    words = {"color": colour, "background": ground} | {name.replace("_", "-"): value for name, value in more.items()}
    return 'style="' + ";".join(f"{name}:{value}" for name, value in words.items()) + '"'


def tint(share: float) -> str:
    """White for 0, blue for 1, orange for −1, opaque."""
    full, strength = POSITIVE if share > 0 else NEGATIVE, DEEPEST * min(1.0, abs(share))
    return "#" + "".join(f"{round(255 + strength * (part - 255)):02x}" for part in full)
