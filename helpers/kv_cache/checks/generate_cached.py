"""The check of `generate_cached`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Behaviour, Check
from helpers.engine.drivers import watch
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


def _no_call_too_many(seen) -> bool:
    _, calls, read = seen.output
    return calls <= seen.args[2] and read < seen.args[1].shape[1] + seen.args[2]


def _one_call_too_many(seen) -> bool:
    _, calls, read = seen.output
    return calls == seen.args[2] + 1 and read == seen.args[1].shape[1] + seen.args[2]


def _read_again(seen) -> bool:
    return seen.output[2] > seen.args[1].shape[1] + seen.args[2]


def _in_small_calls(seen) -> bool:
    _, calls, read = seen.output
    return calls > seen.args[2] and read < seen.args[1].shape[1] + seen.args[2]


def one_call_too_many(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = []
    for step in range(n):
        tokens.append(_best(logits))
        logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
    return torch.cat(tokens, dim=1)


def riddle_model(v: int) -> RandomArg:
    """A model whose next token depends on every token, on its position and on the order in which the cache holds them."""

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


def _best(logits) -> Tensor:
    return logits[:, -1:].argmax(dim=-1)


def _written(model, prompt, n, *, start=0, late=0, row=-1, first=None) -> Tensor:
    logits, cache = model(prompt, start, None)
    tokens = [logits[:, row].argmax(dim=-1, keepdim=True)]
    if first is not None:
        tokens = [first]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1] + step + late, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def without_a_cache(model, prompt, n) -> Tensor:
    tokens = prompt
    for _ in range(n):
        tokens = torch.cat([tokens, _best(model(tokens, 0, None)[0])], dim=1)
    return tokens[:, prompt.shape[1] :]


def everything_again(model, prompt, n) -> Tensor:
    tokens, cache = prompt, None
    for _ in range(n):
        logits, cache = model(tokens, 0, cache)
        tokens = torch.cat([tokens, _best(logits)], dim=1)
    return tokens[:, prompt.shape[1] :]


def prompt_by_tokens(model, prompt, n) -> Tensor:
    cache = None
    for place in range(prompt.shape[1]):
        logits, cache = model(prompt[:, place : place + 1], place, cache)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def prompt_backwards(model, prompt, n) -> Tensor:
    return _written(model, prompt.flip(1), n)


def forgets_the_cache(model, prompt, n) -> Tensor:
    token, tokens = _best(model(prompt, 0, None)[0]), []
    for step in range(n):
        tokens.append(token)
        token = _best(model(token, prompt.shape[1] + step, None)[0])
    return torch.cat(tokens, dim=1)


def old_cache_for_ever(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, _ = model(tokens[-1], prompt.shape[1] + step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def last_prompt_token_twice(model, prompt, n) -> Tensor:
    _, cache = model(prompt, 0, None)
    token, tokens = prompt[:, -1:], []
    for step in range(n):
        logits, cache = model(token, prompt.shape[1] + step, cache)
        token = _best(logits)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def start_stays(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for _ in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1], cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def start_at_zero(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def one_tensor_for_all(model, prompt, n) -> Tensor:
    return _written(model, prompt, n)[:, -1:].expand(-1, n).clone()


def the_same_for_the_whole_batch(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = []
    for step in range(n):
        best = logits[:, -1].argmax() % logits.shape[-1]
        tokens.append(best.expand(len(prompt), 1))
        if step < n - 1:
            logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
    return torch.cat(tokens, dim=1)


def tokens_as_floats(model, prompt, n) -> Tensor:
    tokens = torch.zeros(len(prompt), n)
    tokens[:] = _written(model, prompt, n)
    return tokens


def not_with_one_token(model, prompt, n) -> Tensor:
    tokens = _written(model, prompt, n)
    return torch.cat([tokens[:, :1], torch.stack(list(tokens[:, 1:].unbind(1)), dim=1)], dim=1)


generate_cached = Check(
    reference=decoding.generate_cached,
    drive=drive_generation,
    view=lambda output: output[0],
    behaviours=[
        Behaviour(
            "every token read once",
            _no_call_too_many,
            "The model has p + n − 1 tokens to read, in n calls: the prompt, then every new token but the last.",
        ),
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
        no_cache_at_all=Wrong(without_a_cache, cost=_read_again),
        everything_read_again_into_cache=everything_again,
        prompt_read_token_by_token=Wrong(prompt_by_tokens, cost=_in_small_calls),
        last_token_read_too=Wrong(one_call_too_many, cost=_one_call_too_many),
        prompt_backwards=prompt_backwards,
        cache_not_handed_back=forgets_the_cache,
        always_prompts_cache=old_cache_for_ever,
        last_prompt_token_read_twice=last_prompt_token_twice,
        position_off_by_one=lambda model, prompt, n: _written(model, prompt, n, late=1),
        batch_taken_prompts_length=lambda model, prompt, n: _written(
            model, prompt, n, late=len(prompt) - prompt.shape[1]
        ),
        position_that_stays=start_stays,
        positions_that_begin_again_after_prompt=start_at_zero,
        first_row_logits=lambda model, prompt, n: _written(model, prompt, n, row=0),
        first_new_token_left_out=lambda model, prompt, n: _written(model, prompt, n + 1)[:, 1:],
        one_tensor_all_tokens=one_tensor_for_all,
        one_token_whole_batch=the_same_for_the_whole_batch,
        tokens_that_come_as_floats=tokens_as_floats,
        error_n_1=Wrong(not_with_one_token, raises="RuntimeError"),
        prompt_returned_too=lambda model, prompt, n: torch.cat([prompt, _written(model, prompt, n)], dim=1),
    ),
)
