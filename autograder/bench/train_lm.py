"""Does the course's language model come as near to the entropy of its grammar as the text says, and what do its parts matter?

python -m autograder.bench.train_lm                             # five seeds and the three ablations: 8 runs of about 90 s of processor time
python -m autograder.bench.train_lm --seeds 3 --without         # one whole model, no ablation
python -m autograder.bench.train_lm --steps 100                 # a quick look
"""

import argparse
import time

from tqdm import tqdm

from helpers.transformer_lm import ablations, grammar, training

WITHIN = 0.03


def main() -> int:
    """Trains, prints a table, and says by its exit status whether every whole model came within 3 % of the entropy rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=ablations.STEPS)
    parser.add_argument("--seeds", type=int, nargs="*", default=range(5), help="of the whole models")
    parser.add_argument(
        "--without",
        nargs="*",
        choices=ablations.WITHOUT,
        default=ablations.WITHOUT,
        help="which ablations, from seed 0",
    )
    settings = parser.parse_args()
    floor = grammar.entropy_per_token()
    print(f"entropy rate {floor:.4f} nats per token; {settings.steps} steps of {ablations.SIZE} stories", flush=True)
    gaps = [_train(seed, "", settings.steps, floor) for seed in settings.seeds]
    for without in settings.without:
        _train(0, without, settings.steps, floor)
    return int(max(gaps, default=0.0) > WITHIN)


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
