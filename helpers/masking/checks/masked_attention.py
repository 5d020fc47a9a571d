"""Checks of the masked softmax and of attention with a causal mask."""


def _axis_guessed(scores) -> int:
    """The axis that `F.softmax` takes where none is given."""
    return 0 if scores.dim() in (0, 1, 3) else 1
