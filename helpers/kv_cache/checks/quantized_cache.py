"""Checks of int8 keys and values. A rounding may go either way, so properties decide, not single codes."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import WHOLE, comes_as_float
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
    mine = scale.expand(x.shape)[place]
    where = ", ".join(str(int(index)) for index in place)
    return f"At [{where}] stands {float(x[place]):.4g}. Its code is {float(codes[place]):g}, and the scale {float(mine):.4g}."


def _no_step_is_zero(output, x) -> bool:
    return bool((output[1] > 0).all())


def _range_is_used(output, x, dim: int) -> bool:
    """The largest entry has the code ±127 or more, so the steps are as fine as they can be."""
    codes = output[0].double().abs().amax(dim=dim)
    return bool((codes[x.abs().amax(dim=dim) > 0] >= 127).all())


def _coarsest(output, x, dim: int) -> str:
    """The largest entry of the channel or token that makes least use of the range."""
    size, codes = x.abs().amax(dim=dim, keepdim=True), output[0].double().abs().amax(dim=dim, keepdim=True)
    least = (codes.masked_fill(size == 0, torch.inf) == codes[size > 0].min()) & (x.abs() == size)
    return _entry(output, x, tuple(least.nonzero()[0]))


def _scale_shape(axis_kept: int) -> Callable:
    """One scale for each entry of the axis that is kept (−1: a channel, −2: a token)."""
    reduced = -2 if axis_kept == -1 else -1

    def holds(output, x) -> bool:
        return output[1].shape == x.amax(dim=reduced, keepdim=True).shape

    return holds


def _properties(axis_kept: int, what: str) -> list[Property]:
    reduced = -2 if axis_kept == -1 else -1
    return [
        Property("codes are int8", _codes_are_int8, "Return codes of dtype torch.int8 in the shape of the input."),
        Property(
            f"one scale for each {what}",
            _scale_shape(axis_kept),
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
            _no_step_is_zero,
            "A scale of 0 comes back. A step is never 0: where all entries are 0 any positive number will do.",
        ),
        Property(
            "the whole range is used",
            lambda output, x: _range_is_used(output, x, reduced),
            "The largest entry should get the code 127: with larger steps than needed, precision is lost.",
            lambda output, x: _coarsest(output, x, reduced),
        ),
    ]


def cached_rows(
    label: str, b: int, h: int, n: int, d_h: int, *, loud: str = "", still: bool = False, dtype=torch.float32
) -> Case:
    """loud: an axis along which the entries differ in size. still: a channel and a token of zeros, and one of each whose largest entry
    is a millionth."""

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


def _rounded(x, scale) -> tuple[Tensor, Tensor]:
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def _by(x, dim, largest=127) -> Tensor:
    return (x.abs().amax(dim=dim, keepdim=True) / largest).clamp_min(1e-12)


def zero_range(x, dim) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(dim=dim, keepdim=True) / 127
    return torch.round(x / scale).to(torch.int8), scale


def _scale_not_divided(x, dim) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(dim=dim, keepdim=True).clamp_min(1e-12)
    return torch.round(x / scale).to(torch.int8), scale


def _half_up_and_cut(steps: Tensor) -> Tensor:
    return torch.trunc(steps + 0.5)


def _coded_by(form: Callable, dim: int) -> Callable:
    """Codes that `form` makes of the steps, in the place of the nearest whole number."""

    def quantize(x) -> tuple[Tensor, Tensor]:
        scale = _by(x, dim)
        return form(x / scale).to(torch.int8), scale

    return quantize


def _codes_of(form: Callable) -> Callable:
    """A mark: the codes are those that `form` makes with the scales that were returned, and aren't rounded."""

    def shown(seen: Observation) -> bool:
        steps, codes = seen.args[0] / seen.output[1], seen.output[0]
        return torch.equal(codes, form(steps).to(torch.int8)) and not torch.equal(codes, steps.round().to(torch.int8))

    return shown


def _signed_maximum(x, dim) -> tuple[Tensor, Tensor]:
    scale = x.amax(dim=dim, keepdim=True) / 127
    scale = torch.where(scale.abs() < 1e-12, torch.full_like(scale, 1e-12), scale)
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def _smallest_step(x, dim) -> tuple[Tensor, Tensor]:
    scale = _by(x, dim).clamp_min(1e-5)
    return torch.round(x / scale).to(torch.int8), scale


def _something_added(x, dim) -> tuple[Tensor, Tensor]:
    scale = _by(x, dim) + 1e-5
    return torch.round(x / scale).to(torch.int8), scale


def _steps_of_128(x, dim) -> tuple[Tensor, Tensor]:
    """128 wraps round to −128, as a conversion does."""
    scale = _by(x, dim, 128)
    return torch.round(x / scale).to(torch.int64).add(128).remainder(256).sub(128).to(torch.int8), scale


def _absolute_too_late(x, dim) -> tuple[Tensor, Tensor]:
    scale = x.amax(dim=dim, keepdim=True).abs() / 127
    scale = scale.masked_fill(scale == 0, 1.0)
    return torch.round(x / scale).to(torch.int64).add(128).remainder(256).sub(128).to(torch.int8), scale


def _wrapped(x, dim) -> tuple[Tensor, Tensor]:
    scale = _by(x, dim, 255)
    return torch.round(x / scale).to(torch.int64).add(128).remainder(256).sub(128).to(torch.int8), scale


def _close(got: Tensor, steps: Tensor) -> bool:
    """Where all is 0 any positive step is right, so that these are left out."""
    live = steps > 1e-11
    return got.shape == steps.shape and torch.allclose(got[live].double(), steps[live].double(), rtol=1e-4, atol=0.0)


def _steps(form: Callable, dim: int) -> Callable:
    """A mark: the scales are those of `form`, and not the right ones, for which a maximum is taken over `dim`."""

    def shown(seen: Observation) -> bool:
        x, scale = seen.args[0], seen.output[1]
        return not _close(scale, _by(x, dim)) and _close(scale, form(x))

    return shown


def _kept_from_0(form: Callable, dim: int) -> Callable:
    """A mark: the scales are those of the formula, but for one of the usual small numbers. form: what it does to them."""

    def shown(seen: Observation) -> bool:
        x, scale = seen.args[0], seen.output[1]
        small = (torch.finfo(torch.float32).eps, *(10.0**-power for power in range(3, 11)))
        usual = (form(_by(x, dim), number) for number in small)
        return not _close(scale, _by(x, dim)) and any(_close(scale, steps) for steps in usual)

    return shown


def _a_step_is_0(seen: Observation) -> bool:
    return bool((seen.output[1] == 0).any())


def _floating_codes(seen: Observation) -> bool:
    return seen.output[0].is_floating_point()


def _codes_as_floats(x, dim) -> tuple[Tensor, Tensor]:
    scale = _by(x, dim)
    return torch.round(x / scale), scale


def _inverse(x, dim) -> tuple[Tensor, Tensor]:
    scale = _by(x, dim)
    return torch.round(x / scale).to(torch.int8), 1 / scale


SLIPS = {
    "zero range": "Where all entries are 0 the formula gives the scale 0, and 0/0 is NaN. Use any positive number there, to divide by and to return.",
    "no 127": "The codes of your entries are −1, 0 and 1 only. There are 127 steps on either side: the step is the largest entry divided by 127.",
    "half added": "Adding ½ and cutting off is right for positive numbers only: the conversion to int8 cuts off *towards 0*, so −2.9 + 0.5 becomes −2. "
    "`torch.round` goes to the nearest on both sides.",
    "floor": "`//` and `floor` always go down, so you may be nearly a whole step off. Round to the nearest.",
    "truncated": "A conversion to int8 cuts off towards 0, so you may be a whole step off. Round first.",
    "signed": "The largest *absolute* value sets the range. A negative entry may be further from 0 than the largest positive one.",
    "smallest step": "A step that is too large for a quiet channel or token makes its codes 0 or nearly so. Replace only a scale of exactly 0.",
    "128": "int8 ends at 127. With steps of max/128 the largest entry has the code 128, which wraps round to −128 or is cut off.",
    "late": "A large negative entry has lost by the time the maximum is taken. Take `x.abs()` first.",
    "wrapped": "int8 goes from −128 to 127. With steps of max/255 the codes go up to 255, and wrap round to negative numbers or are cut off.",
    "floats": "The codes are whole numbers, but they still take 4 bytes each. Convert them to `torch.int8`.",
    "inverse": "The scale is what a code is multiplied by to get back: x ≈ codes · scale. You return its inverse.",
}


def _not_rounded(dim: int) -> list[Misconception]:
    slips = (
        ("cut off instead of rounded", torch.trunc, "truncated"),
        ("rounded down", torch.floor, "floor"),
        ("½ added and cut off", _half_up_and_cut, "half added"),
    )
    return [Misconception(name, _coded_by(form, dim), SLIPS[hint], _codes_of(form)) for name, form, hint in slips]


quantize_keys = Check(
    reference=reference.quantize_keys,
    cases=[
        cached_rows("b = 2, h = 3, n = 7, d_h = 4", 2, 3, 7, 4),
        as_float64(cached_rows("channels that differ in size", 1, 2, 9, 6, loud="channels")),
        cached_rows("a channel and a token of zeros", 2, 2, 5, 8, still=True),
        cached_rows("as many tokens as channels", 2, 3, 6, 6, loud="tokens"),
    ],
    compare=False,
    properties=_properties(-1, "channel"),
    misconceptions=wrong_answers(
        __file__,
        *_not_rounded(-2),
        scale_each_token=Wrong(lambda k: _rounded(k, _by(k, -1)), recognise=_steps(lambda k: _by(k, -1), -2)),
        one_scale_everything=lambda k: _rounded(
            k, k.abs().max().expand(len(k), k.shape[1], 1, k.shape[3]).clamp_min(1e-12) / 127
        ),
        one_scale_all_heads=Wrong(
            lambda k: _rounded(k, _by(k, (1, 2)).expand(-1, k.shape[1], -1, -1)),
            recognise=_steps(lambda k: _by(k, (1, 2)).expand(-1, k.shape[1], -1, -1), -2),
        ),
        one_scale_all_sequences=Wrong(
            lambda k: _rounded(k, _by(k, (0, 2)).expand(len(k), -1, -1, -1)),
            recognise=_steps(lambda k: _by(k, (0, 2)).expand(len(k), -1, -1, -1), -2),
        ),
        scale_0=Wrong(lambda k: zero_range(k, -2), recognise=_a_step_is_0),
        step_not_divided_by_127=Wrong(
            lambda k: _scale_not_divided(k, -2), recognise=_steps(lambda k: _by(k, -2, 1), -2)
        ),
        absolute_value_forgotten=lambda k: _signed_maximum(k, -2),
        with_255_steps_place_127=Wrong(lambda k: _wrapped(k, -2), recognise=_steps(lambda k: _by(k, -2, 255), -2)),
        smallest_scale=Wrong(lambda k: _smallest_step(k, -2), recognise=_kept_from_0(torch.clamp_min, -2)),
        something_added_every_scale=Wrong(lambda k: _something_added(k, -2), recognise=_kept_from_0(torch.add, -2)),
        with_128_steps_place_127=Wrong(lambda k: _steps_of_128(k, -2), recognise=_steps(lambda k: _by(k, -2, 128), -2)),
        absolute_value_after_maximum=lambda k: _absolute_too_late(k, -2),
        codes_that_still_floats=Wrong(lambda k: _codes_as_floats(k, -2), recognise=_floating_codes),
        inverse_scale=lambda k: _inverse(k, -2),
    ),
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
    properties=_properties(-2, "token"),
    misconceptions=wrong_answers(
        __file__,
        *_not_rounded(-1),
        scale_each_channel=Wrong(lambda v: _rounded(v, _by(v, -2)), recognise=_steps(lambda v: _by(v, -2), -1)),
        one_scale_all_heads_2=Wrong(
            lambda v: _rounded(v, _by(v, (1, 3)).expand(-1, v.shape[1], -1, -1)),
            recognise=_steps(lambda v: _by(v, (1, 3)).expand(-1, v.shape[1], -1, -1), -1),
        ),
        one_scale_everything_2=lambda v: _rounded(v, v.abs().max().expand(*v.shape[:3], 1).clamp_min(1e-12) / 127),
        scale_0=Wrong(lambda v: zero_range(v, -1), recognise=_a_step_is_0),
        smallest_scale=Wrong(lambda v: _smallest_step(v, -1), recognise=_kept_from_0(torch.clamp_min, -1)),
        something_added_every_scale=Wrong(lambda v: _something_added(v, -1), recognise=_kept_from_0(torch.add, -1)),
        with_128_steps_place_127=Wrong(lambda v: _steps_of_128(v, -1), recognise=_steps(lambda v: _by(v, -1, 128), -1)),
        absolute_value_after_maximum=lambda v: _absolute_too_late(v, -1),
        step_not_divided_by_127=Wrong(
            lambda v: _scale_not_divided(v, -1), recognise=_steps(lambda v: _by(v, -1, 1), -1)
        ),
        with_255_steps_place_127=Wrong(lambda v: _wrapped(v, -1), recognise=_steps(lambda v: _by(v, -1, 255), -1)),
        codes_that_still_floats=Wrong(lambda v: _codes_as_floats(v, -1), recognise=_floating_codes),
        inverse_scale=lambda v: _inverse(v, -1),
        one_scale_all_sequences_2=Wrong(
            lambda v: _rounded(v, _by(v, (0, 3)).expand(len(v), -1, -1, -1)),
            recognise=_steps(lambda v: _by(v, (0, 3)).expand(len(v), -1, -1, -1), -1),
        ),
        absolute_value_forgotten=lambda v: _signed_maximum(v, -1),
    ),
)

quantized_bytes = Check(
    reference=reference.quantized_bytes,
    cases=[
        random_case(b=2, h=3, n=100, d_h=16, size=4),
        random_case(b=1, h=8, n=4096, d_h=128, size=2),
        random_case(b=3, h=2, n=5, d_h=7, size=2),
    ],
    within=(0.0, 0.0),
    properties=[WHOLE],
    misconceptions=wrong_answers(
        __file__,
        comes_as_float(reference.quantized_bytes),
        scales_forgotten=lambda b, h, n, d_h, size: 2 * b * h * n * d_h,
        one_byte_per_scale=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + b * h * (d_h + n),
        one_scale_per_token_keys_too=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + 2 * size * b * h * n,
        one_scale_per_channel_values_too=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + 2 * size * b * h * d_h,
        codes_keys_only=lambda b, h, n, d_h, size: b * h * n * d_h + size * b * h * (d_h + n),
        scales_shared_by_all_sequences=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * h * (d_h + n),
        scales_shared_by_all_heads=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * b * (d_h + n),
        scales_shared_by_all_sequences_heads=lambda b, h, n, d_h, size: 2 * b * h * n * d_h + size * (d_h + n),
    ),
)

quantized_cache = CheckGroup("quantized_cache", quantize_keys, quantize_values, quantized_bytes)
