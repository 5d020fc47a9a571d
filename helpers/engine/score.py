"""What a check returns: a number that nbgrader reads, and a card that a student reads."""

from html import escape
from typing import Any

from .card import Item, Picture, html, text
from .mime import MIME

__all__ = ["MIME", "NOT_ATTEMPTED", "Item", "Picture", "Score", "not_attempted"]

NOT_ATTEMPTED = "not attempted"


class Score(float):
    """Points, as a float whose `repr` is the number: stock nbgrader takes a test cell's last value as partial credit.

    A notebook shows the card (HTML); `print(score)` shows it as text; the MIME entry `score.MIME` is for programs.
    """

    below = ""
    """A line that stands below the card: where the student is (see helpers/progress.py). No part of the score."""

    def __new__(cls, value: float, **_: Any) -> "Score":
        return super().__new__(cls, value)

    def __init__(
        self,
        value: float,
        *,
        exercise: str,
        points: float,
        items: tuple[Item, ...] = (),
        diagnosis: str | None = None,
        message: str = "",
        pictures: tuple[Picture, ...] = (),
        parts: tuple["Score", ...] = (),
    ) -> None:
        self.exercise, self.points, self.items = exercise, points, items
        self.diagnosis, self.message, self.pictures, self.parts = diagnosis, message, pictures, parts

    @property
    def full(self) -> bool:
        """Whether all points were earned."""
        return float(self) >= self.points

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        return text(self) + f"\n{self.below}" * bool(self.below)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": html(self) + self._below(), MIME: self.as_json()}

    def _below(self) -> str:
        return (
            f'<div style="opacity:.75;font:13px system-ui,sans-serif">{escape(self.below)}</div>' if self.below else ""
        )

    def as_json(self) -> dict[str, Any]:
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


def not_attempted(exercise: str, points: float, reason: str = "") -> Score:
    """No points for a stub, and no reproach either."""
    message = (
        reason or "Not attempted yet: replace `raise NotImplementedError` with your answer and run both cells again."
    )
    return Score(0.0, exercise=exercise, points=points, diagnosis=NOT_ATTEMPTED, message=message)
