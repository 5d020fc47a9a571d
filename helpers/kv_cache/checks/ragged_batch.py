"""Checks of batches with prompts of different lengths: padding on the left, and what positions and masks make of it."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.drivers import call, unpack, watch
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


def _padded(prompts, make) -> tuple[Tensor, Tensor]:
    m = max(len(prompt) for prompt in prompts)
    rows = [make(prompt, m - len(prompt)) for prompt in prompts]
    return torch.stack([tokens for tokens, _ in rows]), torch.stack([real for _, real in rows])


def _left(prompt, gap) -> tuple[Tensor, Tensor]:
    zeros = torch.zeros(gap, dtype=torch.long)
    return torch.cat([zeros, prompt]), torch.arange(gap + len(prompt)) >= gap


def _right(prompt, gap) -> tuple[Tensor, Tensor]:
    zeros = torch.zeros(gap, dtype=torch.long)
    return torch.cat([prompt, zeros]), torch.arange(gap + len(prompt)) < len(prompt)


def padding_is_real(prompts) -> tuple[Tensor, Tensor]:
    tokens, real = _padded(prompts, _left)
    return tokens, ~real


def real_where_not_zero(prompts) -> tuple[Tensor, Tensor]:
    tokens, _ = _padded(prompts, _left)
    return tokens, tokens != 0


def cut_to_the_shortest(prompts) -> tuple[Tensor, Tensor]:
    m = min(len(prompt) for prompt in prompts)
    return torch.stack([prompt[-m:] for prompt in prompts]), torch.ones(len(prompts), m) == 1


def mask_of_the_right(prompts) -> tuple[Tensor, Tensor]:
    return _padded(prompts, _left)[0], _padded(prompts, _right)[1]


def as_long_as_the_first(prompts) -> tuple[Tensor, Tensor]:
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
        padded_on_right=lambda prompts: _padded(prompts, _right),
        mask_padding=padding_is_real,
        zeros_taken_padding=real_where_not_zero,
        cut_shortest=cut_to_the_shortest,
        first_prompt_taken_longest=Wrong(as_long_as_the_first, raises="RuntimeError"),
        mask_padding_on_right=mask_of_the_right,
    ),
)


def drive_rows(answer, real: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """What a padded token's own row and position say doesn't matter: they are set to 0."""
    seen = watch(answer, real, n)
    positions, mask = output = unpack(seen.output, "positions", "mask")
    newest, shape = real[:, real.shape[1] - n :].clone(), (*real[:, :n].shape, real.shape[1])
    hand_on(seen, real)
    comparable = (
        isinstance(positions, Tensor)
        and positions.shape == newest.shape
        and isinstance(mask, Tensor)
        and mask.shape == shape
    )
    return (positions * newest, mask & newest[:, :, None]) if comparable and mask.dtype == torch.bool else output


def real_tokens(label: str, *lengths: int, written: int = 0, n: int) -> Case:
    """Prompts of these lengths, then `written` tokens in every row; the newest n are asked for."""
    m = max(lengths) + written
    return explicit_case(label, torch.stack([torch.arange(m) >= m - written - length for length in lengths]), n)


def _causal(real, n, shift=None) -> Tensor:
    m = real.shape[1]
    return (torch.ones(n, m).tril(m - n if shift is None else shift) == 1).expand(len(real), -1, -1)


def _places(real, n) -> Tensor:
    return (real.cumsum(dim=1) - 1).clamp_min(0)[:, real.shape[1] - n :]


def _from_the_padding(real, n) -> Tensor:
    return torch.arange(real.shape[1])[real.shape[1] - n :].expand(len(real), -1)


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
        positions_counted_from_padding=lambda real, n: (_from_the_padding(real, n), _causal(real, n) & real[:, None]),
        padding_attended=lambda real, n: (_places(real, n), _causal(real, n)),
        future_visible=lambda real, n: (_places(real, n), real[:, None].expand(-1, n, -1)),
        triangle_not_shifted=lambda real, n: (_places(real, n), _causal(real, n, shift=0) & real[:, None]),
        positions_that_begin_again=lambda real, n: (
            torch.arange(n).expand(len(real), -1),
            _causal(real, n) & real[:, None],
        ),
        counted_over_newest_columns_only=lambda real, n: (
            real[:, real.shape[1] - n :].cumsum(dim=1) - 1,
            _causal(real, n) & real[:, None],
        ),
        column_taken_position_after_prompt=lambda real, n: (
            _places(real, n) if n == real.shape[1] else _from_the_padding(real, n),
            _causal(real, n) & real[:, None],
        ),
        columns_compared_with_positions=lambda real, n: (
            _places(real, n),
            (torch.arange(real.shape[1]) <= _places(real, n)[:, :, None]) & real[:, None],
        ),
        token_that_doesnt_see_itself=lambda real, n: (
            _places(real, n),
            _causal(real, n, shift=real.shape[1] - n - 1) & real[:, None],
        ),
        mask_inverted=lambda real, n: (_places(real, n), ~(_causal(real, n) & real[:, None])),
        positions_from_1=lambda real, n: (_places(real, n) + 1, _causal(real, n) & real[:, None]),
    ),
)

ragged_batch = CheckGroup("ragged_batch", pad_left, positions_and_mask)
