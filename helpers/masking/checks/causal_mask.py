"""The check of `causal_mask`: n queries, the last of m positions."""

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import masks
from .masks import _ones

__all__ = ["causal_mask"]


def _after_somebody_wrote_into_it(answer, n, m=None) -> Tensor:
    """The second of two masks; the first was overwritten in between, as its owner may. If a cell of the first can't be
    written without others, what became of it."""
    first = answer(n) if m is None else answer(n, m)
    if isinstance(first, Tensor) and first.numel():
        alone, corner = first.clone(), (0,) * first.dim()
        alone[corner], first[corner] = False, False
        if not torch.equal(first, alone):
            return first
        first.fill_(False)
    return answer(n) if m is None else answer(n, m)


kept_masks: dict[tuple, Tensor] = {}


def one_tensor_for_all_callers(n, m=None) -> Tensor:
    return kept_masks.setdefault((n, m), masks.causal_mask(n, m))


causal_mask = Check(
    reference=masks.causal_mask,
    drive=_after_somebody_wrote_into_it,
    cases=[
        explicit_case("n = 5", 5),
        explicit_case("n = 3 queries, the last of m = 7", 3, 7),
        explicit_case("n = 1 query, the last of m = 4", 1, 4),
        explicit_case("n = m = 4", 4, 4),
        explicit_case("n = 1", 1),
        explicit_case("n = 150", 150),
        explicit_case("n = 3 queries, the last of m = 2100", 3, 2100),
    ],
    misconceptions=wrong_answers(
        __file__,
        own_hidden=lambda n, m=None: _ones(n, m or n).tril((m or n) - n - 1),
        upper_triangle=lambda n, m=None: _ones(n, m or n).triu((m or n) - n),
        upside_down=lambda n, m=None: _ones(n, m or n).triu((m or n) - n + 1),
        wrong_corner=lambda n, m=None: _ones(n, m or n).tril(),
        numbers=lambda n, m=None: torch.ones(n, m or n).tril((m or n) - n),
        to_be_added=lambda n, m=None: torch.full((n, m or n), -torch.inf).triu((m or n) - n + 1),
        m_ignored=lambda n, m=None: _ones(n, n).tril(),
        wrong_way=lambda n, m=None: _ones(n, m or n).tril(n - (m or n)),
        one_too_many=lambda n, m=None: _ones(n, m or n).tril((m or n) - n + 1),
        fixed_size=lambda n, m=None: _ones(64, 64).tril()[(m or n) - n : m or n, : m or n],
        one_for_all_callers=one_tensor_for_all_callers,
        one_memory=lambda n, m=None: torch.tensor(True).expand(1, m or n) if n == 1 else masks.causal_mask(n, m),
        squeezed=lambda n, m=None: masks.causal_mask(n, m).squeeze(),
    ),
)
