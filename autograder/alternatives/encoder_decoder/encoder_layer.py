"""Right answers of EncoderLayer in other styles."""

import torch
import torch.nn.functional as F
from torch import nn

from helpers.multi_head.heads import MultiHeadAttention


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
    """A function for dropout, told the mode, with PyTorch's extra one after the ReLU; a local one for sum and norm."""

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
