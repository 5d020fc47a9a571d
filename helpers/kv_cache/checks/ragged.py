"""Checks of batches with prompts of different lengths: padding on the left, and what positions and masks make of it."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.drivers import call, unpack, watch

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
        explicit_case("lengths 3, 5, 2", random_prompts(3, 5, 2)), explicit_case("lengths 4, 1", random_prompts(4, 1)), explicit_case("lengths 9, 6, 9, 7", random_prompts(9, 6, 9, 7)),
    ],
    misconceptions=[
        Misconception(
            "padded on the right", lambda prompts: _padded(prompts, _right),
            "Short prompts then end earlier, and their next token would stand in the middle of the row. With padding on the left, all end in the same "
            "column.",
        ),
        Misconception(
            "a mask of the padding", padding_is_real,
            "True means: this is a token. Yours is True where there is none.",
        ),
        Misconception(
            "zeros taken for padding", real_where_not_zero,
            "Token number 0 may be a word of the prompt. What is padding follows from the lengths, not from the tokens.",
        ),
        Misconception(
            "cut to the shortest", cut_to_the_shortest,
            "Nothing of a prompt may be lost. Pad the short ones to the length of the longest.",
        ),
        Misconception(
            "the first prompt taken for the longest", as_long_as_the_first,
            "The row is as long as the longest prompt, and that may be any of them: `max` of all lengths.",
            raises="RuntimeError",
        ),
        Misconception(
            "a mask for padding on the right", mask_of_the_right,
            "The tokens stand on the right, and your mask says that they stand on the left.",
        ),
    ],
)  # fmt: skip


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
    names=("positions, 0 in the padding: sequences tokens", "mask, empty for queries in the padding: sequences queries keys"),
    cases=[
        real_tokens("prompts of 3, 5, 2", 3, 5, 2, n=5),
        real_tokens("prompts of 4, 1 and one new token", 4, 1, written=1, n=1),
        real_tokens("prompts of 2, 6, 3 and three new tokens", 2, 6, 3, written=4, n=3),
        real_tokens("no padding at all", 4, 4, n=4),
        real_tokens("prompts of 5, 1, 4: other lengths, the same width", 5, 1, 4, n=5),
    ],
    misconceptions=[
        Misconception(
            "positions counted from the padding", lambda real, n: (_from_the_padding(real, n), _causal(real, n) & real[:, None]),
            "Padding must not move a prompt: its first real token has position 0. Count real tokens: `cumsum`.",
        ),
        Misconception(
            "padding attended to", lambda real, n: (_places(real, n), _causal(real, n)),
            "The causal mask alone lets tokens look at the padding to their left. Hide the *columns* of padding from everybody: a key must be "
            "real as well. (What a padded token itself sees doesn't matter.)",
        ),
        Misconception(
            "the future visible", lambda real, n: (_places(real, n), real[:, None].expand(-1, n, -1)),
            "In a chunk the first token must not see the last. The mask is causal *and* hides padding.",
        ),
        Misconception(
            "the triangle not shifted", lambda real, n: (_places(real, n), _causal(real, n, shift=0) & real[:, None]),
            "Row 0 is the first of the newest n tokens: it sees the m − n before it as well.",
        ),
        Misconception(
            "positions that begin again", lambda real, n: (torch.arange(n).expand(len(real), -1), _causal(real, n) & real[:, None]),
            "The newest tokens come after those in the cache. Count the real tokens from the beginning of the row, then take the last n.",
        ),
        Misconception(
            "counted over the newest columns only", lambda real, n: (
                real[:, real.shape[1] - n :].cumsum(dim=1) - 1, _causal(real, n) & real[:, None]
            ),
            "The tokens before the newest n count too. Count over the whole row first, then take the last n columns.",
        ),
        Misconception(
            "the column taken for the position after the prompt", lambda real, n: (
                _places(real, n) if n == real.shape[1] else _from_the_padding(real, n), _causal(real, n) & real[:, None]
            ),
            "A token that comes after the prompts has padding in its row as well. Its position is the number of real tokens before it.",
        ),
        Misconception(
            "columns compared with positions", lambda real, n: (
                _places(real, n), (torch.arange(real.shape[1]) <= _places(real, n)[:, :, None]) & real[:, None]
            ),
            "The first token of a padded prompt has position 0, but stands in a later column. The mask is about columns: compare columns with columns.",
        ),
        Misconception(
            "a token that doesn't see itself", lambda real, n: (_places(real, n), _causal(real, n, shift=real.shape[1] - n - 1) & real[:, None]),
            "A token attends to itself as well.",
        ),
        Misconception(
            "the mask inverted", lambda real, n: (_places(real, n), ~(_causal(real, n) & real[:, None])),
            "True means: may attend. Yours is True where nothing may be seen.",
        ),
        Misconception(
            "positions from 1", lambda real, n: (_places(real, n) + 1, _causal(real, n) & real[:, None]),
            "The first real token stands at position 0: take 1 from the running count.",
        ),
    ],
)  # fmt: skip

ragged_batch = CheckGroup("ragged_batch", pad_left, positions_and_mask)
