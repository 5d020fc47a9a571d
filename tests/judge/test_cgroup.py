"""Control groups, in a folder that looks like a hierarchy: no test may divide the groups of the machine it runs on."""

import errno
import os
from pathlib import Path

import pytest

from autograder.judge.sandbox import cgroup
from autograder.judge.sandbox.walls import MB, Walls

WALLS = Walls(memory=600 * MB, scratch=8 * MB, processes=24)


@pytest.fixture
def hierarchy(tmp_path, monkeypatch):
    """The root's group, with the controllers handed on."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup, "_mounted", lambda: tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_a_sandbox_gets_a_group_with_the_kernels_limits(hierarchy):
    group = cgroup.new_cgroup(WALLS)
    said = {file.name: file.read_text().strip() for file in group.folder.iterdir()}
    assert said == {"memory.max": str(616 * MB), "memory.swap.max": "0", "pids.max": "72", "cpu.weight": "100"}
    group.enter()
    assert (group.folder / "cgroup.procs").read_text() == "0\n"  # whoever writes it


def test_what_the_kernel_ended_is_told_once(hierarchy):
    group = cgroup.new_cgroup(WALLS)
    assert not group.ended_one()
    (group.folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert group.ended_one() and not group.ended_one()


def test_groups_that_a_killed_keeper_left_are_swept(hierarchy):
    gone = 2**22 + 1  # no process has so large a number
    (hierarchy / f"attn-{gone}").mkdir()
    (hierarchy / f"attn-{os.getppid()}").mkdir()
    cgroup.new_cgroup(WALLS)
    left = sorted(folder.name for folder in hierarchy.glob("attn-*"))
    assert left == sorted([f"attn-{os.getppid()}", f"attn-{os.getpid()}"])


def test_controllers_are_handed_on_and_processes_move_out_of_the_way(hierarchy, monkeypatch):
    (hierarchy / "cgroup.subtree_control").write_text("")
    (hierarchy / "cgroup.procs").write_text("17\n")
    write, moved = Path.write_text, []

    def as_the_kernel_does(self, text):
        if self.name == "cgroup.subtree_control" and not moved:
            raise OSError(errno.EBUSY, "busy")
        if self.name == "cgroup.procs":
            moved.append((self.parent.name, text))
        return write(self, text)

    monkeypatch.setattr(Path, "write_text", as_the_kernel_does)
    assert cgroup.new_cgroup(WALLS)
    assert moved == [("attn-rest", "17")]
    assert (hierarchy / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_without_a_hierarchy_or_its_controllers_the_keeper_counts_alone(hierarchy, monkeypatch):
    (hierarchy / "cgroup.controllers").write_text("hugetlb\n")
    assert cgroup.new_cgroup(WALLS) is None
    with pytest.raises(OSError, match="no controllers cpu, memory, pids"):
        cgroup.home_of_cgroups()


@pytest.mark.parametrize("delegated", [True, False])
def test_an_ordinary_user_divides_what_systemd_delegated_and_nothing_else(hierarchy, monkeypatch, delegated):
    own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    folder = hierarchy / own.removeprefix("0::/")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    (folder / "cgroup.subtree_control").write_text("cpu memory pids\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getxattr", lambda *_: b"1" if delegated else b"0")
    if delegated:
        assert cgroup.home_of_cgroups() == folder
    else:
        with pytest.raises(OSError, match="not delegated"):
            cgroup.home_of_cgroups()
