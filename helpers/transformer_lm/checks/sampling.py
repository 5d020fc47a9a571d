"""Checks of writing: probabilities of the next token under temperature, top-k and top-p, and the loop around a model."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.drivers import watch

from .. import sampling as reference

__all__ = ["generate"]

# ------------------------------------------------------------------------------------------------------ probabilities


def random_logits(
    label: str,
    *shape: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    scale=2.0,
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


def _kept(logits, keep):
    """Softmax of the logits where `keep`, in order of their size, says so."""
    ordered, order = logits.sort(dim=-1, descending=True)
    p = ordered.masked_fill(~keep(ordered), -torch.inf).softmax(dim=-1)
    return torch.zeros_like(p).scatter(-1, order, p)


def _probabilities(logits, temperature, top_k, top_p, *, extra_k=0, crossing=True, full_mass=False, lowest=False,
                   k_normal=True, p_normal=True, cut_first=False):  # fmt: skip
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
        explicit_case("temperature 0, two logits that are close", torch.tensor([[1.0, 1.00001, 0.5], [-2.0, 0.3, 0.29999]]), 0.0, None, None),
        random_logits("top_k = 3 of 8", 2, 8, top_k=3),
        random_logits("top_k = 1", 3, 5, top_k=1),
        random_logits("top_k = 6 of 6: nothing is cut", 2, 6, top_k=6),
        random_logits("top_p = 1: nothing is cut", 3, 5, top_p=1.0),
        random_logits("temperature 0, with top_k and top_p", 2, 7, temperature=0.0, top_k=4, top_p=0.9),
        random_logits("temperature 0.01", 3, 4, temperature=0.01),
        random_logits("temperature 2, top_k = 6, top_p = 0.7; two batch axes", 2, 3, 8, temperature=2.0, top_k=6, top_p=0.7),
        given_probabilities("top_p = 0.5, first token 0.6", [0.1, 0.6, 0.1, 0.2], 1.0, None, 0.5),
        given_probabilities("top_p = 0.7 of 0.48, 0.25, 0.15, … and of 0.66, 0.12, …", [[0.1, 0.48, 0.15, 0.25, 0.02], [0.66, 0.08, 0.12, 0.1, 0.04]], 1.0, None, 0.7),
        given_probabilities("top_k = 3, then top_p = 0.8", [0.3, 0.05, 0.4, 0.15, 0.1], 1.0, 3, 0.8),
        given_probabilities("temperature 3 and top_p = 0.6", [0.02, 0.8, 0.1, 0.05, 0.03], 3.0, None, 0.6),
        random_logits("temperature 1.5, top_k = 5, top_p = 0.83", 2, 9, temperature=1.5, top_k=5, top_p=0.83),
        explicit_case("logits near −1000, top_k = 3, then top_p = 0.9", normal(2, 7, mean=-1000.0), 1.0, 3, 0.9),
    ],
    within=(1e-4, 1e-6),
    properties=[Property(FLOATS, lambda output, *_: output.is_floating_point(), "The numbers are right, but they come as whole numbers: probabilities are floats.")],
    misconceptions=[
        Misconception(
            "multiplied by the temperature", _right_but(temperature=lambda t: 1 / t if t else 0),
            "A *high* temperature makes all tokens more alike, so it divides the logits.",
        ),
        Misconception(
            "the temperature applied after the softmax", _right_but(temperature=lambda t: 1.0 if t else 0),
            "Your temperature has no effect: dividing probabilities by T and making them sum to 1 again gives the same ones. Divide the logits, before the softmax.",
        ),
        Misconception(
            "the temperature as a power of the probabilities", _power_of_probabilities,
            "p^(1/T) is the same on paper. But a softmax rounds what lies far below the largest to 0, and no power brings it back. Divide the logits, before the softmax.",
        ),
        Misconception(
            "logits instead of probabilities", lambda logits, t, k, p: logits / t if t else logits,
            "These are scores: they can be negative and don't sum to 1. Take the softmax.",
        ),
        Misconception(
            "a softmax of probabilities", lambda logits, t, k, p: reference.next_token_probabilities(logits.softmax(-1), t, k, p),
            "Two softmaxes make everything nearly equal. Temperature and cuts work on the logits.",
        ),
        Misconception(
            "temperature 0 divides by zero", lambda logits, t, k, p: reference.next_token_probabilities(logits, t, k, p) if t else (logits / t).softmax(-1),
            "Temperature 0 is a case of its own: probability 1 for the likeliest token, 0 for all others.",
        ),
        Misconception(
            "a tiny temperature in the place of 0", lambda logits, t, k, p: reference.next_token_probabilities(logits, max(t, 1e-3), k, p),
            "Where two logits lie close together, even a tiny temperature leaves probability to both. T = 0 is a case of its own: probability 1 for the likeliest.",
            lambda seen: seen.args[1] == 0 and bool(((seen.output > 1e-6) & (seen.output < 1 - 1e-6)).any())
            and bool(((seen.output.sum(-1) - 1).abs() < 1e-4).all()),
        ),
        Misconception(
            "temperature 0 forgotten where there are cuts", _plain_zero,
            "Temperature 0 means the likeliest token, with top_k and top_p as well: they never cut that one away.",
        ),
        Misconception(
            "an exponential that overflows", _overflowing,
            "A small temperature makes large logits, and e^400 is infinite. `torch.softmax` takes the largest away first.",
        ),
        Misconception(
            "compared with the logit after the k-th", _behind_the_kth,
            "`logits > sorted[k]` is right as long as there is an entry k. With k = v there is none: compare with the k-th, `>= sorted[k − 1]`.",
            raises="IndexError",
        ),
        Misconception(
            "no more than one batch axis", _rows_of_a_matrix,
            "`*batch` means none, one or several axes before the last: sort, add up and scatter along `dim=-1`, and leave the others alone.",
        ),
        Misconception("top_k is ignored", _right_but(top_k=lambda k: None), "Only the k likeliest tokens keep a probability."),
        Misconception(
            "one token too many in top-k", _right_but(top_k=lambda k: None if k is None else k + 1),
            "k tokens stay. With `logits >= sorted[k]` there are k + 1: the k-th largest has index k − 1.",
        ),
        Misconception(
            "one token too few in top-k", lambda logits, t, k, p: _probabilities(logits, t, k, p, extra_k=-1),
            "k tokens stay. With `>` instead of `≥` the k-th falls out; with k = 1 nothing is left.",
        ),
        Misconception(
            "the least likely tokens kept", lambda logits, t, k, p: _probabilities(logits, t, k, p, lowest=True),
            "Sorted upwards, the first k are the *worst*. Sort with descending=True.",
        ),
        Misconception(
            "not made to sum to 1 after any cut", lambda logits, t, k, p: _probabilities(logits, t, k, p, k_normal=False, p_normal=False),
            "What is left after a cut must sum to 1 again.",
        ),
        Misconception(
            "not made to sum to 1 between top-k and top-p", lambda logits, t, k, p: _probabilities(logits, t, k, p, k_normal=False),
            "What top-k leaves must sum to 1 again, whether top-p follows or not: top_p is a share of what is left then.",
        ),
        Misconception(
            "top_p not made to sum to 1", lambda logits, t, k, p: _probabilities(logits, t, k, p, p_normal=False),
            "After the cut the probabilities of the tokens that stay must sum to 1.",
        ),
        Misconception("top_p is ignored", _right_but(top_p=lambda p: None), "Keep the smallest set of likeliest tokens that holds at least top_p."),
        Misconception(
            "top-p drops the token that crosses the line", _without_crossing,
            "`cumsum <= top_p` drops the token with which the sum reaches top_p; if the first one is that likely, nothing at all is left. A token stays if those *before* it hold less than top_p.",
        ),
        Misconception(
            "top-p stops before the token that crosses the line", _first_kept_without_crossing,
            "The first token stays, but the one with which the sum reaches top_p is dropped, so less than top_p is held. A token stays if those *before* it hold less than top_p.",
        ),
        Misconception(
            "one winner for the whole batch", _one_winner,
            "`argmax()` without an axis finds one place among all rows. Each row has its own likeliest token: `argmax(dim=-1)`.",
        ),
        Misconception(
            "top-p without sorting", _unsorted,
            "Sort first: the sum must run from the likeliest token to the least likely, not in the order of the vocabulary.",
        ),
        Misconception(
            "the sorted order left as it is", _order_kept,
            "Your numbers are sorted: they belong to other tokens now. Bring them back to the places of the vocabulary (`scatter`, or compare with a threshold).",
        ),
        Misconception(
            "brought back with `gather` instead of `scatter`", _gathered,
            "`p.gather(-1, order)` sorts once more by the same order, and that undoes a sort only where tokens were swapped in pairs. To bring entry j to the "
            "place order[j], *write* there: `torch.zeros_like(p).scatter(-1, order, p)`.",
            lambda seen: any(torch.allclose(seen.output, wrong(*seen.args), rtol=1e-3) for wrong in (_gathered, _gathered_after_top_k)),
        ),
        Misconception(
            "whole numbers at temperature 0", _whole_at_zero,
            "`F.one_hot` makes whole numbers, and `torch.multinomial` takes none. A probability is a float at T = 0 too: `.to(logits.dtype)`.",
            lambda seen: not seen.output.is_floating_point(),
        ),
        Misconception(
            "top-p measured before top-k", lambda logits, t, k, p: _probabilities(logits, t, k, p, full_mass=True),
            "Make the probabilities sum to 1 after top-k already: top_p is a share of what is left then.",
        ),
        Misconception(
            "cuts before the temperature", lambda logits, t, k, p: _probabilities(logits, t, k, p, cut_first=True),
            "The temperature comes first: it changes how many tokens it takes to hold top_p.",
        ),
        Misconception(
            "cut logits set to 0", _cut_to_zero,
            "A logit of 0 gives a probability as any other does. What is cut gets −∞.",
        ),
        Misconception(
            "the first row's cut for all rows", _first_row_for_all,
            "Every row of the batch has its own likeliest tokens.",
        ),
        Misconception(
            "one threshold for all rows", _one_threshold,
            "In some rows your cut is right, and in others of the same batch too many tokens stay, or too few. Each row has its own k-th largest probability, and reaches top_p after a "
            "number of tokens of its own: `min()`, `max()` or `[0]` over the batch makes one threshold for all. `values[..., -1:]` keeps one for each row.",
            _right_in_some_rows,
        ),
        Misconception(
            "the largest logit of all rows taken away", _one_largest_for_all,
            "`logits.max()` is one number for the whole batch. A row that lies far below it has powers of 0 alone, and 0/0 is NaN. `amax(dim=-1, keepdim=True)` is each row's own largest.",
        ),
    ],
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- loop


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
    misconceptions=[
        Misconception(
            "fed beyond the context", lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens),
            "The model was trained on `context` tokens. Where the text is longer, it reads its last `context` tokens.",
        ),
        Misconception(
            "the first tokens kept instead of the last", lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens[:, :context]),
            "`tokens[:, :context]` is the beginning: once the text is longer, new tokens are never read. Take the end.",
        ),
        Misconception(
            "one token less than the context", lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens[:, -(context - 1) :]),
            "The model may read `context` tokens.",
        ),
        Misconception(
            "only the newest token read", lambda *inputs: _loop(*inputs, window=lambda tokens, context: tokens[:, -1:]),
            "Without a cache (unit 08) the model knows nothing of the text but what it is given.",
        ),
        Misconception(
            "the prompt left out after the first token",
            lambda *inputs: _loop(*inputs, window=lambda tokens, context, p=inputs[1].shape[1]: tokens[:, p:][:, -context:] if tokens.shape[1] > p else tokens[:, -context:]),
            "The text is the prompt and all that was written since.",
        ),
        Misconception(
            "the text cut for good", lambda *inputs: _loop(*inputs, keep=lambda tokens, context: tokens[:, -context:]),
            "Cut what the model *reads*, and keep the whole text: once it is cut itself, the new tokens no longer begin at index p.",
        ),
        Misconception(
            "the text cut for good, and its last n tokens returned",
            lambda *inputs: _loop(*inputs, keep=lambda tokens, context: tokens[:, -context:], returns=lambda tokens, prompt: tokens[:, -inputs[2] :]),
            "Cut what the model *reads*, and keep the whole text: what is cut off for good can't be returned.",
            _first_tokens_lost,
        ),
        Misconception(
            "the prompt cut once, before the loop",
            lambda model, prompt, n, context, choose: _loop(model, prompt[:, -context:], n, context, choose, window=lambda tokens, context: tokens),
            "The text grows, and so it must be cut in every round: the model reads its last `context` tokens each time.",
        ),
        Misconception(
            "the text never grows", _never_grows,
            "Append each new token before you ask for the next one.",
        ),
        Misconception(
            "the logits of the first position", lambda *inputs: _loop(*inputs, logits=lambda out: out[:, 0]),
            "Row i of the logits speaks of token i + 1. The last row says what comes next.",
        ),
        Misconception(
            "the mean of all positions", lambda *inputs: _loop(*inputs, logits=lambda out: out.mean(1)),
            "Only the last row speaks of the token that isn't there yet.",
        ),
        Misconception(
            "`choose` is handed probabilities", lambda *inputs: _loop(*inputs, logits=lambda out: out[:, -1].softmax(-1)),
            "`choose` takes logits, as the model gives them: temperature and softmax are its own business.",
        ),
        Misconception(
            "`choose` is handed log-probabilities", lambda *inputs: _loop(*inputs, logits=lambda out: out[:, -1].log_softmax(-1)),
            "`choose` takes logits, as the model gives them: before any softmax or logarithm.",
        ),
        Misconception(
            "the likeliest token instead of `choose`", lambda *inputs: _loop(*inputs, pick=lambda last: last.argmax(-1)),
            "How a token is chosen is the caller's business: call `choose` with the logits.",
        ),
        Misconception(
            "the prompt returned too", lambda *inputs: _loop(*inputs, returns=lambda tokens, prompt: tokens),
            "Only the n new tokens are asked for.",
        ),
        Misconception(
            "one call of the model too many",
            lambda model, prompt, n, context, choose: _loop(model, prompt, n + 1, context, choose)[:, :-1],
            "n tokens take n calls of the model. Yours writes one more and throws it away.",
        ),
        Misconception(
            "the first new token lost", lambda *inputs: _loop(*inputs, returns=lambda tokens, prompt: tokens[:, prompt.shape[1] + 1 :]),
            "Yours returns n − 1 tokens: new ones begin at index p, the length of the prompt.",
        ),
    ],
)  # fmt: skip

generate = CheckGroup("generate", _next, _write)
