"""A call that overwrites what an earlier one returned is found, here and in another process."""

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.observe import observe


def doubled(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return 2 * x


def into_a_buffer():
    buffers: dict = {}

    def answer(x):
        buffer = buffers.setdefault(x.shape, torch.empty_like(x))
        return buffer.copy_(2 * x)

    return answer


def test_a_buffer_that_is_used_again_loses_points_although_each_output_was_right():
    score = Check(doubled, [random_case(n=3, d=4), random_case(n=2, d=5)])(into_a_buffer(), points=3)
    assert score < 3 and "what an earlier call returned" in score.message


def test_a_table_that_is_handed_out_twice_is_right():
    table = torch.arange(6.0)
    seen = [observe(lambda_, (torch.ones(2),)) for lambda_ in [lambda x: table] * 3]
    assert not any(one.overwrites for one in seen)


def test_views_of_inputs_nans_and_truth_values_are_no_sign_of_it():
    def views(x):
        return x.mT, x / 0 * 0, x > 0

    assert not any(observe(views, (torch.randn(2, 3),)).overwrites for _ in range(3))


def test_calls_of_other_functions_between_do_not_hide_it():
    answer = into_a_buffer()
    seen = []
    for _ in range(2):
        seen.append(observe(answer, (torch.randn(2, 3),)).overwrites)
        observe(doubled, (torch.randn(2, 3),))
    assert seen == [False, True]


def test_outputs_of_any_kind_are_looked_at_without_an_error():
    def kinds(x):
        return (
            x.to(torch.float8_e5m2),
            x.to_sparse(),
            torch.nested.nested_tensor([x, x]),
            torch.empty(0),
            x.to(torch.complex64),
        )

    assert not any(observe(kinds, (torch.ones(2, 3),)).overwrites for _ in range(3))
