"""How quickly a notebook starts: `python -m autograder.bench.import_time [TIMES]`.

The import of the course, as every first cell has it, against that of torch alone. Each is a fresh process, the two take
turns, and only the import itself is timed, inside the process."""

import statistics
import subprocess
import sys

WAYS = {"torch": "import torch", "the course": "import torch; from helpers import check, plots, setup"}
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def seconds(statement: str) -> float:
    """How long a fresh Python takes over a statement."""
    done = subprocess.run([sys.executable, "-c", TIMED.format(statement)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(times + 1):  # the first of each fills the caches of the file system
        for name, statement in WAYS.items():
            found[name].append(seconds(statement))
    medians = {name: statistics.median(took[1:]) for name, took in found.items()}
    for name, median in medians.items():
        print(f"{name}: {median:.2f} s")
    print(f"import ratio: {medians['the course'] / medians['torch']:.2f}")


if __name__ == "__main__":
    main()
