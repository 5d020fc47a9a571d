"""What the axes of an output are called on a card, from the shapes in the reference's signature."""

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

WORDS = {
    **dict.fromkeys(("h", "h_kv"), "heads"),
    **dict.fromkeys(("d", "d_v", "d_k", "d_h", "d_c", "w"), "features"),
    **dict.fromkeys(("v", "target_words"), "words"),
    **dict.fromkeys(("layers", "L+1"), "layers"),
    "b": "sequences",
    "c": "queries",
}
PAIRS = {"n": "queries", "m": "keys"}  # where both are there, in a function that attends
ATTENDS = {"q", "k", "query", "queries", "keys", "x", "memory", "scores", "mask", "n", "m", "lengths", "real", "source"}
"""What such a function takes. (Unit 00 has products of matrices with n and m rows, and no queries yet.)"""


def axes_of(reference: Callable, output: Tensor) -> tuple[str, ...]:
    """The names of the last axes of one output, in the plural; () where the signature doesn't tell. Of a module it is
    that of `forward`."""
    reference = getattr(reference, "forward", reference)
    hints = [hint for hint in _hints(inspect.signature(reference).return_annotation) if _fits(hint, output)]
    shapes = {hint.dim_str for hint in hints}
    if len(shapes) != 1:
        return ()
    names = shapes.pop().split()
    letters = {axis for hint in _all_hints(reference) for axis in hint.dim_str.split()}
    if not ATTENDS & set(inspect.signature(reference).parameters):
        letters -= PAIRS.keys()
    if names[-1:] == ["v"]:  # logits: a row belongs to a token
        letters -= {"m"}
    words = [_word(name, letters) for name in names if not name.startswith(("*", "..."))]
    if names[-2:] == [
        "n",
        "n",
    ]:  # of a mask, or of a bias of every head, they are queries and keys; of others nobody knows
        words[-2:] = ["queries", "keys"] if output.dtype == torch.bool or "h" in names else ["n", "n"]
    return tuple(words)


def _word(axis: str, letters: set[str]) -> str:
    """n and m are queries and keys where both are there; otherwise n counts tokens, where it is among the letters."""
    if axis in PAIRS and letters >= PAIRS.keys():
        return PAIRS[axis]
    return "tokens" if axis == "n" and axis in letters else WORDS.get(axis, "positions" if "+" in axis else axis)


def _all_hints(reference: Callable) -> Iterator[Any]:
    signature = inspect.signature(reference)
    for annotation in (*(p.annotation for p in signature.parameters.values()), signature.return_annotation):
        yield from _hints(annotation)


def _hints(annotation: Any) -> list[Any]:
    """The shapes in an annotation; of a tuple those of its parts."""
    return [one for one in (annotation, *typing.get_args(annotation)) if hasattr(one, "dim_str")]


def _fits(hint: Any, output: Tensor) -> bool:
    axes = hint.dim_str.split()
    open_ended = any(axis.startswith(("*", "...")) for axis in axes)
    kind = str(output.dtype).removeprefix("torch.") in hint.dtypes
    return kind and (len(axes) - 1 <= output.dim() if open_ended else len(axes) == output.dim())
