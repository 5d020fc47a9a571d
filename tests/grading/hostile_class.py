"""A class with every hostile hand-in of which we know, beside honest ones; as a script it grades two classes of forty,
a clean and a hostile one, and prints what that cost: `python tests/grading/hostile_class.py`."""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from conftest import UNIT, hand_in, make_course, right_answers

MARK_DOWN, CODE = "markdown", "code"


def _cell(source: str, kind: str) -> dict:
    cell = {"cell_type": kind, "metadata": {}, "source": source}
    return cell | ({"outputs": [], "execution_count": None} if kind == CODE else {})


def with_cell(source: str, kind: str = MARK_DOWN) -> Callable:
    """The notebook, solved, with one more cell."""

    def make(path: Path) -> None:
        data = json.loads(path.read_text())
        data["cells"].append(_cell(source, kind))
        path.write_text(json.dumps(data))

    return make


def shows(html: str) -> Callable:
    """The notebook, solved, with a cell that displays HTML."""
    return with_cell(f"from IPython.display import HTML\nHTML({html})", CODE)


def content(data: bytes) -> Callable:
    return lambda path: path.write_bytes(data)


def with_json(text: bytes) -> Callable:
    """The notebook with one more entry beside its cells."""
    return lambda path: path.write_bytes(path.read_bytes().rstrip().removesuffix(b"}") + b', "extra": ' + text + b"}")


def replaced(make: Callable[[Path], None]) -> Callable:
    def act(path: Path) -> None:
        path.unlink()
        make(path)

    return act


def linked(path: Path) -> None:
    path.symlink_to(path.parents[5] / "solutions" / UNIT / f"{UNIT}.ipynb")


def linked_folder(path: Path) -> None:
    os.rename(path.parent, path.parent.with_name("elsewhere"))
    path.parent.symlink_to(path.parents[5] / "solutions" / UNIT)


def linked_student(path: Path) -> None:
    os.rename(path.parents[1], path.parents[3] / "moved")
    path.parents[1].symlink_to(path.parents[2] / "honest-00")


def links_beside(path: Path) -> None:
    (path.parent / "notes.db").symlink_to(path.parents[3] / "gradebook.db")
    (path.parent / "passwd").symlink_to("/etc/passwd")
    (path.parent / "zero").symlink_to("/dev/zero")
    os.mkfifo(path.parent / "pipe")


def big_beside(path: Path) -> None:
    with open(path.parent / "data.bin", "wb") as file:
        file.truncate(1 << 30)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except PermissionError:
        os.mkfifo(path)


def evil_page(path: Path) -> None:
    (path.parent / "evil.html").write_text("<script>alert(1)</script>")
    with_cell("[look](evil.html)")(path)


# What they do, and whether the work can be graded at all.
HOSTILE: dict[str, tuple[Callable[[Path], None], bool]] = {
    "link": (replaced(linked), False),
    "link-of-folder": (linked_folder, False),
    "link-of-student": (linked_student, False),
    "links-beside": (links_beside, True),
    "gigabyte-beside": (big_beside, True),
    "evil-page-beside": (evil_page, True),
    "fifo": (replaced(os.mkfifo), False),
    "device": (replaced(device), False),
    "folder": (replaced(os.mkdir), False),
    "digits": (with_json(b"9" * 5_000), False),
    "json-bomb": (with_json(b"[" + b"[]," * 3_000_000 + b"[]]"), True),
    "deep-json": (content(b"[" * 1_000_000), False),
    "too-large": (content(b" " * 60_000_000), False),
    "html-in-markdown-bomb": (with_cell("<b>" * 45_000), True),
    "markdown-bomb": (with_cell("\\begin{a} " * 6_400), True),
    "long-markdown-bomb": (with_cell("\\begin{a} " * 50_000), True),
    "source-bomb": (with_cell("x = [" + "[1, 2], " * 70_000 + "]", CODE), True),
    "source-bombs": (with_cell("x = [" + "[1, 2], " * 18_000 + "]", CODE), True),
    "deep-source": (with_cell("x = " + "(" * 5_000 + ")" * 5_000, CODE), True),
    "html-bomb": (shows("'<b>' * 45_000"), True),
    "deep-html": (shows("'<div>' * 9_000"), True),
    "slow-html": (shows("''.join(f'<b class=x{i}>' for i in range(5000)) + '<p>' * 4000"), True),
    "print-bomb": (with_cell("print('x' * 20_000_000)", CODE), True),
    "not-utf8": (lambda path: os.rename(path.parents[1], os.fsencode(path.parents[2]) + b"/stud\xff"), False),
    "escape-in-name": (lambda path: os.rename(path.parents[1], path.parents[2] / "esc\x1b[31m"), False),
    "bad-time": (lambda path: (path.parent / "timestamp.txt").write_bytes(b"\xff\xfe yesterday"), True),
    "missing-attachment": (with_cell("![a](attachment:gone.png)"), True),
    "unreadable": (lambda path: path.chmod(0), os.geteuid() == 0),
}


def fill(course, size: int, hostile: dict) -> None:
    """A class of `size`: the hostile hand-ins and honest ones, each with a text of its own, so that each is judged."""
    right = right_answers(course)
    for number in range(size - len(hostile)):
        hand_in(course, f"honest-{number:02d}", right | {"attend": right["attend"] + f"\n# {number}"})
    for name, (spoil, _) in hostile.items():
        spoil(hand_in(course, name, right | {"attend": right["attend"] + f"\n# {name}"}))


def run(folder: Path, size: int, hostile: dict) -> dict:
    """Grades such a class in this process. Returns what came of it: seconds, largest memory in MB, who was graded or
    not."""
    from rich.progress import Progress

    from autograder.course.build import build
    from autograder.grading import grade, gradebook_writer

    course = make_course(folder)
    build(course, course.units())
    fill(course, size, hostile)
    before = time.monotonic()
    outcome = grade.grade(course, [UNIT], grade.Settings(workers=2), Progress(disable=True))
    seconds = time.monotonic() - before
    scores = {student: row["code_score"] for student, row in gradebook_writer.scores(course, UNIT).items()}
    graded = {one.student: scores[one.student] for one in outcome.results}
    reasons = {one.student: reason for one, reason in {**outcome.rejected, **outcome.failed}.items()}
    notes = {one.student: lines + outcome.repairs.get(one, []) for one, lines in outcome.notes.items() if lines}
    return {
        "seconds": seconds,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "graded": graded,
        "failed": [one.student for one in outcome.failed],
        "reasons": reasons,
        "notes": notes,
    }


def main() -> None:
    """Each class in a process of its own, for the largest memory is that of a process's whole life."""
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run(Path(folder).resolve() / "course", 40, HOSTILE if sys.argv[1] == "hostile" else {})))
        return
    import subprocess

    found = {}
    for kind in ("clean", "hostile"):
        done = subprocess.run([sys.executable, __file__, kind], stdout=subprocess.PIPE, text=True, check=True)
        found[kind] = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{kind}: {found[kind]['seconds']:.1f} s, {found[kind]['mb']:.0f} MB, {len(found[kind]['graded'])} graded"
        )
    for student, reason in found["hostile"]["reasons"].items():
        print(f"  {ascii(student)}: {reason}")
    print(f"ratio {found['hostile']['seconds'] / found['clean']['seconds']:.2f}")


if __name__ == "__main__":
    main()
