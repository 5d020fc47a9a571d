"""Train the model that writes like the course, and write its weights to helpers/transformer_lm/course_writer.npz.

python -m autograder.bench.train_course_writer                 # three to four minutes of processor time
python -m autograder.bench.train_course_writer --check         # the weights that are there

To run again after `python -m autograder.bench.course_text`.
One thread: two would wait for each other on a busy machine."""

import argparse

import torch
from tqdm import tqdm

from helpers.transformer_lm import course_writer, story_teller
from helpers.transformer_lm.ablations import rates
from helpers.transformer_lm.training import train
from helpers.transformer_lm.transformer import DecoderLM

PROMPT = "\nAttention is"


def main() -> int:
    """Trains and writes, or looks at what is there; prints bits per character and a sample."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="train nothing")
    if not parser.parse_args().check:
        torch.set_num_threads(1)
        story_teller.save(trained(), tuple(course_writer.alphabet()), course_writer.WEIGHTS)
    model, characters = course_writer.course_writer()
    for name, held_out in ("has read", False), ("has not read", True):
        text = course_writer.course_text(held_out)[-20_000:]
        mean, first, within = course_writer.bits(model, characters, text)
        print(f"on text that it {name}: {mean:.3f} bits per character ({first:.2f} first letters, {within:.2f} within)")
    print(f"{course_writer.WEIGHTS.stat().st_size / 1000:.0f} kB")
    torch.manual_seed(course_writer.SEED)
    print(PROMPT + course_writer.sample(model, characters, PROMPT, 300))
    return 0


def trained() -> DecoderLM:
    """From the first weights on."""
    model, steps = course_writer.untrained(), course_writer.STEPS
    with tqdm(total=steps) as bar:

        def watch(step: int, loss: float) -> None:
            bar.update()
            bar.set_postfix_str(f"{loss:.2f} nats", refresh=False)

        train(course_writer.batches(), rates(steps, peak=course_writer.PEAK), model=model, watch=watch)
    return model


if __name__ == "__main__":
    raise SystemExit(main())
