"""Pictures and films in JupyterLab: they have words, can be dragged, and say what to do where nothing is trusted."""

import nbformat
import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output

from helpers.qkv_attention.plots.turning import _film

from .lab import ROOT


def _kept_pictures():
    """All that the released notebooks show before they are run."""
    paths = sorted((ROOT / "notebooks").glob("*/*.ipynb"))
    cells = [cell for path in paths for cell in nbformat.read(path, 4).cells if cell.get("outputs")]
    return new_notebook(cells=[new_code_cell("1", outputs=cell.outputs) for cell in cells])


def _turning():
    output = new_output("display_data", data={"text/html": _film(torch.eye(2).double(), 1.0, 36), "text/plain": ""})
    return new_notebook(cells=[new_code_cell("1", outputs=[output])])


def test_every_picture_of_every_unit_has_words(lab):
    page = lab.open(_kept_pictures())
    words = page.evaluate("[...document.querySelectorAll('.jp-OutputArea img')].map(image => image.alt)")
    assert len(words) > 30 and all(words)


def test_a_film_is_dragged_turned_by_keys_and_by_touch(lab):
    page = lab.open(_turning(), has_touch=True)
    film, picture = page.locator("[data-film]"), page.locator("[data-film] img")
    said = lambda: film.locator("span").inner_text()
    assert said().startswith("1 of")
    box = picture.bounding_box()
    across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 5, down)
    page.mouse.down()
    page.mouse.move(across, box["y"] + 5, steps=5)
    page.mouse.up()
    dragged = said()
    film.press("ArrowRight")
    turned = said()
    page.touchscreen.tap(box["x"] + 5, down)
    assert len({"1 of 36", dragged, turned, said()}) == 4
    assert int(turned.split()[0]) == int(dragged.split()[0]) + 1


def test_in_a_notebook_that_is_not_trusted_a_film_says_what_to_do(lab):
    page = lab.open(_turning(), trusted=False)
    film = page.locator(".jp-OutputArea-output").filter(has=page.locator("img"))
    assert "run this cell again" in film.inner_text() and page.locator("[data-film] button").count() == 0
    assert film.locator("img").get_attribute("alt")
