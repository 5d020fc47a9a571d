"""What the checks of a block's parts share: rows, layers, and layers that keep what they read."""

import torch
from torch import Generator
from torch.utils._pytree import tree_leaves

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Property


def _offset(*shape: int, centre: float = 3.0, scale: float = 2.0, dtype=torch.float32) -> RandomArg:
    """Rows whose mean is far from 0: what should be subtracted must be seen to be subtracted."""
    return RandomArg(lambda g: (centre + scale * torch.randn(shape, generator=g, dtype=torch.float64)).to(dtype))


def normed_rows(
    label: str, *shape: int, eps=1e-5, parameters=2, dtype=torch.float32, gradient=False, **spread: float
) -> Case:
    rows = _offset(*shape, dtype=dtype, **spread)
    weights = (_offset(shape[-1], centre=0.5, scale=1.0, dtype=dtype) for _ in range(parameters))
    return explicit_case(label, rows, *weights, eps, gradient=gradient)


def _layer(d: int) -> RandomArg:
    """A layer that is neither linear nor keeps lengths, another at each call."""

    def draw(generator: Generator):
        w, b = torch.randn(d, d, generator=generator), torch.randn(d, generator=generator)
        return lambda x: torch.tanh(x @ w.to(x.dtype) + b.to(x.dtype))

    return RandomArg(draw)


def _keeping(layer: RandomArg) -> RandomArg:
    """The layer, which keeps all that it reads, as trained ones do for the way back, and how often that had been
    written to by then. (One that is called from another process reads copies: there it can't be seen.)"""

    def draw(generator: Generator):
        function, kept = layer.make(generator), []

        def keeping(x):
            kept.append((x, x._version))
            return function(x)

        keeping.kept = kept
        return keeping

    return RandomArg(draw)


def _left_as_it_was(_, x, *inputs) -> bool:
    """Whether nothing was written to what a layer keeps. To write to another part of the same tensor counts: autograd
    refuses that too."""
    kept = [pair for layer in tree_leaves(inputs) for pair in getattr(layer, "kept", ())]
    return all(tensor._version == version for tensor, version in kept)


NOT_OVERWRITTEN = Property(
    "what a layer has read isn't overwritten",
    _left_as_it_was,
    "A tensor that a layer has read is written to afterwards (by `x += …`, or into another row of it), and for its way "
    "back the layer needs what it has read: `backward` would stop with an error. Make a new tensor in each step, "
    "`x = x + …`; `torch.stack` puts several together.",
)
