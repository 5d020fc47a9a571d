"""The repair as a step of nbgrader's own (see nbgrader_config.py), so that `nbgrader autograde` and formgrader have it
too: copied cells, deleted test cells and lost metadata would end its batch or be a silent 0."""

from pathlib import Path

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder import notebooks
from autograder.grading.mend import mend
from autograder.grading.pictures import note_pictures

STAMP = "attention_course"
"""Where a notebook's metadata say what was repaired, and which result an autograded one shows."""


class Repair(NbGraderPreprocessor):
    """Repairs a submission after the instructor's notebook of its assignment, where that one is at hand."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        course, assignment = self.parent.parent.coursedir, resources["nbgrader"]["assignment"]
        folder = course.format_path(course.source_directory, ".", assignment)
        original = Path(folder) / f"{resources['nbgrader']['notebook']}.ipynb"
        if original.is_file():
            released = notebooks.read(original)
            lines = mend(nb, released)
            note_pictures(nb, released)
            nb.metadata[STAMP] = {"repairs": lines}
            for line in lines:
                self.log.info("%s: %s", resources["nbgrader"]["student"], line)
        return nb, resources
