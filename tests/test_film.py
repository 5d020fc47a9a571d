"""The player of films: pictures and sentences in a page that needs nothing else, and a still where scripts don't run."""

import base64
import io
import re

import matplotlib
import matplotlib.pyplot as plt
import pytest
from PIL import Image

from autograder import clean
from helpers.film import LIMIT, film

matplotlib.use("Agg")
HOSTILE = "a < b </script> & \"c\" 'd'"


@pytest.fixture(scope="module")
def html():
    figure, axis = plt.subplots(figsize=(3, 1))
    return film(figure, lambda i: axis.plot([0, i]) and f"step {i}: {HOSTILE}", range(3), "lines that rise", still=1)


def test_the_same_film_is_the_same_bytes_and_the_figure_is_closed(html):
    figure, axis = plt.subplots(figsize=(3, 1))
    again = film(figure, lambda i: axis.plot([0, i]) and f"step {i}: {HOSTILE}", range(3), "lines that rise", still=1)
    assert again == html and not plt.get_fignums()


def test_a_film_asks_for_nothing_and_no_sentence_ends_its_script(html):
    assert "http" not in html and html.count("</script>") == 1 and html.count("<script>") == 1
    assert len(html) < LIMIT


def test_pictures_are_sharper_than_the_page(html):
    picture = re.search(r'base64,([^"]+)"', html)[1]
    assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (432, 144)
    assert 'width="288"' in html


def test_where_scripts_are_taken_out_a_picture_and_its_sentence_stay(html):
    left = clean.presentable(html)
    assert left.count("<img") == 1 and 'alt="lines that rise"' in left
    assert "<p>step 1: a &lt; b &lt;/script&gt;" in left and "addEventListener" not in left
