"""Any two colours that mean something are told apart by all readers, measured (see palette.py beside this file)."""

import ast
import re

import pytest
from conftest import ROOT
from palette import ENOUGH, VIEWS, distance, table

from helpers import palette

FIVE = {name: getattr(palette, name) for name in ("QUERY", "KEY", "VALUE", "WEIGHT", "OUTPUT")}
GROUND = {"white": "#ffffff"}


@pytest.mark.parametrize("view", VIEWS)
def test_the_five_and_white_differ_for_every_reader(view):
    near = {(a, b): round(found[view], 1) for a, b, found in table(FIVE | GROUND) if found[view] < ENOUGH}
    assert not near, near


@pytest.mark.parametrize("view", VIEWS)
def test_a_masked_cell_differs_from_one_that_may_be_used(view):
    assert distance(palette.MAY_ATTEND, palette.MASKED, view) > 60


def test_the_measure_finds_the_palette_that_was():
    """Blue queries and purple weights, which a deuteranope saw as one colour."""
    assert distance("#2166ac", "#7b3fa0", "deuteranopia") < ENOUGH < distance("#2166ac", "#7b3fa0", "normal")


@pytest.mark.parametrize("colour", FIVE.values(), ids=FIVE)
def test_ink_can_be_read_on_every_colour(colour):
    light = {"white": 1.0, "black": 0.0}[palette.ink(colour)]
    dark, bright = sorted((palette.luminance(colour), light))
    assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_the_colours_keep_the_names_that_the_text_gives_them():
    """The prose says: the last token (blue), the one (orange), the same (green); purple where attention is allowed."""
    red, green, blue = range(3)
    parts = {name: [int(colour[i : i + 2], 16) for i in (1, 3, 5)] for name, colour in FIVE.items()}
    assert max(parts["QUERY"]) == parts["QUERY"][blue] and max(parts["VALUE"]) == parts["VALUE"][green]
    assert parts["KEY"][red] > parts["KEY"][green] > parts["KEY"][blue]
    assert min(parts["WEIGHT"]) == parts["WEIGHT"][green] and max(parts["OUTPUT"]) - min(parts["OUTPUT"]) < 8


def test_pictures_take_their_colours_from_the_palette():
    """A colour that is written out has a meaning in that one picture only, and nobody measured it."""
    for path in sorted((ROOT / "helpers").glob("*/plots/*.py")):
        literals = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert not [one for one in literals if isinstance(one, str) and re.fullmatch("#[0-9a-fA-F]{3,8}", one)], path


def test_more_series_than_colours_differ_by_marker_too():
    """In grey no more than five colours are 15 apart, and from white: the sixth needs a second channel."""
    from helpers.beyond_quadratic.plots.variant_costs import LOOK

    markers = [marker for _, marker in LOOK.values()]
    assert len(LOOK) > 5 and len(set(markers)) == len(markers)


@pytest.mark.parametrize("colour", FIVE.values(), ids=FIVE)
def test_words_in_a_colour_can_be_read_on_white(colour):
    assert 1.05 / (palette.luminance(palette.as_text(colour)) + 0.05) >= 4.5
