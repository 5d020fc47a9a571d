"""The judge: one sanitised notebook in, the same notebook with outputs out.

This is the only place where a student's code runs, and `judge` the only door to it. For now every cell, the student's
and the tests', runs in one kernel of its own process; nothing else in the package depends on how."""

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from autograder import notebooks, outputs
from autograder.paths import PACKAGES

TRIES = 3
"""How often a kernel is started for one notebook: a cell that ends it is left out of the next try."""


@dataclass(frozen=True)
class Limits:
    """What a submission may use, and the seed of the inputs that the checks draw; the same for the whole class."""

    cell_seconds: int = 60
    notebook_seconds: int = 600
    seed: int = 20_617


def judge(notebook: NotebookNode, unit: str, limits: Limits) -> NotebookNode:
    """The notebook with the outputs of all its code cells; every test cell shows a score or an error.

    Never raises for what a student wrote: a cell that runs too long, or ends its kernel, gets an error as its output
    and the others are run without it.
    """
    for cell in _code_cells(notebook):  # until it has run: nbgrader takes a test cell without output for full marks
        cell.outputs, cell.execution_count = [outputs.error("NotExecuted", "the cell was not run")], None
    deadline, fatal = time.monotonic() + limits.notebook_seconds, set()
    while len(fatal) < TRIES and _execute(notebook, limits, deadline, fatal):
        pass
    for cell in notebooks.tests(notebook):
        outputs.settle(cell)
    return notebook


def _execute(notebook: NotebookNode, limits: Limits, deadline: float, fatal: set[int]) -> bool:
    """Runs the cells that are not in `fatal`. Where one ends the kernel, adds it there and returns True."""
    with tempfile.TemporaryDirectory(prefix="attn-run-") as folder, _socket_folder() as sockets:
        client = _Client(notebook, fatal, limits, deadline)
        client.km = _Kernel(transport="ipc", ip=f"{sockets}/k", connection_file=f"{sockets}/kernel.json")
        client.owns_km = True
        try:
            client.execute(env=_environment(limits, folder), cwd=folder)
        except (DeadKernelError, CellTimeoutError) as problem:
            notebook.cells[client.current].outputs = [_fatal_error(problem)]
            fatal.add(client.current)
            return True
    return False


def _fatal_error(problem: Exception) -> NotebookNode:
    if isinstance(problem, DeadKernelError):
        return outputs.error("KernelDied", "the cell ended the Python process it ran in")
    return outputs.error("CellTimeout", "the cell ran too long and could not be stopped")


def _environment(limits: Limits, folder: str) -> dict[str, str]:
    """The kernel's environment: one thread (kernels run side by side), the grader's own packages, its inputs' seed."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(PACKAGES),
        "ATTENTION_COURSE_SEED": str(limits.seed),
        "IPYTHONDIR": folder,
        "NBGRADER_EXECUTION": "autograde",
    }


def _code_cells(notebook: NotebookNode) -> Iterable[NotebookNode]:
    return (cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip())


def _socket_folder() -> tempfile.TemporaryDirectory:
    """Where a kernel's sockets lie: a short path, because a socket's may have about 100 characters, and not in the
    working folder, where a student's code would meet them."""
    return tempfile.TemporaryDirectory(prefix="attn-", dir="/tmp" if os.path.isdir("/tmp") else None)


class _Kernel(AsyncKernelManager):
    """A kernel of this very Python, whatever kernels the user has installed."""

    @property
    def kernel_spec(self) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python 3", language="python")


class _Client(NotebookClient):
    """Runs a notebook under the limits, leaving out the cells that ended an earlier kernel."""

    def __init__(self, notebook: NotebookNode, fatal: set[int], limits: Limits, deadline: float) -> None:
        super().__init__(notebook, allow_errors=True, interrupt_on_timeout=True, raise_on_iopub_timeout=True,
                         shutdown_kernel="immediate", error_on_timeout=dict(_TIMEOUT))  # fmt: skip
        self.current, self.fatal, self.limits, self.deadline = 0, fatal, limits, deadline
        self.timeout_func = self._seconds_left
        self.on_cell_executed = self._show_error

    async def async_execute_cell(self, cell: NotebookNode, cell_index: int, **options) -> NotebookNode:
        if cell_index in self.fatal or time.monotonic() > self.deadline:
            return cell
        self.current = cell_index
        return await super().async_execute_cell(cell, cell_index, **options)

    def _seconds_left(self, cell: NotebookNode) -> int:
        return max(1, min(self.limits.cell_seconds, int(self.deadline - time.monotonic())))

    def _show_error(self, cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        """A timeout, or an error whose display the student's code turned off, is an error all the same."""
        reply = execute_reply["content"]
        if reply.get("ename") == _TIMEOUT["ename"]:  # what the interruption left behind says less
            cell.outputs = [output for output in cell.outputs if output.get("ename") != "KeyboardInterrupt"]
        shown = any(output.output_type == "error" and output.ename == reply.get("ename") for output in cell.outputs)
        if reply["status"] == "error" and not shown:
            cell.outputs.append(outputs.error(reply["ename"], reply["evalue"]))


_TIMEOUT = {"ename": "CellTimeout", "evalue": "the cell ran longer than it may", "traceback": []}
