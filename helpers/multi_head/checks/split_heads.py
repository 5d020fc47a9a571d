"""The check of `split_heads`: the width cut into heads."""

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from ..heads import split_heads as reference
from .heads import AS_PRECISE, cut_off

__all__ = ["split_heads"]

split_heads = Check(
    reference=reference,
    cases=[
        random_case(b=2, n=5, d=12, h=3),
        random_case(b=3, n=4, d=8, h=2),
        random_case(b=2, n=6, d=9, h=3, label="n = 6, d_h = h = 3"),
        random_case(b=1, n=3, d=7, h=1, label="one head"),
        random_case(b=2, n=4, d=5, h=5, label="heads of width 1"),
        random_case(b=2, n=3, d=6, h=2, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(reference),
        in_single_precision(reference),
        no_transpose=lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
        swapped=lambda x, h: x.reshape(*x.shape[:2], -1, h).permute(0, 3, 1, 2),
        heads_left_behind=lambda x, h: x.reshape(*x.shape[:2], h, -1),
        width_first=lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 3, 1),
        all_features=lambda x, h: x.unsqueeze(1).expand(-1, h, -1, -1),
        width_h=lambda x, h: torch.stack(x.split(h, dim=-1), dim=1),
        squeezed=lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).squeeze(),
        swapped_before=lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
        heads_before_batch=lambda x, h: (
            x.flatten(0, 1).reshape(-1, h, x.shape[-1] // h).transpose(0, 1).reshape(len(x), h, x.shape[1], -1)
        ),
        reversed=lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).flip(1),
        heads_first=lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(2, 0, 1, 3),
    ),
)
