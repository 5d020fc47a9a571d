"""One submission, two kernels. The student's cells run in the student's kernel; then the test cells run in a clean one,
the judge's, which asks the first for values. What the judge's kernel shows is what nbgrader scores.

All student cells run before the first test does, so nothing that a function is asked can find its way into an output. A
cell that takes its kernel down is left out of the next try, and the items that don't need it keep their points.

Why something ended is known from its keeper and from the wire, never from what a card says. What may not have been the
submission's own doing puts the verdict in doubt: then all is judged once more, with new kernels and other draws."""

import hashlib
import re
import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import notebooks
from autograder.control_characters import clean
from autograder.judge import outputs
from autograder.judge.config import SPARE
from autograder.judge.fork_server import JUDGE, STUDENT
from autograder.judge.kernel import TOO_LONG, Kernel
from autograder.judge.kernel_manager import KernelManager
from autograder.judge.machine_shortage import MachineShortage
from autograder.judge.protocol import BorderError, Closed, ReplyTimeout, read
from autograder.judge.sandbox.keeper import GRACE
from autograder.judge.sanitize_outputs import OutputRoom, sanitize_outputs
from autograder.judge.timings import Clock
from autograder.judge.wall_time import Deadline, now, wait, wall_limit
from autograder.judge.wire import KERNEL_DIED

CREDENTIALS = struct.Struct("3i")  # of who sends: the numbers of its process, user and group
TRIES = 4  # kernels for one notebook
CELL_BYTES = 8 << 20  # that a cell may send home
NOT_DRAWN = "(Not drawn: it needs this unit's reference, which is out of reach while the unit is graded.)"
LEFT_OUT = "(Left out while grading: this cell only draws or measures.)"


class InDoubt(Exception):
    """Something went wrong that may not be the submission's own doing; the text is one line."""


@dataclass
class Submission:
    """A notebook on its way through the two kernels.

    final: whether it goes on where its verdict is in doubt, and notes the reasons in `doubts`. statuses: index of a
    student's cell → "ok" or what became of it."""

    notebook: NotebookNode
    kernels: KernelManager
    config: Any
    limits: Any
    deadline: Deadline
    final: bool
    doubts: list[str] = field(default_factory=list)
    room: OutputRoom = field(default_factory=OutputRoom)
    clock: Clock = field(default_factory=Clock)
    statuses: dict[int, str] = field(default_factory=dict)
    fatal: set[int] = field(default_factory=set)
    used_kernels: list[Kernel] = field(default_factory=list)
    begun: Kernel | None = None  # the student's first kernel, until it is taken
    student: Kernel = None  # type: ignore[assignment]  # nobody asks for it before it is there
    judge: Kernel = None  # type: ignore[assignment]  # the same
    tries: int = 0

    def doubt(self, reason: str) -> None:
        """The one place where it is decided what becomes of a verdict in doubt."""
        if not self.final:
            raise InDoubt(reason)
        self.doubts.append(reason)

    def used(self) -> float:
        """Seconds of processor time of all student's kernels."""
        return sum(kernel.used() for kernel in self.used_kernels)

    def out_of_time(self) -> bool:
        """Whether the notebook may not go on."""
        if self.used() >= self.limits.notebook_seconds:
            return True
        if self.deadline.over:
            self.doubt("the notebook took longer than it may, and had not computed for so long")
            return True
        return False


def judge_in_two_kernels(
    notebook: NotebookNode,
    config: Any,
    limits: Any,
    kernels: KernelManager,
    written: Callable[[], Any],
    clock: Clock | None = None,
    final: bool = True,
) -> list[str]:
    """Fills in the outputs of all code cells; returns what puts the verdict in doubt. `written` looks at the sources,
    which takes a while in which the kernels get ready. Raises SandboxError where no kernel can be started, what
    `written` raises, and InDoubt, unless it is `final`."""
    for _, cell in _code(notebook):
        cell.outputs, cell.execution_count = [_not_run()], None
    until = Deadline(wall_limit(limits.notebook_seconds))
    work = Submission(notebook, kernels, config, limits, until, final, clock=clock or Clock())
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
            kernels_used = [kernel for kernel in (*work.used_kernels, work.begun, work.judge) if kernel]
            for kernel in kernels_used:
                kernel.drop()
            for kernel in kernels_used:
                kernel.close()
    for cell in notebooks.tests(notebook):
        outputs.normalize_outputs(cell)
    return work.doubts


def _not_run() -> NotebookNode:
    return outputs.error_output("NotExecuted", "the cell was not run")


@contextmanager
def _not_the_students_time(work: Submission) -> Iterator[None]:
    """Kernels get ready within it, and on a machine with much to do that takes long: the deadline moves by as much."""
    start = now()
    with work.clock.part("kernels"):
        yield
    work.deadline.extend(now() - start)


def _code(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    return [
        (index, cell) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()
    ]


# ---------------------------------------------------------------- the student's cells


def _student_cells(work: Submission) -> None:
    """Runs them all, with a new kernel and without the culprit where one ends its kernel."""
    until = len(work.notebook.cells)
    while work.tries < TRIES:
        culprit = _one_try(work, until)
        if culprit is None:
            return
        work.fatal.add(culprit)
        if work.tries == TRIES - 1:  # the last try only runs what is known to go well
            until = culprit


def _one_try(work: Submission, until: int) -> int | None:
    """Runs the cells before `until` in a new kernel. The index of the cell that took the kernel down, if one did."""
    work.tries += 1
    with _not_the_students_time(work):
        first, work.begun = work.begun, None
        work.student = kernel = work.kernels.ready(first or work.kernels.start(STUDENT, work.config, work.limits))
    work.used_kernels.append(kernel)
    last, work.room = -1, OutputRoom()
    for count, (index, cell) in enumerate(_code(work.notebook), start=1):
        if index >= until or work.out_of_time():
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
    shortage, kills, seconds = MachineShortage(), kernel.kills(), work.limits.cell_seconds
    kernel.overran()
    kernel.allow(seconds)
    kernel.tell({"ask": "run", "source": cell.source, "count": count})
    cell.outputs = []
    status, late = _listen_or_interrupt(work, kernel, cell)
    kernel.allow(0)
    overran = kernel.overran()
    if late and not overran:
        work.doubt(f"a cell took longer than {seconds:g} seconds, and had not computed for so long")
    if late or overran:
        words = f"the cell ran longer than {seconds:g} seconds and was stopped"
        cell.outputs.append(outputs.error_output("CellTimeout", words))
        status = "CellTimeout: it ran too long"
    if status.startswith("OutOfReach") and not notebooks.flag(cell, "solution"):
        cell.outputs = [new_output("stream", name="stdout", text=NOT_DRAWN)]
    elif status != "ok" and kernel.kills() == kills and (lacking := shortage.found()):
        work.doubt(f"a cell failed while {lacking}")
    return status


def _listen_or_interrupt(work: Submission, kernel: Kernel, cell: NotebookNode) -> tuple[str, bool]:
    """The status of a running cell, and whether it had to be interrupted."""
    try:
        return listen(kernel, cell, Deadline(wall_limit(work.limits.cell_seconds)), work.room), False
    except ReplyTimeout:
        kernel.interrupt()
        return listen(kernel, cell, Deadline(GRACE), work.room), True


def _blame(work: Submission, kernel: Kernel, index: int, problem: BorderError) -> int:
    """Says in a cell's outputs, and in its status, how it took its kernel down."""
    why = kernel.why() if isinstance(problem, Closed) else ""
    if isinstance(problem, ReplyTimeout) or why == TOO_LONG:
        words = "the cell ran too long and could not be stopped"
    elif isinstance(problem, Closed):
        words = f"the cell ended the Python process it ran in: {why or 'it ended itself'}"
    else:
        words = f"the cell, or what it sent, was given up: {problem}"
    if not _was_its_own(kernel, problem):
        work.doubt(words)
    kernel.drop()  # what could not be stopped doesn't run on beside the next try
    cell = work.notebook.cells[index]
    work.statuses[index] = f"{KERNEL_DIED}: {words}"
    cell.outputs = [*cell.outputs, outputs.error_output(KERNEL_DIED, words)]
    return index


def _was_its_own(kernel: Kernel, problem: BorderError) -> bool:
    """Whether a kernel was lost by what ran in it: its keeper ended it for a limit, or it ended in a way in which
    nobody else can end it."""
    if isinstance(problem, ReplyTimeout):
        return kernel.overran()
    return not isinstance(problem, Closed) or kernel.kills() > 0 or kernel.ended_itself()


def listen(
    kernel: Kernel,
    cell: NotebookNode,
    until: Deadline,
    room: OutputRoom | None,
    serve: Callable[[dict], None] | None = None,
) -> str:
    """Puts what a running cell sends into its outputs, until it is done; returns its status.

    room: what a student's notebook may still show; None for the judge's kernel, whose outputs are trusted. `serve`
    hears what the judge says beside that; where it wants a fork, that takes none of its time."""
    left = CELL_BYTES
    while True:
        frame = kernel.wire.receive(until)
        size = len(frame[0]) + len(frame[1])
        left -= size
        message = read(frame)
        if left < 0 or not isinstance(message, dict):
            raise BorderError(f"more than {CELL_BYTES >> 20} MB of output")
        if room and not _is_json(message):
            raise BorderError("an output that no cell sends")
        if "done" in message:
            return clean(str(message["done"])[:500])
        if serve and "outputs" not in message:
            before = now()
            serve(message)
            until.extend(now() - before)
        elif room:
            cell.outputs = room.add(cell.outputs, message.get("outputs"), size)
        else:
            cell.outputs = sanitize_outputs(cell.outputs, message.get("outputs"), trusted=True)


def _is_json(value: Any) -> bool:
    """Whether a value is what JSON holds, without a number that takes minutes to write. A frame says how deep."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(one) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, bool, float)) or (type(value) is int and abs(value) < 1 << 53)


# ---------------------------------------------------------------- the test cells


def _set_up_judge(work: Submission) -> None:
    with _not_the_students_time(work):
        work.judge = work.kernels.ready(work.judge)
        for _, cell in _code(work.notebook):
            if notebooks.grade_id(cell) == "setup" and notebooks.flag(cell, "locked"):
                work.judge.tell({"ask": "setup", "source": cell.source, "count": 0})
                listen(work.judge, NotebookNode(outputs=[]), Deadline(60), None)


def _test_cells(work: Submission, written: Any) -> None:
    """Each in two rounds: first all of them for the cases that a card shows, in half of the time that is left; then all
    for hidden ones. When these are asked for, nothing that is shown will be: what they give away stays where it is. A
    cell that came to no end in the first round has no second one."""
    absent, order, halfway = _reasons(work), _order(work), (work.used() + work.limits.notebook_seconds) / 2
    over: set[int] = set()
    for hidden in (False, True):
        for count, (index, cell) in enumerate(_code(work.notebook), start=1):
            if not notebooks.is_test(cell) or index in over:
                continue
            if work.out_of_time() or (not hidden and work.used() > halfway):
                continue
            named = written.get(notebooks.exercise_id(cell), {})
            known = {"count": count, "absent": absent, "written": named, "order": f"{order} {index}", "place": index}
            with work.clock.part("tests", index):
                ended = _test(work, cell, known | {"hidden": hidden})
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


def _test(work: Submission, cell: NotebookNode, known: dict) -> bool:
    """Runs a test cell. What it lost, a process or the judge's patience, must be explained by what was used up. Whether
    the cell came to its end."""
    cell.outputs = []
    before, shortage = _spent(work), MachineShortage()
    lost, unfinished = _asked(work, cell, known)
    lacking = "" if _earned_all(cell) else shortage.found()
    if (lost or lacking) and not _is_spent(work, before):
        work.doubt(lost[0] if lost else f"a test cell failed while {lacking}")
    if unfinished:
        work.judge.close()
        work.judge = work.kernels.start(JUDGE, work.config, work.limits)
        _set_up_judge(work)
    return not unfinished


def _asked(work: Submission, cell: NotebookNode, known: dict) -> tuple[list[str], bool]:
    """Lets the judge's kernel run a test cell. What was lost meanwhile, and whether the cell came to no end."""
    lost = []

    def serve(message: dict) -> None:
        if "lost" in message:
            lost.append(f"a call was lost: {message['lost']}")
            return
        with _witness(work) as witness:
            work.judge.tell({}, witness.fileno())

    seconds = wall_limit(work.limits.cell_seconds) + GRACE  # first its calls are given up
    try:
        work.judge.tell({"ask": "test", "source": cell.source, **known})
        listen(work.judge, cell, Deadline(seconds), None, serve=serve)
    except BorderError as problem:
        cell.outputs = [_unfinished(problem)]
        return [*lost, cell.outputs[0].evalue], True
    return lost, False


def _unfinished(problem: BorderError) -> NotebookNode:
    if isinstance(problem, Closed):
        return outputs.error_output(KERNEL_DIED, "the process that the test ran in was ended")
    return outputs.error_output("CellTimeout", "the test did not come to an end within its time")


def _earned_all(cell: NotebookNode) -> bool:
    found = outputs.read_score(cell)
    return found is not None and found["score"] == notebooks.points(cell)


def _spent(work: Submission) -> tuple[Kernel, float, int]:
    """The student's kernel of this moment, and with the judge's the processor time and the kills so far."""
    both = work.student, work.judge
    return work.student, sum(kernel.used() for kernel in both), sum(kernel.kills() for kernel in both)


def _is_spent(work: Submission, before: tuple[Kernel, float, int]) -> bool:
    """Whether since then a test cell's processor time was used up, or something was ended for using too much."""
    kernel, used, kills = _spent(work)
    return kernel is before[0] and (used - before[1] >= work.limits.cell_seconds or kills > before[2])


def _witness(work: Submission) -> socket.socket:
    """The socket of a fresh fork that answers the judge. Where the student's kernel is lost, its cells run again."""
    with work.clock.part("border"):
        while True:
            with suppress(BorderError):
                return _fork(work.student)
            if work.tries >= TRIES or work.deadline.over:
                return socket.socketpair()[0]  # with nobody at the other end
            _run_again(work)


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
        status = listen(kernel, NotebookNode(outputs=[]), Deadline(GRACE), OutputRoom())
        if status != "ok":
            raise BorderError(f"it can't be forked ({status})")
        kernel.end_others(spared=_sender(ours))
    except BorderError:
        ours.close()
        raise
    return ours


def _sender(sock: socket.socket) -> int:
    """The number of the process that says the first byte, as the system knows it."""
    try:
        if not wait(sock, select.POLLIN, Deadline(GRACE)):
            raise TimeoutError
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
