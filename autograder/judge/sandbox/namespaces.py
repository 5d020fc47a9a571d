"""Walls around a student's kernel, as Linux namespaces: no network, a read-only system with no view of home or of the
course, a small private scratch folder, no privileges, limits on everything that can be used up.

A *keeper* process stays outside and watches; inside, a first process builds the walls and waits, and its child, which
runs the student's code, never had a way back. Works as root (then every sandbox has a user id of its own) and, where
user namespaces are allowed, as an ordinary user. Linux ≥ 5.12."""

import os
import resource
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import NoReturn

from autograder.judge.sandbox import mounts
from autograder.judge.sandbox.cgroup import Cgroup, new_cgroup
from autograder.judge.sandbox.keeper import say, watch
from autograder.judge.sandbox.libc import (
    LIBC,
    NEW_CGROUP,
    NEW_IPC,
    NEW_NET,
    NEW_NS,
    NEW_PID,
    NEW_USER,
    NEW_UTS,
    check,
    die_with_parent,
    unshare,
)
from autograder.judge.sandbox.processes import read
from autograder.judge.sandbox.seccomp import NUMBERS, install_filter
from autograder.judge.sandbox.walls import Walls

ROOM = 16  # processes that cells may not use (and a fifth of the memory): what answers the judge needs some


# ---------------------------------------------------------------- the keeper, outside


def confine(main: Callable[[], None], walls: Walls, leash: socket.socket) -> None:
    """Run `main` behind `walls` in a grandchild of this (forked, single-threaded) process and never return.

    leash: its end means "stop", a line "i" on it "interrupt", "alone 7" "end all processes but 7 and the kernel",
    "c 2.5" "another 2.5 seconds of processor time, and then interrupt", "u" asks for what was used; what became of them
    is said on it, a JSON line each: {"alone": "yes"}, {"used": 2.5}, {"over": "time"}, {"ended": …} or {"killed":
    "memory" | "processes" | "time"}."""
    group = new_cgroup(walls)
    try:
        die_with_parent()
        unshare(NEW_PID if os.geteuid() == 0 else NEW_PID | NEW_USER)
        user = own_user()
        first = os.fork()
        if first == 0:
            leash.close()
            first_process(lambda: _wall_in(walls, user, group), main)
        watch(first, walls, leash, group)
    except OSError as error:
        say(leash, ended=f"sandbox: {error}")
    finally:
        os._exit(0)


def own_user() -> int:
    """The user id inside. As root one that no other running sandbox has; else our own, mapped to itself."""
    ids = min(int(read("/proc/self/uid_map").split()[2]), 1 << 31)
    if os.geteuid() != 0 or ids < 1000:
        return os.geteuid()
    return ids - 2 - os.getpid() % (ids // 2)


# ---------------------------------------------------------------- inside


def first_process(wall_in: Callable[[], None], main: Callable[[], None]) -> NoReturn:
    """The first process inside: `wall_in` puts it behind its walls; then it starts the kernel, waits for it, and takes
    the rest down with it."""
    code = 70
    try:
        wall_in()
        code = shepherd(main)
    except BaseException as error:  # nothing may leave this function: above it is a copy of the warm process
        os.write(2, f"sandbox: {error}\n".encode())
    finally:
        os._exit(code)


def _wall_in(walls: Walls, user: int, group: Cgroup | None) -> None:
    if group:
        group.enter()
    unshare(NEW_NS | NEW_NET | NEW_IPC | NEW_UTS | NEW_CGROUP)
    _build(walls, user)
    lower(walls, user)


def shepherd(main: Callable[[], None], alive: int | None = None) -> int:
    """Runs `main` in a child. Its exit status, when it ends; what it left behind is told to end too. alive: a pipe
    whose end ends this process, and with it all inside."""
    die_with_parent()
    LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: without walls too, what loses its parent stays below this one
    os.setsid()
    os.nice(10)  # the keeper must get its turn, whatever goes on in here
    kernel = os.fork()
    if kernel == 0:
        main()
        os._exit(0)
    if alive is not None:
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    LIBC.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: for an ordinary user, the kernel has this process's own user id
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        return _reap(kernel)
    finally:
        os.killpg(0, signal.SIGTERM)


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(70)


def _reap(kernel: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _build(walls: Walls, user: int) -> None:
    """A new root on a tmpfs, with nothing in it but what `walls` shows."""
    places, links = walls.shown()
    closed = walls.closed(places)
    LIBC.sethostname(b"grader", 6)
    mounts.own_view()
    mounts.mount("tmpfs", "/tmp", "tmpfs", mounts.NO_SUID | mounts.NO_DEV, "mode=755,size=1m,nr_inodes=4k")
    os.mkdir("/tmp/.old")
    check(LIBC.syscall(NUMBERS["pivot_root"], b"/tmp", b"/tmp/.old"), "pivot_root")
    os.chdir("/")
    mounts.scratch(walls, "/tmp")  # first: what is shown may lie in /tmp too
    mounts.show(places, links, "/.old")
    for path in closed:
        mounts.hide(path, "/.old")
    mounts.devices(walls, "/dev", "/.old")
    os.mkdir("/proc")
    mounts.mount("proc", "/proc", "proc", mounts.NO_SUID | mounts.NO_DEV)
    mounts.who_is_who(user)
    mounts.unmount("/.old")
    os.rmdir("/.old")
    mounts.close("/dev")
    mounts.close("/", mounts.NO_DEV)


def lower(walls: Walls, user: int) -> None:
    """Give up every privilege for good and take on the limits: this process and all its children."""
    room = {resource.RLIMIT_NPROC: ROOM, resource.RLIMIT_AS: walls.memory // 5}
    for limit, value in _limits(walls).items():
        resource.setrlimit(limit, (value - room.get(limit, 0), value))
    for capability in range(64):
        LIBC.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    if os.geteuid() == 0 and user != 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    check(LIBC.syscall(NUMBERS["capset"], header, nothing), "capset")
    check(LIBC.prctl(38, 1, 0, 0, 0), "no_new_privs")
    install_filter()


def _limits(walls: Walls) -> dict[int, int]:
    """Address space is limited, a little tighter than memory: a MemoryError tells more than a dead kernel."""
    now = int(read("/proc/self/statm").split()[0]) * resource.getpagesize()
    return {
        resource.RLIMIT_AS: now + walls.memory * 9 // 10,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: walls.scratch,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: walls.processes,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
    }
