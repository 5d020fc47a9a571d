"""The check of the leak detector: models that peek and models that don't, and a verdict on each."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.engine.anti_gaming import shuffled
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception

from .. import leaks, peekers

__all__ = ["leaks_future"]

# A detector that says the same of everything finds every leak, or clears every sound model: two controls rule that out. They come
# before the model, after it or around it, and half of the models are sound, so that nothing is won by counting calls.


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
    misconceptions=[
        Misconception(
            "one position only", one_fixed_position,
            "A leak may sit at a single position. Cut the text at every place, not at one: change what follows, compare what came before.",
        ),
        Misconception(
            "the last token only", last_token_only,
            "A model may look one token ahead and never reach the last one. Cut the text at every place, not only before its end.",
        ),
        Misconception(
            "the first output only", first_output_only,
            "Output 0 can be clean while a later one is not. Compare all outputs up to the cut, for every cut.",
        ),
        Misconception(
            "a tolerance that is too loose", loose_tolerance,
            "A leak can be faint, and training finds it all the same. Rounding stays below 10⁻⁵ here: every change above is a leak. If you compare squares (`mse_loss`), "
            "10⁻⁵ is too loose for them: the square of 10⁻⁴ is 10⁻⁸. Compare the largest change itself.",
        ),
        Misconception(
            "a tolerance of 10⁻³", lambda model, x: _any_cut(model, x, lambda x, t: _new(x[t + 1 :]), tolerance=1e-3),
            "A faint leak moves an output by 10⁻⁴, and training finds it all the same. Rounding stays below 10⁻⁵ here: everything above is a leak.",
        ),
        Misconception(
            "a tolerance that grows with the outputs", relative_tolerance,
            "`torch.allclose` and `isclose` add `rtol` times the number itself to `atol`, 10⁻⁵ of it unless you say otherwise: where outputs are large, a faint "
            "leak passes. Say `rtol=0`, or take the largest difference.",
        ),
        Misconception(
            "compared bit for bit", bit_for_bit,
            "Floating-point sums round, so a sound model may change in the last digit. Allow differences up to 10⁻⁵.",
        ),
        Misconception(
            "every model accused", lambda model, x: True,
            "Even a model that looks at nothing but its own token is guilty for you. Which outputs may change when token t is changed, "
            "and do you compare these too?",
        ),
        Misconception(
            "the wrong direction", past_changed,
            "You changed the past and watched the future, which may depend on it: that is what a model is for. Change the future, watch the past.",
        ),
        Misconception(
            "outputs compared that may change", own_output_compared,
            "Output t may depend on token t. If tokens t + 1, t + 2, … are changed, the outputs 0 … t must stay, and no others.",
        ),
        Misconception(
            "a nudge that is too small", faint_nudge,
            "Your detector finds nothing, in any model: a tiny change moves the outputs by less than rounding does. Replace the future by "
            "something quite different.",
        ),
        Misconception(
            "the next neighbour only", next_neighbour_only,
            "A model may look further ahead than one token. Change all that follows the cut.",
        ),
        Misconception(
            "the same number added everywhere", same_number_for_all,
            "A model that centres each token first can't see a number that is added to all its features. Use random changes.",
        ),
        Misconception(
            "the future only reordered", reordered,
            "A mean over all tokens doesn't notice their order. Put other tokens there.",
        ),
        Misconception(
            "one feature changed", one_feature,
            "The leak may be in another feature. Change whole tokens.",
        ),
        Misconception(
            "NaN as the probe", nan_as_probe,
            "0 · NaN is NaN: attention with an honest weight of 0 on the future looks guilty. Use ordinary numbers.",
        ),
        Misconception(
            "one cut in the middle", lambda model, x: cuts(model, x, [len(x) // 2]),
            "A leak may sit at a single position. Cut the text at every place, t = 1 … n − 1, not in the middle only.",
        ),
        Misconception(
            "the last cut left out", lambda model, x: cuts(model, x, range(1, len(x) - 1)),
            "A text of n tokens has n − 1 cuts, the last of them before the last token: `range(1, n)` ends at n − 1.",
        ),
        Misconception(
            "the first cut left out", lambda model, x: cuts(model, x, range(2, len(x))),
            "A text of n tokens has n − 1 cuts. The first one leaves a past of one token: t = 1.",
        ),
        Misconception(
            "a probe that is too small", small_probe,
            "A model may not notice a small change, and a faint leak of a small change drowns in rounding. Put tokens there that are quite different.",
        ),
        Misconception(
            "a probe that is too large", huge_probe,
            "Numbers a thousand times as large make a thousand times as much rounding noise, and sound models look guilty. Stay near the size of the tokens.",
        ),
        Misconception(
            "nothing but the signs turned", lambda model, x: _any_cut(model, x, lambda x, t: -x[t + 1 :]),
            "A leak through a size, a square or a norm doesn't see a sign. Put other random numbers there: they have no pattern that a model could be blind to.",
        ),
        Misconception(
            "the mean of the change", mean_change,
            "A mean over all outputs thins out a faint leak at one position. One output that moves is enough: take the largest change.",
        ),
        Misconception(
            "the past not put back", past_not_put_back,
            "At the second cut the token changed at the first one is still changed, and it belongs to the past now. Start each cut from a fresh copy of x.",
        ),
        Misconception(
            "outputs that change with the input", written_into_x,
            "A model's output may be a view of its input. Write other tokens into that input, and the output of before changes along: nothing seems to move. "
            "Call the model on a fresh copy each time.",
        ),
        Misconception(
            "an error for one token", not_with_one_token,
            "One token has no future: there is no cut, and the list of changes is empty. Nothing can leak, so the answer is `False`.",
            raises="ValueError RuntimeError IndexError",
        ),
        Misconception(
            "a seed set inside", seeded,
            "The tokens may have been drawn from that same seed. Then your new tokens are the old ones, nothing changes, and no leak shows.",
        ),
        Misconception(
            "room for outputs as wide as the tokens", buffer_like_the_tokens,
            "A model maps (n, d) to (n, d_out), and d_out need not be d. Make the room from the model's output.",
            raises="RuntimeError",
        ),
    ],
)  # fmt: skip
