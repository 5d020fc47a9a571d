"""observe() sees how an answer was computed, and survives whatever the answer does."""

import sys
import warnings

import torch
import torch.nn.functional as F

from helpers.engine.observe import observe


def attention(q, k, v):
    return torch.softmax(q @ k.mT, dim=-1) @ v


def some_qkv(n=6, m=5, d=4):
    return torch.randn(n, d), torch.randn(m, d), torch.randn(m, d)


def test_operations_are_counted_and_a_loop_shows():
    def looped(q, k, v):
        return torch.stack([attention(row[None], k, v)[0] for row in q])

    few, many = (sum(observe(f, some_qkv(n=32)).operations.values()) for f in (attention, looped))
    assert few < 10 < 32 * 3 < many


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
    assert all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))


def test_gradients_reach_every_input_or_are_missing():
    q, k, v = some_qkv()
    assert all(grad is not None for grad in observe(attention, (q, k, v), gradient=True).gradients)
    cut = observe(lambda q, k, v: attention(q.detach(), k, v), (q, k, v), gradient=True).gradients
    assert cut[0] is None and cut[1] is not None


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
