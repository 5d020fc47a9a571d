"""The check of `MultiHeadAttention`."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.utils._pytree import tree_map

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import LIMITS, in_single_precision, visible_mask
from helpers.engine.compare import Message, agree, in_float64
from helpers.engine.drivers import Stopped, call
from helpers.engine.observe import Observation, observe
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import heads as multi_head
from .heads import (
    AS_PRECISE,
    NEAR_20,
    RAISED_BY,
    ROUNDING,
    _nearly,
    _off_as,
    mask_without_key_0,
    one_key_apart,
    queries_apart,
)

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
    """Build the layer, load the weights, call it with what there is. Before that, with weights half as large, call it once with an
    `earlier` mask (n, n) or memory (b, m, d): nothing of that may stay. With `gradients` these come along, in words where they are
    missing, and without a memory also whether the weights get any."""
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
    """Whether a gradient reaches each of the four layers: it alone wants one, and a hook asks whether the output still does. (The weights
    live in their student's process, and what is differentiated there is inputs. So no gradient of theirs is computed here.)"""
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
    """What the hook finds with gradients wanted in one layer only. (None is called where a class has a `__call__` of its own.)"""
    projection = call(layer.get_submodule, name)
    call(layer_class.requires_grad_, projection, True)
    call(partial(layer, **given_too), x)
    call(layer_class.requires_grad_, projection, False)
    return wants.pop() if wants else True


def _only_the_weights(seen: Observation) -> bool:
    """A mark: all is right, but for the gradients of the weights."""
    right = _run(multi_head.MultiHeadAttention, *tree_map(in_float64, seen.args))
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


def layer_case(
    label: str, *, b=2, n, d, h, m=None, mask=None, scale=1.0, earlier=None, dtype=torch.float32, gradients=False
) -> Case:
    memory = normal(b, m, d, scale=scale, dtype=dtype) if m else None
    x = normal(b, n, d, scale=scale, dtype=dtype)
    inputs = (h, _weights(d, dtype), x, memory, visible_mask(*mask) if mask else None)
    return explicit_case(label, *inputs, earlier, gradients)


def _weights_that_pass_on(d: int) -> RandomArg:
    """Queries and keys are the tokens themselves. In float64."""
    eye, nothing = torch.eye(d).double(), torch.zeros(d).double()
    same = {"w_q.weight": eye, "w_q.bias": nothing, "w_k.weight": eye, "w_k.bias": nothing}
    return RandomArg(lambda generator: _weights(d, torch.float64).make(generator) | same)


class _Layer(nn.Module):
    """A right layer in small steps: each wrong answer below differs from it in one of them."""

    def __init__(self, d, h) -> None:
        super().__init__()
        self.h, self.d_h = h, d // h
        self.w_q, self.w_k, self.w_v, self.w_o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_v(memory)

    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.h, self.d_h).transpose(1, 2)

    def scores(self, q, k) -> Tensor:
        return q @ k.mT / math.sqrt(self.d_h)

    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf)
        return torch.softmax(scores, dim=-1)

    def merge(self, x) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def forward(self, x, memory=None, mask=None) -> Tensor:
        q, k, v = (self.split(t) for t in self.project(x, x if memory is None else memory))
        return self.w_o(self.merge(self.weights(self.scores(q, k), mask) @ v))


class LayerWithSplitByView(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), self.h, -1, self.d_h)


class LayerWithMergeByView(_Layer):
    def merge(self, x) -> Tensor:
        return x.reshape(len(x), x.shape[2], -1)


class LayerWithoutAnyTranspose(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), self.h, -1, self.d_h)

    def merge(self, x) -> Tensor:
        return x.reshape(len(x), x.shape[2], -1)


class LayerWithSwappedSplit(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.d_h, self.h).permute(0, 3, 1, 2)


class LayerWithFeaturesDealtOut(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.d_h, self.h).permute(0, 3, 1, 2)

    def merge(self, x) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(2)


class LayerScaledByD(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT / math.sqrt(self.h * self.d_h)


class LayerWithoutScale(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT


class LayerScaledByTheWholeWidth(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT / self.d_h


class LayerWithoutOutputProjection(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        q, k, v = (self.split(t) for t in self.project(x, x if memory is None else memory))
        return self.merge(self.weights(self.scores(q, k), mask) @ v)


class LayerWithOneSoftmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf)
        shares = torch.softmax(scores.transpose(1, 2).flatten(2), dim=-1)  # (b, n, h·m)
        return shares.unflatten(-1, (self.h, -1)).transpose(1, 2)


class LayerWithHeadsCompeting(_Layer):
    axis, hidden = 1, -torch.inf

    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), self.hidden)
        return torch.softmax(scores, dim=self.axis)


class LayerWithQueriesCompeting(LayerWithHeadsCompeting):
    axis = -2


def _competing(layer: type) -> Callable[[Observation], bool]:
    """A mark: such a layer, with −∞ or with a finite number for hidden scores."""
    lower = type(layer.__name__, (layer,), {"hidden": -1e9})
    return lambda seen: any(
        agree(seen.output, _run(one, *seen.args), ROUNDING[torch.float32]) for one in (layer, lower)
    )


class LayerWithoutCrossAttention(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), self.w_v(x)


class LayerWithValuesFromX(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_v(x)


class LayerWithQueriesFromMemory(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(memory), self.w_k(x), self.w_v(x)


class LayerWithMaskOverBatch(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1)


class LayerWithMaskInverted(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-3), -torch.inf)
        return torch.softmax(scores, dim=-1)


class LayerWithMaskMultiplied(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores * mask.unsqueeze(-3), dim=-1)


class LayerWithMaskAdded(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores + mask.unsqueeze(-3), dim=-1)


class LayerWithVisibleScoresRaised(_Layer):
    by = 1e6

    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores + self.by * mask.unsqueeze(-3), dim=-1)


def _raised_layers() -> Iterable[Callable]:
    """What such layers give, whatever they raise by."""
    layers = (type("Raised", (LayerWithVisibleScoresRaised,), {"by": by}) for by in RAISED_BY)
    return (partial(_run, layer) for layer in layers)


class LayerWithMaskAfterSoftmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        shares = torch.softmax(scores, dim=-1)
        return shares if mask is None else shares * mask.unsqueeze(-3)


class LayerWithoutMask(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores, dim=-1)


class LayerWithoutBiases(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return x @ self.w_q.weight.T, memory @ self.w_k.weight.T, memory @ self.w_v.weight.T


class LayerWithKeysAsValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_k(memory)


class LayerWithTransposedWeights(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        pairs = ((x, self.w_q), (memory, self.w_k), (memory, self.w_v))
        return tuple(t @ w.weight + w.bias for t, w in pairs)


class LayerWithAnAxisInFrontOfTheQueries(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), -torch.inf), dim=-1)


class LayerThatGuessesTheMask(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            mask = mask[:, None] if len(mask) == len(scores) else mask
            scores = scores.masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, dim=-1)


class LayerWithMasksInTurn(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None and mask.dim() == 3:
            return super().weights(scores.flatten(0, 1)[:, None], mask.repeat(self.h, 1, 1)).view(scores.shape)
        return super().weights(scores, mask)


class LayerThatIsCausalByItself(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, torch.ones_like(scores[0, 0], dtype=torch.bool).tril() if mask is None else mask)


class LayerWithTheMaximumOfAll(_Layer):
    def weights(self, scores, mask) -> Tensor:
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        powers = powers if mask is None else powers * mask.unsqueeze(-3)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithOneMaximum(_Layer):
    axes, hides_first = (0, 1, 2, 3), False

    def weights(self, scores, mask) -> Tensor:
        visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.unsqueeze(-3)
        seen = scores.masked_fill(~visible, -torch.inf) if self.hides_first else scores
        powers = torch.exp(seen - seen.amax(dim=self.axes, keepdim=True)) * visible
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithClampedScores(_Layer):
    most = 50.0

    def scores(self, q, k) -> Tensor:
        return super().scores(q, k).clamp(-self.most, self.most)


def _off_as_a_layer(layer: type, *variants: dict) -> Callable[[Observation], bool]:
    """A mark: an output (never mind its gradients) that is off as one of the variants of a wrong layer makes it."""
    right, wrongs = multi_head.MultiHeadAttention, [type(layer.__name__, (layer,), one) for one in variants]

    def output(made: Tensor | dict) -> Tensor:
        return made["output"] if isinstance(made, dict) else made

    def made_by(one: type) -> Callable:
        return lambda *args: output(_run(one, *args))

    return lambda seen: _off_as(replace(seen, output=output(seen.output)), made_by(right), map(made_by, wrongs))


class LayerWithExponentialsThrownAway(_Layer):
    def weights(self, scores, mask) -> Tensor:
        visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.unsqueeze(-3)
        largest = scores.masked_fill(~visible, -torch.inf).amax(dim=-1, keepdim=True)
        powers = torch.where(visible, torch.exp(scores - largest), 0.0)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithAFloat32Softmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores.float(), mask).to(scores.dtype)


class LayerUnderThreeNames(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q = self.w_k = self.w_v


class LayerOfKeysAndValues(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_k = self.w_v


class LayerUnderFourNames(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q = self.w_k = self.w_v = self.w_o


class LayerThatKeepsTheMask(_Layer):
    kept = None

    def weights(self, scores, mask) -> Tensor:
        self.kept = self.kept if mask is None else mask
        return super().weights(scores, self.kept)


class LayerThatKeepsTheFirstMask(_Layer):
    """A mask made ready once for each shape."""

    kept = None

    def weights(self, scores, mask) -> Tensor:
        if mask is None or self.kept is None or self.kept.shape != mask.shape:
            self.kept = mask
        return super().weights(scores, self.kept)


class LayerThatKeepsTheMemory(_Layer):
    kept = None

    def forward(self, x, memory=None, mask=None) -> Tensor:
        self.kept = self.kept if memory is None else memory
        return super().forward(x, self.kept, mask)


class LayerThatKeepsKeysAndValues(_Layer):
    kept = None

    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        self.kept = self.kept or super().project(x, memory)[1:]
        return self.w_q(x), *self.kept


def _kept_keys_and_values(seen: Observation) -> bool:
    """A mark: keys and values of the call before, whatever they were kept for: all calls, a memory, or the same tokens again."""
    return _off_as(seen, partial(_run, multi_head.MultiHeadAttention), [partial(_run, LayerThatKeepsKeysAndValues)])


class LayerWithADetachedMemory(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, None if memory is None else memory.detach(), mask)


class LayerWithDetachedKeysAndValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(x, memory.detach())


class LayerWithDetachedWeights(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, mask).detach()


class LayerWithWeightsCutOff(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        pairs = ((x, self.w_q), (memory, self.w_k), (memory, self.w_v))
        return tuple(t @ w.weight.data.T + w.bias.data for t, w in pairs)


class LayerWithoutGradients(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, mask).detach()


class LayerScaledTooLate(LayerWithoutScale):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, mask) / math.sqrt(self.d_h)


class LayerWithMemoryOrX(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory or x, mask)


class LayerWithoutBiasParameters(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d, bias=False) for _ in range(4))


LayerWithoutBiasParameters.__name__ = "MultiHeadAttention"  # PyTorch's message names the class


class LayerWithHiddenScoresOf100(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask.unsqueeze(-3), -100.0), dim=-1)


class LayerWithTransposedValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), memory @ self.w_v.weight + self.w_v.bias


class LayerCutByTheQueriesLength(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (
            t.view(b, n, self.h, self.d_h).transpose(1, 2) for t in self.project(x, x if memory is None else memory)
        )
        return self.w_o(self.merge(self.weights(self.scores(q, k), mask) @ v))


class LayerWithDropout(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.nn.functional.dropout(super().weights(scores, mask), 0.1, self.training)


class LayerWithAResidual(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return x + super().forward(x, memory, mask)


class LayerWithAMaskForMemoryAlone(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, None if memory is None else mask)


class LayerWithAMaskForXAlone(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, mask if memory is None else None)


class LayerWithPowers(_Layer):
    def weights(self, scores, mask) -> Tensor:
        powers = torch.exp(scores) if mask is None else torch.exp(scores) * mask.unsqueeze(-3)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithACausalMask(_Layer):
    def scores(self, q, k) -> Tensor:
        scores = super().scores(q, k)
        return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)


MultiHeadAttention = Check(
    reference=multi_head.MultiHeadAttention,
    drive=_run,
    cases=[
        layer_case("self-attention: n = 5, d = 12, 3 heads", n=5, d=12, h=3),
        layer_case("cross-attention: n = 4, m = 6, d = 8, 2 heads", b=3, n=4, m=6, d=8, h=2),
        layer_case("cross-attention with n = m = 5", n=5, m=5, d=6, h=3),
        layer_case("a mask (n, m) for all sequences", n=4, m=7, d=12, h=4, mask=(4, 7)),
        layer_case("a mask for each sequence, b = h = 2", n=5, d=8, h=2, mask=(2, 5, 5)),
        layer_case("a mask for each sequence, b = 3, h = 2", b=3, n=4, m=5, d=8, h=2, mask=(3, 4, 5)),
        layer_case("large scores", n=4, d=10, h=5, scale=5.5),
        layer_case("no mask, after a call with one and other weights", n=3, d=8, h=4, earlier=visible_mask(3, 3)),
        layer_case("no memory, after a call with one and other weights", n=3, d=8, h=2, earlier=normal(2, 3, 8)),
        layer_case(
            "a mask, after a call with another one and other weights",
            n=6,
            d=8,
            h=2,
            mask=(6, 6),
            earlier=visible_mask(6, 6),
        ),
        explicit_case(
            "scores near −800, 800 and 0, a hidden one near 800: gradients, in float64",
            2,
            _weights_that_pass_on(8),
            queries_apart,
            one_key_apart(2, 5, 8),
            mask_without_key_0(3, 5),
            None,
            True,
        ),
        explicit_case(
            "scores near −800, without a mask",
            2,
            _weights_that_pass_on(8),
            NEAR_20,
            normal(2, 5, 8, mean=-20.0, dtype=torch.float64),
            None,
            None,
            False,
        ),
        layer_case("a mask (n, m) for all, with b = h = n = 3", b=3, n=3, m=4, d=6, h=3, mask=(3, 4)),
        layer_case("self-attention with a mask (n, n), b = n", b=4, n=4, d=6, h=2, mask=(4, 4)),
        layer_case(
            "another memory, after a call with one and other weights", n=3, m=4, d=8, h=2, earlier=normal(2, 4, 8)
        ),
        layer_case("self-attention: gradients, in float64", n=4, d=6, h=3, dtype=torch.float64, gradients=True),
        layer_case(
            "cross-attention with a mask: gradients, in float64",
            n=3,
            m=5,
            d=6,
            h=2,
            mask=(2, 3, 5),
            dtype=torch.float64,
            gradients=True,
        ),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        replace(
            in_single_precision(partial(_run, multi_head.MultiHeadAttention)),
            function=LayerWithAFloat32Softmax,
        ),
        keys_values_kept_from_earlier_call=Wrong(LayerThatKeepsKeysAndValues, recognise=_kept_keys_and_values),
        memory_cut_off_from_gradients=LayerWithADetachedMemory,
        keys_values_cut_off_from_gradient=LayerWithDetachedKeysAndValues,
        attention_weights_cut_off_from_gradient=LayerWithDetachedWeights,
        cut_off_from_gradient=LayerWithoutGradients,
        weights_cut_off_from_gradient=Wrong(LayerWithWeightsCutOff, recognise=_only_the_weights),
        scale_after_softmax=LayerScaledTooLate,
        heads_split_by_view_alone=LayerWithSplitByView,
        heads_merged_by_view_alone=LayerWithMergeByView,
        views_without_any_transpose=LayerWithoutAnyTranspose,
        heads_width_swapped_split=LayerWithSwappedSplit,
        features_dealt_out_heads_turn=LayerWithFeaturesDealtOut,
        scaled_by_root_d_instead_root_d_h=LayerScaledByD,
        no_scale=LayerWithoutScale,
        scaled_by_d_h_instead_root_d_h=LayerScaledByTheWholeWidth,
        no_output_projection=LayerWithoutOutputProjection,
        one_softmax_across_heads_keys=LayerWithOneSoftmax,
        softmax_over_heads=Wrong(LayerWithHeadsCompeting, recognise=_competing(LayerWithHeadsCompeting)),
        softmax_over_queries=Wrong(LayerWithQueriesCompeting, recognise=_competing(LayerWithQueriesCompeting)),
        keys_values_from_queries_tokens=Wrong(LayerWithoutCrossAttention, raises="RuntimeError"),
        values_from_queries_tokens=Wrong(LayerWithValuesFromX, raises="RuntimeError"),
        queries_from_memory=Wrong(LayerWithQueriesFromMemory, raises="RuntimeError"),
        masks_batch_axis_taken_heads=Wrong(LayerWithMaskOverBatch, raises="RuntimeError"),
        mask_inverted=LayerWithMaskInverted,
        hidden_scores_almost_0=Wrong(
            LayerWithMaskMultiplied, recognise=_nearly(partial(_run, LayerWithMaskMultiplied))
        ),
        mask_added_as_0_1=LayerWithMaskAdded,
        mask_after_softmax=LayerWithMaskAfterSoftmax,
        mask_not_used=LayerWithoutMask,
        projections_biases_left_out=LayerWithoutBiases,
        values_made_by_keys_projection=LayerWithKeysAsValues,
        transposed_weights=LayerWithTransposedWeights,
        head_axis_front_queries=Wrong(LayerWithAnAxisInFrontOfTheQueries, raises="RuntimeError"),
        kind_mask_guessed_from_size=Wrong(LayerThatGuessesTheMask, raises="RuntimeError"),
        one_layer_under_four_names=LayerUnderFourNames,
        one_layer_under_three_names=LayerUnderThreeNames,
        one_layer_keys_values=LayerOfKeysAndValues,
        sequences_masks_dealt_out_turn=LayerWithMasksInTurn,
        causal_where_no_mask_given=LayerThatIsCausalByItself,
        maximum_taken_over_hidden_keys_too=LayerWithTheMaximumOfAll,
        one_largest_score_all_rows=Wrong(
            LayerWithOneMaximum,
            recognise=_off_as_a_layer(
                LayerWithOneMaximum,
                *({"axes": axes, "hides_first": True} for axes in ((0, 1, 2, 3), (1, 2, 3), (2, 3))),
            ),
        ),
        clamped_scores=Wrong(
            LayerWithClampedScores,
            recognise=_off_as_a_layer(LayerWithClampedScores, *({"most": most} for most in LIMITS)),
        ),
        visible_scores_raised_by_large_number=Wrong(
            LayerWithVisibleScoresRaised,
            recognise=lambda seen: _off_as(seen, partial(_run, multi_head.MultiHeadAttention), _raised_layers()),
        ),
        exponentials_hidden_scores_thrown_away=LayerWithExponentialsThrownAway,
        mask_kept_from_earlier_call=LayerThatKeepsTheMask,
        mask_kept_all_shape=LayerThatKeepsTheFirstMask,
        memory_kept_from_earlier_call=LayerThatKeepsTheMemory,
        tensor_asked_truth=Wrong(LayerWithMemoryOrX, raises="RuntimeError"),
        projections_without_bias=Wrong(LayerWithoutBiasParameters, raises="RuntimeError"),
        hidden_scores_minus_100=LayerWithHiddenScoresOf100,
        values_weight_not_transposed=LayerWithTransposedValues,
        memory_cut_with_queries_length=Wrong(LayerCutByTheQueriesLength, raises="RuntimeError"),
        dropout_layer=Wrong(
            LayerWithDropout,
            recognise=lambda seen: any("dropout" in name or "bernoulli" in name for name in seen.operations),
        ),
        x_added_output=LayerWithAResidual,
        mask_cross_attention_alone=LayerWithAMaskForMemoryAlone,
        mask_self_attention_alone=LayerWithAMaskForXAlone,
        exponentials_scores_as_they=LayerWithPowers,
        causal_mask_that_nobody_asked=LayerWithACausalMask,
    ),
    within=ROUNDING,
    forbids=["multi_head_attention"],
)
