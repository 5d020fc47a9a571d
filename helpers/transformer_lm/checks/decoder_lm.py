"""The check of `DecoderLM`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped, StudentError, call
from helpers.engine.observe import observe
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import transformer as reference
from ..positions import rotary_embedding

__all__ = ["DecoderLM"]

STRIDE = 2  # positions count by two here: who turns by a function of their own, and not by `rotate`, is seen


def drive_lm(
    cls: Callable, sizes: tuple[int, ...], weights: dict[str, Tensor], tokens: Tensor
) -> tuple[Tensor, int, str, Message]:
    """The logits of a model with these weights, how many numbers it would train, where its embedding begins, and whether both its uses
    train it, and gradients come back through a block."""
    model = call(cls, *sizes, lambda x, positions: rotary_embedding(x, STRIDE * positions))
    wide = weights["embedding.weight"].dtype == torch.float64
    if wide:
        call(model.double)
    names = dict(call(model.state_dict))
    if missing := [name for name in weights if name not in names]:
        message = f"the model has no parameter {missing[0]!r}. Those it has: {', '.join(sorted(names))}."
        raise Stopped(StudentError("KeyError", message))
    call(model.load_state_dict, weights | _other_heads(model, weights), False)
    call(model.eval)
    logits = call(model, tokens)
    trained = sum(parameter.numel() for parameter in list(call(model.parameters)) if parameter.requires_grad)
    stopped = _way_back(model, sizes[1]) if wide else None
    return logits, trained, _begins(names), stopped or _trained_sides(cls, model, tokens)


def _begins(weights: dict[str, Tensor]) -> str:
    """Whether a new model's table has a row that is no word's: `padding_idx` starts it at 0, and keeps it from being trained."""
    empty = [row for row, numbers in enumerate(weights["embedding.weight"]) if not numbers.any()]
    return f"row {empty[0]} of a new embedding is all zeros" if empty else "every row of a new embedding is a word's"


def _way_back(model, d: int) -> Message | None:
    """What stops the way back through the first block, if anything does. (A block that is called in another way isn't asked.)"""
    x = torch.linspace(-1, 1, 3 * d, dtype=torch.float64).view(1, 3, d)
    error = observe(call(model.get_submodule, "blocks.0"), (x,), gradient=True, counts=False).backward_error
    return (
        Message(f"the way back through a block stops with an error. {error.kind}: {error.message}") if error else None
    )


def _trained_sides(cls, model, tokens: Tensor) -> Message:
    """Whether the table is trained as input and as head. It alone wants gradients, and the last norm hands none on: what comes there comes
    from the input, and what the logits still have from the head. (A model lives in its student's process, and its tensors come here without
    their graph, but with the word whether they want gradients. So hooks ask for that, and no gradient is computed.)"""
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
    """Weights and biases for an output head of its own, if there is one: the same ones every time, and not those of the embedding."""
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


class _Block(nn.Module):
    def __init__(self, d, h, rotate):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(d), _Attention(d, h, rotate)
        self.norm_2, self.mlp = nn.LayerNorm(d), reference.MLP(d)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class _LM(nn.Module):
    """A right model in small steps: each wrong answer below changes one."""

    block = _Block

    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__()
        self.d = d
        self.embedding = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(self.stack(d, h, layers, rotate))
        self.norm = nn.LayerNorm(d)

    def stack(self, d, h, layers, rotate):
        return [self.block(d, h, rotate) for _ in range(layers)]

    def embed(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.d)

    def through(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def head(self, x):
        return self.norm(x) @ self.embedding.weight.T

    def forward(self, tokens):
        return self.head(self.through(self.embed(tokens)))


class UntiedHead(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.output = nn.Linear(d, vocabulary, bias=False)

    def head(self, x):
        return self.output(self.norm(x))


class UntiedHeadWithABias(UntiedHead):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.output = nn.Linear(d, vocabulary)


class TiedHeadWithABias(UntiedHeadWithABias):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.output.weight = self.embedding.weight


class TwoParametersOfOneMemory(UntiedHead):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.output.weight.data = self.embedding.weight.data


class HeadKeptFromTheStart(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.table = self.embedding.weight.T

    def head(self, x):
        return self.norm(x) @ self.table


class HeadOutOfTraining(_LM):
    def head(self, x):
        return self.norm(x) @ self.embedding.weight.data.T


class InputOutOfTraining(_LM):
    def embed(self, tokens):
        return super().embed(tokens).detach()


class OutOfTraining(_LM):
    @torch.no_grad()
    def forward(self, tokens):
        return super().forward(tokens)


class WithoutFinalNorm(_LM):
    def head(self, x):
        return x @ self.embedding.weight.T


class NormBeforeTheBlocks(_LM):
    def embed(self, tokens):
        return self.norm(super().embed(tokens))

    def head(self, x):
        return x @ self.embedding.weight.T


class Unscaled(_LM):
    def embed(self, tokens):
        return self.embedding(tokens)


class ScaledByD(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) * self.d


class ScaledByHalfOfD(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) * self.d / 2


class ScaledByTheWholeRootOfD(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) * math.isqrt(self.d)


class ScaledByTheRootOfAHeadsWidth(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.d / self.blocks[0].attention.h)


class DividedByRootD(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) / math.sqrt(self.d)


class ScaledHead(_LM):
    def head(self, x):
        return super().head(x) * math.sqrt(self.d)


class HeadDividedByRootD(_LM):
    def head(self, x):
        return super().head(x) / math.sqrt(self.d)


class Probabilities(_LM):
    def head(self, x):
        return super().head(x).softmax(dim=-1)


class LogProbabilities(_LM):
    def head(self, x):
        return super().head(x).log_softmax(dim=-1)


class LastPositionOnly(_LM):
    def forward(self, tokens):
        return super().forward(tokens)[:, -1]


class OneBlockForAll(_LM):
    def stack(self, d, h, layers, rotate):
        return [self.block(d, h, rotate)] * layers


class FirstBlockRepeated(_LM):
    def through(self, x):
        for _ in self.blocks:
            x = self.blocks[0](x)
        return x


class OneBlockOnly(_LM):
    def through(self, x):
        return self.blocks[-1](x)


class BlocksReversed(_LM):
    def through(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


class BlocksAdded(_LM):
    def through(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class PaddingIndex(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.embedding = nn.Embedding(vocabulary, d, padding_idx=0)


class MaxNorm(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.embedding = nn.Embedding(vocabulary, d, max_norm=1.0)


class Frozen(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(vocabulary, d))


class TurnedByItself(_LM):
    def stack(self, d, h, layers, rotate):
        return super().stack(d, h, layers, rotary_embedding)


class ScaledByRootOfTheVocabulary(_LM):
    def embed(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.embedding.weight.shape[0])


class NormAfterEveryBlock(_LM):
    def through(self, x):
        for block in self.blocks[:-1]:
            x = self.norm(block(x))
        return self.blocks[-1](x)


class NormTwice(_LM):
    def through(self, x):
        return self.norm(super().through(x))


class Squeezed(_LM):
    def forward(self, tokens):
        return super().forward(tokens).squeeze()


class _PostNorm(_Block):
    def forward(self, x):
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.mlp(x))


class PostNormBlocks(_LM):
    block = _PostNorm


class _InPlace(_Block):
    def forward(self, x):
        x += self.attention(self.norm_1(x))
        x += self.mlp(self.norm_2(x))
        return x


class BlocksThatOverwriteTheStream(_LM):
    block = _InPlace


class _WithoutResiduals(_Block):
    def forward(self, x):
        return self.mlp(self.norm_2(self.attention(self.norm_1(x))))


class BlocksWithoutResiduals(_LM):
    block = _WithoutResiduals


class _WithoutMLP(_Block):
    def forward(self, x):
        return x + self.attention(self.norm_1(x))


class BlocksWithoutMLP(_LM):
    block = _WithoutMLP


class _OneNorm(_Block):
    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_1(x))


class _NormTwice(_Block):
    """`norm_2` is another name of `norm_1`."""

    def __init__(self, d, h, rotate):
        super().__init__(d, h, rotate)
        self.norm_2 = self.norm_1


class BlocksWithANormOfTwoNames(_LM):
    block = _NormTwice


class _MLPFirst(_Block):
    def forward(self, x):
        x = x + self.mlp(self.norm_2(x))
        return x + self.attention(self.norm_1(x))


class BlocksWithTheMLPFirst(_LM):
    block = _MLPFirst


class _SideBySide(_Block):
    def forward(self, x):
        return x + self.attention(self.norm_1(x)) + self.mlp(self.norm_2(x))


class BlocksSideBySide(_LM):
    block = _SideBySide


class _NormsSwapped(_Block):
    def forward(self, x):
        x = x + self.attention(self.norm_2(x))
        return x + self.mlp(self.norm_1(x))


class BlocksWithNormsSwapped(_LM):
    block = _NormsSwapped


class BlocksWithOneNorm(_LM):
    block = _OneNorm


class LearnedPositionsToo(_LM):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__(vocabulary, d, h, layers, rotate)
        self.position = nn.Parameter(torch.zeros(64, d))

    def embed(self, tokens):
        return super().embed(tokens) + self.position[: tokens.shape[1]]


_model = Check(
    exercise="DecoderLM",
    reference=_Reference,
    drive=drive_lm,
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
        untied_head=UntiedHead,
        untied_head_with_bias=UntiedHeadWithABias,
        bias_tied_head=TiedHeadWithABias,
        two_parameters_one_memory=TwoParametersOfOneMemory,
        transposed_table_kept_from___init__=Wrong(HeadKeptFromTheStart, raises="RuntimeError"),
        head_that_doesnt_train_table=HeadOutOfTraining,
        input_that_doesnt_train_table=InputOutOfTraining,
        forward_pass_without_gradients=OutOfTraining,
        no_norm_at_end=WithoutFinalNorm,
        last_norm_before_blocks=NormBeforeTheBlocks,
        embedding_not_scaled=Unscaled,
        scaled_by_d_instead_root_d=ScaledByD,
        scaled_by_d_over_2_instead_root_d=ScaledByHalfOfD,
        root_d_rounded_down=ScaledByTheWholeRootOfD,
        scaled_by_root_heads_width=ScaledByTheRootOfAHeadsWidth,
        divided_by_root_d=DividedByRootD,
        head_scaled_too=ScaledHead,
        head_divided_by_root_d=HeadDividedByRootD,
        probabilities_instead_logits=Probabilities,
        log_probabilities_instead_logits=LogProbabilities,
        last_position_only=LastPositionOnly,
        one_block_all_layers=OneBlockForAll,
        first_block_again_again=FirstBlockRepeated,
        only_one_block_used=OneBlockOnly,
        blocks_reverse_order=BlocksReversed,
        residual_around_blocks=BlocksAdded,
        post_norm_blocks=PostNormBlocks,
        stream_overwritten_block=BlocksThatOverwriteTheStream,
        blocks_without_residuals=BlocksWithoutResiduals,
        token_0_taken_padding_padding_idx=Wrong(PaddingIndex, recognise=lambda seen: "all zeros" in seen.output[2]),
        rows_cut_length_1_max_norm=MaxNorm,
        embedding_that_not_trained=Frozen,
        rotate_not_used=TurnedByItself,
        scaled_by_root_vocabularys_size=ScaledByRootOfTheVocabulary,
        last_norm_after_every_block=NormAfterEveryBlock,
        last_norm_taken_twice=NormTwice,
        axes_size_1_squeezed_away=Squeezed,
        one_norm_under_two_names=BlocksWithANormOfTwoNames,
        mlp_before_attention=BlocksWithTheMLPFirst,
        attention_mlp_side_by_side=BlocksSideBySide,
        two_norms_block_swapped=BlocksWithNormsSwapped,
        blocks_without_mlp=BlocksWithoutMLP,
        one_norm_both_layers_block=BlocksWithOneNorm,
        table_positions_beside_rotary_ones=LearnedPositionsToo,
    ),
)


def _size(
    v, d, layers, context, bias, *, head=0, norms=2, gains=2, final=1, mlp=8, attention=4, biases=9, all_layers=True
):
    """The formula with its parts open to change. norms: a block; gains: numbers of a norm, in d."""
    block = (attention + mlp) * d * d + norms * gains * d + bias * biases * d
    return v * d * (1 + head) + context * d + (layers if all_layers else 1) * block + final * gains * d


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
        head_with_weights_own=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, head=1),
        one_norm_block=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, norms=1),
        norms_without_their_biases=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, gains=1),
        no_norm_at_end_2=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, final=0),
        d_ff_d=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, mlp=2, biases=6),
        no_output_projection_attention=lambda v, d, layers, context, bias: _size(
            v, d, layers, context, bias, attention=3, biases=8
        ),
        biases_attention_forgotten=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=5),
        biases_mlp_forgotten=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=4),
        d_biases_too_few_each_layer=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=8),
        both_biases_mlp_size_d=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=6),
        both_biases_mlp_size_4d=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=12),
        norms_with_bias_only_where_bias_says_so=lambda v, d, layers, context, bias: _size(
            v, d, layers, context, bias, gains=1 + bias
        ),
        head_that_has_bias=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias) + bias * v,
        learned_positions_forgotten=lambda v, d, layers, context, bias: _size(v, d, layers, 0, bias),
        learned_positions_only_where_there=lambda v, d, layers, context, bias: _size(
            v, d, layers, context if bias else 0, bias
        ),
        one_layer_only=lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, all_layers=False),
        biases_always=lambda v, d, layers, context, bias: _size(v, d, layers, context, True),
    ),
)

DecoderLM = CheckGroup("DecoderLM", _model, _parameters)
