"""`attn release`: the folder that a class is given. Notebooks, a wheel of `helpers`, a page for students and the
licence; no solution, no hidden case, nothing of the grader. References and checks are packed (see packed_module.py)."""

import ast
import hashlib
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from autograder import notebooks
from autograder.course import dependencies, repository_url, visibility
from autograder.course.packed_module import PACKED
from autograder.course.paths import LITTER, PACKAGES, Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable

WHEEL = "attention_course-*.whl"
AGENTS = PACKAGES / "autograder" / "course" / "AGENTS.md"
"""What assistants look for in a folder of code: here it asks them to tutor."""
STUB = '''"""Packed, so that nobody reads an answer by accident."""
{public}
import helpers.packed

helpers.packed.unpack(globals())
'''
FIND = """\
try:
    import helpers
except ModuleNotFoundError:  # not installed: take the wheel that came with this notebook{or_fetch}
    import glob

    places = [f"{{place}}/attention_course-*.whl" for place in (".", "..", "../..")]
    wheel = next((name for place in places for name in glob.glob(place)), {address!r})
    if not wheel:
        raise ModuleNotFoundError("Put the file attention_course-….whl beside this notebook.") from None
    get_ipython().run_line_magic("pip", f"install -q --no-deps jaxtyping wadler-lindig {{wheel}}")
"""


def release(
    course: Course, units: list[str], folder: Path, address: str = "", agents: bool = True
) -> tuple[list[Path], Path]:
    """Writes the release of these units into a folder that is empty, or holds an earlier release. address: where
    students can fetch the wheel, or the folder that it will lie in. agents: with what asks AI assistants to tutor.
    Returns the files, below the folder, and the wheel among them. Raises CourseError, and then nothing was written."""
    _check(course, folder, address)
    with tempfile.TemporaryDirectory(prefix="attn-release-") as made:
        new = Path(made) / "release"
        wheel = _wheel(course, units, Path(made) / "wheel", new)
        for unit in units:
            _notebook(course, unit, new, _address(address, wheel.name))
        (new / "README.md").write_text(_readme(course, units, wheel.name), encoding="utf-8")
        shutil.copy(course.root / "LICENSE", new)
        if agents:
            shutil.copy(AGENTS, new)
            (new / "CLAUDE.md").write_text("@AGENTS.md\n", encoding="utf-8")
        try:
            for old in folder.glob(WHEEL) if folder.is_dir() else ():
                old.unlink()
            shutil.copytree(new, folder, dirs_exist_ok=True)
        except OSError as error:
            raise CourseError(f"{error.filename or folder} can't be written ({error.strerror}).") from None
        files = sorted(path.relative_to(new) for path in new.rglob("*") if path.is_file())
    return files, folder / wheel.name


def _check(course: Course, folder: Path, address: str) -> None:
    if address and not re.fullmatch(r"https?://[^\s\"'{}]+", address):
        raise CourseError(
            f"--from {printable(address)[:80]}: an address begins with https:// and has no spaces.", BAD_INPUT
        )
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"{folder} is no folder.", BAD_INPUT)
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob(WHEEL)):
        raise CourseError(f"{folder} holds other things than a release: name a new folder.", BAD_INPUT)
    if folder.resolve() == course.root or course.root in folder.resolve().parents and not _ignored(course, folder):
        raise CourseError(f"{folder} lies in the course itself: name a folder outside of it.", BAD_INPUT)
    if not (course.root / "LICENSE").is_file():
        raise CourseError(f"{course.root / 'LICENSE'} is missing: a release carries the licence.", BAD_INPUT)


def _ignored(course: Course, folder: Path) -> bool:
    """Folders of the course that git never takes."""
    return folder.resolve().relative_to(course.root).parts[0] in ("build", "dist")


def _address(address: str, wheel: str) -> str:
    return address if not address or address.endswith(".whl") else f"{address.rstrip('/')}/{wheel}"


# ---------------------------------------------------------------- notebooks


def _notebook(course: Course, unit: str, new: Path, address: str) -> None:
    """The released notebook, whose setup cell finds the wheel, and what lies beside it."""
    if not course.released(unit).is_file():
        raise CourseError(f"{course.released(unit)} is missing: run `attn build`.", BAD_INPUT)
    target = new / "notebooks" / unit
    shutil.copytree(course.released(unit).parent, target, ignore=LITTER)
    notebook = notebooks.read(course.released(unit))
    setup = notebooks.by_id(notebook).get("setup")
    found = repository_url.setup_code(repository_url.repository_url(course))
    if setup is not None and repository_url.MARK in setup.source:
        if found not in setup.source:
            raise CourseError(f"{course.released(unit)} is not what its source makes: run `attn build`.", BAD_INPUT)
        setup.source = setup.source.replace(found, wheel_setup_code(address))
    if links := repository_url.links(course, unit):  # the button leads to where the answers are
        notebook.cells[0].source = notebook.cells[0].source.replace(f"\n{links}\n", "")
    notebooks.write(notebook, target / f"{unit}.ipynb")


def wheel_setup_code(address: str) -> str:
    """Python that imports `helpers`, or installs it from a wheel."""
    return FIND.format(or_fetch=", or fetch it" if address else "", address=address)


# ---------------------------------------------------------------- the wheel


def _wheel(course: Course, units: list[str], build: Path, new: Path) -> Path:
    """Builds the wheel. Its version tells texts apart: pip replaces no wheel by one of the same version."""
    from hatchling.builders.wheel import WheelBuilder

    files = _with_data(dependencies.required_files(units, _imported(course, units)))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"\0{path.relative_to(PACKAGES)}\0".encode() + path.read_bytes())
        _put(path, build)
    _pack([path for path in files if is_packed(path)], build)
    shutil.copy(PACKAGES / "autograder" / "course" / "packed_module.py", build / "helpers" / "packed.py")
    shutil.copy(course.root / "LICENSE", build)
    (build / "pyproject.toml").write_text(_project(course, int(digest.hexdigest(), 16) % 10**6), encoding="utf-8")
    new.mkdir()
    return Path(next(iter(WheelBuilder(str(build)).build(directory=str(new), versions=["standard"]))))


def _imported(course: Course, units: list[str]) -> Iterator[Path]:
    """What the notebooks' cells import from `helpers`."""
    for unit in units:
        for cell in notebooks.read(course.solved(unit)).cells:
            with suppress(SyntaxError):
                yield from dependencies.imported(ast.parse(cell.source)) if cell.cell_type == "code" else ()


def _with_data(files: Iterable[Path]) -> list[Path]:
    """The files, and what lies beside them that is no module: the weights of a model, say."""
    folders = {path.parent for path in files}
    data = [
        path for folder in folders for path in folder.iterdir() if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    return sorted({*files, *data})


def _put(path: Path, build: Path) -> None:
    target = build / path.relative_to(PACKAGES)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not is_packed(path):
        shutil.copyfile(path, target)
        return
    if path.suffix == ".py":
        target.write_text(STUB.format(public=_public(path.read_text(encoding="utf-8"))), encoding="utf-8")


def _pack(paths: list[Path], build: Path) -> None:
    """The texts of modules and hints, a file a folder: many small ones would take more room together."""
    for folder in {path.parent for path in paths}:
        texts = {path.name: path.read_text(encoding="utf-8") for path in paths if path.parent == folder}
        packed = zlib.compress(json.dumps(texts, ensure_ascii=False).encode(), 9)
        (build / folder.relative_to(PACKAGES) / PACKED).write_bytes(packed)


def is_packed(path: Path) -> bool:
    """Whether a file holds answers: references, checks and their hints do, pictures and the engine don't."""
    inside = path.relative_to(visibility.HELPERS)
    in_room = inside.parts[0] in dependencies.rooms() and not dependencies.is_picture(path)
    told = in_room or path.is_relative_to(PACKAGES / visibility.ANSWERS.replace(".", "/"))
    return path.suffix in (".py", ".md") and path.name != "__init__.py" and told


def _public(text: str) -> str:
    """The module's `__all__`, by which its checks are found without being run (see helpers/registry.py)."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return ast.unparse(node)
    return ""


def _project(course: Course, number: int) -> str:
    """The course's pyproject.toml without the address of the repository, which may be private."""
    path = course.root / "pyproject.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{path} can't be read ({error.strerror}).", BAD_INPUT) from None
    text = re.sub(r"(?m)^\[project\.urls\]\n(?:[^\[\n].*\n|\n)*", "", text)
    return re.sub(r'(?m)^(version = "[^"]+)"', rf'\g<1>.post{number}"', text, count=1)


# ---------------------------------------------------------------- the page for students


def _readme(course: Course, units: list[str], wheel: str) -> str:
    first = f"notebooks/{units[0]}/{units[0]}.ipynb"
    return PAGE.format(wheel=wheel, first=first, rows="\n".join(_row(course, unit) for unit in units))


def _row(course: Course, unit: str) -> str:
    """The unit's row of the course's README; its name alone where that has none."""
    page = course.root / "README.md"
    found = (
        re.search(rf"(?m)^\| \[{unit[:2]}\]\(notebooks/.*$", page.read_text(encoding="utf-8"))
        if page.is_file()
        else None
    )
    return (
        found.group()
        if found
        else f"| [{unit[:2]}](notebooks/{unit}/{unit}.ipynb) | {unit[3:].replace('_', ' ')} | | | |"
    )


PAGE = """\
# Attention, by hand

A course in notebooks. Each exercise has a check that says *what* is wrong, not only that something is.

| unit | | needs | hours | points |
|---|---|---|---|---|
{rows}

You need a computer with Python 3.11 or newer, or a browser and Colab; no GPU. In this folder:

```sh
python3 -m venv .venv && source .venv/bin/activate    # on Windows: .venv\\Scripts\\activate
pip install jupyterlab {wheel}
jupyter lab --notebook-dir=notebooks {first}
```

Open a notebook. Its first code cell says what it found. Fill in a function, run the check below it, read the card.
The `.ipynb` file is your submission: don't delete, copy or rename cells; everything else is yours.

When you are given a newer copy of this folder, save your notebooks, and run `pip install` with the newer wheel.
On Colab upload the notebook, and put the wheel beside it (*Files*, at the left) if the first code cell asks for it.

Code: MIT. Text and pictures of the notebooks: CC BY 4.0. See LICENSE.
"""
