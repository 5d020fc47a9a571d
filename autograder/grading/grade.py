"""Grading all that is submitted: read, judge in parallel what is new, record it in the gradebook, write feedback.

A submission that can't be graded costs its own points only: it is named with a reason, and the batch goes on."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf

from nbformat import NotebookNode
from rich.progress import Progress

from autograder import limited_process, notebooks
from autograder.course import nbgrader_steps
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.course.settings import limits
from autograder.cpu_count import cpu_count
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import gradebook_writer, intake, worker_tasks
from autograder.grading.ctrl_c import Interrupts, ctrl_c
from autograder.grading.open_gradebook import open_gradebook
from autograder.grading.preload import anything_new
from autograder.grading.result_cache import Store, grader_version, key
from autograder.grading.runtime_estimates import RuntimeEstimates
from autograder.grading.submission_discovery import Submission, misplaced_notebooks, submissions
from autograder.grading.submission_parser import Rejected
from autograder.grading.worker_pool import Ended, LazyArgument, SerialWorkers, TaskFailed, worker_pool
from autograder.judge.config import Limits
from autograder.judge.outputs import Result
from autograder.judge.sandbox.walls import SandboxError
from autograder.judge.timings import Clock

NO_MISTAKE = ("not attempted", None)
"""Diagnoses that say nothing about how a student thinks."""
IN_DOUBT = "graded, but not for good: {}, twice; the next `attn grade` judges it anew"
CHANGED = "it was changed while the class was graded: grade it again"


@dataclass
class Outcome:
    """What a run of grading did. Students' scores are in the gradebook; `results` are the test cells behind them.
    `seconds`: where the time went, by part (see `profile_table` in tables.py), of all submissions together."""

    submissions: list[Submission] = field(default_factory=list)
    results: dict[Submission, list[Result]] = field(default_factory=dict)
    rejected: dict[Submission, str] = field(default_factory=dict)
    failed: dict[Submission, str] = field(default_factory=dict)
    repairs: dict[Submission, list[str]] = field(default_factory=dict)
    notes: dict[Submission, list[str]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    judged: int = 0
    recorded: int = 0
    feedback: int = 0
    seconds: Counter[str] = field(default_factory=Counter)

    def units(self) -> list[str]:
        """The units that somebody handed in."""
        return sorted({submission.unit for submission in self.submissions})

    def misconceptions(self) -> Counter:
        """How many students have each misconception, by (unit, exercise, name)."""
        return Counter(
            (submission.unit, result.exercise, result.diagnosis)
            for submission, results in self.results.items()
            for result in results
            if result.diagnosis not in NO_MISTAKE
        )


@dataclass(frozen=True)
class Settings:
    """How to grade: who (nobody named: everybody), and where the judges run."""

    students: tuple[str, ...] = ()
    workers: int | None = None
    scheduler: str | None = None
    dashboard: bool = False


def grade(course: Course, units: Iterable[str], settings: Settings, progress: Progress) -> Outcome:
    """Grades the units' submissions. Raises CourseError where there is nothing to grade at all, and where the gradebook
    or the disk can't be used; what was graded by then is kept."""
    with gradebook_writer.gradebook_lock(course), ctrl_c() as presses:
        try:
            return _Run(course, list(units), settings, progress, presses).run()
        except nbgrader_steps.GradebookUnusable as error:
            raise CourseError(f"{error} Then run `attn grade` again. What is graded is kept.") from None
        except OSError as error:
            reason = f"{error.filename or course.classroom} can't be used ({error.strerror}): mend that, or make room"
        raise CourseError(f"{reason}, and run `attn grade` again. What is graded is kept.")


class _Run:
    """One run: the steps share the course, the limits and the outcome they build."""

    def __init__(
        self, course: Course, units: list[str], settings: Settings, progress: Progress, presses: Interrupts
    ) -> None:
        self.course, self.units, self.settings, self.progress = course, units, settings, progress
        self.presses = presses
        self.limits = limits(course)
        self.store = Store(course.results)
        self.outcome = Outcome()
        self.keys: dict[Submission, str] = {}
        self.judging: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.costs = RuntimeEstimates(course)
        self.clock = Clock()

    def run(self) -> Outcome:
        limited_process.prepare("autograder.grading.submission_parser")
        self._collect()
        originals = [notebooks.to_text(solved(self.course, unit)) for unit in self.units]
        workers = min(self.settings.workers or cpu_count(), len(self.outcome.submissions))
        handed_in = Counter(submission.unit for submission in self.outcome.submissions)
        warm_up = (worker_tasks.warm_up, {unit: handed_in[unit] for unit in self.units}, originals, self.limits)
        with worker_pool(workers, self.settings.scheduler, self.settings.dashboard, warm_up) as self.fleet:
            self.door = ResultKeys(self.course, self.limits)
            if anything_new(self.outcome.submissions, self.door.staged):
                self.fleet.begin()  # its processes import for seconds, while this one does what comes next
            self.digests = {unit: gradebook_writer.register(self.course, unit) for unit in self.units}
            self.known = {unit: gradebook_writer.graded_students(self.course, unit) for unit in self.units}
            self.pages = gradebook_writer.Notes(self.course, "feedback")
            with open_gradebook(self.course) as self.gradebook:
                self._grade_all()
        self.outcome.seconds = self.clock.parts
        return self.outcome

    def _collect(self) -> None:
        self.outcome.strays = [] if self.settings.students else misplaced_notebooks(self.course)
        for unit in self.units:
            self.outcome.submissions += submissions(self.course, unit, list(self.settings.students))
        if not self.outcome.submissions:
            raise CourseError(f"No submissions of {', '.join(self.units)} in {self.course.submitted}.", BAD_INPUT)
        self.units = self.outcome.units()

    def _grade_all(self) -> None:
        """Each submission is recorded as soon as its result is there, while others are judged; then its page is
        made."""
        self.waiting = defaultdict(list)
        self.reading, self.task = (
            self.progress.add_task(label, total=len(self.outcome.submissions)) for label in ("Reading", "Grading")
        )
        try:
            self._intake()
            if not (self.judging or self.outcome.judged):  # a page or two are sooner rendered than workers started
                self.fleet = SerialWorkers()
            for name in [name for name in self.waiting if name not in self.judging]:
                self._record_all(name)
                self._take(self.fleet.ready())
            self._take(self._results())
        finally:
            self.costs.save()

    def _intake(self) -> None:
        """Reads and sanitises what has not been seen before; whatever has no result yet is judged."""
        for submission in self.progress.track(self.outcome.submissions, task_id=self.reading):
            self.presses.check()
            with self._one(submission), self.clock.part("intake"):
                name, notebook, notes = self.door.read(submission, self.digests[submission.unit])
                if name not in self.store and not notebook:
                    name, notebook, notes = self.door.anew(submission, self.digests[submission.unit])
                self.outcome.notes[submission] = [*notes]
                if name not in self.store and name not in self.judging:
                    self._begin(name, submission, notebook)
                self.keys[submission] = name
                self.waiting[name].append(submission)
            self._take(self.fleet.ready())
        self.progress.update(self.task, total=len(self.keys))
        self.door.save()

    def _begin(self, name: str, submission: Submission, notebook: NotebookNode) -> None:
        """Of what waits for a judge, what is expected to take longest comes first."""
        self.judging.add(name)
        self._judge(name, submission, self.costs.expected(notebook))

    def _judge(self, name: str, submission: Submission, cost: float, attempt: int = 0) -> None:
        task = LazyArgument(self._text, name, submission), submission.unit, self.limits, attempt
        self.attempts[name] = attempt
        self.fleet.submit(("judge", name), worker_tasks.judge_text, *task, cost=cost)

    def _text(self, name: str, submission: Submission) -> str:
        """Of the staged notebook, whose result will be kept under this name."""
        if text := self.door.text(submission, name):
            return text
        raise RuntimeError(CHANGED)

    def _take(self, results: Iterable[Ended]) -> None:
        for (kind, name), result in results:
            (self._judged if kind == "judge" else self._page)(name, result)

    def _results(self) -> Iterator[Ended]:
        results = self.fleet.results()
        while True:
            with self.presses.heard_at_once():
                result = next(results, None)
            if result is None:
                return
            yield result

    def _judged(self, name: str, result: Callable[[], dict]) -> None:
        try:
            verdict = result()
            if verdict["grader"] != grader_version():  # of a worker that came after all others were asked for theirs
                raise TaskFailed("judged by a worker with another version of the course: install this one there")
            if "again" in verdict:  # when all others are done, and the machine has less to do
                self._judge(name, self.waiting[name][0], cost=-1.0, attempt=self.attempts[name] + 1)
                return
            notebook = notebooks.parse(verdict["notebook"])
            self._keep(name, notebook, verdict["doubts"])
            self.costs.learn(notebook, verdict["cells"])
            self.clock.parts.update(verdict["parts"])
            self.outcome.judged += 1
        except SandboxError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, TaskFailed) else _named(error)
            self.outcome.failed |= {submission: reason for submission in self.waiting[name]}
        self.judging.remove(name)
        self._record_all(name)
        self.store.forget(name)

    def _keep(self, name: str, notebook: NotebookNode, doubts: list[str]) -> None:
        """What is in doubt is only there until it is recorded, so that the next run judges it anew."""
        if not doubts:
            self.store.put(name, notebook)
            return
        self.store.lend(name, notebook)
        for submission in self.waiting[name]:
            self.outcome.notes[submission].append(IN_DOUBT.format(doubts[0]))

    def _record_all(self, name: str) -> None:
        for submission in self.waiting.pop(name):
            self.presses.check()
            if submission in self.outcome.failed:
                self.progress.advance(self.task)
                continue
            with self._one(submission), self.clock.part("recording"):
                self._record(submission)
            if submission in self.outcome.failed:
                self.progress.advance(self.task)

    def _record(self, submission: Submission) -> None:
        """Into the gradebook, through nbgrader's own autograde, which finds the result in the store. Then its page,
        where there is none yet that shows this."""
        student, unit, name = submission.student, submission.unit, self.keys[submission]
        if not gradebook_writer.is_recorded(self.course, student, unit, name, self.known[unit]):
            if not self.door.text(submission, name) and self.door.anew(submission, self.digests[unit])[0] != name:
                raise RuntimeError(CHANGED)
            with self._whole():
                nbgrader_steps.autograde(self.course, student, unit)
            self.outcome.recorded += 1
        self.outcome.results[submission] = self.store.results(name)
        self.outcome.repairs[submission] = gradebook_writer.repairs(self.course, student, unit)
        state = gradebook_writer.outdated_page(self.course, student, unit, self.pages)
        if not state:
            self.progress.advance(self.task)
            return
        text, grades = nbgrader_steps.page_material(self.course, student, unit)
        self.fleet.submit(("page", (submission, state)), worker_tasks.render_text, text, grades, cost=inf)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All of a submission's rows, or none of them."""
        try:
            yield
        except BaseException:
            self.gradebook.drop()
            raise
        self.gradebook.keep()

    def _page(self, name: tuple[Submission, str], result: Callable[[], dict]) -> None:
        (submission, state), page, problem = name, "", ""
        try:
            made = result()
            page, problem = made["page"], made["problem"]
            self.clock.parts["feedback"] += made["seconds"]
        except TaskFailed as error:
            problem = str(error)
        with self._one(submission), self.clock.part("recording"):
            gradebook_writer.write_page(self.course, submission.student, submission.unit, page)
            self.pages.put(f"{submission.student}/{submission.unit}", state)
            self.outcome.feedback += not problem
        if problem:  # graded it is
            self.outcome.notes[submission].append(f"graded, but the feedback page could not be written: {problem}")
        self.progress.advance(self.task)

    @contextmanager
    def _one(self, submission: Submission) -> Iterator[None]:
        """The one place where whatever a submission does to the grader ends: as a named reason that costs it alone."""
        try:
            yield
        except SandboxError:  # nothing can be graded on this machine
            raise
        except Rejected as reason:
            self._reject(submission, str(reason))
        except nbgrader_steps.StepFailed as error:
            self._fail(submission, f"nbgrader can't grade it: {error}")
        except Exception as error:
            self._fail(submission, _named(error))

    def _reject(self, submission: Submission, reason: str) -> None:
        self.outcome.rejected[submission] = reason
        try:
            gradebook_writer.add_student(self.course, submission.student)
            self.gradebook.keep()
        except Exception:  # a name that the gradebook can't hold, as the reason says
            return

    def _fail(self, submission: Submission, reason: str) -> None:
        self.outcome.failed[submission] = reason
        self.outcome.results.pop(submission, None)


def _named(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class ResultKeys:
    """Which result a hand-in leads to, remembered by its bytes: a second run need not look into it again."""

    def __init__(self, course: Course, limits: Limits) -> None:
        self.course, self.limits, self.units = course, limits, intake.units_of(course)
        self.path = course.results / "intake.json"
        self.known, self.staged = self._load()

    def read(self, submission: Submission, digest: str) -> tuple[str, NotebookNode | None, list[str]]:
        """The key of the submission's result, the sanitized notebook if it was made, and notes. Raises Rejected."""
        place = f"{submission.student}/{submission.unit}"
        try:
            hand_in = intake.read(self.course, submission)
            name = self._fingerprint(submission, hand_in, digest)
            if self.staged.get(place) == name and name in self.known and self._is_staged(submission):
                return *self.known[name][:1], None, self.known[name][1]
            intake.stage(self.course, submission, hand_in, self.units)
        except Rejected:
            self.staged.pop(place, None)
            intake.unstage(self.course, submission)
            raise
        notebook = nbgrader_steps.sanitize(self.course, submission.student, submission.unit)
        gradebook_writer.write_whole(
            self.course.taken_in(submission.student, submission.unit), notebooks.to_text(notebook)
        )
        result = key(notebook, submission.unit, self.limits)
        self.staged[place], self.known[name] = name, [result, hand_in.notes]
        return result, notebook, hand_in.notes

    def text(self, submission: Submission, result: str) -> str:
        """Of what lies in the staging folder, if it is the sanitised notebook that led to this result; else "":
        nbgrader's own command puts hand-ins there too, as they are, and so does a run that was ended in between."""
        with suppress(Exception):  # there is nothing, or nothing that can be read
            text = self.course.taken_in(submission.student, submission.unit).read_text(encoding="utf-8")
            if key(notebooks.parse(text), submission.unit, self.limits) == result:
                return text
        return ""

    def anew(self, submission: Submission, digest: str) -> tuple[str, NotebookNode | None, list[str]]:
        """The same as `read`, of the hand-in read once more."""
        self.staged.pop(f"{submission.student}/{submission.unit}", None)
        return self.read(submission, digest)

    def save(self) -> None:
        gradebook_writer.write_whole(self.path, json.dumps({"known": self.known, "staged": self.staged}))

    def _is_staged(self, submission: Submission) -> bool:
        return self.course.taken_in(submission.student, submission.unit).is_file()

    def _fingerprint(self, submission: Submission, hand_in: intake.HandIn, digest: str) -> str:
        """A hash of all that decides what is staged, and what comes of it."""
        files = [(file.name, hashlib.sha256(file.data).hexdigest()) for file in hand_in.files]
        parts = [submission.unit, digest, grader_version(), repr(self.limits), files, hand_in.time, hand_in.notes]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _load(self) -> tuple[dict[str, list], dict[str, str]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return found["known"], found["staged"]
        except (OSError, ValueError, KeyError):
            return {}, {}
