"""The line of a long computation: nothing before the first step, and at the end what was done."""

from types import SimpleNamespace

import IPython
import IPython.display
import pytest

from helpers import waiting


@pytest.fixture
def shown(monkeypatch):
    lines = []
    update = lambda said, raw: lines.append(said)
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=True))
    monkeypatch.setattr(
        IPython.display, "display", lambda said, **_: (lines.append(said), SimpleNamespace(update=update))[1]
    )
    return lines


def test_what_is_left_of_it_is_a_plain_sentence(shown, monkeypatch):
    monkeypatch.setattr(waiting, "EVERY", -1)
    assert list(waiting.waiting("abc", 3, "letters")) == ["a", "b", "c"]
    assert len(shown) == 3 and "<progress" in shown[0]["text/html"]
    assert shown[-1] == {"text/plain": "letters: 3 of 3, 0 s"}


def test_work_that_never_begins_leaves_nothing(shown):
    def stub():
        raise NotImplementedError
        yield

    with pytest.raises(NotImplementedError):
        list(waiting.waiting(stub(), 3, "letters"))
    assert shown == []


def test_outside_a_notebook_it_is_silent(capsys):
    assert list(waiting.waiting("abc", 3, "letters")) == ["a", "b", "c"]
    assert capsys.readouterr().out == ""
