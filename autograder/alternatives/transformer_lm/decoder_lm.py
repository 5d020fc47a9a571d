"""Right answers of DecoderLM in other styles."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """As it is given in the notebook."""

    def __init__(self, d, h, rotate):
        super().__init__()
        self.h, self.rotate = h, rotate
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        where = torch.arange(x.shape[1])
        mixed = F.scaled_dot_product_attention(self.rotate(q, where), self.rotate(k, where), v, is_causal=True)
        return self.w_o(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """As it is given in the notebook."""

    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class NanoBlock(nn.Module):
    def __init__(self, d, h, rotate):
        super().__init__()
        self.norm_1, self.attention, self.norm_2, self.mlp = (
            nn.LayerNorm(d),
            Attention(d, h, rotate),
            nn.LayerNorm(d),
            MLP(d),
        )

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class NanoLM(nn.Module):
    """nanoGPT: a Linear head whose weight *is* the embedding's."""

    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList([NanoBlock(d, h, rotate) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocabulary, bias=False)
        self.lm_head.weight = self.embedding.weight
        self.scale = d**0.5

    def forward(self, tokens):
        x = self.embedding(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


class SequentialLM(nn.Module):
    """minGPT: blocks in a Sequential, and F.linear for the head."""

    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.Sequential(*(NanoBlock(d, h, rotate) for _ in range(layers)))
        self.norm = nn.LayerNorm(d)
        self.register_buffer("mask", torch.ones(64, 64).tril() == 1)

    def forward(self, idx):
        x = self.blocks(self.embedding(idx) * math.sqrt(self.embedding.embedding_dim))
        return F.linear(self.norm(x), self.embedding.weight)


class LayerNorm(nn.Module):
    """The Annotated Transformer's, with the right variance."""

    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d)), eps

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return self.weight * (x - mean) / (var + self.eps) ** 0.5 + self.bias


class DropoutBlock(nn.Module):
    """Hugging Face: dropout everywhere, off when the model is evaluated."""

    def __init__(self, d, h, rotate):
        super().__init__()
        self.norm_1, self.attention, self.norm_2, self.mlp = LayerNorm(d), Attention(d, h, rotate), LayerNorm(d), MLP(d)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = residual + self.dropout(self.attention(self.norm_1(hidden_states)))
        residual = hidden_states
        return residual + self.dropout(self.mlp(self.norm_2(hidden_states)))


class DropoutLM(nn.Module):
    def __init__(self, vocabulary, d, h, layers, rotate):
        super().__init__()
        self.config = {"hidden_size": d}
        self.embedding, self.norm = nn.Embedding(vocabulary, d), LayerNorm(d)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(DropoutBlock(d, h, rotate))

    def forward(self, input_ids):
        hidden_states = self.embedding.weight[input_ids] * self.config["hidden_size"] ** 0.5
        for layer in self.blocks:
            hidden_states = layer(hidden_states)
        return torch.einsum("bnd,vd->bnv", self.norm(hidden_states), self.embedding.weight)


class FunctionalLM(NanoLM):
    """Weights are taken out of the modules: the last norm is never called as one."""

    def forward(self, tokens):
        table = self.embedding.weight
        x = F.embedding(tokens, table) * math.sqrt(table.shape[1])
        for block in self.blocks:
            x = block(x)
        return torch.matmul(F.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias), table.mT)


def parameters_by_parts(v, d, layers, context, bias):
    attention = 4 * (d * d + (d if bias else 0))
    mlp = (d * 4 * d + (4 * d if bias else 0)) + (4 * d * d + (d if bias else 0))
    return v * d + context * d + layers * (attention + mlp + 2 * 2 * d) + 2 * d


def parameters_of_tensors(v, d, layers, context, bias):
    with torch.device("meta"):
        block = [nn.Linear(d, d, bias=bias) for _ in range(4)] + [
            nn.Linear(d, 4 * d, bias=bias),
            nn.Linear(4 * d, d, bias=bias),
        ]
        block += [nn.LayerNorm(d), nn.LayerNorm(d)]
        ends = [nn.Embedding(v, d), nn.LayerNorm(d)] + ([nn.Embedding(context, d)] if context else [])
    size = lambda layers: sum(p.numel() for layer in layers for p in layer.parameters())
    return layers * size(block) + size(ends)


def parameters_in_d(v, d, layers, context, bias):
    return d * (v + context + 2 + layers * (12 * d + (13 if bias else 4)))


DecoderLM = {
    "a Linear head that shares its weight (nanoGPT)": (NanoLM, parameters_by_parts),
    "a Sequential of blocks, and a buffer (minGPT)": (SequentialLM, parameters_of_tensors),
    "functions on the modules' weights": (FunctionalLM, parameters_by_parts),
    "own norms, dropout, einsum (Hugging Face)": (DropoutLM, parameters_in_d),
}
