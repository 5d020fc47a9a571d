"""The check of `feed_forward`."""

from helpers.engine.check import CheckGroup

from .layers import _relu, _swiglu

__all__ = ["feed_forward"]

feed_forward = CheckGroup("feed_forward", _relu, _swiglu)
