"""The longest first: what a notebook is expected to take."""

from conftest import UNIT, hand_in, right_answers

from autograder import notebooks
from autograder.grading.runtime_estimates import RuntimeEstimates


def test_the_same_words_cost_what_they_cost_and_others_the_average(course):
    right = right_answers(course)
    seen = notebooks.read(hand_in(course, "ada", right))
    other = notebooks.read(hand_in(course, "bea", right | {"softmax": "def softmax(x, dim):\n    return x"}))
    index = {notebooks.grade_id(cell): number for number, cell in enumerate(seen.cells)}
    costs = RuntimeEstimates(course)
    assert costs.expected(seen) == 0
    costs.learn(seen, {index["softmax"]: 1.0, index["softmax_test"]: 2.0, index["attend_test"]: 4.0})
    costs.learn(other, {index["softmax_test"]: 12.0})
    costs.save()
    again = RuntimeEstimates(course)
    assert again.expected(seen) == 7.0 and again.expected(other) == 1 + 12 + 4
    third = notebooks.read(hand_in(course, "cem", right | {"softmax": "def softmax(x, dim):\n    return 2 * x"}))
    assert again.expected(third) == 1 + (0.3 * 12 + 0.7 * 2) + 4


def test_a_spoilt_file_is_no_memory(course):
    course.results.mkdir(parents=True, exist_ok=True)
    (course.results / "costs.json").write_text("{cut off")
    assert RuntimeEstimates(course).seconds == {}
    assert RuntimeEstimates(course).expected(notebooks.read(course.solved(UNIT))) == 0
