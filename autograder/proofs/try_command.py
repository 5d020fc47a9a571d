"""`attn try`: one unit, or one exercise of it, through everything that must hold of it, in one process: lint, build,
prove, and the solution notebook run from top to bottom."""

from dataclasses import dataclass, field

from autograder.course import build
from autograder.course.exercises import exercises, solved
from autograder.course.lint import lint, to_fill_in
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.proofs.prove import Proof, prove
from autograder.proofs.run_solution import SolutionRun, run_solution


@dataclass
class TryResult:
    """What came of it. `misses` are lines that say what is wrong, in the order in which to mend it."""

    unit: str
    built: int = 0  # files written
    proofs: dict[str, Proof] = field(default_factory=dict)
    points: dict[str, float] = field(default_factory=dict)  # exercise id → what it is worth
    played: SolutionRun = field(default_factory=SolutionRun)
    misses: list[str] = field(default_factory=list)


def try_exercise(course: Course, unit: str, only: str | None = None) -> TryResult:
    """Try a unit, or one exercise. Where something is still to be filled in, or lint finds a mistake, that is all it
    says: what would fail after it fails because of it."""
    tried = TryResult(unit)
    tried.misses += lint(course, [unit])
    unwritten = {exercise for _, _, exercise, _ in to_fill_in(course, unit)}
    mistakes = len(tried.misses) - len(to_fill_in(course, unit))
    if mistakes or (only in unwritten if only else bool(unwritten)):
        return tried
    try:
        tried.built = len(build.build(course, [unit]))
    except CourseError as error:
        tried.misses.append(str(error))
        return tried
    tried.proofs = prove(course, [unit], only)[unit]
    if not tried.proofs:
        tried.misses.append(f"{unit} has no exercise yet: `attn new exercise {unit[:2]} ID` writes the stubs of one")
    tried.points = {exercise.id: exercise.points for exercise in exercises(course, unit, only)}
    tried.misses += [f"{name}: {miss}" for name, proof in tried.proofs.items() for miss in proof.misses]
    tried.played = run_solution(solved(course, unit), only)
    tried.misses += [f"{name}: {miss}" if name else miss for name, miss in tried.played.misses]
    return tried
