"""What a card's tables say of an answer whose shape or dtype is another one."""

import pytest
import torch

from helpers.engine.card_picture import Picture, html, panels, text
from helpers.engine.card_style import RED


@pytest.mark.parametrize(
    ("got", "title"),
    [(torch.ones(2, 3), "yours 2×3 float32"), (torch.ones(3, dtype=torch.bool), "yours (3,)")],
    ids=["another dtype", "another shape"],
)
def test_another_shape_or_dtype_is_marked(got, title):
    """The cells alone may look the same."""
    picture = Picture("a case", torch.ones(2, 3, dtype=torch.bool), got)
    right, wrong = panels(picture)[:2]
    assert wrong.title == title and wrong.alien and not right.alien
    assert f"color:{RED}" in html(picture).split(title)[0].rsplit("<div", 1)[1] and f"{title}*" in "\n".join(
        text(picture)
    )


def test_a_float_of_another_precision_is_not_marked():
    """What is expected is computed in float64, whatever goes in."""
    picture = Picture("a case", torch.ones(2, 3, dtype=torch.float64), torch.zeros(2, 3))
    assert [panel.title for panel in panels(picture)] == ["expected 2×3", "yours 2×3", "difference 2×3"]
    assert not any(panel.alien for panel in panels(picture))


def test_columns_of_tables_below_each_other_are_of_one_width():
    """The widest word of all tables counts: one of zeros would be narrower than the one above it."""
    drawn = html(Picture("", torch.full((2, 3), -11.25), torch.zeros(2, 3)))
    assert drawn.count("min-width:6ch") == 9 and "min-width:1ch" not in drawn
