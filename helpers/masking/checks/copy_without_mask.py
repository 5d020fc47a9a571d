"""The check of `copy_without_mask`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import targets

__all__ = ["copy_without_mask"]


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
        explicit_case(
            "logits near 60, and near −60 at the next position",
            RandomArg(_positions_apart),
            padded_targets((3, 2), 3, 5),
        ),
        explicit_case("token 0 among the targets", random_logits(1, 4, 6), torch.tensor([[0, 3, 0, -100]])),
        explicit_case(
            "gradients, in float64",
            random_logits(2, 4, 6, dtype=torch.float64),
            padded_targets((3, 1), 4, 6),
            gradient=True,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(targets.next_token_loss),
        divided_by_all_positions_padding_too=lambda logits, targets: (
            -(_picked(logits.log_softmax(-1), targets) * (targets != -100)).sum() / targets.numel()
        ),
        padding_taken_token_0=lambda logits, targets: -_picked(logits.log_softmax(-1), targets).mean(),
        sum_instead_mean=lambda logits, targets: -(_picked(logits.log_softmax(-1), targets) * (targets != -100)).sum(),
        mean_sequences_means=mean_of_means,
        mean_sequences_means_empty_one_as_0=lambda logits, targets: mean_of_means(logits, targets, at_least=1),
        mean_sequences_means_empty_ones_left=mean_of_full_means,
        one_maximum_all_positions=one_maximum_for_all,
        one_maximum_all_positions_logsumexp_by=one_maximum_in_a_logsumexp,
        logits_without_softmax=lambda logits, targets: -_mean(_picked(logits, targets), targets),
        probability_instead_logarithm=lambda logits, targets: -_mean(_picked(logits.softmax(-1), targets), targets),
        softmax_over_positions=lambda logits, targets: _loss_of_log_softmax(logits, targets, 1),
        no_maximum_subtracted=without_maximum,
        bits_instead_nats=lambda logits, targets: _loss_of_log_softmax(logits, targets) / math.log(2),
        shifted_once_more=lambda logits, targets: _loss_of_log_softmax(logits[:, :-1], targets[:, 1:]),
        logarithm_softmax=lambda logits, targets: (
            -_mean_of_kept(torch.log(_picked(logits.softmax(-1), targets)), targets)
        ),
        logarithm_softmax_minus_times_0=lambda logits, targets: (
            -_mean(torch.log(_picked(logits.softmax(-1), targets)), targets)
        ),
        small_number_inside_logarithm=Wrong(
            lambda logits, targets: -_mean_of_kept(torch.log(_picked(logits.softmax(-1), targets) + 1e-9), targets),
            recognise=_limited,
        ),
        token_0_ignored_as_well=lambda logits, targets: -_picked(logits.log_softmax(-1), targets)[targets > 0].mean(),
        most_likely_token_instead_target=lambda logits, targets: -_mean(logits.log_softmax(-1).amax(-1), targets),
        without_minus=lambda logits, targets: _mean(_picked(logits.log_softmax(-1), targets), targets),
        softmax_over_sequences_batch=lambda logits, targets: _loss_of_log_softmax(logits, targets, 0),
        normaliser_cut_off_from_gradient=lambda logits, targets: _mean(
            logits.detach().logsumexp(-1) - _picked(logits, targets), targets
        ),
        cut_off_from_gradient=Wrong(
            lambda logits, targets: _loss_of_log_softmax(logits.detach(), targets),
            recognise=lambda seen: not any(gradient is not None for gradient in seen.gradients or ()),
        ),
    ),
    forbids=["cross_entropy", "nll_loss"],
)
