"""Checks of next-token targets and of the loss over them."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.common_misconceptions import in_single_precision

from .. import targets

__all__ = ["copy_without_mask", "shift_targets"]


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
    return _inputs(tokens, end), _ended(tokens, lengths, end).masked_fill((place >= lengths[:, None]) & (place < n), -100).masked_fill(
        (place == n) & (lengths[:, None] < n), -100
    )  # fmt: skip


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
        explicit_case("zeros among the tokens and in the padding", torch.tensor([[5, 0, 7, 0, 9], [0, 3, 0, 0, 0]]), torch.tensor([4, 2]), 41),
        explicit_case("one sequence, n = 1", random_tokens(1, 1), torch.tensor([1]), 50),
    ],
    within=(0.0, 0.0),
    properties=[
        Property(
            "tokens are whole numbers", lambda output, *_: not any(part.is_floating_point() for part in output),
            "Your tokens have become floats, and an embedding can't be indexed with them. `torch.ones` and `torch.zeros` make floats, and so does "
            "a −100.0 with a point; `torch.full_like` keeps the dtype of the tokens.",
        ),
    ],
    misconceptions=[
        Misconception(
            "targets that are not shifted", unshifted,
            "Your model is asked for the token that it is given. At position i it must predict what comes next.",
        ),
        Misconception(
            "shifted the wrong way", shifted_back,
            "Your targets are the tokens before the inputs: the model learns to remember, not to predict. The target at i is the input at i + 1.",
        ),
        Misconception(
            "shifted twice", two_ahead,
            "The extra first input is a shift already. Targets are simply the tokens, with the end token after them.",
        ),
        Misconception(
            "no end token among the targets", without_end,
            "After the last real token comes `end`. A model that never has to say it doesn't learn to stop.",
        ),
        Misconception(
            "loss over padding", padding_kept,
            "What stands after the end token is padding. Mark it with −100, or the model is trained to predict it.",
        ),
        Misconception(
            "the end token in the last column", end_in_the_last_column,
            "`roll` puts the end token where the longest sequence ends. Each sequence ends after its own length, and padding follows.",
        ),
        Misconception(
            "padding marked with 0", padding_marked_with_zero,
            "0 is a token like any other, and would be trained. The loss ignores −100, PyTorch's `ignore_index`.",
        ),
        Misconception(
            "end tokens over all the padding", end_repeated,
            "One end token is enough. Further ones are easy to predict: they make the loss look better than it is.",
        ),
        Misconception(
            "inputs equal to the targets", inputs_without_start,
            "The inputs begin with `end` (it marks both edges), then come the tokens. In this way input i is what stands before target i.",
        ),
        Misconception(
            "the end token in the last column, and ignored in short sequences", rolled_then_ignored,
            "A short sequence ends before the last column, and its end token belongs at lengths[b]. There you have the first token of the padding, and the end token "
            "of the last column is hidden under −100.",
        ),
        Misconception(
            "every length in every row", all_ends_in_all_rows,
            "`targets[:, lengths]` sets these columns in *all* rows. One column for each row is `targets[torch.arange(b), lengths]`.",
        ),
        Misconception(
            "every length in every row, then −100", all_ends_then_ignored,
            "`targets[:, lengths]` sets these columns in *all* rows: a long sequence gets the ends of the short ones as well. One column for each row is "
            "`targets[torch.arange(b), lengths]`.",
        ),
        Misconception(
            "an end token for full sequences only", end_of_full_sequences_only,
            "The zone of −100 begins one place too early and takes the end token of short sequences with it. It begins *after* lengths[b].",
        ),
        Misconception(
            "no end token for full sequences", no_end_of_full_sequences,
            "A sequence that fills its row is a whole text too, not one that was cut off: its end token stands in the last column.",
        ),
        Misconception(
            "padding recognised by its value", padding_by_value,
            "Padding may hold anything, and 0 may be a word. Nothing but `lengths` says where it begins.",
        ),
        Misconception(
            "−100 in the inputs too", ignored_inputs,
            "In the inputs padding stays as it is, and −100 is no token that a model could read. Did you write into `tokens`, or into a tensor that shares its memory?",
        ),
        Misconception(
            "inputs and targets in one memory", two_views_of_one_tensor,
            "Slices are views: `line[:, :-1]` and `line[:, 1:]` share their numbers, so that the ends and −100 that you write into the targets stand in the "
            "inputs as well. Write into a copy, `line[:, 1:].clone()`.",
        ),
        Misconception(
            "tokens that were floats on the way", floats_on_the_way,
            "`torch.ones` and `torch.zeros` make float32, and `torch.cat` then makes float32 of everything. It keeps whole numbers up to 2²⁴ only; `.long()` "
            "comes too late for larger ones. `torch.full_like` and `new_full` keep the dtype of the tokens.",
            _rounded_to_float32,
        ),
        Misconception(
            "padding of the inputs overwritten", cleaned_inputs,
            "In the inputs padding stays as it is. With the causal mask no real token attends to it.",
        ),
        Misconception(
            "padding of the inputs set to 0", lambda tokens, lengths, end: cleaned_inputs(tokens, lengths, end, by=0),
            "In the inputs padding stays as it is. With the causal mask no real token attends to it.",
        ),
        Misconception(
            "tokens that have become floats", lambda tokens, lengths, end: tuple(part.float() for part in targets.shift_targets(tokens, lengths, end)),
            "An embedding can't be indexed with floats. `torch.ones`, `torch.zeros` and any number with a point, as in `torch.full(…, -100.0)`, make floats, and "
            "`torch.cat` then makes floats of everything.",
            lambda seen: any(part.is_floating_point() for part in seen.output),
        ),
    ],
)  # fmt: skip


def random_logits(b: int, n: int, vocabulary: int, scale: float = 1.0, dtype=torch.float32) -> RandomArg:
    return RandomArg(
        lambda generator: (scale * torch.randn(b, n, vocabulary, generator=generator, dtype=torch.float64)).to(dtype)
    )


def padded_targets(lengths: tuple[int, ...], n: int, vocabulary: int) -> RandomArg:
    def draw(generator: Generator) -> Tensor:
        drawn = torch.randint(vocabulary, (len(lengths), n), generator=generator)
        return drawn.masked_fill(torch.arange(n) >= torch.tensor(lengths)[:, None], -100)

    return RandomArg(draw)


def _picked(values, targets) -> Tensor:
    return values.gather(-1, targets.clamp_min(0)[..., None])[..., 0]


def _mean(values, targets) -> Tensor:
    return (values * (targets != -100)).sum() / (targets != -100).sum()


def _loss_of_log_softmax(logits, targets, axis=-1) -> Tensor:
    return -_mean(_picked(logits.log_softmax(axis), targets), targets)


def mean_of_means(logits, targets, at_least=0) -> Tensor:
    kept, losses = targets != -100, -_picked(logits.log_softmax(-1), targets)
    return ((losses * kept).sum(-1) / kept.sum(-1).clamp(min=at_least)).mean()


def mean_of_full_means(logits, targets) -> Tensor:
    kept, losses = targets != -100, -_picked(logits.log_softmax(-1), targets)
    return ((losses * kept).sum(-1) / kept.sum(-1).clamp(min=1))[kept.any(-1)].mean()


def one_maximum_for_all(logits, targets) -> Tensor:
    powers = torch.exp(logits - logits.max())
    return -_mean_of_kept(_picked(torch.log(powers / powers.sum(-1, keepdim=True)), targets), targets)


def one_maximum_in_a_logsumexp(logits, targets) -> Tensor:
    shifted = logits - logits.max()
    return -_mean_of_kept(_picked(shifted - torch.log(shifted.exp().sum(-1, keepdim=True)), targets), targets)


def _positions_apart(generator: Generator) -> Tensor:
    """(2, 3, 5): near 60 at one position, near −60 at the next: exponentials of both exist, but not beside each other."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]).view(2, 3, 1)
    return 60 * signs + torch.randn(2, 3, 5, generator=generator)


def without_maximum(logits, targets) -> Tensor:
    powers = torch.exp(logits)
    return -_mean(_picked(torch.log(powers / powers.sum(-1, keepdim=True)), targets), targets)


def _mean_of_kept(values, targets) -> Tensor:
    return values[targets != -100].mean()


def _limited(seen) -> bool:
    """Too small by as much as some limit on each term makes it, and by more than its dtype rounds."""
    logits, wanted = seen.args
    losses = -_picked(logits.double().log_softmax(-1), wanted)[wanted != -100]
    right, mine = losses.mean().item(), float(seen.output)
    noise = 4 * right * torch.finfo(torch.as_tensor(seen.output).dtype).eps
    return right - mine > noise and any(
        math.isclose(right - mine, right + torch.log(torch.exp(-losses) + 10.0**-power).mean().item(), rel_tol=0.05)
        for power in range(6, 31)
    )


copy_without_mask = Check(
    exercise="copy_without_mask",
    reference=targets.next_token_loss,
    cases=[
        explicit_case("lengths 4, 2, 5 of n = 5", random_logits(3, 5, 7), padded_targets((4, 2, 5), 5, 7)),
        explicit_case("no padding", random_logits(2, 4, 9, scale=2.0), padded_targets((4, 4), 4, 9)),
        explicit_case("logits in the hundreds", random_logits(2, 6, 5, scale=300.0), padded_targets((6, 1), 6, 5)),
        explicit_case("a sequence that is ignored altogether", random_logits(2, 3, 4), padded_targets((0, 3), 3, 4)),
        explicit_case("logits near 200", normal(2, 3, 5, mean=200.0), padded_targets((3, 2), 3, 5)),
        explicit_case("logits near 60, and near −60 at the next position", RandomArg(_positions_apart), padded_targets((3, 2), 3, 5)),
        explicit_case("token 0 among the targets", random_logits(1, 4, 6), torch.tensor([[0, 3, 0, -100]])),
        explicit_case("gradients, in float64", random_logits(2, 4, 6, dtype=torch.float64), padded_targets((3, 1), 4, 6), gradient=True),
    ],
    misconceptions=[
        Misconception(
            "divided by all positions, padding too", lambda logits, targets: -(
                _picked(logits.log_softmax(-1), targets) * (targets != -100)
            ).sum() / targets.numel(),
            "The ignored positions add nothing to the sum, and must not count in the mean either: the more padding, the smaller your loss.",
        ),
        Misconception(
            "padding taken for token 0", lambda logits, targets: -_picked(logits.log_softmax(-1), targets).mean(),
            "−100 is no token. After `clamp` it points at token 0, and the model is trained to say token 0 at padding.",
        ),
        Misconception(
            "the sum instead of the mean", lambda logits, targets: -(_picked(logits.log_softmax(-1), targets) * (targets != -100)).sum(),
            "A sum grows with the length of the texts and with the batch. Divide by the number of positions that count.",
        ),
        Misconception(
            "a mean of the sequences' means", mean_of_means,
            "That makes a token in a short sequence count more. Every position that isn't ignored has the same weight.",
        ),
        Misconception(
            "a mean of the sequences' means, an empty one as 0", lambda logits, targets: mean_of_means(logits, targets, at_least=1),
            "Each sequence counts as much as any other that way, and an empty one pulls the loss down. Every position that isn't ignored has the same weight: "
            "one sum over all, divided once.",
        ),
        Misconception(
            "a mean of the sequences' means, empty ones left out", mean_of_full_means,
            "You average within each sequence first, so a word of a short sequence counts for more than one of a long one. Every position that isn't ignored has "
            "the same weight: one sum over all, divided once.",
        ),
        Misconception(
            "one maximum for all positions", one_maximum_for_all,
            "Where all logits of a position lie hundreds below the largest of the whole batch, every exponential is 0, and 0/0 is NaN. Each position has its own "
            "maximum.",
        ),
        Misconception(
            "one maximum for all positions, in a logsumexp by hand", one_maximum_in_a_logsumexp,
            "Where all logits of a position lie hundreds below the largest of the whole batch, the sum of the exponentials is 0, and log 0 is −∞. Each position "
            "has its own maximum.",
        ),
        Misconception(
            "logits without a softmax", lambda logits, targets: -_mean(_picked(logits, targets), targets),
            "Logits are no log-probabilities yet. Subtract the logarithm of the sum of their exponentials: `log_softmax`.",
        ),
        Misconception(
            "the probability instead of its logarithm", lambda logits, targets: -_mean(_picked(logits.softmax(-1), targets), targets),
            "The loss is −log p. It grows without bound when the right token gets next to nothing.",
        ),
        Misconception(
            "softmax over the positions", lambda logits, targets: _loss_of_log_softmax(logits, targets, 1),
            "At each position the probabilities of all words sum to 1: the softmax runs along the vocabulary, the last axis.",
        ),
        Misconception(
            "no maximum is subtracted", without_maximum,
            "e^300 overflows, and log 0 is −∞. `log_softmax` (or `logsumexp`) subtracts the maximum first.",
        ),
        Misconception(
            "bits instead of nats", lambda logits, targets: _loss_of_log_softmax(logits, targets) / math.log(2),
            "This is the loss in base 2. PyTorch and the papers use the natural logarithm.",
        ),
        Misconception(
            "shifted once more", lambda logits, targets: _loss_of_log_softmax(logits[:, :-1], targets[:, 1:]),
            "The targets are shifted already (3.11). Shifted again, the model is asked for the word after the next.",
        ),
        Misconception(
            "the logarithm of a softmax", lambda logits, targets: -_mean_of_kept(torch.log(_picked(logits.softmax(-1), targets)), targets),
            "A very small probability is rounded to 0, and log 0 is −∞. `log_softmax` never makes the probability: it subtracts the logarithm of the sum.",
        ),
        Misconception(
            "the logarithm of a softmax, and −∞ times 0", lambda logits, targets: -_mean(torch.log(_picked(logits.softmax(-1), targets)), targets),
            "A very small probability is rounded to 0, and log 0 is −∞: at a position that should not count it is multiplied by 0, and −∞ · 0 is NaN. "
            "`log_softmax` never makes the probability.",
        ),
        Misconception(
            "a small number inside the logarithm", lambda logits, targets: -_mean_of_kept(torch.log(_picked(logits.softmax(-1), targets) + 1e-9), targets),
            "The small number limits the loss: log 10⁻⁹ is −20.7, so a confident mistake costs no more than that. `log_softmax` needs no such help.",
            _limited,
        ),
        Misconception(
            "token 0 ignored as well", lambda logits, targets: -_picked(logits.log_softmax(-1), targets)[targets > 0].mean(),
            "Token 0 is a word like any other. Nothing but −100 is ignored.",
        ),
        Misconception(
            "the most likely token instead of the target", lambda logits, targets: -_mean(logits.log_softmax(-1).amax(-1), targets),
            "The loss asks how likely the *target* was, not how likely the model's favourite is.",
        ),
        Misconception(
            "without the minus", lambda logits, targets: _mean(_picked(logits.log_softmax(-1), targets), targets),
            "A logarithm of a probability is negative. The loss is its opposite: it falls as the model gets better.",
        ),
        Misconception(
            "softmax over the sequences of the batch", lambda logits, targets: _loss_of_log_softmax(logits, targets, 0),
            "At each position the probabilities of all words sum to 1: the softmax runs along the vocabulary, `dim=-1`. (Without `dim`, `F.log_softmax` takes "
            "axis 0 of a tensor with three axes.)",
        ),
        Misconception(
            "the normaliser cut off from the gradient",
            lambda logits, targets: _mean(logits.detach().logsumexp(-1) - _picked(logits, targets), targets),
            "The number is right. But the logarithm of the sum depends on the logits too: detached, it leaves a gradient that raises the target and lowers no "
            "other word. Only a maximum that is subtracted may be detached.",
        ),
        in_single_precision(targets.next_token_loss),
        Misconception(
            "cut off from the gradient", lambda logits, targets: _loss_of_log_softmax(logits.detach(), targets),
            "The number is right, and nothing can be trained with it: `.item()`, `.detach()` or `float()` cuts it off from the logits that made it.",
            lambda seen: not any(gradient is not None for gradient in seen.gradients or ()),
        ),
    ],
    forbids=["cross_entropy", "nll_loss"],
)  # fmt: skip
