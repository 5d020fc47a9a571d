"""The check of `merge_heads`: the heads side by side again."""

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..heads import merge_heads as reference
from .heads import AS_PRECISE, cut_off

__all__ = ["merge_heads"]

merge_heads = Check(
    reference=reference,
    cases=[
        random_case(b=2, h=3, n=5, d_h=4),
        random_case(b=3, h=2, n=4, d_h=6),
        random_case(b=2, h=4, n=4, d_h=4, label="h = n = d_h = 4"),
        random_case(b=1, h=1, n=3, d_h=5, label="one head"),
        random_case(b=2, h=2, n=3, d_h=4, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        random_case(b=1, h=3, n=1, d_h=2, label="one sequence of one token"),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(reference),
        in_single_precision(reference),
        no_transpose=lambda x: x.reshape(len(x), x.shape[2], -1),
        shuffled=lambda x: x.permute(0, 2, 3, 1).flatten(2),
        added_up=lambda x: x.sum(dim=1),
        not_joined=lambda x: x.transpose(1, 2),
        one_below_the_other=lambda x: x.flatten(1, 2),
        rows_of_heads=lambda x: x.transpose(1, 2).reshape(len(x), x.shape[1], -1),
        reversed=lambda x: x.flip(1).transpose(1, 2).flatten(2),
        sequences_joined=lambda x: torch.cat([one.transpose(0, 1).flatten(1) for one in x], dim=-1)[None],
        tokens_before_batch=lambda x: x.permute(2, 0, 1, 3).reshape(len(x), x.shape[2], -1),
        view_after_transpose=Wrong(lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1), raises="RuntimeError"),
        squeezed=lambda x: x.transpose(1, 2).flatten(2).squeeze(),
    ),
)
