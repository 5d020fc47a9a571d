"""A control group (cgroup v2) for each sandbox: the kernel's own limits of memory, processes and processor time. It
sees what no sum over processes does: socket buffers, page tables, whatever a hole in the walls may bring.

Root has its groups below the root of the hierarchy, an ordinary user below the own group where systemd delegated that
(`systemd-run --user --scope -p Delegate=yes attn grade`). Elsewhere there are none, and the keeper counts."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from autograder.judge.sandbox.walls import Walls

CONTROLLERS = {"memory", "pids", "cpu"}
NAME, REST = "attn-", "attn-rest"
WEIGHT = "100"  # what one process of others has, however many share it


class Cgroup:
    """One sandbox's group. Made empty; `enter` puts the calling process in, and so all that it will start."""

    def __init__(self, folder: Path, walls: Walls):
        self.folder, self.ended = folder, 0
        folder.mkdir(exist_ok=True)
        # What lies in the two scratch folders has a limit of its own.
        for name, value in {
            "memory.max": walls.memory + 2 * walls.scratch,
            "memory.swap.max": 0,
            "pids.max": 3 * walls.processes,
            "cpu.weight": WEIGHT,
        }.items():
            with suppress(FileNotFoundError):  # no accounting of swap
                (folder / name).write_text(f"{value}\n")

    def enter(self) -> None:
        with suppress(OSError):  # then the keeper counts alone, as where there is no group
            (self.folder / "cgroup.procs").write_text("0\n")

    def ended_one(self) -> bool:
        """Whether the kernel has ended a process for its memory since this was asked last."""
        before, self.ended = self.ended, _number(self.folder / "memory.events", "oom_kill")
        return self.ended > before

    def remove(self) -> None:
        with suppress(OSError):  # the last process is still being taken down: the next sandbox tries again
            self.folder.rmdir()


def new_cgroup(walls: Walls) -> Cgroup | None:
    """A group for a sandbox that this process keeps; None where there is none to be had."""
    try:
        home = home_of_cgroups()
        _hand_on(home)
        _sweep(home)
        return Cgroup(home / f"{NAME}{os.getpid()}", walls)
    except OSError:
        return None


def home_of_cgroups() -> Path:
    """The group below which sandboxes get theirs. OSError, which says why, if there is none. Changes nothing."""
    mounted = _mounted()
    home = mounted if os.geteuid() == 0 else _delegated(mounted)
    missing = CONTROLLERS - set((home / "cgroup.controllers").read_text().split())
    if missing:
        raise OSError(errno.ENOTSUP, f"{home} has no controllers {', '.join(sorted(missing))}")
    if not os.access(home, os.W_OK):
        raise OSError(errno.EROFS, f"{home} can't be written")
    return home


def _mounted() -> Path:
    """Where the hierarchy is mounted: fields of /proc/self/mountinfo."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    raise OSError(errno.ENOENT, "no cgroup v2 is mounted")


def _delegated(mounted: Path) -> Path:
    """The own group, if systemd says that it is ours to divide."""
    own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    folder = mounted / own.removeprefix("0::").lstrip("/")
    folder = folder.parent if folder.name == REST else folder
    try:
        delegated = os.getxattr(folder, "user.delegate") == b"1"
    except OSError:
        delegated = False
    if not delegated:
        raise OSError(errno.EPERM, "this user's control group is not delegated")
    return folder


def _hand_on(home: Path) -> None:
    """Lets groups below have the controllers. A group that has them may hold no process itself, so they move."""
    if CONTROLLERS <= set((home / "cgroup.subtree_control").read_text().split()):
        return
    words = " ".join(f"+{name}" for name in sorted(CONTROLLERS))
    try:
        (home / "cgroup.subtree_control").write_text(words)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        (home / REST).mkdir(exist_ok=True)
        for process in (home / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):  # it has ended
                (home / REST / "cgroup.procs").write_text(process)
        (home / "cgroup.subtree_control").write_text(words)


def _sweep(home: Path) -> None:
    """Removes what keepers that were killed have left."""
    for folder in home.glob(f"{NAME}[0-9]*"):
        if not Path(f"/proc/{folder.name.removeprefix(NAME)}").exists():
            with suppress(OSError):
                folder.rmdir()


def _number(file: Path, name: str) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
