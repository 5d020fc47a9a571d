"""Starts kernels in the sandbox that was asked for, and says in one line where none works."""

import atexit
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from autograder.border import BorderError, read
from autograder.references import references_out_of_reach
from autograder.sandbox import SandboxError, Walls
from autograder.warm import JUDGE, PACKAGES, STUDENT, Kernel, Warm

NAMESPACES, BUBBLEWRAP, NONE = "namespaces", "bubblewrap", "none"
START_SECONDS = 300.0  # the first kernel waits for the imports of the warm process


class Kernels:
    """Kernels of one sandbox. Keeps a warm process for each role; `close` ends them."""

    def __init__(self, sandbox: str = NAMESPACES, memory: int = Walls.memory):
        self.sandbox, self.memory = sandbox, memory
        self.warm: dict[str, Warm] = {}
        self.units: dict[str, str] = {}
        self.lock = Lock()

    def start(self, role: str, unit: str, limits: Any) -> Kernel:
        """A kernel that gets ready meanwhile; `ready` waits for it."""
        walls, request = replace(walls_of(role, unit), memory=self.memory), request_of(role, unit, limits)
        if self.sandbox == BUBBLEWRAP:
            from autograder import bubblewrap

            return bubblewrap.start(role, walls, request)
        with self.lock:
            return self._warm(role, unit).start(None if self.sandbox == NONE else walls, request)

    def ready(self, kernel: Kernel) -> Kernel:
        """The kernel, when it can run cells. SandboxError, one line, where it never will."""
        try:
            failed = read(kernel.wire.receive(START_SECONDS)).get("failed")
        except BorderError:
            failed = kernel.why()
        if failed is not None:
            raise SandboxError(self._refusal(failed))
        return kernel

    def close(self) -> None:
        for warm in self.warm.values():
            warm.close()
        self.warm.clear()

    def _warm(self, role: str, unit: str) -> Warm:
        """The warm process of this role; the students' is another one for each unit, and only the last is kept."""
        wanted = unit if role == STUDENT else ""
        if role not in self.warm or not self.warm[role].alive or self.units[role] != wanted:
            if role in self.warm:
                self.warm[role].close()
            self.warm[role] = Warm(role, references_out_of_reach(unit) if role == STUDENT else [])
            self.units[role] = wanted
        return self.warm[role]

    def _refusal(self, why: str) -> str:
        if self.sandbox == NONE:
            return f"The kernel did not start: {why or 'no reason given'}."
        return (
            f"The sandbox '{self.sandbox}' does not work here ({why or 'no reason given'}), so nothing is graded. "
            f"`attn doctor` says what this machine can do; `--sandbox none` runs student code without one."
        )


@cache
def kernels(sandbox: str = NAMESPACES) -> Kernels:
    """The kernels of this process, kept until it ends."""
    if sandbox not in (NAMESPACES, BUBBLEWRAP, NONE):
        raise SandboxError(f"There is no sandbox '{sandbox}': choose {NAMESPACES}, {BUBBLEWRAP} or {NONE}.")
    found = Kernels(sandbox)
    atexit.register(found.close)
    return found


def patience() -> float:
    """By how much time limits are stretched: on a machine with too much to do, scores must come out the same."""
    return min(4.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def walls_of(role: str, unit: str) -> Walls:
    """What a kernel sees of this course: students' the helpers without checks and references, the judge's the tests."""
    helpers, ours = PACKAGES / "helpers", PACKAGES / "autograder"
    if role == JUDGE:
        return Walls(readable=(str(helpers), str(ours / "hidden")))
    references = [_file_of(name) for name in references_out_of_reach(unit)]
    compiled = {file.parent / "__pycache__" for file in references}
    hidden = [helpers / "checks", ours, PACKAGES / "solutions", *references, *compiled]
    return Walls(readable=(str(helpers),), hidden=tuple(map(str, hidden)))


def _file_of(module: str) -> Path:
    return PACKAGES / (module.replace(".", "/") + ".py")


def request_of(role: str, unit: str, limits: Any) -> dict:
    """What the kernel's main function is told."""
    call_seconds = max(3.0, limits.cell_seconds / 3) * patience()
    if role == STUDENT:
        return {"out_of_reach": references_out_of_reach(unit), "call_cpu": int(4 * limits.cell_seconds), "seed": 0}
    return {"seed": limits.seed, "call_seconds": call_seconds, "environment": {"ATTENTION_COURSE_SEED": str(limits.seed)}}
