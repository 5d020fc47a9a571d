"""Walls around a student's kernel, as Linux namespaces: no network, a read-only system with no view of home or of the
course, a small private scratch folder, no privileges, limits on everything that can be used up.

A *keeper* process stays outside and watches; inside, a first process builds the walls and waits, and its child, which
runs the student's code, never had a way back. Works as root (then every sandbox has a user id of its own) and, where
user namespaces are allowed, as an ordinary user. Linux ≥ 5.12."""

import ctypes
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import CourseError

MB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEV, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
SCRATCH = "/tmp/work"
GRACE = 3.0  # seconds between a polite stop and the end
ROOM = 16  # processes that cells may not use (and a fifth of the memory): what answers the judge needs some
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/lib32",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/fonts",
    "/etc/alternatives",
)
DEVICES = ("null", "zero", "full", "random", "urandom")


class SandboxError(CourseError):
    """The walls can't be built on this machine; the message is one line."""


@dataclass(frozen=True)
class Walls:
    """What a kernel may see and use up. Sizes in bytes, times in seconds.

    readable: shown read-only, beside what Python needs.
    hidden: files and folders inside the readable ones that are shown empty.
    namespaces: False where there are none, but another user id (see other_user.py)."""

    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    memory: int = 4096 * MB
    scratch: int = 256 * MB
    files: int = 20_000
    processes: int = 96
    call_cpu: int = 120  # of the calls of one test cell
    namespaces: bool = True

    def paths(self) -> list[str]:
        """Everything that is shown: the system's libraries, this Python and its packages, `readable`."""
        python = {sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]}
        wanted = [*SYSTEM, *sorted(python), *self.readable]
        return [path for path in wanted if os.path.lexists(path)]


def environment(packages: Path) -> dict[str, str]:
    """What a kernel's environment is made of: nothing of the grader's own but what finds Python and the fonts."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(packages),
        "PYTHONHASHSEED": "0",  # sets of words in the same order every time
        "OMP_NUM_THREADS": "1",
        "OMP_THREAD_LIMIT": "1",  # a fork of a process with OpenMP threads hangs, whoever asks for four of them
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # graded work is the same on every machine, and a process that uses a GPU can't be forked
        "CUDA_VISIBLE_DEVICES": "",
        "TRITON_INTERPRET": "1",
        "NBGRADER_EXECUTION": "autograde",
    }


# ---------------------------------------------------------------- the keeper, outside


def confine(main: Callable[[], None], walls: Walls, leash: socket.socket) -> None:
    """Run `main` behind `walls` in a grandchild of this (forked, single-threaded) process and never return.

    leash: its end means "stop", a line "i" on it "interrupt", a line "c 2.5" "another 2.5 seconds of processor time,
    and then interrupt"; what became of the kernel is said on it, a JSON line each: {"over": "time"}, {"ended": …} or
    {"killed": "memory" | "processes" | "files" | "time"}."""
    try:
        _die_with_parent()
        _unshare(NEW_PID if os.geteuid() == 0 else NEW_PID | NEW_USER)
        user = own_user()
        first = os.fork()
        if first == 0:
            leash.close()
            _inside(main, walls, user)
        watch(first, walls, leash)
    except OSError as error:
        _say(leash, ended=f"sandbox: {error}")
    finally:
        os._exit(0)


def own_user() -> int:
    """The user id inside. As root one that no other running sandbox has; else our own, mapped to itself."""
    ids = min(int(_read("/proc/self/uid_map").split()[2]), 1 << 31)
    if os.geteuid() != 0 or ids < 1000:
        return os.geteuid()
    return ids - 2 - os.getpid() % (ids // 2)


def _map_user(user: int, group: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def watch(first: int, walls: Walls, leash: socket.socket, depth: int = 1, at_end: Callable = lambda: None) -> None:
    """Until the first process ends: kill what uses too much, kill all when the leash is dropped.

    depth: how many processes below the first one the kernel is. at_end: what is done before its end is told."""
    ended = os.pidfd_open(first)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(leash, select.POLLIN)
    meter, clock = _Meter(first, walls), _Clock(first)
    while True:
        ready = {fd for fd, _ in poll.poll(25)}
        if ended in ready:
            break
        if leash.fileno() in ready and not _obey(first, leash, depth, clock):
            for process in [*_below(first), first]:  # bubblewrap's first process does not take the others along
                _kill(process)
            break
        if over := clock.over():
            _say(leash, **{over: "time"})
            _interrupt(first, depth) if over == "over" else _kill(first)
        if too_large := meter.too_large():
            _say(leash, killed=too_large[1])
            _kill(too_large[0])
    _, status = os.waitpid(first, 0)
    at_end()
    _say(leash, ended=_words(os.waitstatus_to_exitcode(status)))


def _obey(first: int, leash: socket.socket, depth: int, clock: "_Clock") -> bool:
    """Does what is asked for on the leash; False if it was dropped."""
    asked = leash.recv(4096)
    for line in asked.decode().splitlines():
        if line == "i":
            _interrupt(first, depth)
        elif line:
            clock.allow(float(line.split()[1]))
    return bool(asked)


def _interrupt(first: int, depth: int) -> None:
    """Stops the kernel's current cell, as the stop button does."""
    kernel = first
    for _ in range(depth):
        kernel = next(_below(kernel), kernel)
    os.kill(kernel, signal.SIGINT)


class _Clock:
    """Processor time of all processes under `first`, and how much there may be, whatever others use."""

    def __init__(self, first: int):
        self.first, self.limit, self.said = first, 0.0, False

    def allow(self, seconds: float) -> None:
        """From now on; 0 for no limit."""
        self.limit, self.said = self._used() + seconds if seconds else 0.0, False

    def over(self) -> str:
        """ "over" once when it is used up, "killed" when it goes on all the same."""
        used = self._used() if self.limit else 0.0
        if used <= self.limit:
            return ""
        if not self.said:
            self.said = True
            return "over"
        return "killed" if used > self.limit + GRACE else ""

    def _used(self) -> float:
        """Of those that live, and of those that ended and were waited for."""
        fields = (_read(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in [self.first, *_below(self.first)])
        return sum(int(ticks) for field in fields for ticks in field[11:15]) / os.sysconf("SC_CLK_TCK")


class _Meter:
    """Memory and number of all processes under `first`. The quick sum counts a page shared by two processes twice, so
    only where it is too large the exact and slower one is taken."""

    def __init__(self, first: int, walls: Walls):
        self.first, self.walls, self.next_exact = first, walls, 0.0

    def too_large(self) -> tuple[int, str] | None:
        processes = [*_below(self.first)]
        if len(processes) > 2 * self.walls.processes:
            return self.first, "processes"
        if processes and _files(processes[-1]) > 3 * self.walls.files:
            return self.first, "files"
        quick = {pid: _kilobytes(pid, "status", ("RssAnon:", "RssShmem:")) for pid in processes}
        if sum(quick.values()) * 1024 <= self.walls.memory or time.monotonic() < self.next_exact:
            return None
        exact = {pid: _kilobytes(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in processes}
        self.next_exact = time.monotonic() + 0.1
        if sum(exact.values()) * 1024 <= self.walls.memory:
            return None
        return max(processes, key=exact.__getitem__), "memory"


def _below(pid: int):
    """The processes started by `pid`, and theirs."""
    for thread in _entries(f"/proc/{pid}/task"):
        for child in _read(f"/proc/{pid}/task/{thread}/children").split():
            yield int(child)
            yield from _below(int(child))


def _files(pid: int) -> int:
    """Files and folders in the scratch of a sandbox: not every sandbox can limit them itself."""
    count = 0
    for folder in ("/tmp", "/dev/shm"):
        try:
            if os.stat(f"/proc/{pid}/root{folder}").st_dev != os.stat(folder).st_dev:  # else it has no own one (yet)
                place = os.statvfs(f"/proc/{pid}/root{folder}")
                count += place.f_files - place.f_ffree
        except OSError:
            pass
    return count


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:  # gone meanwhile
        return []


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _kilobytes(pid: int, file: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in _read(f"/proc/{pid}/{file}").splitlines() if line.startswith(names))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _say(leash: socket.socket, **words: str) -> None:
    try:
        leash.sendall(json.dumps(words).encode() + b"\n")
    except OSError:  # nobody listens any more
        pass


def _words(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    return f"signal {signal.Signals(-code).name}"


# ---------------------------------------------------------------- inside


def _inside(main: Callable[[], None], walls: Walls, user: int) -> None:
    """The first process inside: builds the walls, starts the kernel, waits for it, and takes the rest down with it."""
    code = 70
    try:
        _unshare(NEW_NS | NEW_NET | NEW_IPC | NEW_UTS | NEW_CGROUP)
        _build(walls, user)
        lower(walls, user)
        code = shepherd(main)
    except BaseException as error:  # nothing may leave this function: above it is a copy of the warm process
        os.write(2, f"sandbox: {error}\n".encode())
    finally:
        os._exit(code)


def shepherd(main: Callable[[], None], alive: int | None = None) -> int:
    """Runs `main` in a child. Its exit status, when it ends; what it left behind is told to end too. alive: a pipe
    whose end ends this process, and with it all inside."""
    _die_with_parent()
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
    shown = walls.paths()
    LIBC.sethostname(b"grader", 6)
    _mount("none", "/", None, RECURSIVE | SLAVE)
    _mount("tmpfs", "/tmp", "tmpfs", NO_SUID | NO_DEV, "mode=755,size=1m,nr_inodes=4k")
    os.mkdir("/tmp/.old")
    _check(LIBC.syscall(_NUMBERS["pivot_root"], b"/tmp", b"/tmp/.old"), "pivot_root")
    os.chdir("/")
    _scratch(walls, user)  # first: what is shown may lie in /tmp too
    for path in shown:
        _show(path)
    for path in walls.hidden:
        _hide(path)
    _devices(walls)
    os.mkdir("/proc")
    _mount("proc", "/proc", "proc", NO_SUID | NO_DEV)
    _who_is_who(user)
    _check(LIBC.umount2(b"/.old", 2), "umount")
    os.rmdir("/.old")
    _mount("none", "/", None, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEV)


def _show(path: str) -> None:
    old = "/.old" + path
    if os.path.islink(old):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.lexists(path):
            os.symlink(os.readlink(old), path)
        path = _inside_old(path)
        old = "/.old" + path
    if not os.path.exists(path):
        _touch(path, os.path.isdir(old))
        _mount(old, path, None, BIND | RECURSIVE)
        _read_only(path)


def _inside_old(path: str) -> str:
    """Where a link ends, seen from the old root."""
    while os.path.islink("/.old" + path):
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink("/.old" + path)))
    return path


def _hide(path: str) -> None:
    if os.path.isdir(path):
        _mount("tmpfs", path, "tmpfs", READ_ONLY | NO_SUID | NO_DEV, "mode=755,size=4k")
    elif os.path.exists(path):
        _mount("/.old/dev/null", path, None, BIND)


def _touch(path: str, folder: bool) -> None:
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644))


def _devices(walls: Walls) -> None:
    os.mkdir("/dev")
    for name in DEVICES:
        _touch(f"/dev/{name}", folder=False)
        _mount(f"/.old/dev/{name}", f"/dev/{name}", None, BIND)
    os.mkdir("/dev/shm")
    _mount("tmpfs", "/dev/shm", "tmpfs", NO_SUID | NO_DEV, f"mode=1777,size={walls.scratch},nr_inodes=1k")
    os.mkdir("/dev/pts")
    _mount("devpts", "/dev/pts", "devpts", NO_SUID, "newinstance,ptmxmode=0666,mode=600")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        os.symlink(target, f"/dev/{link}")


def _scratch(walls: Walls, user: int) -> None:
    os.mkdir("/tmp")
    _mount("tmpfs", "/tmp", "tmpfs", NO_SUID | NO_DEV, f"mode=1777,size={walls.scratch},nr_inodes={walls.files}")
    for folder in (SCRATCH, "/tmp/home"):
        os.mkdir(folder)
        os.chown(folder, user, -1)


def _who_is_who(user: int) -> None:
    os.makedirs("/etc", exist_ok=True)
    Path("/etc/passwd").write_text(f"student:x:{user}:{user}::/tmp/home:/bin/sh\n")
    Path("/etc/group").write_text(f"student:x:{user}:\n")


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
    _check(LIBC.syscall(_NUMBERS["capset"], header, nothing), "capset")
    _check(LIBC.prctl(38, 1, 0, 0, 0), "no_new_privs")
    _filter()


def _limits(walls: Walls) -> dict[int, int]:
    """Address space is limited, a little tighter than memory: a MemoryError tells more than a dead kernel."""
    now = int(_read("/proc/self/statm").split()[0]) * resource.getpagesize()
    return {
        resource.RLIMIT_AS: now + walls.memory * 9 // 10,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: walls.scratch,
        resource.RLIMIT_NOFILE: 512,
        resource.RLIMIT_NPROC: walls.processes,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
    }


# ---------------------------------------------------------------- system calls that no course needs

# New namespaces, mounts and kernel interfaces widen what can be attacked; memory that no process has mapped (memfd,
# System V) would not be seen by the keeper.
_DENIED = {
    "x86_64": {"unshare": 272, "setns": 308, "clone3": 435, "mount": 165, "umount2": 166, "pivot_root": 155,
               "move_mount": 429, "fsopen": 430, "open_tree": 428, "ptrace": 101, "process_vm_readv": 310,
               "process_vm_writev": 311, "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68,
               "mq_open": 240, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
               "userfaultfd": 323, "io_uring_setup": 425, "open_by_handle_at": 304, "pidfd_getfd": 438, "chroot": 161,
               "capset": 126},
    "aarch64": {"unshare": 97, "setns": 268, "clone3": 435, "mount": 40, "umount2": 39, "pivot_root": 41,
                "move_mount": 429, "fsopen": 430, "open_tree": 428, "ptrace": 117, "process_vm_readv": 270,
                "process_vm_writev": 271, "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186,
                "mq_open": 180, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
                "userfaultfd": 282, "io_uring_setup": 425, "open_by_handle_at": 265, "pidfd_getfd": 438, "chroot": 51,
                "capset": 91},
}  # fmt: skip # a drawn table
_MACHINE = platform.machine()
_NUMBERS = _DENIED.get(_MACHINE, {})
_ARCH, _CLONE = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}.get(_MACHINE, (0, 0))
_ALLOW, _REFUSE, _ABSENT = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM; ENOSYS, so that glibc takes clone for clone3


@dataclass
class _Program:
    """A seccomp filter, instruction by instruction."""

    code: bytes = b""

    def add(self, operation: int, value: int, yes: int = 0, no: int = 0) -> None:
        self.code += struct.pack("HBBI", operation, yes, no, value)

    def unless(self, number: int, verdict: int) -> None:
        self.add(0x15, number, 0, 1)
        self.add(0x06, verdict)


def _filter() -> None:
    load, jump_ge, jump_set, give = 0x20, 0x35, 0x45, 0x06
    program = _Program()
    program.add(load, 4)
    program.add(0x15, _ARCH, 1, 0)
    program.add(give, _REFUSE)
    program.add(load, 0)
    program.add(jump_ge, 0x40000000, 0, 1)  # the x32 calls have other numbers for the same things
    program.add(give, _REFUSE)
    for name, number in _NUMBERS.items():
        program.unless(number, _ABSENT if name == "clone3" else _REFUSE)
    program.add(0x15, _CLONE, 0, 3)
    program.add(load, 16)
    program.add(jump_set, NEW_NS | NEW_USER | NEW_PID | NEW_NET | NEW_IPC | NEW_UTS | NEW_CGROUP, 0, 1)
    program.add(give, _REFUSE)
    program.add(give, _ALLOW)
    buffer = ctypes.create_string_buffer(program.code)
    pointer = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program.code) // 8, ctypes.addressof(buffer)))
    _check(LIBC.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(pointer)), 0, 0), "seccomp")


# ---------------------------------------------------------------- calls into libc


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _unshare(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _check(LIBC.unshare(flags), "unshare")
    if flags & NEW_USER:
        _map_user(user, group)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    call = LIBC.mount(
        source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _check(call, f"mount {target}")


def _read_only(path: str) -> None:
    """Read-only with everything that is mounted below it: mount_setattr(AT_RECURSIVE)."""
    attributes = struct.pack("QQQQ", READ_ONLY | NO_SUID | NO_DEV, 0, 0, 0)
    _check(LIBC.syscall(442, -100, path.encode(), 0x8000, attributes, len(attributes)), f"mount_setattr {path}")


def _die_with_parent() -> None:
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)
