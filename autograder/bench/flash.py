"""What tiling gains, measured: `python -m autograder.bench.flash [--lengths N …] [--json FILE] [--skip-cpu]`.

On the CPU one thread computes attention the naive way, by PyTorch's own operator (SDPA) and by the tiled reference of
the course. Each runs in a process of its own, so that its peak memory can be told from the system's high-water mark.
Where there is a GPU, bench_flash_gpu measures the kernels there."""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from helpers.flash_attention.flash import flash_attention_forward

HEADS, WIDTH = 4, 64
LENGTHS = (1024, 2048, 4096, 8192, 16384)
MB = 2**20


def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """With all scores in memory at once."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The course's reference, with its own size of tile."""
    return flash_attention_forward(q, k, v)[0]


VARIANTS = {"naive": naive, "SDPA": F.scaled_dot_product_attention, "tiled": tiled}

# -------------------------------------------------------------------------------------- one variant, in its own process


def measure(variant: str, n: int) -> dict[str, float]:
    """Processor seconds (the best of up to three) and the bytes of memory above what was there before, output
    included."""
    torch.set_num_threads(1)
    q, k, v = (torch.randn(1, HEADS, n, WIDTH) for _ in range(3))
    call = VARIANTS[variant]
    call(*(x[:, :, :64] for x in (q, k, v)))  # what a first call loads is no part of the algorithm
    before = _new_high_water_mark()
    times = [_processor_seconds(call, q, k, v)]
    extra = _high_water_mark() - before
    while len(times) < 3 and sum(times) < 3:
        times.append(_processor_seconds(call, q, k, v))
    return {"seconds": min(times), "extra_bytes": extra}


def _processor_seconds(call, *inputs: Tensor) -> float:
    start = time.process_time()
    call(*inputs)
    return time.process_time() - start


def _high_water_mark() -> int:
    """Bytes of memory that this process has held at most."""
    if (status := Path("/proc/self/status")).exists():  # not getrusage: a new process inherits its parent's mark there
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def _new_high_water_mark() -> int:
    """Lets the mark start from what is held now, where the system can do that; what it is then."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # then the mark is that of the start-up, a little higher than what is held
    return _high_water_mark()


def in_own_process(variant: str, n: int) -> dict | None:
    """What `measure` says in a fresh process; None where there is no memory for it."""
    if variant == "naive" and 2 * HEADS * n * n * 4 > 0.9 * _free_memory():
        return None
    command = [sys.executable, "-m", __spec__.name, "--one", variant, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout) if done.returncode == 0 else None


def _free_memory() -> float:
    if not (meminfo := Path("/proc/meminfo")).exists():
        return math.inf
    return next(
        int(line.split()[1]) * 1024 for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable")
    )


# ------------------------------------------------------------------------------------------------------------ the table


def on_cpu(lengths: tuple[int, ...]) -> list[dict]:
    """One row for each length: {"n", "naive", "SDPA", "tiled"}, each a dict of `measure`, or None."""
    jobs = [(n, variant) for n in lengths for variant in VARIANTS]
    rows: dict[int, dict] = {n: {"n": n} for n in lengths}
    for n, variant in track(jobs, "Measuring on the CPU", console=Console(stderr=True), transient=True):
        rows[n][variant] = in_own_process(variant, n)
    return list(rows.values())


def cpu_table(rows: list[dict]) -> Table:
    """Seconds and MB of all three, and how many times SDPA and tiled are faster and smaller than naive."""
    table = Table(
        title=f"Attention on one CPU thread, float32, {HEADS} heads, d = {WIDTH}",
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption="seconds of the processor · extra MB at the peak, output included · × against naive, the higher the "
        "better",
    )
    for heading in (
        "n",
        "naive\ns",
        "\nMB",
        "SDPA\ns",
        "\nMB",
        "×\ntime",
        "×\nmemory",
        "tiled\ns",
        "\nMB",
        "×\ntime",
        "×\nmemory",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [str(row["n"]), *_measured(row["naive"])]
        for variant in ("SDPA", "tiled"):
            cells += [*_measured(row[variant]), *_ratios(row["naive"], row[variant])]
        table.add_row(*cells)
    return table


def _measured(found: dict | None) -> tuple[str, str]:
    return (f"{found['seconds']:.2f}", f"{found['extra_bytes'] / MB:.0f}") if found else ("–", "–")


def _ratios(naive: dict | None, found: dict | None) -> tuple[str, str]:
    if not (naive and found):
        return "–", "–"
    return f"{naive['seconds'] / found['seconds']:.1f}", f"{naive['extra_bytes'] / found['extra_bytes']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_flash", description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="sequence lengths n")
    parser.add_argument("--json", type=Path, help="write the numbers to this file as well")
    parser.add_argument("--skip-cpu", action="store_true", help="measure on the GPU only")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one[0], int(asked.one[1]))))
        return
    console, found = (
        Console(),
        {"torch": torch.__version__, "python": platform.python_version(), "cpu": None, "gpu": None},
    )
    if not asked.skip_cpu:
        found["cpu"] = on_cpu(tuple(asked.lengths))
        console.print(cpu_table(found["cpu"]))
    if torch.cuda.is_available():
        from autograder.bench import flash_gpu as bench_flash_gpu

        found["gpu"] = bench_flash_gpu.measure(tuple(asked.lengths))
        bench_flash_gpu.show(found["gpu"], console)
    else:
        console.print("No GPU here: the kernels' TFLOP/s were left out. On a machine with one: make bench-flash")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
