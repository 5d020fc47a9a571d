"""Names and hints beside checks: packed or not, of a spoilt file none; each slip of a family has one."""

import importlib
import json
import pkgutil
import sys
import zlib

import pytest

from autograder.course import packed_module
from autograder.course.standalone_source import splice
from helpers.engine import answers
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.steps import attention
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.hints import Hint, hints_beside, keys_beside
from helpers.engine.wrong_answers import Slip, Wrong, slips, with_methods, wrong_answers
from helpers.qkv_attention.attention import scaled_dot_product_attention

TEXT = "## none: no scale\nDivide by\n√d.\n\n## twice: two scales\nOne is enough.\n"

FAMILIES = [info.name for info in pkgutil.iter_modules(answers.__path__) if info.name != "common_misconceptions"]


def _beside(folder, data: bytes) -> str:
    (folder / "a.md").write_bytes(data)
    hints_beside.cache_clear()
    return str(folder / "a.py")


def test_a_hint_is_a_heading_and_the_lines_below_it(tmp_path):
    expected = {"none": Hint("no scale", "Divide by √d."), "twice": Hint("two scales", "One is enough.")}
    assert hints_beside(_beside(tmp_path, TEXT.encode())) == expected


def test_hints_in_a_wheel_are_packed(tmp_path, monkeypatch):
    (tmp_path / packed_module.PACKED).write_bytes(zlib.compress(json.dumps({"a.md": TEXT}).encode()))
    hints_beside.cache_clear()
    assert hints_beside(str(tmp_path / "a.py")) == {}
    monkeypatch.setitem(sys.modules, "helpers.packed", packed_module)
    hints_beside.cache_clear()
    assert hints_beside(str(tmp_path / "a.py"))["none"] == Hint("no scale", "Divide by √d.")


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"## none no colon\nDivide.\n"], ids=["empty", "not UTF-8", "no heading"]
)
def test_a_spoilt_file_stops_no_check(tmp_path, data):
    (wrong,) = wrong_answers(_beside(tmp_path, data), no_scale=lambda x: x)
    assert (wrong.name, wrong.hint, wrong.key) == ("no scale", "", "no_scale")


def test_an_exercises_own_words_go_before_a_familys(tmp_path):
    file = _beside(tmp_path, TEXT.encode())
    own, family = wrong_answers(file, *slips(attention, Scale.none, Scale.by_width))
    assert (
        own.hint == "Divide by √d."
        and family.name == "scaled by d_h instead of √d_h"
        and keys_beside(file) == ["none", "twice"]
    )


def test_variants_are_a_mark():
    """The slip with another number in it is named, too."""
    check = Check(
        scaled_dot_product_attention,
        [random_case(n=5, m=7, d=4, d_v=3)],
        wrong_answers(__file__, *slips(attention, Scale.by_root_of_another_number)),
    )
    by_9 = attention(scale=lambda products, sizes: products / 3)
    assert check(by_9, points=1).diagnosis == "divided by the root of another number than d"
    assert check(attention(scale=lambda products, sizes: products * 3), points=1).diagnosis is None


def test_an_answer_that_is_no_variant_of_itself_is_named_too():
    """The mark of `Scale.power_before_division`: its answer divides by d/2, its one variant by 2d."""
    check = Check(
        scaled_dot_product_attention,
        [random_case(n=5, m=7, d=6, d_v=3)],
        wrong_answers(__file__, *slips(attention, Scale.power_before_division)),
    )
    for slip in (lambda products, sizes: products / (sizes.d_h / 2), lambda products, sizes: products / 2 / sizes.d_h):
        assert check(attention(scale=slip), points=1).diagnosis == "the power taken before the division"


class _Counter:
    def __init__(self):
        self.seen = 0

    def count(self):
        self.seen += self.step()
        return self.seen

    def step(self):
        return 1


def test_a_wrong_class_is_the_right_one_with_other_methods_also_in_a_cell():
    def twice(self):
        return 2 * _Counter.step(self)

    wrong, space = with_methods(_Counter, step=twice), {}
    exec(splice(with_methods(wrong, limit=7), "Counter"), space)
    assert wrong().count() == space["Counter"]().count() == 2
    assert space["Counter"].limit == 7 and "_Counter_for_Counter" in space


def test_a_slip_is_no_step():
    with pytest.raises(TypeError, match="not another slip"):
        Slip(scale=Scale.none)
    assert isinstance(next(slips(attention, Scale.none)), Wrong)


@pytest.mark.parametrize("module", FAMILIES)
def test_every_slip_of_a_family_has_a_hint_and_every_hint_a_slip(module):
    family = importlib.import_module(f"helpers.engine.answers.{module}")
    found = {
        key
        for one in vars(family).values()
        if isinstance(one, type)
        for key, slip in vars(one).items()
        if isinstance(slip, Slip)
    }
    assert sorted(keys_beside(family.__file__)) == sorted(found)
