"""The check of `read_shape`: the shapes that five expressions give."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import shapes

__all__ = ["read_shape"]

EXPRESSIONS = ("bnd,de->bne", "bhnk,bhmk->bhnm", "bhnk->bnhk", "bnd->d", "nd,md->mn")


def _one_shape(answer, number: int):
    """The answer's shape number 1 to 5."""
    answered = answer()
    if not isinstance(answered, (tuple, list)) or len(answered) != len(EXPRESSIONS):
        raise ValueError(f"return {len(EXPRESSIONS)} shapes, in the order of the table.")
    return answered[number - 1]


read_shape = Check(
    reference=shapes.read_shape,
    quiz=True,
    drive=_one_shape,
    cases=[explicit_case(f"{number}: {expression}", number) for number, expression in enumerate(EXPRESSIONS, start=1)],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        summed_letters_kept=lambda: ((2, 3, 4, 5), (2, 6, 3, 8, 7), (2, 3, 6, 7), (2, 3, 4), (5, 3, 4)),
        input_order=lambda: ((2, 3, 5), (2, 6, 3, 8), (2, 6, 3, 7), (4,), (3, 5)),
        axes_of_size_1=lambda: ((2, 3, 1, 5), (2, 6, 3, 8, 1), (2, 3, 6, 7), (1, 1, 4), (5, 3, 1)),
        no_batch_axis=lambda: ((3, 5), (6, 3, 8), (3, 6, 7), (4,), (5, 3)),
        number_for_shape=lambda: ((2, 3, 5), (2, 6, 3, 8), (2, 3, 6, 7), 4, (5, 3)),
    ),
)
