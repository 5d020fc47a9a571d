"""The check of `leaks_future`: models that peek and models that don't, and a verdict on each."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.engine.anti_gaming import shuffled
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import leaks, peekers

__all__ = ["leaks_future"]


def _token_alone(x: Tensor) -> Tensor:
    return 2 * x


def _reversed(x: Tensor) -> Tensor:
    return x.flip(0)


def _verdict(detector: Callable, model: Callable, x: Tensor) -> Any:
    """The detector's answer; in words, if it takes a reversal for a model that sees its own token alone."""
    text = x if len(x) > 1 else torch.cat([x, x + 1])  # one token can't be reversed
    answers = {
        tried: _plain(detector(tried, x if tried is model else text))
        for tried in shuffled((model, _reversed, _token_alone))
    }
    if answers[_reversed] == answers[_token_alone]:
        return Message(
            f"your detector says {answers[model]} here, {answers[_reversed]} of a model that reverses the text, which "
            f"leaks, and {answers[_token_alone]} of one in which each token sees only itself, which doesn't"
        )
    controls = answers[_reversed] == 1, answers[_token_alone] == 0
    return answers[model] if all(controls) else f"{answers[model]}, and a reversal is cleared"


def _plain(answer: Any) -> Any:
    """tensor(True) and NumPy's True are as good as True."""
    return answer.item() if hasattr(answer, "item") else answer


def planted(label: str, make: Callable, n: int = 9, d: int = 4, scale: float = 1.0, seed: int | None = None) -> Case:
    """A model made by `make` and tokens to try it on; with a `seed`, the tokens that everybody draws after it."""

    def tokens(generator: torch.Generator) -> Tensor:
        return scale * torch.randn(n, d, generator=generator if seed is None else torch.Generator().manual_seed(seed))

    return explicit_case(label, RandomArg(lambda generator: make(d, generator)), RandomArg(tokens))


def _new(x) -> Tensor:
    return torch.randn_like(x)


def _largest(change) -> float:
    return change.abs().max().item()


@composable
def detector(
    cuts: Callable = lambda n: range(1, n),  # the first of the tokens that are changed
    probe: Callable = lambda x, t: _new(x[t:]),  # what comes instead of x[t:]
    outputs: Callable = lambda t: slice(t),  # that are compared
    size: Callable = _largest,  # of a change of the outputs
    tolerance: float = 1e-5,
) -> Callable[..., bool]:
    """Whether some output up to t changes when what comes from t on does."""

    def detect(model, x) -> bool:
        before = model(x)
        changes = ((model(torch.cat([x[:t], probe(x, t)])) - before)[outputs(t)] for t in cuts(len(x)))
        return any(change.numel() > 0 and size(change) > tolerance for change in changes)

    return detect


def relative_tolerance(model, x) -> bool:
    before = model(x)
    probes = (model(torch.cat([x[:t], _new(x[t:])]))[:t] for t in range(1, len(x)))
    return not all(torch.allclose(probe, before[:t], atol=1e-5) for t, probe in enumerate(probes, 1))


def one_feature(x, t) -> Tensor:
    other = -x[t:, :1].sign() * (1 + _new(x[t:, :1]).abs())  # far from what was there, of the other sign
    return torch.cat([other, x[t:, 1:]], dim=1)


def same_noise(x, t) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(0))[t:]


def not_put_back(model, x) -> bool:
    before, changed = model(x), x.clone()
    for t in range(1, len(x)):
        changed[t:] = _new(x[t:])
        if _largest((model(changed) - before)[:t]) > 1e-5:
            return True
    return False


def written_into_x(model, x) -> bool:
    before = model(x)
    for t in range(1, len(x)):
        kept = x[t:].clone()
        x[t:] = _new(kept)
        moved = _largest((model(x) - before)[:t]) > 1e-5
        x[t:] = kept
        if moved:
            return True
    return False


def not_with_one_token(model, x) -> bool:
    before, cuts = model(x), range(1, len(x))
    return max([_largest(model(torch.cat([x[:t], _new(x[t:])]))[:t] - before[:t]) for t in cuts]) > 1e-5


def as_wide_as_tokens(model, x) -> bool:
    before, moved = model(x), torch.zeros_like(x)
    for t in range(1, len(x)):
        moved[:t] = torch.maximum(moved[:t], (model(torch.cat([x[:t], _new(x[t:])]))[:t] - before[:t]).abs())
    return moved.max().item() > 1e-5


def nan_as_probe(model, x) -> bool:
    probes = (model(torch.cat([x[:t], x[t:] * float("nan")]))[:t] for t in range(1, len(x)))
    return any(probe.isnan().any().item() for probe in probes)


def past_changed(model, x) -> bool:
    before = model(x)
    return any(_largest((model(torch.cat([_new(x[:t]), x[t:]])) - before)[t:]) > 1e-5 for t in range(1, len(x)))


leaks_future = Check(
    reference=leaks.leaks_future,
    drive=_verdict,
    cases=[
        planted("peeks: mask off by one", peekers.off_by_one),
        planted("peeks: mean over all tokens", peekers.mean_of_all),
        planted("peeks: normalized over time", peekers.normalised_over_time),
        planted("peeks: softmax over the wrong axis", peekers.softmax_over_queries),
        planted("peeks: reads from right to left", peekers.right_to_left),
        planted("peeks: very faintly", peekers.faint),
        planted("peeks: more faintly still, in outputs near 100", peekers.faint_all_over),
        planted("peeks: at the next to last position", peekers.late_only),
        planted("peeks: at the first position", peekers.first_only),
        planted("peeks: at even positions", peekers.even_only),
        planted("peeks: three tokens ahead", peekers.three_ahead),
        planted("peeks: at one feature", peekers.last_feature),
        planted("peeks: at the next token, centered", peekers.centred_next),
        planted("peeks: in the middle", peekers.middle_only),
        planted("peeks: at the second position", peekers.second_only),
        planted("peeks: at the size of the next token", peekers.size_of_the_next),
        planted("peeks: at the signs of the next token", peekers.sign_of_the_next, n=3, d=12),
        planted("peeks: outputs wider than the tokens", peekers.wider),
        planted("peeks: two tokens only", peekers.mean_of_all, n=2),
        planted("peeks: tokens drawn with seed 0", peekers.mean_of_all, seed=0),
        planted("peeks: tokens drawn with seed 1", peekers.off_by_one, seed=1),
        planted("peeks: outputs that only fall", peekers.falling, scale=0.01),
        planted("peeks: at one place in the text", peekers.one_place_only),
        planted("peeks: the last token for all, a view of x", peekers.last_token_for_all),
        planted("sound: causal attention", peekers.causal_attention),
        planted("sound: two tokens only", peekers.causal_attention, n=2),
        planted("sound: one token only", peekers.causal_attention, n=1),
        planted("sound: rounding noise of bounded numbers", peekers.bounded_rounding),
        planted("sound: one number for each token", peekers.narrower),
        planted("sound: running mean", peekers.running_mean),
        planted("sound: RNN", peekers.recurrent),
        planted("sound: token by token", peekers.token_by_token),
        planted("sound: depends on the past, strongly", peekers.steep_sum),
        planted("sound: the past without the token itself", peekers.strictly_past),
        planted("sound: a sum with rounding noise", peekers.rounding_sum),
        planted("sound: attention with a window", peekers.windowed_attention),
        planted("sound: the largest so far", peekers.largest_so_far),
        planted("sound: the first token for all, a view of x", peekers.first_token_for_all),
        planted("sound: three tokens behind", peekers.three_behind),
        planted("sound: a mean that fades", peekers.fading_mean),
        planted("peeks: faintly, at one position of 30", peekers.faint_and_late, n=30, d=6),
    ],
    misconceptions=wrong_answers(
        __file__,
        one_position=detector(cuts=lambda n: [n // 2 + 1]),
        last_token=detector(cuts=lambda n: [n - 1]),
        first_output=detector(cuts=lambda n: [1]),
        too_loose=detector(tolerance=2e-2),
        tolerance_1e3=detector(tolerance=1e-3),
        relative_tolerance=relative_tolerance,
        bit_for_bit=detector(tolerance=0.0),
        all_accused=lambda model, x: True,
        past_changed=past_changed,
        own_output=detector(cuts=range, outputs=lambda t: slice(t + 1)),
        faint_nudge=detector(probe=lambda x, t: x[t:] + 1e-7 * _new(x[t:])),
        neighbour_only=detector(
            probe=lambda x, t: torch.cat([_new(x[t : t + 1]), x[t + 1 :]]), outputs=lambda t: slice(t - 1, t)
        ),
        same_number=detector(probe=lambda x, t: x[t:] + 1.0),
        reordered=detector(probe=lambda x, t: x[t:].flip(0)),
        one_feature=detector(probe=one_feature),
        nan_as_probe=nan_as_probe,
        one_cut=detector(cuts=lambda n: [n // 2]),
        last_cut_left_out=detector(cuts=lambda n: range(1, n - 1)),
        first_cut_left_out=detector(cuts=lambda n: range(2, n)),
        small_probe=detector(probe=lambda x, t: x[t:] + 1e-3 * _new(x[t:])),
        huge_probe=detector(probe=lambda x, t: 1000 * _new(x[t:])),
        signs_turned=detector(probe=lambda x, t: -x[t:]),
        mean_change=detector(size=lambda change: change.abs().mean().item()),
        not_put_back=not_put_back,
        written_into_x=written_into_x,
        one_token=Wrong(not_with_one_token, raises="ValueError RuntimeError IndexError"),
        seeded=detector(probe=same_noise),
        as_wide_as_tokens=Wrong(as_wide_as_tokens, raises="RuntimeError"),
    ),
)
