"""The check of `shift_targets`: inputs and targets of a batch of texts, the targets one ahead."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..targets import shift_targets as reference

__all__ = ["shift_targets"]


def random_tokens(b: int, n: int) -> RandomArg:
    """Random tokens everywhere: nothing but `lengths` says what is padding."""
    return RandomArg(lambda generator: torch.randint(40, (b, n), generator=generator))


def large_tokens(b: int, n: int) -> RandomArg:
    """Odd numbers above 2²⁴: none of them is a float32."""
    return RandomArg(lambda generator: 2**24 + 1 + 2 * torch.randint(40, (b, n), generator=generator))


def _inputs(tokens, lengths, end) -> Tensor:
    return torch.cat([torch.full_like(tokens[:, :1], end), tokens], dim=1)


def _ended(tokens, lengths, end) -> Tensor:
    """The tokens with `end` after the last real one; padding as it was."""
    edge = torch.full_like(tokens[:, :1], end)
    place = torch.arange(tokens.shape[1] + 1)
    return torch.cat([tokens, edge], dim=1).masked_fill(place == lengths[:, None], end)


def _wanted(tokens, lengths, end) -> Tensor:
    return reference(tokens, lengths, end)[1]


def marked(of: Callable, by: Callable = lambda end: -100, since: int = 1) -> Callable[..., Tensor]:
    """What `of` gives, overwritten from `since` places after the last real token on."""

    def answer(tokens, lengths, end) -> Tensor:
        row = of(tokens, lengths, end)
        return row.masked_fill(torch.arange(row.shape[1]) >= lengths[:, None] + since, by(end))

    return answer


def rolled(by: int) -> Callable[..., Tensor]:
    return lambda *args: _inputs(*args).roll(by, dims=1)


@composable
def pair(wanted: Callable = _wanted, inputs: Callable = _inputs) -> Callable[..., tuple[Tensor, Tensor]]:
    """The answer with other inputs or targets."""
    return lambda *args: (inputs(*args), wanted(*args))


def two_ahead(tokens, lengths, end) -> Tensor:
    return torch.cat([_ended(tokens, lengths, end)[:, 1:], torch.full_like(tokens[:, :1], -100)], dim=1)


def ends_in_all_rows(of: Callable) -> Callable[..., Tensor]:
    def answer(tokens, lengths, end) -> Tensor:
        wanted = of(tokens, lengths, end)
        wanted[:, lengths] = end
        return wanted

    return answer


def ended_at_the_edge(tokens, lengths, end) -> Tensor:
    return torch.cat([tokens, torch.full_like(tokens[:, :1], end)], dim=1)


def short_ones_without_end(tokens, lengths, end) -> Tensor:
    behind = torch.arange(tokens.shape[1] + 1) >= lengths[:, None]
    return _ended(tokens, lengths, end).masked_fill(behind & (lengths < tokens.shape[1])[:, None], -100)


def full_ones_without_end(tokens, lengths, end) -> Tensor:
    wanted, n = _wanted(tokens, lengths, end), tokens.shape[1]
    return wanted.masked_fill((torch.arange(n + 1) == n) & (lengths[:, None] == n), -100)


def padding_by_value(tokens, lengths, end) -> Tensor:
    wanted = ended_at_the_edge(tokens.masked_fill(tokens == 0, -100), lengths, -100)
    return wanted.masked_fill(torch.arange(tokens.shape[1] + 1) == lengths[:, None], end)


def one_memory(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    line = ended_at_the_edge(_inputs(tokens, lengths, end), lengths, end)
    inputs, wanted = line[:, :-1], line[:, 1:]
    place = torch.arange(wanted.shape[1])
    wanted[place == lengths[:, None]] = end
    wanted[place > lengths[:, None]] = -100
    return inputs, wanted


def _rounded_to_float32(seen) -> bool:
    """Every token that is wrong is what float32 makes of the right one."""
    pairs = zip(seen.output, reference(*seen.args), strict=True)
    return all(bool(((got == right) | (got == right.float().long())).all()) for got, right in pairs)


shift_targets = Check(
    reference=reference,
    names=("inputs: sequences positions", "targets: sequences positions"),
    cases=[
        explicit_case("3 sequences, lengths 4, 6, 2", random_tokens(3, 6), torch.tensor([4, 6, 2]), 50),
        explicit_case("2 sequences, lengths 5, 1, end = 0", random_tokens(2, 5), torch.tensor([5, 1]), 0),
        explicit_case("no padding at all, numbers above 2²⁴", large_tokens(2, 4), torch.tensor([4, 4]), 41),
        explicit_case("an empty sequence beside a full one", random_tokens(2, 3), torch.tensor([0, 3]), 60),
        explicit_case(
            "zeros among the tokens and in the padding",
            *(torch.tensor([[5, 0, 7, 0, 9], [0, 3, 0, 0, 0]]), torch.tensor([4, 2]), 41),
        ),
        explicit_case("one sequence, n = 1", random_tokens(1, 1), torch.tensor([1]), 50),
    ],
    within=(0.0, 0.0),
    properties=[
        Property(
            "tokens are whole numbers",
            lambda output, *_: not any(part.is_floating_point() for part in output),
            "Your tokens have become floats, and an embedding can't be indexed with them. `torch.ones` and "
            "`torch.zeros` make floats, and so does a −100.0 with a point; "
            "`torch.full_like` keeps the dtype of the tokens.",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        plain_split=lambda tokens, lengths, end: (tokens[:, :-1], tokens[:, 1:]),
        unshifted=pair(marked(_inputs)),
        wrong_way=pair(marked(rolled(1))),
        twice=pair(marked(two_ahead, since=0)),
        no_end=pair(marked(_ended, since=0)),
        padding_kept=pair(_ended),
        end_at_the_edge=pair(rolled(-1)),
        padding_0=pair(marked(_ended, by=lambda end: 0)),
        ends_in_padding=pair(marked(_ended, by=lambda end: end)),
        inputs_as_targets=pair(inputs=_ended),
        end_at_the_edge_ignored=pair(marked(rolled(-1))),
        ends_in_all_rows=pair(ends_in_all_rows(_wanted)),
        ends_in_all_rows_ignored=pair(marked(ends_in_all_rows(ended_at_the_edge))),
        short_ones_without_end=pair(short_ones_without_end),
        full_ones_without_end=pair(full_ones_without_end),
        padding_by_value=pair(padding_by_value),
        inputs_ignored=pair(inputs=marked(_inputs)),
        one_memory=one_memory,
        floats_on_the_way=Wrong(
            lambda *args: tuple(part.float().long() for part in reference(*args)), recognise=_rounded_to_float32
        ),
        inputs_overwritten=pair(inputs=marked(_inputs, by=lambda end: end)),
        inputs_0=pair(inputs=marked(_inputs, by=lambda end: 0)),
        floats=Wrong(
            lambda *args: tuple(part.float() for part in reference(*args)),
            recognise=lambda seen: any(part.is_floating_point() for part in seen.output),
        ),
    ),
)
