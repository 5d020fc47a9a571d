"""`attn build --pictures`: draws what a released notebook shows before anybody has run it (see previews.py)."""

import base64
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

from autograder import notebooks
from autograder.course import previews
from autograder.course.paths import Course
from autograder.course.previews import FOLDER, LIMIT, LIST, SHARP
from autograder.errors import CourseError

FINENESS = (
    f"import matplotlib.pyplot\n\nmatplotlib.pyplot.rcParams['figure.dpi'] = {100 * SHARP / 2:g}  # notebooks draw "
    f"twice as fine"
)
COLOURS = 256
PICTURE = re.compile(r'<img src="data:image/(?:png|svg\+xml);base64,([^"]+)" alt="([^"]*)"')
SECONDS = 300


def draw(course: Course, unit: str, notebook: NotebookNode) -> list[Path]:
    """Draws the pictures of a unit that are missing or older than what draws them, and forgets those of cells that are
    gone. notebook: made from its source. Returns the files that changed. CourseError where a cell fails, or never draws
    the same."""
    folder = course.solutions / unit / FOLDER
    kept, wanted = previews.read(folder.parent), previews.drawn_from(notebook)
    old = [cell for cell in previews.drawing(notebook) if kept.get(cell.id, {}).get("drawn_from") != wanted[cell.id]]
    drawn = _drawn(course, notebook, old) if old else {}
    listed, files = {name: kept[name] for name in wanted if name not in drawn}, {}
    for name, pictures in drawn.items():
        named = {f"{name}-{number}.{_kind(one[0])}": one for number, one in enumerate(pictures, start=1)}
        files |= {file: content for file, (content, _) in named.items()}
        abouts = [{"file": file} | about for file, (_, about) in named.items()]
        listed[name] = {"drawn_from": wanted[name], "pictures": abouts}
    if listed:
        text = json.dumps({name: listed[name] for name in wanted}, indent=1, ensure_ascii=False)
        files[LIST] = (text + "\n").encode()
    wanted_files = {one["file"] for of in listed.values() for one in of["pictures"]} | ({LIST} if listed else set())
    return _written(folder, files, wanted_files)


def _drawn(course: Course, notebook: NotebookNode, cells: list[NotebookNode]) -> dict[str, list[tuple[bytes, dict]]]:
    """The pictures of these cells. Every cell runs twice, for what differs from run to run can't be kept."""
    setup = notebooks.by_id(notebook)["setup"].source
    twice = [new_code_cell(cell.source) for cell in cells for _ in range(2)]
    run = new_notebook(cells=[new_code_cell(setup), new_code_cell(FINENESS), *twice], metadata=notebook.metadata)
    try:
        _client(run, course.root).execute()
    except CellExecutionError as error:
        raise CourseError(f"a cell that should draw fails: {error.ename}: {error.evalue}") from None
    found = {}
    for cell, first, second in zip(cells, twice[::2], twice[1::2]):
        found[cell.id] = list(_pictures(first))
        if found[cell.id] != list(_pictures(second)):
            line = cell.source.split("\n")[0]
            raise CourseError(f"`{line}` draws another picture each time: begin the cell with torch.manual_seed(0)")
    return found


def _client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    return NotebookClient(
        notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}, extra_arguments=["--log-level=40"]
    )


def _pictures(cell: NotebookNode) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The figures that a cell showed, and the stills of its films, and what is said of them. Texts are left out."""
    for output in cell.outputs:
        if picture := PICTURE.search(output.get("data", {}).get("text/html", "")):
            content = base64.b64decode(picture[1])
            yield content if _kind(content) == "svg" else _png(content), {"alt": unescape(picture[2])}


def _kind(picture: bytes) -> str:
    return "svg" if picture.startswith(b"<svg") else "png"


def _png(content: bytes) -> bytes:
    """With few colors."""
    picture, file = Image.open(io.BytesIO(content)), io.BytesIO()
    few = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)
    return file.getvalue()


def _written(folder: Path, files: dict[str, bytes], wanted: set[str]) -> list[Path]:
    """Writes what changed and removes what nothing draws any more. CourseError where a notebook would get too large."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
    after = {name: content for name, content in {**before, **files}.items() if name in wanted}
    if (size := sum(len(content) for name, content in after.items() if name != LIST) * 4 // 3) > LIMIT:
        raise CourseError(
            f"the pictures of {folder.parent.name} would add {size:,} characters to its notebook, more than {LIMIT:,}: "
            f"draw less"
        )
    if after:
        folder.mkdir(exist_ok=True)
    for name in before.keys() - after.keys():
        (folder / name).unlink()
    if before and not after:
        folder.rmdir()
    for name, content in after.items():
        if before.get(name) != content:
            (folder / name).write_bytes(content)
    return sorted(folder / name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
