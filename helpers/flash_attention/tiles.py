"""How the attention kernels are cut up: tile sizes, warps and pipeline stages for every kind of GPU.

For heads 64 and 128 wide none of these spills registers, and all fit the shared memory of their GPU: compiled for
sm_75, 80, 89 and 90 with Triton 3.6 and 3.7.1, whose register allocation differs.
(tests/units/test_flash_attention_triton.py compiles them with the version that is installed. Where Triton 3.6 spilled,
the tiles of "keys" and "queries" were made smaller; these smaller ones have not been timed.) What decides: 32 rows of
queries a warp where registers last (a tile of keys that was fetched is then used twice as often), all registers on
Hopper (two warp groups of 64 rows), small tiles on Turing, whose tensor cores Triton no longer uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.kernels import UNAVAILABLE, interpreted


@dataclass(frozen=True)
class Tiles:
    """Rows of a tile of queries and of one of keys, warps of a program, tiles of which one is loaded while another is
    in use, and whether the tiles that need no mask get a loop of their own."""

    block_q: int
    block_k: int
    warps: int = 4
    stages: int = 1
    split: bool = False

    def options(self) -> dict:
        """What a launch is told."""
        return {
            "BLOCK_Q": self.block_q,
            "BLOCK_K": self.block_k,
            "SPLIT": self.split,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }


# Kernel → the architecture from which on it holds → for heads up to 64 wide, for wider ones. For float16 and bfloat16.
# "keys" makes dK and dV, "queries" makes dQ.
TEACHING = {
    "forward": {
        75: (Tiles(32, 32), Tiles(32, 32, 8)),
        80: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 2)),
        86: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 2)),
        90: (Tiles(128, 64, 8, 3), Tiles(128, 64, 8, 3)),
    },
    "keys": {
        75: (Tiles(32, 32, 8), Tiles(16, 16, 8)),
        80: (Tiles(32, 64, 4, 2), Tiles(64, 64, 8, 2)),
        86: (Tiles(32, 64, 4, 2), Tiles(64, 64, 8, 2)),
        90: (Tiles(64, 64, 4, 2), Tiles(64, 64, 8, 2)),
    },
    "queries": {
        75: (Tiles(32, 32, 8), Tiles(16, 16, 8)),
        80: (Tiles(64, 64, 4, 2), Tiles(64, 64, 8, 2)),
        86: (Tiles(64, 64, 4, 2), Tiles(64, 32, 8, 2)),
        90: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 2)),
    },
}
TUNED = {
    "forward": {
        75: (Tiles(32, 32, 4, 1, True), Tiles(32, 32, 8, 1, True)),
        80: (Tiles(128, 32, 4, 3, True), Tiles(128, 64, 8, 3, True)),
        86: (Tiles(128, 32, 4, 3, True), Tiles(128, 32, 8, 2, True)),
        90: (Tiles(128, 128, 8, 3, True), Tiles(128, 128, 8, 2, True)),
    },
    "keys": {
        75: (Tiles(32, 32, 8), Tiles(16, 16, 8)),
        80: (Tiles(32, 128, 8, 2, True), Tiles(64, 64, 8, 2, True)),
        86: (Tiles(32, 128, 8, 2), Tiles(64, 64, 8, 2, True)),
        90: (Tiles(64, 128, 8, 2, True), Tiles(64, 64, 8, 2, True)),
    },
    "queries": {
        75: (Tiles(32, 32, 8, 1, True), Tiles(16, 16, 8, 1, True)),
        80: (Tiles(128, 32, 8, 3, True), Tiles(128, 32, 8, 2, True)),
        86: (Tiles(128, 32, 8, 3, True), Tiles(64, 32, 8, 2, True)),
        90: (Tiles(128, 64, 8, 2, True), Tiles(128, 64, 8, 2, True)),
    },
}

# For float32, which no tensor core multiplies exactly: everywhere the same.
EXACT = {
    "forward": (Tiles(32, 32, 8), Tiles(32, 16, 8)),
    "keys": (Tiles(16, 16, 8),) * 2,
    "queries": (Tiles(16, 16, 8),) * 2,
}

INTERPRETED = {
    False: Tiles(64, 64),
    True: Tiles(64, 32, split=True),
}  # few tiles: each costs the interpreter milliseconds


def tiles_for(kernel: str, q: Tensor, table: dict) -> Tiles:
    """The tiles of "forward", "keys" or "queries" for heads like q's, from TEACHING or TUNED, on this machine."""
    if interpreted() or UNAVAILABLE:
        return INTERPRETED[table is TUNED]
    major, minor = torch.cuda.get_device_capability(q.device)
    return choose(kernel, 10 * major + minor, q.shape[-1], q.element_size(), table)


def choose(kernel: str, capability: int, d: int, itemsize: int, table: dict) -> Tiles:
    """The tiles for a GPU of this compute capability (75 is a T4) and heads of width d."""
    wide = int(d > 64)
    if itemsize == 4:
        return EXACT[kernel][wide]
    if capability // 10 == 12:  # Blackwell at home has the shared memory of 8.9
        capability = 89
    known = [arch for arch in table[kernel] if arch <= capability]
    return table[kernel][max(known, default=75)][wide]
