"""The second sandbox: bubblewrap around a cold kernel, with the same walls as in namespaces.py. Slower to start by two
seconds, but an audited tool builds the walls, and nothing was forked: a kernel that wants a GPU can have one.

As root, bubblewrap leaves all capabilities unless told otherwise; here three are left, with which the kernel's first
process gives up root before it runs anything of a student's."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.judge.sandbox import mounts
from autograder.judge.sandbox.cgroup import new_cgroup
from autograder.judge.sandbox.keeper import watch
from autograder.judge.sandbox.libc import NEW_NS, NEW_USER, unshare
from autograder.judge.sandbox.namespaces import own_user
from autograder.judge.sandbox.walls import PACKAGES, SCRATCH, SandboxError, Walls, environment

if TYPE_CHECKING:
    from autograder.judge.kernel import Kernel

OURS = ("__init__.py", "errors.py", "judge")
"""What a cold kernel imports of this package. None of it is secret."""


def start(role: str, walls: Walls, request: dict) -> "Kernel":
    """A `Kernel` behind `walls`. SandboxError where bubblewrap is not installed."""
    from autograder.judge.kernel import Kernel  # here, for it imports torch, which the keeper does without

    program = shutil.which("bwrap")
    if not program:
        raise SandboxError("bubblewrap is not installed (Debian: apt install bubblewrap).")
    ours, theirs = socket.socketpair()
    leash, keeper = socket.socketpair()
    with theirs, keeper:
        sockets = theirs.fileno(), keeper.fileno()
        command = [
            sys.executable,
            "-m",
            "autograder.judge.sandbox.bubblewrap",
            role,
            json.dumps(asdict(walls)),
            program,
            *map(str, sockets),
        ]
        process = subprocess.Popen(
            command,
            pass_fds=sockets,
            env=environment(PACKAGES),
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the grader's to handle
        )
    kernel = Kernel(ours, leash, process)
    kernel.tell({"walls": asdict(walls), "request": request})
    return kernel


def keep(role: str, walls: Walls, program: str, channel: socket.socket, leash: socket.socket) -> None:
    """The keeper: starts bubblewrap and watches it. A pipe tells the first process inside when the keeper is gone: as
    root, bubblewrap has given up the right to end it, and so its --die-with-parent does not reach that far."""
    user, group = own_user(), new_cgroup(walls)
    alive, _ = os.pipe()  # nobody but the keeper has the other end
    numbers = [channel.fileno(), alive]
    inner = [sys.executable, "-m", "autograder.judge.fork_server", "cold", role, *map(str, numbers), str(user)]
    own = tempfile.mkdtemp(prefix="attn-")
    try:
        _mount_own(walls, own)
        enter = group.enter if group else None
        bwrap = subprocess.Popen([program, *wrapped(walls, own), *inner], pass_fds=numbers, preexec_fn=enter)
        channel.close()
        os.close(alive)
        watch(bwrap.pid, walls, leash, group, depth=2)
    finally:
        mounts.unmount(own)
        os.rmdir(own)


def _mount_own(walls: Walls, folder: str) -> None:
    """Scratch and devices with the limits that bubblewrap has no words for, seen by the keeper and its children."""
    unshare(NEW_NS | NEW_USER if os.geteuid() else NEW_NS)
    mounts.own_view()
    mounts.mount("tmpfs", folder, "tmpfs", mounts.NO_SUID, "mode=755,size=1m")
    mounts.scratch(walls, f"{folder}/tmp")
    mounts.devices(walls, f"{folder}/dev", "")


def wrapped(walls: Walls, own: str) -> list[str]:
    """bubblewrap's arguments for these walls. own: the folder with scratch and devices."""
    places, links = walls.shown()
    ours = [str(PACKAGES / "autograder" / name) for name in OURS]
    parents = sorted({str(folder) for path in (*places, *links, *ours) for folder in Path(path).parents} - {"/"})
    folders = [part for folder in parents if folder != "/tmp" for part in ("--perms", "0755", "--dir", folder)]
    system = [part for path in places for part in ("--ro-bind", path, path)]
    system += [part for link, target in links.items() for part in ("--symlink", target, link)]
    own_files = [part for path in ours for part in ("--ro-bind-try", path, path)]
    closed = walls.closed(places)
    hidden = [part for path in closed for part in _hidden(path)]
    hidden_folders = [part for path in closed if Path(path).is_dir() for part in ("--remount-ro", path)]
    capabilities = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
    return [
        "--as-pid-1", "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-net",
        "--unshare-uts", "--unshare-cgroup", "--cap-drop", "ALL", "--setenv", "HOME", "/tmp/home",
        "--setenv", "MPLCONFIGDIR", "/tmp/home", *(["--unshare-user"] if os.geteuid() else capabilities),
        "--bind", f"{own}/tmp", "/tmp", *folders, *system, *hidden, *own_files, *hidden_folders,
        "--proc", "/proc", "--dev-bind", f"{own}/dev", "/dev", "--remount-ro", "/dev",
        "--chdir", SCRATCH, "--remount-ro", "/",
    ]  # fmt: skip # a drawn table


def _hidden(path: str) -> list[str]:
    if Path(path).is_dir():
        return ["--perms", "0755", "--size", "65536", "--tmpfs", path]
    return ["--ro-bind", "/dev/null", path]


if __name__ == "__main__":
    sockets = (socket.socket(fileno=int(number)) for number in sys.argv[4:])
    keep(sys.argv[1], Walls(**json.loads(sys.argv[2])), sys.argv[3], *sockets)
