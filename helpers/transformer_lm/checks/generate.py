"""Checks of writing: probabilities of the next token under temperature, top-k and top-p, and the loop around a
model."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.drivers import watch
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import sampling as reference

__all__ = ["generate"]


def random_logits(
    label: str, *shape: int, temperature=1.0, top_k: int | None = None, top_p: float | None = None, scale=2.0
) -> Case:
    """Logits in which no two of a row are nearly equal, and no sum of probabilities lies near top_p by chance. Each row
    is flatter than the one before, and lies higher: what is right for one of them as a threshold isn't for the
    others."""
    rows = math.prod(shape[:-1])
    widths, levels = (torch.linspace(1, end, rows).view(*shape[:-1], 1) for end in (0.5, 3.0))

    def draw(generator: Generator) -> Tensor:
        places = torch.rand(shape, generator=generator).argsort(dim=-1)
        moved = levels + 0.1 * torch.rand(1, generator=generator)
        return scale * (widths * (places / shape[-1] * 4 - 2) + moved)

    return explicit_case(label, RandomArg(draw), temperature, top_k, top_p)


def given_probabilities(label: str, p: list, temperature: float, top_k: int | None, top_p: float | None) -> Case:
    return explicit_case(label, torch.tensor(p).log(), temperature, top_k, top_p)


def right(logits, temperature, top_k=None, top_p=None):
    return reference.next_token_probabilities(logits, temperature, top_k, top_p)


def warm(wrong: Callable) -> Callable:
    """Wrong where the temperature isn't 0."""
    return lambda logits, t, k, p: wrong(logits, t, k, p) if t else right(logits, 0)


def shares(p):
    return p / p.sum(-1, keepdim=True)


@dataclass(frozen=True)
class Cuts:
    """The steps of top-k and top-p."""

    extra_k: int = 0
    lowest: bool = False  # the least likely tokens are kept
    k_normal: bool = True  # made to sum to 1 after top-k
    p_normal: bool = True  # and after top-p
    full_mass: bool = False  # top-p is measured before top-k
    cut_first: bool = False  # before the temperature


@composable
def cut(**changed) -> Callable:
    """The probabilities, with these steps of the cuts changed."""
    steps = Cuts(**changed)

    def answer(logits, temperature, top_k, top_p):
        if temperature == 0:
            return right(logits, 0)
        ordered, order = (logits if steps.cut_first else logits / temperature).sort(-1, descending=not steps.lowest)
        p = whole = ordered.softmax(dim=-1)
        if top_k is not None:
            p = p * (torch.arange(p.shape[-1]) < top_k + steps.extra_k)
            p = shares(p) if steps.k_normal and not steps.full_mass else p
        if top_p is not None:
            mass = whole if steps.full_mass else p
            p = p * (mass.cumsum(-1) - mass < top_p)
        if steps.cut_first:
            p = (p.log() / temperature).softmax(-1)
        p = shares(p) if steps.p_normal and (top_p is not None or steps.full_mass) else p
        return torch.zeros_like(p).scatter(-1, order, p)

    return answer


def without_crossing(logits, temperature, top_k, top_p):
    """The token that crosses the line is dropped; where none is left, nothing is."""
    p = right(logits, temperature, top_k)
    if top_p is None:
        return p
    p, order = p.sort(dim=-1, descending=True)
    return torch.zeros_like(p).scatter(-1, order, shares(p * (p.cumsum(-1) <= top_p)))


def first_kept_without_crossing(logits, temperature, top_k, top_p):
    if top_p is None:
        return right(logits, temperature, top_k)
    p, order = right(logits, temperature, top_k).sort(dim=-1, descending=True)
    p = p * ((p.cumsum(-1) <= top_p) | (torch.arange(p.shape[-1]) == 0))
    return torch.zeros_like(p).scatter(-1, order, shares(p))


def one_winner(logits, temperature, top_k, top_p):
    if temperature:
        return right(logits, temperature, top_k, top_p)
    return (torch.arange(logits.numel()) == logits.argmax()).view(logits.shape).to(logits.dtype)


def plain_zero(logits, temperature, top_k, top_p):
    if temperature == 0 and top_k is None and top_p is None:
        return right(logits, 0)
    return right(logits, temperature or 1.0, top_k, top_p)


def overflowing(logits, temperature, top_k, top_p):
    return shares(shares((logits / temperature).exp()) * (right(logits, temperature, top_k, top_p) > 0))


def one_largest_for_all(logits, temperature, top_k, top_p):
    """A softmax by hand: e to the power of what lies below the largest logit of all rows."""
    powers = (logits / temperature - (logits / temperature).max()).exp()
    return shares(powers * (right(logits, temperature, top_k, top_p) > 0))


def behind_the_kth(logits, temperature, top_k, top_p):
    if top_k is not None:
        logits.sort(dim=-1, descending=True).values[..., top_k]
    return right(logits, temperature, top_k, top_p)


def rows_of_a_matrix(logits, temperature, top_k, top_p):
    """The cut of the first row of a matrix for all of them, where there are several matrices."""
    found = right(logits, temperature, top_k, top_p)
    if logits.dim() < 3:
        return found
    return (logits / temperature).masked_fill(found[:, :1] == 0, -torch.inf).softmax(-1)


def first_row_for_all(logits, temperature, top_k, top_p):
    kept = right(logits, temperature, top_k, top_p).view(-1, logits.shape[-1])[0] > 0
    return (logits / temperature).masked_fill(~kept, -torch.inf).softmax(-1)


def unsorted(logits, temperature, top_k, top_p):
    p = right(logits, temperature, top_k)
    return p if top_p is None else shares(p * (p.cumsum(-1) - p < top_p))


def order_kept(logits, temperature, top_k, top_p):
    found = right(logits, temperature, top_k, top_p)
    return found if top_k is None and top_p is None else found.sort(dim=-1, descending=True).values


def gathered(logits, temperature, top_k, top_p):
    """Sorted, and sorted by the same order once more: that of the logits, among tokens that were cut too."""
    order = logits.argsort(dim=-1, descending=True)
    return right(logits, temperature, top_k, top_p).gather(-1, order).gather(-1, order)


def gathered_after_top_k(logits, temperature, top_k, top_p):
    """The same for top-p alone, whose order is that of what top-k has left."""
    found, order = right(logits, temperature, top_k, top_p), right(logits, temperature, top_k).argsort(-1, True)
    return found if top_p is None else found.gather(-1, order).gather(-1, order)


def one_threshold(logits, temperature, top_k, top_p):
    """The least probability that top-k leaves in any row, and the least that top-p leaves, cut off in all of them."""
    p = (logits / temperature).softmax(-1)
    for cuts in ((top_k, None), (None, top_p)):
        kept = right(p.log(), 1.0, *cuts) > 0
        p = shares(p * (p >= p[kept].min()))
    return p


def _right_in_some_rows(seen) -> bool:
    """Where something is cut, in several rows: a softmax of the likeliest tokens in each row, but of as many as is
    right in some rows only."""
    logits, temperature, top_k, top_p = seen.args
    got, right = seen.output, reference.next_token_probabilities(*seen.args)
    if temperature == 0 or (top_k is None and top_p is None) or logits.dim() < 2:
        return False
    counts, wanted = (got > 0).sum(-1, keepdim=True), (right > 0).sum(-1, keepdim=True)
    likeliest = logits.argsort(dim=-1, descending=True).argsort(dim=-1) < counts
    cut = (logits / temperature).masked_fill(~likeliest, -torch.inf).softmax(-1)
    some = (counts == wanted).any() and (counts != wanted).any()
    return bool(some) and torch.allclose(got, cut, rtol=1e-3, atol=1e-5, equal_nan=True)


def nearly_greedy(seen) -> bool:
    """At temperature 0 something that sums to 1, and isn't 0 or 1 everywhere."""
    got = seen.output
    between, sums = (got > 1e-6) & (got < 1 - 1e-6), (got.sum(-1) - 1).abs()
    return seen.args[1] == 0 and bool(between.any()) and bool((sums < 1e-4).all())


FLOATS = "probabilities are floats"

NEARLY_EQUAL = torch.tensor([[1.0, 1.00001, 0.5], [-2.0, 0.3, 0.29999]])

_next = Check(
    reference=reference.next_token_probabilities,
    cases=[
        random_logits("plain softmax, v = 7", 7),
        random_logits("temperature 0.5, b = 3, v = 6", 3, 6, temperature=0.5),
        random_logits("temperature 2", 2, 5, temperature=2.0),
        random_logits("temperature 80, logits in the hundreds", 3, 6, temperature=80.0, scale=100.0),
        random_logits("temperature 0: the likeliest", 4, 6, temperature=0.0),
        explicit_case("temperature 0, two logits that are close", NEARLY_EQUAL, 0.0, None, None),
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
        multiplied=lambda logits, t, k, p: right(logits, 1 / t if t else 0, k, p),
        after_softmax=lambda logits, t, k, p: right(logits, 1.0 if t else 0, k, p),
        power_of_probabilities=warm(lambda logits, t, k, p: right(logits.softmax(-1).log() / t, 1.0, k, p)),
        logits=lambda logits, t, k, p: logits / t if t else logits,
        softmax_twice=lambda logits, t, k, p: right(logits.softmax(-1), t, k, p),
        divided_by_0=lambda logits, t, k, p: right(logits, t, k, p) if t else (logits / t).softmax(-1),
        tiny_temperature=Wrong(lambda logits, t, k, p: right(logits, max(t, 1e-3), k, p), recognise=nearly_greedy),
        plain_zero=plain_zero,
        overflowing=warm(overflowing),
        behind_the_kth=Wrong(behind_the_kth, raises="IndexError"),
        rows_of_a_matrix=warm(rows_of_a_matrix),
        no_top_k=lambda logits, t, k, p: right(logits, t, None, p),
        k_plus_1=lambda logits, t, k, p: right(logits, t, k and k + 1, p),
        k_minus_1=cut(extra_k=-1),
        least_likely=cut(lowest=True),
        never_normalised=cut(k_normal=False, p_normal=False),
        not_normalised_between=cut(k_normal=False),
        top_p_not_normalised=cut(p_normal=False),
        no_top_p=lambda logits, t, k, p: right(logits, t, k),
        without_crossing=warm(without_crossing),
        first_kept_without_crossing=warm(first_kept_without_crossing),
        one_winner=one_winner,
        unsorted=warm(unsorted),
        order_kept=order_kept,
        gathered=Wrong(
            warm(gathered),
            recognise=lambda seen: any(
                torch.allclose(seen.output, warm(wrong)(*seen.args), rtol=1e-3)
                for wrong in (gathered, gathered_after_top_k)
            ),
        ),
        whole_at_0=Wrong(
            lambda logits, t, k, p: right(logits, t, k, p) if t else right(logits, 0).long(),
            recognise=lambda seen: not seen.output.is_floating_point(),
        ),
        top_p_before_top_k=cut(full_mass=True),
        before_temperature=cut(cut_first=True),
        cut_to_0=warm(lambda logits, t, k, p: torch.where(right(logits, t, k, p) > 0, logits / t, 0.0).softmax(-1)),
        first_row_for_all=warm(first_row_for_all),
        one_threshold=Wrong(warm(one_threshold), recognise=_right_in_some_rows),
        one_largest_for_all=warm(one_largest_for_all),
    ),
)


def drive_loop(answer: Callable, table: Tensor, prompt: Tensor, n: int, context: int) -> tuple[Tensor, str, str, str]:
    """The tokens, whether the model ever read more than it may, how often it was called, and whether the prompt is as
    it was."""
    longest = calls = 0

    def model(tokens: Tensor) -> Tensor:
        nonlocal longest, calls
        longest, calls = max(longest, tokens.shape[1]), calls + 1
        return _riddle(table, tokens)

    def choose(logits: Tensor) -> Tensor:
        # The second largest, signs left out: a loop that chooses by itself is seen, or one that gives probabilities
        return logits.abs().topk(2, dim=-1).indices[:, 1]

    seen = watch(answer, model, prompt, n, context, choose)
    read = f"the model read {longest} tokens, and its context is {context}"
    read = "the model never reads too much" if longest <= context else read
    kept = "the prompt is changed in place" if seen.modified else "the prompt is as it was"
    return seen.output, read, f"calls of the model: {calls}", kept


def _riddle(table: Tensor, tokens: Tensor) -> Tensor:
    """Logits that depend on all tokens that are read, and on their order: (b, m, v)."""
    where = torch.arange(1, tokens.shape[1] + 1, dtype=table.dtype)
    mixed = (table[tokens] * where[:, None].sin()).cumsum(dim=1) + table[tokens]  # (b, m, v)
    return (17 * mixed).sin()


def random_riddle(label: str, v: int, b: int, p: int, n: int, context: int) -> Case:
    table = RandomArg(lambda g: torch.randn(v, v, generator=g, dtype=torch.float64))
    return explicit_case(label, table, RandomArg(lambda g: torch.randint(v, (b, p), generator=g)), n, context)


@dataclass(frozen=True)
class Loop:
    """The steps of writing."""

    begun: Callable = lambda prompt, context: prompt
    steps: Callable = lambda n: n
    kept: Callable = lambda tokens, context: tokens  # of all that is written
    read: Callable = lambda tokens, context, p: tokens[:, -context:]  # p: tokens of the prompt
    last: Callable = lambda out: out[:, -1]
    chosen: Callable = lambda choose, logits: choose(logits)
    told: Callable = lambda tokens, p, n: tokens[:, p:]


@composable
def loop(**changed) -> Callable:
    """The loop around a model with these steps changed."""
    steps = Loop(**changed)

    def answer(model, prompt, n, context, choose):
        tokens = steps.begun(prompt, context)
        p = tokens.shape[1]
        for _ in range(steps.steps(n)):
            tokens = steps.kept(tokens, context)
            out = steps.last(model(steps.read(tokens, context, p)))
            tokens = torch.cat([tokens, steps.chosen(choose, out)[:, None]], dim=1)
        return steps.told(tokens, p, n)

    return answer


def all_read(tokens, context, p):
    return tokens


def prompt_forgotten(tokens, context, p):
    return (tokens[:, p:] if tokens.shape[1] > p else tokens)[:, -context:]


def last_kept(tokens, context):
    return tokens[:, -context:]


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
    names=("the text: sequences tokens", "what the model read", "the number of calls", "the prompt"),
    cases=[
        random_riddle("prompt of 3, 5 to write, context 20", 13, 2, 3, 5, 20),
        random_riddle("context 4, prompt of 3, 6 to write", 17, 3, 3, 6, 4),
        random_riddle("prompt of 7 longer than the context 5", 19, 1, 7, 4, 5),
        random_riddle("one token to write", 11, 2, 4, 1, 6),
    ],
    misconceptions=wrong_answers(
        __file__,
        all_read=loop(read=all_read),
        first_read=loop(read=lambda tokens, context, p: tokens[:, :context]),
        one_less_read=loop(read=lambda tokens, context, p: tokens[:, -(context - 1) :]),
        newest_read=loop(read=lambda tokens, context, p: tokens[:, -1:]),
        prompt_forgotten=loop(read=prompt_forgotten),
        cut_for_good=loop(kept=last_kept),
        cut_for_good_and_last_returned=Wrong(
            loop(kept=last_kept, told=lambda tokens, p, n: tokens[:, -n:]), recognise=_first_tokens_lost
        ),
        prompt_cut=loop(begun=last_kept, read=all_read),
        never_grows=_never_grows,
        first_position=loop(last=lambda out: out[:, 0]),
        mean_of_positions=loop(last=lambda out: out.mean(1)),
        probabilities=loop(last=lambda out: out[:, -1].softmax(-1)),
        log_probabilities=loop(last=lambda out: out[:, -1].log_softmax(-1)),
        likeliest=loop(chosen=lambda choose, logits: logits.argmax(-1)),
        prompt_returned=loop(told=lambda tokens, p, n: tokens),
        one_call_too_many=loop(steps=lambda n: n + 1, told=lambda tokens, p, n: tokens[:, p:-1]),
        first_token_lost=loop(told=lambda tokens, p, n: tokens[:, p + 1 :]),
    ),
)

generate = CheckGroup("generate", _next, _write)
