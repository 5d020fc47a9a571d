"""Check of BERT's objective: what is hidden, and what is asked for."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import masked_lm as reference

__all__ = ["masked_lm_objective"]


def masked_texts(
    label: str, b: int, n: int, mask_token: int, *lengths: int, just=1e-4, words=(5, 40), others=(50, 90)
) -> Case:
    """Chances that meet every case in the text, and in padding where there are 12 places of it; edges are hit, and
    missed by `just`: 1e-12 is less than float32 can tell. words, others: from where to where tokens and what replaces
    them are drawn."""

    def chances(generator: torch.Generator) -> Tensor:
        some = [0.0, 0.05, 0.12 - just, 0.12, 0.135 - just, 0.135, 0.14, 0.15 - just, 0.15, 0.2, 0.5, 0.9]
        some = torch.tensor(some, dtype=torch.float64)
        drawn = torch.empty(b, n, dtype=torch.float64)
        for places in (real, ~real):
            drawn[places] = some[torch.randperm(int(places.sum()), generator=generator) % len(some)]
        return drawn

    real = torch.arange(n) < torch.tensor(lengths)[:, None]
    tokens = RandomArg(lambda g: torch.randint(*words, (b, n), generator=g))
    other = RandomArg(lambda g: torch.randint(*others, (b, n), generator=g))
    return explicit_case(label, tokens, real, RandomArg(chances), other, mask_token)


def below(limit):
    return lambda real, chance: real & (chance < limit)


def up_to(limit):
    return lambda real, chance: real & (chance <= limit)


def told_by_the_text(asked, tokens, inputs):
    return tokens.masked_fill(~asked, -100)


def nothing(real, chance):
    return torch.zeros_like(real)


ASKED, HIDDEN, REPLACED = below(0.15), below(0.12), below(0.135)


@composable
def objective(asked=ASKED, hidden=HIDDEN, replaced=REPLACED, targets=told_by_the_text):
    """A right answer with one thing changed: functions of (real, chance), and targets of (asked, tokens, inputs)."""

    def answer(tokens, real, chance, other, mask_token):
        inputs = torch.where(replaced(real, chance), other, tokens).masked_fill(hidden(real, chance), mask_token)
        return inputs, targets(asked(real, chance), tokens, inputs)

    return answer


right = objective()


def shifted(asked, tokens, inputs):
    targets = told_by_the_text(asked, tokens, inputs)
    return torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], -100)], dim=1)


def told_by_what_changed(tokens, real, chance, other, mask_token):
    inputs, _ = right(tokens, real, chance, other, mask_token)
    kept = real & (chance >= 0.135) & (chance < 0.15)
    return inputs, tokens.masked_fill((inputs == tokens) & ~kept, -100)


masked_lm_objective = Check(
    reference=reference.masked_lm_objective,
    names=("inputs: sequences positions", "targets: sequences positions"),
    cases=[
        masked_texts("2 texts of 13 tokens", 2, 13, 4, 13, 13),
        masked_texts("lengths 15, 6, 11: padding", 3, 15, 3, 15, 6, 11),
        masked_texts("one text of 12 tokens, mask token 99", 1, 12, 99, 12),
        masked_texts("chances a hair below the limits", 1, 12, 3, 12, just=1e-12),
        masked_texts("two words, one of them the mask token", 4, 12, 6, 12, 12, 12, 12, words=(5, 7), others=(5, 7)),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        told_by_what_changed=told_by_what_changed,
        changed_alone_asked=objective(targets=lambda asked, tokens, inputs: tokens.masked_fill(inputs == tokens, -100)),
        all_asked=objective(asked=lambda real, chance: real),
        others_asked=objective(asked=lambda real, chance: real & (chance >= 0.15)),
        masked_alone_asked=objective(asked=below(0.12)),
        staying_not_asked=objective(asked=below(0.135)),
        all_masked=objective(hidden=below(0.15)),
        masked_and_replaced_swapped=objective(
            replaced=below(0.12), hidden=lambda real, chance: real & (chance >= 0.12) & (chance < 0.135)
        ),
        none_replaced=objective(replaced=nothing),
        none_stays=objective(replaced=below(0.15)),
        more_masked_than_asked=objective(asked=below(0.135), hidden=below(0.15), replaced=below(0.15)),
        padding_picked=lambda tokens, real, *others: right(tokens, torch.ones_like(real), *others),
        shifted=objective(targets=shifted),
        targets_of_the_inputs=objective(targets=lambda asked, tokens, inputs: inputs.masked_fill(~asked, -100)),
        marked_with_0=objective(targets=lambda asked, tokens, inputs: tokens.masked_fill(~asked, 0)),
        edges_counted=objective(asked=up_to(0.15), hidden=up_to(0.12), replaced=up_to(0.135)),
        edge_masked=objective(hidden=up_to(0.12)),
        edge_replaced=objective(replaced=up_to(0.135)),
        edge_picked=objective(asked=up_to(0.15)),
        rounded=lambda tokens, real, chance, *others: right(tokens, real, chance.float(), *others),
        padding_masked=objective(hidden=lambda real, chance: chance < 0.12),
        padding_replaced=objective(replaced=lambda real, chance: (chance >= 0.12) & (chance < 0.135)),
        padding_changed=objective(
            hidden=lambda real, chance: chance < 0.12, replaced=lambda real, chance: chance < 0.135
        ),
        unchanged=objective(hidden=nothing, replaced=nothing),
    ),
)
