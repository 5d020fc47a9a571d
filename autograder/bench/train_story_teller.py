"""Train the model that the course ships, and write its weights to helpers/transformer_lm/story_teller.npz.

python -m autograder.bench.train_story_teller                 # two to three minutes of processor time
python -m autograder.bench.train_story_teller --check         # the loss of the weights that are there

To run again when the grammar changes. The file has its own vocabulary: an old one goes on telling old stories."""

import argparse

from tqdm import tqdm

from helpers.transformer_lm import ablations, grammar, story_teller, training
from helpers.transformer_lm.transformer import DecoderLM

STEPS, SEED = 1_200, 0


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
        f"{size / 1000:.0f} kB; loss {loss:.4f} nats per token on new stories, {loss / floor - 1:+.1%} against the "
        f"entropy rate {floor:.4f}"
    )
    return 0


def trained() -> DecoderLM:
    """Unit 05's model and stories, trained some minutes longer than there."""
    with tqdm(total=STEPS) as bar:
        model, _ = ablations.trained(SEED, steps=STEPS, watch=lambda *_: bar.update())
    return model


if __name__ == "__main__":
    raise SystemExit(main())
