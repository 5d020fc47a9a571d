"""What a machine has run out of, read where Linux says it."""

import pytest

from autograder.judge import machine_shortage
from autograder.judge.machine_shortage import MachineShortage


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """Writes what Linux says, in the place of /proc."""
    monkeypatch.setattr(machine_shortage, "PROC", tmp_path)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name, text in {"nr": "5", "max": "4096", "reserve": "1024"}.items():
        write(f"sys/kernel/pty/{name}", text)
    write("sys/fs/file-nr", "1000\t0\t9223372036854775807\n")
    write("vmstat", "nr_free_pages 1\noom_kill 3\n")
    return write


@pytest.mark.parametrize(("name", "text", "found"), [
    ("sys/kernel/pty/nr", "3071", ""), ("sys/kernel/pty/nr", "3072", "pseudo-terminals"),
    ("sys/fs/file-nr", "9\t0\t9\n", "open files"), ("vmstat", "oom_kill 4\n", "memory"), ("vmstat", "", ""),
])  # fmt: skip # a drawn table
def test_what_the_machine_lacks(proc, name, text, found):
    shortage = MachineShortage()
    assert shortage.found() == ""
    proc(name, text)
    assert (found in shortage.found()) and bool(found) == bool(shortage.found())


def test_a_machine_that_says_nothing_lacks_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_shortage, "PROC", tmp_path)
    assert MachineShortage().found() == ""
