"""What a sandbox sees, as mounts: what it is shown, its scratch folder and its devices."""

import ctypes
import os
import struct
from pathlib import Path

from autograder.judge.sandbox.libc import LIBC, check
from autograder.judge.sandbox.walls import MB, SCRATCH, Walls

READ_ONLY, NO_SUID, NO_DEV, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
DEVICES = ("null", "full", "random", "urandom")
PTYS = 32  # at once: a machine has about 3,000 for everybody


def close(place: str, flags: int = 0) -> None:
    """Nothing new can be made there any longer; what is mounted below stays as it is."""
    mount("none", place, None, REMOUNT | BIND | READ_ONLY | NO_SUID | flags)


def own_view() -> None:
    """What is mounted from now on is mounted for this process and its children alone."""
    mount("none", "/", None, RECURSIVE | SLAVE)


def show(places: list[str], links: dict[str, str], old: str) -> None:
    """Everything that is to be seen, from the root that lies at `old`."""
    for path in places:
        _touch(path, os.path.isdir(old + path))
        mount(old + path, path, None, BIND | RECURSIVE)
        _read_only(path)
    for link, target in links.items():
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(target, link)


def hide(path: str, old: str) -> None:
    if os.path.isdir(path):
        mount("tmpfs", path, "tmpfs", READ_ONLY | NO_SUID | NO_DEV, "mode=755,size=4k")
    elif os.path.exists(path):
        mount(f"{old}/dev/null", path, None, BIND)


def devices(walls: Walls, dev: str, old: str) -> None:
    """The folder of devices. /dev/zero is a file with a hole: a shared map of the device is memory that nobody sees."""
    os.mkdir(dev)
    mount("tmpfs", dev, "tmpfs", NO_SUID, "mode=755,size=1m,nr_inodes=1k")
    for name in DEVICES:
        _touch(f"{dev}/{name}", folder=False)
        mount(f"{old}/dev/{name}", f"{dev}/{name}", None, BIND)
    _touch(f"{dev}/zero", folder=False)
    os.truncate(f"{dev}/zero", 1024 * MB)
    os.mkdir(f"{dev}/shm")
    mount("tmpfs", f"{dev}/shm", "tmpfs", NO_SUID | NO_DEV, f"mode=1777,size={walls.scratch},nr_inodes=1k")
    os.mkdir(f"{dev}/pts")
    mount("devpts", f"{dev}/pts", "devpts", NO_SUID, f"newinstance,ptmxmode=0666,mode=600,max={PTYS}")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        os.symlink(target, f"{dev}/{link}")


def scratch(walls: Walls, tmp: str) -> None:
    """The one folder that can be written, limited in bytes and files."""
    os.mkdir(tmp)
    mount("tmpfs", tmp, "tmpfs", NO_SUID | NO_DEV, f"mode=1777,size={walls.scratch},nr_inodes={walls.files}")
    for folder in (SCRATCH, "/tmp/home"):
        inside = tmp + folder.removeprefix("/tmp")
        os.mkdir(inside)
        os.chmod(inside, 0o777)  # whoever the kernel will be: nobody else sees it


def who_is_who(user: int) -> None:
    os.makedirs("/etc", exist_ok=True)
    Path("/etc/passwd").write_text(f"student:x:{user}:{user}::/tmp/home:/bin/sh\n")
    Path("/etc/group").write_text(f"student:x:{user}:\n")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    call = LIBC.mount(
        source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    check(call, f"mount {target}")


def unmount(place: str) -> None:
    check(LIBC.umount2(place.encode(), 2), f"umount {place}")  # MNT_DETACH: with all that is mounted below


def _touch(path: str, folder: bool) -> None:
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644))


def _read_only(path: str) -> None:
    """Read-only with everything that is mounted below it: mount_setattr(AT_RECURSIVE)."""
    attributes = struct.pack("QQQQ", READ_ONLY | NO_SUID | NO_DEV, 0, 0, 0)
    check(LIBC.syscall(442, -100, path.encode(), 0x8000, attributes, len(attributes)), f"mount_setattr {path}")
