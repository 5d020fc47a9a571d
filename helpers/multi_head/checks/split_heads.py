"""The check of `split_heads`."""

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.wrong_answers import wrong_answers

from .. import heads as multi_head
from .heads import AS_PRECISE, cut_off

__all__ = ["split_heads"]

split_heads = Check(
    reference=multi_head.split_heads,
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
        cut_off(multi_head.split_heads),
        in_single_precision(multi_head.split_heads),
        view_without_transpose=lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
        heads_width_swapped=lambda x, h: x.reshape(*x.shape[:2], -1, h).permute(0, 3, 1, 2),
        head_axis_left_behind_tokens=lambda x, h: x.reshape(*x.shape[:2], h, -1),
        width_before_tokens=lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 3, 1),
        all_features_every_head=lambda x, h: x.unsqueeze(1).expand(-1, h, -1, -1),
        d_over_h_heads_width_h=lambda x, h: torch.stack(x.split(h, dim=-1), dim=1),
        axes_size_1_squeezed_away=lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).squeeze(),
        tokens_features_swapped_before_cut=lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
        heads_before_sequences_reshape_that=lambda x, h: (
            x.flatten(0, 1).reshape(-1, h, x.shape[-1] // h).transpose(0, 1).reshape(len(x), h, x.shape[1], -1)
        ),
        heads_reverse_order=lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).flip(1),
        head_axis_before_batch=lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(2, 0, 1, 3),
    ),
)
