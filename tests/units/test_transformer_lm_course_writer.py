"""The trained model that writes like the course: small, in the student's classes, and as good as the notebook says."""

import math
import re
import zlib

import IPython.display
import pytest
import torch
from conftest import ROOT

from autograder.alternatives.transformer_lm import decoder_lm
from autograder.bench import course_text
from helpers import plots
from helpers.film import LIMIT
from helpers.transformer_lm import course_writer
from helpers.transformer_lm.checks.decoder_lm import lm, own_head
from helpers.transformer_lm.plots import course_writer as plot
from helpers.transformer_lm.positions import rotary_embedding
from helpers.transformer_lm.sampling import generate, next_token_probabilities
from helpers.transformer_lm.training import train

NOTEBOOK = (ROOT / "solutions" / "05_transformer_lm" / "05_transformer_lm.py").read_text(encoding="utf-8")
PROSE = " ".join(NOTEBOOK.replace("\n# ", " ").split())


def unsolved(*_):
    raise NotImplementedError


@pytest.fixture
def films(monkeypatch):
    """What is shown; and nothing is measured, which takes a second or two."""
    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    monkeypatch.setattr(course_writer, "bits", lambda *_: (2.0, 4.0, 1.0))
    return shown


def write(model, probabilities=next_token_probabilities, loop=generate, n=50):
    plots.write_english(model, rotary_embedding, probabilities, loop, "Attention is ", n=n)


def test_the_files_are_small():
    assert course_writer.TEXT.stat().st_size + course_writer.WEIGHTS.stat().st_size < 1_000_000


def test_the_numbers_of_the_notebook_are_those_of_the_weights():
    model, characters = course_writer.course_writer()
    found = course_writer.bits(model, characters, course_writer.course_text(held_out=True))
    (told,) = re.findall(r'"5.18 Bits per character": \(guess_bits, ([\d.]+)\)', NOTEBOOK)
    assert found[0] == pytest.approx(float(told), abs=0.02)
    assert found[1] > found[0] > found[2]
    assert characters == course_writer.alphabet() and f"{len(characters)} in all" in NOTEBOOK
    assert f"{len(course_writer.course_text(held_out=False)):,}"[:3] in NOTEBOOK
    assert f"= {math.log2(len(characters)):.1f}$ bits" in NOTEBOOK


def test_a_zip_file_needs_what_the_notebook_says():
    text = course_writer.course_text(held_out=True)
    assert f"needs {8 * len(zlib.compress(text.encode(), 9)) / len(text):.1f} bits per character" in PROSE


def test_the_sentence_at_the_top_of_the_unit_is_one_that_it_writes():
    model, characters = course_writer.course_writer()
    torch.manual_seed(0)
    text = "Attention is" + course_writer.sample(model, characters, "\nAttention is", 31)
    assert text.endswith("state.") and f"*{text}*" in PROSE


def test_training_reads_nothing_of_what_is_held_out():
    read, kept = (set(course_writer.course_text(held_out).splitlines()) for held_out in (False, True))
    assert not read & kept and len(kept) == pytest.approx(len(read) / 9, rel=0.01)
    inputs, targets = next(course_writer.batches())
    assert torch.equal(inputs[:, 1:], targets[:, :-1]) and inputs.shape == (course_writer.SIZE, course_writer.CONTEXT)


def test_a_text_comes_back_without_what_the_alphabet_lacks():
    assert course_writer.decode(course_writer.encode("naïve", "aenvz"), "aenvz") == "nave"


@pytest.mark.parametrize("model", [lm(), *(model for model, _ in decoder_lm.DecoderLM.values())])
def test_it_writes_in_a_students_model(model, capsys, films):
    write(model)
    out = capsys.readouterr().out
    assert out.startswith("Attention is ") and "Your own DecoderLM" in out and "bits per character" in out
    assert len(films) == 1 and len(films[0].data) < LIMIT


def test_where_the_model_is_not_right_the_courses_writes(capsys, films):
    for wrong in (own_head(), unsolved):
        write(wrong, n=2)
        assert "The course's DecoderLM, because yours isn't right yet" in capsys.readouterr().out


def test_it_waits_for_the_loop(capsys):
    for missing in ({"loop": unsolved}, {"probabilities": unsolved}):
        write(lm(), **missing)
        assert "needs your answer to exercise 5.16" in capsys.readouterr().out
    plots.train_on_english(unsolved, lm(), rotary_embedding)
    assert "needs your answer to exercise 5.15" in capsys.readouterr().out


def test_a_frame_shows_the_probabilities_of_the_next_character():
    shares = [torch.tensor([0.0, 0.1, 0.9]), torch.tensor([1.0, 0.0, 0.0])]
    typed = plot._Typed("<a", "ba", shares, "\nab")
    assert typed.type(0) == "After “<a” it draws “b”, which had 90%."
    assert typed.svg().count("<path") == 1 + 1 + 2 and "&lt;ab" in typed.svg()  # white, the new one's frame, two bars


def test_weights_that_were_trained_here_take_the_place(capsys, monkeypatch, films):
    monkeypatch.setattr(course_writer, "STEPS", 16)
    monkeypatch.setattr(course_writer, "sample", lambda *_: "the the")
    monkeypatch.setattr(plot, "_OWN", {})
    monkeypatch.setattr(course_writer, "SIZE", 2)
    plots.train_on_english(train, lm(), rotary_embedding)
    write(lm(), n=2)
    assert "with the weights that you trained" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("paragraph", "words"),
    [
        (
            "**By hand.** The width is `d`, so\n$n = 3$ rows. What is $\\sqrt{d}$ here?",
            "The width is d, so n = 3 rows.",
        ),
        ("See [the guide](docs/x.md) of “all” this…", 'See the guide of "all" this...'),
        ("no sentence", ""),
    ],
)
def test_only_plain_sentences_are_taken(paragraph, words):
    assert course_text.plain(paragraph) == words


def test_tables_code_and_headings_are_no_prose():
    found = course_text.paragraphs("# Title\n\nOne.\n| a | b |\n\n```\ncode\n```\n- item\n- other")
    assert [text.strip() for text in found if text.strip()] == ["One.", "item", "other"]
