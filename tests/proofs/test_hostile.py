"""Every hostile and broken notebook of tests/hostile is held: see autograder/proofs/hostile.py for what that means."""

import shutil

import pytest

from autograder.judge.kernel_manager import BUBBLEWRAP
from autograder.proofs.hostile import KINDS, notebooks_of_all_kinds, run_hostile, totals

BY_KIND = {kind: [one.name for k, one in notebooks_of_all_kinds() if k == kind] for kind in KINDS}
IN_BUBBLEWRAP = (
    "patches_torch",
    "hidden_cases",
    "loopback",
    "becomes_root",
    "fork_bomb",
    "memory_bomb",
    "call_hangs",
    "removes_home",
    "all_terminals",
    "memory_in_sockets",
    "honest_sharing",
)


def test_there_are_enough_of_every_kind():
    names = [name for kind in KINDS for name in BY_KIND[kind]]
    assert len(names) == len(set(names)) >= 175 and all(len(BY_KIND[kind]) >= 12 for kind in KINDS)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_every_notebook_is_held(kind):
    rows = list(run_hostile(names=tuple(BY_KIND[kind])))
    assert {row.name: row.problem for row in rows if not row.held} == {}
    assert totals(rows) == {"tried": len(BY_KIND[kind]), "held": len(BY_KIND[kind])}


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_bubblewrap_holds_one_of_each_sort():
    rows = list(run_hostile(BUBBLEWRAP, IN_BUBBLEWRAP))
    assert len(rows) == len(IN_BUBBLEWRAP) and {row.name: row.problem for row in rows if not row.held} == {}
