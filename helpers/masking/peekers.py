"""Models of tokens (n, d) → (n, d), some of which look into the future. Prey for a leak detector.

Every function here makes a model: `make(d, generator)`. The models are black boxes without gradients.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

Model = Callable[[Tensor], Tensor]
PLACE = 8  # the only token that is read too early by a model that peeks at one place
FAINT = 5e-4  # how much of the next token a faint leak lets through


def _attention(d: int, generator: Generator, ahead: int = 0, over: int = -1) -> Model:
    """Self-attention with drawn weights; a token sees `ahead` tokens too many; the softmax runs along axis `over`."""
    weights = [torch.randn(d, d, generator=generator) / math.sqrt(d) for _ in range(3)]

    def model(x: Tensor) -> Tensor:
        q, k, v = (x @ w.to(x) for w in weights)
        hidden = torch.ones(len(x), len(x)).tril(ahead) == 0
        return (q @ k.mT / math.sqrt(d)).masked_fill(hidden, -math.inf).softmax(over) @ v

    return model


def _counts(x: Tensor) -> Tensor:
    return torch.arange(1, len(x) + 1).to(x)[:, None]


def _plus_later(make: Callable[[int, Generator], Model], change: Callable[[Tensor, Tensor], None]) -> Callable:
    """A sound model into whose output `change(y, x)` writes something from later tokens."""

    def planted(d: int, generator: Generator) -> Model:
        sound = make(d, generator)

        def model(x: Tensor) -> Tensor:
            y = sound(x).clone()
            change(y, x)
            return y

        return model

    return planted


# ---------------------------------------------------------------------------------------------------- sound models


def causal_attention(d: int, generator: Generator) -> Model:
    return _attention(d, generator)


def running_mean(d: int, generator: Generator) -> Model:
    return lambda x: x.cumsum(0) / _counts(x)


def far_from_zero(d: int, generator: Generator) -> Model:
    """Outputs near 100, where float32 counts in steps of 8 · 10⁻⁶."""
    return lambda x: 100 + x.cumsum(0) / _counts(x)


def steep_sum(d: int, generator: Generator) -> Model:
    """Depends on the past, and strongly."""
    return lambda x: 50 * x.cumsum(0)


def strictly_past(d: int, generator: Generator) -> Model:
    """Output i doesn't even see token i."""
    return lambda x: torch.cat([torch.zeros_like(x[:1]), (x.cumsum(0) / _counts(x))[:-1]])


def token_by_token(d: int, generator: Generator) -> Model:
    """Every token is normalised over its own features, as a layer norm does."""
    return lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def rounding_sum(d: int, generator: Generator) -> Model:
    """A sum over the past, as the sum of all minus that of what follows: the future leaves rounding noise."""
    return lambda x: x.sum(0) - (x.flip(0).cumsum(0).flip(0) - x)


def windowed_attention(d: int, generator: Generator) -> Model:
    """Attention to the token itself and the two before it."""
    weights = [torch.randn(d, d, generator=generator) / math.sqrt(d) for _ in range(3)]

    def model(x: Tensor) -> Tensor:
        q, k, v = (x @ w.to(x) for w in weights)
        seen = torch.ones(len(x), len(x)).tril().triu(-2) == 1
        return (q @ k.mT / math.sqrt(d)).masked_fill(~seen, -math.inf).softmax(-1) @ v

    return model


def largest_so_far(d: int, generator: Generator) -> Model:
    return lambda x: x.cummax(0).values


def first_token_for_all(d: int, generator: Generator) -> Model:
    """Every output is the first token, in its own memory: a view."""
    return lambda x: x[:1].expand_as(x)


def three_behind(d: int, generator: Generator) -> Model:
    """Output i sees token i − 3."""
    return lambda x: x + torch.cat([torch.zeros_like(x[:3]), x[:-3]])[: len(x)]


def fading_mean(d: int, generator: Generator) -> Model:
    """A mean in which every token counts half as much as the one after it."""

    def model(x: Tensor) -> Tensor:
        age = torch.arange(len(x))[:, None] - torch.arange(len(x))
        return (0.5**age * (age >= 0)).to(x) @ x

    return model


def recurrent(d: int, generator: Generator) -> Model:
    w_in, w_state = (torch.randn(d, d, generator=generator) / math.sqrt(d) for _ in range(2))

    def model(x: Tensor) -> Tensor:
        states = [torch.zeros_like(x[0])]
        for token in x:
            states.append(torch.tanh(token @ w_in.to(x) + states[-1] @ w_state.to(x)))
        return torch.stack(states[1:])

    return model


def bounded_rounding(d: int, generator: Generator) -> Model:
    """Like `rounding_sum`, of numbers that can't grow: the noise stays small, however large the tokens are."""
    return lambda x: rounding_sum(d, generator)(torch.tanh(x))


def narrower(d: int, generator: Generator) -> Model:
    """One number for each token: outputs needn't be as wide as tokens."""
    return lambda x: (x.cumsum(0) / _counts(x))[:, :1]


# ------------------------------------------------------------------------------------------------ models that peek


def sign_of_the_next(d: int, generator: Generator) -> Model:
    """Nothing but the signs of the next token count: a small change flips none."""
    return lambda x: x + 0.05 * torch.cat([x[1:].sign(), torch.zeros_like(x[:1])])


def wider(d: int, generator: Generator) -> Model:
    """Outputs that are wider than the tokens."""
    model = _attention(d, generator, ahead=1)
    return lambda x: torch.cat([x, model(x)], dim=1)


def off_by_one(d: int, generator: Generator) -> Model:
    return _attention(d, generator, ahead=1)


def softmax_over_queries(d: int, generator: Generator) -> Model:
    """The mask is right, but a column is normalised over all its queries, the later ones too."""
    return _attention(d, generator, over=0)


def mean_of_all(d: int, generator: Generator) -> Model:
    return lambda x: x + x.mean(0)


def last_token_for_all(d: int, generator: Generator) -> Model:
    """Every output is the last token, in its own memory: what is written there later changes earlier outputs."""
    return lambda x: x[-1:].expand_as(x)


def normalised_over_time(d: int, generator: Generator) -> Model:
    return lambda x: (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-3).sqrt()


def right_to_left(d: int, generator: Generator) -> Model:
    backwards = recurrent(d, generator)
    return lambda x: backwards(x.flip(0)).flip(0)


def _next(y: Tensor, x: Tensor) -> None:
    y[:-1] += FAINT * x[1:]


def _late(y: Tensor, x: Tensor) -> None:
    y[-2:-1] += x[-1]


def _first(y: Tensor, x: Tensor) -> None:
    y[:1] += x[1:2].sum(0)


def _even(y: Tensor, x: Tensor) -> None:
    later = x[1::2]
    y[::2][: len(later)] += later


def _middle(y: Tensor, x: Tensor) -> None:
    place = len(x) // 2
    y[place : place + 1] += x[place + 1 : place + 2].sum(0)


def _second(y: Tensor, x: Tensor) -> None:
    y[1:2] += x[2:3].sum(0)


def _faint_all_over(y: Tensor, x: Tensor) -> None:
    y[:-1] += 1e-4 * x[1:]


def _faint_and_late(y: Tensor, x: Tensor) -> None:
    y[-2:-1] += 1e-4 * x[-1]


def _far(y: Tensor, x: Tensor) -> None:
    y[:-3] += x[3:]


def _last_feature(y: Tensor, x: Tensor) -> None:
    y[:-1, 0] += x[1:, -1]


def _sizes(y: Tensor, x: Tensor) -> None:
    y[:-1] += x[1:].abs()


def _centred(y: Tensor, x: Tensor) -> None:
    y[:-1] += x[1:] - x[1:].mean(1, keepdim=True)


faint = _plus_later(causal_attention, _next)


def _falls(y: Tensor, x: Tensor) -> None:
    y[:-1] -= x[1:].norm(dim=-1, keepdim=True)


def _at_one_place(y: Tensor, x: Tensor) -> None:
    if len(x) > PLACE:
        y[PLACE - 1] += x[PLACE]


falling = _plus_later(running_mean, _falls)
one_place_only = _plus_later(running_mean, _at_one_place)
late_only = _plus_later(recurrent, _late)
first_only = _plus_later(running_mean, _first)
middle_only = _plus_later(recurrent, _middle)
second_only = _plus_later(running_mean, _second)
faint_all_over = _plus_later(far_from_zero, _faint_all_over)
faint_and_late = _plus_later(running_mean, _faint_and_late)
even_only = _plus_later(running_mean, _even)
three_ahead = _plus_later(causal_attention, _far)
last_feature = _plus_later(recurrent, _last_feature)
size_of_the_next = _plus_later(running_mean, _sizes)
centred_next = _plus_later(running_mean, _centred)

# The game of unit 03: letter -> (how a model is made, whether it peeks).
NINE = {
    "A": (running_mean, False),
    "B": (off_by_one, True),
    "C": (normalised_over_time, True),
    "D": (softmax_over_queries, True),
    "E": (rounding_sum, False),
    "F": (token_by_token, False),
    "G": (even_only, True),
    "H": (recurrent, False),
    "I": (faint, True),
}


def nine_models(d: int = 4, seed: int = 0) -> dict[str, tuple[Model, bool]]:
    """The nine models of the game, with the truth about each."""
    generator = Generator().manual_seed(seed)
    return {letter: (make(d, generator), peeks) for letter, (make, peeks) in NINE.items()}


def influence(model: Model, x: Tensor, size: float = 1.0) -> Tensor:
    """(n, n): how far output i moves, at most, when token j is changed by random numbers of this size."""
    before, rows = model(x), []
    for j in range(len(x)):
        probe = x.clone()
        probe[j] += size * torch.randn_like(x[j])
        rows.append((model(probe) - before).abs().amax(-1))
    return torch.stack(rows, dim=1)
