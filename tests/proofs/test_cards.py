"""The page of all cards."""

import re


def test_the_page_holds_a_card_for_every_wrong_answer_and_a_green_one(built, attn, tmp_path):
    from autograder.course.exercises import exercises

    file = tmp_path / "cards.html"
    done = attn(built, "cards", "2", "--into", str(file))
    page = file.read_text()
    found = exercises(built, built.unit("2"))
    wrong = sum(len(list(exercise.wrong_answers())) for exercise in found)
    assert done.exit_code == 0 and f"wrote {wrong + len(found)} cards" in done.output
    assert page.count('role="group"') == wrong + len(found) and f"{wrong} cards of wrong answers" in page
    assert len(re.findall(r'aria-label="[^"]+"[^>]*border-left:6px solid #146c3f', page)) == len(found)
    assert all(f'href="#{exercise.id}"' in page and f'id="{exercise.id}"' in page for exercise in found)


def test_a_place_that_cannot_be_written_is_one_line(built, attn, tmp_path):
    (tmp_path / "none").write_text("a file")
    done = attn(built, "cards", "2", "--into", str(tmp_path / "none" / "cards.html"))
    assert done.exit_code == 2 and "can't be written" in done.output
