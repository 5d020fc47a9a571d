"""Downloads as learning management systems make them, for tests: paths and bytes, zipped or as a folder."""

import io
import zipfile
from pathlib import Path

from conftest import UNIT


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2026, 11, 22, 10, 0, 0))
            info.compress_type = method
            archive.writestr(info, data)
    return out.getvalue()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def folder(root: Path, files: dict[str, bytes]) -> Path:
    """The same files unpacked."""
    for name, data in files.items():
        put(root / name, data)
    return root


def notebook(course, answer: str = "") -> bytes:
    """The released notebook of the small course; `answer` makes it another one."""
    text = course.released(UNIT).read_text(encoding="utf-8")
    return text.replace("raise NotImplementedError", f"return {answer!r}", 1).encode() if answer else text.encode()


def gradescope(people: dict[str, tuple[list[tuple[str, str, str]], str]]) -> bytes:
    """Gradescope's metadata: submission → its submitters' (name, sid, email), and when."""
    lines = []
    for folder_name, (who, time) in people.items():
        lines += [f"{folder_name}:", "  :submitters:"]
        for name, sid, email in who:
            lines += [f"  - :name: {name}", f"    :sid: '{sid}'", f"    :email: {email}"]
        lines += [
            f"  :created_at: {time}",
            "  :score: 2.0",
            "  :results:",
            "    output: |-",
            "      :submitters: nobody",
            "      ====",
        ]
    return "\n".join(lines).encode()
