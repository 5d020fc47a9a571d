"""The check of `train`."""

from collections.abc import Callable
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.drivers import Stream
from helpers.engine.drivers import watch as observed
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import training as reference

__all__ = ["train"]


def lessons(
    label: str,
    count: int,
    weight_decay: float,
    clip: float,
    peak: float = 0.1,
    spare: int = 0,
    watched: bool = False,
    listed: bool = False,
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


def _loop(
    batches,
    rates,
    weight_decay,
    clip,
    model=None,
    watch=None,
    *,
    groups=None,
    optimiser=None,
    zero=True,
    clipping=nn.utils.clip_grad_norm_,
    rate=None,
    after=False,
    batch=None,
    betas=(0.9, 0.95),
    loss_of=F.cross_entropy,
    late_zero=False,
    every=False,
    held=None,
):
    """A right loop with one thing changed. held: a group (0: matrices, 1: vectors), and the step whose rate it always
    has; None: AdamW's own."""
    model = reference.small_model()
    parameters = (groups or reference.parameter_groups)(model, weight_decay)
    stepper = (optimiser or torch.optim.AdamW)(parameters, lr=rates[0], **({} if betas is None else {"betas": betas}))
    losses, taken = [], list(batches if every else islice(batches, len(rates)))
    for step, (inputs, targets) in enumerate(taken):
        inputs, targets = taken[batch] if batch is not None else (inputs, targets)
        for group in stepper.param_groups:
            group["lr"] = rate(step) if rate else rates[step]
        if held:
            stepper.param_groups[held[0]]["lr"] = 1e-3 if held[1] is None else rates[held[1]]
        loss = loss_of(model(inputs).flatten(0, 1), targets.flatten())
        if zero:
            stepper.zero_grad()
        loss.backward()
        if clipping:
            clipping(model.parameters(), clip)
        if late_zero:
            stepper.zero_grad()
        stepper.step()
        if after:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        if watch:
            watch(step, losses[-1])
    return losses


def _holding(group: int, step: int | None) -> Callable:
    """The loop in which a group always has the rate of one step."""
    return lambda *inputs: _loop(*inputs, held=(group, step))


def _mean_of_the_texts_means(logits, targets):
    """Of flattened texts: each has 7 places here."""
    texts = zip(logits.unflatten(0, (-1, 7)), targets.unflatten(0, (-1, 7)))
    return torch.stack([F.cross_entropy(*text) for text in texts]).mean()


def _all_decay(model, weight_decay):
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]


def _vectors_decay(model, weight_decay):
    matrices, vectors = reference.parameter_groups(model, weight_decay)
    return [matrices | {"weight_decay": 0.0}, vectors | {"weight_decay": weight_decay}]


def _only_the_head_decays(model, weight_decay):
    head = [model[2].weight]
    rest = [parameter for parameter in model.parameters() if parameter is not head[0]]
    return [{"params": head, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def _norms_decay(model, weight_decay):
    biases = [model[1].bias, model[2].bias]
    rest = [parameter for parameter in model.parameters() if all(parameter is not bias for bias in biases)]
    return [{"params": rest, "weight_decay": weight_decay}, {"params": biases, "weight_decay": 0.0}]


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


def _numbers(output, *_) -> bool:
    return not any(isinstance(loss, Tensor) for loss in output[0])


def _as_tensors(*inputs):
    return [torch.tensor(loss, dtype=torch.float64) for loss in _loop(*inputs)]


def _one_more_taken(batches, rates, *more):
    return _loop([batch for batch, _ in zip(batches, rates)], rates, *more)


def _all_taken(batches, *more):
    return _loop(list(batches), *more)


def _asked_for_the_next(batches, rates, *more):
    return _loop([next(batches) for _ in rates], rates, *more)


def _by_number(batches, rates, *more):
    return _loop([batches[step] for step in range(len(rates))], rates, *more)


def _watched(change):
    """Right, but `watch` is told something else: change(step, loss) gives what, or None for nothing."""

    def train(batches, rates, weight_decay, clip, model=None, watch=None):
        tell = lambda step, loss: change(step, loss) and watch(*change(step, loss))
        return _loop(batches, rates, weight_decay, clip, model, watch and tell)

    return train


train = Check(
    reference=reference.train,
    drive=drive_training,
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
        *(
            Misconception(
                f"only the rate of {alone} is set, that of {others} stays {words}",
                _holding(other, step),
                'The parameters are in two groups. Set the rate of both: `for group in optimiser.param_groups: group["lr"] = rate`.',
            )
            for alone, others, other in (("matrices", "vectors", 1), ("vectors", "matrices", 0))
            for words, step in (("AdamW's own, 0.001", None), ("the first one", 0))
        ),
        gradients_never_set_zero=lambda *inputs: _loop(*inputs, zero=False),
        weight_decay_on_norms_biases_too=lambda *inputs: _loop(*inputs, groups=_all_decay),
        no_weight_decay=lambda batches, rates, weight_decay, *more: _loop(batches, rates, 0.0, *more),
        weight_decay_on_vectors_instead=lambda *inputs: _loop(*inputs, groups=_vectors_decay),
        embedding_doesnt_decay=lambda *inputs: _loop(*inputs, groups=_only_the_head_decays),
        gain_norm_decays=lambda *inputs: _loop(*inputs, groups=_norms_decay),
        adam_with_weight_decay_gradient=lambda *inputs: _loop(*inputs, optimiser=torch.optim.Adam),
        plain_gradient_descent=lambda *inputs: _loop(*inputs, optimiser=torch.optim.SGD, betas=None),
        other_betas=lambda *inputs: _loop(*inputs, betas=None),
        no_clipping=lambda *inputs: _loop(*inputs, clipping=None),
        each_number_clipped_by_itself=lambda *inputs: _loop(*inputs, clipping=nn.utils.clip_grad_value_),
        each_tensor_clipped_by_itself=lambda *inputs: _loop(
            *inputs, clipping=lambda parameters, clip: [nn.utils.clip_grad_norm_([p], clip) for p in parameters]
        ),
        constant_rate=lambda batches, rates, *more: _loop(batches, rates, *more, rate=lambda step: rates[0]),
        rate_step_before=lambda batches, rates, *more: _loop(
            batches, rates, *more, rate=lambda step: rates[max(0, step - 1)]
        ),
        losses_taken_after_step=lambda *inputs: _loop(*inputs, after=True),
        same_batch_every_time=lambda *inputs: _loop(*inputs, batch=0),
        sum_over_positions_instead_mean=lambda *inputs: _loop(
            *inputs, loss_of=partial(F.cross_entropy, reduction="sum")
        ),
        targets_minus_100_counted_mean=lambda *inputs: _loop(
            *inputs, loss_of=lambda logits, targets: F.cross_entropy(logits, targets, reduction="none").mean()
        ),
        mean_texts_means=lambda *inputs: _loop(*inputs, loss_of=_mean_of_the_texts_means),
        minus_100_replaced_by_token_0=lambda *inputs: _loop(
            *inputs, loss_of=lambda logits, targets: F.cross_entropy(logits, targets.clamp(min=0))
        ),
        clipped_at_1_whatever_clip=lambda *inputs: _loop(
            *inputs, clipping=lambda parameters, _: nn.utils.clip_grad_norm_(parameters, 1.0)
        ),
        weight_decay_0_1_whatever_asked=lambda batches, rates, weight_decay, *more: _loop(batches, rates, 0.1, *more),
        rate_set_after_step_adamws_own_first=lambda batches, rates, *more: _loop(
            batches, rates, *more, rate=lambda step: rates[step - 1] if step else 1e-3
        ),
        gradients_cleared_before_step=lambda *inputs: _loop(*inputs, late_zero=True),
        watch_never_called=_watched(lambda step, loss: None),
        watch_told_steps_from_1=_watched(lambda step, loss: (step + 1, loss)),
        losses_kept_as_tensors=Wrong(
            _as_tensors, recognise=lambda seen: any(isinstance(loss, Tensor) for loss in seen.output[0])
        ),
        one_batch_more_than_rates_taken=_one_more_taken,
        all_batches_taken_first=_all_taken,
        list_asked_next=Wrong(_asked_for_the_next, raises="TypeError"),
        batches_asked_by_their_numbers=Wrong(_by_number, raises="TypeError"),
        step_every_batch=Wrong(lambda *inputs: _loop(*inputs, every=True), raises="IndexError"),
    ),
)
