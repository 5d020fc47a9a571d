"""What several checks of heads share."""

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from helpers.engine.answers.common_misconceptions import visible_mask
from helpers.engine.answers.steps import by_root_of_width
from helpers.engine.cases import RandomArg, normal
from helpers.engine.check import Property
from helpers.engine.wrong_answers import Wrong, shared

ROUNDING = {torch.float32: (1e-4, 2e-4)}  # large scores cost digits, and the outputs are of size 1 to 10


def _as_precise(output, *inputs) -> bool:
    dtypes = [t.dtype for t in inputs if isinstance(t, Tensor) and t.is_floating_point()]
    outputs = [t.dtype for t in tree_leaves(output) if isinstance(t, Tensor)]
    return torch.float64 not in dtypes or all(dtype == torch.float64 for dtype in outputs)


AS_PRECISE = Property(
    "float64 where float64 comes in",
    _as_precise,
    "The inputs are float64 and your output is not. A tensor that you make yourself, such as `torch.zeros(…)`, is "
    "float32 unless you say `dtype=`.",
)


def causal(products, sizes) -> Tensor:
    """A step `scale`, with a causal mask that nobody asked for."""
    later = torch.ones(products.shape[-2:], dtype=torch.bool).triu(1)
    return by_root_of_width(products, sizes).masked_fill(later, -torch.inf)


def cut_off(function) -> Wrong:
    """The right answer, which no gradient comes through."""
    answer = lambda *args: function(*(t.detach() if isinstance(t, Tensor) else t for t in args))
    return shared(__file__, "cut_off", answer)


def one_key_apart(*shape: int) -> RandomArg:
    """A memory near −20, but for its first token: that is near 20."""
    signs = torch.cat([torch.ones(1, 1), -torch.ones(shape[-2] - 1, 1)])
    return RandomArg(lambda generator: 20 * signs + torch.randn(shape, generator=generator).double())


# Tokens (2, 3, 8) near 20, near −20 and near 0. The best scores of the three lie far apart, and the last row has no far
# hidden one.
queries_apart = RandomArg(
    lambda generator: torch.tensor([[20.0], [-20.0], [0.0]]) + torch.randn(2, 3, 8, generator=generator).double()
)


def mask_without_key_0(n: int, m: int) -> RandomArg:
    """A mask (n, m) that hides key 0 from all queries."""
    others = visible_mask(n, m - 1)
    return RandomArg(lambda generator: torch.nn.functional.pad(others.make(generator), (1, 0)))


# Tokens: where keys lie near −20, every score of every row is near −800.
NEAR_20 = normal(2, 3, 8, mean=20.0, dtype=torch.float64)
