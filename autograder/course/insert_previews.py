"""The last step of nbgrader's generate_assignment: the pictures that are kept beside a unit's source, in the release.
nbgrader's own commands and formgrader's button make the same release as `attn build` with it."""

from pathlib import Path

from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.course import previews


class InsertPreviews(NbGraderPreprocessor):
    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        previews.add_previews(nb, Path(resources["metadata"]["path"]))
        return nb, resources


PREPROCESSORS = [*GenerateAssignment.class_traits()["preprocessors"].default(), InsertPreviews]
