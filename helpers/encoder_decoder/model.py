"""Encoder and decoder joined: tokens of one sequence in, scores for those of another out (Vaswani et al., 2017)."""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from helpers.transformer_lm.positions import sinusoidal_positions

from .layers import DecoderLayer, EncoderLayer, causal_mask

PAD, START, END = 0, 1, 2
"""The three tokens that are no words, in both vocabularies."""


class EncoderDecoder(nn.Module):
    """`layers` encoder layers, as many decoder layers; all of these read the output of the *last* encoder layer."""

    def __init__(
        self, source_words: int, target_words: int, d: int, h: int, d_ff: int, layers: int, dropout: float = 0.1
    ):
        super().__init__()
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d**-0.5)  # times √d in `embed`: as large as the positions
        self.encoder = nn.ModuleList(EncoderLayer(d, h, d_ff, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d, h, d_ff, dropout) for _ in range(layers))
        self.head = nn.Linear(d, target_words)
        self.dropout = nn.Dropout(dropout)

    def embed(self, tokens: Int[Tensor, "b n"], embedding: nn.Embedding) -> Float[Tensor, "b n d"]:
        """√d times the embedding, plus the position (section 3.4 and 3.5)."""
        d = embedding.embedding_dim
        positions = sinusoidal_positions(tokens.shape[1], d).to(embedding.weight)
        return self.dropout(embedding(tokens) * math.sqrt(d) + positions)

    def encode(self, source: Int[Tensor, "b m"], real: Bool[Tensor, "b m"]) -> Float[Tensor, "b m d"]:
        """The memory. real: which source tokens are no padding."""
        x = self.embed(source, self.source_embedding)
        for layer in self.encoder:
            x = layer(x, real[:, None])  # (b, 1, m): for all queries alike
        return x

    def decode(
        self, target: Int[Tensor, "b n"], memory: Float[Tensor, "b m d"], real: Bool[Tensor, "b m"]
    ) -> Float[Tensor, "b n target_words"]:
        """Logits of the token after each target token. real: which tokens of the memory are no padding."""
        x, mask = self.embed(target, self.target_embedding), causal_mask(target.shape[1], target.device)
        for layer in self.decoder:
            x = layer(x, memory, mask, real[:, None])
        return self.head(x)

    def forward(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Float[Tensor, "b n target_words"]:
        """Logits for all target positions at once, as in training. Source tokens that are PAD are read by nobody."""
        real = source != PAD
        return self.decode(target, self.encode(source, real), real)


def which_connects_where() -> str:
    """Every decoder layer reads the output of the last encoder layer."""
    return "b"
