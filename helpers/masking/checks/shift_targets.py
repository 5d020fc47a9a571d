"""The check of `shift_targets`."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import targets

__all__ = ["shift_targets"]


def random_tokens(b: int, n: int) -> RandomArg:
    """Random tokens everywhere: nothing but `lengths` says what is padding."""
    return RandomArg(lambda generator: torch.randint(40, (b, n), generator=generator))


def large_tokens(b: int, n: int) -> RandomArg:
    """Odd numbers above 2²⁴: none of them is a float32."""
    return RandomArg(lambda generator: 2**24 + 1 + 2 * torch.randint(40, (b, n), generator=generator))


def _inputs(tokens, end) -> Tensor:
    return torch.cat([torch.full_like(tokens[:, :1], end), tokens], dim=1)


def _place(tokens) -> Tensor:
    return torch.arange(tokens.shape[1] + 1)


def _ended(tokens, lengths, end) -> Tensor:
    """The tokens with `end` after the last real one; padding as it was."""
    edge = torch.full_like(tokens[:, :1], end)
    return torch.cat([tokens, edge], dim=1).masked_fill(_place(tokens) == lengths[:, None], end)


def unshifted(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    inputs = _inputs(tokens, end)
    return inputs, inputs.masked_fill(_place(tokens) > lengths[:, None], -100)


def shifted_back(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    inputs = _inputs(tokens, end)
    return inputs, inputs.roll(1, dims=1).masked_fill(_place(tokens) > lengths[:, None], -100)


def two_ahead(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    ahead = torch.cat([_ended(tokens, lengths, end)[:, 1:], torch.full_like(tokens[:, :1], -100)], dim=1)
    return _inputs(tokens, end), ahead.masked_fill(_place(tokens) >= lengths[:, None], -100)


def without_end(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    ended = _ended(tokens, lengths, end)
    return _inputs(tokens, end), ended.masked_fill(_place(tokens) >= lengths[:, None], -100)


def padding_kept(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    return _inputs(tokens, end), _ended(tokens, lengths, end)


def end_in_the_last_column(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    inputs = _inputs(tokens, end)
    return inputs, inputs.roll(-1, dims=1)


def padding_marked_with_zero(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    return _inputs(tokens, end), _ended(tokens, lengths, end).masked_fill(_place(tokens) > lengths[:, None], 0)


def end_repeated(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    return _inputs(tokens, end), _ended(tokens, lengths, end).masked_fill(_place(tokens) > lengths[:, None], end)


def inputs_without_start(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    ended = _ended(tokens, lengths, end)
    return ended, ended.masked_fill(_place(tokens) > lengths[:, None], -100)


def rolled_then_ignored(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    inputs = _inputs(tokens, end)
    return inputs, inputs.roll(-1, dims=1).masked_fill(_place(tokens) > lengths[:, None], -100)


def all_ends_in_all_rows(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    wanted = _ended(tokens, lengths, end).masked_fill(_place(tokens) > lengths[:, None], -100)
    wanted[:, lengths] = end
    return _inputs(tokens, end), wanted


def all_ends_then_ignored(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    wanted = torch.cat([tokens, torch.full_like(tokens[:, :1], end)], dim=1)
    wanted[:, lengths] = end
    return _inputs(tokens, end), wanted.masked_fill(_place(tokens) > lengths[:, None], -100)


def end_of_full_sequences_only(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    place, n = _place(tokens), tokens.shape[1]
    return _inputs(tokens, end), _ended(tokens, lengths, end).masked_fill(
        (place >= lengths[:, None]) & (place < n), -100
    ).masked_fill((place == n) & (lengths[:, None] < n), -100)


def no_end_of_full_sequences(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    inputs, wanted = targets.shift_targets(tokens, lengths, end)
    return inputs, wanted.masked_fill((_place(tokens) == tokens.shape[1]) & (lengths[:, None] == tokens.shape[1]), -100)


def padding_by_value(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    wanted = torch.cat([tokens.masked_fill(tokens == 0, -100), torch.full_like(tokens[:, :1], -100)], dim=1)
    return _inputs(tokens, end), wanted.masked_fill(_place(tokens) == lengths[:, None], end)


def ignored_inputs(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    padding = _place(tokens) > lengths[:, None]
    return _inputs(tokens, end).masked_fill(padding, -100), _ended(tokens, lengths, end).masked_fill(padding, -100)


def cleaned_inputs(tokens, lengths, end, by=None) -> tuple[Tensor, Tensor]:
    padding = _place(tokens) > lengths[:, None]
    return _inputs(tokens, end).masked_fill(padding, end if by is None else by), _ended(
        tokens, lengths, end
    ).masked_fill(padding, -100)


def two_views_of_one_tensor(tokens, lengths, end) -> tuple[Tensor, Tensor]:
    line = torch.cat([_inputs(tokens, end), torch.full_like(tokens[:, :1], end)], dim=1)
    inputs, wanted = line[:, :-1], line[:, 1:]
    wanted[_place(tokens) == lengths[:, None]] = end
    wanted[_place(tokens) > lengths[:, None]] = -100
    return inputs, wanted


def floats_on_the_way(tokens, lengths, end) -> tuple[Tensor, ...]:
    return tuple(part.float().long() for part in targets.shift_targets(tokens, lengths, end))


def _rounded_to_float32(seen) -> bool:
    """Every token that is wrong is what float32 makes of the right one."""
    pairs = zip(seen.output, targets.shift_targets(*seen.args), strict=True)
    return all(bool(((got == right) | (got == right.float().long())).all()) for got, right in pairs)


shift_targets = Check(
    reference=targets.shift_targets,
    names=("inputs: sequences positions", "targets: sequences positions"),
    cases=[
        explicit_case("3 sequences, lengths 4, 6, 2", random_tokens(3, 6), torch.tensor([4, 6, 2]), 50),
        explicit_case("2 sequences, lengths 5, 1, end = 0", random_tokens(2, 5), torch.tensor([5, 1]), 0),
        explicit_case("no padding at all, numbers above 2²⁴", large_tokens(2, 4), torch.tensor([4, 4]), 41),
        explicit_case("an empty sequence beside a full one", random_tokens(2, 3), torch.tensor([0, 3]), 60),
        explicit_case(
            "zeros among the tokens and in the padding",
            torch.tensor([[5, 0, 7, 0, 9], [0, 3, 0, 0, 0]]),
            torch.tensor([4, 2]),
            41,
        ),
        explicit_case("one sequence, n = 1", random_tokens(1, 1), torch.tensor([1]), 50),
    ],
    within=(0.0, 0.0),
    properties=[
        Property(
            "tokens are whole numbers",
            lambda output, *_: not any(part.is_floating_point() for part in output),
            "Your tokens have become floats, and an embedding can't be indexed with them. `torch.ones` and `torch.zeros` make floats, and so does "
            "a −100.0 with a point; `torch.full_like` keeps the dtype of the tokens.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        targets_that_not_shifted=unshifted,
        shifted_wrong_way=shifted_back,
        shifted_twice=two_ahead,
        no_end_token_among_targets=without_end,
        loss_over_padding=padding_kept,
        end_token_last_column=end_in_the_last_column,
        padding_marked_with_0=padding_marked_with_zero,
        end_tokens_over_all_padding=end_repeated,
        inputs_equal_targets=inputs_without_start,
        end_token_last_column_ignored_short=rolled_then_ignored,
        every_length_every_row=all_ends_in_all_rows,
        every_length_every_row_then_minus_100=all_ends_then_ignored,
        end_token_full_sequences_only=end_of_full_sequences_only,
        no_end_token_full_sequences=no_end_of_full_sequences,
        padding_recognised_by_value=padding_by_value,
        minus_100_inputs_too=ignored_inputs,
        inputs_targets_one_memory=two_views_of_one_tensor,
        tokens_that_were_floats_on_way=Wrong(floats_on_the_way, recognise=_rounded_to_float32),
        padding_inputs_overwritten=cleaned_inputs,
        padding_inputs_set_0=lambda tokens, lengths, end: cleaned_inputs(tokens, lengths, end, by=0),
        tokens_that_have_become_floats=Wrong(
            lambda tokens, lengths, end: tuple(part.float() for part in targets.shift_targets(tokens, lengths, end)),
            recognise=lambda seen: any(part.is_floating_point() for part in seen.output),
        ),
    ),
)
