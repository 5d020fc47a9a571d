"""Do units 05 and 06 learn what their texts say? Language models near the entropy of their grammar, what their parts matter, and reversal.

python -m autograder.bench.train_lm                             # three seeds, three ablations, three reversals: 6 runs of about 90 s of processor time, and 06's
python -m autograder.bench.train_lm --seeds 3 --without --reversals 0     # one whole model, nothing else
python -m autograder.bench.train_lm --steps 100                 # a quick look
"""

import argparse
import time

from tqdm import tqdm

from autograder.bench import train_reversal
from helpers.transformer_lm import ablations, grammar, training

WITHIN = 0.03


def main() -> int:
    """Trains and prints. The exit status is 0 if every whole model came within 3 % of the entropy rate, and every reversal is at least
    99 % exact."""
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
    floor = grammar.entropy_per_token()
    print(f"entropy rate {floor:.4f} nats per token; {settings.steps} steps of {ablations.SIZE} stories", flush=True)
    gaps = [_train(seed, "", settings.steps, floor) for seed in settings.seeds]
    for without in settings.without:
        _train(0, without, settings.steps, floor)
    too_high = max(gaps, default=0.0) > WITHIN
    unlearned = train_reversal.main(settings.reversals) if settings.reversals else 0
    return int(too_high or unlearned)


def _train(seed: int, without: str, steps: int, floor: float) -> float:
    """Trains and prints one row; returns how far the held-out loss lies above the floor, as a fraction of it."""
    started, cpu = time.perf_counter(), time.process_time()
    name = f"without {without}" if without else "whole"
    with tqdm(total=steps, desc=f"{name}, seed {seed}", leave=False) as bar:
        model, _ = ablations.trained(seed, without, steps, watch=lambda *_: bar.update())
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    loss = training.held_out_loss(model)
    print(f"{name:18} seed {seed}  held-out loss {loss:.4f}  {loss / floor - 1:+7.1%}  {seconds:4.0f} s ({cpu:.0f} s of processor)",
          flush=True)  # fmt: skip
    return loss / floor - 1


if __name__ == "__main__":
    raise SystemExit(main())
