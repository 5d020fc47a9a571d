"""The check of `copy_without_mask`: the mean loss of the next token, padding apart."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..targets import next_token_loss as reference

__all__ = ["copy_without_mask"]


def random_logits(b: int, n: int, vocabulary: int, scale: float = 1.0, dtype=torch.float32) -> RandomArg:
    def draw(generator: Generator) -> Tensor:
        return (scale * torch.randn(b, n, vocabulary, generator=generator, dtype=torch.float64)).to(dtype)

    return RandomArg(draw)


def padded_targets(lengths: tuple[int, ...], n: int, vocabulary: int) -> RandomArg:
    def draw(generator: Generator) -> Tensor:
        drawn = torch.randint(vocabulary, (len(lengths), n), generator=generator)
        return drawn.masked_fill(torch.arange(n) >= torch.tensor(lengths)[:, None], -100)

    return RandomArg(draw)


def _log_softmax(logits) -> Tensor:
    return logits.log_softmax(-1)


def _picked(values, targets) -> Tensor:
    return values.gather(-1, targets.clamp_min(0)[..., None])[..., 0]


def mean(values, targets) -> Tensor:
    kept = targets != -100
    return (values * kept).sum() / kept.sum()


def mean_of_kept(values, targets) -> Tensor:
    return values[targets != -100].mean()


def mean_of_means(values, targets, at_least=0) -> Tensor:
    kept = targets != -100
    return ((values * kept).sum(-1) / kept.sum(-1).clamp(min=at_least)).mean()


def mean_of_full_means(values, targets) -> Tensor:
    kept = targets != -100
    return ((values * kept).sum(-1) / kept.sum(-1).clamp(min=1))[kept.any(-1)].mean()


@composable
def loss(
    values: Callable = _log_softmax, over: Callable = mean, of: Callable = lambda picked: picked
) -> Callable[..., Tensor]:
    """The loss with other values of all tokens, another mean of positions, or a function `of` the targets' values."""
    return lambda logits, targets: -over(of(_picked(values(logits), targets)), targets)


def shares(largest: Callable) -> Callable[..., Tensor]:
    def logarithm(logits) -> Tensor:
        powers = torch.exp(logits - largest(logits))
        return torch.log(powers / powers.sum(-1, keepdim=True))

    return logarithm


def logsumexp_by_hand(logits) -> Tensor:
    shifted = logits - logits.max()
    return shifted - torch.log(shifted.exp().sum(-1, keepdim=True))


def _positions_apart(generator: Generator) -> Tensor:
    """(2, 3, 5): near 60 at one position, near −60 at the next: both exponentials exist, but not beside each other."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]).view(2, 3, 1)
    return 60 * signs + torch.randn(2, 3, 5, generator=generator)


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
    reference=reference,
    cases=[
        explicit_case("lengths 4, 2, 5 of n = 5", random_logits(3, 5, 7), padded_targets((4, 2, 5), 5, 7)),
        explicit_case("no padding", random_logits(2, 4, 9, scale=2.0), padded_targets((4, 4), 4, 9)),
        explicit_case("logits in the hundreds", random_logits(2, 6, 5, scale=300.0), padded_targets((6, 1), 6, 5)),
        explicit_case("a sequence that is ignored altogether", random_logits(2, 3, 4), padded_targets((0, 3), 3, 4)),
        explicit_case("logits near 200", normal(2, 3, 5, mean=200.0), padded_targets((3, 2), 3, 5)),
        explicit_case(
            "logits near 60, and near −60 at the next position",
            *(RandomArg(_positions_apart), padded_targets((3, 2), 3, 5)),
        ),
        explicit_case("token 0 among the targets", random_logits(1, 4, 6), torch.tensor([[0, 3, 0, -100]])),
        explicit_case(
            "gradients, in float64",
            *(random_logits(2, 4, 6, dtype=torch.float64), padded_targets((3, 1), 4, 6)),
            gradient=True,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference),
        by_all_positions=loss(over=lambda values, targets: (values * (targets != -100)).sum() / targets.numel()),
        padding_as_0=loss(over=lambda values, targets: values.mean()),
        summed=loss(over=lambda values, targets: (values * (targets != -100)).sum()),
        mean_of_means=loss(over=mean_of_means),
        mean_of_means_with_0=loss(over=lambda values, targets: mean_of_means(values, targets, at_least=1)),
        mean_of_full_means=loss(over=mean_of_full_means),
        one_maximum=loss(shares(torch.max), mean_of_kept),
        one_maximum_logsumexp=loss(logsumexp_by_hand, mean_of_kept),
        no_softmax=loss(lambda logits: logits),
        one_minus_probability=loss(lambda logits: logits.softmax(-1), of=lambda picked: picked - 1),
        probability=loss(lambda logits: logits.softmax(-1)),
        error_rate=lambda logits, targets: (logits.argmax(-1) != targets)[targets != -100].double().mean(),
        entropy=lambda logits, targets: -(_log_softmax(logits) * logits.softmax(-1)).sum(-1)[targets != -100].mean(),
        over_positions=loss(lambda logits: logits.log_softmax(1)),
        no_maximum=loss(shares(lambda logits: 0.0)),
        bits=loss(lambda logits: _log_softmax(logits) / math.log(2)),
        shifted_again=lambda logits, targets: loss()(logits[:, :-1], targets[:, 1:]),
        log_of_softmax=loss(lambda logits: logits.softmax(-1), mean_of_kept, torch.log),
        log_of_softmax_times_0=loss(lambda logits: logits.softmax(-1), of=torch.log),
        small_number=Wrong(
            loss(lambda logits: logits.softmax(-1), mean_of_kept, lambda picked: torch.log(picked + 1e-9)),
            recognise=_limited,
        ),
        token_0_ignored=loss(over=lambda values, targets: values[targets > 0].mean()),
        most_likely=lambda logits, targets: -mean(_log_softmax(logits).amax(-1), targets),
        no_minus=loss(of=lambda picked: -picked),
        over_sequences=loss(lambda logits: logits.log_softmax(0)),
        normaliser_cut_off=loss(lambda logits: logits - logits.detach().logsumexp(-1, keepdim=True)),
        cut_off=Wrong(
            loss(lambda logits: _log_softmax(logits.detach())),
            recognise=lambda seen: not any(gradient is not None for gradient in seen.gradients or ()),
        ),
    ),
    forbids=["cross_entropy", "nll_loss"],
)
