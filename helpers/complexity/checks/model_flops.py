"""model_flops: FLOPs of one training step of a decoder LM."""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import costs

__all__ = ["model_flops"]


@dataclass(frozen=True)
class Sizes:
    b: int
    n: int
    layers: int
    d: int
    d_ff: int
    vocabulary: int


@dataclass(frozen=True)
class Step:
    """How often something counts; and what is added to the weights, and to all FLOPs."""

    passes: Callable = lambda s: 3
    attention: Callable = lambda s: 1.0
    mixing: Callable = lambda s: 4 * s.b * s.n * s.n * s.d * s.layers
    tables: Callable = lambda s: 1
    projections: Callable = lambda s: 4
    ffn: Callable = lambda s: 2 * s.d_ff
    weights_more: Callable = lambda s: 0
    more: Callable = lambda s: 0


@composable
def step(**changed: Callable) -> Callable:
    knobs = Step(**changed)

    def flops(*sizes):
        s = Sizes(*sizes)
        weights = s.layers * (knobs.projections(s) * s.d * s.d + s.d * knobs.ffn(s)) + knobs.weights_more(s)
        weights += knobs.tables(s) * s.vocabulary * s.d
        return int(knobs.passes(s) * (2 * weights * s.b * s.n + knobs.attention(s) * knobs.mixing(s))) + knobs.more(s)

    return flops


model_flops = Check(
    reference=costs.model_flops,
    cases=[
        random_case("2 layers, d = 32", b=2, n=17, layers=2, d=32, d_ff=128, vocabulary=50),
        random_case("5 layers, a long context", b=1, n=300, layers=5, d=16, d_ff=40, vocabulary=70),
        random_case("GPT-2 small, 1024 tokens", b=4, n=1024, layers=12, d=768, d_ff=3072, vocabulary=50257),
        random_case("large: 12 digits count", b=3001, n=100_003, layers=97, d=12_289, d_ff=49_157, vocabulary=200_003),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        forward_only=step(passes=lambda s: 1),
        two_passes=step(passes=lambda s: 2),
        no_attention=step(attention=lambda s: 0),
        attention_forward_only=step(attention=lambda s: 1 / 3),
        attention_twice=step(attention=lambda s: 2 / 3),
        attention_of_one_layer=step(mixing=lambda s: 4 * s.b * s.n * s.n * s.d),
        half_of_attention=step(attention=lambda s: 0.5),
        embedding_too=step(tables=lambda s: 2),
        no_head=step(tables=lambda s: 0),
        head_in_every_layer=step(tables=lambda s: s.layers),
        norms_too=step(weights_more=lambda s: s.layers * 4 * s.d + 2 * s.d),
        biases=step(weights_more=lambda s: 4 * s.layers * s.n * s.d),
        three_projections=step(projections=lambda s: 3),
        usual_ffn=step(ffn=lambda s: 8 * s.d),
        ffn_of_one_product=step(ffn=lambda s: s.d_ff),
        attention_across_batch=step(attention=lambda s: s.b),
        attention_of_one_sequence=step(attention=lambda s: 1 / s.b),
        head_of_last_token=step(tables=lambda s: 0, more=lambda s: 6 * s.b * s.d * s.vocabulary),
        last_token_without_head=step(more=lambda s: -6 * s.b * s.d * s.vocabulary),
        visible_pairs=step(attention=lambda s: 0, more=lambda s: 12 * s.layers * (s.b * s.n * (s.n + 1) // 2) * s.d),
        no_first_gradient=step(more=lambda s: -6 * s.b * s.n * s.d * s.d),
        multiply_adds=lambda *sizes: step()(*sizes) // 2,
    ),
)
