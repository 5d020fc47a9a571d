"""Prompts of different lengths in one batch: padding on the left, and what positions and masks make of it."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.drivers import call, unpack, watch
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import ragged as reference
from .decoding import hand_on

__all__ = ["ragged_batch"]


def drive_padding(answer, prompts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The mask, and the tokens. What stands in the padding doesn't matter: it is set to 0."""
    tokens, real = unpack(call(answer, prompts), "tokens", "mask")
    m = max(map(len, prompts))
    in_place = torch.stack([torch.arange(m) >= m - len(prompt) for prompt in prompts])
    comparable = isinstance(tokens, Tensor) and tokens.shape == in_place.shape
    return real, tokens * in_place if comparable else tokens


def random_prompts(*lengths: int) -> RandomArg:
    """Token 0 is a token like others: the first prompt begins with it, where padding would stand."""

    def draw(generator: torch.Generator) -> list[Tensor]:
        prompts = [torch.randint(4, (n,), generator=generator) for n in lengths]
        prompts[0][0] = 0
        return prompts

    return RandomArg(draw)


def on_left(m: int, length: int) -> slice:
    return slice(m - length, m)


def on_right(m: int, length: int) -> slice:
    return slice(length)


@composable
def padding(
    place: Callable = on_left, real: Callable = lambda tokens, lengths: _marked(on_left, tokens, lengths)
) -> Callable:
    """The padded tokens, with each prompt in another place, or another mask."""

    def pad(prompts: list[Tensor]) -> tuple[Tensor, Tensor]:
        lengths = list(map(len, prompts))
        tokens = torch.zeros(len(prompts), max(lengths), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, place(max(lengths), len(prompt))] = prompt
        return tokens, real(tokens, lengths)

    return pad


def _marked(place: Callable, tokens: Tensor, lengths: list[int]) -> Tensor:
    real = torch.zeros(tokens.shape, dtype=torch.bool)
    for row, length in enumerate(lengths):
        real[row, place(max(lengths), length)] = True
    return real


def cut_to_the_shortest(prompts):
    m = min(map(len, prompts))
    return torch.stack([prompt[-m:] for prompt in prompts]), torch.ones(len(prompts), m) == 1


def as_long_as_the_first(prompts):
    m = len(prompts[0])
    rows = [torch.cat([torch.zeros(m - len(prompt), dtype=prompt.dtype), prompt]) for prompt in prompts]
    return torch.stack(rows), torch.stack([torch.arange(m) >= m - len(prompt) for prompt in prompts])


pad_left = Check(
    reference=reference.pad_left,
    drive=drive_padding,
    names=("mask: sequences columns", "tokens, 0 in the padding: sequences columns"),
    cases=[
        explicit_case("lengths 3, 5, 2", random_prompts(3, 5, 2)),
        explicit_case("lengths 4, 1", random_prompts(4, 1)),
        explicit_case("lengths 9, 6, 9, 7", random_prompts(9, 6, 9, 7)),
    ],
    misconceptions=wrong_answers(
        __file__,
        on_right=padding(on_right, lambda tokens, lengths: _marked(on_right, tokens, lengths)),
        mask_of_padding=padding(real=lambda tokens, lengths: ~_marked(on_left, tokens, lengths)),
        zeros_for_padding=padding(real=lambda tokens, lengths: tokens != 0),
        padding_behind=padding(on_right),
        cut_to_shortest=cut_to_the_shortest,
        first_for_longest=Wrong(as_long_as_the_first, raises="RuntimeError"),
        mask_on_right=padding(real=lambda tokens, lengths: _marked(on_right, tokens, lengths)),
    ),
)


def drive_rows(answer, real: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """What a padded token's own row and position say doesn't matter: they are set to 0."""
    seen = watch(answer, real, n)
    positions, mask = output = unpack(seen.output, "positions", "mask")
    newest, shape = real[:, real.shape[1] - n :].clone(), (*real[:, :n].shape, real.shape[1])
    hand_on(seen, real)
    if not (isinstance(positions, Tensor) and isinstance(mask, Tensor) and mask.dtype == torch.bool):
        return output
    comparable = positions.shape == newest.shape and mask.shape == shape
    return (positions * newest, mask & newest[:, :, None]) if comparable else output


def real_tokens(label: str, *lengths: int, written: int = 0, n: int) -> Case:
    """Prompts of these lengths, then `written` tokens in every row; the newest n are asked for."""
    m = max(lengths) + written
    return explicit_case(label, torch.stack([torch.arange(m) >= m - written - length for length in lengths]), n)


def causal(real, n, shift=None) -> Tensor:
    m = real.shape[1]
    return (torch.ones(n, m).tril(m - n if shift is None else shift) == 1).expand(len(real), -1, -1)


def right_mask(real, n, shift=None) -> Tensor:
    return causal(real, n, shift) & real[:, None]


def places(real, n) -> Tensor:
    return (real.cumsum(dim=1) - 1).clamp_min(0)[:, real.shape[1] - n :]


def columns(real, n) -> Tensor:
    return torch.arange(real.shape[1] - n, real.shape[1]).expand(len(real), -1)


@composable
def rows(positions: Callable = places, mask: Callable = right_mask) -> Callable:
    return lambda real, n: (positions(real, n), mask(real, n))


positions_and_mask = Check(
    reference=reference.positions_and_mask,
    drive=drive_rows,
    names=(
        "positions, 0 in the padding: sequences tokens",
        "mask, empty for queries in the padding: sequences queries keys",
    ),
    cases=[
        real_tokens("prompts of 3, 5, 2", 3, 5, 2, n=5),
        real_tokens("prompts of 4, 1 and one new token", 4, 1, written=1, n=1),
        real_tokens("prompts of 2, 6, 3 and three new tokens", 2, 6, 3, written=4, n=3),
        real_tokens("no padding at all", 4, 4, n=4),
        real_tokens("prompts of 5, 1, 4: other lengths, the same width", 5, 1, 4, n=5),
    ],
    misconceptions=wrong_answers(
        __file__,
        counted_from_padding=rows(columns),
        padding_attended=rows(mask=causal),
        future_visible=rows(mask=lambda real, n: real[:, None].expand(-1, n, -1)),
        not_shifted=rows(mask=lambda real, n: right_mask(real, n, shift=0)),
        positions_begin_again=rows(lambda real, n: torch.arange(n).expand(len(real), -1)),
        counted_over_newest=rows(lambda real, n: real[:, real.shape[1] - n :].cumsum(dim=1) - 1),
        columns_after_prompt=Wrong(
            rows(lambda real, n: places(real, n) if n == real.shape[1] else columns(real, n)),
            variants=(rows(lambda real, n: columns(real, n) if n == 1 else places(real, n)),),
        ),
        compared_with_positions=rows(
            mask=lambda real, n: (torch.arange(real.shape[1]) <= places(real, n)[:, :, None]) & real[:, None]
        ),
        itself_unseen=rows(mask=lambda real, n: right_mask(real, n, shift=real.shape[1] - n - 1)),
        mask_inverted=rows(mask=lambda real, n: ~right_mask(real, n)),
        positions_from_1=rows(lambda real, n: places(real, n) + 1),
    ),
)

ragged_batch = CheckGroup("ragged_batch", pad_left, positions_and_mask)
