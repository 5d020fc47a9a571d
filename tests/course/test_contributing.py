"""CONTRIBUTING.md is true: its map names what there is and nothing else, its words are the engine's, its example stands
in the files."""

import re
import tomllib

from conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
PATHS = set(re.findall(r"`((?:helpers|autograder|tests|solutions|notebooks)/[\w./]*)`", PROSE))
UNWRITTEN = {
    f"helpers/{unit[3:]}/" for unit in tomllib.loads((ROOT / "solutions" / "syllabus.toml").read_text(encoding="utf-8"))
}


def test_every_path_that_it_names_exists():
    assert len(PATHS) > 40
    assert sorted(path for path in PATHS - UNWRITTEN if not (ROOT / path).exists()) == []


def test_every_room_that_exists_is_named():
    """Folders of ours with Python in them; what lies in a unit's room, or its alternatives, is described once."""
    folders = {
        path.parent for package in ("helpers", "autograder", "tests") for path in (ROOT / package).glob("*/*.py")
    }
    folders |= {path.parent for path in (ROOT / "autograder").glob("*/*/*.py")}
    known = ROOT / "autograder" / "alternatives"
    folders = {folder for folder in folders if "class" not in folder.parts and folder.parent != known}
    rooms = {f"{folder.relative_to(ROOT)}/" for folder in folders}
    assert sorted(rooms - PATHS) == []


def test_modules_beside_the_rooms_are_named():
    modules = {f"helpers/{path.name}" for path in (ROOT / "helpers").glob("*.*") if path.suffix in (".py", ".json")}
    assert sorted(modules - PATHS - {f"helpers/{name}.py" for name in ("__init__", "check", "plots")}) == []


def test_the_vocabulary_is_that_of_the_engine():
    table = PROSE.split("## The vocabulary of checks")[1].split("\n\n")[1]
    words = set(
        re.findall(r"\b([A-Za-z_]+)\b(?=[(=`])", " ".join(line.split("|")[1] for line in table.split("\n")[2:]))
    )
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "helpers").rglob("*.py"))
    assert len(words) > 12
    unknown = {word for word in words if not re.search(rf"\b(class|def) {word}\b|\b{word}:", source)}
    assert unknown <= {"__file__", "common_misconceptions", "n", "d"}  # a module, sizes of the example


def test_the_example_is_what_stands_in_the_files():
    text = (ROOT / "docs" / "example_exercise.md").read_text(encoding="utf-8")
    diff = re.search(r"```diff\n(.*?)\n```", text, re.DOTALL)[1]
    for part in re.split(r"^--- (?=\S+\.)", diff, flags=re.MULTILINE)[1:]:
        name, *lines = part.split("\n")
        there = set((ROOT / name).read_text(encoding="utf-8").split("\n"))
        added = [line[1:] for line in lines if line.startswith("+")]
        assert added, name
        if name.endswith(".py"):  # points go on changing
            assert [line for line in added if line not in there and "points to earn" not in line] == [], name
