"""Do units 05 and 06 learn what their texts say? Language models near the entropy of their grammar, what their parts
matter, and reversal.

python -m autograder.bench.train_lm               # three seeds, ablations and reversals: about 9 minutes of a processor
python -m autograder.bench.train_lm --seeds 2 --without --reversals 0     # one whole model alone
python -m autograder.bench.train_lm --steps 100                 # a quick look"""

import argparse
import time

from tqdm import tqdm

from autograder.bench import train_reversal
from helpers.transformer_lm import ablations, grammar, training

WITHIN, ABOVE = 0.03, 0.05


def main() -> int:
    """Trains and prints. The exit status is 0 if every whole model came within 3 % of the entropy rate, every ablation
    ended at least 5 % above it, and every reversal was at least 99 % exact."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=ablations.STEPS)
    parser.add_argument("--seeds", type=int, nargs="*", default=range(3), help="of the whole models")
    parser.add_argument(
        "--without",
        nargs="*",
        choices=ablations.WITHOUT,
        default=ablations.WITHOUT,
        help="which ablations, from seed 0",
    )
    parser.add_argument("--reversals", type=int, default=3, help="how many seeds of unit 06's tasks")
    settings = parser.parse_args()
    print(
        f"entropy rate {grammar.entropy_per_token():.4f} nats per token; {settings.steps} steps of {ablations.SIZE} "
        f"stories",
        flush=True,
    )
    measured = {f"seed {seed}": _train(seed, "", settings.steps) for seed in settings.seeds}
    parts = {f"without {without}": _train(0, without, settings.steps) for without in settings.without}
    print(training.losses_by_kind({**measured, **parts}), flush=True)
    near = all(_above(losses) <= WITHIN for losses in measured.values())
    far = all(_above(losses) >= ABOVE for losses in parts.values())
    return int(not (near and far)) or (train_reversal.main(settings.reversals) if settings.reversals else 0)


def _train(seed: int, without: str, steps: int) -> dict[str, tuple[float, float]]:
    """Trains and prints one row; returns the held-out losses by kind of place."""
    started, cpu = time.perf_counter(), time.process_time()
    name = f"without {without}" if without else "whole"
    with tqdm(total=steps, desc=f"{name}, seed {seed}", leave=False) as bar:
        model, _ = ablations.trained(seed, without, steps, watch=lambda *_: bar.update())
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    losses = training.held_out_by_kind(model)
    print(
        f"{name:18} seed {seed}  {_above(losses):+7.1%} above the floor  {seconds:4.0f} s ({cpu:.0f} s of processor)",
        flush=True,
    )
    return losses


def _above(losses: dict[str, tuple[float, float]]) -> float:
    """How far the mean loss lies above the entropy rate, as a fraction of it."""
    return training.mean_loss(losses) / grammar.entropy_per_token() - 1


if __name__ == "__main__":
    raise SystemExit(main())
