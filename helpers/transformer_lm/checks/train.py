"""The check of `train`."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.drivers import Stream
from helpers.engine.drivers import watch as observed
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import training as reference

__all__ = ["train"]


def lessons(
    label: str, count: int, weight_decay: float, clip: float, peak=0.1, spare=0, watched=False, listed=False
) -> Case:
    """Batches in which token t is mostly followed by 3t + 1 (mod 11); every fifth is all wrong, so its gradient is
    long.

    spare: batches that have no rate, and so no step. watched: whether `watch` is given. listed: the batches come as a
    list, of which one can't ask for the next, as one can of a stream."""

    def batches(generator: Generator) -> list[tuple[Tensor, Tensor]]:
        found = []
        for step in range(count + spare):
            inputs = torch.randint(11, (6, 7), generator=generator)
            targets = (3 * inputs + 1) % 11 if step % 5 else torch.randint(11, (6, 7), generator=generator)
            padding = torch.arange(7) >= torch.randint(3, 8, (6, 1), generator=generator)
            found.append((inputs, targets.masked_fill(padding, -100)))
        return found

    rates = [peak * min(1.0, (step + 1) / 4) * (1 - 0.9 * step / count) for step in range(count)]
    return explicit_case(label, RandomArg(batches), rates, weight_decay, clip, watched, listed)


def clipped_together(parameters, clip):
    nn.utils.clip_grad_norm_(parameters, clip)


def mean_loss(logits, targets):
    return F.cross_entropy(logits, targets)


@dataclass(frozen=True)
class Loop:
    """The steps of a training."""

    taken: Callable = lambda batches, rates: list(islice(batches, len(rates)))
    batch: Callable = lambda taken, step: taken[step]
    decay: Callable = lambda weight_decay: weight_decay
    groups: Callable = reference.parameter_groups
    optimiser: Callable = lambda groups, rate: torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))
    rate: Callable = lambda rates, step: rates[step]
    held: Callable = lambda groups, rates: None  # what becomes of the groups' rates then
    loss: Callable = mean_loss
    cleared: bool = True
    clipped: Callable = clipped_together
    cleared_late: bool = False
    measured_late: bool = False
    told: Callable = lambda watch, step, loss: watch(step, loss)
    kept: Callable = lambda losses: losses


@composable
def loop(**changed) -> Callable:
    """A training with these steps changed."""
    steps = Loop(**changed)

    def train(batches, rates, weight_decay, clip, model=None, watch=None):
        model = reference.small_model()
        stepper = steps.optimiser(steps.groups(model, steps.decay(weight_decay)), rates[0])
        losses, taken = [], steps.taken(batches, rates)
        for step in range(len(taken)):
            inputs, targets = steps.batch(taken, step)
            for group in stepper.param_groups:
                group["lr"] = steps.rate(rates, step)
            steps.held(stepper.param_groups, rates)
            loss = steps.loss(model(inputs).flatten(0, 1), targets.flatten())
            if steps.cleared:
                stepper.zero_grad()
            loss.backward()
            steps.clipped(model.parameters(), clip)
            if steps.cleared_late:
                stepper.zero_grad()
            stepper.step()
            if steps.measured_late:
                loss = mean_loss(model(inputs).flatten(0, 1), targets.flatten())
            losses.append(loss.item())
            if watch:
                steps.told(watch, step, losses[-1])
        return steps.kept(losses)

    return train


def one_held(group: int, rate_of: Callable) -> Callable:
    """A group of parameters (0: matrices, 1: vectors) that always has one rate."""

    def held(groups, rates):
        groups[group]["lr"] = rate_of(rates)

    return loop(held=held)


def mean_of_means(logits, targets):
    """Of flattened texts: each has 7 places here."""
    texts = zip(logits.unflatten(0, (-1, 7)), targets.unflatten(0, (-1, 7)))
    return torch.stack([F.cross_entropy(*text) for text in texts]).mean()


def all_decay(model, weight_decay):
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]


def vectors_decay(model, weight_decay):
    matrices, vectors = reference.parameter_groups(model, weight_decay)
    return [matrices | {"weight_decay": 0.0}, vectors | {"weight_decay": weight_decay}]


def apart(model, some, their_decay, decay):
    rest = [parameter for parameter in model.parameters() if all(parameter is not one for one in some)]
    return [{"params": some, "weight_decay": their_decay}, {"params": rest, "weight_decay": decay}]


def head_decays(model, weight_decay):
    return apart(model, [model[2].weight], weight_decay, 0.0)


def all_but_biases_decay(model, weight_decay):
    return apart(model, [model[1].bias, model[2].bias], 0.0, weight_decay)


def drive_training(
    answer: Callable, batches: list, rates: list, weight_decay: float, clip: float, watched: bool, listed: bool
) -> tuple:
    """The losses, what `watch` was told of them, if there is one, and how many batches were taken: there are more, as
    in an endless stream. Of a list nobody counts, and it is seen whether its batches are as they were."""
    told, stream = [], Stream(batches)
    watch = (lambda step, loss: told.append((int(step), float(loss)))) if watched else None
    seen = observed(answer, batches if listed else stream, rates, weight_decay, clip, None, watch)
    kept = "batches changed in place" if seen.modified else "batches as they were"
    return seen.output, told, f"batches taken: {stream.taken}", kept


def _reached(output, batches, rates, *_) -> bool:
    """Only the longest run without much decay has a loss to reach."""
    return len(rates) < 60 or sum(output[0][-4:]) / 4 < 0.25


def _numbers(output, batches, rates, weight_decay, clip, watched, listed) -> bool:
    """Asked for once: who forgets `.item()` has trained all the same."""
    return not watched or not any(isinstance(loss, Tensor) for loss in output[0])


train = Check(
    reference=reference.train,
    drive=drive_training,
    names=("the list of losses", "what `watch` was told", "the number of batches taken", "what was given"),
    counts=False,
    cases=[
        lessons("6 steps, and 3 batches more than rates", 6, 0.0, 100.0, spare=3),
        lessons("12 steps, strong weight decay", 12, 3.0, 100.0),
        lessons("15 steps, gradients of length 0.2 at most, batches in a list", 15, 0.1, 0.2, listed=True),
        lessons("5 steps, with `watch`", 5, 0.1, 1.0, watched=True),
        lessons("60 steps from a fixed start: their losses", 60, 0.01, 1.0),
    ],
    properties=[
        Property(
            "60 steps reach a loss below 0.25",
            _reached,
            "After 60 steps the mean of the last four losses should be below 0.25 nats.",
        ),
        Property(
            "losses are plain numbers",
            _numbers,
            "The losses are right, but they come as tensors: numbers are asked for.",
        ),
    ],
    within=(2e-4, 1e-6),
    misconceptions=wrong_answers(
        __file__,
        vectors_at_adamws_own=one_held(1, lambda rates: 1e-3),
        vectors_at_the_first=one_held(1, lambda rates: rates[0]),
        matrices_at_adamws_own=one_held(0, lambda rates: 1e-3),
        matrices_at_the_first=one_held(0, lambda rates: rates[0]),
        never_cleared=loop(cleared=False),
        all_decay=loop(groups=all_decay),
        no_decay=loop(decay=lambda weight_decay: 0.0),
        vectors_decay=loop(groups=vectors_decay),
        head_decays=loop(groups=head_decays),
        gain_decays=loop(groups=all_but_biases_decay),
        adam=loop(optimiser=lambda groups, rate: torch.optim.Adam(groups, lr=rate, betas=(0.9, 0.95))),
        gradient_descent=loop(optimiser=lambda groups, rate: torch.optim.SGD(groups, lr=rate)),
        other_betas=loop(optimiser=lambda groups, rate: torch.optim.AdamW(groups, lr=rate)),
        not_clipped=loop(clipped=lambda parameters, clip: None),
        numbers_clipped=loop(clipped=lambda parameters, clip: nn.utils.clip_grad_value_(parameters, clip)),
        tensors_clipped=loop(
            clipped=lambda parameters, clip: [nn.utils.clip_grad_norm_([one], clip) for one in parameters]
        ),
        clipped_at_1=loop(clipped=lambda parameters, clip: nn.utils.clip_grad_norm_(parameters, 1.0)),
        constant_rate=loop(rate=lambda rates, step: rates[0]),
        rate_before=loop(rate=lambda rates, step: rates[max(0, step - 1)]),
        rate_set_late=loop(rate=lambda rates, step: rates[step - 1] if step else 1e-3),
        measured_late=loop(measured_late=True),
        same_batch=loop(batch=lambda taken, step: taken[0]),
        sum_of_losses=loop(loss=lambda logits, targets: F.cross_entropy(logits, targets, reduction="sum")),
        padding_in_the_mean=loop(
            loss=lambda logits, targets: F.cross_entropy(logits, targets, reduction="none").mean()
        ),
        mean_of_means=loop(loss=mean_of_means),
        padding_as_token_0=loop(loss=lambda logits, targets: F.cross_entropy(logits, targets.clamp(min=0))),
        decay_of_a_tenth=loop(decay=lambda weight_decay: 0.1),
        cleared_late=loop(cleared_late=True),
        watch_not_called=loop(told=lambda watch, step, loss: None),
        watch_from_1=loop(told=lambda watch, step, loss: watch(step + 1, loss)),
        tensors=Wrong(
            loop(kept=lambda losses: [torch.tensor(loss, dtype=torch.float64) for loss in losses]),
            recognise=lambda seen: any(isinstance(loss, Tensor) for loss in seen.output[0]),
        ),
        one_batch_more=loop(taken=lambda batches, rates: [batch for batch, _ in zip(batches, rates)]),
        all_batches_taken=loop(taken=lambda batches, rates: list(batches)[: len(rates)]),
        next_of_a_list=Wrong(loop(taken=lambda batches, rates: [next(batches) for _ in rates]), raises="TypeError"),
        by_number=Wrong(
            loop(taken=lambda batches, rates: [batches[step] for step in range(len(rates))]), raises="TypeError"
        ),
        step_for_every_batch=Wrong(loop(taken=lambda batches, rates: list(batches)), raises="IndexError"),
    ),
)
