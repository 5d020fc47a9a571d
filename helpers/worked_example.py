"""The sentence that goes through the whole course: four words, small whole numbers, every step to be checked by hand.

Each unit takes it one step further: 02 queries, keys and values; 03 the causal mask; 04 a second head; 06 a second
language; 08 the words one after the other; 09 tiles. Every number in the pictures is computed from the tables here."""

from dataclasses import dataclass

import torch
from torch import Tensor

WORDS = ("cats", "drink", "cold", "milk")
FEATURES = ("does", "thing", "lives", "how")
"""What a word is: something done, a thing (milk is two of it: a thing that one can drink), something that lives, or how
a thing is."""
X = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 2, 0, 0]], dtype=torch.float64)  # (n, d_model)


@dataclass(frozen=True)
class Head:
    """Matrices (d_model, 2) that make queries, keys and values of the words, a row a feature; and what the two places
    of a query mean."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    axes: tuple[str, str]


def _matrix(*rows: tuple[int, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


HEADS = (
    # what is done looks for things, and things look for what is done
    Head(
        _matrix((0, 2), (1, 0), (0, 0), (0, 1)),
        _matrix((2, 0), (0, 1), (0, 0), (0, 0)),
        _matrix((2, 0), (0, 2), (4, 0), (0, 1)),
        ("does", "thing"),
    ),
    # what is done looks for who lives, and things look for how they are
    Head(
        _matrix((2, 0), (0, 1), (0, 0), (0, 0)),
        _matrix((0, 0), (0, 0), (2, 0), (0, 2)),
        _matrix((1, 0), (0, 1), (2, 0), (0, 3)),
        ("lives", "how"),
    ),
)

W_O = _matrix(
    (1, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 0), (1, 0, 0, 1)
)  # (h·d_h, d_model): what head 1 found is added to head 0, too

TRANSLATION = ("katoj", "trinkas", "malvarman", "lakton")  # the same in Esperanto
READ = ("<start>", *TRANSLATION)
"""What the decoder has read when it writes the next word."""
Y = torch.eye(len(READ), dtype=torch.float64)  # (n, d_model)
CROSS = Head(
    _matrix((2, 0), (0, 2), (-2, 0), (0, -2), (0, 0)),  # each word that was read asks for the next one
    _matrix((0, 2), (0, -1), (2, 1), (-2, 0)),
    HEADS[0].w_v,
    ("1", "2"),
)
"""Cross-attention: queries of the translation, keys and values of the sentence."""
