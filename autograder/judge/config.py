"""What the judge is told beside a notebook: limits, the sandbox, and what the kernels see of the course. Plain values,
so that whoever only hands them on imports no torch."""

from dataclasses import dataclass

NAMESPACES, BUBBLEWRAP, USER, NONE = "namespaces", "bubblewrap", "user", "none"
"""Where a student's code can run. `user`, in Gradescope's containers alone: as another user, who sees what all users
see."""

SPARE = "attention_course_picture"
"""The entry in a cell's metadata that says that it need not run."""


@dataclass(frozen=True)
class Limits:
    """What a submission may use, where it runs, and the seed of the checks' inputs; the same for the whole class."""

    cell_seconds: int = 60
    notebook_seconds: int = 600
    seed: int = 20_617
    sandbox: str = NAMESPACES


@dataclass(frozen=True)
class JudgeConfig:
    """What the kernels of one unit see of the course that the notebook belongs to.

    shown: folders that both may read; hidden: what a student's kernel finds empty in them; tests: what the judge's may
    read too. preload: modules that a student's kernel has imported before its first cell; checks: those of the judge's.
    quiet: modules whose functions do nothing there, because others do it elsewhere (checks) or nobody looks (pictures).
    out_of_reach: packages whose functions refuse to be called there."""

    unit: str
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    out_of_reach: tuple[str, ...] = ()
