"""The step that stands in the place of nbgrader's Execute (see nbgrader_config.py): outputs come from the store of
results, and from the judge where there is none yet. So nbgrader, formgrader and `attn grade` give the same scores."""

from pathlib import Path

from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import Integer, Unicode

from autograder.grading.judge_notebook import judge_notebook
from autograder.grading.result_cache import Store, key
from autograder.judge.config import NAMESPACES, Limits
from autograder.notebooks import STAMP


class JudgedExecute(Execute):
    """A subclass of nbgrader's step, so that `c.Execute.timeout` and `--no-execute` hold for it too."""

    results = Unicode(help="The folder of the store of results.").tag(config=True)
    notebook_timeout = Integer(600, help="Seconds for all cells of one submission.").tag(config=True)
    sandbox = Unicode(NAMESPACES, help="Where student code runs: namespaces, bubblewrap or none.").tag(config=True)

    @property
    def limits(self) -> Limits:
        return Limits(cell_seconds=self.timeout, notebook_seconds=self.notebook_timeout, sandbox=self.sandbox)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        store, unit = Store(Path(self.results)), resources["nbgrader"]["assignment"]
        name = key(nb, unit, self.limits)
        if not store.apply(name, nb) and not judge_notebook(nb, unit, self.limits):
            store.put(name, nb)
        result = name if name in store else f"{name} in doubt"  # which counts as no result the next time
        nb.metadata[STAMP] = {**nb.metadata.get(STAMP, {}), "result": result}
        return nb, resources
