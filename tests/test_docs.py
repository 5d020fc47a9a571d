"""What the pages for people name is there: every file and folder in backticks, every link to a file."""

import re

import pytest
from conftest import ROOT
from PIL import Image

from autograder.site import readme_pictures
from helpers.flash_attention.plots.tile_walk import Walk, halfway

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/GUIDE.md",
    "docs/TEACHING.md",
    "autograder/README.md",
    "autograder/judge/README.md",
]
FILE = re.compile(r"`([\w./*-]+(?:\.py|\.md|\.toml|\.yml|/))`")  # what says by its form that it is a file or a folder
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
MADE = ("autograder/class", ".venv", "submitted/")  # there once somebody has handed in, or installed


def _is_there(name: str, page: str) -> bool:
    """A path from the page's folder, the root or the autograder's; a bare file name anywhere; `*` for a part of it."""
    if name.startswith(MADE):
        return True
    folders = (ROOT / page).parent, ROOT, ROOT / "autograder", ROOT / "autograder" / "class"
    found = any(any(folder.glob(name.rstrip("/"))) for folder in folders)
    return found or ("/" not in name.rstrip("/") and any(ROOT.glob(f"[ahst]*/**/{name.rstrip('/')}")))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {name for pattern in (FILE, LINK) for name in pattern.findall(text) if "NN" not in name}
    assert named
    assert [name for name in sorted(named) if not _is_there(name, page)] == []


def test_the_frame_in_the_readme_is_one_of_the_film():
    """Otherwise: as below."""
    assert (ROOT / "docs" / "film.svg").read_text(encoding="utf-8") == halfway(Walk())


def test_the_card_in_the_readme_is_the_one_that_the_check_gives():
    """Otherwise: `python -m autograder.site.readme_pictures`, and look at README.md."""
    kept = Image.open(ROOT / "docs" / "card.png").info[readme_pictures.SHOWS]
    assert kept == readme_pictures.digest(readme_pictures.card())
