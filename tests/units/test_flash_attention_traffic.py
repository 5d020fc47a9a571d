"""Unit 09, traffic and rotation: the formulas against tiles that are really moved, the rotation's algebra and what it
saves, the pictures, and the benchmark."""

import io
import math

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from rich.console import Console
from torch import Generator

from autograder.bench import flash as bench_flash
from helpers import kernels, plots
from helpers.flash_attention import rotation, traffic
from helpers.qkv_attention.attention import scaled_dot_product_attention

matplotlib.use("Agg")


class Memory:
    """Counts the bytes that are read from it and written to it."""

    def __init__(self):
        self.bytes = 0

    def move(self, tensor):
        self.bytes += tensor.numel() * tensor.element_size()
        return tensor


@pytest.mark.parametrize(("n", "d"), [(1, 3), (40, 8), (64, 5)])
def test_standard_traffic_is_what_three_steps_move(n, d):
    q, k, v = (torch.randn(n, d) for _ in range(3))
    memory = Memory()
    scores = memory.move(memory.move(q) @ memory.move(k).mT)
    weights = memory.move(memory.move(scores).softmax(-1))
    memory.move(memory.move(weights) @ memory.move(v))
    assert memory.bytes == traffic.standard_traffic(n, d, 4)


@pytest.mark.parametrize(("n", "d", "on_chip"), [(1, 3, 500), (40, 8, 16 * 8 * 4 * 4), (64, 5, 3000), (37, 4, 64)])
def test_tiled_traffic_is_what_tiles_move(n, d, on_chip):
    q, k, v, out = (torch.randn(n, d) for _ in range(4))
    memory, rows = Memory(), on_chip // (4 * d * 4)
    for start in range(0, n, rows):
        memory.move(q[start : start + rows])
        for first in range(0, n, rows):
            memory.move(k[first : first + rows]), memory.move(v[first : first + rows])
        memory.move(out[start : start + rows]), memory.move(out[start : start + rows, 0])
    assert memory.bytes == traffic.tiled_traffic(n, d, on_chip, 4)


def test_a_chip_that_holds_no_row_is_refused():
    with pytest.raises(ValueError, match="at least 1024"):
        traffic.tiled_traffic(10, 64, 1000, 4)


@pytest.mark.parametrize("d", [1, 2, 8, 128])
def test_hadamard_is_orthonormal_and_flat(d):
    h = rotation.hadamard(d).double()
    torch.testing.assert_close(h @ h.mT, torch.eye(d, dtype=h.dtype))
    torch.testing.assert_close(h.abs(), torch.full((d, d), 1 / math.sqrt(d), dtype=h.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rotation_leaves_the_scores(dtype):
    q, k = torch.randn(2, 5, 32, dtype=dtype), torch.randn(2, 7, 32, dtype=dtype)
    turned_q, turned_k = rotation.rotate(q, k, rotation.random_signs(32).to(dtype))
    torch.testing.assert_close(turned_q @ turned_k.mT, q @ k.mT)
    assert not torch.allclose(turned_q, q)


def test_rounding_to_fp8_is_within_half_a_step():
    x = torch.randn(1000)
    assert (
        (rotation.to_fp8(x) - x).abs() <= x.abs() / 16 + x.abs().max() / 448 / 2**9
    ).all()  # 4 bits; below, fixed steps


def test_rotation_lowers_the_error_of_fp8_with_outliers():
    """As published for FlashAttention-3: from 2.4e-2 to 9.1e-3 in its setting. To less than half, the text says."""
    generator = Generator().manual_seed(0)
    q, k, v = (rotation.with_outliers(2048, 128, generator=generator) for _ in range(3))
    exact = scaled_dot_product_attention(q, k, v)
    pairs = (q, k), rotation.rotate(q, k, rotation.random_signs(128, generator))
    plain, turned = (float((rotation.fp8_attention(*pair, v) - exact).square().mean().sqrt()) for pair in pairs)
    assert 0.01 < plain < 0.03 and turned < 0.5 * plain


PICTURES = [
    lambda: plots.traffic_against_n(traffic.standard_traffic, traffic.tiled_traffic),
    plots.attention_on_roofline,
    lambda: plots.rotated_outliers(rotation.hadamard, rotation.rotate),
    lambda: plots.fp8_error(rotation.hadamard, rotation.rotate, n=64, d=16),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_pictures_draw(draw, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    draw()
    plt.gcf().canvas.draw()
    plt.close("all")


def test_benchmark_measures_time_and_memory_of_a_process_of_its_own():
    found = {name: bench_flash.in_own_process(name, 1024) for name in ("naive", "tiled")}
    assert all(one["seconds"] > 0 for one in found.values())
    assert found["naive"]["extra_bytes"] > 2 * bench_flash.HEADS * 1024**2 * 4 * 0.9  # scores and weights
    assert found["tiled"]["extra_bytes"] < found["naive"]["extra_bytes"] / 2


def test_benchmark_table_stands_without_what_did_not_fit():
    row = {
        "n": 16384,
        "naive": None,
        "SDPA": {"seconds": 1.0, "extra_bytes": 2**25},
        "tiled": {"seconds": 2.0, "extra_bytes": 2**26},
    }
    console = Console(width=80, file=io.StringIO())
    console.print(bench_flash.cpu_table([row]))
    assert "16384" in (text := console.file.getvalue()) and "–" in text and " 64 " in text


@pytest.mark.skipif(torch.cuda.is_available() or bool(kernels.UNAVAILABLE), reason="needs Triton's interpreter")
def test_benchmark_of_the_kernels_runs_small_in_the_interpreter(monkeypatch):
    from autograder.bench import flash_gpu as gpu

    for name, value in {"TOKENS": 64, "FEATURES": 32, "PRODUCT": 64, "WIDTHS": (16,)}.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(gpu, "seconds", lambda call: (call(), 1e-3)[1])
    monkeypatch.setattr(gpu, "_extra_bytes", lambda call: (call(), 1000)[1])
    monkeypatch.setattr(gpu, "_ceiling", lambda: 1.0)
    found = gpu.measure((32,))
    console = Console(width=100, file=io.StringIO())
    gpu.show(found, console)
    assert len(found["rows"]) == 4 and "tuned" in (text := console.file.getvalue()) and "SDPA cuDNN failed" in text
    for row in found["rows"]:
        assert all(row["error"][name] < 5e-3 for name in gpu.OURS), row
