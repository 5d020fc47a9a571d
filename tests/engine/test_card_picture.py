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
