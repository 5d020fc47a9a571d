"""observe() sees how an answer was computed, and survives whatever the answer does."""

import sys
import warnings

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from helpers.engine.observe import ASKED, observe


def attention(q, k, v):
    return torch.softmax(q @ k.mT, dim=-1) @ v


def some_qkv(n=6, m=5, d=4):
    return torch.randn(n, d), torch.randn(m, d), torch.randn(m, d)


def test_operations_are_counted_and_a_loop_shows():
    def looped(q, k, v):
        return torch.stack([attention(row[None], k, v)[0] for row in q])

    few, many = (sum(observe(f, some_qkv(n=32)).operations.values()) for f in (attention, looped))
    assert few < 10 < 32 * 3 < many


def test_flops_of_products_are_those_of_pytorchs_own_counter():
    def products(a, b, c, batch):
        return a @ b, torch.addmm(c, a, b), batch @ batch.mT, torch.baddbmm(batch[:, :, :5], batch, batch.mT, beta=2)

    tensors = [torch.randn(shape) for shape in ((5, 7), (7, 3), (5, 3), (2, 5, 9))]
    with FlopCounterMode(display=False) as counter:
        products(*tensors)
    assert observe(products, tuple(tensors)).flops == counter.get_total_flops() > 0


def test_flops_are_two_per_multiply_add():
    for shapes, expected in [
        (((3, 5), (5, 7)), 210),
        (((3, 5), (5,)), 30),
        (((5,), (5,)), 10),
        (((2, 3, 5), (2, 5, 7)), 420),
    ]:
        assert observe(torch.matmul, tuple(map(torch.randn, shapes))).flops == expected


def test_largest_tensor_counts_what_is_made_and_not_views():
    assert observe(attention, some_qkv(n=30, m=20)).largest == 30 * 20
    assert observe(lambda x: x.expand(1000, 4), (torch.randn(4),)).largest == 0


def test_inputs_are_copies_and_changes_are_seen():
    def in_place(q, k, v):
        q /= 2
        return attention(q, k, v)

    inputs = some_qkv()
    before = [tensor.clone() for tensor in inputs]
    assert observe(in_place, inputs).modified == (0,)
    assert observe(in_place, inputs, gradient=True).error is None
    assert observe(attention, inputs).modified == ()
    assert observe(lambda numbers: numbers.pop(), ([2, 0, 1],)).modified == (0,)
    assert observe(lambda numbers: sorted(numbers), ([2, 0, 1],)).modified == ()
    assert all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))


def test_a_caller_that_uses_its_tensors_again_finds_out_who_kept_them():
    kept = []
    for function in (kept.append, lambda x: kept.append(x[:1]), lambda x: kept.append(x.clone())):
        observe(function, (torch.ones(3),), reuses=True)
    assert [part.tolist() for part in kept] == [[-0.5] * 3, [-0.5], [1.0] * 3]
    x = torch.ones(3)
    seen = observe(lambda x: x[1:], (x,), reuses=True)
    assert seen.output.tolist() == [1.0, 1.0] and seen.modified == () and x.tolist() == [1.0] * 3


def test_an_input_that_wants_a_gradient_afterwards_is_changed():
    assert observe(lambda x: x.requires_grad_().sum(), (torch.ones(3),)).modified == (ASKED,)
    assert observe(lambda x: x.detach().clone().requires_grad_().sum(), (torch.ones(3),)).modified == ()
    assert observe(lambda x: x.requires_grad_().sum(), (torch.ones(3),), gradient=True).modified == ()


def test_gradients_reach_every_input_or_are_missing():
    q, k, v = some_qkv()
    assert all(grad is not None for grad in observe(attention, (q, k, v), gradient=True).gradients)
    cut = observe(lambda q, k, v: attention(q.detach(), k, v), (q, k, v), gradient=True).gradients
    assert cut[0] is None and cut[1] is not None


class KeepsOnCtx(torch.autograd.Function):
    """Attention that hangs its weights on `ctx` and makes them again on the way back, all at once."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        ctx.more = {"weights": torch.softmax(q @ k.mT, dim=-1)}
        return ctx.more["weights"] @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v = (x.detach().requires_grad_() for x in ctx.saved_tensors)
        with torch.enable_grad():
            return torch.autograd.grad(attention(q, k, v), (q, k, v), grad)


def test_what_is_kept_for_the_way_back_is_counted_once_and_without_the_inputs():
    q, k, v = some_qkv(n=30, m=20)
    assert observe(lambda q, k, v: q @ k.mT, (q, k, v), gradient=True).saved == 0
    assert observe(attention, (q, k, v), gradient=True).saved == 30 * 20
    assert observe(KeepsOnCtx.apply, (q, k, v), gradient=True).saved == 30 * 20
    assert observe(lambda x: x.exp()[:1] * x[:1].exp(), (q,), gradient=True).saved == 30 * 4 + 4, (
        "a view keeps its whole storage"
    )


def test_the_way_back_is_counted_like_the_call():
    q, k, v = some_qkv(n=30, m=20)
    seen = observe(attention, (q, k, v), gradient=True)
    assert seen.flops == 2 * 2 * 30 * 20 * 4 and seen.backward_flops == 2 * seen.flops
    assert (
        seen.backward_largest == 30 * 20
        and seen.backward_operations["mm"] == 4
        and "linspace" not in seen.backward_operations
    )
    assert observe(attention, (q, k, v)).backward_flops == 0 == observe(attention, (q, k, v)).saved


def test_what_is_kept_outside_ctx_is_overwritten_before_the_way_back():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, on_the_class):
            (Square if on_the_class else ctx).x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * getattr(ctx, "x", getattr(Square, "x", None)) * grad, None

    x = torch.randn(5)
    weights = torch.linspace(-1, 1, 5)
    (right,), (wrong,) = (
        observe(lambda x, place=place: Square.apply(x, place), (x,), gradient=True).gradients for place in (False, True)
    )
    assert torch.allclose(right, 2 * x * weights) and not torch.allclose(wrong, right)


def test_a_forbidden_function_is_seen_on_the_way_back():
    assert observe(KeepsOnCtx.apply, some_qkv(), forbids=("^_softmax$",), gradient=True).forbidden
    forward_only = type(
        "F",
        (KeepsOnCtx,),
        {"forward": staticmethod(lambda ctx, q, k, v: (ctx.save_for_backward(q, k, v), q @ k.mT @ v)[1])},
    )
    assert "_softmax" in observe(forward_only.apply, some_qkv(), forbids=("softmax",), gradient=True).forbidden


def test_an_error_on_the_way_back_is_the_students():
    def raises(grad):
        raise ValueError("no way back")

    def hooked(x):
        y = 2 * x
        y.register_hook(raises)
        return y

    seen = observe(hooked, (torch.ones(3),), gradient=True)
    assert seen.error is None and seen.gradients is None and torch.equal(seen.output, torch.full((3,), 2.0))
    assert seen.backward_error.kind == "ValueError" and "raise ValueError" in seen.backward_error.where


def test_changing_what_was_kept_is_an_error_as_without_observation():
    def changed(x):
        y = x.exp()
        z = y * y
        y += 1
        return z

    assert (
        "modified by an inplace operation" in observe(changed, (torch.ones(3),), gradient=True).backward_error.message
    )


def test_forbidden_functions_are_seen_by_any_spelling():
    q, k, v = some_qkv()
    spellings = [
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: getattr(torch._C._nn, "scaled_dot_product" + "_attention")(q, k, v),
        lambda q, k, v: torch.ops.aten.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q[None, None], k[None, None], v[None, None]
        )[0],
    ]
    for spelling in spellings:
        assert observe(spelling, (q, k, v), forbids=("scaled_dot_product",)).forbidden


def test_errors_are_shown_at_the_students_line():
    def wrong(q, k, v):
        return q @ k

    error = observe(wrong, some_qkv()).error
    assert error.kind == "RuntimeError" and "return q @ k" in error.where and "torch/" not in error.where


def test_exit_and_recursion_are_errors_of_the_student():
    def endless(x):
        return endless(x)

    assert observe(lambda: sys.exit(3)).error.kind == "SystemExit"
    assert observe(endless, (1,)).error.kind == "RecursionError"
    assert observe(None, (1,)).error.kind == "TypeError"


def test_nothing_is_written_to_stderr(capsys):
    def noisy(x):
        warnings.warn("careful", stacklevel=1)
        print("to stderr", file=sys.stderr)
        return x

    observe(noisy, (torch.ones(1),))
    assert capsys.readouterr().err == ""


def test_the_largest_tensor_is_one_that_was_made():
    """Neither a view nor a tensor that is changed in place counts; a copy does."""

    def written(room, new):
        room[3:5] = new
        room.index_copy_(0, torch.tensor([5, 6]), new)
        return room[:7]

    inputs = torch.zeros(100, 3), torch.ones(2, 3)
    assert observe(written, inputs).largest <= 6
    assert observe(lambda room, new: room[:7].clone(), inputs).largest == 21


def test_what_is_not_to_be_counted_is_not_but_what_is_forbidden_is_found():
    x = torch.randn(3, 4)
    seen = observe(lambda x: x.softmax(-1) @ x.mT, (x,), forbids=("softmax",), gradient=True, counts=False)
    assert not seen.operations and seen.flops == seen.largest == seen.living == seen.saved == 0
    assert "softmax" in seen.forbidden and seen.gradients[0].shape == x.shape
    assert observe(lambda x: x @ x.mT, (x,), counts=False).output.shape == (3, 3)


def test_a_call_that_runs_more_lines_than_it_may_is_stopped_at_its_line():
    def counted(x):
        try:
            while True:
                x += 1
        except Exception:
            return x

    before = sys.gettrace()
    error = observe(counted, (0,), steps=1_000, gradient=True).error
    assert error.kind == "TooManySteps" and "1,000" in error.message and "`counted`" in error.where
    assert sys.gettrace() is before
    assert observe(lambda x: sum(x for _ in range(100)), (2,), steps=1_000).output == 200
    assert observe(lambda x: sum(x for _ in range(1_000)), (2,), steps=1_000).error.kind == "TooManySteps"
    assert observe(lambda x: [sys.gettrace()], (0,)).output == [before]


def test_what_a_methods_object_keeps_is_counted_by_storage_and_once():
    class Cache:
        def __init__(self):
            self.rows, self.more = torch.zeros(100)[:2], [torch.zeros(5), None]
            self.same = self.rows[1:]

        def add(self, row):
            return row

    assert observe(Cache().add, (torch.ones(3),)).keeps == 105
    assert observe(lambda row: row, (torch.ones(3),)).keeps == 0
