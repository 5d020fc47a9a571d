"""Compile the attention kernels for GPUs that are not here, and show what they use: `python -m
autograder.bench.compile_kernels`.

Triton writes assembly for any target, and the assembler that it brings along says how many registers a thread takes and
how many bytes were spilled to memory for want of them. Exit status 1 if a configuration of
`helpers/flash_attention/tiles.py` spills or does not fit."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ARCHITECTURES = {75: "T4", 80: "A100", 89: "L4", 90: "H100"}
SHARED = {
    75: 64,
    80: 163,
    89: 99,
    90: 227,
}  # KiB that one program may have (CUDA C++ Programming Guide, table of capabilities)
FORMS = ((True, True), (True, False), (False, False))  # causal or not, lengths that are multiples of 16 or not
KERNELS = {"forward": "forward_kernel", "keys": "backward_keys_kernel", "queries": "backward_queries_kernel"}


@dataclass(frozen=True)
class Job:
    """One kernel for one architecture and heads of width d, with the tiles of a table ("teaching", "tuned" or
    "float32").

    even: the lengths are multiples of 16, which Triton makes use of."""

    table: str
    kernel: str
    arch: int
    d: int
    causal: bool
    even: bool


@dataclass(frozen=True)
class Compiled:
    """What a kernel uses: KiB of shared memory of a program, registers of a thread, bytes spilled."""

    job: Job
    options: dict
    shared: float
    registers: int
    spilled: int

    @property
    def good(self) -> bool:
        return self.spilled == 0 and self.shared <= SHARED[self.job.arch]


def jobs(architectures: list[int]) -> Iterator[Job]:
    """All that is chosen in `helpers/flash_attention/tiles.py`, in all FORMS.

    float32 is the same everywhere: one architecture will do.
    """
    for arch in architectures:
        for table in ("teaching", "tuned", *["float32"] * (arch == architectures[0])):
            for kernel in KERNELS:
                for d in (64, 128):
                    for form in FORMS:
                        yield Job(table, kernel, arch, d, *form)


def compiled(job: Job) -> Compiled:
    """Compiles for contiguous, aligned tensors. The process must not interpret kernels (TRITON_INTERPRET=0)."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from helpers.flash_attention import flash_triton, tiles

    itemsize = 4 if job.table == "float32" else 2
    chosen = tiles.choose(
        job.kernel, job.arch, job.d, itemsize, tiles.TUNED if job.table == "tuned" else tiles.TEACHING
    )
    options = chosen.options()
    kernel = getattr(flash_triton, KERNELS[job.kernel])
    constants = {**options, "HEAD_DIM": job.d, "D": job.d, "CAUSAL": job.causal}
    source = ASTSource(kernel, *_arguments(kernel.arg_names, constants, "fp32" if itemsize == 4 else "fp16", job.even))
    launch = {name: options[name] for name in ("num_warps", "num_stages")}
    made = triton.compile(source, target=GPUTarget("cuda", job.arch, 32), options=launch)
    return Compiled(job, options, made.metadata.shared / 1024, *_assembled(made.asm["ptx"], job.arch))


def _arguments(names: list[str], constants: dict, dtype: str, even: bool) -> tuple[dict, dict, dict]:
    """Types, values known at compile time, and attributes, as a launch with aligned, contiguous tensors has them."""
    types: dict = {}
    values: dict = {}
    attributes: dict = {}
    aligned = [["tt.divisibility", 16]]
    for place, name in enumerate(names):
        if name in constants:
            types[name], values[(place,)] = "constexpr", constants[name]
        elif name.endswith("_ptr"):
            types[name], attributes[(place,)] = "*fp32" if name.startswith(("lse", "delta")) else f"*{dtype}", aligned
        elif name.endswith("_strides"):
            types[name], values[place, 3] = ("i32", "i32", "i32", "constexpr"), 1
            attributes |= {(place, axis): aligned for axis in range(3)}
        else:
            types[name] = "fp32" if name == "scale" else "i32"
            if even and name in ("n", "m"):
                attributes[(place,)] = aligned
    return types, values, attributes


def _assembled(ptx: str, arch: int) -> tuple[int, int]:
    """Registers of a thread and bytes spilled, from what the assembler says."""
    from triton import knobs

    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [
            knobs.nvidia.ptxas.path,
            "-v",
            f"--gpu-name=sm_{arch}{'a' * (arch >= 90)}",
            file.name,
            "-o",
            os.devnull,
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spilled = sum(int(number) for number in re.findall(r"(\d+) bytes spill", said))
    return int(re.findall(r"Used (\d+) registers", said)[0]), spilled


def show(found: list[Compiled]) -> None:
    """A table; of the forms of a kernel the one that needs most."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title="What the kernels use (of all forms the one that needs most)", box=SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "tiles",
        "kernel",
        "GPU",
        "d",
        "q × k",
        "warps",
        "stages",
        "split",
        "shared KiB",
        "registers",
        "spilled",
    ):
        table.add_column(heading, justify="left" if heading in ("tiles", "kernel", "GPU") else "right", no_wrap=True)
    for start in range(0, len(found), len(FORMS)):
        forms = found[start : start + len(FORMS)]
        worst = max(forms, key=lambda one: (one.spilled, one.registers))
        job, options = worst.job, worst.options
        style = None if all(one.good for one in forms) else "bold red"
        table.add_row(
            job.table,
            job.kernel,
            f"{ARCHITECTURES[job.arch]} sm_{job.arch}",
            str(job.d),
            f"{options['BLOCK_Q']} × {options['BLOCK_K']}",
            str(options["num_warps"]),
            str(options["num_stages"]),
            "yes" if options["SPLIT"] else "",
            f"{max(one.shared for one in forms):.0f} of {SHARED[job.arch]}",
            str(worst.registers),
            str(worst.spilled),
            style=style,
        )
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="compile_kernels", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--arch", type=int, nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES), help="compute capabilities"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that compile side by side")
    parser.add_argument("--json", type=Path, help="write the numbers to this file as well")
    asked = parser.parse_args()
    os.environ["TRITON_INTERPRET"] = "0"  # before the workers import Triton
    with ProcessPoolExecutor(asked.workers) as pool:
        found = list(pool.map(compiled, jobs(asked.arch)))
    show(found)
    if asked.json:
        asked.json.write_text(
            json.dumps([{**asdict(one), "good": one.good} for one in found], indent=1) + "\n", encoding="utf-8"
        )
    return 0 if all(one.good for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
