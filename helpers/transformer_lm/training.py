"""Training a language model: the loss, the learning rate over time, what decays, and the loop."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from . import grammar

IGNORED = grammar.IGNORED


def next_token_loss(
    logits: Float[Tensor, "b n v"], tokens: Int[Tensor, "b n"], lengths: Int[Tensor, "b"]
) -> Float[Tensor, ""]:
    """The mean of −log p(token i + 1 | tokens 0 … i) over all pairs of real tokens; row r has lengths[r] of them, then
    padding."""
    targets = tokens[:, 1:]
    real = torch.arange(1, tokens.shape[1], device=tokens.device) < lengths[:, None]
    log_p = logits[:, :-1].log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0]
    return -log_p[real].mean()


def learning_rate(step: int, steps: int, warm_up: int, peak: float, floor: float) -> float:
    """The rate of step 0 … steps − 1: peak · (step + 1) / warm_up at first; then half a cosine from peak down towards
    floor (warm-up: Vaswani et al., 2017, section 5.3; cosine: Loshchilov & Hutter, 2017, equation 5)."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    progress = (step - warm_up) / (steps - warm_up)
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def small_model() -> nn.Module:
    """What the check of `train` trains: an embedding, a norm and a head, in float64, the same at every call."""
    generator = torch.Generator().manual_seed(5)
    model = nn.Sequential(nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 11)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Matrices decay; norms' weights and all biases, which are vectors, don't."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def train(
    batches: Iterable[tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]],
    rates: Sequence[float],
    weight_decay: float = 0.1,
    clip: float = 1.0,
    model: nn.Module | None = None,
    watch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """One step of AdamW (Loshchilov & Hutter, 2019, algorithm 2) for each rate, on a batch of inputs and targets (−100:
    no target) each.

    Gradients longer than `clip` are shortened to it (Pascanu et al., 2013, algorithm 1). Returns the loss of every
    step, before it is taken; `watch(step, loss)` is told too. Without a model it trains `small_model()`.
    """
    model = small_model() if model is None else model
    optimiser = torch.optim.AdamW(parameter_groups(model, weight_decay), betas=(0.9, 0.95))
    losses = []
    for step, (rate, (inputs, targets)) in enumerate(zip(rates, batches)):
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        losses.append(loss.item())
        if watch:
            watch(step, losses[-1])
    return losses


def stories(size: int, seed: int, device: str | torch.device = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of new stories without end: inputs and targets (size, n)."""
    chance = random.Random(seed)
    while True:
        inputs, targets = grammar.batch(size, chance)
        yield inputs.to(device), targets.to(device)


@torch.no_grad()
def held_out_by_kind(model: nn.Module, count: int = 2_000, seed: int = 10_000) -> dict[str, tuple[float, float]]:
    """As `grammar.expected_by_kind`, measured: a story's loss in nats and its number of tokens at each kind of place,
    over `count` stories of another seed than training's (a multiple of 100)."""
    device = next(model.parameters()).device
    found = {kind: [0.0, 0] for kind in grammar.expected_by_kind()}
    for inputs, targets in islice(stories(100, seed, device), count // 100):
        losses = F.cross_entropy(model(inputs).mT, targets, reduction="none")
        for row, own in zip(targets.tolist(), losses.tolist()):
            for kind, loss in zip(grammar.kinds(grammar.words(row[: row.index(grammar.END)])), own):
                found[kind][0] += loss
                found[kind][1] += 1
    return {kind: (nats / count, tokens / count) for kind, (nats, tokens) in found.items()}


def held_out_loss(model: nn.Module) -> float:
    """The mean loss per token, in nats, over 2,000 stories of another seed than training's."""
    return mean_loss(held_out_by_kind(model))


def mean_loss(by_kind: dict[str, tuple[float, float]]) -> float:
    """Per token, of a story's nats and tokens at each kind of place."""
    nats, tokens = zip(*by_kind.values())
    return sum(nats) / sum(tokens)


def losses_by_kind(measured: dict[str, dict[str, tuple[float, float]]]) -> str:
    """A table: each kind of place, its share of all tokens, its floor and the loss of each model there, in nats per
    token of that kind."""
    floor = grammar.expected_by_kind()
    columns = {"floor": floor, **measured}
    lines = ["New stories, nats per token    tokens" + "".join(f"{name:>19}" for name in columns)]
    tokens = sum(count for _, count in floor.values())
    for kind, (_, count) in floor.items():
        losses = (nats / count for nats, count in (column[kind] for column in columns.values()))
        lines.append(f"{kind:30}{count / tokens:7.0%}" + "".join(f"{loss:19.3f}" for loss in losses))
    means = [mean_loss(column) for column in columns.values()]
    lines.append(f"{'all':30}{1:7.0%}" + "".join(f"{mean:19.3f}" for mean in means))
    above = "".join(f"{mean / means[0] - 1:+19.1%}" for mean in means[1:])
    return "\n".join([*lines, f"{'all, above the floor':56}" + above])
