"""What a class is given: it works alone, and no answer lies open in it."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, install_wheels

from autograder import notebooks
from autograder.course import dependencies, release, visibility
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.grading import intake
from autograder.grading.mark import restore_locked_cells

UNIT = "02_qkv_attention"
RUN = """
import inspect, json, sys
cells, found, names = json.loads(sys.stdin.read()), {}, {}
for name, source in cells.items():
    if name.endswith("_test"):
        found[name.removesuffix("_test")] = float(eval(source, names))
    else:
        exec(source, names)
import helpers
from helpers.qkv_attention import attention
from helpers.qkv_attention.checks import permutation_equivariance as checks
hidden = []
for function in (attention.scaled_dot_product_attention, checks.running_mean):
    try:
        inspect.getsource(function)
    except OSError:
        hidden.append(function.__name__)
print(json.dumps({"file": helpers.__file__, "points": found, "hidden": hidden, "module": inspect.getsource(attention)}))
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Unit 02, released, and its wheel installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("class")
    _, wheel = release.release(Course(ROOT), [UNIT], folder / "given", "https://x.org/wheels")
    install_wheels([wheel], folder / "installed")
    return folder / "given", folder / "installed"


def _cells(given: Path) -> dict:
    return notebooks.by_id(notebooks.read(given / "notebooks" / UNIT / f"{UNIT}.ipynb"))


def test_a_right_answer_earns_its_points_with_the_wheel_alone(released, tmp_path):
    given, installed = released
    solved = notebooks.by_id(notebooks.read(Course(ROOT).solved(UNIT)))
    cells = _cells(given)
    wanted = {"setup": cells["setup"].source}
    for name in ("softmax", "scaled_dot_product_attention"):
        wanted |= {name: solved[name].source, f"{name}_test": cells[f"{name}_test"].source}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(wanted),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(installed), "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["file"].startswith(str(installed))
    assert found["points"] == {name: float(cells[f"{name}_test"].metadata.nbgrader.points) for name in found["points"]}
    assert found["points"] and found["hidden"] == ["scaled_dot_product_attention", "running_mean"]
    assert "unpack" in found["module"] and "softmax" not in found["module"]


def test_no_file_holds_the_text_of_a_solution(released):
    """Of code that says anything: `return n` stands everywhere."""
    texts = {
        path: "".join(path.read_text(encoding="utf-8", errors="ignore").split())
        for folder in released
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".whl", ".npz", ".pyc")
    }
    bodies = []
    for cell in notebooks.read(Course(ROOT).solved(UNIT)).cells:
        for body in re.findall(
            r"### BEGIN (?:SOLUTION|HIDDEN TESTS|MARK SCHEME)\n(.*?)### END", cell.source, re.DOTALL
        ):
            lines = [line for line in body.splitlines() if not line.strip().startswith("#")]
            bodies += ["".join("".join(lines).split())]
    told = [text for text in bodies if len(text) > 20]
    assert len(told) > 12
    assert [(path.name, text[:60]) for path, content in texts.items() for text in told if text in content] == []


def test_what_is_in_it(released):
    given, installed = released
    names = {path.relative_to(given).as_posix() for path in given.rglob("*") if path.is_file()}
    wheel = next(name for name in names if name.endswith(".whl"))
    assert names == {"AGENTS.md", "CLAUDE.md", "LICENSE", "README.md", wheel, f"notebooks/{UNIT}/{UNIT}.ipynb"}
    inside = zipfile.ZipFile(given / wheel).namelist()
    rooms = {name.split("/")[1] for name in inside if name.count("/") > 1} & dependencies.rooms()
    assert rooms == {"qkv_attention"}, "what later units ask is not given out with this one"
    assert not [name for name in inside if "autograder" in name or "hidden" in name or "solutions" in name]
    assert [name for name in inside if name.endswith(".md")] == ["helpers/engine/plain_errors.md"]
    packed = [path for path in dependencies.required_files([UNIT]) if release.is_packed(path)]
    folders = {path.relative_to(visibility.HELPERS.parent).parent for path in packed}
    assert {(folder / "packed.bin").as_posix() for folder in folders} <= set(inside)
    page = (given / "README.md").read_text()
    assert wheel in page and f"(notebooks/{UNIT}/{UNIT}.ipynb)" in page and "OWNER" not in page


@pytest.mark.parametrize("place", ["", "notebooks", f"notebooks/{UNIT}"])
def test_a_setup_cell_finds_the_wheel_or_fetches_it(released, place, monkeypatch):
    given, _ = released
    setup = _cells(given)["setup"].source
    code, asked = setup[: setup.index("import math")], []
    shell = type("Shell", (), {"run_line_magic": lambda self, *what: asked.append(what)})()
    monkeypatch.setitem(sys.modules, "helpers", None)
    monkeypatch.chdir(given / place)
    exec(code, {"get_ipython": lambda: shell})
    monkeypatch.chdir("/")
    exec(code, {"get_ipython": lambda: shell})
    (_, near), (_, far) = asked
    assert (given / place / near.split()[-1]).resolve().is_file()
    assert re.fullmatch(r"https://x\.org/wheels/attention_course-0\.1\.0\.post\d+-py3-none-any\.whl", far.split()[-1])
    with pytest.raises(ModuleNotFoundError, match="beside this notebook"):
        exec(release.wheel_setup_code(""), {"get_ipython": lambda: shell})


def test_the_same_course_makes_the_same_release(released, tmp_path):
    given, _ = released
    files, _ = release.release(Course(ROOT), [UNIT], tmp_path / "again", "https://x.org/wheels")
    assert all((tmp_path / "again" / name).read_bytes() == (given / name).read_bytes() for name in files)


def test_a_filled_in_release_is_graded_as_any_other_notebook(released):
    """Its setup cell is not the repository's: the grader puts its own there, and has nothing to repair."""
    given, _ = released
    course, data = Course(ROOT), (given / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()
    assert intake.read_file(course, given / "notebooks" / UNIT / f"{UNIT}.ipynb")[1] == UNIT
    ready = notebooks.parse(intake.prepare_notebook(course, UNIT, data))
    assert ready.metadata.get(notebooks.STAMP, {}).get("repairs", []) == []
    original = notebooks.read(course.solved(UNIT))
    restore_locked_cells(ready, original)
    assert notebooks.by_id(ready)["setup"].source == notebooks.by_id(original)["setup"].source


@pytest.mark.parametrize(
    ("make", "address", "told"),
    [
        (lambda folder: (folder / "thesis.txt").write_text("x"), "", "other things than a release"),
        (lambda folder: None, "x.org/it", "begins with https://"),
        (lambda folder: None, 'https://x.org/"+evil', "has no spaces"),
    ],
)
def test_what_can_not_be_released_is_one_line(course, tmp_path, make, address, told):
    make(tmp_path)
    with pytest.raises(CourseError, match=told):
        release.release(course, course.units(), tmp_path, address)


def test_the_command(real_course, attn, tmp_path):
    done = attn(real_course, "release", str(tmp_path / "given"), "00", "--from", "https://x.org")
    assert done.exit_code == 0 and "1 unit, 6 files" in done.output
    assert (tmp_path / "given" / "notebooks" / "00_start_here" / "00_start_here.ipynb").is_file()
    assert "tutor" in (tmp_path / "given" / "AGENTS.md").read_text()
    assert attn(real_course, "release", str(tmp_path / "given"), "00").exit_code == 0, "an earlier release is replaced"
    assert "1 unit, 4 files" in attn(real_course, "release", str(tmp_path / "alone"), "00", "--no-agents").output
    assert len(list((tmp_path / "given").glob("*.whl"))) == 1
    assert "lies in the course" in attn(real_course, "release", str(ROOT / "given"), "00").output
