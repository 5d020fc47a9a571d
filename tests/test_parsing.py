"""Threads that read Python at the same time don't disturb each other."""

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from autograder.parsing import guard, parse

DEEP = "x = " + "+".join(f"f(a[{i}], {{'b': [c, (d, {i})]}})" for i in range(40))


@pytest.fixture
def switching():
    """Threads take turns as often as they can, amid the parser too: while the collector runs Python code."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    gc.callbacks.append(_linger)
    yield
    gc.callbacks.remove(_linger)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


def _linger(*_) -> None:
    for _ in range(30):
        pass


def test_threads_read_side_by_side(switching):
    with ThreadPoolExecutor(4) as pool:
        assert {len(tree.body) for tree in pool.map(parse, [DEEP] * 240)} == {1}


def test_libraries_read_beside_us(switching, monkeypatch):
    monkeypatch.setattr(ast, "parse", ast.parse)  # back again after the test
    guard()
    values = repr([[f"word {i}", (i, {"a": [i]})] for i in range(60)])
    with ThreadPoolExecutor(4) as pool:
        ours, theirs = (pool.map(read, [text] * 120) for read, text in ((parse, DEEP), (ast.literal_eval, values)))
        assert {len(tree.body) for tree in ours} == {1} and {len(value) for value in theirs} == {60}
