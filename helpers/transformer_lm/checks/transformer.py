"""Checks of the whole language model: its logits with given weights, its size, and which of its parts are trained."""

import math
from collections.abc import Callable
from itertools import combinations

import torch
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped, StudentError, call, choice
from helpers.engine.observe import observe

from .. import transformer as reference
from ..positions import rotary_embedding

__all__ = ["DecoderLM", "what_is_trained"]

# -------------------------------------------------------------------------------------------------- logits, given weights


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
    misconceptions=[
        Misconception(
            "an untied head", UntiedHead,
            "Your output head has weights of its own. Tied means that the embedding's matrix is used twice: x @ embedding.weight.T gives the logits.",
        ),
        Misconception(
            "an untied head with a bias", UntiedHeadWithABias,
            "Your output head has weights and biases of its own. Tied means that the embedding's matrix is used twice, with no bias: x @ embedding.weight.T gives the logits.",
        ),
        Misconception(
            "a bias in the tied head", TiedHeadWithABias,
            "The head's matrix is the embedding's, but `nn.Linear` has a bias too, unless you say `bias=False`: one more trained number for each word.",
        ),
        Misconception(
            "two parameters of one memory", TwoParametersOfOneMemory,
            "`head.weight.data = embedding.weight.data` makes two parameters that share their numbers: they are counted twice, each has a gradient of its own, "
            "and `model.double()` parts them. Share the parameter itself, `head.weight = embedding.weight`, or take x @ embedding.weight.T.",
        ),
        Misconception(
            "a transposed table kept from `__init__`", HeadKeptFromTheStart,
            "A tensor that `__init__` keeps is no parameter: `model.double()`, or a move to another device, gives the embedding new numbers, and yours stays what it was. "
            "Take `self.embedding.weight.T` in `forward`.",
            raises="RuntimeError",
        ),
        Misconception(
            "a head that doesn't train the table", HeadOutOfTraining,
            "The logits are right, but `.data`, `detach` or `no_grad` keeps gradients from the table where it is the head. It is trained from both sides: "
            "x @ embedding.weight.T, and nothing in between.",
        ),
        Misconception(
            "an input that doesn't train the table", InputOutOfTraining,
            "The logits are right, but `.data`, `detach` or `no_grad` keeps gradients from the table where tokens are looked up. It is trained from both "
            "sides, as input and as head.",
        ),
        Misconception(
            "a forward pass without gradients", OutOfTraining,
            "The logits are right, but under `no_grad` nothing can be trained. Use it around a model that writes, not inside the model.",
        ),
        Misconception(
            "no norm at the end", WithoutFinalNorm,
            "In a pre-norm model nothing has normalised the stream itself. Before the head comes `norm`.",
        ),
        Misconception(
            "the last norm before the blocks", NormBeforeTheBlocks,
            "`norm` stands after the last block, before the head.",
        ),
        Misconception(
            "the embedding is not scaled", Unscaled,
            "Rows of the table have length about 1, for they serve as the head too. As input they are multiplied by √d.",
        ),
        Misconception("scaled by d instead of √d", ScaledByD, "The factor is √d, so that each feature has size about 1."),
        Misconception("scaled by d/2 instead of √d", ScaledByHalfOfD, "The factor is √d. In Python `d ** 1/2` is (d ** 1)/2, for a power comes before a division: write `d ** 0.5` or `math.sqrt(d)`."),
        Misconception(
            "the root of d rounded down", ScaledByTheWholeRootOfD,
            "`math.isqrt(d)`, or `int(d**0.5)`, is a whole number: right for d = 4, and for d = 8 it is 2 instead of 2.83. `math.sqrt(d)` keeps the fraction.",
        ),
        Misconception(
            "scaled by the root of a head's width", ScaledByTheRootOfAHeadsWidth,
            "√(d/h) is right for one head only. The embedding is multiplied by √d; the root of a head's width divides the scores, in attention.",
        ),
        Misconception("divided by √d", DividedByRootD, "The embedding is *multiplied* by √d. (Scores are divided, in attention.)"),
        Misconception("the head scaled too", ScaledHead, "Only the input is multiplied by √d. The head uses the table as it is."),
        Misconception(
            "the head divided by √d", HeadDividedByRootD,
            "The head uses the table as it is. Scores are divided, in attention, and the input is multiplied by √d.",
        ),
        Misconception(
            "probabilities instead of logits", Probabilities,
            "Return the scores. The loss takes their softmax itself, in a way that can't overflow.",
        ),
        Misconception(
            "log-probabilities instead of logits", LogProbabilities,
            "Return the scores before any softmax: loss and sampling do it themselves.",
        ),
        Misconception(
            "the last position only", LastPositionOnly,
            "A model is trained on all n predictions at once: return logits for every position, (b, n, v).",
        ),
        Misconception(
            "one block for all layers", OneBlockForAll,
            "`[Block(…)] * layers` is one block in several places: its weights are shared. Make a new one for each layer.",
        ),
        Misconception(
            "the first block again and again", FirstBlockRepeated,
            "There are as many blocks as layers, and yours uses one of them. Go through all, in order.",
        ),
        Misconception(
            "only one block used", OneBlockOnly,
            "Each block reads what the one before has written: x = block(x), for every block.",
        ),
        Misconception("the blocks in reverse order", BlocksReversed, "blocks.0 comes first."),
        Misconception(
            "a residual around the blocks", BlocksAdded,
            "A block adds to the stream inside. Around it nothing more is added: x = block(x).",
        ),
        Misconception(
            "post-norm blocks", PostNormBlocks,
            "The norms of this model stand inside the branches: x + attention(norm_1(x)), then x + mlp(norm_2(x)).",
        ),
        Misconception(
            "the stream overwritten in the block", BlocksThatOverwriteTheStream,
            "The logits are right, but `x += …` writes over numbers that a norm has read, and needs for its way back: training would stop with an error. "
            "`x = x + …` makes a new tensor.",
        ),
        Misconception(
            "blocks without residuals", BlocksWithoutResiduals,
            "Each layer's output is added to the stream: x + attention(…), x + mlp(…).",
        ),
        Misconception(
            "token 0 taken for padding (`padding_idx`)", PaddingIndex,
            "`padding_idx=0` starts the row of token 0 at zero, and keeps from it the gradient that it gets as input. Here token 0 is a word like any other.",
            lambda seen: "all zeros" in seen.output[2],
        ),
        Misconception(
            "rows cut to length 1 (`max_norm`)", MaxNorm,
            "`max_norm=1` shortens the rows in every call, whatever training has made of them. Length about 1 is how they *begin*.",
        ),
        Misconception(
            "an embedding that is not trained", Frozen,
            "`from_pretrained` freezes the table unless it is told `freeze=False`, and `requires_grad=False` does the same. The table is trained, as input and as head.",
        ),
        Misconception(
            "`rotate` is not used", TurnedByItself,
            "The argument `rotate` turns queries and keys: hand it on to each block's attention. Yours calls `rotary_embedding` itself, whatever `rotate` is.",
        ),
        Misconception(
            "scaled by the root of the vocabulary's size", ScaledByRootOfTheVocabulary,
            "`embedding.weight` is (vocabulary, d). The factor is the root of its *width*, √d.",
        ),
        Misconception(
            "the last norm after every block", NormAfterEveryBlock,
            "`norm` stands once, after the last block. Between the blocks nothing touches the stream.",
        ),
        Misconception("the last norm taken twice", NormTwice, "`norm` stands once, between the last block and the head."),
        Misconception(
            "axes of size 1 squeezed away", Squeezed,
            "`squeeze()` takes away every axis of size 1: that of a batch of one too. The logits are (b, n, v), always.",
        ),
        Misconception(
            "one norm under two names", BlocksWithANormOfTwoNames,
            "`norm_1` and `norm_2` are one module: weights that are loaded into one are those of the other. Make two.",
        ),
        Misconception("the MLP before attention", BlocksWithTheMLPFirst, "First x + attention(norm_1(x)), then x + mlp(norm_2(x))."),
        Misconception(
            "attention and MLP side by side", BlocksSideBySide,
            "Some models do that (GPT-J). Here the MLP reads what attention has written: two lines, x = x + …, one after the other.",
        ),
        Misconception("the two norms of a block swapped", BlocksWithNormsSwapped, "`norm_1` belongs to attention, `norm_2` to the MLP."),
        Misconception("blocks without the MLP", BlocksWithoutMLP, "After attention comes x + mlp(norm_2(x))."),
        Misconception("one norm for both layers of a block", BlocksWithOneNorm, "The MLP reads through norm_2."),
        Misconception(
            "a table of positions beside the rotary ones", LearnedPositionsToo,
            "The logits are right as long as the table is 0, but these are more trained numbers than the model should have. Attention turns queries and keys: that is all it needs to know of positions.",
        ),
    ],
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- size


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
    misconceptions=[
        Misconception(
            "a head with weights of its own", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, head=1),
            "The head is the embedding (tied): count that matrix once.",
        ),
        Misconception(
            "one norm a block", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, norms=1),
            "A block has two norms, of 2d numbers each.",
        ),
        Misconception(
            "norms without their biases", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, gains=1),
            "A LayerNorm has a gain *and* a bias: 2d numbers.",
        ),
        Misconception(
            "no norm at the end", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, final=0),
            "One more norm stands before the head.",
        ),
        Misconception(
            "d_ff = d", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, mlp=2, biases=6),
            "The MLP is 4d wide inside: d · 4d and 4d · d.",
        ),
        Misconception(
            "no output projection in attention", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, attention=3, biases=8),
            "Attention has four matrices: W_Q, W_K, W_V and W_O.",
        ),
        Misconception(
            "biases of attention forgotten", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=5),
            "With biases, W_Q, W_K, W_V and W_O have one of d numbers each: 4d.",
        ),
        Misconception(
            "biases of the MLP forgotten", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=4),
            "With biases, the MLP has 4d + d more.",
        ),
        Misconception(
            "d biases too few in each layer", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=8),
            "You count 8d biases a layer, and there are 9d. Every matrix has as many as it has columns: d for each of W_Q, W_K, W_V and W_O, 4d for the MLP's first matrix and d for its second.",
        ),
        Misconception(
            "both biases of the MLP of size d", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=6),
            "The MLP is 4d wide inside, and so is its first bias: 4d + d.",
        ),
        Misconception(
            "both biases of the MLP of size 4d", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, biases=12),
            "The MLP leads back to width d, and its second bias has d numbers: 4d + d.",
        ),
        Misconception(
            "norms with a bias only where `bias` says so", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, gains=1 + bias),
            "`bias` speaks of the matrices. A LayerNorm has gain and bias, always.",
        ),
        Misconception(
            "a head that has a bias", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias) + bias * v,
            "The head is the embedding's matrix and nothing else.",
        ),
        Misconception(
            "learned positions forgotten", lambda v, d, layers, context, bias: _size(v, d, layers, 0, bias),
            "A learned position is a row of d numbers, one for each of `context` places.",
        ),
        Misconception(
            "learned positions only where there are biases", lambda v, d, layers, context, bias: _size(v, d, layers, context if bias else 0, bias),
            "`context` and `bias` have nothing to do with each other: a model without biases may have learned positions too, context · d numbers.",
        ),
        Misconception(
            "one layer only", lambda v, d, layers, context, bias: _size(v, d, layers, context, bias, all_layers=False),
            "Every layer has weights of its own.",
        ),
        Misconception(
            "biases always", lambda v, d, layers, context, bias: _size(v, d, layers, context, True),
            "With bias=False the matrices have none.",
        ),
    ],
)  # fmt: skip

DecoderLM = CheckGroup("DecoderLM", _model, _parameters)

# ------------------------------------------------------------------------------------------------------- what is trained

TRAINED = "aceg"
SLIPS = {  # letter → what is believed of it, and why that is not so
    "a": ("the embedding is not trained",
          "The table starts with random rows, and only training gives them a meaning. (The same table is the head.)"),
    "b": ("rotary angles are trained",
          "Rotary angles come from a formula, in which nothing is learned. (GPT-2 learns a table of positions. This model has none.)"),
    "c": ("the projections are not trained", "W_Q, W_K, W_V and W_O are what an attention layer learns."),
    "d": ("attention weights are trained",
          "Attention weights are computed anew for every text, from queries and keys. What is trained are the matrices that make these."),
    "e": ("norms are not trained", "The division has no parameters, but gain and bias of a LayerNorm are learned."),
    "f": ("the mask is trained", "The mask says what is allowed, and it is the same before and after training."),
    "g": ("the MLP is not trained", "Two thirds of a block's trained numbers are in its MLP: 8d² of 12d²."),
}  # fmt: skip


def drive_letters(answer: Callable) -> str:
    """The letters, whatever their order."""
    return "".join(sorted(set(choice(answer))))


def _believed(*letters: str) -> Misconception:
    """Who believes these things answers so, and is told about each of them."""
    names, hints = zip(*(SLIPS[letter] for letter in letters), strict=True)
    answer = "".join(sorted(set(TRAINED) ^ set(letters)))
    return Misconception(", and ".join(names), lambda: answer, " ".join(hints))


what_is_trained = Check(
    exercise="what_is_trained",
    reference=lambda: TRAINED,
    quiz=True,
    cases=[explicit_case("the letters of all that is trained")],
    drive=drive_letters,
    misconceptions=[
        *(_believed(letter) for letter in SLIPS),
        *(_believed(*both) for both in combinations(SLIPS, 2)),
        Misconception(
            "three or more of the seven taken for what they are not", lambda: "bdf",
            "Ask the same of each: is it stored in the model and moved by training? Or made anew for each text, or given by a formula? "
            "`model.named_parameters()` lists what your model of 5.11 really holds.",
            lambda seen: len(set(TRAINED) ^ set(seen.output)) > 2,
        ),
    ],
)  # fmt: skip
