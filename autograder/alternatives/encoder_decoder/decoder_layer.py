"""Right answers of DecoderLayer in other styles."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from autograder.alternatives.encoder_decoder.encoder_layer import AnnotatedEncoderLayer
from helpers.multi_head.heads import MultiHeadAttention


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
