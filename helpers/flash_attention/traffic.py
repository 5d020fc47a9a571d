"""What attention moves between the large memory and the chip (Dao et al., 2022): the standard way sends the n × n
matrix over and back twice, the tiled way sends only its inputs, some of them again and again."""

import math

from helpers.measuring.devices import A100, H100, T4

# Bytes of shared memory of one multiprocessor: NVIDIA's CUDA programming guide, compute capabilities 7.5, 8.0 and 9.0.
ON_CHIP = {T4: 64 * 1024, A100: 164 * 1024, H100: 228 * 1024}


def standard_traffic(n: int, d: int, itemsize: int) -> int:
    """Bytes moved for one head: S = QKᵀ is written, read for the softmax, written as P, and read for PV."""
    inputs_and_output = 4 * n * d
    scores_and_weights = 4 * n * n
    return (inputs_and_output + scores_and_weights) * itemsize


def tiled_traffic(n: int, d: int, on_chip: int, itemsize: int) -> int:
    """Bytes moved for one head, when `on_chip` bytes hold four tiles (Q, K, V, O): each tile of queries reads all keys
    and values.

    The output and one logsumexp per row are written once. Raises ValueError where not even one row of each fits.
    """
    rows = on_chip // (4 * d * itemsize)
    if rows == 0:
        raise ValueError(
            f"{on_chip} bytes hold no row of each of four tiles of width {d}: give at least {4 * d * itemsize}."
        )
    query_tiles = math.ceil(n / rows)
    return (2 * n * d + n + query_tiles * 2 * n * d) * itemsize


def attention_flops(n: int, d: int) -> int:
    """FLOPs of the two products of one head: QKᵀ and PV."""
    return 4 * n * n * d
