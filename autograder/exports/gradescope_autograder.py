"""`attn gradescope-zip`: an autograder for Gradescope. Its `setup.sh` installs the course's two wheels, its
`run_autograder` marks the one notebook that was handed in and writes `results.json`. Written answers are left to its
rubrics."""

import json
import os
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from autograder.course.paths import CONFIG, PACKAGES, SYLLABUS, Course
from autograder.errors import CourseError
from autograder.judge.sandbox.other_user import adopt_orphans, end_descendants
from autograder.whole_files import replaced, write_whole

SETUP = """\
#!/usr/bin/env bash
# Run once, as root, when Gradescope builds the image. The Python of its Ubuntu 22.04 is too old: uv brings another one.
set -e
apt-get update && apt-get install -y --no-install-recommends python3-pip ca-certificates gcc libc6-dev
python3 -m pip install --target /autograder/uv uv==0.13.9
export PATH="/autograder/uv/bin:$PATH" UV_COMPILE_BYTECODE=1
export UV_PYTHON_INSTALL_DIR=/autograder/python  # where the user that student code runs as can read it
uv venv --python "${UV_PYTHON:-3.11}" /autograder/venv
install() { uv pip install --python /autograder/venv "$@"; }
cd /autograder/source
install --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"
install -c constraints.txt wheels/*.whl
"""
BROKEN_OFF = (
    "Grading was broken off, by too little memory or time or by a fault of the grader's. What you handed in is safe: "
    "hand it in once more, and tell your instructor if this stays."
)
RUN = f"""\
#!/usr/bin/env bash
# Run for every submission. AUTOGRADER and PYTHON are other than here only where this file is tried.
base="${{AUTOGRADER:-/autograder}}"
export ATTN_COURSE="$base/source/course" OMP_NUM_THREADS=1
python="${{PYTHON:-/autograder/venv/bin/python}}"
chmod go= "$base/source" && chmod go-w "$base/results"  # student code runs as another user
cat > "$base/results/results.json" << 'END'  # replaced at the end: without it nobody would see why there is no score
{json.dumps({"score": 0.0, "output": BROKEN_OFF, "visibility": "visible", "tests": []})}
END
cd "$base/source/course" &&
"$python" -m autograder.exports.gradescope_autograder "$base/submission" "$base/results/results.json"
exit 0
"""
TO_SET = (
    "At Gradescope: base image Ubuntu 22.04; in the assignment's settings 1 CPU, 1.5 GB of memory (the 768 MB of a new "
    "one are too few) and a timeout of 20 minutes."
)


def make_autograder(course: Course, unit: str, into: Path | None = None) -> Path:
    """Writes the zip. Raises CourseError."""
    path = into or course.classroom / f"gradescope-{unit}.zip"
    if not course.solved(unit).is_file():
        raise CourseError(f"{course.solved(unit)} is missing: run `attn build`.")
    with tempfile.TemporaryDirectory(prefix="attn-gradescope-") as folder:
        source = Path(folder)
        _fill(course, unit, source)
        try:
            with replaced(path) as half, zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in sorted(one for one in source.rglob("*") if one.is_file()):
                    archive.write(file, file.relative_to(source))
        except OSError as error:
            raise CourseError(f"{path} can't be written ({error.strerror}).") from None
    return path


def _fill(course: Course, unit: str, source: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    for package in (PACKAGES, PACKAGES / "autograder"):
        if not (package / "pyproject.toml").is_file():
            raise CourseError(f"{package / 'pyproject.toml'} is missing: make the zip in the course's repository.")
        list(WheelBuilder(str(package)).build(directory=str(source / "wheels"), versions=["standard"]))
    for name, text in (("setup.sh", SETUP), ("run_autograder", RUN)):
        (source / name).write_text(text)
        (source / name).chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    shutil.copy(PACKAGES / "constraints.txt", source)
    inside = source / "course" / "solutions"
    shutil.copytree(course.solved(unit).parent, inside / unit, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(course.solutions / SYLLABUS, inside)
    shutil.copy(course.root / CONFIG, source / "course")


# ---------------------------------------------------------------- at Gradescope


def run(submission: Path, results: Path) -> dict[str, Any]:
    """Marks what was handed in and writes results.json. Whatever is wrong with it is a line for the student.

    All that this process has started, student code above all, is ended before the results are written: they are the
    last thing that happens."""
    adopt_orphans()
    found = _results(submission)
    end_descendants()
    if results.is_dir():  # where student code had to run as the user that this process is
        shutil.rmtree(results)
    write_whole(results, json.dumps(found, indent=1, ensure_ascii=False), mode=0o644)
    return found


def _results(submission: Path) -> dict[str, Any]:
    try:
        return as_results(_marks(submission))
    except CourseError as reason:
        return {"score": 0.0, "output": str(reason), "visibility": "visible", "tests": []}


def _marks(submission: Path) -> dict:
    from autograder.course.paths import find_course
    from autograder.grading.mark import mark

    course, here = find_course(), sorted(path for path in submission.rglob("*.ipynb") if path.is_file())
    (unit,) = course.units()
    if len(here) != 1:
        raise CourseError(f"Hand in one notebook, {unit}.ipynb: {len(here)} were found.")
    os.environ["ATTN_SANDBOX"] = _strongest_sandbox(unit)
    marks = mark(course, here[0])
    if marks["unit"] != unit:
        raise CourseError(f"This is a notebook of {marks['unit']}: hand in {unit}.ipynb.")
    return marks


def _strongest_sandbox(unit: str) -> str:
    """What this container allows, found out before any code of the student's runs. ATTN_SANDBOX=none: one without
    namespaces, where this file is tried."""
    from autograder.course.visibility import judge_config
    from autograder.judge.config import NAMESPACES, NONE, USER
    from autograder.judge.fork_server_client import start_ahead
    from autograder.judge.kernel_manager import works

    start_ahead()  # once: `mark` would start another
    config = judge_config(unit)
    if os.environ.get("ATTN_SANDBOX") != NONE and works(NAMESPACES, config):
        return NAMESPACES
    if works(USER, config):
        for path in filter(os.path.exists, config.hidden):
            os.chmod(path, stat.S_IRWXU)
        return USER
    return NONE  # Gradescope's container, which holds this submission alone, is then the only wall


def as_results(marks: dict) -> dict[str, Any]:
    """`mark`'s items as Gradescope's tests. A written answer is none: a person marks it."""
    tests = [
        {
            "name": name,
            "score": item["score"],
            "max_score": item["max"],
            "output": item["message"] or "Right.",
            "visibility": "visible",
        }
        for name, item in marks["items"].items()
        if item["score"] is not None
    ]
    written = [name for name, item in marks["items"].items() if item["score"] is None]
    said = f"{len(written)} written answers are marked by a person." if written else ""
    return {"score": sum(test["score"] for test in tests), "output": said, "visibility": "visible", "tests": tests}


if __name__ == "__main__":
    import sys

    run(Path(sys.argv[1]), Path(sys.argv[2]))
