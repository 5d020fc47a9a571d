"""How layers are tried: their inputs, and what they do in training mode and at half a rate of dropout, in words."""

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn

from helpers.engine.cases import RandomArg
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped
from helpers.engine.observe import Observation, observe

ROUNDING = (1e-4, 1e-4)

FORBIDDEN = ["multi_head_attention", "transformer_encoder_layer"]  # PyTorch's own layers in disguise


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Standard normal numbers."""
    return RandomArg(lambda generator: torch.randn(shape, generator=generator, dtype=dtype))


def padded(b: int, rows: int, m: int) -> RandomArg:
    """A mask (b, rows, m) that hides the last tokens of all sequences but the first, for all rows alike."""

    def draw(generator: Generator) -> Tensor:
        lengths = torch.randint(1, m, (b, 1, 1), generator=generator)
        lengths[0] = m
        return (torch.arange(m) < lengths).expand(b, rows, m).clone()

    return RandomArg(draw)


def causal(n: int) -> Tensor:
    """Token i sees tokens 0 … i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def weights_like(module: nn.Module, generator: Generator, dtype: torch.dtype) -> dict[str, Tensor]:
    """Random weights for every parameter of a module: large enough that each of them shows in the output."""

    def draw(name: str, like: Tensor) -> Tensor:
        drawn = torch.randn(like.shape, generator=generator, dtype=dtype)
        if "norm" in name and name.endswith("weight"):
            return 1 + drawn / 3
        return drawn * 1.5 / math.sqrt(like.shape[-1]) if like.dim() > 1 else drawn / 2

    return {name: draw(name, like) for name, like in module.state_dict().items()}


def built(cls: Callable, sizes: Sequence, weights: dict[str, Tensor]) -> nn.Module:
    """The module, with these weights, in their dtype."""
    return loaded(cls(*sizes), weights)


def loaded(module: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """A module with these weights, in their dtype."""
    if next(iter(weights.values())).dtype == torch.float64:
        module.double()
    buffers = dict(module.named_buffers())
    there = module.state_dict() if buffers else {}  # with the buffers that are kept: no weights, they stay as they are
    module.load_state_dict({name: table for name, table in buffers.items() if name in there} | weights)
    return module


ALL = 1.0  # the rate of dropout in all cases: in training mode nothing is left of a sublayer, or to chance

RANDOM = Message("in training mode another output each time, though dropout at rate 1 leaves nothing to chance")


def settled(module: nn.Module, inputs: tuple, thorough: bool) -> Tensor | tuple:
    """The output in evaluation mode; in a thorough case also that in training mode, where every dropout drops all, what
    became of the inputs, and the gradients of those that are floats."""
    module.eval()
    if not thorough:
        return module(*copies(inputs))
    module(*map(other_way_round, inputs))  # of this nothing may be left
    seen = seen_call(module, inputs)
    module.train()
    kept = Message("its inputs changed in place" if seen.modified else "its inputs left as they are")
    return (
        seen.output,
        in_training(module(*map(twice, inputs)), len(inputs[0])),
        kept,
        *told_gradients(seen, *GRADIENTS_OF[: sum(map(_is_float, inputs))]),
    )


def other_way_round(one: Tensor | None) -> Tensor | None:
    """Features, or the keys that a mask shows, from last to first."""
    return one if one is None else one.flip(-1)


def _is_float(one: Tensor | None) -> bool:
    return one is not None and one.is_floating_point()


def copies(inputs: tuple) -> tuple:
    """For a call that may change its inputs."""
    return tuple(one.clone() if isinstance(one, Tensor) else one for one in inputs)


def seen_call(function: Callable, inputs: tuple) -> Observation:
    """One call on copies of its inputs, and its way back. A student's error goes on to the card."""
    seen = observe(function, inputs, gradient=True, counts=False)
    if seen.error:
        raise Stopped(seen.error)
    return seen


def twice(batch: Tensor | None) -> Tensor | None:
    """Every sequence of a batch once more, behind all of them."""
    return None if batch is None else torch.cat([batch, batch])


def in_training(output: Tensor, b: int) -> Tensor | Message:
    """The output for b sequences that stand there `twice`, once; what chance makes different is not compared."""
    if not isinstance(output, Tensor) or output.shape[:1] != (2 * b,) or not output.is_floating_point():
        return output
    first, again = output.chunk(2)
    return first if torch.allclose(first, again, equal_nan=True) else RANDOM


GRADIENTS_OF = ("x", "the memory")


def told_gradients(seen: Observation, *names: str) -> tuple:
    """Gradients of a call, one for each of its inputs with a name; those that are missing in words."""
    if seen.backward_error:
        return (Message(f"the backward pass stops with an error: {seen.backward_error.kind}"),) * len(names)
    pairs = zip(names, seen.gradients or (None,) * len(names), strict=True)
    return tuple(Message(f"no gradient comes back to {name}") if one is None else one for name, one in pairs)


HALF = (3, 1, 2, 0.5)  # d, h, d_ff and the rate

TOKENS = 20  # sequences of one token each

WHOLE = Message("at rate ½ whole tokens are dropped, not single features")

IN_ITS_PLACE = Message("dropout where it belongs")

NOT_SCALED = Message("at rate ½ what dropout leaves is not doubled")

ELSEWHERE = Message("at rate ½ an output that dropout on what each sublayer gives can't lead to")


def choices(x: Tensor, scale: float, whole: bool = False) -> Tensor:
    """Each feature dropped or scaled, in all combinations, (…, d) → (…, 2^d, d); of a whole token all or none, (…, d) →
    (…, 2, d)."""
    kept = torch.tensor([0.0, 1.0], dtype=x.dtype)
    kept = kept[:, None] if whole else torch.cartesian_prod(*[kept] * x.shape[-1])
    return x[..., None, :] * scale * kept


def added(norm: nn.Module, x: Tensor, given: Tensor, scale: float, whole: bool = False) -> Tensor:
    """norm(x + dropout(given)) in all combinations, for s possible inputs of each sequence of one token: (b, s, d) →
    (b, s·2^d, d)."""
    return norm(x[:, :, None] + choices(given, scale, whole)).flatten(1, 2)


def all_that_can_come_out(
    layer: nn.Module, x: Tensor, memory: Tensor | None = None, *, scale: float, whole: str = ""
) -> Tensor:
    """Of a layer of ours in training mode that reads sequences of one token: (b, 1, d) → (b, s, d). whole: the
    sublayer, if any, of which whole tokens are dropped."""
    x = added(layer.norm1, x, layer.self_attn(x), scale, whole == "self")
    x = x if memory is None else added(layer.norm2, x, layer.cross_attn(x, memory), scale, whole == "cross")
    hidden = layer.linear1(x).relu()  # (b, s, d_ff)
    hidden = torch.cat([hidden[:, :, None], choices(hidden, scale)], dim=2)  # (b, s, 1 + 2^d_ff, d_ff)
    last = layer.norm2 if memory is None else layer.norm3
    x = x.repeat_interleave(hidden.shape[2], dim=1)
    return added(last, x, layer.linear2(hidden).flatten(1, 2), scale, whole == "feed")


def where_it_drops(got: Tensor, possible: list[tuple[Message, Tensor]]) -> Message:
    """In words: which of the lists (b, s, d) is the first that holds what came out, (b, 1, d)."""
    found = (words for words, listed in possible if _in_the_list(got, listed))
    return next(found, ELSEWHERE)


def _in_the_list(got: Tensor, listed: Tensor) -> bool:
    if not isinstance(got, Tensor) or got.shape != (len(listed), 1, listed.shape[-1]):
        return False
    return bool(((got.detach() - listed).abs().amax(dim=2).amin(dim=1) < 1e-7).all())


@functools.cache
@torch.no_grad()
def _halved(like: type[nn.Module], reads_memory: bool) -> tuple[dict, tuple, list]:
    """Weights, inputs of sequences of one token, and what may come out."""
    generator, (d, *_) = Generator().manual_seed(1), HALF
    weights = weights_like(like(*HALF), generator, torch.float64)
    lengths = (1, 4) if reads_memory else (1,)
    inputs = [torch.randn(TOKENS, n, d, generator=generator, dtype=torch.float64) for n in lengths]
    layer = built(like, HALF, weights)
    kinds = [(WHOLE, 2.0, name) for name in ("self", "cross", "feed")]
    kinds += [(IN_ITS_PLACE, 2.0, ""), (NOT_SCALED, 1.0, "")]
    possible = [
        (words, all_that_can_come_out(layer, *inputs, scale=scale, whole=whole))
        for words, scale, whole in kinds
        if reads_memory or whole != "cross"
    ]
    return weights, tuple(inputs), possible


def at_half_the_rate(cls: Callable, like: type[nn.Module], reads_memory: bool = False) -> Message:
    """Where a layer drops, in words."""
    weights, inputs, possible = _halved(like, reads_memory)
    layer = built(cls, HALF, weights)
    layer.train()
    return where_it_drops(layer(*copies(inputs)), possible)
