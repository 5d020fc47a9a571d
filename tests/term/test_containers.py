"""The image: what it copies is there, is let in, and makes the wheels; nothing of a class is let in."""

import json
import re
import shutil
from fnmatch import fnmatch

from conftest import ROOT
from hatchling.builders.wheel import WheelBuilder

CONTAINERFILE = ROOT / "autograder" / "cluster" / "Containerfile"


def _copied() -> list[tuple[list[str], str]]:
    """What comes from the course folder: names, and where to."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(words[:-1], words[-1]) for words in map(str.split, lines)]


def _is_let_in(name: str) -> bool:
    """As .dockerignore says: the last line that fits counts."""
    found = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if line and not line.startswith("#") and any(fnmatch(part, pattern) for part in _and_folders(name)):
            found = line.startswith("!")
    return found


def _and_folders(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def test_what_is_copied_is_let_in_and_nothing_of_a_class_is():
    names = [name for names, _ in _copied() for name in names]
    assert "helpers" in names and all((ROOT / name).exists() and _is_let_in(name) for name in names)
    kept_out = (".venv", ".git", "autograder/class/gradebook.db", "autograder/class.before-1/x", "roster.csv")
    assert [name for name in (*kept_out, "solutions/02_x/02_x.ipynb", "backups/a.zip") if _is_let_in(name)] == []


def test_the_wheels_are_made_of_what_is_copied(tmp_path):
    for names, where in _copied():
        for name in names if where.startswith("/course") else ():
            target = tmp_path / where.removeprefix("/course/") / ("" if (ROOT / name).is_dir() else name.split("/")[-1])
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("class*", "__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
    for package in (tmp_path, tmp_path / "autograder"):
        assert list(WheelBuilder(str(package)).build(directory=str(tmp_path / "wheels"), versions=["standard"]))
    assert len(list((tmp_path / "wheels").glob("*.whl"))) == 2


def test_a_development_container_is_made_of_the_same_file():
    folder = ROOT / ".devcontainer"
    build = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))["build"]
    assert (folder / build["dockerfile"]).resolve() == CONTAINERFILE
    assert (folder / build["context"]).resolve() == ROOT
