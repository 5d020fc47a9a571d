"""Nothing that names a student can land in git by `git add .`, wherever an instructor puts it."""

import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")

PRIVATE = [
    "autograder/class/gradebook.db",
    "autograder/class/roster.csv",
    "autograder/class/history/ada/x.ipynb",
    "autograder/class.before-2026/submitted/ada/x.ipynb",
    "backups/class.zip",
    "roster.csv",
    "my roster.csv",
    "grades.csv",
    "sub/Grades-2026.csv",
    "Grades-2026.filled.csv",
    "worksheet.csv",
    "downloads/ada/02.ipynb",
    "downloaded/x.ipynb",
    "submissions.zip",
    "solutions/submissions.zip",
    "submitted/ada/x.ipynb",
    "submissions/ada/x.ipynb",
    "submission_1/x.ipynb",
    "feedback/ada/x.html",
    "gradebook.db",
    "gradebook.db-journal",
    "class.xlsx",
    "Ada Lovelace_1_assignsubmission_file/02.ipynb",
    "export/submission_metadata.yml",
]


def _ignored(paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=ROOT,
        input="\0".join(paths),
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split("\0")) - {""}


def test_student_data_is_ignored():
    assert sorted(set(PRIVATE) - _ignored(PRIVATE)) == []


def test_nothing_that_is_part_of_the_course_is_ignored():
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    assert sorted(_ignored([path for path in tracked if path])) == []
