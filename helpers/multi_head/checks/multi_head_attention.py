"""The check of `MultiHeadAttention`: self- and cross-attention, with a mask for all sequences or for each."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_map

from helpers.engine.answers.common_misconceptions import in_single_precision, visible_mask
from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, attend
from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.compare import Message, agree, in_float64, tolerance
from helpers.engine.drivers import Stopped, call
from helpers.engine.observe import Observation, observe
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..heads import MultiHeadAttention as Reference
from .heads import AS_PRECISE, NEAR_20, ROUNDING, causal, mask_without_key_0, one_key_apart, queries_apart
from .sources import Sources

__all__ = ["MultiHeadAttention"]

NAMES = ("w_q", "w_k", "w_v", "w_o")

WEIGHTS = "gradients of the weights"


def _run(
    layer_class,
    h: int,
    weights: dict[str, Tensor],
    x: Tensor,
    memory: Tensor | None,
    mask: Tensor | None,
    earlier: Tensor | None = None,
    gradients: bool = False,
) -> Tensor | dict[str, Tensor | str]:
    """Build the layer, load the weights, call it with what there is. Before that, with weights half as large, call it
    once with an `earlier` mask (n, n) or memory (b, m, d): nothing of that may stay. With `gradients` these come along,
    in words where they are missing, and without a memory also whether the weights get any."""
    layer = layer_class(x.shape[-1], h)
    if x.dtype == torch.float64:
        layer.double()
    if earlier is not None:
        layer.load_state_dict({name: weight / 2 for name, weight in weights.items()})
        layer(x, **{"mask" if earlier.dtype == torch.bool else "memory": earlier})
    layer.load_state_dict(weights)
    given_too = {name: value for name, value in (("memory", memory), ("mask", mask)) if value is not None}
    if not gradients:
        return layer(x, **given_too)
    seen = observe(layer, (x,), given_too, gradient=True, counts=False)
    if seen.error:
        raise Stopped(seen.error)
    if memory is not None:
        return {"output": seen.output} | _told_gradients(seen, ["x", "memory"])
    trained = _trained(layer_class, layer, x, given_too)
    return {"output": seen.output} | _told_gradients(seen, ["x"]) | {WEIGHTS: trained}


def _trained(layer_class, layer, x: Tensor, given_too: dict[str, Tensor]) -> Message:
    """Whether a gradient reaches each of the four layers: it alone wants one, and a hook asks whether the output still
    does. (The weights live in their student's process, and what is differentiated there is inputs. So no gradient of
    theirs is computed here.)"""
    wants = []
    call(layer.register_forward_hook, lambda _, inputs, output: wants.append(getattr(output, "requires_grad", True)))
    call(layer.requires_grad_, False)
    lost = [f"`{name}`" for name in NAMES if not _wants(layer_class, layer, name, x, given_too, wants)]
    if not lost:
        return Message("all layers are trained")
    return Message(
        f"the values are right, but no gradient reaches {' and '.join(lost)}: training can't move the weights"
    )


def _wants(layer_class, layer, name: str, x: Tensor, given_too: dict[str, Tensor], wants: list[bool]) -> bool:
    """What the hook finds with gradients wanted in one layer only; True where its class calls no hook."""
    projection = call(layer.get_submodule, name)
    call(layer_class.requires_grad_, projection, True)
    call(partial(layer, **given_too), x)
    call(layer_class.requires_grad_, projection, False)
    return wants.pop() if wants else True


def _only_the_weights(seen: Observation) -> bool:
    """A mark: all is right, but for the gradients of the weights."""
    right = _run(Reference, *tree_map(in_float64, seen.args))
    off = [name for name in right if not agree(seen.output[name], right[name], ROUNDING[torch.float32])]
    return off == [WEIGHTS]


def _told_gradients(seen: Observation, names: list[str]) -> dict[str, Tensor | str]:
    """The gradients of a call, by name."""
    lead = "the values are right, but"
    if seen.backward_error:
        found = [Message(f"{lead} the backward pass stopped with an error. {seen.backward_error}")] * len(names)
    else:
        found = seen.gradients or [None] * len(names)
    lost = "no gradient reaches it, so nothing before it could be trained"
    return {
        f"gradient of {name}": Message(f"{lead} {lost}") if one is None else one
        for name, one in zip(names, found, strict=True)
    }


def _weights(d: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Weights and biases under the names of the docstring. The biases are large, so that one that is left out shows."""

    def draw(generator: Generator) -> dict[str, Tensor]:
        weights = {f"{name}.weight": torch.randn(d, d, generator=generator) / math.sqrt(d) * 1.5 for name in NAMES}
        weights |= {f"{name}.bias": torch.randn(d, generator=generator) for name in NAMES}
        return {name: weight.to(dtype) for name, weight in weights.items()}

    return RandomArg(draw)


def case(label: str, *, b=2, n, d, h, m=None, mask=None, scale=1.0, earlier=None, gradients=False) -> Case:
    """With `gradients` in float64."""
    dtype = torch.float64 if gradients else torch.float32
    memory = normal(b, m, d, scale=scale, dtype=dtype) if m else None
    x = normal(b, n, d, scale=scale, dtype=dtype)
    inputs = (h, _weights(d, dtype), x, memory, visible_mask(*mask) if mask else None)
    return explicit_case(label, *inputs, earlier, gradients)


def _weights_that_pass_on(d: int) -> RandomArg:
    """Queries and keys are the tokens themselves. In float64."""
    eye, nothing = torch.eye(d).double(), torch.zeros(d).double()
    same = {"w_q.weight": eye, "w_q.bias": nothing, "w_k.weight": eye, "w_k.bias": nothing}
    return RandomArg(lambda generator: _weights(d, torch.float64).make(generator) | same)


# ------------------------------------------------------------------------------------------------------------ the layer


def linears(d: int, counts: tuple[int, ...] = (1, 1, 1, 1), bias: bool = True) -> list[nn.Linear]:
    """Layers, of which each serves so many names in turn."""
    return [linear for count in counts for linear in [nn.Linear(d, d, bias)] * count]


@dataclass(frozen=True)
class Layer(Attention):
    """The steps of attention, and what the layer around it adds."""

    linears: Callable = linears  # d → w_q, w_k, w_v, w_o
    given: Callable = lambda layer, x, memory, mask: (x, memory, mask)
    sources: Callable = lambda x, memory: (x, memory, memory)  # of queries, keys and values
    project: Callable = lambda layer, q, k, v: (layer.w_q(q), layer.w_k(k), layer.w_v(v))
    split: Callable = lambda t, sizes, n: t.reshape(len(t), -1, sizes.h, sizes.d_h).transpose(1, 2)
    head_axis: Callable = lambda mask, b, h: mask.unsqueeze(-3)
    merge: Callable = lambda heads: heads.transpose(1, 2).flatten(2)
    output: Callable = lambda layer, merged, x: layer.w_o(merged)


@composable
def layer(**changed: Callable) -> type[nn.Module]:
    """The layer with these steps changed."""
    steps = Layer(**changed)

    class MultiHeadAttention(nn.Module):  # PyTorch's messages name the class
        kept = None  # from an earlier call

        def __init__(self, d, h) -> None:
            super().__init__()
            self.sizes = Sizes(d // h, d, h)
            self.w_q, self.w_k, self.w_v, self.w_o = steps.linears(d)

        def forward(self, x, memory=None, mask=None) -> Tensor:
            x, memory, mask = steps.given(self, x, memory, mask)
            projected = steps.project(self, *steps.sources(x, x if memory is None else memory))
            q, k, v = (steps.split(t, self.sizes, x.shape[1]) for t in projected)
            mask = None if mask is None else steps.head_axis(mask, len(x), self.sizes.h)
            return steps.output(self, steps.merge(attend(steps, q, k, v, mask, self.sizes)[0]), x)

    return MultiHeadAttention


def split_by_view(t, sizes, n) -> Tensor:
    return t.reshape(len(t), sizes.h, -1, sizes.d_h)


def split_by_n(t, sizes, n) -> Tensor:
    return t.view(len(t), n, sizes.h, sizes.d_h).transpose(1, 2)


def merge_by_view(heads) -> Tensor:
    return heads.reshape(len(heads), heads.shape[2], -1)


def split_swapped(t, sizes, n) -> Tensor:
    return t.reshape(len(t), -1, sizes.d_h, sizes.h).permute(0, 3, 1, 2)


def in_float32(hidden, mask, scores) -> Tensor:
    return torch.softmax(hidden.float(), dim=-1).to(hidden.dtype)


def over_heads(hidden, mask, scores) -> Tensor:
    return torch.softmax(hidden, dim=1)


def over_heads_and_keys(hidden, mask, scores) -> Tensor:
    shares = torch.softmax(hidden.transpose(1, 2).flatten(2), dim=-1)  # (b, n, h·m)
    return shares.unflatten(-1, (hidden.shape[1], -1)).transpose(1, 2)


def one_maximum(axes: tuple[int, ...]) -> Callable:
    def normalise(hidden, mask, scores) -> Tensor:
        powers = torch.exp(hidden - hidden.amax(dim=axes, keepdim=True))
        return powers / powers.sum(dim=-1, keepdim=True)

    return normalise


def causal_without_mask(layer, x, memory, mask) -> tuple:
    m = (x if memory is None else memory).shape[1]
    return x, memory, torch.ones(x.shape[1], m, dtype=torch.bool).tril() if mask is None else mask


def mask_kept(layer, x, memory, mask) -> tuple:
    layer.kept = layer.kept if mask is None else mask
    return x, memory, layer.kept


def mask_kept_for_its_shape(layer, x, memory, mask) -> tuple:
    if mask is None or layer.kept is None or layer.kept.shape != mask.shape:
        layer.kept = mask
    return x, memory, layer.kept


def memory_kept(layer, x, memory, mask) -> tuple:
    layer.kept = layer.kept if memory is None else memory
    return x, layer.kept, mask


def memory_cut_off(layer, x, memory, mask) -> tuple:
    return x, None if memory is None else memory.detach(), mask


def keys_and_values_kept(layer, q, k, v) -> tuple:
    layer.kept = layer.kept or (layer.w_k(k), layer.w_v(v))
    return layer.w_q(q), *layer.kept


def projected(product: Callable) -> Callable:
    """Queries, keys and values as `product(tokens, linear)`."""
    return lambda layer, *of: [product(t, w) for t, w in zip(of, (layer.w_q, layer.w_k, layer.w_v), strict=True)]


def transposed_values(layer, q, k, v) -> tuple:
    return layer.w_q(q), layer.w_k(k), v @ layer.w_v.weight + layer.w_v.bias


def kind_guessed(mask, b, h) -> Tensor:
    return mask[:, None] if len(mask) == b else mask


def masks_in_turn(mask, b, h) -> Tensor:
    return mask.repeat(h, 1, 1).unflatten(0, (b, h)) if mask.dim() == 3 else mask.unsqueeze(-3)


def off_as(*layers: type[nn.Module]) -> Callable[[Observation], bool]:
    """A mark: an output that is off, and is what one of these layers gives, never mind its gradients."""

    def shows(seen: Observation) -> bool:
        got = seen.output["output"] if isinstance(seen.output, dict) else seen.output
        *args, _ = seen.args
        within = ROUNDING.get(got.dtype, tolerance(seen.args))
        right = _run(Reference, *tree_map(in_float64, args))
        return not agree(got, right, within) and any(agree(got, _run(one, *args), within) for one in layers)

    return shows


KEEPS_KEYS_AND_VALUES = layer(project=keys_and_values_kept)
VERY_LOW = {"hide": lambda scores, mask: scores.masked_fill(~mask, -1e9)}  # where −∞ makes NaN
OVER_HEADS = layer(normalise=over_heads), layer(normalise=over_heads, **VERY_LOW)
ONE_MAXIMUM = [layer(normalise=one_maximum(axes)) for axes in ((0, 1, 2, 3), (1, 2, 3), (2, 3))]
CLAMPED = [layer(**steps) for steps in Softmax.clamped.variants]

MultiHeadAttention = Check(
    reference=Reference,
    drive=_run,
    cases=[
        case("self-attention: n = 5, d = 12, 3 heads", n=5, d=12, h=3),
        case("cross-attention: n = 4, m = 6, d = 8, 2 heads", b=3, n=4, m=6, d=8, h=2),
        case("cross-attention with n = m = 5", n=5, m=5, d=6, h=3),
        case("a mask (n, m) for all sequences", n=4, m=7, d=12, h=4, mask=(4, 7)),
        case("a mask for each sequence, b = h = 2", n=5, d=8, h=2, mask=(2, 5, 5)),
        case("a mask for each sequence, b = 3, h = 2", b=3, n=4, m=5, d=8, h=2, mask=(3, 4, 5)),
        case("large scores", n=4, d=10, h=5, scale=5.5),
        case("no mask, after a call with one and other weights", n=3, d=8, h=4, earlier=visible_mask(3, 3)),
        case("no memory, after a call with one and other weights", n=3, d=8, h=2, earlier=normal(2, 3, 8)),
        case(
            "a mask, after a call with another one and other weights",
            **{"n": 6, "d": 8, "h": 2, "mask": (6, 6), "earlier": visible_mask(6, 6)},
        ),
        explicit_case(
            "scores near −800, 800 and 0, a hidden one near 800: gradients, in float64",
            *(2, _weights_that_pass_on(8), queries_apart, one_key_apart(2, 5, 8), mask_without_key_0(3, 5), None, True),
        ),
        explicit_case(
            "scores near −800, without a mask",
            *(2, _weights_that_pass_on(8), NEAR_20, normal(2, 5, 8, mean=-20.0, dtype=torch.float64), None, None),
        ),
        case("a mask (n, m) for all, with b = h = n = 3", b=3, n=3, m=4, d=6, h=3, mask=(3, 4)),
        case("self-attention with a mask (n, n), b = n", b=4, n=4, d=6, h=2, mask=(4, 4)),
        case("another memory, after a call with one and other weights", n=3, m=4, d=8, h=2, earlier=normal(2, 4, 8)),
        case("self-attention: gradients, in float64", n=4, d=6, h=3, gradients=True),
        case("cross-attention with a mask: gradients, in float64", n=3, m=5, d=6, h=2, mask=(2, 3, 5), gradients=True),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        replace(in_single_precision(partial(_run, Reference)), answer=layer(normalise=in_float32)),
        *slips(layer, Scale.none, Scale.by_width, Scale.by_root_of_token_width, Scale.after_softmax),
        *slips(layer, Mask.ignored, Mask.inverted, Mask.after_softmax, Mask.almost_zero, Mask.minus_100),
        *slips(layer, Softmax.over_queries, Softmax.no_maximum, Softmax.maximum_of_hidden, Softmax.powers_thrown_away),
        Softmax.one_maximum.made(layer, recognise=off_as(*ONE_MAXIMUM)),
        Softmax.clamped.made(layer, recognise=off_as(*CLAMPED)),
        *slips(layer, Mask.visible_raised, Sources.memory_ignored, Sources.values_from_x),
        # what is kept from an earlier call
        one_head=layer(split=lambda t, sizes, n: t[:, None], **Scale.by_root_of_token_width.steps),
        kv_kept=Wrong(KEEPS_KEYS_AND_VALUES, variants=(KEEPS_KEYS_AND_VALUES,)),
        mask_kept=layer(given=mask_kept),
        mask_kept_for_its_shape=layer(given=mask_kept_for_its_shape),
        memory_kept=layer(given=memory_kept),
        # what no gradient comes through
        memory_cut_off=layer(given=memory_cut_off),
        kv_cut_off=layer(**Sources.memory_cut_off.steps),
        attention_cut_off=layer(normalise=lambda hidden, mask, scores: torch.softmax(hidden, dim=-1).detach()),
        cut_off=layer(output=lambda self, merged, x: self.w_o(merged).detach()),
        weights_cut_off=Wrong(
            layer(project=projected(lambda t, w: t @ w.weight.data.T + w.bias.data)), recognise=_only_the_weights
        ),
        # the heads, cut and joined
        split_by_view=layer(split=split_by_view),
        merged_by_view=layer(merge=merge_by_view),
        no_transpose=layer(split=split_by_view, merge=merge_by_view),
        split_swapped=layer(split=split_swapped),
        dealt_out=layer(split=split_swapped, merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)),
        cut_by_n=Wrong(layer(split=split_by_n), raises="RuntimeError"),
        # projections
        no_output_projection=layer(output=lambda self, merged, x: merged),
        residual=layer(output=lambda self, merged, x: x + self.w_o(merged)),
        no_biases=layer(project=projected(lambda t, w: t @ w.weight.T)),
        transposed_weights=layer(project=projected(lambda t, w: t @ w.weight + w.bias)),
        transposed_values=layer(project=transposed_values),
        queries_as_keys=layer(project=lambda self, q, k, v: (self.w_q(q), self.w_q(k), self.w_v(v))),
        keys_as_values=layer(project=lambda self, q, k, v: (self.w_q(q), self.w_k(k), self.w_k(v))),
        one_for_four=layer(linears=lambda d: linears(d, (4,))),
        one_for_three=layer(linears=lambda d: linears(d, (3, 1))),
        one_for_two=layer(linears=lambda d: linears(d, (1, 2, 1))),
        without_bias=Wrong(layer(linears=lambda d: linears(d, bias=False)), raises="RuntimeError"),
        # memory and softmax
        queries_from_memory=Wrong(layer(sources=lambda x, memory: (memory, x, x)), raises="RuntimeError"),
        truth_of_memory=Wrong(layer(given=lambda self, x, memory, mask: (x, memory or x, mask)), raises="RuntimeError"),
        over_heads=Wrong(OVER_HEADS[0], variants=OVER_HEADS[1:]),
        one_softmax=layer(normalise=over_heads_and_keys),
        dropout=Wrong(
            layer(normalise=lambda hidden, mask, scores: functional.dropout(torch.softmax(hidden, dim=-1), 0.1)),
            recognise=lambda seen: any("dropout" in name or "bernoulli" in name for name in seen.operations),
        ),
        # the mask
        mask_added=layer(hide=lambda scores, mask: scores + mask),
        over_batch=Wrong(layer(head_axis=lambda mask, b, h: mask), raises="RuntimeError"),
        axis_in_front=Wrong(layer(head_axis=lambda mask, b, h: mask.unsqueeze(1)), raises="RuntimeError"),
        kind_guessed=Wrong(layer(head_axis=kind_guessed), raises="RuntimeError"),
        masks_in_turn=layer(head_axis=masks_in_turn),
        memory_masked_alone=layer(given=lambda self, x, memory, mask: (x, memory, None if memory is None else mask)),
        x_masked_alone=layer(given=lambda self, x, memory, mask: (x, memory, mask if memory is None else None)),
        causal=layer(scale=causal),
        causal_by_default=layer(given=causal_without_mask),
    ),
    within=ROUNDING,
    forbids=["multi_head_attention"],
)
