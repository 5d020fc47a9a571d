"""What a check returns: a number that nbgrader reads, and a card that a student reads."""

from dataclasses import dataclass
from typing import Any

from .mime import MIME


@dataclass(frozen=True)
class Item:
    """One line of the card. `counts` is False for a line that only informs."""

    label: str
    passed: bool
    note: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Picture:
    """The first failing case, for the card to draw: two tensors of one shape."""

    label: str
    expected: Any
    got: Any


class Score(float):
    """Points, as a float whose `repr` is the number: stock nbgrader takes a test cell's last value as partial credit.

    A notebook shows the card (HTML); `print(score)` shows it as text; the MIME entry `score.MIME` is for programs.
    """

    def __new__(cls, value: float, **_: Any) -> "Score":
        return super().__new__(cls, value)

    def __init__(self, value: float, *, exercise: str, points: float, items: tuple[Item, ...] = (), diagnosis: str | None = None,
                 message: str = "", pictures: tuple[Picture, ...] = (), parts: tuple["Score", ...] = ()):  # fmt: skip
        self.exercise, self.points, self.items = exercise, points, items
        self.diagnosis, self.message, self.pictures, self.parts = diagnosis, message, pictures, parts

    @property
    def full(self) -> bool:
        """Whether all points were earned."""
        return float(self) >= self.points

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        from .card import text

        return text(self)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        from .card import html

        return {"text/plain": repr(self), "text/html": html(self), MIME: self.as_json()}

    def as_json(self) -> dict:
        """The score as plain data: see the MIME entry."""
        lines = [*self.items, *(item for part in self.parts for item in part.items)]
        return {
            "exercise": self.exercise,
            "score": float(self),
            "points": float(self.points),
            "diagnosis": self.diagnosis,
            "message": self.message,
            "passed": [item.label for item in lines if item.passed],
            "failed": [item.label for item in lines if not item.passed],
        }
