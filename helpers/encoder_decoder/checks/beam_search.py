"""The check of `beam_search`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import call, unpack
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import decoding as reference
from ..model import END, PAD, START

__all__ = ["beam_search"]

TOO_MANY = 200  # hypotheses in one call: a beam that never gets narrower would take minutes


def tree(seed: int, v: int, end: float, spread: float = 1.5) -> Callable:
    """Log-probabilities (v) of the next token after a prefix: drawn for each prefix, always the same. end: added to
    END's logit; spread: how far the others lie apart."""

    def after(prefix: tuple[int, ...]) -> Tensor:
        number = sum((token + 1) * 31**place for place, token in enumerate(prefix)) % 2**40
        logits = spread * torch.randn(v, generator=Generator().manual_seed(seed * 7919 + number), dtype=torch.float64)
        logits[PAD] = logits[START] = -9.0
        logits[END] += end
        return logits.log_softmax(dim=-1)

    return after


def spelled(chances: dict[tuple[int, ...], dict[int, float]], v: int) -> Callable:
    """The same from a table: after a prefix (without START) these tokens, each with its probability."""

    def after(prefix: tuple[int, ...]) -> Tensor:
        found = torch.full((v,), 1e-9, dtype=torch.float64)
        for token, chance in chances.get(prefix[1:], {END: 1.0}).items():
            found[token] = chance
        return (found / found.sum()).log()

    return after


def _searched(answer: Callable, after: Callable, k: int, longest: int, alpha: float) -> dict:
    """The tokens, their score, and how often the model was asked: by name, for an answer returns the first two
    alone."""
    rows: list[int] = []  # of each call

    def next_log_probs(prefixes):
        rows.append(len(prefixes))
        if len(prefixes) > TOO_MANY:
            raise ValueError
        return torch.stack([after(tuple(row)) for row in prefixes.tolist()]).float()

    next_log_probs.__qualname__ = "next_log_probs"
    tokens, score = unpack(call(answer, next_log_probs, k, longest, alpha), "tokens", "score")
    tokens = torch.tensor([int(token) for token in tokens], dtype=torch.long)
    return {"the list of tokens": tokens, "the score": float(score), "the way to it": _manner(rows, k, longest)}


def _manner(rows: list[int], k: int, longest: int) -> Message:
    """How the model was asked, in words."""
    if len(rows) > longest:
        return Message(f"{len(rows)} calls, and {longest} steps are the most")
    if rows and rows[0] > 1:
        return Message(f"{rows[0]} hypotheses at the start, and one is enough")
    if max(rows, default=0) > k:
        return Message(f"{max(rows)} hypotheses in one call, and {k} are the most")
    return Message("one call per step")


def best_of_all(every, room, k):
    return sorted(sum(every, []), key=lambda one: -one[0])[:room]


def best_of_each(every, room, k):
    """Each hypothesis keeps its own best continuation."""
    return [max(row) for row in every] if len(every) >= k else sorted(sum(every, []), reverse=True)[:k]


def one_of_each(every, room, k):
    best = sorted((max(row) for row in every), key=lambda one: -one[0])
    return best[:room] if len(every) > 1 else best_of_all(every, room, k)


@dataclass(frozen=True)
class Beam:
    """The steps of a search. A hypothesis is (total, tokens), START first."""

    width: Callable = lambda k: k
    limit: Callable = lambda longest: longest
    asked: Callable = lambda next_log_probs, k: next_log_probs
    begin: float = 0.0
    copied: bool = False  # k hypotheses at the start
    add: Callable = lambda total, new, length, alpha: total + new
    choose: Callable = best_of_all  # (continuations of each hypothesis, room, k) → hypotheses
    narrow: bool = True  # the finished keep their places
    twice: bool = False  # their places are taken off k again and again
    ends: bool = True  # END ends a hypothesis
    eager: str = ""  # every END counts, chosen or not: "too", or "first", and the others share the rest
    lost: bool = False  # what has ended is forgotten
    free_end: bool = False  # END costs nothing
    hasty: bool = False  # one that has finished ends the search
    patient: bool = False  # k that have finished don't
    leads: Callable | None = None  # (hypothesis, alpha) → by what a finished one may lead, which ends the search
    drop: bool = False  # what is alive at the end of a search is dropped
    late: bool = True  # what is alive counts beside the finished
    by_sum: bool = False  # the largest sum wins
    score: Callable = lambda total: total
    penalty: Callable = lambda written, alpha, longest: ((5 + len(written)) / 6) ** alpha
    told: Callable = lambda tokens, score, alpha: (tokens, score)


@composable
def beam(**changed) -> Callable:
    """Beam search with these steps changed."""
    steps = Beam(**changed)

    def search(next_log_probs, k, longest, alpha):
        k = steps.width(k)
        ask, live, finished = steps.asked(next_log_probs, k), [(steps.begin, [START])] * (k if steps.copied else 1), []
        for length in range(1, steps.limit(longest) + 1):
            log_p = ask(torch.tensor([tokens for _, tokens in live])).tolist()
            every = [
                [(steps.add(total, new, length, alpha), [*tokens, token]) for token, new in enumerate(row)]
                for (total, tokens), row in zip(live, log_p, strict=True)
            ]
            best = steps.choose(every, k - len(finished) if steps.narrow and not steps.twice else k, k)
            if not steps.ends:
                live = best
                continue
            ended = [one for one in (sum(every, []) if steps.eager else best) if one[1][-1] == END]
            sums = {tuple(tokens): total for total, tokens in live}
            ended = [(sums[tuple(one[1][:-1])], one[1]) for one in ended] if steps.free_end else ended
            finished += [] if steps.lost else ended
            live = [one for one in best if one[1][-1] != END]
            if steps.eager == "first":
                others = [one for one in sum(every, []) if one[1][-1] != END]
                live = sorted(others, key=lambda one: -one[0])[: max(0, k - len(finished))]
            k = k - len(finished) if steps.twice else k
            led = steps.leads and live and finished
            led = led and max(steps.leads(one, alpha) for one in finished) >= max(
                steps.leads(one, alpha) for one in live
            )
            full = k <= 0 or (len(finished) >= k and not (steps.patient or steps.twice))
            if led or full or not live or (steps.hasty and finished):
                live = [] if steps.drop else live
                break
        hypotheses = finished + (live if steps.late or not finished else []) or [(-math.inf, [START])]
        hypotheses = [max(hypotheses)] if steps.by_sum else hypotheses
        scored = [
            (steps.score(total) / steps.penalty(tokens[1:], alpha, longest), tokens) for total, tokens in hypotheses
        ]
        best, tokens = max(scored, key=lambda one: one[0])
        return steps.told(tokens[1:], best, alpha)

    return search


def _underflowed(seen) -> bool:
    """The score is the logarithm of 0, and the first tokens are right."""
    tokens, score, _ = seen.output.values()
    right, *_ = _searched(reference.beam_search, *seen.args).values()
    return score == -math.inf and torch.equal(tokens[:12], right[:12])


def score_so_far(one, alpha):
    return one[0] / ((4 + len(one[1])) / 6) ** alpha


def sum_so_far(one, alpha):
    return one[0]


def twice_as_many(next_log_probs, k):
    def enough(prefixes):
        log_p = next_log_probs(prefixes)
        log_p.flatten().topk(2 * k)  # an error where there are not so many
        return log_p

    return enough


def one_by_one(next_log_probs, k):
    return lambda prefixes: torch.cat([next_log_probs(row[None]) for row in prefixes])


def times_probability(total, new, length, alpha):
    return total * math.exp(new)


# Greedy takes 3 (0.5); the best sentence begins with 4 (0.4). Tokens: 3 = a, 4 = b, 5 = c.
TEMPTING = spelled({(): {3: 0.5, 4: 0.4, 5: 0.1}, (3,): {3: 0.4, 4: 0.3, 5: 0.3}, (4,): {5: 0.9, 3: 0.1}}, 7)

# A short sentence of 0.38 leads after one step, and a long one of 0.28 overtakes it: the length penalty decides.
LONG = spelled(
    {
        (): {END: 0.38, 3: 0.36, 4: 0.26},
        (3,): {4: 0.9, 5: 0.1},
        (3, 4): {5: 0.95, 3: 0.05},
        (3, 4, 5): {3: 0.95, 4: 0.05},
        (3, 4, 5, 3): {END: 0.96, 4: 0.04},
        (4,): {5: 0.6, 3: 0.4},
    },
    8,
)

# The short sentence has the best sum from the third step on, but never the best score.
LATE = spelled(
    {
        (): {3: 0.5, END: 0.38, 4: 0.12},
        (3,): {4: 0.9, 5: 0.1},
        (3, 4): {5: 0.8, 3: 0.2},
        (3, 4, 5): {END: 0.95, 4: 0.05},
    },
    7,
)

beam_search = Check(
    reference=reference.beam_search,
    drive=_searched,
    counts=False,
    cases=[
        explicit_case("a tempting first word, k = 2", TEMPTING, 2, 6, 0.6),
        explicit_case("a short sentence against a long one, k = 3", LONG, 3, 8, 1.0),
        explicit_case("a sum that leads late, k = 2", LATE, 2, 6, 1.0),
        explicit_case("10 words, k = 4, at most 9 tokens", tree(333, 10, -0.5), 4, 9, 0.8),
        explicit_case("9 words, k = 2, at most 5 tokens", tree(388, 9, 0.8), 2, 5, 0.6),
        explicit_case("11 words, k = 2, at most 7 tokens", tree(249, 11, 0.0), 2, 7, 0.8),
        explicit_case("10 words, k = 3, at most 4 tokens", tree(415, 10, 0.8), 3, 4, 0.8),
        explicit_case("11 words, k = 3, at most 6 tokens", tree(189, 11, 0.5), 3, 6, 0.6),
        explicit_case("11 words, k = 4, at most 7 tokens", tree(382, 11, 0.8), 4, 7, 1.0),
        explicit_case("8 words, k = 2, at most 8 tokens", tree(318, 8, 0.0), 2, 8, 0.8),
        explicit_case("k = 1: greedy search", tree(4, 8, 0.5), 1, 9, 0.6),
        explicit_case("k as large as the vocabulary, 6 words", tree(5, 6, 0.0), 6, 4, 0.6),
        explicit_case("no length penalty, k = 3", tree(6, 10, 1.0), 3, 6, 0.0),
        explicit_case("150 tokens of 200 words, nearly equally likely", tree(7, 200, -3.0, spread=0.1), 2, 150, 0.6),
    ],
    misconceptions=wrong_answers(
        __file__,
        greedy=beam(width=lambda k: 1),
        one_of_each=beam(choose=one_of_each),
        side_by_side=beam(choose=best_of_each),
        no_penalty=beam(penalty=lambda written, alpha, longest: 1.0),
        divided_by_the_length=beam(penalty=lambda written, alpha, longest: len(written)),
        length_to_the_alpha=beam(penalty=lambda written, alpha, longest: len(written) ** alpha),
        multiplied=beam(penalty=lambda written, alpha, longest: ((5 + len(written)) / 6) ** -alpha),
        start_counted=beam(penalty=lambda written, alpha, longest: ((6 + len(written)) / 6) ** alpha),
        end_not_counted=beam(
            penalty=lambda written, alpha, longest: ((5 + len(written) - (written[-1] == END)) / 6) ** alpha
        ),
        power_of_the_denominator=beam(penalty=lambda written, alpha, longest: (5 + len(written)) / 6**alpha),
        power_of_the_numerator=beam(penalty=lambda written, alpha, longest: (5 + len(written)) ** alpha / 6),
        one_penalty=beam(penalty=lambda written, alpha, longest: ((5 + longest) / 6) ** alpha),
        penalty_in_every_step=beam(
            add=lambda total, new, length, alpha: (total + new) / ((5 + length) / 6) ** alpha,
            penalty=lambda written, alpha, longest: 1.0,
        ),
        last_step_alone=beam(add=lambda total, new, length, alpha: new),
        scores_multiplied=beam(add=lambda total, new, length, alpha: total * new, begin=1.0),
        probabilities_added=beam(add=lambda total, new, length, alpha: total + math.exp(new)),
        products=Wrong(
            beam(add=times_probability, begin=1.0, score=lambda total: math.log(total) if total > 0 else -math.inf),
            recognise=_underflowed,
        ),
        logarithm_of_a_product=Wrong(beam(add=times_probability, begin=1.0, score=math.log), raises="ValueError"),
        finished_lost=beam(lost=True, narrow=False),
        first_end=beam(hasty=True, late=False),
        stays_wide=beam(narrow=False),
        stays_wide_until_k_have_ended=beam(narrow=False, drop=True),
        places_given_up=beam(narrow=False, patient=True),
        places_taken_off_again=beam(twice=True),
        never_ends=beam(ends=False),
        copies_of_start=beam(copied=True),
        unfinished_dropped=beam(late=False),
        chosen_by_the_sum=beam(by_sum=True),
        stops_with_the_first=beam(hasty=True),
        stops_with_the_best_score=beam(leads=score_so_far),
        stops_with_the_best_sum=beam(leads=sum_so_far),
        stops_with_the_best_sum_alone=beam(leads=sum_so_far, drop=True),
        start_counted_against_the_limit=beam(limit=lambda longest: longest - 1),
        every_end=beam(eager="too"),
        every_end_first=beam(eager="first"),
        free_end=beam(free_end=True, patient=True),
        start_in_the_answer=beam(told=lambda tokens, score, alpha: ([START, *tokens], score)),
        end_left_out=beam(told=lambda tokens, score, alpha: ([token for token in tokens if token != END], score)),
        sum_returned=beam(told=lambda tokens, score, alpha: (tokens, score * ((5 + len(tokens)) / 6) ** alpha)),
        probability_returned=beam(told=lambda tokens, score, alpha: (tokens, math.exp(score))),
        twice_as_many=Wrong(beam(asked=twice_as_many), raises="RuntimeError"),
        one_by_one=beam(asked=one_by_one),
    ),
)
