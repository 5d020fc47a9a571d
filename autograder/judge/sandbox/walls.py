"""What a kernel may see and use up. What is shown is a list of what a kernel needs; whatever else lies on this machine
is not there, a copy of the course beside that list neither."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import escape, glob
from pathlib import Path

from autograder.errors import CourseError

MB = 1 << 20
SCRATCH = "/tmp/work"
PACKAGES = Path(__file__).resolve().parents[3]
COPIES = ("helpers", "autograder")
"""The packages of the course's two wheels, wherever they are installed."""
SYSTEM = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/etc/alternatives"),
)
PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "etc/fonts", "ssl", "pyvenv.cfg")
SHARED = (
    *("ca-certificates", "file", "fontconfig", "fonts", "i18n", "icu", "locale", "mime", "misc", "perl", "perl5"),
    *("tabset", "tcltk", "terminfo", "texlive", "texmf", "texmf-dist", "zoneinfo"),
)
"""What is shown of /usr, /usr/local and the folders of Python, and of `share` in each of them."""


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

    def shown(self) -> tuple[list[str], dict[str, str]]:
        """All that is shown: places without a link in their paths, none inside another, and the links that lead there:
        the system's programs and libraries, this Python and its packages, `readable`."""
        python = [sys.executable, *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))]
        wanted = [*SYSTEM, *(f"{prefix}/{part}" for prefix in _prefixes() for part in _parts()), *python]
        links: dict[str, str] = {}
        places = {_real(path, links) for path in wanted if os.path.exists(path)}
        places = {_real(part, links) for place in places for part in _without(place, str(PACKAGES))}
        places |= {_real(path, links) for path in self.readable if os.path.exists(path)}
        tops = [place for place in sorted(places) if not _inside(place, places - {place})]
        return tops, {link: target for link, target in links.items() if not _inside(link, tops)}

    def closed(self, shown: list[str]) -> list[str]:
        """Shown empty: `hidden`, packages of other Pythons, and copies of the course among this one's."""
        own = {os.path.realpath(folder) for folder in sys.path}
        empty = {os.path.realpath(folder) for folder in _package_folders()} - own
        copies = {f"{folder}/{name}" for folder in own for name in COPIES if folder.endswith("-packages")}
        copies = {copy for copy in copies if not any(_inside(place, [copy]) for place in self.readable)}
        wanted = [*self.hidden, *sorted(empty), *sorted(copies)]
        return [path for path in wanted if os.path.exists(path) and _inside(path, shown)]


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


def _prefixes() -> list[str]:
    return list(dict.fromkeys(("/usr", "/usr/local", sys.prefix, sys.base_prefix)))


def _parts() -> Iterator[str]:
    yield from PROGRAMS
    yield from (f"share/{name}" for name in SHARED)


def _package_folders() -> Iterator[str]:
    for prefix in _prefixes():
        yield from glob(f"{escape(prefix)}/lib*/python*/*-packages")


def _inside(path: str, places: Iterable[str]) -> bool:
    """Whether the path is one of these places, or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _real(path: str, links: dict[str, str]) -> str:
    """The path without links; those on the way are noted, as what they say by where they are."""
    at, parts = "/", [*reversed(Path(path).parts[1:])]
    while parts:
        here = os.path.join(at, parts.pop())
        if os.path.islink(here):
            links[here] = os.readlink(here)
            parts += reversed(Path(os.path.normpath(os.path.join(at, links[here]))).parts[1:])
            here = "/"
        at = here
    return at


def _without(place: str, closed: str) -> Iterator[str]:
    """The place, or, where `closed` lies in it, its parts without that and without links to it."""
    if closed.endswith("-packages") or not _inside(closed, [place]):  # a wheel is closed by the names of its packages
        yield place
    elif place != closed:
        for part in os.scandir(place):
            if not part.is_symlink():
                yield from _without(part.path, closed)
            elif not _inside(os.path.realpath(part.path), [closed]):
                yield part.path
