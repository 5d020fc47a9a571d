"""One submission, two kernels. The student's cells run in the student's kernel; then the test cells run in a clean one,
the judge's, which asks the first for values. What the judge's kernel shows is what nbgrader scores.

All student cells run before the first test does, so nothing that a function is asked can find its way into an output. A
cell that takes its kernel down is left out of the next try, and the items that don't need it keep their points."""

import hashlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import notebooks
from autograder.judge import outputs
from autograder.judge.config import SPARE
from autograder.judge.fork_server import JUDGE, STUDENT
from autograder.judge.kernel import TOO_LONG, Kernel
from autograder.judge.kernel_manager import KernelManager, timeout_factor
from autograder.judge.protocol import KERNEL_DIED, BorderError, Closed, ReplyTimeout, read
from autograder.judge.sandbox.namespaces import GRACE
from autograder.judge.sanitize_outputs import sanitize_outputs
from autograder.judge.timings import Clock

CREDENTIALS = struct.Struct("3i")  # of who sends: the numbers of its process, user and group
TRIES = 4  # kernels for one notebook
SOON = 5.0  # seconds; a test cell that took longer is not run twice
CELL_BYTES = 8 << 20  # that a cell may send home
ENDED = "it ended"  # how `Kernel.why` begins where no limit of ours was the reason
NOT_DRAWN = "(Not drawn: it needs this unit's reference, which is out of reach while the unit is graded.)"
LEFT_OUT = "(Left out while grading: this cell only draws or measures.)"


@dataclass
class Submission:
    """A notebook on its way through the two kernels.

    statuses: index of a student's cell → "ok" or what became of it."""

    notebook: NotebookNode
    kernels: KernelManager
    config: Any
    limits: Any
    deadline: float
    clock: Clock = field(default_factory=Clock)
    statuses: dict[int, str] = field(default_factory=dict)
    fatal: set[int] = field(default_factory=set)
    used: list[Kernel] = field(default_factory=list)
    begun: Kernel | None = None  # the student's first kernel, until it is taken
    student: Kernel = None  # type: ignore[assignment]  # nobody asks for it before it is there
    judge: Kernel = None  # type: ignore[assignment]  # the same
    tries: int = 0
    spared: bool = False  # whether a cell whose kernel ended has been given a second try


def judge_in_two_kernels(
    notebook: NotebookNode,
    config: Any,
    limits: Any,
    kernels: KernelManager,
    written: Callable[[], Any],
    clock: Clock | None = None,
) -> None:
    """Fills in the outputs of all code cells. `written` looks at the sources, which takes a while in which the kernels
    get ready. Raises SandboxError where no kernel can be started, and what `written` raises, and nothing else."""
    for _, cell in _code(notebook):
        cell.outputs, cell.execution_count = [_not_run()], None
    until = time.monotonic() + limits.notebook_seconds * timeout_factor()
    work = Submission(notebook, kernels, config, limits, until, clock or Clock())
    try:
        with work.clock.part("kernels"):
            work.judge = work.kernels.start(JUDGE, work.config, work.limits)
            work.begun = work.kernels.start(STUDENT, work.config, work.limits)
        with work.clock.part("border"):
            found = written()
        _student_cells(work)
        _set_up_judge(work)
        _test_cells(work, found)
    finally:
        with work.clock.part("kernels"):
            kernels_used = [kernel for kernel in (*work.used, work.begun, work.judge) if kernel]
            for kernel in kernels_used:
                kernel.drop()
            for kernel in kernels_used:
                kernel.close()
    for cell in notebooks.tests(notebook):
        outputs.normalize_outputs(cell)


def _not_run() -> NotebookNode:
    return outputs.error_output("NotExecuted", "the cell was not run")


@contextmanager
def _not_the_students_time(work: Submission) -> Iterator[None]:
    """Kernels get ready within it, and on a machine with much to do that takes long: the deadline moves by as much."""
    start = time.monotonic()
    with work.clock.part("kernels"):
        yield
    work.deadline += time.monotonic() - start


def _code(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    return [
        (index, cell) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()
    ]


# ---------------------------------------------------------------- the student's cells


def _student_cells(work: Submission) -> None:
    """Runs them all, with a new kernel and without the culprit where one ends its kernel. The first kernel that ends is
    blamed on no cell: somebody else may have ended it. A cell that ends its own does so again."""
    until = len(work.notebook.cells)
    while work.tries < TRIES:
        culprit = _one_try(work, until)
        if culprit is None:
            return
        if not work.spared and ENDED in work.statuses[culprit]:
            work.spared, work.tries = True, work.tries - 1
            continue
        work.fatal.add(culprit)
        if work.tries == TRIES - 1:  # the last try only runs what is known to go well
            until = culprit


def _one_try(work: Submission, until: int) -> int | None:
    """Runs the cells before `until` in a new kernel. The index of the cell that took the kernel down, if one did."""
    work.tries += 1
    with _not_the_students_time(work):
        first, work.begun = work.begun, None
        work.student = kernel = work.kernels.ready(first or work.kernels.start(STUDENT, work.config, work.limits))
    work.used.append(kernel)
    last = -1
    for count, (index, cell) in enumerate(_code(work.notebook), start=1):
        if index >= until or time.monotonic() > work.deadline:
            break
        try:
            if notebooks.is_test(cell):
                kernel.tell({"ask": "mark", "place": index})
            elif SPARE in cell.metadata:
                cell.outputs = [new_output("stream", name="stdout", text=LEFT_OUT)]
            elif index not in work.fatal:
                cell.execution_count, last = count, index
                with work.clock.part("cells", index):
                    work.statuses[index] = _run(work, kernel, cell, count)
        except BorderError as problem:  # at a test cell it was the cell before
            return _blame(work, kernel, last, problem) if last >= 0 else None
    return None


def _run(work: Submission, kernel: Kernel, cell: NotebookNode, count: int) -> str:
    """Runs one cell of the student's. BorderError if its kernel is lost."""
    seconds = min(work.limits.cell_seconds * timeout_factor(), max(1.0, work.deadline - time.monotonic()))
    kernel.overran()
    kernel.allow(work.limits.cell_seconds)
    kernel.tell({"ask": "run", "source": cell.source, "count": count})
    cell.outputs, late = [], False
    try:
        status = listen(kernel, cell, seconds, trusted=False)
    except ReplyTimeout:
        kernel.interrupt()
        status, late = listen(kernel, cell, GRACE * timeout_factor(), trusted=False), True
    kernel.allow(0)
    if late or kernel.overran():
        cell.outputs.append(
            outputs.error_output(
                "CellTimeout", f"the cell ran longer than {work.limits.cell_seconds:g} seconds and was stopped"
            )
        )
        status = "CellTimeout: it ran too long"
    if status.startswith("OutOfReach") and not notebooks.flag(cell, "solution"):
        cell.outputs = [new_output("stream", name="stdout", text=NOT_DRAWN)]
    return status


def _blame(work: Submission, kernel: Kernel, index: int, problem: BorderError) -> int:
    """Says in a cell's outputs, and in its status, how it took its kernel down."""
    why = kernel.why() if isinstance(problem, Closed) else ""
    if isinstance(problem, ReplyTimeout) or why == TOO_LONG:
        words = "the cell ran too long and could not be stopped"
    elif isinstance(problem, Closed):
        words = f"the cell ended the Python process it ran in: {why or f'{ENDED} itself'}"
    else:
        words = f"the cell, or what it sent, was given up: {problem}"
    cell = work.notebook.cells[index]
    work.statuses[index] = f"{KERNEL_DIED}: {words}"
    cell.outputs = [*cell.outputs, outputs.error_output(KERNEL_DIED, words)]
    return index


def listen(
    kernel: Kernel, cell: NotebookNode, seconds: float, trusted: bool, serve: Callable[[dict], None] | None = None
) -> str:
    """Puts what a running cell sends into its outputs, until it is done; returns its status. `serve` answers the judge
    where it wants a fork, which takes none of its time."""
    deadline, left = time.monotonic() + seconds, CELL_BYTES
    while True:
        frame = kernel.wire.receive(max(0.0, deadline - time.monotonic()))
        left -= len(frame[0]) + len(frame[1])
        message = read(frame)
        if left < 0 or not isinstance(message, dict):
            raise BorderError(f"more than {CELL_BYTES >> 20} MB of output")
        if "done" in message:
            return str(message["done"])[:500]
        if serve and "want" in message:
            before = time.monotonic()
            serve(message)
            deadline += time.monotonic() - before
        cell.outputs = sanitize_outputs(cell.outputs, message.get("outputs"), trusted)


# ---------------------------------------------------------------- the test cells


def _set_up_judge(work: Submission) -> None:
    with _not_the_students_time(work):
        work.judge = work.kernels.ready(work.judge)
        for _, cell in _code(work.notebook):
            if notebooks.grade_id(cell) == "setup" and notebooks.flag(cell, "locked"):
                work.judge.tell({"ask": "setup", "source": cell.source, "count": 0})
                listen(work.judge, NotebookNode(outputs=[]), 60 * timeout_factor(), trusted=True)


def _test_cells(work: Submission, written: Any) -> None:
    """Each in two rounds: first all of them for the cases that a card shows, in half of the time that is left; then all
    for hidden ones. When these are asked for, nothing that is shown will be: what they give away stays where it is. A
    cell that came to no end in the first round has no second one."""
    absent, order, halfway = _reasons(work), _order(work), (time.monotonic() + work.deadline) / 2
    over: set[int] = set()
    for hidden in (False, True):
        for count, (index, cell) in enumerate(_code(work.notebook), start=1):
            late = time.monotonic() > (work.deadline if hidden else halfway)
            if not notebooks.is_test(cell) or index in over or late:
                continue
            named = written.get(notebooks.exercise_id(cell), {})
            known = {"count": count, "absent": absent, "written": named, "order": f"{order} {index}", "place": index}
            with work.clock.part("tests", index):
                ended = _tested(work, cell, known | {"hidden": hidden})
            if not ended:
                over.add(index)
            elif hidden:
                _add_notes(cell, named)
            else:
                cell.outputs = [_not_run()]
            cell.execution_count = count


def _add_notes(cell: NotebookNode, named: Any) -> None:
    """Under the card: what was read in the source and not seen running."""
    notes = [found["note"] for found in named.values() if found.get("note")]
    card = "".join(str(output.get("data", {}).get("text/html", "")) for output in cell.outputs)
    if notes and "forbidden function" not in card:
        cell.outputs.append(new_output("stream", name="stdout", text="\n".join(notes) + "\n"))


def _order(work: Submission) -> str:
    """What the order of the cases is drawn from: the same for the same notebook, and not known while it is written, for
    the hidden tests are a part of it."""
    sources = [cell.source for _, cell in _code(work.notebook)]
    return hashlib.sha256(repr((work.limits.seed, sources)).encode(errors="replace")).hexdigest()


def _tested(work: Submission, cell: NotebookNode, known: dict) -> bool:
    """Runs a test cell; once more where a call lost its process within seconds, or the judge's kernel ended: somebody
    else may have ended that. An answer that ends its own process does so again, and finds nothing that the first try
    has left. Whether the cell came to its end."""
    start = time.monotonic()
    status = _test(work, cell, known)
    if status == KERNEL_DIED and time.monotonic() - start < SOON * timeout_factor() and _began_anew(work):
        status = _test(work, cell, known)
    return bool(status)


def _test(work: Submission, cell: NotebookNode, known: dict) -> str:
    """What became of it, as the judge says; "" if that never came to an end."""

    def serve(_: dict) -> None:
        with _witness(work) as witness:
            work.judge.tell({}, witness.fileno())

    cell.outputs = []
    try:
        work.judge.tell({"ask": "test", "source": cell.source, **known})
        seconds = (work.limits.cell_seconds + GRACE) * timeout_factor()
        return listen(work.judge, cell, seconds, trusted=True, serve=serve)
    except BorderError as problem:
        late = outputs.error_output("CellTimeout", "the test did not come to an end within its time")
        lost = outputs.error_output(KERNEL_DIED, "the process that the test ran in was ended")
        cell.outputs = [lost if isinstance(problem, Closed) else late]
        work.judge.close()
        work.judge = work.kernels.start(JUDGE, work.config, work.limits)
        _set_up_judge(work)
        return KERNEL_DIED if isinstance(problem, Closed) else ""


def _witness(work: Submission) -> socket.socket:
    """The socket of a fresh fork that answers the judge. Where the student's kernel is lost, its cells run again."""
    with work.clock.part("border"):
        while True:
            with suppress(BorderError):
                return _fork(work.student)
            if work.tries >= TRIES or time.monotonic() > work.deadline:
                return socket.socketpair()[0]  # with nobody at the other end
            _run_again(work)


def _began_anew(work: Submission) -> bool:
    """Runs the student's cells again in a new sandbox, if there is time for that, and a kernel left for others."""
    if work.tries >= TRIES - 1 or time.monotonic() + work.clock.parts["cells"] > work.deadline:
        return False
    _run_again(work)
    return True


def _run_again(work: Submission) -> None:
    """The student's cells before the last test, as they were, in a new kernel; their outputs stay the first ones."""
    last = max(index for index, cell in _code(work.notebook) if notebooks.is_test(cell))
    before = [(cell, cell.outputs) for _, cell in _code(work.notebook)]
    _one_try(work, last + 1)
    for cell, shown in before:
        cell.outputs = shown


def _fork(kernel: Kernel) -> socket.socket:
    """The socket of a fork of the student's kernel, while nothing else of the student's runs. BorderError where it
    can't be made."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    kernel.end_others()
    with theirs:
        kernel.tell({"ask": "fork"}, theirs.fileno())
    try:
        status = listen(kernel, NotebookNode(outputs=[]), GRACE * timeout_factor(), trusted=False)
        if status != "ok":
            raise BorderError(f"it can't be forked ({status})")
        kernel.end_others(spared=_sender(ours))
    except BorderError:
        ours.close()
        raise
    return ours


def _sender(sock: socket.socket) -> int:
    """The number of the process that says the first byte, as the system knows it."""
    sock.settimeout(GRACE * timeout_factor())
    try:
        _, told, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(CREDENTIALS.size))
        return next(CREDENTIALS.unpack(data)[0] for _, kind, data in told if kind == socket.SCM_CREDENTIALS)
    except (OSError, StopIteration):
        raise Closed("nobody answers in the fork") from None


def _reasons(work: Submission) -> dict[str, str]:
    """For every name that a student's failed cell would have defined: the end of the sentence that says so."""
    found = {}
    for index, cell in _code(work.notebook):
        status = work.statuses.get(index, "" if notebooks.is_test(cell) or SPARE in cell.metadata else "not run")
        if status not in ("", "ok"):
            for name in re.findall(r"^[ \t]*(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=", cell.source, re.MULTILINE):
                found[name[0] or name[1]] = f": its cell failed with {status}"
    return found
