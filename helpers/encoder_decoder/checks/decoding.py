"""Checks of writing: greedy search, whose calls are counted, and beam search, on trees of probabilities that tell the slips apart."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.compare import Message
from helpers.engine.drivers import call, unpack

from .. import decoding as reference
from ..model import END, PAD, START

__all__ = ["beam_search", "greedy_decode"]

# --------------------------------------------------------------------------------------------------------------- greedy

WORDS = 41


def riddle(lengths: tuple[int, ...]) -> tuple[Callable, Callable]:
    """An encoder and a decoder's step without weights. The next token depends on the source, on all tokens so far and on the order in which the
    cache holds them. Row i says END when it has read |lengths[i]| tokens, and goes on talking if it is asked again. Where lengths[i] is
    negative the first token that it says is PAD (START in every second row): a word of a model like any other."""

    def encode(source: Tensor) -> Tensor:
        return (source * torch.arange(1, source.shape[1] + 1)).sum(dim=1, keepdim=True) % 97  # (b, 1)

    def step(tokens: Tensor, memory: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        cache = tokens.clone() if cache is None else torch.cat([cache, tokens], dim=1)
        order = torch.arange(2, cache.shape[1] + 2)
        word = 3 + ((cache * order * order).sum(dim=1) + 5 * memory[:, 0]) % (WORDS - 3)
        odd = torch.tensor([lengths[row % len(lengths)] < 0 and cache.shape[1] == 1 for row in range(len(tokens))])
        word = torch.where(odd, torch.arange(len(tokens)) % 2, word)  # PAD is 0, START is 1
        ends = torch.tensor([abs(lengths[row % len(lengths)]) == cache.shape[1] for row in range(len(tokens))])
        return torch.nn.functional.one_hot(word.masked_fill(ends, END), WORDS).float() * 3 - 1, cache

    return encode, step


def _written(answer: Callable, lengths: tuple[int, ...], source: Tensor, longest: int) -> tuple:
    """The tokens, and how often encoder and decoder were asked."""
    calls = {"encoder": 0, "decoder": 0, "tokens": 0}
    plain_encode, plain_step = riddle(lengths)

    def encode(source):
        calls["encoder"] += 1
        return plain_encode(source)

    def step(tokens, memory, cache):
        calls["decoder"] += 1
        calls["tokens"] += tokens.shape[1]
        return plain_step(tokens, memory, cache)

    encode.__qualname__, step.__qualname__ = "encode", "step"  # what an error message calls them
    tokens = call(answer, encode, step, source, longest)
    needed = min(longest, max(abs(lengths[row % len(lengths)]) for row in range(len(source))))
    encoder = Message(
        "the encoder runs once" if calls["encoder"] == 1 else f"the encoder runs {calls['encoder']} times"
    )
    if calls["decoder"] != needed:
        return tokens, encoder, Message(f"{calls['decoder']} steps of the decoder, and {needed} are right")
    return (
        tokens,
        encoder,
        Message("every token read once" if calls["tokens"] == needed else "tokens read more than once"),
    )


def sentence(b: int, m: int) -> RandomArg:
    """Source tokens."""
    return RandomArg(lambda generator: torch.randint(3, WORDS, (b, m), generator=generator))


def _greedy(
    encode, step, source, longest, *, start=START, first=None, memory=None, change=None, pad=True, stop="all", forget=False,
    remember=True, late=False, ends=(END,), shun=0, filler=PAD,
):  # fmt: skip
    """Greedy search with one thing changed. `first`: the first inputs, (rows, 1), if they aren't `start` for every row."""
    memory, cache, written = encode(source) if memory is None else memory, None, []
    tokens = torch.full((len(source), 1), start) if first is None else first
    ended = torch.zeros(len(tokens), 1, dtype=torch.bool)
    for _ in range(longest):
        logits, new = step(tokens, memory, cache)
        cache = None if forget else new
        tokens = logits[:, shun:].argmax(dim=-1, keepdim=True) + shun
        tokens = tokens.masked_fill(ended, filler) if pad else tokens
        before, now = ended, torch.isin(tokens, torch.tensor(ends))
        ended = ended | now if remember else now
        written.append(tokens)
        seen = before if late else now if stop == "together" else ended
        if (stop in ("all", "together") and seen.all()) or (stop == "any" and seen.any()):
            break
        tokens = tokens if change is None else change(tokens)
    return torch.cat(written, dim=1)


def encodes_every_step(encode, step, source, longest):
    def again(tokens, memory, cache):
        return step(tokens, encode(source), cache)

    return _greedy(lambda source: None, again, source, longest, memory=())


def without_cache(encode, step, source, longest):
    memory, written = encode(source), torch.full((len(source), 1), START)
    ended = torch.zeros(len(source), 1, dtype=torch.bool)
    while written.shape[1] <= longest and not ended.all():
        token = step(written, memory, None)[0].argmax(dim=-1, keepdim=True).masked_fill(ended, PAD)
        ended = ended | (token == END)
        written = torch.cat([written, token], dim=1)
    return written[:, 1:]


def without_cache_and_encoding_again(encode, step, source, longest):
    written, ended = torch.full((len(source), 1), START), torch.zeros(len(source), 1, dtype=torch.bool)
    while written.shape[1] <= longest and not ended.all():
        token = step(written, encode(source), None)[0].argmax(dim=-1, keepdim=True).masked_fill(ended, PAD)
        ended = ended | (token == END)
        written = torch.cat([written, token], dim=1)
    return written[:, 1:]


def everything_into_the_cache(encode, step, source, longest):
    memory, cache, written = encode(source), None, torch.full((len(source), 1), START)
    ended = torch.zeros(len(source), 1, dtype=torch.bool)
    while written.shape[1] <= longest and not ended.all():
        logits, cache = step(written, memory, cache)
        token = logits.argmax(dim=-1, keepdim=True).masked_fill(ended, PAD)
        ended = ended | (token == END)
        written = torch.cat([written, token], dim=1)
    return written[:, 1:]


def row_by_row(encode, step, source, longest):
    rows = [_greedy(encode, step, row[None], longest)[0] for row in source]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def start_for_one_row(encode, step, source, longest):
    return _greedy(encode, step, source, longest, first=torch.tensor([[START]]))


def with_start(encode, step, source, longest):
    written = _greedy(encode, step, source, longest)
    return torch.cat([torch.full((len(source), 1), START), written], dim=1)


def without_end(encode, step, source, longest):
    written = _greedy(encode, step, source, longest)
    return written.masked_fill(written == END, PAD)


def starts_with_the_source(encode, step, source, longest):
    return _greedy(encode, step, source, longest, first=source[:, :1])


def one_step_too_few(encode, step, source, longest):
    return _greedy(encode, step, source, longest - 1)


def one_token_too_many(encode, step, source, longest):
    return _greedy(encode, step, source, longest + 1)


def one_more_token_after_end(encode, step, source, longest):
    """What is written is padded by the state of the step before."""
    memory, cache, written = encode(source), None, []
    tokens = torch.full((len(source), 1), START)
    before, ended = torch.zeros(2, len(source), 1, dtype=torch.bool)
    while len(written) < longest and not ended.all():
        logits, cache = step(tokens, memory, cache)
        tokens = logits.argmax(dim=-1, keepdim=True).masked_fill(before, PAD)
        before, ended = ended, ended | (tokens == END)
        written.append(tokens)
    return torch.cat(written, dim=1)


def one_step_too_many_thrown_away(encode, step, source, longest):
    return _until_all_have_ended(_greedy(encode, step, source, longest, late=True))


def cut_after_all_steps(encode, step, source, longest):
    return _until_all_have_ended(_greedy(encode, step, source, longest, stop="never"))


def _until_all_have_ended(written: Tensor) -> Tensor:
    goes_on = ((written == END).cumsum(dim=1) == 0).any(dim=0)  # after this column some row still has words to come
    return written[:, : int(goes_on.sum()) + 1]


def asked_before_it_is_needed(encode, step, source, longest):
    """At the end of the loop the decoder is asked for the next round's logits, the last round's too."""
    memory, cache = encode(source), None

    def kept(tokens, memory, old):
        nonlocal cache
        logits, cache = step(tokens, memory, old)
        return logits, cache

    written = _greedy(encode, kept, source, longest, memory=memory)
    if not (written == END).any(dim=1).all():
        step(written[:, -1:], memory, cache)
    return written


def as_wide_as_the_limit(encode, step, source, longest):
    written = _greedy(encode, step, source, longest)
    return torch.nn.functional.pad(written, (0, longest - written.shape[1]), value=PAD)


def _talks_again(tokens: Tensor) -> bool:
    """Whether a row writes END, one PAD, and another word."""
    after, then, later = tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]
    return bool(((after == END) & (then == PAD) & (later != PAD)).any())


def one_buffer(encode, step, source, longest):
    written = _greedy(encode, step, source, longest)
    return written[:, -1:].expand_as(written).clone()


def least_likely(encode, step, source, longest):
    def negative(tokens, memory, cache):
        logits, cache = step(tokens, memory, cache)
        return -logits, cache

    return _greedy(encode, negative, source, longest)


greedy_decode = Check(
    reference=reference.greedy_decode,
    drive=_written,
    names=("tokens: sequences positions",),
    cases=[
        explicit_case("3 sentences that end after 4, 2 and 6 tokens", (4, 2, 6), sentence(3, 5), 9),
        explicit_case("2 sentences, one of them cut off at 5 tokens", (3, 8), sentence(2, 7), 5),
        explicit_case("4 sentences that end together", (3, 3, 3, 3), sentence(4, 6), 10),
        explicit_case("one sentence", (7,), sentence(1, 4), 12),
        explicit_case("sentences that begin with PAD or START", (-5, -3, 4), sentence(3, 6), 9),
    ],
    within=(0.0, 0.0),
    misconceptions=[
        Misconception(
            "the encoder run again for every token", encodes_every_step,
            "The source doesn't change while you write, and neither does its memory. Run the encoder once, before the loop.",
        ),
        Misconception(
            "everything computed again for every token", without_cache_and_encoding_again,
            "The encoder belongs before the loop, and the cache that `step` returns belongs into the next step, together with nothing but the newest token.",
        ),
        Misconception(
            "no cache", without_cache,
            "The tokens are right, and each step reads all of them again. Hand the cache back in, and let the decoder read only the newest.",
        ),
        Misconception(
            "all tokens read again into the cache", everything_into_the_cache,
            "The old tokens are in the cache already. Give only the newest token, (b, 1).",
        ),
        Misconception(
            "the cache not handed back in", lambda *inputs: _greedy(*inputs, forget=True),
            "A decoder that gets one token and no cache knows one token. Pass on what the last step returned.",
        ),
        Misconception(
            "one sentence after the other", row_by_row,
            "All rows of a batch are written together: one call of the encoder, one step for all rows.",
        ),
        Misconception(
            "stops when the first sentence ends", lambda *inputs: _greedy(*inputs, stop="any"),
            "The others are not done yet. Stop when *all* rows have said END.",
        ),
        Misconception(
            "goes on to the limit", lambda *inputs: _greedy(*inputs, stop="never"),
            "When all rows have said END there is nothing left to write. Stop there.",
        ),
        Misconception(
            "goes on talking after END", lambda *inputs: _greedy(*inputs, pad=False),
            "A row that has ended writes PAD until the others are done.",
        ),
        Misconception(
            "START for one row only", start_for_one_row,
            "Each row of the batch begins with START: (b, 1) of it, not (1, 1). With a single sentence the two are the same.",
            raises="RuntimeError",
        ),
        Misconception("START in the answer", with_start, "START is what the decoder reads first. It is no part of what it writes."),
        Misconception("END left out of the answer", without_end, "END is a part of what was written: keep it."),
        Misconception(
            "END as the first input", lambda *inputs: _greedy(*inputs, start=END), "The decoder begins with START, as in training.",
        ),
        Misconception(
            "the source's first word as the first input", starts_with_the_source,
            "The source comes in by the memory. The decoder begins with START, as in training.",
        ),
        Misconception(
            "START read in every step", lambda *inputs: _greedy(*inputs, change=lambda tokens: torch.full_like(tokens, START)),
            "Each step reads the token that the step before wrote.",
        ),
        Misconception("one token too few", one_step_too_few, "At most `longest` tokens: this many steps, if no END comes before."),
        Misconception("one token too many", one_token_too_many, "At most `longest` tokens: START is not one of them, and END is."),
        Misconception(
            "one more token after END", one_more_token_after_end,
            "A row writes PAD from the step after END on. Yours says one more word first: note which rows have ended *before* the next token is taken.",
        ),
        Misconception(
            "an end remembered for one step only", lambda *inputs: _greedy(*inputs, remember=False),
            "A row that has ended writes one PAD and then talks again. Which rows have ended must be kept: `ended = ended | (tokens == END)`.",
            lambda seen: _talks_again(seen.output[0]),
        ),
        Misconception(
            "stops only where all rows end in the same step", lambda *inputs: _greedy(*inputs, stop="together"),
            "Rows end at different times, and those that have ended write PAD. Ask whether all have ended *by now*, not whether all say END now.",
        ),
        Misconception(
            "one step too many", lambda *inputs: _greedy(*inputs, late=True),
            "You look whether all rows have ended before the newest tokens are counted, so the decoder is asked once more, for a column of PAD.",
        ),
        Misconception(
            "one step too many, its column thrown away", one_step_too_many_thrown_away,
            "The tokens are right. But the decoder is asked once more when all rows have ended, and what it says is thrown away: look whether all have ended *after* "
            "the newest tokens are counted.",
        ),
        Misconception(
            "all steps taken, and cut afterwards", cut_after_all_steps,
            "The tokens are right. But the decoder takes `longest` steps, whatever it says: stop as soon as all rows have said END.",
        ),
        Misconception(
            "a step that nobody reads", asked_before_it_is_needed,
            "The tokens are right. But where a sentence is cut off at `longest` tokens, the decoder is asked for one more that is never written: ask it at the beginning of a round, not at its end.",
        ),
        Misconception(
            "always `longest` columns", as_wide_as_the_limit,
            "You stop in time, but return columns for steps that were never taken. The answer has one column for each step: cut the table there.",
        ),
        Misconception(
            "END again and again", lambda *inputs: _greedy(*inputs, filler=END),
            "END is written once. A row that has ended writes PAD until the others are done.",
        ),
        Misconception(
            "PAD taken for an end", lambda *inputs: _greedy(*inputs, ends=(END, PAD)),
            "Only END ends a row. A model may find PAD likeliest before that: write it, and go on.",
        ),
        Misconception(
            "PAD and START forbidden", lambda *inputs: _greedy(*inputs, shun=END),
            "The likeliest token is taken, whatever it is: no token is forbidden here. A model learns in training what it should not say.",
        ),
        Misconception(
            "PAD forbidden", lambda *inputs: _greedy(*inputs, shun=START), "The likeliest token is taken, whatever it is, PAD too.",
        ),
        Misconception(
            "one tensor for all columns", one_buffer,
            "Your list holds the same tensor again and again, and writing into it changes all columns. Make a new one in each step.",
        ),
        Misconception("the least likely token", least_likely, "The largest logit is the likeliest token: `argmax`."),
    ],
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------------- beam


TOO_MANY = 200  # hypotheses in one call: a beam that never gets narrower would take minutes


def tree(seed: int, v: int, end: float, spread: float = 1.5) -> Callable:
    """Log-probabilities (v) of the next token after a prefix: drawn for each prefix, always the same. end: added to END's logit;
    spread: how far the others lie apart."""

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
    """The tokens, their score, and how often the model was asked: by name, for an answer returns the first two alone."""
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
    next_log_probs, k, longest, alpha, *, add=lambda total, new: total + new, keep=True, wide=False, narrow=True,
    penalty=None, hasty=False, copies=1, late=True, normal=None, extend=False, lost=False, patient=False, eager=False,
    twice=False, free_end=False, by_sum=False, score=lambda total: total, one_each=False, leads=None, drop=False,
):  # fmt: skip
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
        every = [((t + new) / ((5 + length) / 6) ** alpha, [*old, token])
                 for (t, old), row in zip(live, log_p, strict=True) for token, new in enumerate(row)]  # fmt: skip
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
    return _beam(next_log_probs, k, longest, alpha, normal=1.0, add=lambda total, new: total * math.exp(new),
                 score=lambda total: math.log(total) if total > 0 else -math.inf)  # fmt: skip


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
    {(): {END: 0.38, 3: 0.36, 4: 0.26}, (3,): {4: 0.9, 5: 0.1}, (3, 4): {5: 0.95, 3: 0.05}, (3, 4, 5): {3: 0.95, 4: 0.05},
     (3, 4, 5, 3): {END: 0.96, 4: 0.04}, (4,): {5: 0.6, 3: 0.4}}, 8)  # fmt: skip
# The short sentence has the best sum from the third step on, but never the best score.
LATE = spelled(
    {(): {3: 0.5, END: 0.38, 4: 0.12}, (3,): {4: 0.9, 5: 0.1}, (3, 4): {5: 0.8, 3: 0.2}, (3, 4, 5): {END: 0.95, 4: 0.05}}, 7)  # fmt: skip

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
    misconceptions=[
        Misconception(
            "greedy search", greedily, "Keep k hypotheses alive, not one: the best first word is not always the best beginning.",
        ),
        Misconception(
            "one continuation for each hypothesis", one_continuation_each,
            "From START you take the k best, and then each hypothesis keeps its own best continuation. Compare *all* continuations of all live hypotheses with each other.",
        ),
        Misconception(
            "k searches side by side", k_greedy_searches,
            "The k places go to the k best of *all* continuations together. A good hypothesis may take several, a bad one none.",
        ),
        Misconception(
            "no care for length", without_length_care,
            "Every further token makes the sum smaller, so short sentences win. Divide by the length penalty before you compare.",
        ),
        Misconception(
            "divided by the plain length", divided_by_the_length, "The penalty is ((5 + |Y|) / 6)^α.",
        ),
        Misconception("a penalty of |Y|^α", length_to_the_alpha, "The penalty is ((5 + |Y|) / 6)^α: it starts at 1 for one token and grows slowly."),
        Misconception(
            "multiplied by the length penalty", multiplied_by_the_penalty, "Log-probabilities are negative: *dividing* by a penalty above 1 helps the longer one.",
        ),
        Misconception("START counted in the length", start_counted, "|Y| counts what was written: END yes, START no."),
        Misconception("END not counted in the length", end_not_counted, "|Y| counts what was written: END yes, START no."),
        Misconception(
            "the last step's log-probability alone", only_the_last_step, "A hypothesis is as good as all its tokens together: add the new log-probability to the sum.",
        ),
        Misconception(
            "scores multiplied", log_probabilities_multiplied,
            "Probabilities are multiplied, so their logarithms are *added*. A product of two negative numbers is positive, and the worst wins.",
        ),
        Misconception(
            "probabilities added", probabilities_added, "The probability of a sentence is a product. Add log-probabilities.",
        ),
        Misconception(
            "the penalty applied in every step", penalised_on_the_way,
            "A sum that is divided in every step has its old tokens divided again and again. Compare plain sums on the way, and divide once, at the end.",
        ),
        Misconception(
            "finished hypotheses lost", finished_lost, "A hypothesis that has ended is not continued, but it may be the best of all: keep it in a list.",
        ),
        Misconception(
            "stops at the first END", first_finished, "The first one to end is the shortest, not the best. Go on until k have ended, or `longest` steps are done.",
        ),
        Misconception(
            "a beam that stays wide", beam_stays_wide, "A hypothesis that ended keeps its place: only k − finished of the others live on.",
        ),
        Misconception(
            "a beam that stays wide until k have ended, and drops the others then", beam_stays_wide_until_k_have_ended,
            "A hypothesis that ended keeps its place: only k − finished of the others live on. Yours lets k others live on until k have ended.",
        ),
        Misconception(
            "goes on after END", goes_on_behind_end, "A hypothesis that has said END is finished: it keeps its place and its sum, and nothing is added to it any more.",
        ),
        Misconception(
            "k copies of START", starts_with_copies,
            "Begin with *one* hypothesis. From k equal ones come k equal continuations, and the beam is greedy search k times.",
        ),
        Misconception(
            "hypotheses without an END dropped", cut_off_ones_dropped, "What has not ended after `longest` tokens is taken as it is, with its length.",
        ),
        Misconception(
            "finished hypotheses that give up their place", finished_give_up_their_place,
            "A finished hypothesis keeps its place among the k: only k − finished of the others live on. Yours lets k others live all the same.",
        ),
        Misconception(
            "places of the finished taken off again and again", places_taken_off_again,
            "k − finished: each finished hypothesis takes *one* place. If k itself is made smaller in every step, those of earlier steps are taken off again.",
        ),
        Misconception(
            "chosen by the sum", chosen_by_the_sum,
            "Among all that is finished or cut off the best *score* wins: divide first, then compare. Yours compares sums, so short sentences win.",
        ),
        Misconception(
            "stops as soon as one has finished", stops_with_the_first,
            "The search goes on until no hypothesis is alive: a longer one may still get the better score.",
        ),
        Misconception(
            "stops when a finished one has the best score so far", stops_when_a_finished_one_leads,
            "A live hypothesis can still overtake: its penalty grows with every token. The search goes on until none is alive.",
        ),
        Misconception(
            "stops when a finished one has the best sum so far", stops_when_a_finished_sum_leads,
            "A live hypothesis can still overtake: its sum gets smaller, but its penalty grows with every token. The search goes on until none is alive.",
        ),
        Misconception(
            "stops when a finished one has the best sum so far, and drops the others", stops_when_a_finished_sum_leads_and_drops_the_others,
            "Sums only fall, but scores can rise: they are divided by a penalty that grows with every token. So a live hypothesis can still overtake: go on until none is alive.",
        ),
        Misconception(
            "START counted against `longest`", start_counted_against_the_limit,
            "`longest` counts what is written, without START, and each step writes one token. Yours does one fewer.",
        ),
        Misconception(
            "every END kept, however unlikely", every_end_kept,
            "Only a continuation that is among the best may finish. Choose first, then look which of those end.",
        ),
        Misconception(
            "every END kept before the best are chosen", every_end_kept_before_the_choice,
            "Words and END stand in one list, and the best of it are kept: an unlikely END is dropped like any other. Yours finishes every END and chooses among the rest.",
        ),
        Misconception(
            "the power of the denominator alone", power_of_the_denominator,
            "A power comes before a division, so `(5 + n) / 6 ** alpha` raises only the 6. The whole fraction is raised to α: put it in brackets.",
        ),
        Misconception(
            "the power of the numerator alone", power_of_the_numerator, "The whole fraction is raised to α: ((5 + |Y|) / 6)^α.",
        ),
        Misconception(
            "END without its own log-probability", end_for_nothing,
            "To say END has a probability too, and it belongs to the sum of a finished sentence.",
        ),
        Misconception(
            "products of probabilities", products_of_probabilities,
            "A product of 150 small probabilities is smaller than the smallest float, so it becomes 0, and all hypotheses are equal. Add logarithms.",
            _underflowed,
        ),
        Misconception(
            "the logarithm of a product", logarithm_of_a_product,
            "A product of 150 small probabilities is smaller than the smallest float: it becomes 0, which has no logarithm. Add logarithms from the start.",
            raises="ValueError",
        ),
        Misconception(
            "one penalty for all lengths", not_all_of_its_tokens, "|Y| is the length of *this* hypothesis, not the largest that is allowed.",
        ),
        Misconception("START in the answer", with_start_token, "The tokens *after* START are asked for."),
        Misconception("END left out of the answer", end_dropped, "END is a part of what was written: keep it."),
        Misconception(
            "the sum returned, not the score", plain_sum_returned, "Return what the hypotheses were compared by: the sum over the length penalty.",
        ),
        Misconception("a probability instead of its logarithm", probability_returned, "The score is a log-probability over the length penalty: a negative number."),
        Misconception(
            "more candidates than there are continuations", twice_as_many_asked_for,
            "The first step has one hypothesis, so as many continuations as there are words: at least k, and perhaps not 2k. Ask `topk` for no more than there are.",
            raises="RuntimeError",
        ),
        Misconception(
            "one call for each hypothesis", one_by_one, "All live prefixes are equally long: ask about them in one call, (j, n) → (j, v).",
        ),
    ],
)  # fmt: skip
