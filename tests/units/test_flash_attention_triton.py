"""The attention kernels against attention in float64, interpreted here and compiled where there is a GPU; what observes
kernels; and the tiles, compiled for four architectures. `python tests/units/test_flash_attention_triton.py` shows the
largest errors.
"""

import ctypes
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from conftest import ROOT

from autograder.course.standalone_source import splice
from helpers import check
from helpers.engine import guard_self_test, kernel_bounds
from helpers.engine.isolated_call import LAYOUTS, laid_out
from helpers.engine.observe import KERNEL, observe
from helpers.flash_attention import flash_triton
from helpers.kernels import device, interpreted, tl, triton
from helpers.measuring.kernel_traffic import numbers_moved

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no Triton for this system")
interpreter_only = pytest.mark.skipif(not interpreted(), reason="a compiled kernel can't be watched so closely")

SHAPES = [  # n, m, d
    (1, 70, 64),
    (37, 90, 40),
    (90, 37, 16),
    (64, 128, 128),
    (100, 100, 64),
]
DTYPES = [torch.float32, torch.float16] + [torch.bfloat16] * (not interpreted())
WITHIN = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}  # absolute, for entries drawn from N(0, 1)
WAYS = {
    "teaching": (flash_triton.triton_forward, flash_triton.triton_backward),
    "tuned": (flash_triton.tuned_forward, flash_triton.tuned_backward),
}


def attention(q, k, v, causal):
    """Output and logsumexp, by PyTorch in float64. A row that sees nothing: 0 and −∞."""
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(n, m, dtype=torch.bool).tril(m - n), -1e300)
    lse = scores.logsumexp(-1)
    seen = lse > -1e299
    return scores.softmax(-1) * seen[..., None] @ v, lse.masked_fill(~seen, -math.inf)


def inputs(n, m, d, dtype, layouts=("heads inside", "gaps", "columns", "columns")):
    """q, k, v and the gradient of the output, two heads in each of two sequences, with strides of all kinds."""
    generator = torch.Generator().manual_seed(n + m + d)
    drawn = (torch.randn(2, 2, length, d, generator=generator).to(dtype) for length in (n, m, m, n))
    return laid_out(tuple(drawn), layouts, device())


def largest_errors(way, n, m, d, causal, dtype):
    """Of the output, the logsumexp, dQ, dK and dV."""
    forward, backward = WAYS[way]
    q, k, v, grad = inputs(n, m, d, dtype)
    out, lse = forward(q, k, v, causal)
    leaves = [x.cpu().double().requires_grad_() for x in (q, k, v)]
    exact, exact_lse = attention(*leaves, causal)
    wanted = exact, exact_lse.exp(), *torch.autograd.grad(exact, leaves, grad.cpu().double())
    got = out, lse.double().exp(), *backward(q, k, v, out, lse, grad, causal)
    scale = 1, float(exact_lse.exp().amax().detach()), 1, 1, 1
    return [
        float(((g.cpu().double() - w.detach()) / s).abs().nan_to_num(math.inf).max())
        for g, w, s in zip(got, wanted, scale)
    ]


# ------------------------------------------------------------------------------------------------------- right numbers


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
@pytest.mark.parametrize("way", WAYS)
def test_kernels_agree_with_attention_in_float64(way, shape, causal, dtype):
    assert max(largest_errors(way, *shape, causal, dtype)) < WITHIN[dtype]


@pytest.mark.parametrize("layout", ["dense", "gaps", "columns"])
def test_scale_rows_takes_any_view(layout):
    x, factor = laid_out((torch.randn(37, 45), torch.randn(37)), (layout, "dense"), device())
    torch.testing.assert_close(flash_triton.scale_rows(x, factor), x * factor[:, None])


def test_pytorch_differentiates_through_the_kernels():
    q, k, v, grad = inputs(20, 33, 16, torch.float32)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    got = torch.autograd.grad(flash_triton.TritonAttention.apply(*leaves, True), leaves, grad)
    exact = [x.detach().cpu().double().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(attention(*exact, True)[0], exact, grad.cpu().double())
    for g, w in zip(got, wanted, strict=True):
        torch.testing.assert_close(g.cpu().double(), w, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow")  # of keys that are not there, and whose rows are not written
def test_scores_that_would_overflow_and_rows_that_see_nothing():
    q, k, v, grad = (100 * x for x in inputs(40, 20, 16, torch.float32))
    out, lse = flash_triton.triton_forward(q, k, v, True)
    assert out.isfinite().all() and (out[..., :20, :] == 0).all() and (lse[..., :20] == -math.inf).all()
    assert all(x.isfinite().all() for x in flash_triton.triton_backward(q, k, v, out, lse, grad, True))


def test_inputs_that_the_kernels_do_not_take_are_refused_in_one_line():
    q = torch.randn(1, 1, 4, 16, device=device())
    for wrong in [(q.double(),) * 3, (q, q, q[0]), (q, q.half(), q), (torch.randn(1, 1, 4, 200, device=device()),) * 3]:
        with pytest.raises(ValueError, match="^[^\n]+$"):
            flash_triton.triton_forward(*wrong)
    if interpreted():
        with pytest.raises(ValueError, match="bfloat16"):
            flash_triton.triton_forward(*(q.bfloat16(),) * 3)


REFUSED = {  # what is wrong → shapes of q, k and v
    "sequences": ((2, 2, 4, 16), (1, 2, 4, 16), (1, 2, 4, 16)),
    "repeat the keys and values of grouped heads": ((1, 4, 4, 16), (1, 2, 4, 16), (1, 2, 4, 16)),
    "k has 2 heads and v 1": ((1, 2, 4, 16), (1, 2, 4, 16), (1, 1, 4, 16)),
    "k has length 5 and v 4": ((1, 2, 4, 16), (1, 2, 5, 16), (1, 2, 4, 16)),
    "width": ((1, 2, 4, 16), (1, 2, 4, 32), (1, 2, 4, 16)),
    "k has 3 axes": ((1, 2, 4, 16), (2, 4, 16), (1, 2, 4, 16)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_shapes_that_do_not_fit_are_refused_by_name(words):
    with pytest.raises(ValueError, match=f"^[^\n]*{words}[^\n]*$"):
        flash_triton.triton_forward(*(torch.randn(shape, device=device()) for shape in REFUSED[words]))


@pytest.mark.parametrize("wrong", ["out", "lse", "grad_out"])
def test_what_does_not_belong_to_the_forward_pass_is_refused_by_name(wrong):
    q = torch.randn(1, 2, 4, 16, device=device())
    given = {"out": q, "lse": q[..., 0].contiguous(), "grad_out": q} | {wrong: q[:, :1]}
    with pytest.raises(ValueError, match=f"^{wrong} is"):
        flash_triton.triton_backward(q, q, q, *given.values())


def test_the_kernels_are_differentiated_once():
    q = torch.randn(1, 1, 4, 16, device=device(), requires_grad=True)
    grad_out = torch.ones_like(q, requires_grad=True)
    (dq,) = torch.autograd.grad(flash_triton.TritonAttention.apply(q, q, q, False), q, grad_out, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


# ---------------------------------------------------------------------------------------------------- watching kernels


@triton.jit
def copying_kernel(x_ptr, out_ptr, size, AHEAD: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places + AHEAD)
    tl.store(out_ptr + places, x, mask=places < size)


@triton.jit
def unwritten_kernel(x_ptr):
    raise NotImplementedError


def copied(x, ahead=0):
    out = torch.empty_like(x)
    copying_kernel[(-(-x.numel() // 16),)](x, out, x.numel(), AHEAD=ahead, BLOCK=16)
    return out


@triton.jit
def masked_line_kernel(x_ptr, out_ptr, n, d, WIDTH: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, WIDTH)
    inside = (columns < d) & (row < n)  # the interpreter makes whole numbers of it
    tl.store(out_ptr + row * d + columns, tl.load(x_ptr + row * d + columns, mask=inside), mask=inside)


def line_by_line(x, rows=20):
    out = torch.empty_like(x)
    masked_line_kernel[(rows,)](x, out, x.shape[0], x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
    return out


@interpreter_only
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (3, 5)])
def test_a_mask_of_whole_numbers_is_a_mask(shape):
    seen = observe(line_by_line, (torch.randn(shape),), layouts=("dense",))
    assert seen.error is None and torch.equal(seen.output, seen.args[0])


@interpreter_only
def test_a_kernel_that_leaves_its_tensors_is_told_where_it_went():
    seen = observe(copied, (torch.randn(37),), layouts=("dense",))
    assert seen.error.kind == "UnmaskedRead" and "11 elements past the end of `x_ptr`" in seen.error.message
    assert "tl.load(x_ptr + places + AHEAD)" in seen.error.where
    for ahead, words in [(-5, "5 elements before the start of `x_ptr`"), (10**9, "check its strides")]:
        seen = observe(lambda x, ahead=ahead: copied(x, ahead), (torch.randn(32),), layouts=("dense",))
        assert seen.error.kind == "StrayPointer" and words in seen.error.message
    right = observe(copied, (torch.randn(32),), layouts=("dense",))
    assert right.error is None and right.operations[KERNEL] == 1


@triton.jit
def _scaled_rows(x_ptr, factor_ptr, out_ptr, to_row, to_column, n, d, BLOCK: tl.constexpr, TILE: tl.constexpr):
    rows, columns = tl.program_id(0) * TILE + tl.arange(0, BLOCK), tl.arange(0, 128)
    exists = (rows[:, None] < n) & (columns[None, :] < d)
    x = tl.load(x_ptr + rows[:, None] * to_row + columns[None, :] * to_column, mask=exists, other=0.0)
    factor = tl.load(factor_ptr + rows, mask=rows < n, other=0.0)
    tl.store(out_ptr + rows[:, None] * d + columns[None, :], x * factor[:, None], mask=exists)


def rows_scaled_by(kernel, **sizes):
    def launch(x, factor):
        out, factor = torch.empty(x.shape, device=x.device), factor.contiguous()
        kernel[lambda meta: (triton.cdiv(len(x), meta["TILE"]),)](x, factor, out, *x.stride(), *x.shape, **sizes)
        return out

    return launch


def tuned(*sizes):
    return triton.autotune([triton.Config({"BLOCK": block, "TILE": tile}) for block, tile in sizes], key=["n"])


@interpreter_only
@pytest.mark.parametrize(
    "kernel",
    [
        tuned((16, 16), (32, 32), (32, 32))(_scaled_rows),
        triton.heuristics({"BLOCK": lambda args: 16, "TILE": lambda args: 16})(_scaled_rows),
    ],
    ids=["autotune", "heuristics"],
)
def test_a_kernel_whose_sizes_are_chosen_for_it_is_graded(kernel):
    assert check.triton_rows(rows_scaled_by(kernel), points=2).full


@interpreter_only
def test_a_kernel_that_is_right_in_one_configuration_alone_is_told_so():
    score = check.triton_rows(rows_scaled_by(tuned((16, 16), (32, 64))(_scaled_rows)), points=2)
    assert not score.full and "BLOCK = 32, TILE = 64 than with BLOCK = 16, TILE = 16" in score.message


@triton.jit
def _assembly(x):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def assembly_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out_ptr + places, _assembly(tl.load(x_ptr + places, mask=places < n)), mask=places < n)


def test_a_kernel_of_what_only_a_gpu_has_is_told_so_before_it_is_graded():
    def launch(x):
        out = torch.empty_like(x)
        assembly_kernel[(1,)](x, out, len(x), BLOCK=16)
        return out

    seen = observe(launch, (torch.randn(7),), layouts=("dense",))
    assert seen.error.kind == "NotInterpretable" and "`inline_asm_elementwise`" in seen.error.message


@triton.jit
def bfloat16_kernel(x_ptr, y_ptr, out_ptr, SIZE: tl.constexpr):
    places = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    x, y = tl.load(x_ptr + places).to(tl.bfloat16), tl.load(y_ptr + places).to(tl.bfloat16)
    tl.store(out_ptr + places, tl.dot(x, y) + (x * y - 2.0 * x).to(tl.float32) + tl.where(x < y, 1.0, 0.0))


@interpreter_only
def test_bfloat16_is_interpreted_as_a_gpu_computes_it():
    x, y, out = torch.randn(3, 16, 16)
    bfloat16_kernel[(1,)](x, y, out, SIZE=16)
    x, y = x.bfloat16(), y.bfloat16()
    torch.testing.assert_close(out, x.float() @ y.float() + (x * y - 2 * x).float() + (x < y).float())


@interpreter_only
def test_the_guard_fits_this_triton_and_says_where_it_does_not(monkeypatch):
    assert not guard_self_test.unwatched()
    monkeypatch.setattr(kernel_bounds, "_ACCESSES", kernel_bounds._ACCESSES[:1])
    assert guard_self_test.unwatched() == "writes outside a tensor"


@interpreter_only
def test_a_call_that_kills_its_process_costs_one_call():
    for deadly in (lambda x: ctypes.string_at(0), lambda x: os._exit(1), lambda x: os.abort()):
        seen = observe(deadly, (torch.randn(3),), layouts=("dense",))
        assert seen.error.kind == "KernelDied" and "\n" not in seen.error.message
    assert observe(lambda x: x, (torch.ones(3),), layouts=("columns",)).output.tolist() == [1, 1, 1]


@interpreter_only
def test_what_comes_back_from_a_process_of_its_own(capsys):
    def loud(x):
        print("seen")
        x += 1
        return torch.empty(2), {"sum": x.sum()}, "text"

    seen = observe(loud, (torch.zeros(2, 3),), layouts=("gaps",))
    assert capsys.readouterr().out == "seen\n" and seen.modified == (0,)
    assert seen.output[0].isnan().all() and seen.output[1:] == ({"sum": 6}, "text")
    assert (
        "neither a tensor" in observe(lambda x: open(os.devnull), (torch.zeros(1),), layouts=("dense",)).error.message
    )


def test_a_kernel_that_is_not_written_is_not_attempted():
    def unwritten(x, factor):
        unwritten_kernel[(1,)](x)

    assert observe(unwritten, (torch.ones(2, 2), None)).error.kind == "NotImplementedError"
    assert check.triton_rows(unwritten, points=2).diagnosis == "not attempted"


def test_every_layout_has_the_values_and_nan_around_them():
    x = torch.randn(2, 3, 5, 7)
    strides = set()
    for name in LAYOUTS:
        (placed,) = laid_out((x,), (name,), torch.device("cpu"))
        assert torch.equal(placed, x)
        strides.add(placed.stride())
        around = torch.as_strided(placed, (1,), (1,), placed.storage_offset() - 1)
        assert around.isnan().all()
    assert len(strides) == len(LAYOUTS)


def test_products_in_the_launcher_are_forbidden():
    def launcher(q, k, v, causal, *tiles):
        out, lse = flash_triton.triton_forward(q, k, v, causal, *tiles)
        return (q @ k.mT).softmax(-1) @ v, lse

    score = check.triton_forward(launcher, points=4, seed=0)
    assert score == 0 and score.diagnosis == "forbidden function"


@interpreter_only
def test_an_unmasked_tail_is_named_whatever_the_size_of_the_tiles():
    misconception = next(m for m in check.triton_forward.misconceptions if m.name == "tiles read without a mask")
    source = splice(misconception.function, "triton_forward")
    begin = "    (b, h, n, d), m = "
    assert source.count(begin) == 1
    source = source.replace(begin, f"    block_q = block_k = 64\n{begin}")
    score = check.triton_forward(_from_a_cell(source, "triton_forward"), points=4, seed=0)
    assert score <= 0.5 and score.diagnosis == misconception.name and "past the end of `k_ptr`" in score.message


@triton.jit
def one_column_too_far_kernel(
    x_ptr, factor_ptr, out_ptr, x_strides, factor_stride, out_strides, n, d, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    inside = (rows[:, None] < n) & (columns[None, :] < d)
    x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :] * x_strides[1], mask=inside, other=0.0)
    factor = tl.load(factor_ptr + rows * factor_stride, mask=rows < n, other=0.0)
    out_at = out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1]
    tl.store(out_at, x * factor[:, None], mask=(rows[:, None] < n) & (columns[None, :] <= d))


def one_column_too_far(x, factor):
    (n, d), out = x.shape, torch.empty_like(x)
    strides = x.stride(), factor.stride(0), out.stride()
    one_column_too_far_kernel[(triton.cdiv(n, 16),)](x, factor, out, *strides, n, d, ROWS=16, WIDTH=32)
    return out


@interpreter_only
def test_a_mask_that_is_one_off_is_not_called_none():
    score = check.triton_rows(one_column_too_far, points=4, seed=0)
    assert score < 4 and score.diagnosis != "tiles written without a mask"


@interpreter_only
def test_a_column_too_many_is_called_a_column_only_where_one_would_lie_there():
    for layout, words in (("columns", "1 column past"), ("dense", "1 element past")):
        seen = observe(one_column_too_far, (torch.randn(5, 3), torch.randn(5)), layouts=(layout, "dense"))
        assert words in seen.error.message


@interpreter_only
def test_kernels_are_spliced_with_what_they_use():
    answer = _from_a_cell(splice(check.triton_rows.misconceptions[0].function, "scale_rows"), "scale_rows")
    assert check.triton_rows(answer, points=4, seed=0).diagnosis == check.triton_rows.misconceptions[0].name
    kernel = splice(vars(flash_triton)["forward_kernel"].fn, "kernel")
    assert "0.693147" in kernel and "LN2" not in kernel  # a constant in its place


def _from_a_cell(source, name):
    """What a notebook's cell defines. Kernels read their own source, so it must be found."""
    import linecache

    file = f"<cell {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), names)
    return names[name]


# --------------------------------------------------------------------------------------------------- other machines


def _python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_triton_the_course_loads_and_says_what_to_do():
    said = _python(
        "import sys; sys.modules['triton'] = None\n"
        "from helpers import check\nfrom helpers.flash_attention.flash_triton import triton_forward\nimport torch\n"
        "print(check.triton_forward(triton_forward, points=5).message)\n"
        "try:\n    triton_forward(*torch.ones(3, 1, 1, 2, 16))\nexcept RuntimeError as error:\n    print(error)\n"
    )
    assert said.count("pip install triton") == 2 and said.startswith("Not attempted here.")


def test_triton_imported_too_early_is_noticed():
    said = _python("import triton\nfrom helpers.kernels import UNAVAILABLE\nprint(UNAVAILABLE)", TRITON_INTERPRET="")
    assert ("Restart the kernel" in said) == (not torch.cuda.is_available())


@pytest.mark.parametrize("arch", [75, 80, 89, 90])
def test_the_chosen_tiles_spill_nothing_and_fit(arch, tmp_path):
    numbers = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "autograder.bench.compile_kernels", "--arch", str(arch), "--json", str(numbers)]
    subprocess.run(command, cwd=ROOT, check=False, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    found = json.loads(numbers.read_text())
    assert len(found) == 54 and not [one for one in found if not one["good"]]


if __name__ == "__main__":
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "tiles", "n", "m", "d", "causal", "dtype", "out", "exp(lse)", "dQ", "dK", "dV", title="Largest errors"
    )
    for way in WAYS:
        for dtype in DTYPES:
            for shape in SHAPES:
                for causal in (False, True):
                    errors = (f"{error:.1e}" for error in largest_errors(way, *shape, causal, dtype))
                    table.add_row(way, *map(str, shape), "yes" if causal else "", str(dtype)[6:], *errors)
    Console(width=110).print(table)


@interpreter_only
def test_what_an_interpreted_kernel_moves_is_what_the_formula_of_9_1_says():
    q, k, v = torch.randn(3, 1, 1, 40, 16)
    moved = numbers_moved(lambda: flash_triton.triton_forward(q, k, v, block_q=16, block_k=32))
    assert moved == 2 * 40 * 16 + 40 + 3 * 2 * 40 * 16  # Q, output, logsumexp; keys and values for each of 3 tiles
