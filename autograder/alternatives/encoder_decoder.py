"""Right answers of unit 06 in other styles: those of the Annotated Transformer, fairseq, Hugging Face, users of `nn.Transformer`, x-transformers."""

import copy
import heapq
import math

import torch
import torch.nn.functional as F
from torch import nn

from helpers.encoder_decoder.model import END, PAD, START
from helpers.multi_head.heads import MultiHeadAttention
from helpers.transformer_lm.positions import sinusoidal_positions

# -------------------------------------------------------------------------------------------------------------- layers


class AnnotatedEncoderLayer(nn.Module):
    """A sublayer wrapper that takes a function, as in the Annotated Transformer."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d, h)
        self.linear1 = nn.Linear(d, d_ff)
        self.linear2 = nn.Linear(d_ff, d)
        self.norm1 = nn.LayerNorm(d)
        self.norm2 = nn.LayerNorm(d)
        self.drop = nn.Dropout(dropout)

    def sublayer(self, x, function, norm):
        return norm(x + self.drop(function(x)))

    def forward(self, x, mask=None):
        x = self.sublayer(x, lambda t: self.self_attn(t, t, mask), self.norm1)
        return self.sublayer(x, lambda t: self.linear2(F.relu(self.linear1(t))), self.norm2)


class TorchEncoderLayer(nn.Module):
    """Dropout in four places and `_sa_block`, `_ff_block`, as in PyTorch's source."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.dropout, self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.activation = nn.ReLU()

    def _sa_block(self, x, mask):
        return self.dropout1(self.self_attn(x, mask=mask))

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def forward(self, x, mask=None):
        x = self.norm1(x + self._sa_block(x, mask))
        return self.norm2(x + self._ff_block(x))


class FairseqEncoderLayer(nn.Module):
    """`residual = x`, F.dropout with `self.training`."""

    def __init__(self, embed_dim, heads, ffn_dim, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(embed_dim, heads)
        self.norm1 = nn.LayerNorm(embed_dim)
        self.linear1 = nn.Linear(embed_dim, ffn_dim)
        self.linear2 = nn.Linear(ffn_dim, embed_dim)
        self.norm2 = nn.LayerNorm(embed_dim)
        self.p = dropout

    def forward(self, x, encoder_padding_mask=None):
        residual = x
        x = self.self_attn(x, memory=x, mask=encoder_padding_mask)
        x = F.dropout(x, p=self.p, training=self.training)
        x = residual + x
        x = self.norm1(x)
        residual = x
        x = torch.clamp(self.linear1(x), min=0)
        x = self.linear2(x)
        x = F.dropout(x, p=self.p, training=self.training)
        return self.norm2(residual + x)


class HandwrittenNormEncoderLayer(TorchEncoderLayer):
    """Layer norms by formula, with the weights of the modules."""

    @staticmethod
    def normalised(x, norm):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return norm.weight * (x - mean) * torch.rsqrt(variance + norm.eps) + norm.bias

    def forward(self, x, mask=None):
        x = self.normalised(self._sa_block(x, mask) + x, self.norm1)
        return self.normalised(self._ff_block(x) + x, self.norm2)


class ResidualList(TorchEncoderLayer):
    """x-transformers: the stream is called `residual`, and each block is a pair of (function, norm)."""

    def forward(self, x, mask=None):
        for block, norm in ((lambda t: self._sa_block(t, mask), self.norm1), (self._ff_block, self.norm2)):
            out, residual = block(x), x
            x = norm(torch.add(out, residual))
        return x


class FunctionalEncoderLayer(nn.Module):
    """A function for dropout, told the mode, with PyTorch's extra one after the ReLU, and a local one for the sum and its norm."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn, self.rate = MultiHeadAttention(d, h), dropout
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def drop(self, x):
        return F.dropout(x, self.rate, training=self.training)

    def forward(self, x, mask=None):
        def add_norm(norm, stream, update):
            return norm(stream + self.drop(update))

        x = add_norm(self.norm1, x, self.self_attn(x, mask=mask))
        return add_norm(self.norm2, x, self.linear2(self.drop(self.linear1(x).relu())))


EncoderLayer = {
    "dropout as a function, one more inside": FunctionalEncoderLayer,
    "a sublayer wrapper (Annotated Transformer)": AnnotatedEncoderLayer,
    "blocks and three dropouts (PyTorch)": TorchEncoderLayer,
    "residual = x (fairseq)": FairseqEncoderLayer,
    "norms by formula": HandwrittenNormEncoderLayer,
    "pairs of block and norm (x-transformers)": ResidualList,
}


class AnnotatedDecoderLayer(nn.Module):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d, h)
        self.cross_attn = copy.deepcopy(self.self_attn)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2, self.norm3 = (copy.deepcopy(nn.LayerNorm(d)) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, mask=None, memory_mask=None):
        sublayers = (
            (self.norm1, lambda t: self.self_attn(t, t, mask)),
            (self.norm2, lambda t: self.cross_attn(t, memory, memory_mask)),
            (self.norm3, lambda t: self.linear2(self.linear1(t).relu())),
        )
        for norm, function in sublayers:
            x = norm(x + self.drop(function(x)))
        return x


class TorchDecoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1):
        super().__init__()
        self.self_attn, self.cross_attn = MultiHeadAttention(d_model, nhead), MultiHeadAttention(d_model, nhead)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropouts = nn.ModuleList(nn.Dropout(dropout) for _ in range(4))

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None):
        x = tgt
        x = self.norm1(x + self.dropouts[0](self.self_attn(x, mask=tgt_mask)))
        x = self.norm2(x + self.dropouts[1](self.cross_attn(x, memory, mask=memory_mask)))
        return self.norm3(x + self.dropouts[2](self.linear2(self.dropouts[3](F.relu(self.linear1(x))))))


class HuggingFaceDecoderLayer(nn.Module):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.self_attn = MultiHeadAttention(d, h)
        self.norm1 = nn.LayerNorm(d)
        self.cross_attn = MultiHeadAttention(d, h)
        self.norm2 = nn.LayerNorm(d)
        self.linear1 = nn.Linear(d, d_ff)
        self.linear2 = nn.Linear(d_ff, d)
        self.norm3 = nn.LayerNorm(d)

    def forward(self, hidden_states, encoder_hidden_states, attention_mask=None, encoder_attention_mask=None):
        residual = hidden_states
        hidden_states = self.self_attn(hidden_states, mask=attention_mask)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = self.norm1(residual + hidden_states)
        residual = hidden_states
        hidden_states = self.cross_attn(hidden_states, encoder_hidden_states, encoder_attention_mask)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = self.norm2(residual + hidden_states)
        residual = hidden_states
        hidden_states = self.linear2(nn.functional.relu(self.linear1(hidden_states)))
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        return self.norm3(residual + hidden_states)


class RowByRowFeedForward(TorchDecoderLayer):
    """The feed-forward network token by token: it is the same for each."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(self.dropouts[0](self.self_attn(x, mask=mask)).add(x))
        x = self.norm2(self.dropouts[1](self.cross_attn(x, memory, memory_mask)).add(x))
        fed = torch.stack([self.linear2(self.linear1(token).relu()) for token in x.unbind(1)], dim=1)
        return self.norm3(x + self.dropouts[2](fed))


class DecoderWithFlatNames(TorchDecoderLayer):
    """Everything in one line for each sublayer; the ReLU as a maximum."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        a = self.norm1(self.dropouts[0](self.self_attn(x, x, mask)) + x)
        c = self.norm2(self.dropouts[1](self.cross_attn(a, memory, memory_mask)) + a)
        return self.norm3(self.dropouts[2](self.linear2(torch.maximum(self.linear1(c), torch.zeros(())))) + c)


class InheritingDecoderLayer(AnnotatedEncoderLayer):
    """An encoder layer with one sublayer more; the feed-forward network as einsum."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, dropout)
        self.cross_attn, self.norm3 = MultiHeadAttention(d, h), nn.LayerNorm(d)

    def feed(self, x):
        hidden = torch.einsum("bnd,fd->bnf", x, self.linear1.weight) + self.linear1.bias
        hidden = torch.where(hidden > 0, hidden, 0.0)
        return torch.einsum("bnf,df->bnd", hidden, self.linear2.weight) + self.linear2.bias

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.sublayer(x, lambda t: self.self_attn(t, t, mask), self.norm1)
        x = self.sublayer(x, lambda t: self.cross_attn(t, memory, memory_mask), self.norm2)
        return self.sublayer(x, self.feed, self.norm3)


DecoderLayer = {
    "an encoder layer with more in it, einsum": InheritingDecoderLayer,
    "a loop over sublayers (Annotated Transformer)": AnnotatedDecoderLayer,
    "four dropouts (nn.Transformer)": TorchDecoderLayer,
    "residual, dropout, norm (Hugging Face)": HuggingFaceDecoderLayer,
    "the feed-forward network token by token": RowByRowFeedForward,
    "one line a sublayer": DecoderWithFlatNames,
}

# --------------------------------------------------------------------------------------------------------------- model

which_connects_where = {
    "a capital letter": lambda: "B",
    "in a list": lambda: ["b"],
    "with a dot": lambda: " b. ",
    "a tuple": lambda: ("b",),
}


class AnnotatedModel(nn.Module):
    """Clones by deep copies; the mask of unit 03's kind, (b, 1, m)."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__()
        clones = lambda module: nn.ModuleList(copy.deepcopy(module) for _ in range(layers))  # noqa: E731
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        nn.init.normal_(self.source_embedding.weight, std=d**-0.5)
        nn.init.normal_(self.target_embedding.weight, std=d**-0.5)
        self.encoder = clones(AnnotatedEncoderLayer(d, h, d_ff, dropout))
        self.decoder = clones(AnnotatedDecoderLayer(d, h, d_ff, dropout))
        self.head = nn.Linear(d, target_words)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoidal_positions(1024, d))

    def embedded(self, embedding, tokens):
        x = embedding(tokens) * math.sqrt(self.pe.shape[1])
        return self.drop(x + self.pe[: tokens.size(1)].to(x.dtype))

    def encode(self, source, real):
        x = self.embedded(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, real.unsqueeze(-2))
        return x

    def decode(self, target, memory, real):
        n = target.size(-1)
        subsequent = torch.triu(torch.ones(n, n), diagonal=1) == 0
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, subsequent, real.unsqueeze(-2))
        return self.head(x)

    def forward(self, source, target):
        return self.decode(target, self.encode(source, source != PAD), source != PAD)


class FullMaskModel(AnnotatedModel):
    """Masks written out, (b, n, m) each."""

    def encode(self, source, real):
        b, m = source.shape
        x = self.embedded(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, real[:, None, :].repeat(1, m, 1))
        return x

    def decode(self, target, memory, real):
        b, n = target.shape
        places = torch.arange(n)
        own = (places[None, :] <= places[:, None]).expand(b, n, n)
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, own, real[:, None, :].expand(b, n, memory.shape[1]))
        return F.linear(x, self.head.weight, self.head.bias)


class PaddedTargetModel(AnnotatedModel):
    """Hides the target's padding too, as many do: no real token would have read it anyway."""

    def decode(self, target, memory, real):
        n = target.shape[1]
        own = torch.ones(n, n, dtype=torch.bool).tril() & (target != PAD)[:, None, :]
        own = own | torch.eye(n, dtype=torch.bool)
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, own, real[:, None])
        return self.head(x)


class ComparedPlacesModel(AnnotatedModel):
    """A table of positions that is not saved; the causal mask by comparing places."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.register_buffer("pe", sinusoidal_positions(1024, d), persistent=False)

    def decode(self, target, memory, real):
        i = torch.arange(target.shape[-1])
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, mask=i[:, None] >= i, memory_mask=real.unsqueeze(1))
        return self.head(x)


class StackedModel(AnnotatedModel):
    """`functools.reduce` in place of the loops, and layers of other styles inside."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.encoder = nn.ModuleList([FairseqEncoderLayer(d, h, d_ff, dropout) for _ in range(layers)])
        self.decoder = nn.ModuleList([HuggingFaceDecoderLayer(d, h, d_ff, dropout) for _ in range(layers)])

    def encode(self, source, real):
        from functools import reduce

        return reduce(
            lambda x, layer: layer(x, real[:, None]), self.encoder, self.embedded(self.source_embedding, source)
        )


class RecursiveModel(nn.Module):
    """Through the layers by recursion; the embeddings made small afterwards; the causal mask as what is not later."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__()
        sizes = {"d": d, "h": h, "d_ff": d_ff, "dropout": dropout}
        self.encoder = nn.ModuleList(AnnotatedEncoderLayer(**sizes) for _ in range(layers))
        self.decoder = nn.ModuleList(AnnotatedDecoderLayer(**sizes) for _ in range(layers))
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        with torch.no_grad():
            for embedding in (self.source_embedding, self.target_embedding):
                embedding.weight.mul_(d**-0.5)
        self.head, self.drop = nn.Linear(d, target_words), nn.Dropout(dropout)

    def through(self, layers, x, *rest):
        return self.through(layers[1:], layers[0](x, *rest), *rest) if layers else x

    def embed(self, table, tokens):
        d = table.embedding_dim
        return self.drop(torch.add(sinusoidal_positions(tokens.size(1), d), table(tokens), alpha=d**0.5))

    def encode(self, source, real):
        return self.through(list(self.encoder), self.embed(self.source_embedding, source), real[:, None, :])

    def decode(self, target, memory, real):
        later = torch.ones(target.size(1), target.size(1)).triu(1).bool()
        x = self.embed(self.target_embedding, target)
        return self.head(self.through(list(self.decoder), x, memory, ~later, real[:, None, :]))

    def forward(self, source, target):
        real = ~(source == PAD)
        return self.decode(target, memory=self.encode(source, real), real=real)


EncoderDecoder = {
    "a recursion over the layers": RecursiveModel,
    "deep copies and a buffer of positions (Annotated Transformer)": AnnotatedModel,
    "masks written out": FullMaskModel,
    "a buffer that is not saved; places compared": ComparedPlacesModel,
    "the target's padding hidden too": PaddedTargetModel,
    "other layers inside, reduce in place of a loop": StackedModel,
}

# ------------------------------------------------------------------------------------------------------------ training


def shift_by_slices(target):
    """[START, …, END], then all but the last and all but the first."""
    whole = torch.zeros(len(target), target.shape[1] + 2, dtype=torch.long)
    whole[:, 0], whole[:, 1:-1] = START, target
    whole[torch.arange(len(target)), (target != PAD).sum(1) + 1] = END
    return whole[:, :-1], whole[:, 1:]


def shift_by_lists(target):
    rows = [[token for token in row if token != PAD] for row in target.tolist()]
    width = target.shape[1] + 1
    inputs = [[START, *row] + [PAD] * (width - 1 - len(row)) for row in rows]
    labels = [[*row, END] + [PAD] * (width - 1 - len(row)) for row in rows]
    return torch.tensor(inputs), torch.tensor(labels)


def shift_by_scatter(target):
    labels = F.pad(target, (0, 1), value=PAD)
    labels = labels.scatter(1, (target != PAD).sum(1, keepdim=True), END)
    return F.pad(target, (1, 0), value=START), labels


def match_by_tensors(written, target):
    _, labels = shift_by_scatter(target)
    width = max(written.shape[1], labels.shape[1])
    written, labels = (F.pad(t, (0, width - t.shape[1])) for t in (written, labels))
    behind = ((written == END).cumsum(1) - (written == END).long()) > 0
    return (written.masked_fill(behind, PAD) == labels).all(dim=1).float().mean()


def match_by_strings(written, target):
    right = 0
    for mine, theirs in zip(written.tolist(), target.tolist()):
        said = " ".join(map(str, mine)) + " "
        wanted = " ".join(str(token) for token in [*(t for t in theirs if t != PAD), END]) + " "
        right += said.startswith(wanted)
    return right / len(target)


def match_by_lists(written, target):
    hits = []
    for mine, theirs in zip(written.tolist(), target.tolist()):
        mine = mine[: mine.index(END)] if END in mine else None
        hits.append(mine == [token for token in theirs if token])
    return sum(hits) / len(hits)


def trained_with_adamw(sources, targets, words):
    torch.manual_seed(1)
    model = AnnotatedModel(words, words, 32, 2, 64, 1, 0.0)
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1e-4), []
    for source, target in zip(sources, targets):
        inputs, labels = shift_by_slices(target)
        loss = F.cross_entropy(model(source, inputs).transpose(1, 2), labels, ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss)
    return model, torch.stack(losses).detach()


def trained_with_a_schedule(sources, targets, words):
    torch.manual_seed(2)
    model = FullMaskModel(words, words, d=32, h=1, d_ff=64, layers=1, dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.012, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.012, total_steps=len(sources))
    losses = []
    for step in range(len(sources)):
        model.train()
        inputs, labels = shift_by_scatter(targets[step])
        log_p = model(sources[step], inputs).log_softmax(-1)
        picked = log_p.gather(-1, labels[..., None])[..., 0]
        loss = -(picked * (labels != PAD)).sum() / (labels != PAD).sum()
        model.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(float(loss))
    return model, losses


def trained_with_summed_loss(sources, targets, words):
    torch.manual_seed(3)
    model = StackedModel(words, words, 32, 2, 96, 1, 0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.008)
    losses = []
    for source, target in zip(sources, targets):
        inputs, labels = shift_by_lists(target)
        logits = model(source, inputs)
        loss = nn.CrossEntropyLoss(ignore_index=PAD)(logits.reshape(-1, words), labels.reshape(-1))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses += [loss.item()]
    return model, losses


def shift_by_windows(target):
    """Inputs and labels are two windows of one tensor: END stands in the inputs only where nothing is asked."""
    row = F.pad(target, (1, 1), value=PAD)
    row[:, 0] = START
    row[torch.arange(len(row)), (target != PAD).sum(dim=1) + 1] = END
    return row[:, :-1], row[:, 1:]


def match_where_asked(written, target):
    _, labels = shift_by_windows(target)
    width = labels.shape[1]
    written = F.pad(written, (0, max(0, width - written.shape[1])), value=PAD)[:, :width]
    return ((written == labels) | (labels == PAD)).all(dim=1).double().mean().item()


def trained_on_picked_labels(sources, targets, words):
    torch.manual_seed(5)
    model = RecursiveModel(words, words, 32, 2, 64, 1, 0.0)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)

    def one_step(source, target):
        inputs, labels = shift_by_windows(target)
        log_p, asked = model(source, inputs).log_softmax(-1), labels != PAD
        loss = -log_p.gather(-1, labels[..., None])[..., 0][asked].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.item()

    return model, [one_step(source, target) for source, target in zip(sources, targets)]


def shift_by_comparison(target):
    """END stands where the inputs have a word and the target has none."""
    shifted, labels = F.pad(target, (1, 0), value=START), F.pad(target, (0, 1), value=PAD)
    labels = torch.where((labels == PAD) & (shifted != PAD), END, labels)
    return torch.cat([torch.full_like(labels[:, :1], START), labels[:, :-1]], dim=1), labels


def match_where_a_label_is(written, target):
    _, labels = shift_by_comparison(target)
    n = labels.shape[1]
    written = F.pad(written, (0, max(0, n - written.shape[1])), value=PAD)[:, :n]
    return torch.logical_or(written == labels, labels == PAD).all(dim=1).double().mean().item()


def trained_in_a_comprehension(sources, targets, words):
    torch.manual_seed(4)
    model = RecursiveModel(words, words, 32, 2, 64, 1, 0.0).train()
    adam, criterion = torch.optim.Adam(model.parameters(), 1e-2), nn.CrossEntropyLoss(ignore_index=PAD)

    def one_step(source, target):
        inputs, labels = shift_by_comparison(target)
        model.zero_grad()
        loss = criterion(model(source, inputs).transpose(1, 2), labels)
        loss.backward()
        adam.step()
        return float(loss)

    return model, [one_step(source, target) for source, target in zip(sources, targets)]


train_reversal = {
    "windows of one tensor; log-softmax and gather": (shift_by_windows, match_where_asked, trained_on_picked_labels),
    "labels by comparison; a comprehension": (shift_by_comparison, match_where_a_label_is, trained_in_a_comprehension),
    "slices of the whole; tensors; AdamW with clipping": (shift_by_slices, match_by_tensors, trained_with_adamw),
    "padding and scatter; strings; one cycle": (shift_by_scatter, match_by_strings, trained_with_a_schedule),
    "lists; zero_grad at the end": (shift_by_lists, match_by_lists, trained_with_summed_loss),
}

# ------------------------------------------------------------------------------------------------------------- writing


def greedy_with_a_buffer(encode, step, source, longest):
    memory, cache = encode(source), None
    out = torch.zeros(len(source), longest, dtype=torch.long)
    token, done = torch.ones(len(source), 1, dtype=torch.long), torch.zeros(len(source), dtype=torch.bool)
    for place in range(longest):
        logits, cache = step(token, memory, cache)
        best = logits.argmax(-1)
        out[:, place] = torch.where(done, PAD, best)
        done |= best == END
        if bool(done.all()):
            return out[:, : place + 1]
        token = best[:, None]
    return out


def greedy_with_lists(encode, step, source, longest):
    memory, cache, rows = encode(source), None, [[] for _ in source]
    newest = [START] * len(rows)
    while len(rows[0]) < longest and not all(END in row for row in rows):
        logits, cache = step(torch.tensor(newest).reshape(-1, 1), memory, cache)
        newest = logits.max(dim=1).indices.tolist()
        for row, token in zip(rows, newest):
            row.append(PAD if END in row else token)
    return torch.tensor(rows)


def greedy_by_recursion(encode, step, source, longest):
    memory = encode(source)

    def rest(tokens, cache, ended, left):
        if not left or ended.all():
            return []
        logits, cache = step(tokens, memory, cache)
        tokens = torch.topk(logits, 1).indices * ~ended
        return [tokens, *rest(tokens, cache, ended | tokens.eq(END), left - 1)]

    start = torch.full((source.shape[0], 1), START)
    return torch.hstack(rest(start, None, torch.zeros_like(start).bool(), longest))


def greedy_unfinished_flags(encode, step, source, longest):
    """Hugging Face: unfinished_sequences is 1 or 0, and multiplies."""
    memory, cache = encode(source), None
    ids = torch.full((source.shape[0], 1), START)
    unfinished = torch.ones(source.shape[0], dtype=torch.long)
    while ids.shape[1] <= longest and unfinished.max() != 0:
        logits, cache = step(ids[:, -1:], memory, cache)
        following = torch.argmax(logits, dim=-1) * unfinished + PAD * (1 - unfinished)
        ids = torch.cat([ids, following[:, None]], dim=-1)
        unfinished = unfinished.mul(following.ne(END).long())
    return ids[:, 1:]


def greedy_with_a_while_and_a_set(encode, step, source, longest):
    memory, cache, columns, open_rows = encode(source), None, [], set(range(len(source)))
    newest = torch.full((len(source), 1), START)
    while open_rows and len(columns) < longest:
        logits, cache = step(newest, memory, cache)
        column = torch.tensor([int(logits[row].argmax()) if row in open_rows else PAD for row in range(len(source))])
        open_rows -= {row for row in open_rows if column[row] == END}
        columns.append(column)
        newest = column.unsqueeze(1)
    return torch.stack(columns, dim=1)


def greedy_that_grows_one_tensor(encode, step, source, longest):
    """START stays in it to the end. The logits are overwritten: they are its own."""
    memory, cache = encode(source), None
    text = torch.full((len(source), 1), START)
    alive = torch.ones_like(text, dtype=torch.bool)
    while alive.any() and text.shape[1] <= longest:
        logits, cache = step(text[:, -1:], memory, cache)
        logits -= logits.max()
        _, likeliest = logits.max(dim=-1, keepdim=True)
        text = torch.cat([text, torch.where(alive, likeliest, torch.full_like(likeliest, PAD))], dim=1)
        alive = alive & (likeliest != END)
    return text[:, 1:]


greedy_decode = {
    "one tensor that grows": greedy_that_grows_one_tensor,
    "a buffer that is filled": greedy_with_a_buffer,
    "lists of tokens": greedy_with_lists,
    "by recursion": greedy_by_recursion,
    "flags that multiply (Hugging Face)": greedy_unfinished_flags,
    "a set of open rows": greedy_with_a_while_and_a_set,
}


def beam_by_sorting(next_log_probs, k, longest, alpha=0.6):
    live, done = [([START], 0.0)], []
    for _ in range(longest):
        log_p = next_log_probs(torch.tensor([tokens for tokens, _ in live])).tolist()
        candidates = [(tokens + [t], total + p) for (tokens, total), row in zip(live, log_p) for t, p in enumerate(row)]
        candidates.sort(key=lambda one: one[1], reverse=True)
        candidates = candidates[: k - len(done)]
        done += [one for one in candidates if one[0][-1] == END]
        live = [one for one in candidates if one[0][-1] != END]
        if not live:
            break
    scored = [(total / ((5 + len(tokens) - 1) / 6) ** alpha, tokens[1:]) for tokens, total in done + live]
    score, tokens = max(scored, key=lambda one: one[0])
    return tokens, score


def beam_with_a_heap(next_log_probs, k, longest, alpha=0.6):
    live, done = [(0.0, (START,))], []
    for length in range(1, longest + 1):
        rows = next_log_probs(torch.tensor([list(tokens) for _, tokens in live]))
        every = (
            (total + float(p), (*tokens, t)) for (total, tokens), row in zip(live, rows) for t, p in enumerate(row)
        )
        live = heapq.nlargest(k - len(done), every)
        done += [(total / ((5 + length) / 6) ** alpha, tokens) for total, tokens in live if tokens[-1] == END]
        live = [one for one in live if one[1][-1] != END]
        if not live:
            break
    done += [(total / ((5 + longest) / 6) ** alpha, tokens) for total, tokens in live]
    score, tokens = max(done)
    return list(tokens[1:]), score


def beam_with_tensors(next_log_probs, k, longest, alpha=0.6):
    """Prefixes in one tensor, gathered by parents, as fairseq and Hugging Face do."""
    prefixes, totals = torch.full((1, 1), START), torch.zeros(1, dtype=torch.float64)
    best, tokens, room = -math.inf, None, k
    for length in range(1, longest + 1):
        sums = totals[:, None] + next_log_probs(prefixes).double()
        values, places = sums.reshape(-1).topk(min(room, sums.numel()))
        parents = torch.div(places, sums.shape[1], rounding_mode="floor")
        prefixes = torch.cat([prefixes[parents], (places % sums.shape[1])[:, None]], dim=1)
        ended = prefixes[:, -1] == END
        final = ended | (length == longest)
        for value, row in zip(values[final], prefixes[final]):
            worth = float(value) / ((5 + length) / 6) ** alpha
            best, tokens = (worth, row[1:]) if worth > best else (best, tokens)
        prefixes, totals, room = prefixes[~ended], values[~ended], room - int(ended.sum())
        if not len(prefixes):
            break
    return tokens, torch.tensor(best)


def beam_of_objects(next_log_probs, k, longest, alpha=0.6):
    """A hypothesis is a dict that knows its score, as in OpenNMT and Hugging Face."""
    live, done = [{"tokens": [START], "sum": 0.0}], []
    while live and len(live[0]["tokens"]) <= longest:
        rows = next_log_probs(torch.tensor([one["tokens"] for one in live]))
        every = [
            {"tokens": [*one["tokens"], t], "sum": one["sum"] + row[t].item()}
            for one, row in zip(live, rows)
            for t in range(len(row))
        ]
        live = sorted(every, key=lambda one: -one["sum"])[: k - len(done)]
        done.extend(one for one in live if one["tokens"][-1] == END)
        live = [one for one in live if one["tokens"][-1] != END]
    worth = lambda one: one["sum"] * (6 / (4 + len(one["tokens"]))) ** alpha  # noqa: E731
    best = max(done + live, key=worth)
    return torch.tensor(best["tokens"][1:]), worth(best)


def beam_that_adds_in_place(next_log_probs, k, longest, alpha=0.6):
    """The sums are added into what it was given, which is its own."""
    prefixes, sums, hypotheses, room = torch.tensor([[START]]), torch.zeros(1), [], k
    for _ in range(longest):
        log_probs = next_log_probs(prefixes)
        log_probs += sums[:, None]
        v = log_probs.shape[1]
        sums, places = log_probs.flatten().topk(room)
        prefixes = torch.cat([prefixes[places // v], (places % v)[:, None]], dim=1)
        over = prefixes[:, -1] == END
        hypotheses += [(s.item(), p[1:].tolist()) for s, p in zip(sums[over], prefixes[over])]
        sums, prefixes, room = sums[~over], prefixes[~over], k - len(hypotheses)
        if len(prefixes) == 0:
            break
    hypotheses += [(s.item(), p[1:].tolist()) for s, p in zip(sums, prefixes)]
    score, tokens = max((s / ((5 + len(tokens)) / 6) ** alpha, tokens) for s, tokens in hypotheses)
    return tokens, score


beam_search = {
    "sums added in place": beam_that_adds_in_place,
    "sorted lists": beam_by_sorting,
    "a heap": beam_with_a_heap,
    "tensors gathered by parents (fairseq)": beam_with_tensors,
    "hypotheses as dicts (OpenNMT)": beam_of_objects,
}

# --------------------------------------------------------------------------------------------------------------- costs


def cost_by_products(n, m, d):
    product = lambda a, b, c: 2 * a * b * c  # noqa: E731

    def attention(queries, keys):
        scores = product(queries, d, keys) + product(queries, keys, d)
        return scores, 2 * product(queries, d, d) + 2 * product(keys, d, d)

    feed = lambda tokens: (0, product(tokens, d, 4 * d) + product(tokens, 4 * d, d))  # noqa: E731
    return {"encoder_self_attention": attention(m, m), "encoder_feed_forward": feed(m), "decoder_self_attention": attention(n, n),
            "cross_attention": attention(n, m), "decoder_feed_forward": feed(n)}  # fmt: skip


def cost_as_lists(n, m, d):
    rows = (
        "encoder_self_attention",
        "encoder_feed_forward",
        "decoder_self_attention",
        "cross_attention",
        "decoder_feed_forward",
    )
    scores = [4 * m**2 * d, 0.0, 4 * n**2 * d, 4 * n * m * d, 0]
    weights = [8 * m * d**2, 16 * m * d**2, 8 * n * d**2, 4 * (n + m) * d**2, 16 * n * d**2]
    return {row: [s, w] for row, s, w in zip(rows, scores, weights)}


def cost_counted(n, m, d):
    """Products of tensors without memory, counted by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted(*products):
        with FlopCounterMode(display=False) as counter:
            for a, b, c in products:
                torch.empty(a, b, device="meta") @ torch.empty(b, c, device="meta")
        return counter.get_total_flops()

    def attention(q, k):
        return counted((q, d, k), (q, k, d)), counted((q, d, d), (k, d, d), (k, d, d), (q, d, d))

    feed = lambda t: (0, counted((t, d, 4 * d), (t, 4 * d, d)))  # noqa: E731
    return {"encoder_self_attention": attention(m, m), "encoder_feed_forward": feed(m), "decoder_self_attention": attention(n, n),
            "cross_attention": attention(n, m), "decoder_feed_forward": feed(n)}  # fmt: skip


enc_dec_cost = {
    "product by product": cost_by_products,
    "lists": cost_as_lists,
    "counted by PyTorch": cost_counted,
}
enc_dec_cost_terms = {
    "capital letters": lambda: "CEBFD",
    "separated by commas": lambda: "c, e, b, f, d",
    "a list": lambda: ["c", "e", "b", "f", "d"],
}
