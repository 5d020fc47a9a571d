"""The references of unit 00 against other ways, in float64."""

import re

import torch
from conftest import ROOT

from helpers import check
from helpers.start_here import shapes
from helpers.start_here.checks.read_shape import EXPRESSIONS
from helpers.start_here.plots import course_map

torch.manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_pairwise_dot():
    a, b = randn(3, 4), randn(5, 4)
    torch.testing.assert_close(shapes.pairwise_dot(a, b), torch.nn.functional.linear(a, b))


def test_weighted_rows_with_equal_weights_is_the_mean():
    rows = randn(2, 5, 3)
    weights = torch.full((2, 4, 5), 0.7, dtype=torch.float64)
    torch.testing.assert_close(shapes.weighted_rows(weights, rows), rows.mean(dim=1, keepdim=True).expand(2, 4, 3))


def test_read_shape():
    x, w, q, k, a, c = (torch.ones(s) for s in ((2, 3, 4), (4, 5), (2, 6, 3, 7), (2, 6, 8, 7), (3, 4), (5, 4)))
    inputs = ((x, w), (q, k), (q,), (x,), (a, c))
    shapes_of = [tuple(torch.einsum(e, *tensors).shape) for e, tensors in zip(EXPRESSIONS, inputs, strict=True)]
    assert tuple(shapes_of) == shapes.read_shape()


def test_the_example_shows_a_red_an_amber_and_a_green_card():
    assert float(check.row_means(lambda x: x.mean(dim=0), points=1)) == 0
    assert float(check.row_means(lambda x: x.mean(dim=1), points=1)) == 0.5
    assert float(check.row_means(lambda x: x.mean(dim=-1), points=1)) == 1


def test_the_map_shows_what_the_table_of_the_readme_says():
    rows = re.findall(r"^\| \[(\d\d)\]\([^)]*\) \|[^|]*\| ([^|]*) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {unit: " ".join(re.findall(r"\b\d\d\b", needs)) for unit, needs in rows} == course_map.NEEDS
    assert course_map._directly("08") == ["05", "07"] and course_map._directly("09") == ["07"]


def test_the_map_draws_a_line_for_what_is_needed_and_for_the_idea_that_comes_back(monkeypatch):
    lines = []
    monkeypatch.setattr(course_map, "_way", lambda source, target: lines.append((source, target)) or [(0, 0)])
    course_map._drawn()
    assert lines[0] == ("01", "10") and ("07", "08") in lines
    assert [line for line in lines if line[0] == "01"] == [("01", "10")]  # no unit needs it
    assert {target for _, target in lines} == set(course_map.NEEDS) - {"00"}


def test_a_station_lies_on_a_line_only_if_what_comes_below_it_there_needs_it():
    stations = list(course_map.NEEDS)
    for unit in stations:
        for needed in course_map._directly(unit):
            between = stations[stations.index(needed) + 1 : stations.index(unit)]
            on_the_way = [one for one in between if course_map.TRACKS[one] == course_map.TRACKS[needed]]
            assert set(on_the_way) <= course_map._all(unit), (needed, unit)


def test_the_maps_file_is_the_map_of_today():
    assert (ROOT / "docs" / "map.svg").read_text(encoding="utf-8") == course_map._drawn().svg() + "\n"
