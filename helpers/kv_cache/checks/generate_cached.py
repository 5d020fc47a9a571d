"""New tokens one after the other, each read once."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Behaviour, Check
from helpers.engine.drivers import watch
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.transformer_lm.transformer import Config, DecoderLM

from .. import decoding
from ..cache import GrowingCache
from .decoding import hand_on

__all__ = ["generate_cached"]


def drive_generation(answer, model, prompt: Tensor, n: int):
    """The tokens, the calls of the model, and how many tokens it had to read."""
    calls, read = 0, 0

    def counted(tokens, start, cache) -> tuple[Tensor, Tensor]:
        nonlocal calls, read
        calls, read = calls + 1, read + tokens.shape[1]
        return model(tokens, start, cache)

    counted.__qualname__ = "model"  # what an error message calls it
    seen = watch(answer, counted, prompt, n)
    hand_on(seen, prompt)
    return seen.output, calls, read


def _calls_and_read(seen) -> tuple[int, int]:
    """How many calls and tokens more than are needed."""
    _, calls, read = seen.output
    _, prompt, n = seen.args
    return calls - n, read - (prompt.shape[1] + n - 1)


def _no_call_too_many(seen) -> bool:
    calls, read = _calls_and_read(seen)
    return calls <= 0 and read <= 0


def _in_small_calls(seen) -> bool:
    calls, read = _calls_and_read(seen)
    return calls > 0 and read <= 0


def riddle_model(v: int) -> RandomArg:
    """A model whose next token depends on all tokens, their positions and the order in which the cache holds them."""

    def model(tokens, start, cache) -> tuple[Tensor, Tensor]:
        positions = (start + torch.arange(tokens.shape[1])).expand(tokens.shape)
        new = (tokens + 2) * (positions + 3) % v  # (b, n)
        cache = new if cache is None else torch.cat([cache, new], dim=1)
        order = torch.arange(1, cache.shape[1] + 1)
        mixed = ((cache + order) ** 2 * order).cumsum(dim=1)[:, -tokens.shape[1] :] % v
        return torch.nn.functional.one_hot(mixed, v).float(), cache

    return RandomArg(lambda _: model)


def small_transformer(generator: Generator):
    """A small DecoderLM with drawn weights; the cache is a list with a pair of tensors for each layer."""
    lm = DecoderLM(Config(vocabulary=31, d=24, h=3, h_kv=3, layers=2)).requires_grad_(False)
    for parameter in lm.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 2 / math.sqrt(parameter.shape[-1]))

    def model(tokens, start, cache):
        layers = [GrowingCache() for _ in lm.blocks]
        for layer, (keys, values) in zip(layers, cache or []):
            layer.append(keys, values)
        return lm(tokens, cache=layers), [(layer.keys, layer.values) for layer in layers]

    return model


def random_prompt(b: int, p: int, v: int) -> RandomArg:
    return RandomArg(lambda g: torch.randint(v, (b, p), generator=g))


def best(logits) -> Tensor:
    return logits[:, -1:].argmax(dim=-1)


@composable
def writing(
    read: Callable = lambda model, prompt: model(prompt, 0, None),
    pick: Callable = best,
    place: Callable = lambda prompt, step: prompt.shape[1] + step,
    handed: Callable = lambda of_prompt, last: last,  # of both caches the one that is handed in
    last_too: bool = False,  # whether the last token is read
) -> Callable:
    """The right answer with some of its steps changed."""

    def generate(model, prompt, n):
        logits, cache = read(model, prompt)
        tokens, of_prompt = [pick(logits)], cache
        for step in range(n if last_too else n - 1):
            logits, cache = model(tokens[-1], place(prompt, step), handed(of_prompt, cache))
            tokens.append(pick(logits))
        return torch.cat(tokens[:n], dim=1)

    return generate


right = writing()


def token_by_token(model, prompt):
    cache = None
    for place in range(prompt.shape[1]):
        logits, cache = model(prompt[:, place : place + 1], place, cache)
    return logits, cache


def all_but_last_first(model, prompt):
    cache = model(prompt[:, :-1], 0, None)[1] if prompt.shape[1] > 1 else None
    return model(prompt[:, -1:], prompt.shape[1] - 1, cache)


def first_row(model, prompt):
    logits, cache = model(prompt, 0, None)
    return logits[:, :1], cache


def all_again(handed: Callable) -> Callable:
    """All tokens are read in every step. handed: the cache that is handed in."""

    def generate(model, prompt, n):
        tokens, cache = prompt, None
        for _ in range(n):
            logits, cache = model(tokens, 0, handed(cache))
            tokens = torch.cat([tokens, best(logits)], dim=1)
        return tokens[:, prompt.shape[1] :]

    return generate


def last_prompt_token_twice(model, prompt, n):
    _, cache = model(prompt, 0, None)
    tokens = [prompt[:, -1:]]
    for step in range(n):
        logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
        tokens.append(best(logits))
    return torch.cat(tokens[1:], dim=1)


def not_with_one_token(model, prompt, n):
    tokens = right(model, prompt, n)
    return torch.cat([tokens[:, :1], torch.stack(list(tokens[:, 1:].unbind(1)), dim=1)], dim=1)


generate_cached = Check(
    reference=decoding.generate_cached,
    drive=drive_generation,
    names=("the text: sequences tokens", "the number of calls of the model", "the number of tokens that it read"),
    view=lambda output: output[0],
    behaviours=[
        Behaviour(
            "every token read once",
            _no_call_too_many,
            "The model has p + n − 1 tokens to read, in n calls: the prompt, then every new token but the last.",
        )
    ],
    cases=[
        explicit_case("a prompt of 4, 6 new tokens", riddle_model(101), random_prompt(2, 4, 101), 6),
        explicit_case("a prompt of 1, 4 new tokens", riddle_model(97), random_prompt(3, 1, 97), 4),
        explicit_case("a prompt of 7, 3 new tokens", riddle_model(89), random_prompt(1, 7, 89), 3),
        explicit_case("a prompt of 5, 1 new token", riddle_model(83), random_prompt(3, 5, 83), 1),
        explicit_case("a small Transformer", RandomArg(small_transformer), random_prompt(2, 5, 31), 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        no_cache=Wrong(all_again(lambda cache: None), cost=lambda seen: _calls_and_read(seen)[1] > 1),
        all_read_again=all_again(lambda cache: cache),
        split_before_last=Wrong(writing(read=all_but_last_first), cost=lambda seen: _calls_and_read(seen) == (1, 0)),
        token_by_token=Wrong(writing(read=token_by_token), cost=_in_small_calls),
        last_token_read=Wrong(writing(last_too=True), cost=lambda seen: _calls_and_read(seen) == (1, 1)),
        backwards=writing(read=lambda model, prompt: model(prompt.flip(1), 0, None)),
        cache_not_handed_back=writing(handed=lambda of_prompt, last: None, last_too=True),
        prompts_cache=writing(handed=lambda of_prompt, last: of_prompt),
        read_twice=last_prompt_token_twice,
        off_by_one=writing(place=lambda prompt, step: prompt.shape[1] + step + 1),
        batch_for_length=writing(place=lambda prompt, step: len(prompt) + step),
        position_stays=writing(place=lambda prompt, step: prompt.shape[1]),
        begins_again=writing(place=lambda prompt, step: step),
        first_row=writing(read=first_row),
        first_left_out=lambda model, prompt, n: right(model, prompt, n + 1)[:, 1:],
        one_tensor=lambda model, prompt, n: right(model, prompt, n)[:, -1:].expand(-1, n).clone(),
        one_token_for_all=writing(
            pick=lambda logits: (logits[:, -1].argmax() % logits.shape[-1]).expand(len(logits), 1)
        ),
        floats=lambda model, prompt, n: right(model, prompt, n).float(),
        error_for_n_1=Wrong(not_with_one_token, raises="RuntimeError"),
        prompt_too=lambda model, prompt, n: torch.cat([prompt, right(model, prompt, n)], dim=1),
    ),
)
