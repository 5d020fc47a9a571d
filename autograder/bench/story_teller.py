"""Train the model that the course ships, and write its weights to helpers/transformer_lm/story_teller.npz.

python -m autograder.bench.story_teller                 # about two minutes of processor time
python -m autograder.bench.story_teller --check         # the loss of the weights that are there, against the grammar's entropy rate

To run again when the grammar changes. The file has its own vocabulary: an old one goes on telling old stories.
"""

import argparse

import torch
from tqdm import tqdm

from helpers.transformer_lm import grammar, story_teller, training
from helpers.transformer_lm.transformer import Config, DecoderLM

SIZES = Config(vocabulary=len(grammar.VOCABULARY), d=64, h=4, h_kv=4, layers=2)
STEPS, WARM_UP, PEAK, STORIES, SEED = 2_500, 50, 6e-3, 32, 0


def main() -> int:
    """Trains and writes, or looks at what is there; prints the loss on stories that training has not seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="train nothing")
    if not parser.parse_args().check:
        story_teller.save(trained(), grammar.VOCABULARY)
    model, vocabulary = story_teller.story_teller()
    if vocabulary != grammar.VOCABULARY:
        print("These weights were trained on another grammar: its loss can't be compared.")
        return 1
    loss, floor = training.held_out_loss(model), grammar.entropy_per_token()
    size = story_teller.WEIGHTS.stat().st_size
    print(
        f"{size / 1000:.0f} kB; loss {loss:.4f} nats per token on new stories, {loss / floor - 1:+.1%} against the entropy rate {floor:.4f}"
    )
    return 0


def trained() -> DecoderLM:
    """Unit 05's model after some minutes with unit 05's stories."""
    torch.manual_seed(SEED)
    model = DecoderLM(SIZES)
    rates = [training.learning_rate(step, STEPS, WARM_UP, PEAK, PEAK / 30) for step in range(STEPS)]
    with tqdm(total=STEPS) as bar:
        training.train(training.stories(STORIES, SEED), rates, model=model, watch=lambda *_: bar.update())
    return model


if __name__ == "__main__":
    raise SystemExit(main())
