"""Guard against rot: units run from top to bottom, as released and with the right answers, in fresh environments that
have the oldest versions which pyproject.toml allows, the newest that pip finds, and those of Colab's image.

    python -m autograder.bench.supported_versions [oldest] [newest] [colab] [--units 00 02] [--pin torch==2.13.0+cpu]

A pin is for a machine that can't download gigabytes: PyTorch's own index has builds for the CPU. The supported ranges
stand in one place: `dependencies` in pyproject.toml."""

import argparse
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from nbformat import NotebookNode
from packaging.requirements import Requirement

from autograder import notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course, find_course
from helpers.engine.mime import MIME

COLAB = {"torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0"}  # its image of August 2026
SETS = ("oldest", "newest", "colab")
RUNNER = ["ipykernel", "nbconvert"]
SECONDS = 900


def ranges(course: Course) -> dict[str, str]:
    """What students need, by name: the oldest version of each."""
    project = tomllib.loads((course.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = map(Requirement, project["dependencies"])
    return {one.name: next(part.version for part in one.specifier if part.operator == ">=") for one in found}


def asked(course: Course, name: str, pinned: list[str]) -> list[str]:
    """What pip is asked for in one of the sets."""
    oldest = ranges(course)
    versions = {"oldest": oldest, "newest": {}, "colab": COLAB}[name]
    found = {one: f"{one}=={versions[one]}" if one in versions else one for one in oldest}
    return list((found | {Requirement(pin).name: pin for pin in pinned}).values())


def answered(course: Course, unit: str) -> NotebookNode:
    """The released notebook with all right answers in it."""
    notebook, ours = notebooks.read(course.released(unit)), notebooks.by_id(solved(course, unit))
    for cell in notebook.cells:
        if notebooks.flag(cell, "solution"):
            cell.source = ours[notebooks.grade_id(cell)].source
    return notebook


def lost(notebook: NotebookNode) -> list[str]:
    """The exercises of a notebook that has run which did not earn all their points."""
    return [
        notebooks.exercise_id(cell)
        for cell in notebooks.tests(notebook)
        if not any(
            output.get("data", {}).get(MIME, {}).get("score") == notebooks.points(cell) for output in cell.outputs
        )
    ]


def environment(course: Course, wanted: list[str], folder: Path) -> Path:
    """A fresh environment with the course in it. Returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    for names in ([*wanted, *RUNNER], ["--no-deps", str(course.root)]):
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *names], check=True)
    return python


def run(python: Path, notebook: NotebookNode, folder: Path) -> NotebookNode:
    """The notebook after all its cells have run. Raises CalledProcessError where one fails."""
    path = folder / "notebook.ipynb"
    notebooks.write(notebook, path)
    command: list = [python, "-m", "nbconvert", "--to", "notebook", "--inplace", "--execute", "--log-level=ERROR", path]
    subprocess.run(command, check=True, cwd=folder, timeout=SECONDS)
    return notebooks.read(path)


def tried(course: Course, name: str, units: list[str], pinned: list[str]) -> bool:
    """Runs the units in one set; prints a line for each. Returns whether all is well."""
    well = True
    with tempfile.TemporaryDirectory(prefix="attn-versions-") as scratch:
        try:
            python = environment(course, asked(course, name, pinned), Path(scratch) / "venv")
        except subprocess.CalledProcessError:
            print(f"{name}: pip can't install it (see above)")
            return False
        frozen = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
        has = [line for line in frozen.splitlines() if line.split("==")[0] in (*ranges(course), "triton")]
        print(f"{name}: Python {sys.version.split()[0]}, {', '.join(has)}", flush=True)
        for unit in units:
            try:
                run(python, notebooks.read(course.released(unit)), Path(scratch))
                missing = lost(run(python, answered(course, unit), Path(scratch)))
                said = f"lost points in {', '.join(missing)}" if missing else "released and answered: as they should be"
            except subprocess.SubprocessError as error:
                missing, said = [unit], f"a cell fails: {error}"
            well = well and not missing
            print(f"  {unit}: {said}", flush=True)
    return well


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)}; default: all")
    parser.add_argument("--units", nargs="*", default=["00", "02"])
    parser.add_argument("--pin", nargs="*", default=[], metavar="NAME==VERSION")
    given, course = parser.parse_args(), find_course()
    if unknown := set(given.sets) - set(SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    sys.exit(
        0 if all([tried(course, name, course.chosen(given.units), given.pin) for name in given.sets or SETS]) else 1
    )


if __name__ == "__main__":
    main()
