"""Set a notebook up on any machine, and say in a few words what was found there."""

import contextlib
import importlib.metadata
import os
import platform
import sys
import warnings

import torch
from packaging.requirements import Requirement  # matplotlib brings it along
from packaging.version import Version

UNKNOWN_TRITON = "3.8"
"""The first that nobody has tried (pyproject.toml stays below it)."""


def setup(seed: int = 0) -> None:
    """Seed PyTorch, make plots readable, print a line about this machine, and one for each package that is too old."""
    torch.manual_seed(seed)
    _plot_style()
    warnings.filterwarnings("ignore", "IProgress not found")  # without ipywidgets progress bars are text
    print(f"Python {platform.python_version()}, torch {torch.__version__} on {device_name()}. {triton_mode()} Ready.")
    for line in too_old():
        print(line)


def too_old(course: str = "attention-course") -> list[str]:
    """What to do about packages older than the course supports. Nothing where the course was not installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return [line for wanted in importlib.metadata.requires(course) or [] if (line := _upgrade(Requirement(wanted)))]
    return []


def _upgrade(wanted: Requirement) -> str:
    """How to make a package new enough; "" where it is, or where nobody needs it here."""
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
        return ""
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{wanted.name} is missing: run `%pip install {wanted.name}`, then restart the kernel."
    if wanted.specifier.contains(found, prereleases=True):
        return ""
    return (
        f"{wanted.name} {found} is older than the course supports: run `%pip install -U {wanted.name}`, then "
        "restart the kernel."
    )


def device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name() -> str:
    """What `device()` is, in words."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"the CPU ({cores} core{'s' if cores != 1 else ''})"


def triton_mode() -> str:
    """Whether Triton kernels are compiled, interpreted or can't run here (needed in unit 09 only)."""
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "No Triton: fine until unit 09."
    settle_triton()
    if not interpreted():
        return f"Triton {version}, compiled."
    unknown = Version(version) >= Version(UNKNOWN_TRITON)
    return (
        f"Triton {version}, interpreted{' (newer than the course knows: `attn doctor` tries it)' if unknown else ''}."
    )


def interpreted() -> bool:
    """Whether kernels are interpreted on the CPU (slow, for right answers) and not compiled for a GPU."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")


def settle_triton() -> None:
    """Without a GPU kernels are interpreted. Triton decides that when it is first imported, and PyTorch imports it too
    (to count FLOPs, to make an optimiser): so it is said as soon as the course is imported."""
    if not os.environ.get("TRITON_INTERPRET") and not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def _plot_style() -> None:
    """Quiet axes; sizes that fit a notebook's width. Fonts are asked for by a list, which must not warn."""
    import matplotlib as mpl

    warnings.filterwarnings("ignore", module="matplotlib.font_manager")
    mpl.rcParams.update(
        {
            "figure.dpi": 100,
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.autolayout": True,
        }
    )
    _sharp()


def _sharp() -> None:
    """Pictures in a notebook with two pixels for every one of the page: as large, and sharp on a laptop's screen."""
    if "IPython" not in sys.modules:  # no notebook
        return
    from IPython import get_ipython

    shell = get_ipython()
    if hasattr(shell, "kernel"):
        from matplotlib_inline.config import InlineBackend  # ipykernel brings it along

        InlineBackend.instance(parent=shell).figure_formats = {"retina"}


settle_triton()
