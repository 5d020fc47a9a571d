"""Checks of training: the loss of the next token, the learning rate over time, and the loop."""

import math
from collections.abc import Callable
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.compare import TOLERANCE, agree
from helpers.engine.drivers import Stream
from helpers.engine.drivers import watch as observed

from .. import training as reference

__all__ = ["learning_rate", "next_token_loss", "train"]

# --------------------------------------------------------------------------------------------------------------- loss


def padded_texts(label: str, n: int, v: int, *lengths: int, scale: float = 1.0, dtype=torch.float32, **limits) -> Case:
    """Random tokens everywhere: nothing but `lengths` says what is padding."""
    b = len(lengths)
    logits = RandomArg(lambda g: (scale * torch.randn(b, n, v, generator=g, dtype=torch.float64)).to(dtype))
    tokens = RandomArg(lambda g: torch.randint(v, (b, n), generator=g))
    return explicit_case(label, logits, tokens, torch.tensor(lengths), **limits)


def _surprise(logits, tokens, axis=-1):
    """−log p of tokens (b, n) under logits (b, n, v)."""
    return -logits.log_softmax(axis).gather(-1, tokens[..., None])[..., 0]


def _real(tokens, lengths, more=0):
    return torch.arange(1, tokens.shape[1]) < (lengths + more)[:, None]


def _pairs(logits, tokens, axis=-1):
    return _surprise(logits[:, :-1], tokens[:, 1:], axis)


def _unshifted(logits, tokens, lengths):
    return _surprise(logits, tokens)[torch.arange(tokens.shape[1]) < lengths[:, None]].mean()


def _shifted_back(logits, tokens, lengths):
    return _surprise(logits[:, 1:], tokens[:, :-1])[_real(tokens, lengths)].mean()


def _two_ahead(logits, tokens, lengths):
    return _surprise(logits[:, :-2], tokens[:, 2:])[torch.arange(2, tokens.shape[1]) < lengths[:, None]].mean()


def _rolled(logits, tokens, lengths):
    return _surprise(logits, tokens.roll(-1, dims=1))[torch.arange(tokens.shape[1]) < lengths[:, None]].mean()


def _mean_of_means(logits, tokens, lengths):
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return ((losses * real).sum(1) / real.sum(1)).mean()


def _mean_with_zeros(logits, tokens, lengths):
    """As `_mean_of_means`, where a text without targets counts as 0."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return ((losses * real).sum(1) / real.sum(1).clamp(min=1)).mean()


def _mean_of_means_of_some(logits, tokens, lengths):
    """As `_mean_of_means`, where a text without targets is left out."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return torch.stack([row[kept].mean() for row, kept in zip(losses, real) if kept.any()]).mean()


def _weighted_means(logits, tokens, lengths):
    """Right but for a text of one token, whose mean is that of no numbers at all."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return sum(row[kept].mean() * kept.sum() for row, kept in zip(losses, real)) / real.sum()


def _zero_as_padding(logits, tokens, lengths):
    """Padding is written as 0, and then all that is 0 is left out: real tokens with the number 0 too."""
    targets = tokens[:, 1:].masked_fill(~_real(tokens, lengths), 0)
    return _pairs(logits, tokens)[targets != 0].mean()


def _log_kept_finite(logits, tokens, lengths, least=1e-9, add=torch.add):
    """Probabilities that no logarithm makes infinite: a small number is added, or (torch.clamp) is the least."""
    p = logits[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return -add(p, least)[_real(tokens, lengths)].log().mean()


def _bounded(seen) -> bool:
    """Whether a loss is what comes of a small number at the probabilities, whatever its size."""
    smallest = [10.0**-digits for digits in range(4, 38)]
    within = TOLERANCE[seen.args[0].dtype]
    return any(
        agree(seen.output, _log_kept_finite(*seen.args, least, add), within)
        for least in smallest
        for add in (torch.add, torch.clamp)
    )


next_token_loss = Check(
    reference=reference.next_token_loss,
    cases=[
        padded_texts("lengths 4, 2, 5 of n = 7", 7, 9, 4, 2, 5),
        padded_texts("no padding, n = 5", 5, 7, 5, 5),
        padded_texts("lengths 8, 3 of n = 8", 8, 4, 8, 3),
        padded_texts("a text of one token: lengths 1, 6, 3", 6, 8, 1, 6, 3, gradient=True),
        padded_texts("one text alone", 6, 5, 4),
        padded_texts("logits in the hundreds", 7, 5, 7, 4, scale=300.0),
        padded_texts("gradients, in float64", 5, 6, 5, 3, dtype=torch.float64, gradient=True),
    ],
    misconceptions=[
        Misconception(
            "targets not shifted", _unshifted,
            "Your model is asked at position i for token i, which it has just read. Its target is token i + 1.",
        ),
        Misconception(
            "shifted the wrong way", _shifted_back,
            "At position i your target is token i − 1: remembering, not predicting. Pair logits[:, :-1] with tokens[:, 1:].",
        ),
        Misconception(
            "shifted twice", _two_ahead, "Your target is the token after the next one. One step is enough.",
        ),
        Misconception(
            "rolled round", _rolled,
            "`roll` brings the first token (or a padding token) to the end, and the last real position is asked for it. The last token has no next one: leave that position out.",
        ),
        Misconception(
            "padding counts as text", lambda logits, tokens, lengths: _pairs(logits, tokens).mean(),
            "`lengths` is never used. Positions whose target is padding must not be in the mean.",
        ),
        Misconception(
            "divided by all positions, padding too",
            lambda logits, tokens, lengths: (_pairs(logits, tokens) * _real(tokens, lengths)).sum() / tokens[:, 1:].numel(),
            "Padding adds nothing to your sum, but it counts in the mean: the more padding, the smaller your loss.",
        ),
        Misconception(
            "the first padding token is a target", lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths, 1)].mean(),
            "The last real token has index length − 1. It is the last target.",
        ),
        Misconception(
            "the last real token is no target", lambda logits, tokens, lengths: (
                lambda kept: (_pairs(logits, tokens) * kept).sum() / kept.sum())(_real(tokens, lengths, -1)),
            "Token length − 1 is real, and it is predicted at position length − 2. Yours stops one too early.",
        ),
        Misconception(
            "a mean of the rows' means", _mean_of_means,
            "That gives a token in a short text more weight. Every prediction counts the same.",
            lambda seen: agree(seen.output, _mean_with_zeros(*seen.args), TOLERANCE[seen.args[0].dtype]),
        ),
        Misconception(
            "a mean of the rows' means, of rows with targets", _mean_of_means_of_some,
            "That gives a token in a short text more weight. Every prediction counts the same: add up all losses, and divide once by their number.",
        ),
        Misconception(
            "the mean of no numbers", _weighted_means,
            "A text of one token has no target, and the mean of no numbers is NaN. Add up the losses of all texts, and divide once at the end.",
        ),
        Misconception(
            "the sum instead of the mean", lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths)].sum(),
            "A sum grows with batch and length. Divide by the number of predictions.",
        ),
        Misconception(
            "softmax over the positions", lambda logits, tokens, lengths: _pairs(logits, tokens, axis=1)[_real(tokens, lengths)].mean(),
            "The probabilities of all *words* sum to 1 at each position: the last axis.",
        ),
        Misconception(
            "bits instead of nats", lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths)].mean() / math.log(2),
            "This is the loss in base 2. Use the natural logarithm, as PyTorch does.",
        ),
        Misconception(
            "the sign forgotten", lambda logits, tokens, lengths: -_pairs(logits, tokens)[_real(tokens, lengths)].mean(),
            "log p is negative. The loss is −log p: less is better.",
        ),
        Misconception(
            "perplexity", lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths)].mean().exp(),
            "exp(loss) is the perplexity. Return the loss itself.",
        ),
        Misconception(
            "the logarithm of a softmax", lambda logits, tokens, lengths: -logits[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)].log().mean(),
            "Where the scores lie far apart a probability is rounded to 0, and its logarithm is −∞. `log_softmax` (or `F.cross_entropy`) computes the logarithm without the probability.",
        ),
        Misconception(
            "a small number at the probabilities", _log_kept_finite,
            "A small number beside the softmax (`+ 1e-9`, `clamp`) keeps its logarithm finite, but then a very unlikely target never costs more than −log of that number, and hardly has a gradient. "
            "`log_softmax` (or `F.cross_entropy`) computes the logarithm without the probability.",
            _bounded,
        ),
        Misconception(
            "token 0 taken for padding", _zero_as_padding,
            "Padding is told by `lengths` alone. A real token may have the number 0, like any other.",
        ),
        Misconception(
            "padding told by token 0, not by the lengths",
            lambda logits, tokens, lengths: _pairs(logits, tokens)[tokens[:, 1:] != 0].mean(),
            "Padding is told by `lengths` alone. Token 0 may be a word like any other, and padding may hold any number.",
        ),
        Misconception(
            "the longest length for all texts", lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths.max().expand_as(lengths))].mean(),
            "Each text has a length of its own: compare positions with `lengths[:, None]`.",
        ),
        in_single_precision(reference.next_token_loss),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- learning rate


def _cosine(progress, peak, floor):
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def _rate(step, steps, warm_up, peak, floor, *, early=None, late=None):
    """early(step), late(progress): what is changed."""
    if step < warm_up:
        return early(step) if early else peak * (step + 1) / warm_up
    progress = (step - warm_up) / (steps - warm_up)
    return late(progress) if late else _cosine(progress, peak, floor)


def rate_at(step: int, steps: int = 100, warm_up: int = 10, peak: float = 0.02, floor: float = 0.004) -> Case:
    return explicit_case(f"step {step} of {steps}, {warm_up} to warm up", step, steps, warm_up, peak, floor)


learning_rate = Check(
    reference=reference.learning_rate,
    cases=[
        *(rate_at(step) for step in (0, 4, 9, 10, 37, 55, 99)), rate_at(0, 30, 0), rate_at(17, 30, 0), rate_at(5, 50, 20, 0.3, 0.0),
        rate_at(48, 50, 20, 0.3, 0.0), rate_at(3, 6, 6),
    ],
    within=(1e-6, 1e-12),
    misconceptions=[
        Misconception(
            "the warm-up starts at 0", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, early=lambda s: peak * s / warm_up),
            "At step 0 your rate is 0: a step that does nothing. Count step + 1.",
        ),
        Misconception(
            "a warm-up of one step at least", lambda step, steps, warm_up, peak, floor: _rate(step, steps, max(warm_up, 1), peak, floor),
            "With W = 0 the cosine begins at step 0. `max(warm_up, 1)` guards a division that is never reached then, and moves the cosine by a step.",
        ),
        Misconception(
            "no warm-up", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, early=lambda s: peak),
            "In the first warm_up steps the rate grows in equal parts, from peak/warm_up to peak.",
        ),
        Misconception(
            "the warm-up starts from the floor",
            lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, early=lambda s: floor + (peak - floor) * (s + 1) / warm_up),
            "The floor is where the decay ends. The warm-up is a plain fraction of the peak.",
        ),
        Misconception(
            "never below the floor, not even in the warm-up", lambda step, steps, warm_up, peak, floor: max(floor, _rate(step, steps, warm_up, peak, floor)),
            "The floor belongs to the cosine. The warm-up starts at peak/W, which may be smaller: no `max` around it.",
        ),
        Misconception(
            "no decay", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: peak),
            "After the warm-up the rate falls along half a cosine.",
        ),
        Misconception(
            "a straight line down", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: peak + (floor - peak) * p),
            "That is linear decay. The cosine starts flat, falls, and ends flat.",
        ),
        Misconception(
            "down to 0, not to the floor", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(p, peak, 0.0)),
            "The cosine runs between peak and floor.",
        ),
        Misconception(
            "the floor added on top", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: floor + _cosine(p, peak, 0.0)),
            "Then the rate starts at peak + floor. What the cosine scales is the *difference* peak − floor.",
        ),
        Misconception(
            "a whole cosine", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(2 * p, peak, floor)),
            "A whole period comes back up. Half of one, π, goes from peak to floor.",
        ),
        Misconception(
            "a quarter of a cosine",
            lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: floor + (peak - floor) * math.cos(math.pi * p / 2)),
            "cos from 0 to π/2 falls fastest at the end. ½(1 + cos πp) ends flat.",
        ),
        Misconception(
            "the decay counted from step 0",
            lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(step / steps, peak, floor)),
            "The cosine begins where the warm-up ends: progress is (step − warm_up) / (steps − warm_up).",
        ),
        Misconception(
            "the sign of the cosine turned", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(1 - p, peak, floor)),
            "Yours rises from floor to peak.",
        ),
        Misconception(
            "the warm-up is one step too long", lambda step, steps, warm_up, peak, floor: (
                peak * (step + 1) / warm_up if step <= warm_up else _cosine((step - warm_up) / (steps - warm_up), peak, floor)),
            "Step W is the first of the cosine: the warm-up has the steps *below* W. With ≤ it goes beyond the peak, and W = 0 divides by zero.",
            raises="ZeroDivisionError",
        ),
        Misconception(
            "the decay computed in the warm-up too", lambda step, steps, warm_up, peak, floor: (
                _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(p, peak, floor)) + 0 * (1 / (steps - warm_up))),
            "p is needed only after the warm-up. Where all steps are warm-up, S − W is 0: compute it after the `if`.",
            raises="ZeroDivisionError",
        ),
        Misconception(
            "the floor reached at the last step",
            lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine((step - warm_up) / max(1, steps - warm_up - 1), peak, floor)),
            "In p the divisor is S − W, so the last step still lies a little above the floor. (With S − W − 1 it would end exactly there.)",
        ),
        Misconception(
            "the peak one step after the warm-up", lambda step, steps, warm_up, peak, floor: _rate(step, steps, warm_up, peak, floor, early=lambda s: peak * (s + 1) / (warm_up + 1)),
            "The warm-up has W equal parts, and its last step, W − 1, has the peak.",
        ),
    ],
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- loop


def lessons(
    label: str, count: int, weight_decay: float, clip: float, peak: float = 0.1, spare: int = 0, watched: bool = False,
    listed: bool = False,
) -> Case:  # fmt: skip
    """Batches in which token t is mostly followed by 3t + 1 (mod 11); every fifth is all wrong, so its gradient is long.

    spare: batches that have no rate, and so no step. watched: whether `watch` is given. listed: the batches come as a list, of which
    one can't ask for the next, as one can of a stream."""

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


def _loop(batches, rates, weight_decay, clip, model=None, watch=None, *, groups=None, optimiser=None, zero=True, clipping=nn.utils.clip_grad_norm_,
          rate=None, after=False, batch=None, betas=(0.9, 0.95), loss_of=F.cross_entropy, late_zero=False, every=False,
          held=None):  # fmt: skip
    """A right loop with one thing changed. held: a group (0: matrices, 1: vectors), and the step whose rate it always has; None: AdamW's own."""
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
    """The losses, what `watch` was told of them, if there is one, and how many batches were taken: there are more, as in an endless stream.
    Of a list nobody counts, and it is seen whether its batches are as they were."""
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
    properties=[Property("60 steps reach a loss below 0.25", _reached, "After 60 steps the mean of the last four losses should be below 0.25 nats."),
                Property("losses are plain numbers", _numbers, "The losses are right, but they come as tensors: numbers are asked for.")],
    within=(2e-4, 1e-6),
    misconceptions=[
        Misconception(
            "gradients never set to zero", lambda *inputs: _loop(*inputs, zero=False),
            "`backward` *adds* to the gradients. Call `zero_grad` in every step, or old batches push for ever.",
        ),
        Misconception(
            "weight decay on norms and biases too", lambda *inputs: _loop(*inputs, groups=_all_decay),
            "Decay pulls numbers towards 0, and a gain belongs near 1. Give the optimiser two groups: matrices with decay, vectors (gains, biases) without.",
        ),
        Misconception(
            "no weight decay", lambda batches, rates, weight_decay, *more: _loop(batches, rates, 0.0, *more),
            "`weight_decay` is never used. Matrices decay.",
        ),
        Misconception(
            "weight decay on vectors instead of matrices", lambda *inputs: _loop(*inputs, groups=_vectors_decay),
            "It is the other way round: matrices (two axes or more) decay, gains and biases don't.",
        ),
        Misconception(
            "the embedding doesn't decay", lambda *inputs: _loop(*inputs, groups=_only_the_head_decays),
            "An embedding is a matrix, and it decays here like the others.",
        ),
        Misconception(
            "the gain of the norm decays", lambda *inputs: _loop(*inputs, groups=_norms_decay),
            "Of the vectors you spare only the biases. The gain of a LayerNorm is a vector too, and decay would pull it to 0. Its name promises nothing "
            "(in this model it is `1.weight`): ask `parameter.dim()`.",
        ),
        Misconception(
            "Adam with weight decay in the gradient", lambda *inputs: _loop(*inputs, optimiser=torch.optim.Adam),
            "`Adam` adds the decay to the gradient, where it is divided by the gradient's size. AdamW takes it from the weights directly.",
        ),
        Misconception(
            "plain gradient descent", lambda *inputs: _loop(*inputs, optimiser=torch.optim.SGD, betas=None),
            "AdamW was asked for: every number gets a step size of its own.",
        ),
        Misconception(
            "other betas", lambda *inputs: _loop(*inputs, betas=None),
            "PyTorch's default is (0.9, 0.999). The text asks for (0.9, 0.95), which most language models use.",
        ),
        Misconception(
            "no clipping", lambda *inputs: _loop(*inputs, clipping=None),
            "`clip` is never used (or used before `backward`, or after `step`, where it does nothing). Shorten the gradients between the two.",
        ),
        Misconception(
            "each number clipped by itself", lambda *inputs: _loop(*inputs, clipping=nn.utils.clip_grad_value_),
            "That changes the direction of the step. Shorten all gradients together, by their common length: `clip_grad_norm_`.",
        ),
        Misconception(
            "each tensor clipped by itself",
            lambda *inputs: _loop(*inputs, clipping=lambda parameters, clip: [nn.utils.clip_grad_norm_([p], clip) for p in parameters]),
            "The length is that of all gradients together, so that the direction of the step stays.",
        ),
        Misconception(
            "a constant rate", lambda batches, rates, *more: _loop(batches, rates, *more, rate=lambda step: rates[0]),
            "Every step has a rate of its own. Set `group[\"lr\"]` of every parameter group before `step`.",
        ),
        *(
            Misconception(
                f"only the rate of {alone} is set, that of {others} stays {words}", _holding(other, step),
                "The parameters are in two groups. Set the rate of both: `for group in optimiser.param_groups: group[\"lr\"] = rate`.",
            )
            for alone, others, other in (("matrices", "vectors", 1), ("vectors", "matrices", 0))
            for words, step in (("AdamW's own, 0.001", None), ("the first one", 0))
        ),
        Misconception(
            "the rate of the step before", lambda batches, rates, *more: _loop(batches, rates, *more, rate=lambda step: rates[max(0, step - 1)]),
            "The rate is set after `step`, so each step is taken with the rate of the one before.",
        ),
        Misconception(
            "losses taken after the step", lambda *inputs: _loop(*inputs, after=True),
            "The loss of a step is the one that is differentiated, before the weights change.",
        ),
        Misconception(
            "the same batch every time", lambda *inputs: _loop(*inputs, batch=0),
            "Every step takes the next batch.",
        ),
        Misconception(
            "the sum over positions instead of the mean", lambda *inputs: _loop(*inputs, loss_of=partial(F.cross_entropy, reduction="sum")),
            "The loss is a mean over the positions that count.",
        ),
        Misconception(
            "targets of −100 counted in the mean", lambda *inputs: _loop(*inputs, loss_of=lambda logits, targets: F.cross_entropy(logits, targets, reduction="none").mean()),
            "Where the target is −100 nothing is asked: it adds 0 to the sum, and must not count in the number that you divide by.",
        ),
        Misconception(
            "a mean of the texts' means", lambda *inputs: _loop(*inputs, loss_of=_mean_of_the_texts_means),
            "That gives a token in a short text more weight. Take one mean, over all targets of the batch that are not −100.",
        ),
        Misconception(
            "−100 replaced by token 0", lambda *inputs: _loop(*inputs, loss_of=lambda logits, targets: F.cross_entropy(logits, targets.clamp(min=0))),
            "Where the target is −100 nothing is asked. Token 0 is a word like any other: leave those places out instead.",
        ),
        Misconception(
            "clipped at 1, whatever `clip` is", lambda *inputs: _loop(*inputs, clipping=lambda parameters, _: nn.utils.clip_grad_norm_(parameters, 1.0)),
            "The length to which gradients are shortened is the argument `clip`.",
        ),
        Misconception(
            "a weight decay of 0.1, whatever is asked for", lambda batches, rates, weight_decay, *more: _loop(batches, rates, 0.1, *more),
            "0.1 is only the default. Use the argument `weight_decay`.",
        ),
        Misconception(
            "the rate set after the step, AdamW's own for the first", lambda batches, rates, *more: _loop(
                batches, rates, *more, rate=lambda step: rates[step - 1] if step else 1e-3),
            "Set the rate *before* `step`. In yours a rate serves the step after its own, and the first step has AdamW's default, 0.001.",
        ),
        Misconception(
            "gradients cleared before the step", lambda *inputs: _loop(*inputs, late_zero=True),
            "`zero_grad` stands between `backward` and `step`: what was computed is thrown away, and nothing moves. Clear the gradients before `backward`.",
        ),
        Misconception(
            "`watch` is never called", _watched(lambda step, loss: None),
            "Where `watch` is given, it wants to be told of every step: `watch(step, loss)`. The curves of the notebook are drawn with it.",
        ),
        Misconception(
            "`watch` is told steps from 1", _watched(lambda step, loss: (step + 1, loss)), "The steps are numbered 0, 1, 2, …, as rates and losses are.",
        ),
        Misconception(
            "losses kept as tensors", _as_tensors,
            "`losses.append(loss)` keeps a tensor, and with it the graph of its whole step. `loss.item()` is the number alone.",
            lambda seen: any(isinstance(loss, Tensor) for loss in seen.output[0]),
        ),
        Misconception(
            "one batch more than rates taken", _one_more_taken,
            "`zip(batches, rates)` takes a batch before it sees that there is no rate left, and whoever reads on misses that batch. The rates first: `zip(rates, batches)`.",
        ),
        Misconception(
            "all batches taken first", _all_taken,
            "You take every batch that there is. Where they never end, nor does your loop. Take one for each rate: `zip(rates, batches)`.",
        ),
        Misconception(
            "a list asked for its `next`", _asked_for_the_next,
            "`next` is for an iterator, such as a generator. `batches` is an `Iterable`, which may be a list: `batches = iter(batches)` first, or `zip(rates, batches)`.",
            raises="TypeError",
        ),
        Misconception(
            "batches asked for by their numbers", _by_number,
            "`batches` is an `Iterable`: something to go through once, such as a generator. It has no `batches[0]` and no length. `zip(rates, batches)` needs neither.",
            raises="TypeError",
        ),
        Misconception(
            "a step for every batch", lambda *inputs: _loop(*inputs, every=True),
            "There are as many steps as rates, and `batches` may hold more (or never end). Take one for each rate: `zip(rates, batches)`.",
            raises="IndexError",
        ),
    ],
)  # fmt: skip
