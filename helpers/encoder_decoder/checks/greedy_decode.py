"""The check of `greedy_decode`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import call
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import decoding as reference
from ..model import END, PAD, START

__all__ = ["greedy_decode"]

WORDS = 41


def riddle(lengths: tuple[int, ...]) -> tuple[Callable, Callable]:
    """An encoder and a decoder's step without weights. The next token depends on the source, on all tokens so far and
    on the order in which the cache holds them. Row i says END when it has read |lengths[i]| tokens, and goes on talking
    if it is asked again. Where lengths[i] is negative the first token that it says is PAD (START in every second row):
    a word of a model like any other."""

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
    times, told, read = calls["encoder"], calls["decoder"], calls["tokens"]
    encoder = Message("the encoder runs once" if times == 1 else f"the encoder runs {times} times")
    once = "every token read once" if read == needed else "tokens read more than once"
    return tokens, encoder, Message(once if told == needed else f"{told} steps of the decoder, and {needed} are right")


def sentence(b: int, m: int) -> RandomArg:
    """Source tokens."""
    return RandomArg(lambda generator: torch.randint(3, WORDS, (b, m), generator=generator))


def newest(tokens, written):
    return tokens


def all_so_far(tokens, written):
    return torch.cat(written, dim=1)


def likeliest(logits):
    return logits.argmax(dim=-1, keepdim=True)


def encoded_again(encode, step, source):
    return lambda tokens, memory, cache: step(tokens, encode(source), cache)


@dataclass(frozen=True)
class Greedy:
    """The steps of greedy search."""

    first: Callable = lambda source: torch.full((len(source), 1), START)
    memory: Callable = lambda encode, source: encode(source)
    asked: Callable = lambda encode, step, source: step
    limit: Callable = lambda longest: longest
    reads: Callable = newest  # (newest tokens, all that is written) → what the decoder reads
    forgets: bool = False  # the cache isn't handed back
    chosen: Callable = likeliest  # (logits) → tokens
    filled: Callable = lambda tokens, ended, before: tokens.masked_fill(ended, PAD)  # before: what had ended a step ago
    ends: tuple[int, ...] = (END,)
    remembers: bool = True  # what has ended
    stops: Callable = lambda ended, before, now: ended.all()
    spare: bool = False  # the decoder is asked once more, where something is still alive
    told: Callable = lambda written, longest: written


@composable
def greedy(**changed) -> Callable:
    """Greedy search with these steps changed."""
    steps = Greedy(**changed)

    def answer(encode, step, source, longest):
        memory, step, cache = steps.memory(encode, source), steps.asked(encode, step, source), None
        tokens = steps.first(source)
        written, ended = [tokens], torch.zeros(len(tokens), 1, dtype=torch.bool)
        before = ended
        for _ in range(steps.limit(longest)):
            logits, new = step(steps.reads(tokens, written), memory, cache)
            cache = None if steps.forgets else new
            tokens = steps.filled(steps.chosen(logits), ended, before)
            written.append(tokens)
            now = torch.isin(tokens, torch.tensor(steps.ends))
            before, ended = ended, ended | now if steps.remembers else now
            if steps.stops(ended, before, now):
                break
        if steps.spare and not ended.all():
            step(tokens, memory, cache)
        return steps.told(torch.cat(written[1:], dim=1), longest)

    return answer


def row_by_row(encode, step, source, longest):
    rows = [greedy()(encode, step, row[None], longest)[0] for row in source]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def _until_all_have_ended(written: Tensor, longest: int) -> Tensor:
    goes_on = ((written == END).cumsum(dim=1) == 0).any(dim=0)  # after this column some row still has words to come
    return written[:, : int(goes_on.sum()) + 1]


def as_wide_as_the_limit(written, longest):
    return torch.nn.functional.pad(written, (0, longest - written.shape[1]), value=PAD)


def _talks_again(tokens: Tensor) -> bool:
    """Whether a row writes END, one PAD, and another word."""
    after, then, later = tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]
    return bool(((after == END) & (then == PAD) & (later != PAD)).any())


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
    misconceptions=wrong_answers(
        __file__,
        encoded_again=greedy(memory=lambda encode, source: None, asked=encoded_again),
        all_computed_again=greedy(
            memory=lambda encode, source: None, asked=encoded_again, reads=all_so_far, forgets=True
        ),
        no_cache=greedy(reads=all_so_far, forgets=True),
        all_into_the_cache=greedy(reads=all_so_far),
        cache_not_handed_back=greedy(forgets=True),
        row_by_row=row_by_row,
        stops_with_the_first=greedy(stops=lambda ended, before, now: ended.any()),
        never_stops=greedy(stops=lambda ended, before, now: False),
        goes_on_talking=greedy(filled=lambda tokens, ended, before: tokens),
        start_for_one_row=Wrong(greedy(first=lambda source: torch.tensor([[START]])), raises="RuntimeError"),
        start_in_the_answer=greedy(
            told=lambda written, longest: torch.cat([torch.full((len(written), 1), START), written], dim=1)
        ),
        end_left_out=greedy(told=lambda written, longest: written.masked_fill(written == END, PAD)),
        end_first=greedy(first=lambda source: torch.full((len(source), 1), END)),
        source_first=greedy(first=lambda source: source[:, :1]),
        start_in_every_step=greedy(reads=lambda tokens, written: torch.full_like(tokens, START)),
        one_token_too_few=greedy(limit=lambda longest: longest - 1),
        one_token_too_many=greedy(limit=lambda longest: longest + 1),
        one_more_token=greedy(filled=lambda tokens, ended, before: tokens.masked_fill(before, PAD)),
        end_remembered_once=Wrong(greedy(remembers=False), recognise=lambda seen: _talks_again(seen.output[0])),
        stops_only_together=greedy(stops=lambda ended, before, now: now.all()),
        one_step_too_many=greedy(stops=lambda ended, before, now: before.all()),
        last_column_thrown_away=greedy(stops=lambda ended, before, now: before.all(), told=_until_all_have_ended),
        cut_afterwards=greedy(stops=lambda ended, before, now: False, told=_until_all_have_ended),
        spare_step=greedy(spare=True),
        always_the_longest=greedy(told=as_wide_as_the_limit),
        end_again_and_again=greedy(filled=lambda tokens, ended, before: tokens.masked_fill(ended, END)),
        pad_taken_for_end=greedy(ends=(END, PAD)),
        pad_and_start_forbidden=greedy(chosen=lambda logits: likeliest(logits[:, END:]) + END),
        pad_forbidden=greedy(chosen=lambda logits: likeliest(logits[:, START:]) + START),
        one_tensor=greedy(told=lambda written, longest: written[:, -1:].expand_as(written).clone()),
        least_likely=greedy(chosen=lambda logits: likeliest(-logits)),
    ),
)
