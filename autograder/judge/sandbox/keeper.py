"""The keeper: a process outside that watches a kernel, counts what it uses and ends what takes too much."""

import json
import math
import os
import re
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from autograder.judge.sandbox.cgroup import Cgroup
from autograder.judge.sandbox.processes import below, end_others, interrupt, kill, read
from autograder.judge.sandbox.walls import Walls

GRACE = 3.0  # seconds between a polite stop and the end


def watch(
    first: int,
    walls: Walls,
    leash: socket.socket,
    group: Cgroup | None = None,
    depth: int = 1,
    at_end: Callable[[], None] = lambda: None,
) -> None:
    """Until the first process ends: kill what uses too much, kill all when the leash is dropped.

    group: the control group they are in. depth: how many processes below the first one the kernel is. at_end: what is
    done before its end is told."""
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
            for process in [*below(first), first]:  # bubblewrap's first process does not take the others along
                kill(process)
            break
        if over := clock.over():
            say(leash, **{over: "time"})
            interrupt(first, depth) if over == "over" else kill(first)
        processes = [*below(first)]
        share_one_turn(processes)
        if too_large := meter.too_large(processes):
            say(leash, killed=too_large[1])
            kill(too_large[0])
        if group and group.ended_one():
            say(leash, killed="memory")
    _, status = os.waitpid(first, 0)
    at_end()
    if group:
        group.remove()
    say(leash, ended=_words(os.waitstatus_to_exitcode(status)))


def _obey(first: int, leash: socket.socket, depth: int, clock: "_Clock") -> bool:
    """Does what is asked for on the leash; False if it was dropped."""
    asked = leash.recv(4096)
    for line in asked.decode().splitlines():
        if line == "i":
            interrupt(first, depth)
        elif line == "u":
            say(leash, used=clock.used())
        elif line.startswith("alone"):
            end_others(first, depth, int(line.split()[1]))
            say(leash, alone="yes")
        elif line:
            clock.allow(float(line.split()[1]))
    return bool(asked)


class _Clock:
    """Processor time of all processes under `first`, and how much there may be, whatever others use."""

    def __init__(self, first: int):
        self.first, self.limit, self.said = first, 0.0, False

    def allow(self, seconds: float) -> None:
        """From now on; 0 for no limit."""
        self.limit, self.said = self.used() + seconds if seconds else 0.0, False

    def over(self) -> str:
        """ "over" once when it is used up, "killed" when it goes on all the same."""
        used = self.used() if self.limit else 0.0
        if used <= self.limit:
            return ""
        if not self.said:
            self.said = True
            return "over"
        return "killed" if used > self.limit + GRACE else ""

    def used(self) -> float:
        """Of those that live, and of those that ended and were waited for."""
        fields = (read(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in [self.first, *below(self.first)])
        return sum(int(ticks) for field in fields for ticks in field[11:15]) / os.sysconf("SC_CLK_TCK")


class _Meter:
    """Memory and number of all processes under `first`. The quick sum counts a page shared by two processes twice, so
    only where it is too large the exact and slower one is taken."""

    def __init__(self, first: int, walls: Walls):
        self.first, self.walls, self.next_exact = first, walls, 0.0

    def too_large(self, processes: list[int]) -> tuple[int, str] | None:
        """The process to end, and for what."""
        if len(processes) > 2 * self.walls.processes:
            return self.first, "processes"
        buffers = _socket_buffers(processes[-1]) if processes else 0
        quick = {pid: _kilobytes(pid, "status", ("RssAnon:", "RssShmem:", "VmPTE:")) for pid in processes}
        if sum(quick.values()) * 1024 + buffers <= self.walls.memory or time.monotonic() < self.next_exact:
            return None
        exact = {pid: _pages(pid) for pid in processes}
        self.next_exact = time.monotonic() + 0.1
        if sum(exact.values()) * 1024 + buffers <= self.walls.memory:
            return None
        nobodys = buffers > self.walls.memory // 4
        return self.first if nobodys else max(processes, key=exact.__getitem__), "memory"


def _pages(pid: int) -> int:
    """Kilobytes that a process has for itself, shares of what it shares, and what the kernel needs to map them."""
    return _kilobytes(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) + _kilobytes(pid, "status", ("VmPTE:",))


def _socket_buffers(pid: int) -> int:
    """Bytes that may lie in the sockets of its network namespace, those too that no process holds: each as full as it
    can be (the filter lets nobody ask for more). 0 where that is our own namespace."""
    with suppress(OSError):
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            return 0
    used = re.match(r"sockets: used (\d+)", read(f"/proc/{pid}/net/sockstat"))
    # a message is let in as long as there is any room, so a buffer may hold twice its size
    return 2 * int(used[1]) * int(read("/proc/sys/net/core/wmem_default") or 212_992) if used else 0


def share_one_turn(processes: Iterable[int]) -> None:
    """Lets a sandbox with many sessions have no more processor time than one with one: the scheduler gives each session
    (autogroup) a share of its own, in which `nice` means nothing to others. A step of nice is a factor of 1.25."""
    found = {pid: re.match(r"/(autogroup-\d+) nice (-?\d+)", read(f"/proc/{pid}/autogroup")) for pid in processes}
    ours = read("/proc/self/autogroup").split()[:1]
    sessions = {match[1]: (pid, int(match[2])) for pid, match in found.items() if match and [f"/{match[1]}"] != ours}
    nice = min(19, math.ceil(math.log(len(sessions) or 1, 1.25)))
    for pid, now in sessions.values():
        if now != nice:
            with suppress(OSError):  # it is gone, or an ordinary user has asked too often: next time
                with open(f"/proc/{pid}/autogroup", "w") as file:
                    file.write(str(nice))


def _kilobytes(pid: int, file: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in read(f"/proc/{pid}/{file}").splitlines() if line.startswith(names))


def say(leash: socket.socket, **words: str | float) -> None:
    try:
        leash.sendall(json.dumps(words).encode() + b"\n")
    except OSError:  # nobody listens any more
        pass


def _words(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    return f"signal {signal.Signals(-code).name}"
