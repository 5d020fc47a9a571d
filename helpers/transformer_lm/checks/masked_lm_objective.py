"""Check of BERT's objective: what is hidden, and what is asked for."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import masked_lm as reference

__all__ = ["masked_lm_objective"]


def masked_texts(
    label: str,
    b: int,
    n: int,
    mask_token: int,
    *lengths: int,
    just: float = 1e-4,
    words: tuple = (5, 40),
    others: tuple = (50, 90),
) -> Case:
    """Chances that meet every case in the text, and in padding where there are 12 places of it; edges are hit, and
    missed by `just`: 1e-12 is less than float32 can tell. words, others: from where to where tokens and what replaces
    them are drawn."""

    def chances(generator: torch.Generator) -> Tensor:
        some = torch.tensor(
            [0.0, 0.05, 0.12 - just, 0.12, 0.135 - just, 0.135, 0.14, 0.15 - just, 0.15, 0.2, 0.5, 0.9],
            dtype=torch.float64,
        )
        drawn = torch.empty(b, n, dtype=torch.float64)
        for places in (real, ~real):
            drawn[places] = some[torch.randperm(int(places.sum()), generator=generator) % len(some)]
        return drawn

    real = torch.arange(n) < torch.tensor(lengths)[:, None]
    tokens = RandomArg(lambda g: torch.randint(*words, (b, n), generator=g))
    other = RandomArg(lambda g: torch.randint(*others, (b, n), generator=g))
    return explicit_case(label, tokens, real, RandomArg(chances), other, mask_token)


def _objective(tokens, real, chance, other, mask_token, *, asked=None, hidden=None, replaced=None, targets=None):
    """A right answer with one thing changed: each a mask (b, n), or the targets."""
    asked = real & (chance < 0.15) if asked is None else asked
    replaced = asked & (chance < 0.135) if replaced is None else replaced
    hidden = asked & (chance < 0.12) if hidden is None else hidden
    inputs = torch.where(replaced, other, tokens).masked_fill(hidden, mask_token)
    return inputs, tokens.masked_fill(~asked, -100) if targets is None else targets


def _asked(real, chance):
    return real & (chance < 0.15)


def _shifted(tokens, real, chance, other, mask_token):
    inputs, targets = _objective(tokens, real, chance, other, mask_token)
    return inputs, torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], -100)], dim=1)


def _targets_from_inputs(tokens, real, chance, other, mask_token):
    inputs, _ = _objective(tokens, real, chance, other, mask_token)
    return inputs, inputs.masked_fill(~_asked(real, chance), -100)


def _told_by_what_changed(tokens, real, chance, other, mask_token):
    inputs, _ = _objective(tokens, real, chance, other, mask_token)
    kept = _asked(real, chance) & (chance >= 0.135)
    return inputs, tokens.masked_fill((inputs == tokens) & ~kept, -100)


def _asked_for_what_changed(tokens, real, chance, other, mask_token):
    inputs, _ = _objective(tokens, real, chance, other, mask_token)
    return inputs, tokens.masked_fill(inputs == tokens, -100)


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
        picked_tokens_told_by_what_has_changed=_told_by_what_changed,
        only_changed_tokens_targets=_asked_for_what_changed,
        every_token_target=lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(~r, -100)),
        tokens_that_were_not_picked_targets=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, targets=t.masked_fill(_asked(r, c) | ~r, -100)
        ),
        only_masked_tokens_targets=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, targets=t.masked_fill(~(r & (c < 0.12)), -100)
        ),
        tokens_that_stay_no_targets=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, targets=t.masked_fill(~(r & (c < 0.135)), -100)
        ),
        all_picked_tokens_masked=lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=_asked(r, c)),
        masked_replaced_swapped=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, replaced=r & (c < 0.12), hidden=r & (c >= 0.12) & (c < 0.135)
        ),
        no_token_replaced_by_another=lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=torch.zeros_like(r)),
        no_picked_token_stays=lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=_asked(r, c)),
        masked_up_0_15_asked_up_0_135=lambda t, r, c, o, m: _objective(
            t,
            r,
            c,
            o,
            m,
            hidden=r & (c < 0.15),
            replaced=r & (c < 0.15),
            asked=r & (c < 0.15),
            targets=t.masked_fill(~(r & (c < 0.135)), -100),
        ),
        padding_picked_too=lambda t, r, c, o, m: _objective(t, torch.ones_like(r), c, o, m),
        targets_shifted_by_one=_shifted,
        targets_taken_from_changed_input=_targets_from_inputs,
        unpicked_targets_marked_with_0=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, targets=t.masked_fill(~_asked(r, c), 0)
        ),
        edges_intervals_counted_wrongly=lambda t, r, c, o, m: _objective(
            t, r, c, o, m, asked=r & (c <= 0.15), replaced=r & (c <= 0.135), hidden=r & (c <= 0.12)
        ),
        chance_exactly_0_12_masked=lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=r & (c <= 0.12)),
        chance_exactly_0_135_replaced=lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=r & (c <= 0.135)),
        chance_exactly_0_15_picked=lambda t, r, c, o, m: _objective(t, r, c, o, m, asked=r & (c <= 0.15)),
        chances_rounded_float32=lambda t, r, c, o, m: _objective(t, r, c.float(), o, m),
        padding_masked_inputs=lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=c < 0.12),
        padding_replaced_inputs=lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=(c >= 0.12) & (c < 0.135)),
        padding_changed_inputs=lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=c < 0.12, replaced=c < 0.135),
        inputs_unchanged=lambda t, r, c, o, m: (t, t.masked_fill(~_asked(r, c), -100)),
    ),
)
