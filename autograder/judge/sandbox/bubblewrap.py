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
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.judge.sandbox.namespaces import SCRATCH, SandboxError, Walls, environment, own_user, watch

if TYPE_CHECKING:
    from autograder.judge.kernel import Kernel

PACKAGES = Path(__file__).resolve().parents[3]
OURS = ("__init__.py", "errors.py", "judge")
"""What a cold kernel imports of this package. None of it is secret."""


def start(role: str, walls: Walls, request: dict) -> "Kernel":
    """A `Kernel` behind `walls`. SandboxError where bubblewrap is not installed."""
    from autograder.judge.kernel import Kernel  # here, for it imports torch, which the keeper does without

    if not shutil.which("bwrap"):
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


def keep(role: str, walls: Walls, channel: socket.socket, leash: socket.socket) -> None:
    """The keeper: starts bubblewrap and watches it. A pipe tells the first process inside when the keeper is gone: as
    root, bubblewrap has given up the right to end it, and so its --die-with-parent does not reach that far."""
    user = own_user()
    alive, _ = os.pipe()  # nobody but the keeper has the other end
    numbers = [channel.fileno(), alive]
    inner = [sys.executable, "-m", "autograder.judge.fork_server", "cold", role, *map(str, numbers), str(user)]
    bwrap = subprocess.Popen([*wrapped(walls), *inner], pass_fds=numbers)
    channel.close()
    os.close(alive)
    watch(bwrap.pid, walls, leash, depth=2)


def wrapped(walls: Walls) -> list[str]:
    """bubblewrap's command line for these walls."""
    ours = [str(PACKAGES / "autograder" / name) for name in OURS]
    parents = sorted({str(folder) for path in (*walls.paths(), *ours) for folder in Path(path).parents} - {"/"})
    folders = [part for folder in parents if folder != "/tmp" for part in ("--perms", "0755", "--dir", folder)]
    system = [part for path in walls.paths() for part in _shown(path)]
    own_files = [part for path in ours for part in _shown(path)]
    closed = [part for path in walls.hidden if Path(path).is_dir() for part in ("--remount-ro", path)]
    hidden = [part for path in walls.hidden for part in _hidden(path)]
    size = ["--size", str(walls.scratch)]
    own = (
        ["--unshare-user"]
        if os.geteuid()
        else [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
    )
    return [
        "bwrap", "--as-pid-1", "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-net",
        "--unshare-uts", "--unshare-cgroup", "--cap-drop", "ALL", "--setenv", "HOME", "/tmp/home",
        "--setenv", "MPLCONFIGDIR", "/tmp/home", *own, "--perms", "1777", *size, "--tmpfs", "/tmp",
        "--perms", "0777", "--dir", SCRATCH, "--perms", "0777", "--dir", "/tmp/home", *folders, *system, *hidden,
        *own_files, *closed,
        "--proc", "/proc", "--dev", "/dev", "--perms", "1777", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
        "--chdir", SCRATCH, "--remount-ro", "/",
    ]  # fmt: skip # a drawn table


def _shown(path: str) -> list[str]:
    if os.path.islink(path) and not path.startswith(str(PACKAGES)):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind-try", path, path]


def _hidden(path: str) -> list[str]:
    if Path(path).is_dir():
        return ["--perms", "0755", "--size", "65536", "--tmpfs", path]
    return ["--ro-bind-try", "/dev/null", path] if Path(path).exists() else []


if __name__ == "__main__":
    keep(
        sys.argv[1], Walls(**json.loads(sys.argv[2])), *(socket.socket(fileno=int(number)) for number in sys.argv[3:5])
    )
