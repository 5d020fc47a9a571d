"""Figures say what they show: beside the picture in a notebook's outputs."""

import matplotlib.pyplot as plt
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from helpers import plots
from helpers.style import show

WORDS = "Pre-norm and post-norm side by side: where the norms stand on the way from x to the output."


@pytest.fixture
def inline():
    """The backend of notebooks."""
    InteractiveShell.instance()
    before = plt.get_backend()
    plt.switch_backend("module://matplotlib_inline.backend_inline")
    yield
    plt.close("all")
    plt.switch_backend(before)


def _shown(draw) -> list:
    with capture_output() as captured:
        draw()
    return captured.outputs


def test_a_picture_is_described_by_its_docstring(inline):
    (output,) = _shown(plots.two_blocks)
    assert f'alt="{WORDS}"' in output.data["text/html"] and not plt.get_fignums()


def test_a_text_of_its_own_goes_before_the_docstring(inline):
    (output,) = _shown(lambda: (plt.figure(), show("A wave.")))
    assert 'alt="A wave."' in output.data["text/html"] and output.data["text/plain"] == "A wave."
