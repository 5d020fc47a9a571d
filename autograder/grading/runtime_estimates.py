"""How long a submission will take, by what its cells took last time; so that the longest can be begun first, and none
is waited for alone at the end."""

import hashlib
import json
from collections.abc import Iterator, Mapping

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.paths import Course
from autograder.whole_files import write_whole

WEIGHT = 0.3  # of the newest in the average of an exercise


class RuntimeEstimates:
    """Seconds by cell: of these very words where they ran before, else the exercise's average."""

    def __init__(self, course: Course) -> None:
        self.path = course.results / "costs.json"
        try:
            self.seconds: dict[str, float] = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.seconds = {}

    def expected(self, notebook: NotebookNode) -> float:
        """Seconds for all cells; 0 where nothing is known."""
        return sum(self.seconds.get(words, self.seconds.get(name, 0.0)) for _, words, name in _cells(notebook))

    def learn(self, notebook: NotebookNode, seconds: Mapping[int, float]) -> None:
        """seconds: index of a cell → what it took."""
        for index, words, name in _cells(notebook):
            if index in seconds:
                before = self.seconds.get(name, seconds[index])
                self.seconds[words] = round(seconds[index], 3)
                self.seconds[name] = round(WEIGHT * seconds[index] + (1 - WEIGHT) * before, 3)

    def save(self) -> None:
        write_whole(self.path, json.dumps(self.seconds))


def _cells(notebook: NotebookNode) -> Iterator[tuple[int, str, str]]:
    """Of each code cell: its index, what tells these words from others, and its exercise. What a test cell takes
    depends on what the cells before it define: it goes by the words of the last answer."""
    answer = ""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            answer = answer if notebooks.is_test(cell) else cell.source
            name = notebooks.grade_id(cell) or ""
            yield index, hashlib.sha256(f"{name}\0{answer}".encode(errors="replace")).hexdigest()[:16], f"all {name}"
