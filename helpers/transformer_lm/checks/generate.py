"""Checks of writing: probabilities of the next token under temperature, top-k and top-p, and the loop around a model."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.drivers import watch
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import sampling as reference

__all__ = ["generate"]


def random_logits(
    label: str, *shape: int, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, scale=2.0
) -> Case:
    """Logits in which no two of a row are nearly equal, and no sum of probabilities lies near top_p by chance. Each row is flatter than the
    one before, and lies higher: what is right for one of them as a threshold isn't for the others."""
    rows = math.prod(shape[:-1])
    widths, levels = (torch.linspace(1, end, rows).view(*shape[:-1], 1) for end in (0.5, 3.0))

    def draw(generator: Generator) -> Tensor:
        places = torch.rand(shape, generator=generator).argsort(dim=-1)
        moved = levels + 0.1 * torch.rand(1, generator=generator)
        return scale * (widths * (places / shape[-1] * 4 - 2) + moved)

    return explicit_case(label, RandomArg(draw), temperature, top_k, top_p)


def given_probabilities(label: str, p: list, temperature: float, top_k: int | None, top_p: float | None) -> Case:
    return explicit_case(label, torch.tensor(p).log(), temperature, top_k, top_p)


def _probabilities(
    logits,
    temperature,
    top_k,
    top_p,
    *,
    extra_k=0,
    crossing=True,
    full_mass=False,
    lowest=False,
    k_normal=True,
    p_normal=True,
    cut_first=False,
):
    """Right, with one thing changed."""
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    ordered, order = (logits if cut_first else logits / temperature).sort(dim=-1, descending=not lowest)
    whole = ordered.softmax(dim=-1)
    p = whole
    if top_k is not None:
        p = p * (torch.arange(p.shape[-1]) < top_k + extra_k)
        p = p / p.sum(-1, keepdim=True) if k_normal and not full_mass else p
    if top_p is not None:
        mass = whole if full_mass else p
        before = mass.cumsum(-1) - (mass if crossing else 0)
        p = p * (before < top_p if crossing else before <= top_p)
    if cut_first:
        p = (p.log() / temperature).softmax(-1)
    p = p / p.sum(-1, keepdim=True) if p_normal and (top_p is not None or full_mass) else p
    return torch.zeros_like(p).scatter(-1, order, p)


def _without_crossing(logits, temperature, top_k, top_p):
    """The token that crosses the line is dropped; where none is left, nothing is."""
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    ordered, order = (logits / temperature).sort(dim=-1, descending=True)
    if top_k is not None:
        ordered = ordered.masked_fill(torch.arange(ordered.shape[-1]) >= top_k, -torch.inf)
    p = ordered.softmax(dim=-1)
    if top_p is not None:
        p = p * (p.cumsum(-1) <= top_p)
        p = p / p.sum(-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)


def _first_kept_without_crossing(logits, temperature, top_k, top_p):
    if temperature == 0 or top_p is None:
        return reference.next_token_probabilities(logits, temperature, top_k)
    p, order = reference.next_token_probabilities(logits, temperature, top_k).sort(dim=-1, descending=True)
    p = p * ((p.cumsum(-1) <= top_p) | (torch.arange(p.shape[-1]) == 0))
    return torch.zeros_like(p).scatter(-1, order, p / p.sum(-1, keepdim=True))


def _one_winner(logits, temperature, top_k, top_p):
    if temperature:
        return reference.next_token_probabilities(logits, temperature, top_k, top_p)
    return (torch.arange(logits.numel()) == logits.argmax()).view(logits.shape).to(logits.dtype)


def _plain_zero(logits, temperature, top_k, top_p):
    if temperature == 0 and top_k is None and top_p is None:
        return reference.next_token_probabilities(logits, 0)
    return reference.next_token_probabilities(logits, temperature or 1.0, top_k, top_p)


def _overflowing(logits, temperature, top_k, top_p):
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    powers = (logits / temperature).exp()
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    kept = (powers / powers.sum(-1, keepdim=True)) * (right > 0)
    return kept / kept.sum(-1, keepdim=True)


def _power_of_probabilities(logits, temperature, top_k, top_p):
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    return reference.next_token_probabilities(logits.softmax(-1).log() / temperature, 1.0, top_k, top_p)


def _behind_the_kth(logits, temperature, top_k, top_p):
    if top_k is not None:
        logits.sort(dim=-1, descending=True).values[..., top_k]
    return reference.next_token_probabilities(logits, temperature, top_k, top_p)


def _rows_of_a_matrix(logits, temperature, top_k, top_p):
    """The cut of the first row of a matrix for all of them, where there are several matrices."""
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    if logits.dim() < 3 or temperature == 0:
        return right
    kept = (right > 0)[:, :1]
    return (logits / temperature).masked_fill(~kept, -torch.inf).softmax(-1)


def _unsorted(logits, temperature, top_k, top_p):
    if temperature == 0 or top_p is None:
        return reference.next_token_probabilities(logits, temperature, top_k)
    p = reference.next_token_probabilities(logits, temperature, top_k)
    p = p * (p.cumsum(-1) - p < top_p)
    return p / p.sum(-1, keepdim=True)


def _order_kept(logits, temperature, top_k, top_p):
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    return right if top_k is None and top_p is None else right.sort(dim=-1, descending=True).values


def _gathered(logits, temperature, top_k, top_p):
    """Sorted, and sorted by the same order once more."""
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    if temperature == 0:
        return right
    order = logits.argsort(dim=-1, descending=True)  # of the logits: among tokens that were cut too
    return right.gather(-1, order).gather(-1, order)


def _gathered_after_top_k(logits, temperature, top_k, top_p):
    """The same for top-p alone, whose order is that of what top-k has left."""
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    if temperature == 0 or top_p is None:
        return right
    order = reference.next_token_probabilities(logits, temperature, top_k).argsort(dim=-1, descending=True)
    return right.gather(-1, order).gather(-1, order)


def _whole_at_zero(logits, temperature, top_k, top_p):
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    return right if temperature else right.long()


def _cut_to_zero(logits, temperature, top_k, top_p):
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    return right if temperature == 0 else torch.where(right > 0, logits / temperature, 0.0).softmax(-1)


def _one_threshold(logits, temperature, top_k, top_p):
    """The least probability that top-k leaves in any row, and the least that top-p leaves, cut off in all of them."""
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    p = (logits / temperature).softmax(-1)
    for cut in ({"top_k": top_k}, {"top_p": top_p}):
        kept = reference.next_token_probabilities(p.log(), 1.0, **cut) > 0
        p = p * (p >= p[kept].min())
        p = p / p.sum(-1, keepdim=True)
    return p


def _right_in_some_rows(seen) -> bool:
    """Where something is cut, in several rows: a softmax of the likeliest tokens in each row, but of as many as is right in some rows only."""
    logits, temperature, top_k, top_p = seen.args
    got, right = seen.output, reference.next_token_probabilities(*seen.args)
    if temperature == 0 or (top_k is None and top_p is None) or logits.dim() < 2:
        return False
    counts, wanted = (got > 0).sum(-1, keepdim=True), (right > 0).sum(-1, keepdim=True)
    likeliest = logits.argsort(dim=-1, descending=True).argsort(dim=-1) < counts
    cut = (logits / temperature).masked_fill(~likeliest, -torch.inf).softmax(-1)
    some = (counts == wanted).any() and (counts != wanted).any()
    return bool(some) and torch.allclose(got, cut, rtol=1e-3, atol=1e-5, equal_nan=True)


def _one_largest_for_all(logits, temperature, top_k, top_p):
    """A softmax by hand: e to the power of what lies below the largest logit of all rows."""
    if temperature == 0:
        return reference.next_token_probabilities(logits, 0)
    powers = (logits / temperature - (logits / temperature).max()).exp()
    kept = powers * (reference.next_token_probabilities(logits, temperature, top_k, top_p) > 0)
    return kept / kept.sum(-1, keepdim=True)


def _first_row_for_all(logits, temperature, top_k, top_p):
    right = reference.next_token_probabilities(logits, temperature, top_k, top_p)
    rows = logits.flatten(0, -2) if logits.dim() > 1 else logits[None]
    kept = (right.flatten(0, -2) if logits.dim() > 1 else right[None])[0] > 0
    if temperature == 0:
        return right
    return (rows / temperature).masked_fill(~kept, -torch.inf).softmax(-1).view(logits.shape)


FLOATS = "probabilities are floats"


def _right_but(temperature=None, top_k=None, top_p=None):
    """The right answer for other settings: each a function of (T, k, p), or None."""

    def answer(logits, t, k, p):
        return reference.next_token_probabilities(
            logits, temperature(t) if temperature else t, top_k(k) if top_k else k, top_p(p) if top_p else p
        )

    return answer


_next = Check(
    reference=reference.next_token_probabilities,
    cases=[
        random_logits("plain softmax, v = 7", 7),
        random_logits("temperature 0.5, b = 3, v = 6", 3, 6, temperature=0.5),
        random_logits("temperature 2", 2, 5, temperature=2.0),
        random_logits("temperature 80, logits in the hundreds", 3, 6, temperature=80.0, scale=100.0),
        random_logits("temperature 0: the likeliest", 4, 6, temperature=0.0),
        explicit_case(
            "temperature 0, two logits that are close",
            torch.tensor([[1.0, 1.00001, 0.5], [-2.0, 0.3, 0.29999]]),
            0.0,
            None,
            None,
        ),
        random_logits("top_k = 3 of 8", 2, 8, top_k=3),
        random_logits("top_k = 1", 3, 5, top_k=1),
        random_logits("top_k = 6 of 6: nothing is cut", 2, 6, top_k=6),
        random_logits("top_p = 1: nothing is cut", 3, 5, top_p=1.0),
        random_logits("temperature 0, with top_k and top_p", 2, 7, temperature=0.0, top_k=4, top_p=0.9),
        random_logits("temperature 0.01", 3, 4, temperature=0.01),
        random_logits(
            "temperature 2, top_k = 6, top_p = 0.7; two batch axes", 2, 3, 8, temperature=2.0, top_k=6, top_p=0.7
        ),
        given_probabilities("top_p = 0.5, first token 0.6", [0.1, 0.6, 0.1, 0.2], 1.0, None, 0.5),
        given_probabilities(
            "top_p = 0.7 of 0.48, 0.25, 0.15, … and of 0.66, 0.12, …",
            [[0.1, 0.48, 0.15, 0.25, 0.02], [0.66, 0.08, 0.12, 0.1, 0.04]],
            1.0,
            None,
            0.7,
        ),
        given_probabilities("top_k = 3, then top_p = 0.8", [0.3, 0.05, 0.4, 0.15, 0.1], 1.0, 3, 0.8),
        given_probabilities("temperature 3 and top_p = 0.6", [0.02, 0.8, 0.1, 0.05, 0.03], 3.0, None, 0.6),
        random_logits("temperature 1.5, top_k = 5, top_p = 0.83", 2, 9, temperature=1.5, top_k=5, top_p=0.83),
        explicit_case("logits near −1000, top_k = 3, then top_p = 0.9", normal(2, 7, mean=-1000.0), 1.0, 3, 0.9),
    ],
    within=(1e-4, 1e-6),
    properties=[
        Property(
            FLOATS,
            lambda output, *_: output.is_floating_point(),
            "The numbers are right, but they come as whole numbers: probabilities are floats.",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        multiplied_by_temperature=_right_but(temperature=lambda t: 1 / t if t else 0),
        temperature_applied_after_softmax=_right_but(temperature=lambda t: 1.0 if t else 0),
        temperature_as_power_probabilities=_power_of_probabilities,
        logits_instead_probabilities=lambda logits, t, k, p: logits / t if t else logits,
        softmax_probabilities=lambda logits, t, k, p: reference.next_token_probabilities(logits.softmax(-1), t, k, p),
        temperature_0_divides_by_zero=lambda logits, t, k, p: (
            reference.next_token_probabilities(logits, t, k, p) if t else (logits / t).softmax(-1)
        ),
        tiny_temperature_place_0=Wrong(
            lambda logits, t, k, p: reference.next_token_probabilities(logits, max(t, 1e-3), k, p),
            recognise=lambda seen: (
                seen.args[1] == 0
                and bool(((seen.output > 1e-6) & (seen.output < 1 - 1e-6)).any())
                and bool(((seen.output.sum(-1) - 1).abs() < 1e-4).all())
            ),
        ),
        temperature_0_forgotten_where_there=_plain_zero,
        exponential_that_overflows=_overflowing,
        compared_with_logit_after_k_th=Wrong(_behind_the_kth, raises="IndexError"),
        no_more_than_one_batch_axis=_rows_of_a_matrix,
        top_k_ignored=_right_but(top_k=lambda k: None),
        one_token_too_many_top_k=_right_but(top_k=lambda k: None if k is None else k + 1),
        one_token_too_few_top_k=lambda logits, t, k, p: _probabilities(logits, t, k, p, extra_k=-1),
        least_likely_tokens_kept=lambda logits, t, k, p: _probabilities(logits, t, k, p, lowest=True),
        not_made_sum_1_after_any_cut=lambda logits, t, k, p: _probabilities(
            logits, t, k, p, k_normal=False, p_normal=False
        ),
        not_made_sum_1_between_top_k_top_p=lambda logits, t, k, p: _probabilities(logits, t, k, p, k_normal=False),
        top_p_not_made_sum_1=lambda logits, t, k, p: _probabilities(logits, t, k, p, p_normal=False),
        top_p_ignored=_right_but(top_p=lambda p: None),
        top_p_drops_token_that_crosses_line=_without_crossing,
        top_p_stops_before_token_that_crosses=_first_kept_without_crossing,
        one_winner_whole_batch=_one_winner,
        top_p_without_sorting=_unsorted,
        sorted_order_left_as_it=_order_kept,
        brought_back_with_gather_instead=Wrong(
            _gathered,
            recognise=lambda seen: any(
                torch.allclose(seen.output, wrong(*seen.args), rtol=1e-3)
                for wrong in (_gathered, _gathered_after_top_k)
            ),
        ),
        whole_numbers_at_temperature_0=Wrong(
            _whole_at_zero, recognise=lambda seen: not seen.output.is_floating_point()
        ),
        top_p_measured_before_top_k=lambda logits, t, k, p: _probabilities(logits, t, k, p, full_mass=True),
        cuts_before_temperature=lambda logits, t, k, p: _probabilities(logits, t, k, p, cut_first=True),
        cut_logits_set_0=_cut_to_zero,
        first_rows_cut_all_rows=_first_row_for_all,
        one_threshold_all_rows=Wrong(_one_threshold, recognise=_right_in_some_rows),
        largest_logit_all_rows_taken_away=_one_largest_for_all,
    ),
)


def drive_loop(answer: Callable, table: Tensor, prompt: Tensor, n: int, context: int) -> tuple[Tensor, str, str, str]:
    """The tokens, whether the model ever read more than it may, how often it was called, and whether the prompt is as it was."""
    longest = calls = 0

    def model(tokens: Tensor) -> Tensor:
        nonlocal longest, calls
        longest, calls = max(longest, tokens.shape[1]), calls + 1
        return _riddle(table, tokens)

    def choose(logits: Tensor) -> Tensor:
        # The second largest, signs left out: a loop that chooses by itself is seen, and one that hands over probabilities
        return logits.abs().topk(2, dim=-1).indices[:, 1]

    seen = watch(answer, model, prompt, n, context, choose)
    return (
        seen.output,
        "the model never reads too much"
        if longest <= context
        else f"the model read {longest} tokens, and its context is {context}",
        f"calls of the model: {calls}",
        "the prompt is changed in place" if seen.modified else "the prompt is as it was",
    )


def _riddle(table: Tensor, tokens: Tensor) -> Tensor:
    """Logits that depend on all tokens that are read, and on their order: (b, m, v)."""
    where = torch.arange(1, tokens.shape[1] + 1, dtype=table.dtype)
    mixed = (table[tokens] * where[:, None].sin()).cumsum(dim=1) + table[tokens]  # (b, m, v)
    return (17 * mixed).sin()


def random_riddle(label: str, v: int, b: int, p: int, n: int, context: int) -> Case:
    table = RandomArg(lambda g: torch.randn(v, v, generator=g, dtype=torch.float64))
    return explicit_case(label, table, RandomArg(lambda g: torch.randint(v, (b, p), generator=g)), n, context)


def _loop(model, prompt, n, context, choose, *, window=None, logits=None, keep=None, returns=None, pick=None):
    """A right loop with one thing changed."""
    tokens = prompt
    for _ in range(n):
        tokens = keep(tokens, context) if keep else tokens
        read = window(tokens, context) if window else tokens[:, -context:]
        out = model(read)
        last = logits(out) if logits else out[:, -1]
        tokens = torch.cat([tokens, (pick or choose)(last)[:, None]], dim=1)
    return returns(tokens, prompt) if returns else tokens[:, prompt.shape[1] :]


def _first_tokens_lost(seen) -> bool:
    """Whether less than n tokens come back: the last ones of those that are right."""
    got, right = seen.output[0], drive_loop(reference.generate, *seen.args)[0]
    return 0 < got.shape[1] < right.shape[1] and torch.equal(got, right[:, -got.shape[1] :])


def _never_grows(model, prompt, n, context, choose):
    last = choose(model(prompt[:, -context:])[:, -1])
    return last[:, None].expand(-1, n)


_write = Check(
    reference=reference.generate,
    drive=drive_loop,
    cases=[
        random_riddle("prompt of 3, 5 to write, context 20", 13, 2, 3, 5, 20),
        random_riddle("context 4, prompt of 3, 6 to write", 17, 3, 3, 6, 4),
        random_riddle("prompt of 7 longer than the context 5", 19, 1, 7, 4, 5),
        random_riddle("one token to write", 11, 2, 4, 1, 6),
    ],
    misconceptions=wrong_answers(
        __file__,
        fed_beyond_context=lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens),
        first_tokens_kept_instead_last=lambda *inputs: _loop(
            *inputs, window=lambda tokens, context: tokens[:, :context]
        ),
        one_token_less_than_context=lambda *inputs: _loop(
            *inputs, window=lambda tokens, context: tokens[:, -(context - 1) :]
        ),
        only_newest_token_read=lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens[:, -1:]),
        prompt_left_out_after_first_token=lambda *inputs: _loop(
            *inputs,
            window=lambda tokens, context, p=inputs[1].shape[1]: (
                tokens[:, p:][:, -context:] if tokens.shape[1] > p else tokens[:, -context:]
            ),
        ),
        text_cut_good=lambda *inputs: _loop(*inputs, keep=lambda tokens, context: tokens[:, -context:]),
        text_cut_good_last_n_tokens_returned=Wrong(
            lambda *inputs: _loop(
                *inputs,
                keep=lambda tokens, context: tokens[:, -context:],
                returns=lambda tokens, prompt: tokens[:, -inputs[2] :],
            ),
            recognise=_first_tokens_lost,
        ),
        prompt_cut_once_before_loop=lambda model, prompt, n, context, choose: _loop(
            model, prompt[:, -context:], n, context, choose, window=lambda tokens, context: tokens
        ),
        text_never_grows=_never_grows,
        logits_first_position=lambda *inputs: _loop(*inputs, logits=lambda out: out[:, 0]),
        mean_all_positions=lambda *inputs: _loop(*inputs, logits=lambda out: out.mean(1)),
        choose_handed_probabilities=lambda *inputs: _loop(*inputs, logits=lambda out: out[:, -1].softmax(-1)),
        choose_handed_log_probabilities=lambda *inputs: _loop(*inputs, logits=lambda out: out[:, -1].log_softmax(-1)),
        likeliest_token_instead_choose=lambda *inputs: _loop(*inputs, pick=lambda last: last.argmax(-1)),
        prompt_returned_too=lambda *inputs: _loop(*inputs, returns=lambda tokens, prompt: tokens),
        one_call_model_too_many=lambda model, prompt, n, context, choose: _loop(model, prompt, n + 1, context, choose)[
            :, :-1
        ],
        first_new_token_lost=lambda *inputs: _loop(
            *inputs, returns=lambda tokens, prompt: tokens[:, prompt.shape[1] + 1 :]
        ),
    ),
)

generate = CheckGroup("generate", _next, _write)
