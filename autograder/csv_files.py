"""CSV files that other programs wrote: read in their own dialect, and written back in it."""

import csv
import io
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable
from autograder.whole_files import write_whole

LARGEST = 20_000_000
"""Bytes of a CSV file. A gradebook of a thousand students has less than one million."""
SEPARATORS = ",;\t"
BOM = "\ufeff"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula, where it stands first."""


@dataclass
class CsvFile:
    """The cells of a CSV file. `lines`: where each row ends in the file; rows are as long as the header."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    separator: str = ","
    bom: str = ""
    newline: str = "\n"

    def column(self, *names: str) -> int | None:
        """The first column with one of these names; small and capital letters are the same."""
        wanted, titles = [name.casefold() for name in names], [title.strip().casefold() for title in self.header]
        return next((titles.index(name) for name in wanted if name in titles), None)

    def text(self) -> str:
        """The file's text."""
        out = io.StringIO()
        csv.writer(out, delimiter=self.separator, lineterminator=self.newline).writerows([self.header, *self.rows])
        return self.bom + out.getvalue()


def read_csv(path: Path) -> CsvFile:
    """Reads a CSV file: UTF-8, with a comma, semicolon or tab between its cells. Raises CourseError, in a line."""
    text = _text(path)
    newline = "\r\n" if "\r\n" in text else "\n"
    bom, text = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    separator = _separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        cells = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise unusable_file(path, f"line {reader.line_num} is no CSV ({error})") from None
    if not cells:
        raise unusable_file(path, "it is empty")
    header = cells[0][1]
    rows = [_fitted(path, line, row, len(header)) for line, row in cells[1:]]
    return CsvFile(path, header, rows, [line for line, _ in cells[1:]], separator, bom, newline)


def unusable_file(path: Path, reason: str) -> CourseError:
    """The error for a file that can't be used as it is."""
    return CourseError(f"{path}: {reason}.", BAD_INPUT)


def to_csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The text of a CSV file of ours. What a spreadsheet would take for a formula gets an apostrophe in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def escape_formula(text: str) -> str:
    """Text that no spreadsheet runs as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def unescape_formula(text: str) -> str:
    """The text without an apostrophe that was put in front of a formula."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text


def format_number(value: float) -> str:
    """A number as it is, without `.0`: read again it is the same number."""
    return repr(float(value)).removesuffix(".0")


def format_cell(value: float | None) -> str:
    """A number, or nothing."""
    return "" if value is None else format_number(value)


def normalize_unicode(text: str) -> str:
    """Text in one form: an ü that is u and two dots becomes one character, as nearly everybody writes it."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def write_csv(path: Path, text: str) -> None:
    """Writes a file whole. Raises CourseError where the disk doesn't let it."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise CourseError(f"{path} can't be written ({error.strerror}).") from None


def _text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise unusable_file(path, "it is no file")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise CourseError(f"There is no file {path}.", BAD_INPUT) from None
    except OSError as error:
        raise unusable_file(path, f"it can't be read ({error.strerror})") from None
    if len(data) > LARGEST:
        raise unusable_file(path, f"it has more than {LARGEST // 1_000_000} MB, too much for a table of students")
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise unusable_file(path, "it is a workbook, no CSV: open it and save it as 'CSV UTF-8'")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise unusable_file(path, "it is not in UTF-8: save it as 'CSV UTF-8'") from None
    if "\0" in text:
        raise unusable_file(path, "it is no text: save it as 'CSV UTF-8'")
    return text


def _separator(text: str) -> str:
    """What stands most often between the cells of the first line."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    bare = "".join(first.split('"')[::2])
    return max(SEPARATORS, key=bare.count)


def _fitted(path: Path, line: int, row: list[str], width: int) -> list[str]:
    """The row, as long as the header."""
    if any(cell.strip() for cell in row[width:]):
        shown = printable(next(cell for cell in row[width:] if cell.strip()))[:40]
        raise unusable_file(
            path, f"line {line} has more cells than the header ('{shown}'): quote a cell that holds a separator"
        )
    return row[:width] + [""] * (width - len(row))
