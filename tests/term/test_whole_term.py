"""A term from the roster to the backup: every number that leaves is the gradebook's."""

import pytest
from conftest import UNIT

from autograder.bench import term, term_class

SEED = 5588  # three have done the first half, one file is cut off, one student hands in nothing


@pytest.mark.usefixtures("clock_put_back")
def test_a_whole_term(course, tmp_path):
    done = term.run(course, [UNIT], term_class.students(6), seed=SEED, folder=tmp_path / "term")
    assert done.differ == [] and done.compared > 36
    assert list(done.by_step()) == ["roster", *term.WEEKLY, *term.AT_THE_END]
    assert (tmp_path / "term" / "report.html").is_file() and (tmp_path / "term" / "class.zip").is_file()


def test_a_run_that_was_ended_goes_on(course, tmp_path, monkeypatch):
    did = []

    def step(name):
        def noted(of, unit):
            did.append(name)
            of.compared += 1
            if name == "grade" and did.count(name) == 1:
                raise KeyboardInterrupt

        return noted

    monkeypatch.setattr(term, "_roster", step("roster"))
    monkeypatch.setattr(term, "WEEKLY", {name: step(name) for name in ("collect", "grade")})
    monkeypatch.setattr(term, "AT_THE_END", {"report": step("report")})
    with pytest.raises(KeyboardInterrupt):
        term.run(course, [UNIT], [], folder=tmp_path / "term")
    done = term.run(course, [UNIT], [], folder=tmp_path / "term")
    assert did == ["roster", "collect", "grade", "grade", "report"]
    assert done.compared == 4 and list(done.by_step()) == ["roster", "collect", "grade", "report"]


def test_a_number_that_differs_is_told(course, tmp_path):
    found = term.Term(course, tmp_path, [UNIT], [])
    found.compare("x", {"ada": 1.0}, {"ada": 2.0, "bea": 1.0})
    assert found.differ == ["x: ada has 1.0, the gradebook 2.0", "x: bea has None, the gradebook 1.0"]


def test_a_class_has_all_kinds_and_hands_in_as_six_systems_give_it_out(course, tmp_path):
    people = term_class.students(150)
    found = term_class.hand_ins(course, UNIT, people, 0)
    assert len({one.kind for one in found}) == 12 >= len({one.data for one in found})
    assert 0 < len(people) - len(found) < 15 and {one.status for one in people} == {"", "dropped", "excused"}
    assert found == term_class.hand_ins(course, UNIT, people, 0)
    names = [path.name for path in term_class.archives(tmp_path, "02", found)]
    assert names == [f"02-{system}.zip" for system in term_class.LMS]
    again = term_class.second_attempts(course, UNIT, found, 0)
    assert again and {one.kind for one in again} == {term_class.RIGHT}
