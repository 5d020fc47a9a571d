"""What came of one case."""

from dataclasses import dataclass
from typing import Any

from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves

from .cases import Case
from .observe import Observation


@dataclass(frozen=True)
class CaseResult:
    """One case, drawn and tried: what the student's function did, and what the reference gives."""

    case: Case
    seen: Observation
    expected: Any
    wrong: str  # how the values are off, in a sentence; "" if they are right
    dear: str  # what is amiss on the way to them
    generator: Generator  # draws more inputs for the same case
    hidden: bool = False  # then a card says what kind of thing is wrong, and no more

    @property
    def note(self) -> str:
        """What is wrong, in a sentence."""
        return self.wrong or self.dear

    @property
    def elements(self) -> int:
        """Of all tensors that went in."""
        return sum(leaf.numel() for leaf in tree_leaves(self.seen.args) if isinstance(leaf, Tensor))

    @property
    def passed(self) -> bool:
        """Whether nothing is."""
        return not self.note
