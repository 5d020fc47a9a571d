"""How fast the kernels of the course are on a GPU: forward and backward of the teaching and the tuned kernel, beside
PyTorch's own flash and cuDNN kernels and a large matrix product, all timed in one run, and all compared with float32.

Every length has as many tokens (b · n) and features (h · d) as every other, so the speeds can be compared."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from helpers.flash_attention import flash
from helpers.flash_attention import flash_triton as kernels
from helpers.kernels import device
from helpers.measuring.live_memory import peak_bytes

DTYPE = torch.float16  # what all of them can do, on every GPU that has tensor cores
TOKENS, FEATURES = 16384, 2048
WIDTHS = (64, 128)
PRODUCT = 8192  # width of the square matrix product that is the ceiling
MB = 2**20
PASSES = ("forward", "backward")


@dataclass(frozen=True)
class Shape:
    """One setting: n tokens a sequence, heads of width d, causal or not."""

    n: int
    d: int
    causal: bool

    def inputs(self) -> list[Tensor]:
        """q, k, v and the gradient of the output."""
        generator = torch.Generator(device()).manual_seed(self.n + self.d)
        size = (max(1, TOKENS // self.n), FEATURES // self.d, self.n, self.d)
        return [torch.randn(size, dtype=DTYPE, device=device(), generator=generator) for _ in range(4)]

    def flops(self, way: str, q: Tensor) -> float:
        """4 n² d for each head forward, 2.5 times as many backward; half of it if causal."""
        b, h, n, d = q.shape
        return 4.0 * b * h * n * n * d * (2.5 if way == "backward" else 1) / (2 if self.causal else 1)


# --------------------------------------------------------------------------------------------------------- who competes

Call = Callable[[], tuple]


def _kernel(
    forward: Callable, backward: Callable, causal: bool, q: Tensor, k: Tensor, v: Tensor, grad: Tensor
) -> tuple[Call, Call]:
    """Forward and backward of a kernel of the course as calls without arguments: (out, …) and (dq, dk, dv)."""
    out, lse = forward(q, k, v, causal)
    return partial(forward, q, k, v, causal), partial(backward, q, k, v, out, lse, grad, causal)


def _sdpa(backend: SDPBackend, causal: bool, *tensors: Tensor) -> tuple[Call, Call]:
    """The same of one of PyTorch's kernels. RuntimeError where it can't do it."""
    *qkv, grad = tensors
    leaves = [x.detach().requires_grad_() for x in qkv]

    def forward(inputs=qkv):
        with sdpa_kernel(backend):
            return (F.scaled_dot_product_attention(*inputs, is_causal=causal),)

    (out,) = forward(leaves)
    return forward, partial(torch.autograd.grad, out, leaves, grad, retain_graph=True)


CONTENDERS = {
    "teaching": partial(_kernel, kernels.triton_forward, kernels.triton_backward),
    "tuned": partial(_kernel, kernels.tuned_forward, kernels.tuned_backward),
    "SDPA flash": partial(_sdpa, SDPBackend.FLASH_ATTENTION),
    "SDPA cuDNN": partial(_sdpa, SDPBackend.CUDNN_ATTENTION),
}
OURS, THEIRS = ("teaching", "tuned"), ("SDPA flash", "SDPA cuDNN")

# ------------------------------------------------------------------------------------------------------------ measuring


def seconds(call: Call) -> float:
    """The median time of a call on the GPU, its cache emptied before each."""
    from triton.testing import do_bench

    return do_bench(call, warmup=50, rep=200, return_mode="median") / 1e3


def measure(lengths: tuple[int, ...]) -> dict:
    """Everything as plain data: ceiling (TFLOP/s), rows (a dict for each shape and pass), and extra memory over n."""
    shapes = [Shape(n, d, causal) for d in WIDTHS for causal in (False, True) for n in lengths]
    found = {"device": _name(), "dtype": str(DTYPE), "ceiling": _ceiling()}
    rows: list[dict] = []
    for shape in track(shapes, "Measuring on the GPU", console=Console(stderr=True), transient=True):
        rows += _rows(shape)
    return {**found, "rows": rows, "memory": [_memory(n) for n in lengths]}


def _name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _ceiling() -> float:
    """TFLOP/s of a square matrix product."""
    a, b = (torch.randn(PRODUCT, PRODUCT, dtype=DTYPE, device=device()) for _ in range(2))
    return 2 * PRODUCT**3 / seconds(lambda: a @ b) / 1e12


def _rows(shape: Shape) -> list[dict]:
    """Speed and largest error of every contender, forward and backward, at one shape; or why there is none."""
    tensors = shape.inputs()
    exact = _exact(shape.causal, *tensors)
    rows: dict[str, dict] = {
        way: {"pass": way, "n": shape.n, "d": shape.d, "causal": shape.causal, "tflops": {}, "error": {}, "failed": {}}
        for way in PASSES
    }
    for name, contender in CONTENDERS.items():
        try:
            for way, call in zip(PASSES, contender(shape.causal, *tensors), strict=True):
                rows[way]["error"][name] = _largest_error(call(), exact[way])
                rows[way]["tflops"][name] = shape.flops(way, tensors[0]) / seconds(call) / 1e12
        except Exception as problem:  # a kernel that doesn't compile, memory that doesn't suffice: the others go on
            rows["forward"]["failed"][name] = f"{type(problem).__name__}: {problem}".splitlines()[0]
    return list(rows.values())


def _largest_error(got: tuple, exact: tuple[Tensor, ...]) -> float:
    """Of the output (a logsumexp beside it is left out), or of the three gradients."""
    return max(float((one.float() - want).abs().max()) for one, want in zip(got, exact, strict=False))


def _exact(causal: bool, *tensors: Tensor) -> dict[str, tuple[Tensor, ...]]:
    """Output and gradients in float32, by the tiled reference in PyTorch."""
    q, k, v, grad = (x.float() for x in tensors)
    out, lse = flash.flash_attention_forward(q, k, v, causal, 1024, 1024)
    return {"forward": (out,), "backward": flash.flash_attention_backward(q, k, v, out, lse, grad, causal, 1024, 1024)}


def _memory(n: int) -> dict:
    """Extra bytes at the peak for a sequence, with the output: of the tuned kernel, forward and backward, and of naive
    attention."""
    q, k, v, grad = (torch.randn(1, 16, n, 64, dtype=DTYPE, device=device()) for _ in range(4))
    forward, backward = CONTENDERS["tuned"](False, q, k, v, grad)
    calls = {"forward": forward, "backward": backward, "naive forward": lambda: torch.softmax(q @ k.mT / 8, dim=-1) @ v}
    return {"n": n, **{name: _extra_bytes(call) for name, call in calls.items()}}


def _extra_bytes(call: Call) -> int | None:
    """How much more memory was held at the peak of a call than before it; None where the GPU has too little."""
    try:
        return peak_bytes(call)
    except torch.OutOfMemoryError:
        return None


# -------------------------------------------------------------------------------------------------------------- showing


def show(found: dict, console: Console) -> None:
    """The tables, and one line each on what they come to."""
    console.print(
        f"{found['device']}, {found['dtype'].removeprefix('torch.')}: a {PRODUCT}² matrix product runs at "
        f"{found['ceiling']:.0f} TFLOP/s"
    )
    for way in PASSES:
        console.print(_speed_table(way, [row for row in found["rows"] if row["pass"] == way], found["ceiling"]))
    console.print(_memory_table(found["memory"]))
    for line in (
        *_in_short(found["rows"]),
        *sorted({f"{name} failed: {why}" for row in found["rows"] for name, why in row["failed"].items()}),
    ):
        console.print(line, markup=False, highlight=False)


def _speed_table(way: str, rows: list[dict], ceiling: float) -> Table:
    table = Table(
        title=f"{way}: TFLOP/s (of the matrix product's, in %)",
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption="last columns: against the better of PyTorch's two",
    )
    for heading in ("d", "causal", "n", *CONTENDERS, *(f"{name}\n×" for name in OURS)):
        table.add_column(heading, justify="right")
    for row in rows:
        speeds = [f"{speed:.0f} ({100 * speed / ceiling:.0f})" if speed else "–" for speed in _all(row["tflops"])]
        ratios = [f"{ratio:.2f}" if ratio else "–" for ratio in (_ratio(row, name) for name in OURS)]
        table.add_row(str(row["d"]), "yes" if row["causal"] else "no", str(row["n"]), *speeds, *ratios)
    return table


def _all(values: dict[str, float]) -> list[float | None]:
    return [values.get(name) for name in CONTENDERS]


def _ratio(row: dict, name: str) -> float | None:
    """Speed of one of ours against the better of theirs."""
    best = max((row["tflops"].get(other, 0) for other in THEIRS), default=0)
    return row["tflops"][name] / best if best and name in row["tflops"] else None


def _memory_table(rows: list[dict]) -> Table:
    names = [name for name in rows[0] if name != "n"]
    table = Table(
        title="extra MB at the peak, one sequence, 16 heads, d = 64 (bytes per token)", box=SIMPLE_HEAD, pad_edge=False
    )
    for heading in ("n", *names):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [
            f"{row[name] / MB:.0f} ({row[name] / row['n']:,.0f})" if row[name] is not None else "–" for name in names
        ]
        table.add_row(str(row["n"]), *cells)
    return table


def _in_short(rows: list[dict]) -> Iterator[str]:
    """How ours compare with theirs over all shapes, in speed and in error."""
    for way in PASSES:
        for name in OURS:
            ratios = sorted(filter(None, (_ratio(row, name) for row in rows if row["pass"] == way)))
            if ratios:
                middle = ratios[len(ratios) // 2]
                yield (
                    f"{way}, {name}: {ratios[0]:.2f} to {ratios[-1]:.2f} times the better of PyTorch's two, "
                    f"{middle:.2f} in the middle"
                )
        errors = {
            name: max((row["error"][name] for row in rows if row["pass"] == way and name in row["error"]), default=None)
            for name in CONTENDERS
        }
        yield f"{way}, largest error: " + ", ".join(
            f"{name} {error:.1e}" for name, error in errors.items() if error is not None
        )
