"""Right answers are graded as in a student's own notebook."""

from dataclasses import replace

from autograder.course.exercises import exercises
from autograder.judge.kernel_manager import kernel_manager
from autograder.proofs import graded
from autograder.proofs.graded import graded_answers


def test_a_right_answer_of_each_exercise_has_the_card_of_its_own_notebook(real_course):
    """Of the unit with the most objects that checks ask again; `attn prove --graded` compares all."""
    found = list(graded_answers(real_course, "08_kv_cache", kernel_manager(), most=1))
    assert len(found) == len(exercises(real_course, "08_kv_cache")) and not [one for one in found if one.problem]


def test_another_card_is_found(monkeypatch, real_course):
    own = graded._own
    monkeypatch.setattr(graded, "_own", lambda *args: replace(own(*args), score=0.25, message="Not so."))
    (found,) = graded_answers(real_course, "00_start_here", kernel_manager(), only="read_shape", most=1)
    assert found.problem == "score 0.25, graded 1.0; message 'Not so.', graded ''"
