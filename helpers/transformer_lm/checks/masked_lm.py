"""Check of BERT's objective: what is hidden, and what is asked for."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception

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
    """Chances that meet every case in the text, and in padding where there are 12 places of it; edges are hit, and missed
    by `just`: 1e-12 is less than float32 can tell. words, others: from where to where tokens and what replaces them are drawn."""

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
    misconceptions=[
        Misconception(
            "picked tokens told by what has changed", _told_by_what_changed,
            "A token may be replaced by the same word, or be the mask token already. It was picked all the same, and is asked for: ask `chance`, not the inputs.",
        ),
        Misconception(
            "only changed tokens are targets", _asked_for_what_changed,
            "Some picked tokens stay as they are, or are replaced by the same word. They are asked for all the same: ask `chance`, not the inputs.",
        ),
        Misconception(
            "every token is a target", lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(~r, -100)),
            "A token that wasn't picked stands in the input as it is: to predict it is copying. Only picked ones are asked for; the rest is −100.",
        ),
        Misconception(
            "the tokens that were *not* picked are targets", lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(_asked(r, c) | ~r, -100)),
            "It is the other way round: the picked ones are asked for.",
        ),
        Misconception(
            "only masked tokens are targets", lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(~(r & (c < 0.12)), -100)),
            "Tokens that were replaced, and those that were picked and left as they are, are asked for too. That is why the model can't trust what it sees.",
        ),
        Misconception(
            "tokens that stay are no targets", lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(~(r & (c < 0.135)), -100)),
            "The last tenth of the picked tokens stays as it is, and is asked for all the same.",
        ),
        Misconception(
            "all picked tokens are masked", lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=_asked(r, c)),
            "Of the picked tokens 80 % become the mask token, 10 % another token, 10 % stay. When the model is used there is no mask token, and it should not learn to wait for one.",
        ),
        Misconception(
            "masked and replaced swapped", lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=r & (c < 0.12), hidden=r & (c >= 0.12) & (c < 0.135)),
            "The large part, chance < 0.12, is masked. The small one, up to 0.135, is replaced.",
        ),
        Misconception(
            "no token is replaced by another", lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=torch.zeros_like(r)),
            "With 0.12 ≤ chance < 0.135 the token becomes `other`.",
        ),
        Misconception(
            "no picked token stays", lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=_asked(r, c)),
            "With 0.135 ≤ chance < 0.15 the input stays as it is.",
        ),
        Misconception(
            "masked up to 0.15, asked for up to 0.135", lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=r & (c < 0.15), replaced=r & (c < 0.15), asked=r & (c < 0.15), targets=t.masked_fill(~(r & (c < 0.135)), -100)),
            "Masked are those with chance < 0.12. Picked, and so asked for, are those with chance < 0.15.",
        ),
        Misconception(
            "padding picked too", lambda t, r, c, o, m: _objective(t, torch.ones_like(r), c, o, m),
            "There is nothing to guess about padding. Only real tokens are picked.",
        ),
        Misconception(
            "targets shifted by one", _shifted,
            "A masked model is asked for the token *at* the position, not for the next one. Shifting belongs to models that write from left to right.",
        ),
        Misconception(
            "targets taken from the changed input", _targets_from_inputs,
            "The target is the token that stood there *before*. Yours asks for what took its place: the mask token, or `other`.",
        ),
        Misconception(
            "unpicked targets marked with 0", lambda t, r, c, o, m: _objective(t, r, c, o, m, targets=t.masked_fill(~_asked(r, c), 0)),
            "0 is a token. A position that is not asked for is marked with −100.",
        ),
        Misconception(
            "edges of the intervals counted wrongly", lambda t, r, c, o, m: _objective(t, r, c, o, m, asked=r & (c <= 0.15), replaced=r & (c <= 0.135), hidden=r & (c <= 0.12)),
            "All comparisons are <. At exactly 0.12 a token becomes `other`, at exactly 0.135 it stays, and at exactly 0.15 it isn't picked.",
        ),
        Misconception(
            "a chance of exactly 0.12 masked", lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=r & (c <= 0.12)),
            "A token is masked where its chance is below 0.12. At exactly 0.12 it becomes `other`.",
        ),
        Misconception(
            "a chance of exactly 0.135 replaced", lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=r & (c <= 0.135)),
            "From 0.135 on the token stays: at exactly 0.135 too.",
        ),
        Misconception(
            "a chance of exactly 0.15 picked", lambda t, r, c, o, m: _objective(t, r, c, o, m, asked=r & (c <= 0.15)),
            "A token is picked where its chance is below 0.15: at exactly 0.15 it isn't.",
        ),
        Misconception(
            "chances rounded to float32", lambda t, r, c, o, m: _objective(t, r, c.float(), o, m),
            "The chances are float64, and one just below 0.12 is 0.12 in float32: it lands on the other side. Compare them as they come, with limits in "
            "float64 too (`torch.tensor(0.12)` is float32).",
        ),
        Misconception(
            "padding masked in the inputs", lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=c < 0.12),
            "Your targets leave padding out, your inputs don't: with chance < 0.12 it becomes the mask token. Only real tokens are picked.",
        ),
        Misconception(
            "padding replaced in the inputs", lambda t, r, c, o, m: _objective(t, r, c, o, m, replaced=(c >= 0.12) & (c < 0.135)),
            "Your targets leave padding out, your inputs don't: from 0.12 to 0.135 it becomes `other`. Only real tokens are picked.",
        ),
        Misconception(
            "padding changed in the inputs", lambda t, r, c, o, m: _objective(t, r, c, o, m, hidden=c < 0.12, replaced=c < 0.135),
            "Your targets leave padding out, your inputs don't: it is masked and replaced like words. Only real tokens are picked.",
        ),
        Misconception(
            "inputs unchanged", lambda t, r, c, o, m: (t, t.masked_fill(~_asked(r, c), -100)),
            "The answer stands in the input. Hide it.",
        ),
    ],
)  # fmt: skip
