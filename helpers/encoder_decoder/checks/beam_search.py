"""The check of `beam_search`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import call, unpack
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
    return Message("one call a step")


def _beam(
    next_log_probs,
    k,
    longest,
    alpha,
    *,
    add=lambda total, new: total + new,
    keep=True,
    wide=False,
    narrow=True,
    penalty=None,
    hasty=False,
    copies=1,
    late=True,
    normal=None,
    extend=False,
    lost=False,
    patient=False,
    eager=False,
    twice=False,
    free_end=False,
    by_sum=False,
    score=lambda total: total,
    one_each=False,
    leads=None,
    drop=False,
):
    """Beam search with one thing changed."""
    penalty = penalty or (lambda length: ((5 + length) / 6) ** alpha)
    live, finished = [(0.0 if normal is None else normal, [START])] * copies, []
    for _ in range(longest):
        log_p = next_log_probs(torch.tensor([tokens for _, tokens in live])).tolist()
        every = [
            [(add(total, new), [*tokens, token]) for token, new in enumerate(row)]
            for (total, tokens), row in zip(live, log_p, strict=True)
        ]
        room = k - len(finished) if narrow and not twice else k
        if one_each and len(live) > 1:
            best = sorted((max(row) for row in every), key=lambda one: -one[0])[:room]
        elif wide:  # each hypothesis keeps its own best continuation
            best = [max(row) for row in every] if len(every) >= k else sorted(sum(every, []), reverse=True)[:k]
        else:
            best = sorted(sum(every, []), key=lambda one: -one[0])[:room]
        if extend:
            live = best
            continue
        ended = [one for one in (sum(every, []) if eager else best) if one[1][-1] == END]
        sums = {tuple(tokens): total for total, tokens in live}
        finished += [] if lost else [(sums[tuple(one[1][:-1])], one[1]) for one in ended] if free_end else ended
        live = [one for one in best if one[1][-1] != END]
        if eager == "first":  # and what doesn't end shares the places that are left
            others = [one for one in sum(every, []) if one[1][-1] != END]
            live = sorted(others, key=lambda one: -one[0])[: max(0, k - len(finished))]
        k = k - len(finished) if twice else k
        led = leads and live and finished and max(map(leads, finished)) >= max(map(leads, live))
        if led or not live or (hasty and finished) or k <= 0 or (len(finished) >= k and not (patient or twice)):
            live = [] if drop else live
            break
    rest = live if late or not finished else []
    hypotheses = finished + rest or [(-math.inf, [START])]
    hypotheses = [max(hypotheses)] if by_sum else hypotheses
    best, tokens = max(
        ((score(total) / penalty(len(tokens) - 1), tokens) for total, tokens in hypotheses), key=lambda one: one[0]
    )
    return tokens[1:], best


def greedily(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, 1, longest, alpha)


def k_greedy_searches(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, wide=True)


def one_continuation_each(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, one_each=True)


def without_length_care(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, 0.0)


def divided_by_the_length(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: length)


def length_to_the_alpha(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: length**alpha)


def multiplied_by_the_penalty(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: ((5 + length) / 6) ** -alpha)


def start_counted(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: ((6 + length) / 6) ** alpha)


def end_not_counted(next_log_probs, k, longest, alpha):
    tokens, score = [], -math.inf
    live, finished = [(0.0, [START])], []
    for _ in range(longest):
        log_p = next_log_probs(torch.tensor([tokens for _, tokens in live])).tolist()
        every = [
            (t + new, [*old, token]) for (t, old), row in zip(live, log_p, strict=True) for token, new in enumerate(row)
        ]
        best = sorted(every, reverse=True)[: k - len(finished)]
        finished += [one for one in best if one[1][-1] == END]
        live = [one for one in best if one[1][-1] != END]
        if not live:
            break
    for total, found in finished + live:
        worth = total / ((5 + len(found) - 1 - (found[-1] == END)) / 6) ** alpha
        tokens, score = (found[1:], worth) if worth > score else (tokens, score)
    return tokens, score


def only_the_last_step(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, add=lambda total, new: new)


def log_probabilities_multiplied(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, add=lambda total, new: total * new, normal=1.0)


def probabilities_added(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, add=lambda total, new: total + math.exp(new))


def penalised_on_the_way(next_log_probs, k, longest, alpha):
    """The sums are divided in every step, so old tokens are divided again and again."""
    live, finished = [(0.0, [START])], []
    for length in range(1, longest + 1):
        log_p = next_log_probs(torch.tensor([tokens for _, tokens in live])).tolist()
        every = [
            ((t + new) / ((5 + length) / 6) ** alpha, [*old, token])
            for (t, old), row in zip(live, log_p, strict=True)
            for token, new in enumerate(row)
        ]
        best = sorted(every, reverse=True)[: k - len(finished)]
        finished += [one for one in best if one[1][-1] == END]
        live = [one for one in best if one[1][-1] != END]
        if not live:
            break
    score, tokens = max(finished + live)
    return tokens[1:], score


def finished_lost(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, lost=True, narrow=False)


def first_finished(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, hasty=True, late=False)


def beam_stays_wide(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, narrow=False)


def beam_stays_wide_until_k_have_ended(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, narrow=False, drop=True)


def finished_give_up_their_place(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, narrow=False, patient=True)


def places_taken_off_again(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, twice=True)


def chosen_by_the_sum(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, by_sum=True)


def stops_with_the_first(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, hasty=True)


def stops_when_a_finished_one_leads(next_log_probs, k, longest, alpha):
    def score(one):
        return one[0] / ((4 + len(one[1])) / 6) ** alpha

    return _beam(next_log_probs, k, longest, alpha, leads=score)


def stops_when_a_finished_sum_leads(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, leads=lambda one: one[0])


def stops_when_a_finished_sum_leads_and_drops_the_others(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, leads=lambda one: one[0], drop=True)


def start_counted_against_the_limit(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest - 1, alpha)


def every_end_kept(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, eager=True)


def every_end_kept_before_the_choice(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, eager="first")


def power_of_the_denominator(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: (5 + length) / 6**alpha)


def power_of_the_numerator(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: (5 + length) ** alpha / 6)


def end_for_nothing(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, free_end=True, patient=True)


def products_of_probabilities(next_log_probs, k, longest, alpha):
    return _beam(
        next_log_probs,
        k,
        longest,
        alpha,
        normal=1.0,
        add=lambda total, new: total * math.exp(new),
        score=lambda total: math.log(total) if total > 0 else -math.inf,
    )


def logarithm_of_a_product(next_log_probs, k, longest, alpha):
    return _beam(
        next_log_probs, k, longest, alpha, normal=1.0, add=lambda total, new: total * math.exp(new), score=math.log
    )


def _underflowed(seen) -> bool:
    """The score is the logarithm of 0, and the first tokens are right."""
    tokens, score, _ = seen.output.values()
    right, *_ = _searched(reference.beam_search, *seen.args).values()
    return score == -math.inf and torch.equal(tokens[:12], right[:12])


def not_all_of_its_tokens(next_log_probs, k, longest, alpha):
    """The penalty of `longest` tokens for all."""
    return _beam(next_log_probs, k, longest, alpha, penalty=lambda length: ((5 + longest) / 6) ** alpha)


def goes_on_behind_end(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, extend=True)


def starts_with_copies(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, copies=k)


def cut_off_ones_dropped(next_log_probs, k, longest, alpha):
    return _beam(next_log_probs, k, longest, alpha, late=False)


def with_start_token(next_log_probs, k, longest, alpha):
    tokens, score = reference.beam_search(next_log_probs, k, longest, alpha)
    return [START, *tokens], score


def end_dropped(next_log_probs, k, longest, alpha):
    tokens, score = reference.beam_search(next_log_probs, k, longest, alpha)
    return [token for token in tokens if token != END], score


def plain_sum_returned(next_log_probs, k, longest, alpha):
    tokens, score = reference.beam_search(next_log_probs, k, longest, alpha)
    return tokens, score * ((5 + len(tokens)) / 6) ** alpha


def probability_returned(next_log_probs, k, longest, alpha):
    tokens, score = reference.beam_search(next_log_probs, k, longest, alpha)
    return tokens, math.exp(score)


def twice_as_many_asked_for(next_log_probs, k, longest, alpha):
    def enough(prefixes):
        log_p = next_log_probs(prefixes)
        log_p.flatten().topk(2 * k)  # an error where there are not so many
        return log_p

    return reference.beam_search(enough, k, longest, alpha)


def one_by_one(next_log_probs, k, longest, alpha):
    def slowly(prefixes):
        return torch.cat([next_log_probs(row[None]) for row in prefixes])

    return reference.beam_search(slowly, k, longest, alpha)


# Greedy takes 3 (0.5); the best sentence begins with 4 (0.4). Tokens: 3 = a, 4 = b, 5 = c.
TEMPTING = spelled({(): {3: 0.5, 4: 0.4, 5: 0.1}, (3,): {3: 0.4, 4: 0.3, 5: 0.3}, (4,): {5: 0.9, 3: 0.1}}, 7)

# A short sentence of probability 0.38 leads after one step, and a long one of 0.28 overtakes it: the length penalty decides.
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
        greedy_search=greedily,
        one_continuation_each_hypothesis=one_continuation_each,
        k_searches_side_by_side=k_greedy_searches,
        no_care_length=without_length_care,
        divided_by_plain_length=divided_by_the_length,
        penalty_y=length_to_the_alpha,
        multiplied_by_length_penalty=multiplied_by_the_penalty,
        start_counted_length=start_counted,
        end_not_counted_length=end_not_counted,
        last_steps_log_probability_alone=only_the_last_step,
        scores_multiplied=log_probabilities_multiplied,
        probabilities_added=probabilities_added,
        penalty_applied_every_step=penalised_on_the_way,
        finished_hypotheses_lost=finished_lost,
        stops_at_first_end=first_finished,
        beam_that_stays_wide=beam_stays_wide,
        beam_that_stays_wide_until_k_have_ended=beam_stays_wide_until_k_have_ended,
        goes_on_after_end=goes_on_behind_end,
        k_copies_start=starts_with_copies,
        hypotheses_without_end_dropped=cut_off_ones_dropped,
        finished_hypotheses_that_give_up_their=finished_give_up_their_place,
        places_finished_taken_off_again_again=places_taken_off_again,
        chosen_by_sum=chosen_by_the_sum,
        stops_as_soon_as_one_has_finished=stops_with_the_first,
        stops_when_finished_one_has_best_score=stops_when_a_finished_one_leads,
        stops_when_finished_one_has_best_sum_so=stops_when_a_finished_sum_leads,
        stops_when_finished_one_has_best_sum_so_2=stops_when_a_finished_sum_leads_and_drops_the_others,
        start_counted_against_longest=start_counted_against_the_limit,
        every_end_kept_however_unlikely=every_end_kept,
        every_end_kept_before_best_chosen=every_end_kept_before_the_choice,
        power_denominator_alone=power_of_the_denominator,
        power_numerator_alone=power_of_the_numerator,
        end_without_own_log_probability=end_for_nothing,
        products_probabilities=Wrong(products_of_probabilities, recognise=_underflowed),
        logarithm_product=Wrong(logarithm_of_a_product, raises="ValueError"),
        one_penalty_all_lengths=not_all_of_its_tokens,
        start_answer=with_start_token,
        end_left_out_answer=end_dropped,
        sum_returned_not_score=plain_sum_returned,
        probability_instead_logarithm=probability_returned,
        more_candidates_than_there=Wrong(twice_as_many_asked_for, raises="RuntimeError"),
        one_call_each_hypothesis=one_by_one,
    ),
)
