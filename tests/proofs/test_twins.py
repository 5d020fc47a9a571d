"""What is within reach while a unit is graded is no answer to it."""

from autograder.course import visibility
from autograder.proofs.twins import twins, within_reach


def test_the_modules_that_are_closed_are_those_that_hold_an_answer(monkeypatch, real_course):
    """In the unit for which some are; `attn prove --twins` tries all units, which takes a minute."""
    closed = {*visibility.TWINS["02"]}
    monkeypatch.setattr(visibility, "TWINS", {})
    found = list(twins(real_course, "02_qkv_attention"))
    assert {line.split(" ")[0].rpartition(".")[0] for line in found} == closed
    assert "helpers.parallelization.parallel.attention_all_tokens is an answer to scaled_dot_product_attention" in found


def test_private_functions_methods_and_what_lies_in_tables_are_tried():
    names = {name for name, _ in within_reach("05_transformer_lm")}
    assert {"helpers.engine.observe._plain", "helpers.engine.drivers.Stream.__next__"} < names
    assert not [name for name in names if ".checks." in name or name.startswith("helpers.transformer_lm.")]
    assert len(names) > 800
