"""Starts kernels in the sandbox that was asked for, and says in one line where none works."""

import atexit
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any

from autograder.judge.config import BUBBLEWRAP, NAMESPACES, NONE, USER, Limits
from autograder.judge.fork_server import JUDGE, STUDENT, WarmProcess, branch
from autograder.judge.fork_server_client import ForkServer, take_fork_server
from autograder.judge.kernel import Kernel
from autograder.judge.protocol import BorderError, read
from autograder.judge.sandbox import apparmor
from autograder.judge.sandbox.walls import SandboxError, Walls
from autograder.judge.wall_time import wall_limit

TRIES = 4  # of a kernel whose warm process ends before it is there
START_SECONDS = 300.0  # the first kernel waits for the imports of the warm process


class KernelManager:
    """Kernels of one sandbox. Keeps the fork server, and a branch for each role and unit; `close` ends them."""

    def __init__(self, sandbox: str = NAMESPACES, memory: int = Walls.memory):
        self.sandbox, self.memory = sandbox, memory
        self.root: ForkServer | None = None
        self.seeds: dict[Any, int] = {}  # of units that a whole class hands in
        self.warm: dict[tuple[str, Any], WarmProcess] = {}
        self.lock = Lock()

    def prepare(self, config: Any, seed: int | None = None) -> None:
        """Lets the warm processes import what they need while the grader does something else. With the seed of a whole
        class, they also find out what is the same for all of it."""
        if seed is not None:
            self.seeds[config] = seed
        if self.sandbox != BUBBLEWRAP:
            with self.lock:
                for role in (JUDGE, STUDENT):
                    self._warm(role, config)

    def start(self, role: str, config: Any, limits: Any) -> Kernel:
        """A kernel that gets ready meanwhile; `ready` waits for it."""
        walls, request = replace(walls_of(role, config), memory=self.memory), request_of(role, config, limits)
        if self.sandbox == BUBBLEWRAP:
            from autograder.judge.sandbox import bubblewrap

            return bubblewrap.start(role, walls, request)
        with self.lock:
            warm = self._warm(role, config)
            kernel = warm.start(self._around(role, walls), request)
        kernel.lost = lambda: None if warm.alive else self.start(role, config, limits)
        return kernel

    def _around(self, role: str, walls: Walls) -> Walls | None:
        if self.sandbox == NAMESPACES:
            return walls
        return replace(walls, namespaces=False) if self.sandbox == USER and role == STUDENT else None

    def ready(self, kernel: Kernel) -> Kernel:
        """The kernel, when it can run cells; another one where its warm process was ended from outside before it was
        there. SandboxError, one line, where it never will."""
        for _ in range(TRIES):
            try:
                failed = read(kernel.wire.receive(START_SECONDS)).get("failed")
            except BorderError:
                failed = kernel.why()
                if not failed and (another := kernel.lost()):
                    kernel.close()
                    kernel = another
                    continue
            if failed is not None:
                raise SandboxError(self._refusal(failed))
            return kernel
        kernel.close()
        raise SandboxError(self._refusal(f"its warm process ended {TRIES} times before a kernel was there"))

    def close(self) -> None:
        for warm in self.warm.values():
            warm.close()
        self.warm.clear()
        if self.root:
            self.root.close()
        self.root = None

    def _warm(self, role: str, config: Any) -> WarmProcess:
        """The warm process of this role and unit; a new one where it has been ended from outside."""
        found = self.warm.get((role, config))
        if found and found.alive:
            return found
        if found:
            found.close()
        if self.root is None or not self.root.alive:
            self.root = take_fork_server()
        seed = {"seed": self.seeds[config]} if role == JUDGE and config in self.seeds else {}
        self.warm[role, config] = branch(self.root, role, imports_of(role, config) | seed)
        return self.warm[role, config]

    def _refusal(self, why: str) -> str:
        if self.sandbox == NONE:
            return f"The kernel did not start: {why or 'no reason given'}."
        if apparmor.restricts():
            return f"The sandbox '{self.sandbox}' does not work here: {apparmor.WHY}. {apparmor.ADVICE}"
        return (
            f"The sandbox '{self.sandbox}' does not work here ({why or 'no reason given'}), so nothing is graded. "
            f"`attn doctor` says what this machine can do; `--sandbox none` runs student code without one."
        )


@cache
def kernel_manager(sandbox: str = NAMESPACES) -> KernelManager:
    """The kernels of this process, kept until it ends."""
    if sandbox not in (NAMESPACES, BUBBLEWRAP, USER, NONE):
        raise SandboxError(f"There is no sandbox '{sandbox}': choose {NAMESPACES}, {BUBBLEWRAP} or {NONE}.")
    found = KernelManager(sandbox)
    atexit.register(found.close)
    return found


def works(sandbox: str, config: Any) -> bool:
    """Whether a student's kernel starts in this sandbox here."""
    kernels = kernel_manager(sandbox)
    try:
        kernels.ready(kernels.start(STUDENT, config, Limits(sandbox=sandbox))).close()
    except SandboxError:
        kernels.close()
        return False
    return True


def walls_of(role: str, config: Any) -> Walls:
    """What a kernel may read: see JudgeConfig."""
    if role == JUDGE:
        return Walls(readable=(*config.shown, *config.tests))
    return Walls(readable=config.shown, hidden=config.hidden)


def imports_of(role: str, config: Any) -> dict:
    """What a kernel has imported before its first cell, and what a student's gets in the place of other modules."""
    if role == JUDGE:
        return {"preload": config.checks}
    return {"preload": config.preload, "quiet": config.quiet, "out_of_reach": config.out_of_reach}


def request_of(role: str, config: Any, limits: Any) -> dict:
    """What the kernel's main function is told."""
    call_seconds = max(3.0, limits.cell_seconds / 3)
    if role == STUDENT:
        cpu = {"call_seconds": call_seconds, "call_cpu": int(4 * limits.cell_seconds)}
        return {"imports": imports_of(role, config), "seed": 0, **cpu}
    return {
        "imports": imports_of(role, config),
        "seed": limits.seed,
        "call_seconds": wall_limit(call_seconds),
        "environment": {"ATTENTION_COURSE_SEED": str(limits.seed)},
    }
