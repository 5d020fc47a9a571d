"""The check of `DecoderLM`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped, StudentError, call
from helpers.engine.observe import observe
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import transformer as reference
from ..positions import rotary_embedding

__all__ = ["DecoderLM"]

STRIDE = 2  # positions count by two here: who turns by a function of their own, and not by `rotate`, is seen


def drive_lm(
    cls: Callable, sizes: tuple[int, ...], weights: dict[str, Tensor], tokens: Tensor
) -> tuple[Tensor, int, str, Message]:
    """The logits of a model with these weights, how many numbers it would train, where its embedding begins, and
    whether both its uses train it, and gradients come back through a block."""
    model = call(cls, *sizes, lambda x, positions: rotary_embedding(x, STRIDE * positions))
    wide = weights["embedding.weight"].dtype == torch.float64
    if wide:
        call(model.double)
    names = dict(call(model.state_dict))
    if missing := [name for name in weights if name not in names]:
        norm = " Its norms are LayerNorms, with a weight and a bias." if "norm" in missing[0] else ""
        message = f"the model has no parameter {missing[0]!r}.{norm} Those it has: {', '.join(sorted(names))}."
        raise Stopped(StudentError("KeyError", message))
    call(model.load_state_dict, weights | _other_heads(model, weights), False)
    call(model.eval)
    logits = call(model, tokens)
    trained = sum(parameter.numel() for parameter in list(call(model.parameters)) if parameter.requires_grad)
    stopped = _way_back(model, sizes[1]) if wide else None
    return logits, trained, _begins(names), stopped or _trained_sides(cls, model, tokens)


def _begins(weights: dict[str, Tensor]) -> str:
    """Whether a new model's table has a row that is no word's: `padding_idx` starts it at 0, and keeps it from being
    trained."""
    empty = [row for row, numbers in enumerate(weights["embedding.weight"]) if not numbers.any()]
    return f"row {empty[0]} of a new embedding is all zeros" if empty else "every row of a new embedding is a word's"


def _way_back(model, d: int) -> Message | None:
    """What stops the way back through the first block, if anything does. (A block that is called in another way isn't
    asked.)"""
    x = torch.linspace(-1, 1, 3 * d, dtype=torch.float64).view(1, 3, d)
    error = observe(call(model.get_submodule, "blocks.0"), (x,), gradient=True, counts=False).backward_error
    return (
        Message(f"the way back through a block stops with an error. {error.kind}: {error.message}") if error else None
    )


def _trained_sides(cls, model, tokens: Tensor) -> Message:
    """Whether the table is trained as input and as head. It alone wants gradients, and the last norm hands none on:
    what comes there comes from the input, and what the logits still have from the head. (A model lives in its student's
    process, and its tensors come here without their graph, but with the word whether they want gradients. So hooks ask
    for that, and no gradient is computed.)"""
    wants = {"as the input": True, "as the head": True}

    def note(side):
        def hook(_, inputs, output):
            wants[side] = getattr(output, "requires_grad", True)
            return output.detach() if side == "as the input" else None

        return hook

    call(model.requires_grad_, False)
    call(cls.requires_grad_, call(model.get_submodule, "embedding"), True)
    call(cls.register_forward_hook, call(model.get_submodule, "norm"), note("as the input"))
    call(model.register_forward_hook, note("as the head"))
    call(model, tokens)
    cut = " nor ".join(side for side, wanted in wants.items() if not wanted)
    return Message(
        f"no gradient reaches the table {cut}, so training can't move it from there" if cut else "all is trained"
    )


def _other_heads(model, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights and biases for an output head of its own, if there is one: the same ones every time, and not those of the
    embedding."""
    call(model.load_state_dict, weights, False)
    embedding = weights["embedding.weight"]
    return {
        name: torch.linspace(-1, 1, value.numel(), dtype=embedding.dtype).view(value.shape)
        for name, value in dict(call(model.state_dict)).items()
        if name not in weights
        and value.shape in (embedding.shape, embedding.shape[:1])
        and not torch.equal(value, embedding)
    }


def random_model(label: str, v: int, d: int, h: int, layers: int, b: int, n: int, dtype=torch.float32) -> Case:
    def weights(generator: Generator) -> dict[str, Tensor]:
        with torch.device("meta"):
            shapes = reference.DecoderLM(reference.Config(v, d, h, h, layers)).state_dict()
        drawn = {}
        for name, value in shapes.items():
            numbers = torch.randn(value.shape, generator=generator, dtype=dtype)
            drawn[name] = numbers / math.sqrt(d) if value.dim() == 2 else numbers / 2 + name.endswith("weight")
        return drawn

    tokens = RandomArg(lambda generator: torch.randint(v, (b, n), generator=generator))
    return explicit_case(label, (v, d, h, layers), RandomArg(weights), tokens)


class _Reference(reference.DecoderLM):
    def __init__(self, vocabulary: int, d: int, h: int, layers: int, rotate: Callable):
        super().__init__(reference.Config(vocabulary, d, h, h, layers))
        for block in self.blocks:  # which turns by itself
            block.register_forward_pre_hook(lambda _, inputs: (inputs[0], STRIDE * inputs[1], *inputs[2:]))


class _Attention(nn.Module):
    """The notebook's: causal, with turned queries and keys."""

    def __init__(self, d, h, rotate):
        super().__init__()
        self.h, self.rotate = h, rotate
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        where = torch.arange(x.shape[1])
        scores = self.rotate(q, where) @ self.rotate(k, where).mT / math.sqrt(q.shape[-1])
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))


def pre_norm(block, x):
    x = x + block.attention(block.norm_1(x))
    return x + block.mlp(block.norm_2(x))


def post_norm(block, x):
    x = block.norm_1(x + block.attention(x))
    return block.norm_2(x + block.mlp(x))


def overwriting(block, x):
    x += block.attention(block.norm_1(x))
    x += block.mlp(block.norm_2(x))
    return x


def mlp_first(block, x):
    x = x + block.mlp(block.norm_2(x))
    return x + block.attention(block.norm_1(x))


def norms_swapped(block, x):
    x = x + block.attention(block.norm_2(x))
    return x + block.mlp(block.norm_1(x))


def one_norm(block, x):
    x = x + block.attention(block.norm_1(x))
    return x + block.mlp(block.norm_1(x))


def norm_under_two_names(block):
    block.norm_2 = block.norm_1


def in_order(model, x):
    for block in model.blocks:
        x = block(x)
    return x


def by_the_table(model, x):
    return model.norm(x) @ model.embedding.weight.T


@dataclass(frozen=True)
class Steps:
    """The steps of the model."""

    begun: Callable = lambda model: None  # as soon as it is made
    turned: Callable = lambda rotate: rotate
    stacked: Callable = lambda block, layers: [block() for _ in range(layers)]
    block_begun: Callable = lambda block: None
    block: Callable = pre_norm  # (block, x) → x
    embedded: Callable = lambda model, tokens: model.embedding(tokens)
    scaled: Callable = lambda model, x: x * math.sqrt(model.d)
    through: Callable = in_order  # (model, x) → x behind all blocks
    head: Callable = by_the_table  # (model, x) → logits
    told: Callable = lambda logits: logits


class _Block(nn.Module):
    def __init__(self, steps, d, h, rotate):
        super().__init__()
        self.steps = steps
        self.norm_1, self.attention = nn.LayerNorm(d), _Attention(d, h, rotate)
        self.norm_2, self.mlp = nn.LayerNorm(d), reference.MLP(d)
        steps.block_begun(self)

    def forward(self, x):
        return self.steps.block(self, x)


@composable
def lm(**changed) -> type[nn.Module]:
    """The model with these steps changed."""
    steps = Steps(**changed)

    class LM(nn.Module):
        def __init__(self, vocabulary, d, h, layers, rotate):
            super().__init__()
            self.d, self.embedding = d, nn.Embedding(vocabulary, d)
            self.blocks = nn.ModuleList(steps.stacked(lambda: _Block(steps, d, h, steps.turned(rotate)), layers))
            self.norm = nn.LayerNorm(d)
            steps.begun(self)

        def forward(self, tokens):
            x = steps.scaled(self, steps.embedded(self, tokens))
            return steps.told(steps.head(self, steps.through(self, x)))

    return LM


class OutOfTraining(lm()):
    @torch.no_grad()
    def forward(self, tokens):
        return super().forward(tokens)


def own_head(bias=False, tied=lambda model: None) -> type[nn.Module]:
    """A head with weights of its own, and what ties them to the table."""

    def begun(model):
        model.output = nn.Linear(model.d, len(model.embedding.weight), bias=bias)
        tied(model)

    return lm(begun=begun, head=lambda model, x: model.output(model.norm(x)))


def tied_weight(model):
    model.output.weight = model.embedding.weight


def tied_memory(model):
    model.output.weight.data = model.embedding.weight.data


def table_kept(model):
    model.table = model.embedding.weight.T


def positions_learned(model):
    model.position = nn.Parameter(torch.zeros(64, model.d))


def another_embedding(made):
    def begun(model):
        model.embedding = made(*model.embedding.weight.shape)

    return begun


def one_block_for_all(block, layers):
    return [block()] * layers


def first_block_repeated(model, x):
    for _ in model.blocks:
        x = model.blocks[0](x)
    return x


def reversed_order(model, x):
    for block in reversed(model.blocks):
        x = block(x)
    return x


def residual_around_blocks(model, x):
    for block in model.blocks:
        x = x + block(x)
    return x


def norm_after_every_block(model, x):
    for block in model.blocks[:-1]:
        x = model.norm(block(x))
    return model.blocks[-1](x)


_model = Check(
    exercise="DecoderLM",
    reference=_Reference,
    drive=drive_lm,
    names=("logits: sequences tokens words", "the number of trained numbers", "the table", "the way back"),
    counts=False,
    cases=[
        random_model("2 layers, 2 heads, d = 8, b = 3, n = 5", 11, 8, 2, 2, 3, 5),
        random_model("3 layers, 3 heads, d = 12, b = 2, n = 7", 10, 12, 3, 3, 2, 7),
        random_model("1 layer, 1 head, d = 6, b = 1, n = 4", 9, 6, 1, 1, 1, 4),
        random_model("1 layer, 2 heads, d = 4, b = 2, n = 3, in float64", 7, 4, 2, 1, 2, 3, dtype=torch.float64),
    ],
    within={torch.float32: (1e-3, 1e-4)},
    misconceptions=wrong_answers(
        __file__,
        untied_head=own_head(),
        untied_head_with_bias=own_head(bias=True),
        tied_head_with_bias=own_head(bias=True, tied=tied_weight),
        two_parameters=own_head(tied=tied_memory),
        table_kept=Wrong(
            lm(begun=table_kept, head=lambda model, x: model.norm(x) @ model.table), raises="RuntimeError"
        ),
        head_out_of_training=lm(head=lambda model, x: model.norm(x) @ model.embedding.weight.data.T),
        input_out_of_training=lm(scaled=lambda model, x: (x * math.sqrt(model.d)).detach()),
        out_of_training=OutOfTraining,
        no_last_norm=lm(head=lambda model, x: x @ model.embedding.weight.T),
        norm_before_the_blocks=lm(
            scaled=lambda model, x: model.norm(x * math.sqrt(model.d)),
            head=lambda model, x: x @ model.embedding.weight.T,
        ),
        unscaled=lm(scaled=lambda model, x: x),
        times_d=lm(scaled=lambda model, x: x * model.d),
        times_half_of_d=lm(scaled=lambda model, x: x * model.d / 2),
        root_rounded_down=lm(scaled=lambda model, x: x * math.isqrt(model.d)),
        root_of_a_heads_width=lm(scaled=lambda model, x: x * math.sqrt(model.d / model.blocks[0].attention.h)),
        root_of_the_vocabulary=lm(scaled=lambda model, x: x * math.sqrt(len(model.embedding.weight))),
        divided_by_root=lm(scaled=lambda model, x: x / math.sqrt(model.d)),
        head_scaled=lm(head=lambda model, x: by_the_table(model, x) * math.sqrt(model.d)),
        head_divided=lm(head=lambda model, x: by_the_table(model, x) / math.sqrt(model.d)),
        probabilities=lm(told=lambda logits: logits.softmax(dim=-1)),
        log_probabilities=lm(told=lambda logits: logits.log_softmax(dim=-1)),
        last_position_only=lm(told=lambda logits: logits[:, -1]),
        squeezed=lm(told=lambda logits: logits.squeeze()),
        one_block_for_all=lm(stacked=one_block_for_all),
        first_block_repeated=lm(through=first_block_repeated),
        one_block_only=lm(through=lambda model, x: model.blocks[-1](x)),
        reversed_order=lm(through=reversed_order),
        residual_around_blocks=lm(through=residual_around_blocks),
        norm_after_every_block=lm(through=norm_after_every_block),
        norm_twice=lm(through=lambda model, x: model.norm(in_order(model, x))),
        padding_index=Wrong(
            lm(begun=another_embedding(lambda v, d: nn.Embedding(v, d, padding_idx=0))),
            recognise=lambda seen: "all zeros" in seen.output[2],
        ),
        max_norm=lm(begun=another_embedding(lambda v, d: nn.Embedding(v, d, max_norm=1.0))),
        frozen=lm(begun=another_embedding(lambda v, d: nn.Embedding.from_pretrained(torch.randn(v, d)))),
        rotate_not_used=lm(turned=lambda rotate: rotary_embedding),
        learned_positions_too=lm(
            begun=positions_learned, scaled=lambda model, x: x * math.sqrt(model.d) + model.position[: x.shape[1]]
        ),
        post_norm=lm(block=post_norm),
        overwriting=lm(block=overwriting),
        no_residuals=lm(block=lambda block, x: block.mlp(block.norm_2(block.attention(block.norm_1(x))))),
        norm_under_two_names=lm(block_begun=norm_under_two_names),
        mlp_first=lm(block=mlp_first),
        side_by_side=lm(block=lambda block, x: x + block.attention(block.norm_1(x)) + block.mlp(block.norm_2(x))),
        norms_swapped=lm(block=norms_swapped),
        no_mlp=lm(block=lambda block, x: x + block.attention(block.norm_1(x))),
        one_norm=lm(block=one_norm),
    ),
)


@dataclass(frozen=True)
class Parts:
    """Of the number of parameters. In a block, in d²: attention and mlp; in d: biases, and the norms times their
    gains."""

    head: int = 0
    norms: int = 2
    gains: int = 2
    final: int = 1
    mlp: int = 8
    attention: int = 4
    biases: int = 9


@composable
def size(**changed) -> Callable:
    """The formula with these parts changed."""
    parts = Parts(**changed)

    def answer(v, d, layers, context, bias):
        block = (parts.attention + parts.mlp) * d * d + parts.norms * parts.gains * d + bias * parts.biases * d
        return v * d * (1 + parts.head) + context * d + layers * block + parts.final * parts.gains * d

    return answer


_parameters = Check(
    reference=reference.lm_parameters,
    cases=[
        explicit_case("v = 11, d = 8, 3 layers", 11, 8, 3, 0, False),
        explicit_case("v = 50, d = 6, 2 layers, biases", 50, 6, 2, 0, True),
        explicit_case("v = 29, d = 10, 4 layers, 17 learned positions", 29, 10, 4, 17, False),
        explicit_case("GPT-2 small", 50_257, 768, 12, 1024, True),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        own_head=size(head=1),
        one_norm_a_block=size(norms=1),
        norms_without_biases=size(gains=1),
        no_norm_at_the_end=size(final=0),
        mlp_of_width_d=size(mlp=2, biases=6),
        no_output_projection=size(attention=3, biases=8),
        no_biases_in_attention=size(biases=5),
        no_biases_in_mlp=size(biases=4),
        a_bias_too_few=size(biases=8),
        mlp_biases_of_size_d=size(biases=6),
        mlp_biases_of_size_4d=size(biases=12),
        norms_biased_by_choice=lambda v, d, layers, context, bias: size(gains=1 + bias)(v, d, layers, context, bias),
        biased_head=lambda v, d, layers, context, bias: size()(v, d, layers, context, bias) + bias * v,
        no_positions=lambda v, d, layers, context, bias: size()(v, d, layers, 0, bias),
        positions_by_choice=lambda v, d, layers, context, bias: size()(v, d, layers, context if bias else 0, bias),
        one_layer=lambda v, d, layers, context, bias: size()(v, d, 1, context, bias),
        biases_always=lambda v, d, layers, context, bias: size()(v, d, layers, context, True),
    ),
)

DecoderLM = CheckGroup("DecoderLM", _model, _parameters)
