"""What `attn grade` shows: names whole in 80 columns, a large class unit by unit, everything in a file and as JSON."""

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.console import Console

from autograder.cli.score_tables import as_json, as_text, is_large, scores_table, units_table
from autograder.cli.tables import WHERE, profile_table
from autograder.grading.grade import Outcome
from autograder.grading.submission_discovery import Submission
from autograder.judge.outputs import Result

UNITS = [f"{number:02d}_unit" for number in range(11)]
NAMES = ["nguyen-thi-minh-khai-2026-section-b", "al-khwarizmi", "o", "z" * 30]


def _graded(students: list[str], units: list[str]) -> tuple[dict, Outcome]:
    """A class in which everybody has 17.25 of 30 points in every unit, with answers to mark."""
    handed_in = [Submission(student, unit, Path()) for unit in units for student in students]
    row = {"score": 17.25, "max_score": 30.0, "needs_manual_grade": True}
    rows = {unit: {student: dict(row) for student in students} for unit in units}
    slip = Result("softmax", 1.0, 2.0, "no maximum is subtracted", "…")
    return rows, Outcome(submissions=handed_in, results={one: [slip] for one in handed_in})


def _printed(table, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as written:
        console.print(table)
    return written.get()


@pytest.mark.parametrize("width", [80, 60, 120])
def test_names_and_points_stay_whole_and_units_are_left_out(width):
    rows, outcome = _graded(NAMES, UNITS)
    shown = _printed(scores_table(rows, outcome, {}, width), width)
    assert all(name in shown for name in NAMES) and "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    columns = shown.count("17.25✎") // len(NAMES)
    assert 1 <= columns <= 11 and (columns == 11) == ("left out" not in shown)
    assert "\n/ 30" in shown or "/ 30" in shown
    if columns < 11:
        assert f"left out, for {width} columns have no room for them: 00–0" in " ".join(shown.split())


def test_a_reason_is_folded_before_a_unit_goes():
    rows, outcome = _graded(NAMES[:2], UNITS[:2])
    kinds = {NAMES[0]: "a solution cell copied: stock nbgrader stops the batch", NAMES[1]: "all right"}
    shown = _printed(scores_table(rows, outcome, kinds, 80), 80)
    assert "left out" not in shown and NAMES[0] in shown and "batch" in shown


def test_a_large_class_is_shown_unit_by_unit():
    students = [f"student-{number}" for number in range(40)]
    rows, outcome = _graded(students, UNITS)
    rejected = Submission("student-0", UNITS[0], Path())
    del outcome.results[rejected]
    outcome.rejected[rejected] = "the file is empty"
    shown = _printed(units_table(rows, outcome), 80)
    assert is_large(outcome) and "student-1" not in shown and shown.count("17.25") == 11 * 4
    assert ["00", "40", "39", "1", "39", "30"] in [line.split()[:6] for line in shown.splitlines()]
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown
    text = as_text(rows, outcome, {})
    assert all(student in text for student in students) and text.count("17.25✎") == 440


def test_json_has_all_of_it():
    rows, outcome = _graded(["ada", "bob"], UNITS[:1])
    bob = Submission("bob", UNITS[0], Path())
    del outcome.results[bob], rows[UNITS[0]]["bob"]
    outcome.rejected[bob] = "the file is empty"
    unit = as_json(rows, outcome)["units"][UNITS[0]]
    assert (unit["max"], unit["handed_in"], unit["graded"], unit["rejected"], unit["to_mark"]) == (30, 2, 1, 1, 1)
    assert unit["students"] == {
        "ada": {"status": "graded", "score": 17.25, "to_mark": True, "why": ""},
        "bob": {"status": "rejected", "score": None, "to_mark": False, "why": "the file is empty"},
    }
    assert unit["misconceptions"] == [
        {"exercise": "softmax", "misconception": "no maximum is subtracted", "students": 1}
    ]


def test_the_options_of_the_command(course, attn, tmp_path):
    hand_in(course, "ada", right_answers(course))
    hand_in(course, "bob").write_text("")
    file = tmp_path / "scores.txt"
    found = json.loads(attn(course, "grade", "2", "--json", "--table", str(file)).stdout)
    assert found["units"][UNIT]["students"]["ada"]["score"] == 6 and found["judged"] == 1
    assert "ada" in file.read_text() and "6✎" in file.read_text()
    quiet = attn(course, "grade", "--quiet")
    assert quiet.exit_code == 3 and quiet.output.strip().startswith("bob 02 rejected: the file is empty")
    assert len(quiet.output.strip().splitlines()) == 1
    nowhere = attn(course, "grade", "--quiet", "--table", str(file / "scores.txt"))
    assert nowhere.exit_code == 2 and "The grades are recorded, but" in nowhere.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grad"], "No such command 'grad'"),
        (["grade", "--worker", "2"], "No such option: --worker"),
        (["grade", "--workers", "0"], "Invalid value for '--workers'"),
        (["mark"], "Missing argument 'FILE.ipynb'"),
        (["new", "exercize"], "No such command 'exercize'"),
        (["lint", "99"], "Unknown unit '99'"),
    ],
)
def test_a_slip_of_typing_is_one_line_with_status_2(course, attn, arguments, says):
    done = attn(course, *arguments)
    assert done.exit_code == 2 and says in done.output
    assert done.output.startswith("attn: ") and len(done.output.strip().splitlines()) == 1


def test_without_arguments_the_help_is_shown(course, attn):
    done = attn(course)
    assert "Usage: " in done.output and "sample-class" in done.output


def test_a_profile_names_every_part_and_its_seconds_for_each_submission():
    shown = _printed(profile_table(Outcome(judged=4, seconds=Counter(cells=2.0, recording=6.0))), 80)
    assert all(part in shown for part in WHERE) and "75%" in shown
    assert "1.50" in shown and "4 notebooks judged" in shown
