"""The card: what happened first, one scale of colours, nothing coloured that is right, and the same content as text."""

import re

import pytest
import torch

from helpers import check, registry
from helpers.engine import card, card_picture
from helpers.engine.axes import axes_of
from helpers.engine.card_picture import EMPTY, FILLED, Picture, panels
from helpers.engine.card_style import PAPER, tint
from helpers.engine.score import Score
from helpers.multi_head.alibi_bias import alibi_bias


def wrong_score():
    return check.scaled_dot_product_attention(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, points=4, seed=0)


def html(score) -> str:
    return score._repr_mimebundle_()["text/html"]


def test_what_happened_stands_first_and_what_passed_is_folded_below():
    shown = html(wrong_score())
    places = [
        shown.index(words)
        for words in ("2.5 Scaled dot-product attention", "What happened.", "expected 5×3", ">✗<", "<details")
    ]
    assert places == sorted(places) and "open" not in re.findall("<details[^>]*>", shown)[0]
    assert "shape of the output" in shown[places[-1] :]


def test_a_green_card_is_one_line_and_a_fold():
    shown = html(check.softmax(check.softmax.reference, points=2))
    assert (
        "✓ 2.1 Softmax · 2 of 2 points" in shown
        and re.search(r"✓ all \d+ passed</summary>", shown)
        and "✗" not in shown
    )


def test_all_but_two_crosses_are_folded():
    shown = html(wrong_score())
    before, *folds = shown.split("<details")
    assert before.count(">✗<") == card.CROSSES and len(folds) == 2
    assert f"✗ {folds[0].count('>✗<')} more</summary>" in folds[0] and "passed</summary>" in folds[1]


def test_the_text_has_the_words_and_the_tables_in_the_same_order():
    text = str(wrong_score())
    assert text.startswith("2.5 Scaled dot-product attention · 0")  # a case may be so peaked that no scale shows
    places = [
        text.index(words)
        for words in ("no scale", "expected 5×3", "yours 5×3", "difference 5×3", "✗ two batch axes", "✓ shape")
    ]
    assert places == sorted(places)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html(wrong_score()))
    assert (
        cells
        == re.findall(
            r"(?<=[ \n])−?\d[\de−.]*(?=\*?[ \n])",
            text[text.index("expected 5×3") + 13 :].replace("yours 5×3\n", "").replace("difference 5×3\n", ""),
        )[: len(cells)]
    )


def test_expected_yours_and_difference_have_one_scale():
    expected, yours, difference = panels(Picture("", torch.tensor([[4.0, 1.0]]), torch.tensor([[4.0, 2.0]])))
    assert expected.grounds == [[tint(1), tint(0.25)]] and yours.grounds == [[tint(1), tint(0.5)]]
    assert difference.grounds == [[PAPER, tint(0.25)]] and difference.cells == [["0", "1"]]


def test_what_is_within_the_tolerance_has_no_colour_and_no_border():
    right = torch.rand(3, 4, dtype=torch.float64)
    got = right + 1e-6
    got[1, 2] += 1
    _, yours, difference = panels(Picture("", right, got, within=(0.0, 1e-5)))
    assert sum(map(sum, yours.off)) == 1 and yours.off[1][2]
    assert sum(ground != PAPER for row in difference.grounds for ground in row) == 1
    assert difference.cells[0] == ["0"] * 4


def test_truth_values_are_cells_and_no_decimals():
    eye = torch.eye(3).bool()
    expected, yours = panels(Picture("", eye, ~eye))
    assert expected.grounds[0] == [FILLED, EMPTY, EMPTY] and yours.grounds[0] == [EMPTY, FILLED, FILLED]
    assert all(all(row) for row in yours.off)


def test_what_is_off_has_a_border_and_bold_type():
    shown = card_picture.html(Picture("", torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 3.0]])))
    bold = re.findall(r"<td [^>]*border:2px solid[^>]*700[^>]*>([^<]*)</td>", shown)
    assert bold == ["3"]


def test_moved_numbers_go_by_their_places():
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    score = check.split_heads(lambda x, h: x.reshape(len(x), h, x.shape[1], -1), points=2, seed=0)
    (picture,) = score.pictures
    cells = [cell for row in panels(picture)[0].cells for cell in row]
    assert cells[:3] == ["a0", "a1", "a2"] and "a0 is the first number" in str(score)
    assert not card_picture.traceable(x, x + 1) and card_picture.traceable(x, x.mT.flatten())
    assert not card_picture.traceable(torch.ones(2, 2), torch.ones(2, 2))


def test_an_axis_of_size_1_is_not_said_to_be_chosen():
    score = check.padding_mask(lambda lengths, n, m: torch.ones(len(lengths), 1, n, m).bool(), points=1, seed=0)
    assert re.search(r"shown: sequence \d+$", card_picture.caption(score.pictures[0]))


def test_the_matrix_that_is_drawn_is_one_that_is_off_where_others_hold_infinities_that_are_right():
    score = check.alibi_bias(lambda n, h: alibi_bias(n, h)[:1].expand(h, n, n).clone(), points=1, seed=0)
    (picture,) = score.pictures
    expected, yours, difference = panels(picture)
    assert any(map(any, yours.off)) and "head 0" not in card_picture.caption(picture)
    assert card_picture.SHADE in expected.grounds[0] and card_picture.NO_NUMBER not in expected.grounds[0]


@pytest.mark.parametrize(
    ("name", "output", "words"),
    [
        ("scaled_dot_product_attention", torch.ones(2, 5, 3), ("queries", "features")),
        ("causal_mask", torch.ones(3, 7).bool(), ("queries", "keys")),
        ("alibi_bias", torch.ones(3, 7, 7), ("heads", "queries", "keys")),
        ("softmax_jacobian", torch.ones(3, 3), ("n", "n")),
        ("split_heads", torch.ones(2, 3, 5, 4), ("sequences", "heads", "tokens", "features")),
        ("softmax", torch.ones(3, 4), ()),
        ("MultiHeadAttention", torch.ones(2, 5, 6), ("sequences", "queries", "features")),
    ],
)
def test_axes_are_called_what_the_signature_calls_them(name, output, words):
    assert axes_of(getattr(check, name).reference, output) == words


def test_whole_numbers_have_no_scale_and_no_difference():
    """They are names of tokens and places more often than amounts: 50 is no more than 49."""
    expected, yours = panels(Picture("", torch.tensor([[5, 19]]), torch.tensor([[5, -100]])))
    assert (
        expected.grounds == yours.grounds == [[PAPER, PAPER]]
        and yours.off == [[False, True]]
        and yours.cells == [["5", "−100"]]
    )


def test_of_several_tensors_the_card_says_which_one_it_draws():
    score = check.qkv_projections(
        lambda x, *w: (
            *check.qkv_projections.reference(x, *w)[:2],
            x.sum() + check.qkv_projections.reference(x, *w)[2],
        ),
        points=1,
        seed=0,
    )
    assert "d_v = 5 · V\n" in str(score) and "V: 15 of 15" in str(score)


def test_enough_decimals_to_see_the_difference():
    expected, yours, _ = panels(Picture("", torch.tensor([0.5, 2.0]), torch.tensor([0.5004, 2.0])))
    assert expected.cells[0][0] == "0.5000" and yours.cells[0][0] == "0.5004"


def test_a_large_output_is_drawn_where_it_is_wrong():
    expected = torch.zeros(3, 20, 20)
    got = expected.clone()
    got[2, 18, 11] = 5.0
    shown = card.html(Score(0, exercise="large", points=1, pictures=(Picture("20×20", expected, got),)))
    assert (
        shown.count(">5</td>") == 2
        and "expected 3×20×20" in shown
        and ">18</th>" in shown
        and "shown: yours[2]" in shown
    )


def test_a_table_says_what_of_a_larger_matrix_it_draws():
    expected = torch.zeros(12, 40)
    got = expected.clone()
    got[9, 30] = 1.0
    picture = Picture("12×40", expected, got)
    cut = "only rows 4–11 of 12, columns 26–33 of 40"
    for shown, times in ((card_picture.html(picture), 3), ("\n".join(card_picture.text(picture)), 3)):
        assert shown.count(cut) == times
    assert [panel.cut for panel in panels(Picture("", torch.zeros(8, 8), torch.ones(8, 8)))] == ["", "", ""]
    assert [panel.cut for panel in panels(Picture("", torch.zeros(40), torch.ones(17, 3)))] == [
        "columns 0–7 of 40",
        "rows 0–7 of 17",
    ]
    assert [panel.cut for panel in panels(Picture("", torch.ones(17, 2) > 0, torch.ones(17, 2) < 0))] == [
        "rows 0–15 of 17"
    ] * 2
    assert panels(Picture("", torch.zeros(2, 3, 17), torch.ones(2, 3, 17)))[0].cut == "columns 0–7 of 17"
    assert panels(Picture("", torch.tensor(1.0), torch.tensor(2.0)))[0].cut == ""


def test_the_title_is_the_sections_and_no_two_exercises_share_one():
    assert card.title("softmax") == "2.1 Softmax" and card.title("my_own") == "my_own"
    headings = [card.title(exercise) for exercise in registry.offered("checks")]
    assert len(set(headings)) == len(headings)
    assert "0.43 of 0.43 points" in str(Score(3 / 7, exercise="part", points=3 / 7))
