"""nbgrader's settings for this course. nbgrader finds this file when it runs in this folder or below formgrader's root,
and `attn` reads it too; both then use the same folders, the same gradebook and the same grading step."""

import os
import sys
from pathlib import Path

root = Path(__file__).resolve().parent
classroom = root / "autograder" / "class"
classroom.mkdir(parents=True, exist_ok=True)  # SQLite makes the gradebook, but not the folder it lies in
sys.path.insert(0, str(root))  # the grading steps below are this checkout's, wherever the command was installed from

c = get_config()  # noqa: F821 (nbgrader defines it)

c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "attention_course"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.submitted_directory = "autograder/class/submitted"
c.CourseDirectory.autograded_directory = "autograder/class/autograded"
c.CourseDirectory.feedback_directory = "autograder/class/feedback"
c.CourseDirectory.db_url = f"sqlite:///{classroom / 'gradebook.db'}"
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    "feedback",
    "[0-9][0-9]_*.py",
    "pictures",
]  # pictures: insert_previews.py puts them in

# Of deadlines and worksheets that name no zone; else this machine's.
# c.Collect.zone = "Europe/Berlin"

c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "*Your answer here.*"

# A question's rubric and model answer stand between BEGIN/END MARK SCHEME in the locked question cell. nbgrader means
# such regions for "task" cells and refuses others by default, because only cells that it restores can bring them back:
# locked cells are restored from the gradebook, so the rubric is there again for the marker and in the feedback.
c.ClearMarkScheme.enforce_metadata = False

# Grading: every hand-in is read once, mended, made harmless and put into the staging folder before nbgrader looks at
# it (nbgrader has no setting for this: see nbgrader_hook.py); then come nbgrader's own steps, with our Execute.
if "nbgrader" in sys.modules:  # not where `attn mark` reads the limits below, and needs no nbgrader
    from autograder.course import feedback_grades, insert_previews
    from autograder.grading.nbgrader_hook import install

    install()
    # nbgrader starts `alembic` by name for a new gradebook, also where no environment is active.
    scripts = str(Path(sys.executable).parent)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, (scripts, os.environ.get("PATH"))))
    c.GenerateAssignment.preprocessors = insert_previews.PREPROCESSORS
    c.GenerateFeedback.preprocessors = feedback_grades.PREPROCESSORS
c.Autograde.sanitize_preprocessors = [
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "autograder.grading.execute.JudgedExecute",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "autograder.grading.kept_marks.KeptMarks",
    "autograder.grading.for_markers.ForMarkers",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# Against nbformat's schema at a step's end, not after each of its preprocessors.
c.Exporter.optimistic_validation = True
c.GenerateFeedback.exporter_class = "autograder.grading.feedback.FeedbackExporter"
c.KeptMarks.answers = str(classroom / "answers")
c.KeptMarks.log_file = str(classroom / "regrades.csv")
c.ForMarkers.solutions = str(root / "solutions")
c.JudgedExecute.results = str(classroom / "results")
c.Execute.timeout = 60  # seconds a cell; also for `nbgrader validate`, which runs nbgrader's own Execute
c.JudgedExecute.notebook_timeout = 600  # seconds for all cells of one submission
c.JudgedExecute.sandbox = os.environ.get("ATTN_SANDBOX", "namespaces")  # or bubblewrap; none: see SECURITY.md
