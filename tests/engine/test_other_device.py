"""What a check does with an output that lies on a GPU: the same as with any other. No GPU is needed: a tensor says that
it lies there, and like one there it bears no other tensor beside it until it is fetched."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from helpers import check
from helpers.engine.check import Check
from helpers.engine.kernel_check import BLIND
from helpers.engine.observe import observe


class OnAGPU(Tensor):
    """A tensor that refuses to be computed with beside one on the CPU."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name == "cpu":
            return args[0].as_subclass(Tensor).clone()
        for leaf in tree_leaves((args, kwargs or {})):
            if type(leaf) is Tensor and leaf.dim():
                raise RuntimeError("found at least two devices, cuda:0 and cpu!")
        return super().__torch_function__(function, types, args, kwargs or {})


def moved(output):
    return tree_map(lambda leaf: leaf.as_subclass(OnAGPU) if type(leaf) is Tensor else leaf, output)


def plain_checks():
    """Every check whose answer is a plain function that nobody differentiates."""
    for name in sorted(dir(check)):
        one = getattr(check, name)
        if type(one).__call__ is Check.__call__ and not (
            one.drive or one.quiz or any(case.gradient for case in one.cases)
        ):
            yield name


def test_a_tensor_elsewhere_refuses_others_until_it_is_fetched():
    x = moved(torch.ones(2))
    with pytest.raises(RuntimeError, match="two devices"):
        x + torch.ones(2)
    assert type(x.cpu()) is Tensor and type(x + x) is OnAGPU
    assert type(observe(lambda: x).output) is Tensor


@pytest.mark.parametrize("name", plain_checks())
def test_a_wrong_answer_there_gets_the_card_that_it_gets_here(name):
    one = getattr(check, name)
    wrong = one.misconceptions[0].function
    here, there = (
        one(lambda *args, place=place, **more: place(wrong(*args, **more)), points=4, seed=0)
        for place in ((lambda output: output), moved)
    )
    assert (float(there), there.diagnosis, there.message) == (float(here), here.diagnosis, here.message)
    assert str(there) == str(here)


def test_on_a_gpu_a_right_kernel_is_told_what_nobody_saw(monkeypatch):
    from helpers.engine import kernel_check

    right = check.triton_rows.reference
    assert check.triton_rows(right, points=2).message == ""
    monkeypatch.setattr(kernel_check, "device", lambda: torch.device("cuda"))
    assert check.triton_rows(right, points=2).message == BLIND


def test_on_a_gpu_the_course_compiles_no_wrong_kernel_of_its_own(monkeypatch):
    from helpers.engine import kernel_check, kernel_interpreter

    asked, observed = [], kernel_interpreter.observed
    monkeypatch.setattr(kernel_check, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(kernel_interpreter, "observed", lambda *call: asked.append(call[1]) or observed(*call))
    wrong = check.triton_rows.misconceptions[3]
    score = check.triton_rows(lambda x, factor: wrong.function(x, factor), points=2, seed=0)
    assert score.diagnosis == wrong.name and len(set(asked)) > 5


def test_without_a_process_beside_they_are_compiled(monkeypatch):
    from helpers.engine import kernel_check, kernel_interpreter

    monkeypatch.setattr(kernel_check, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(kernel_interpreter, "CODE", "")
    kernel_interpreter._beside.cache_clear()
    wrong = check.triton_rows.misconceptions[3]
    assert check.triton_rows.observe(wrong.function, (torch.ones(3, 2), torch.ones(3))).error is None
    kernel_interpreter._beside.cache_clear()


def test_after_the_stop_button_no_old_answer_is_heard(monkeypatch):
    from helpers.engine import kernel_interpreter

    def stopped(file):
        raise KeyboardInterrupt

    args = (torch.ones(3, 2), torch.ones(3))
    with monkeypatch.context() as patch:
        patch.setattr(kernel_interpreter.pickle, "load", stopped)
        with pytest.raises(KeyboardInterrupt):
            kernel_interpreter.observed("triton_rows", 3, args)
    assert kernel_interpreter.observed("triton_rows", 4, (2 * args[0], args[1])).args[0].sum() == 12
