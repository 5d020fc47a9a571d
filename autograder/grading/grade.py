"""Grading all that is submitted: read, judge in parallel what is new, record it in the gradebook, write feedback.

A submission that can't be graded costs its own points only: it is named with a reason, and the batch goes on."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbformat import NotebookNode
from rich.progress import Progress

from autograder.course import stock
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import record
from autograder.grading.execute import JudgedExecute
from autograder.grading.fleet import Job, judge_all
from autograder.grading.store import Store, grader_version, key
from autograder.grading.triage import Rejected, Submission, open_submission, strays, submissions
from autograder.judge.judge import Limits
from autograder.judge.outputs import Result

NO_MISTAKE = ("not attempted", None)
"""Diagnoses that say nothing about how a student thinks."""


@dataclass
class Outcome:
    """What a run of grading did. Students' scores are in the gradebook; `results` are the test cells behind them."""

    submissions: list[Submission] = field(default_factory=list)
    results: dict[Submission, list[Result]] = field(default_factory=dict)
    rejected: dict[Submission, str] = field(default_factory=dict)
    failed: dict[Submission, str] = field(default_factory=dict)
    repairs: dict[Submission, list[str]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    judged: int = 0
    recorded: int = 0
    feedback: int = 0

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


def grade(course: Course, units: Iterable[str], settings: Settings, progress: Progress) -> Outcome:
    """Grades the units' submissions. Raises CourseError where there is nothing to grade at all."""
    with record.only_writer(course):
        return _Run(course, list(units), settings, progress).run()


class _Run:
    """One run: the steps share the course, the limits and the outcome they build."""

    def __init__(self, course: Course, units: list[str], settings: Settings, progress: Progress) -> None:
        self.course, self.units, self.settings, self.progress = course, units, settings, progress
        self.limits = limits(course)
        self.store = Store(course.results)
        self.outcome = Outcome()
        self.keys: dict[Submission, str] = {}

    def run(self) -> Outcome:
        self._collect()
        jobs = self._intake()
        known = {unit: record.graded_students(self.course, unit) for unit in self.units}
        self._judge(jobs, known)
        return self.outcome

    def _collect(self) -> None:
        self.outcome.strays = [] if self.settings.students else strays(self.course)
        for unit in self.units:
            self.outcome.submissions += submissions(self.course, unit, list(self.settings.students))
        if not self.outcome.submissions:
            raise CourseError(f"No submissions of {', '.join(self.units)} in {self.course.submitted}.", BAD_INPUT)
        self.units = self.outcome.units()

    def _intake(self) -> list[Job]:
        """Reads and sanitises what has not been seen before. Returns the jobs for which there is no result yet."""
        digests = {unit: record.register(self.course, unit) for unit in self.units}
        intake, jobs = Intake(self.course, self.limits), {}
        for submission in self._track("Reading", self.outcome.submissions):
            try:
                name, notebook = intake.read(submission, digests[submission.unit])
                self.keys[submission] = name
                if name not in self.store and name not in jobs:
                    notebook = notebook or stock.sanitise(self.course, submission.student, submission.unit)
                    jobs[name] = Job(name, submission.unit, notebook)
            except Rejected as reason:
                self._reject(submission, str(reason))
            except stock.StepFailed as error:
                self._reject(submission, f"nbgrader can't read it: {error}")
        intake.save()
        return list(jobs.values())

    def _judge(self, jobs: list[Job], known: dict[str, set[str]]) -> None:
        """Records each submission as soon as its result is there, while others are still being judged."""
        waiting = defaultdict(list)
        for submission, name in self.keys.items():
            waiting[name].append(submission)
        verdicts = judge_all(jobs, self.limits, self.settings.workers, self.settings.scheduler)
        task = self.progress.add_task("Grading", total=len(self.keys))
        for verdict in verdicts:
            self._keep(verdict, waiting[verdict.key])
            for submission in waiting.pop(verdict.key):
                self._record(submission, known)
                self.progress.advance(task)
        for students in waiting.values():
            for submission in students:
                self._record(submission, known)
                self.progress.advance(task)

    def _keep(self, verdict, students: list[Submission]) -> None:
        if verdict.notebook is None:
            self.outcome.failed |= {submission: verdict.problem for submission in students}
            return
        self.store.put(verdict.key, verdict.notebook)
        self.outcome.judged += 1

    def _record(self, submission: Submission, known: dict[str, set[str]]) -> None:
        """Into the gradebook, through nbgrader's own autograde, which finds the result in the store."""
        if submission in self.outcome.failed:
            return
        student, unit, name = submission.student, submission.unit, self.keys[submission]
        try:
            if not record.is_recorded(self.course, student, unit, name, known[unit]):
                stock.autograde(self.course, student, unit)
                self.outcome.recorded += 1
            self.outcome.feedback += record.write_feedback(self.course, student, unit)
            self.outcome.results[submission] = self.store.results(name)
            self.outcome.repairs[submission] = record.repairs(self.course, student, unit)
        except stock.StepFailed as error:
            self.outcome.failed[submission] = str(error)

    def _reject(self, submission: Submission, reason: str) -> None:
        self.outcome.rejected[submission] = reason
        record.add_student(self.course, submission.student)

    def _track(self, label: str, things: list):
        return self.progress.track(things, description=label)


class Intake:
    """Which result a handed-in file leads to, remembered by the file's bytes: a second run need not sanitise again."""

    def __init__(self, course: Course, limits: Limits) -> None:
        self.course, self.limits = course, limits
        self.path = course.results / "intake.json"
        self.known = self._load()

    def read(self, submission: Submission, digest: str) -> tuple[str, NotebookNode | None]:
        """The key of the submission's result, and the sanitised notebook if it had to be made. Raises Rejected."""
        name = self._fingerprint(submission, digest)
        if name in self.known:
            return self.known[name], None
        open_submission(self.course, submission)
        notebook = stock.sanitise(self.course, submission.student, submission.unit)
        self.known[name] = key(notebook, submission.unit, self.limits)
        return self.known[name], notebook

    def save(self) -> None:
        record.write_whole(self.path, json.dumps(self.known))

    def _fingerprint(self, submission: Submission, digest: str) -> str:
        content = submission.path.read_bytes() if submission.path.is_file() else b""
        parts = [submission.unit, digest, grader_version(), repr(self.limits), hashlib.sha256(content).hexdigest()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _load(self) -> dict[str, str]:
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}


def limits(course: Course) -> Limits:
    """The limits that nbgrader_config.py sets."""
    return JudgedExecute(config=stock.settings(course)).limits
