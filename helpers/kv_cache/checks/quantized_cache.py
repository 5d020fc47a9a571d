"""Keys and values in int8. A rounding may go either way, so properties decide, not single codes."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import quantized_cache as reference

__all__ = ["quantized_cache"]


def _codes_are_int8(output, x) -> bool:
    return output[0].dtype == torch.int8 and output[0].shape == x.shape


def _restored(output) -> Tensor:
    codes, scale = output
    return codes.double() * scale.double()


def _half_a_step(output, x) -> bool:
    gap = (_restored(output) - x.double()).abs()
    return bool((gap <= output[1].double() / 2 * 1.001 + 1e-9).all())


def _furthest(output, x) -> str:
    gap = (_restored(output) - x.double()).abs() / output[1].double()
    return _entry(output, x, tuple(torch.unravel_index(gap.argmax(), gap.shape)))


def _entry(output, x, place: tuple) -> str:
    """One entry of x, with its code and its scale."""
    codes, scale = output
    mine, code = float(scale.expand(x.shape)[place]), float(codes[place])
    where = ", ".join(str(int(index)) for index in place)
    return f"At [{where}] stands {float(x[place]):.4g}. Its code is {code:g}, and the scale {mine:.4g}."


def _range_is_used(output, x, dim: int) -> bool:
    """The largest entry has the code ±127 or more, so the steps are as fine as they can be."""
    codes = output[0].double().abs().amax(dim=dim)
    return bool((codes[x.abs().amax(dim=dim) > 0] >= 127).all())


def _coarsest(output, x, dim: int) -> str:
    """The largest entry of the channel or token that makes least use of the range."""
    size, codes = x.abs().amax(dim=dim, keepdim=True), output[0].double().abs().amax(dim=dim, keepdim=True)
    least = (codes.masked_fill(size == 0, torch.inf) == codes[size > 0].min()) & (x.abs() == size)
    return _entry(output, x, tuple(least.nonzero()[0]))


def _properties(axis: int, what: str) -> list[Property]:
    """axis: over which a maximum is taken, so that there is a scale for each `what`."""
    return [
        Property("codes are int8", _codes_are_int8, "Return codes of dtype torch.int8 in the shape of the input."),
        Property(
            f"one scale for each {what}",
            lambda output, x: output[1].shape == x.amax(dim=axis, keepdim=True).shape,
            f"There should be one scale for each {what}, with the axis kept.",
        ),
        Property(
            "off by half a step at most",
            _half_a_step,
            "codes · scale should be within half a step of the input, everywhere.",
            _furthest,
        ),
        Property(
            "no step is 0",
            lambda output, x: bool((output[1] > 0).all()),
            "A scale of 0 comes back. A step is never 0: where all entries are 0 any positive number will do.",
        ),
        Property(
            "the whole range is used",
            lambda output, x: _range_is_used(output, x, axis),
            "The largest entry should get the code 127: with larger steps than needed, precision is lost.",
            lambda output, x: _coarsest(output, x, axis),
        ),
    ]


def cached_rows(label: str, b: int, h: int, n: int, d_h: int, *, loud="", still=False, dtype=torch.float32) -> Case:
    """loud: an axis along which entries differ in size. still: a channel and a token of zeros, and one of each whose
    largest entry is a millionth."""

    def draw(generator: torch.Generator) -> Tensor:
        x = torch.randn(b, h, n, d_h, generator=generator, dtype=dtype)
        if loud == "channels":
            x *= 10 ** torch.linspace(-2, 2, d_h)[torch.randperm(d_h, generator=generator)]
        if loud == "tokens":
            x *= 10 ** torch.linspace(-2, 2, n)[torch.randperm(n, generator=generator), None]
        if still:
            x[:, 0, :, 1] = 0
            x[0, -1, 2] = 0
            for quiet in (x[:, 0, :, 3], x[0, -1, 1]):
                quiet *= 1e-6 / quiet.abs().max()
        return x.to(dtype)

    return explicit_case(label, RandomArg(draw))


def steps_over(dim, largest=127) -> Callable:
    """x → the steps of which `largest` make the largest entry."""
    return lambda x: (x.abs().amax(dim=dim, keepdim=True) / largest).clamp_min(1e-12)


def nearest(steps) -> Tensor:
    return steps.round().clamp(-127, 127)


def wrapped(steps) -> Tensor:
    """128 becomes −128, as in a conversion to int8."""
    return steps.round().to(torch.int64).add(128).remainder(256).sub(128)


def quantized(scale: Callable, code: Callable = nearest) -> Callable:
    def quantize(x):
        steps = scale(x)
        return code(x / steps).to(torch.int8), steps

    return quantize


def _close(got: Tensor, steps: Tensor) -> bool:
    """Where all is 0 any positive step is right, so that these are left out."""
    live = steps > 1e-11
    return got.shape == steps.shape and torch.allclose(got[live].double(), steps[live].double(), rtol=1e-4, atol=0.0)


def by_scale(axis: int, code: Callable, scale: Callable, *others: Callable) -> Wrong:
    """With a mark: the scales are those of `scale`, or of one of the others, and not the right ones."""

    def shown(seen: Observation) -> bool:
        x, steps = seen.args[0], seen.output[1]
        return not _close(steps, steps_over(axis)(x)) and any(_close(steps, one(x)) for one in (others or [scale]))

    return Wrong(quantized(scale, code), recognise=shown)


def by_code(axis: int, form: Callable) -> Wrong:
    """With a mark: the codes are those that `form` makes with the scales that were returned, and aren't rounded."""

    def shown(seen: Observation) -> bool:
        steps, codes = seen.args[0] / seen.output[1], seen.output[0]
        return torch.equal(codes, form(steps).to(torch.int8)) and not torch.equal(codes, steps.round().to(torch.int8))

    return Wrong(quantized(steps_over(axis), form), recognise=shown)


SMALL = (torch.finfo(torch.float32).eps, *(10.0**-power for power in range(3, 11)))
"""Usual numbers that keep a scale from 0."""


def slips_along(axis: int) -> dict[str, Callable | Wrong]:
    """What goes wrong with one scale for all entries along an axis, 2 (of tokens) or 3 (of channels)."""
    right = steps_over(axis)

    def shared(*axes: int) -> Callable:
        wider = steps_over((*axes, axis))
        return lambda x: wider(x).expand(right(x).shape)

    def at_least(small: float) -> Callable:
        return lambda x: right(x).clamp_min(small)

    def more(small: float) -> Callable:
        return lambda x: right(x) + small

    return {
        "cut_off": by_code(axis, lambda steps: steps.trunc()),
        "rounded_down": by_code(axis, lambda steps: steps.floor()),
        "half_added": by_code(axis, lambda steps: torch.trunc(steps + 0.5)),
        "other_axis": by_scale(axis, nearest, steps_over(5 - axis)),
        "all_heads": by_scale(axis, nearest, shared(1)),
        "all_sequences": by_scale(axis, nearest, shared(0)),
        "everything": quantized(shared(0, 1, 5 - axis)),
        "scale_0": Wrong(
            quantized(lambda x: x.abs().amax(dim=axis, keepdim=True) / 127),
            recognise=lambda seen: bool((seen.output[1] == 0).any()),
        ),
        "not_divided": by_scale(axis, nearest, steps_over(axis, 1)),
        "signed": quantized(lambda x: _away_from_0(x.amax(dim=axis, keepdim=True) / 127)),
        "by_255": by_scale(axis, wrapped, steps_over(axis, 255)),
        "smallest_scale": by_scale(axis, nearest, at_least(1e-5), *map(at_least, SMALL)),
        "something_added": by_scale(axis, nearest, more(1e-5), *map(more, SMALL)),
        "by_128": by_scale(axis, wrapped, steps_over(axis, 128)),
        "absolute_too_late": quantized(lambda x: _not_0(x.amax(dim=axis, keepdim=True).abs() / 127), wrapped),
        "still_floats": Wrong(
            lambda x: (torch.round(x / right(x)), right(x)), recognise=lambda seen: seen.output[0].is_floating_point()
        ),
        "inverse": lambda x: (nearest(x / right(x)).to(torch.int8), 1 / right(x)),
    }


def _away_from_0(scale) -> Tensor:
    return torch.where(scale.abs() < 1e-12, torch.full_like(scale, 1e-12), scale)


def _not_0(scale) -> Tensor:
    return scale.masked_fill(scale == 0, 1.0)


# What is said of the values in other words than of the keys.
OF_VALUES = {key: f"{key}_of_values" for key in ("other_axis", "all_heads", "all_sequences", "everything")}

quantize_keys = Check(
    reference=reference.quantize_keys,
    cases=[
        cached_rows("b = 2, h = 3, n = 7, d_h = 4", 2, 3, 7, 4),
        as_float64(cached_rows("channels that differ in size", 1, 2, 9, 6, loud="channels")),
        cached_rows("a channel and a token of zeros", 2, 2, 5, 8, still=True),
        cached_rows("as many tokens as channels", 2, 3, 6, 6, loud="tokens"),
    ],
    compare=False,
    properties=_properties(-2, "channel"),
    misconceptions=wrong_answers(__file__, **slips_along(2)),
)

quantize_values = Check(
    reference=reference.quantize_values,
    cases=[
        cached_rows("b = 2, h = 3, n = 7, d_h = 4", 2, 3, 7, 4),
        as_float64(cached_rows("tokens that differ in size", 1, 2, 9, 6, loud="tokens")),
        cached_rows("a channel and a token of zeros", 2, 2, 5, 8, still=True),
        cached_rows("as many tokens as channels", 2, 3, 6, 6, loud="channels"),
    ],
    compare=False,
    properties=_properties(-1, "token"),
    misconceptions=wrong_answers(__file__, **{OF_VALUES.get(key, key): slip for key, slip in slips_along(3).items()}),
)

quantized_bytes = Check(
    reference=reference.quantized_bytes,
    cases=[
        random_case(b=2, h=3, n=100, d_h=16, size=4),
        random_case(b=1, h=8, n=4096, d_h=128, size=2),
        random_case(b=3, h=2, n=5, d_h=7, size=2),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        scales_forgotten=lambda b, h, n, d_h, size: 2 * b * h * n * d_h,
        one_byte_per_scale=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + b * h * (d_h + n),
        keys_per_token=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + 2 * size * b * h * n,
        values_per_channel=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + 2 * size * b * h * d_h,
        keys_only=lambda b, h, n, d_h, size: b * h * n * d_h + size * b * h * (d_h + n),
        scales_shared_by_all_sequences=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * h * (d_h + n),
        scales_shared_by_all_heads=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * b * (d_h + n),
        scales_shared_by_all=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * (d_h + n),
    ),
)

quantized_cache = CheckGroup("quantized_cache", quantize_keys, quantize_values, quantized_bytes)
