"""The check of `greedy_decode`."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import call
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
    encode,
    step,
    source,
    longest,
    *,
    start=START,
    first=None,
    memory=None,
    change=None,
    pad=True,
    stop="all",
    forget=False,
    remember=True,
    late=False,
    ends=(END,),
    shun=0,
    filler=PAD,
):
    """Greedy search with one thing changed. `first`: the first inputs, (rows, 1), if they aren't `start` for every
    row."""
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
    misconceptions=wrong_answers(
        __file__,
        encoder_run_again_every_token=encodes_every_step,
        everything_computed_again_every_token=without_cache_and_encoding_again,
        no_cache=without_cache,
        all_tokens_read_again_into_cache=everything_into_the_cache,
        cache_not_handed_back=lambda *inputs: _greedy(*inputs, forget=True),
        one_sentence_after_other=row_by_row,
        stops_when_first_sentence_ends=lambda *inputs: _greedy(*inputs, stop="any"),
        goes_on_limit=lambda *inputs: _greedy(*inputs, stop="never"),
        goes_on_talking_after_end=lambda *inputs: _greedy(*inputs, pad=False),
        start_one_row_only=Wrong(start_for_one_row, raises="RuntimeError"),
        start_answer=with_start,
        end_left_out_answer=without_end,
        end_as_first_input=lambda *inputs: _greedy(*inputs, start=END),
        sources_first_word_as_first_input=starts_with_the_source,
        start_read_every_step=lambda *inputs: _greedy(*inputs, change=lambda tokens: torch.full_like(tokens, START)),
        one_token_too_few=one_step_too_few,
        one_token_too_many=one_token_too_many,
        one_more_token_after_end=one_more_token_after_end,
        end_remembered_one_step_only=Wrong(
            lambda *inputs: _greedy(*inputs, remember=False), recognise=lambda seen: _talks_again(seen.output[0])
        ),
        stops_only_where_all_rows_end_same_step=lambda *inputs: _greedy(*inputs, stop="together"),
        one_step_too_many=lambda *inputs: _greedy(*inputs, late=True),
        one_step_too_many_column_thrown_away=one_step_too_many_thrown_away,
        all_steps_taken_cut_afterwards=cut_after_all_steps,
        step_that_nobody_reads=asked_before_it_is_needed,
        always_longest_columns=as_wide_as_the_limit,
        end_again_again=lambda *inputs: _greedy(*inputs, filler=END),
        pad_taken_end=lambda *inputs: _greedy(*inputs, ends=(END, PAD)),
        pad_start_forbidden=lambda *inputs: _greedy(*inputs, shun=END),
        pad_forbidden=lambda *inputs: _greedy(*inputs, shun=START),
        one_tensor_all_columns=one_buffer,
        least_likely_token=least_likely,
    ),
)
