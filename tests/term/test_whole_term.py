"""A term from the roster to the backup: every number that leaves is the gradebook's."""

from conftest import UNIT

from autograder.bench import term


def test_a_whole_term(course):
    done = term.run(course, [UNIT], term.students(6))
    assert done.differ == [] and done.compared == 5 * 6
    assert list(done.seconds) == ["release", "roster", "collect", "grade", "mark by hand", "feedback", "export", "return",
                                  "preview", "grade again", "report", "backup"]  # fmt: skip


def test_a_number_that_differs_is_told(course):
    found = term.Term(course, [UNIT], [], 1)
    found.compare("x", {"ada": 1.0}, {"ada": 2.0, "bea": 1.0})
    assert found.differ == ["x: ada has 1.0, the gradebook 2.0", "x: bea has None, the gradebook 1.0"]
