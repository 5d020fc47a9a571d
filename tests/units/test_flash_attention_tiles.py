"""Tiled attention against attention as a whole in float64: values, logsumexps, gradients over a grid, errors as a
table.

`python -m tests.test_flash` prints the table.
"""

import math
from collections import defaultdict
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers import check
from helpers.engine.observe import observe
from helpers.flash_attention import flash, online
from helpers.masking import masks

LENGTHS = [
    (1, 1),
    (1, 9),
    (7, 7),
    (64, 64),
    (65, 200),
    (130, 129),
    (33, 20),
]  # (n, m); in the last, queries that see nothing
HEAD_DIMS = [(1, 3), (16, 16), (40, 24), (64, 64), (128, 128)]  # (d, d_v)
TILES = [(64, 64), (16, 48)]
NAMES = ("out", "lse", "dq", "dk", "dv")
LIMITS = {torch.float64: 1e-13, torch.float32: 2e-5}  # entries are of size 1; in float32 up to 200 terms are added

# -------------------------------------------------------------------------------------------------- the grid, the table


def whole(q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, causal: bool) -> tuple[Tensor, ...]:
    """out, lse, dq, dk, dv by PyTorch's own softmax, logsumexp and autograd in float64; rows that see nothing are 0."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    n, m = q.shape[-2], k.shape[-2]
    allowed = masks.causal_mask(n, m) if causal else torch.ones(n, m, dtype=torch.bool)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~allowed, -math.inf)
    seeing = allowed.any(-1, keepdim=True)
    out = torch.where(seeing, scores, 0.0).softmax(-1).where(seeing, 0.0) @ v
    return out.detach(), scores.detach().logsumexp(-1), *torch.autograd.grad(out, (q, k, v), grad_out.double())


def tiled(
    q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, causal: bool, blocks: tuple[int, int]
) -> tuple[Tensor, ...]:
    """The same in tiles."""
    out, lse = flash.flash_attention_forward(q, k, v, causal, *blocks)
    return out, lse, *flash.flash_attention_backward(q, k, v, out, lse, grad_out, causal, *blocks)


def drawn(n: int, m: int, d: int, d_v: int, dtype: torch.dtype, batch: tuple[int, ...] = (2, 2)) -> list[Tensor]:
    """q, k, v and a gradient of the output."""
    generator = torch.Generator().manual_seed(n + 1000 * m + d)
    shapes = ((n, d), (m, d), (m, d_v), (n, d_v))
    return [torch.randn(*batch, *shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def largest_error(got: Tensor, expected: Tensor) -> float:
    """max |got − expected|, where both may be −∞; NaN and a lone −∞ count as infinite."""
    gap = torch.where(got.double() == expected, 0.0, (got.double() - expected).abs())
    return gap.nan_to_num(math.inf).max().item()


def errors(dtype: torch.dtype, causal: bool) -> Iterator[tuple[str, str, float]]:
    """(shape, what, largest error) for every point of the grid."""
    for n, m in LENGTHS:
        for d, d_v in HEAD_DIMS:
            inputs = drawn(n, m, d, d_v, dtype)
            expected = whole(*inputs, causal)
            for blocks in TILES:
                for name, got, want in zip(NAMES, tiled(*inputs, causal, blocks), expected):
                    yield f"n={n} m={m} d={d} d_v={d_v} tiles={blocks}", name, largest_error(got, want)


def error_table() -> list[tuple[str, bool, dict[str, float]]]:
    """Rows (dtype, causal, largest error over the grid by name)."""
    rows = []
    for dtype in LIMITS:
        for causal in (False, True):
            worst = defaultdict(float)
            for _, name, error in errors(dtype, causal):
                worst[name] = max(worst[name], error)
            rows.append((str(dtype).removeprefix("torch."), causal, dict(worst)))
    return rows


def as_text(rows: list[tuple[str, bool, dict[str, float]]]) -> str:
    """The table, for people."""
    head = f"{'dtype':<8} {'causal':<6} " + " ".join(f"{name:>8}" for name in NAMES)
    return "\n".join(
        [
            head,
            *(
                f"{dtype:<8} {causal!s:<6} " + " ".join(f"{worst[name]:8.1e}" for name in NAMES)
                for dtype, causal, worst in rows
            ),
        ]
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_values_and_gradients_are_those_of_attention_as_a_whole(dtype, causal):
    wrong = [point for point in errors(dtype, causal) if not point[2] < LIMITS[dtype]]
    assert not wrong


# ---------------------------------------------------------------------------------------------- PyTorch's own operators


@pytest.mark.parametrize("causal", [False, True])
def test_output_and_logsumexp_are_those_of_pytorchs_flash_attention(causal):
    q, k, v, _ = drawn(150, 150, 32, 32, torch.float64)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    got = flash.flash_attention_forward(q, k, v, causal, 64, 32)
    torch.testing.assert_close(got, (out, lse.to(q)), check_dtype=False)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_by_finite_differences(causal):
    q, k, v, _ = (x.requires_grad_() for x in drawn(5, 7, 3, 4, torch.float64, batch=(2,)))
    assert torch.autograd.gradcheck(lambda q, k, v: flash.flash_attention(q, k, v, causal), (q, k, v))


def test_more_queries_than_keys_by_finite_differences():
    q, k, v, _ = (x.requires_grad_() for x in drawn(6, 4, 3, 2, torch.float64, batch=()))
    assert torch.autograd.gradcheck(lambda q, k, v: flash.flash_attention(q, k, v, True), (q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_autograd_reaches_the_inputs_through_several_tiles(causal, monkeypatch):
    for passing in (flash.flash_attention_forward, flash.flash_attention_backward):
        monkeypatch.setattr(passing.__wrapped__, "__defaults__", (False, 16, 24))
    q, k, v, grad_out = drawn(50, 70, 8, 5, torch.float64)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    gradients = torch.autograd.grad(flash.flash_attention(*leaves, causal), leaves, grad_out)
    torch.testing.assert_close(gradients, whole(q, k, v, grad_out, causal)[2:])


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 11, 40])
def test_flash_decoding_is_attention_of_one_query(splits):
    q, k, v, _ = drawn(1, 11, 6, 4, torch.float64)
    torch.testing.assert_close(flash.flash_decoding(8 * q, k, v, splits), F.scaled_dot_product_attention(8 * q, k, v))


# ---------------------------------------------------------------------------------------------------- what it must cost


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_is_larger_than_the_output_and_a_tile(causal):
    q, k, v, grad_out = drawn(300, 310, 4, 4, torch.float32, batch=())
    forward = observe(flash.flash_attention_forward, (q, k, v, causal, 20, 30))
    assert forward.largest == 300 * 4
    backward = observe(flash.flash_attention_backward, (q, k, v, *forward.output, grad_out, causal, 20, 30))
    assert backward.largest == 310 * 4


@pytest.mark.parametrize(("n", "m"), LENGTHS)
@pytest.mark.parametrize("blocks", [(1, 1), (4, 3), (8, 16), (50, 7), (500, 500)])
def test_causal_tiles_are_those_with_a_visible_pair(n, m, blocks):
    visible = [
        tile.any() for stripe in masks.causal_mask(n, m).split(blocks[0]) for tile in stripe.split(blocks[1], dim=1)
    ]
    assert flash.causal_tiles(n, m, *blocks) == sum(visible)


def test_skipped_tiles_cost_nothing():
    q, k, v, _ = drawn(96, 96, 4, 3, torch.float32, batch=())
    flops = [observe(flash.flash_attention_forward, (q, k, v, causal, 16, 8)).flops for causal in (True, False)]
    tile = 2 * 16 * 8 * (4 + 3)
    assert flops == [flash.causal_tiles(96, 96, 16, 8) * tile, 6 * 12 * tile] == [42 * tile, 72 * tile]


def test_the_way_back_keeps_no_weights():
    """What autograd stores grows with n, not with n²."""
    stored = []

    def keep(x: Tensor) -> Tensor:
        stored.append(x.numel())
        return x

    q, k, v, _ = (x.requires_grad_() for x in drawn(600, 600, 4, 4, torch.float32, batch=()))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        flash.flash_attention(q, k, v)
    assert sum(stored) == 4 * 600 * 4 + 600  # q, k, v, out and lse


# ------------------------------------------------------------------------------------------- merging, online softmax

unhurried = settings(deadline=None)  # the first call imports
finite = st.floats(-300, 300, width=32)
lse = st.one_of(st.just(-math.inf), finite)
partial = st.tuples(st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3), lse).map(
    lambda part: (
        torch.tensor([part[0]], dtype=torch.float64) * (part[1] > -math.inf),
        torch.tensor([part[1]], dtype=torch.float64),
    )
)
NEUTRAL = torch.zeros(1, 3, dtype=torch.float64), torch.tensor([-math.inf], dtype=torch.float64)


@given(partial, partial)
@unhurried
def test_merging_is_commutative(a, b):
    torch.testing.assert_close(online.merge_partials(*a, *b), online.merge_partials(*b, *a))


@given(partial, partial, partial)
@unhurried
def test_merging_is_associative(a, b, c):
    left = online.merge_partials(*online.merge_partials(*a, *b), *c)
    torch.testing.assert_close(left, online.merge_partials(*a, *online.merge_partials(*b, *c)))


@given(partial)
@unhurried
def test_a_part_that_saw_nothing_changes_nothing(a):
    torch.testing.assert_close(online.merge_partials(*a, *NEUTRAL), a, rtol=0, atol=0)


@given(st.integers(1, 20), st.integers(0, 1000))
@unhurried
def test_any_cut_of_the_keys_merges_to_the_whole(cut, seed):
    q, k, v, _ = (4 * x for x in drawn(3, 21, 5, 2, torch.float64))
    k = k.roll(seed, dims=-2)
    parts = [
        flash.flash_attention_forward(q, k[..., part, :], v[..., part, :]) for part in (slice(cut), slice(cut, None))
    ]
    torch.testing.assert_close(online.merge_partials(*parts[0], *parts[1]), flash.flash_attention_forward(q, k, v))


@given(st.lists(lse, min_size=1, max_size=30), st.integers(1, 40))
@unhurried
def test_online_softmax_is_the_stable_softmax_for_any_block(scores, block):
    x = torch.tensor(scores, dtype=torch.float64)
    m, total = online.online_softmax(x, block)
    assert m == x.max()
    torch.testing.assert_close(m + total.log(), x.logsumexp(-1))


# ----------------------------------------------------------------------------------------------------------- the checks


class Torn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return flash.flash_attention_forward(q, k, v)[0]

    @staticmethod
    def backward(ctx, grad_out):
        raise ValueError("no way back")


def test_an_error_on_the_way_back_is_told_on_the_card():
    score = check.flash_attention_backward(
        flash.flash_attention_backward, lambda q, k, v, causal=False: Torn.apply(q, k, v), points=4
    )
    assert 2 <= score < 4 and "ValueError: no way back" in str(score)


def test_a_right_output_by_a_secret_matrix_earns_half():
    def secret(q, k, v, causal=False, block_q=64, block_k=64):
        return flash.flash_attention_forward(q, k, v, causal, q.shape[-2], k.shape[-2])

    score = check.flash_attention_forward(secret, points=5)
    assert (
        score == 2.5
        and score.diagnosis == "an n × m matrix in memory"
        and "Your output is right, but it costs too much" in score.message
    )


def test_gradients_that_are_wrong_in_a_way_nobody_thought_of_are_not_named():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            ctx.causal, (out, lse) = causal, flash.flash_attention_forward(q, k, v, causal)
            ctx.save_for_backward(q, k, v, out, lse)
            return out

        @staticmethod
        def backward(ctx, grad_out):
            dq, dk, dv = flash.flash_attention_backward(*ctx.saved_tensors, grad_out, ctx.causal)
            return 2 * dq, dk, dv, None

    score = check.flash_attention_backward(flash.flash_attention_backward, lambda *args: Doubled.apply(*args), points=4)
    assert score < 4 and score.diagnosis is None and "gradient of `q` is off" in score.message


if __name__ == "__main__":
    print(as_text(error_table()))
