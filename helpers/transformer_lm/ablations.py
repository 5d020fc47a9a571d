"""The same model with one thing taken out: what attention, positions and residual connections are each good for. And
the student's own in its place, where that one is right."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor, nn

from . import grammar
from .training import learning_rate, stories, train
from .transformer import Config, DecoderLM

STORIES = Config(vocabulary=len(grammar.VOCABULARY), d=64, h=4, h_kv=4, layers=4)
STEPS, WARM_UP, PEAK, SIZE = 600, 50, 3e-3, 32  # what the notebook takes
WITHOUT = ("attention", "positions", "residuals")


class Silent(nn.Module):
    """Stands for attention, and adds nothing."""

    def forward(self, x: Tensor, *_) -> Tensor:
        return torch.zeros_like(x)


class Unconnected(nn.Module):
    """A block whose layers replace the stream instead of adding to it."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *where) -> Tensor:
        x = self.block.attention(self.block.norm_1(x), *where)
        return self.block.mlp(self.block.norm_2(x))


def story_model(seed: int, without: str = "") -> DecoderLM:
    """A new model for the stories, whole or without one of its parts."""
    torch.manual_seed(seed)
    model = DecoderLM(STORIES)
    for index, block in enumerate(model.blocks):
        match without:
            case "attention":
                block.attention = Silent()
            case "positions":
                block.attention.rotary = False
            case "residuals":
                model.blocks[index] = Unconnected(block)
    return model


def rates(steps: int = STEPS, warm_up: int = WARM_UP, peak: float = PEAK) -> list[float]:
    """The learning rate of every step."""
    return [learning_rate(step, steps, warm_up, peak, peak / 10) for step in range(steps)]


def own_rates(rate: Callable, steps: int = STEPS) -> list[float] | None:
    """The student's `rate` of every step, if it is right."""
    wanted = rates(steps)
    try:
        found = [float(rate(step, steps, WARM_UP, PEAK, PEAK / 10)) for step in range(steps)]
    except Exception:  # not written, or not right yet
        return None
    return found if all(map(math.isclose, found, wanted)) else None


def own_model(make: Callable, rotate: Callable, course: DecoderLM, tokens: Int[Tensor, "b n"]) -> nn.Module | None:
    """The student's model with the weights of the course's, if it then says what that one says, and learns."""
    sizes = course.config
    try:
        model = make(sizes.vocabulary, sizes.d, sizes.h, sizes.layers, rotate).to(tokens.device)
        model.load_state_dict(course.state_dict(), strict=False)
        logits = model.eval()(tokens)
        torch.autograd.grad(logits.logsumexp(-1).sum(), list(model.parameters()))
        same = torch.allclose(logits, course(tokens), rtol=1e-3, atol=1e-3)
    except Exception:  # not written, or not right yet
        return None
    return model.train() if same else None


def trained(seed: int, without: str = "", steps: int = STEPS, watch=None) -> tuple[DecoderLM, list[float]]:
    """A model for the stories, trained from this seed, and the loss of every step."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = story_model(seed, without).to(device)
    losses = train(stories(SIZE, seed, device), rates(steps), model=model, watch=watch)
    return model, losses
