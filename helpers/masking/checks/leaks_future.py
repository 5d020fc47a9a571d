"""The check of the leak detector: models that peek and models that don't, and a verdict on each."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.engine.anti_gaming import shuffled
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import leaks, peekers

__all__ = ["leaks_future"]


def _token_alone(x: Tensor) -> Tensor:
    return 2 * x


def _reversed(x: Tensor) -> Tensor:
    return x.flip(0)


def _verdict(detector: Callable, model: Callable, x: Tensor) -> Any:
    """The detector's answer; in words, if it does not tell a reversal from a model that sees nothing but its own token."""
    text = x if len(x) > 1 else torch.cat([x, x + 1])  # one token can't be reversed
    answers = {
        tried: _plain(detector(tried, x if tried is model else text))
        for tried in shuffled((model, _reversed, _token_alone))
    }
    if answers[_reversed] == answers[_token_alone]:
        return f"{answers[model]}, and the same of a reversal as of a model that sees its own token alone"
    controls = answers[_reversed] == 1, answers[_token_alone] == 0
    return answers[model] if all(controls) else f"{answers[model]}, and a reversal is cleared"


def _plain(answer: Any) -> Any:
    """tensor(True) and NumPy's True are as good as True."""
    return answer.item() if hasattr(answer, "item") else answer


def planted(label: str, make: Callable, n: int = 9, d: int = 4, scale: float = 1.0, seed: int | None = None) -> Case:
    """A case with a model made by `make` and tokens to try it on; with a `seed`, the tokens that everybody draws after it."""
    tokens = RandomArg(
        lambda generator: (
            scale * torch.randn(n, d, generator=generator if seed is None else torch.Generator().manual_seed(seed))
        )
    )
    return explicit_case(label, RandomArg(lambda generator: make(d, generator)), tokens)


def _new(x) -> Tensor:
    return torch.randn_like(x)


def _differs(a, b, tolerance=1e-5) -> bool:
    return a.numel() > 0 and (a - b).abs().max().item() > tolerance


def one_fixed_position(model, x) -> bool:
    t = len(x) // 2
    probe = torch.cat([x[: t + 1], _new(x[t + 1 :])])
    return _differs(model(probe)[: t + 1], model(x)[: t + 1])


def last_token_only(model, x) -> bool:
    probe = torch.cat([x[:-1], _new(x[-1:])])
    return _differs(model(probe)[:-1], model(x)[:-1])


def first_output_only(model, x) -> bool:
    return _differs(model(torch.cat([x[:1], _new(x[1:])]))[:1], model(x)[:1])


def _any_cut(model, x, probe_after, tolerance=1e-5) -> bool:
    """Whether some output up to t changes when what comes after t is replaced by `probe_after(x, t)`."""
    before = model(x)
    probes = (torch.cat([x[: t + 1], probe_after(x, t)]) for t in range(len(x) - 1))
    return any(_differs(model(probe)[: t + 1], before[: t + 1], tolerance) for t, probe in enumerate(probes))


def loose_tolerance(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: _new(x[t + 1 :]), tolerance=2e-2)


def relative_tolerance(model, x) -> bool:
    before = model(x)
    for t in range(1, len(x)):
        if not torch.allclose(model(torch.cat([x[:t], _new(x[t:])]))[:t], before[:t], atol=1e-5):
            return True
    return False


def bit_for_bit(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: _new(x[t + 1 :]), tolerance=0.0)


def same_number_for_all(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: x[t + 1 :] + 1.0)


def reordered(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: x[t + 1 :].flip(0))


def one_feature(model, x) -> bool:
    other = -x[:, :1].sign() * (1 + _new(x[:, :1]).abs())  # far from what was there, of the other sign
    return _any_cut(model, x, lambda x, t: torch.cat([other[t + 1 :], x[t + 1 :, 1:]], dim=1))


def faint_nudge(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: x[t + 1 :] + 1e-7 * _new(x[t + 1 :]))


def small_probe(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: x[t + 1 :] + 1e-3 * _new(x[t + 1 :]))


def huge_probe(model, x) -> bool:
    return _any_cut(model, x, lambda x, t: 1000 * _new(x[t + 1 :]))


def mean_change(model, x) -> bool:
    before = model(x)
    return any(
        (model(torch.cat([x[:t], _new(x[t:])]))[:t] - before[:t]).abs().mean().item() > 1e-5 for t in range(1, len(x))
    )


def cuts(model, x, places) -> bool:
    before = model(x)
    return any(_differs(model(torch.cat([x[:t], _new(x[t:])]))[:t], before[:t]) for t in places)


def past_not_put_back(model, x) -> bool:
    before, changed = model(x), x.clone()
    for t in range(1, len(x)):
        changed[t:] = _new(x[t:])
        if _differs(model(changed)[:t], before[:t]):
            return True
    return False


def written_into_x(model, x) -> bool:
    before = model(x)
    for t in range(1, len(x)):
        kept = x[t:].clone()
        x[t:] = _new(kept)
        moved = _differs(model(x)[:t], before[:t])
        x[t:] = kept
        if moved:
            return True
    return False


def not_with_one_token(model, x) -> bool:
    before, cuts = model(x), range(1, len(x))
    return max([(model(torch.cat([x[:t], _new(x[t:])]))[:t] - before[:t]).abs().max().item() for t in cuts]) > 1e-5


def seeded(model, x) -> bool:
    other = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    return _any_cut(model, x, lambda x, t: other[t + 1 :])


def buffer_like_the_tokens(model, x) -> bool:
    before, moved = model(x), torch.zeros_like(x)
    for t in range(1, len(x)):
        moved[:t] = torch.maximum(moved[:t], (model(torch.cat([x[:t], _new(x[t:])]))[:t] - before[:t]).abs())
    return moved.max().item() > 1e-5


def nan_as_probe(model, x) -> bool:
    cuts = range(len(x) - 1)
    return any(model(torch.cat([x[: t + 1], x[t + 1 :] * float("nan")]))[: t + 1].isnan().any().item() for t in cuts)


def past_changed(model, x) -> bool:
    before = model(x)
    cuts = range(1, len(x))
    return any(_differs(model(torch.cat([_new(x[:t]), x[t:]]))[t:], before[t:]) for t in cuts)


def own_output_compared(model, x) -> bool:
    before = model(x)
    cuts = range(len(x))
    return any(_differs(model(torch.cat([x[:t], _new(x[t:])]))[: t + 1], before[: t + 1]) for t in cuts)


def next_neighbour_only(model, x) -> bool:
    before = model(x)

    def neighbour(t) -> Tensor:
        return model(torch.cat([x[: t + 1], _new(x[t + 1 : t + 2]), x[t + 2 :]]))

    return any(_differs(neighbour(t)[t], before[t]) for t in range(len(x) - 1))


leaks_future = Check(
    reference=leaks.leaks_future,
    drive=_verdict,
    cases=[
        planted("peeks: mask off by one", peekers.off_by_one),
        planted("peeks: mean over all tokens", peekers.mean_of_all),
        planted("peeks: normalised over time", peekers.normalised_over_time),
        planted("peeks: softmax over the wrong axis", peekers.softmax_over_queries),
        planted("peeks: reads from right to left", peekers.right_to_left),
        planted("peeks: very faintly", peekers.faint),
        planted("peeks: more faintly still, in outputs near 100", peekers.faint_all_over),
        planted("peeks: at the last position but one", peekers.late_only),
        planted("peeks: at the first position", peekers.first_only),
        planted("peeks: at even positions", peekers.even_only),
        planted("peeks: three tokens ahead", peekers.three_ahead),
        planted("peeks: at one feature", peekers.last_feature),
        planted("peeks: at the next token, centred", peekers.centred_next),
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
        one_position_only=one_fixed_position,
        last_token_only=last_token_only,
        first_output_only=first_output_only,
        tolerance_that_too_loose=loose_tolerance,
        tolerance_103=lambda model, x: _any_cut(model, x, lambda x, t: _new(x[t + 1 :]), tolerance=1e-3),
        tolerance_that_grows_with_outputs=relative_tolerance,
        compared_bit_bit=bit_for_bit,
        every_model_accused=lambda model, x: True,
        wrong_direction=past_changed,
        outputs_compared_that_may_change=own_output_compared,
        nudge_that_too_small=faint_nudge,
        next_neighbour_only=next_neighbour_only,
        same_number_added_everywhere=same_number_for_all,
        future_only_reordered=reordered,
        one_feature_changed=one_feature,
        nan_as_probe=nan_as_probe,
        one_cut_middle=lambda model, x: cuts(model, x, [len(x) // 2]),
        last_cut_left_out=lambda model, x: cuts(model, x, range(1, len(x) - 1)),
        first_cut_left_out=lambda model, x: cuts(model, x, range(2, len(x))),
        probe_that_too_small=small_probe,
        probe_that_too_large=huge_probe,
        nothing_but_signs_turned=lambda model, x: _any_cut(model, x, lambda x, t: -x[t + 1 :]),
        mean_change=mean_change,
        past_not_put_back=past_not_put_back,
        outputs_that_change_with_input=written_into_x,
        error_one_token=Wrong(not_with_one_token, raises="ValueError RuntimeError IndexError"),
        seed_set_inside=seeded,
        room_outputs_as_wide_as_tokens=Wrong(buffer_like_the_tokens, raises="RuntimeError"),
    ),
)
