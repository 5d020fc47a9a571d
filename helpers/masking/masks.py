"""Who may attend to whom: boolean masks, a row a query, a column a key, True = may attend (PyTorch's convention).

Every mask is one predicate on the position i of the query and the position j of the key.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def positions(n: int, m: int) -> tuple[Tensor, Tensor]:
    """The positions of n queries as a column and of m keys as a row. The queries are the last n of the m positions."""
    return torch.arange(m - n, m)[:, None], torch.arange(m)[None]


def causal_mask(n: int, m: int | None = None) -> Bool[Tensor, "n m"]:
    """Every query sees itself and what came before: j ≤ i. With m, the n queries are the last of m positions."""
    i, j = positions(n, n if m is None else m)
    return j <= i


def padding_mask(lengths: Int[Tensor, "b"], n: int, m: int) -> Bool[Tensor, "b 1 n m"]:
    """Sequence b has lengths[b] real keys, then padding that no query may see."""
    real = torch.arange(m) < lengths[:, None]  # (b, m)
    return real[:, None, None, :].expand(-1, 1, n, m)


def combine_masks(*masks: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """A pair is allowed if every mask allows it. The masks broadcast against each other."""
    together = masks[0]
    for mask in masks[1:]:
        together = together & mask
    return together


# --------------------------------------------------------------- the zoo: (mask, number of allowed pairs as a formula)


def encoder_mask(n: int) -> tuple[Bool[Tensor, "n n"], int]:
    """All tokens see all tokens (BERT: Devlin et al., 2019)."""
    return torch.ones(n, n, dtype=torch.bool), n * n


def decoder_mask(n: int) -> tuple[Bool[Tensor, "n n"], int]:
    """Causal: 1 + 2 + … + n pairs (Vaswani et al., 2017, section 3.2.3)."""
    return causal_mask(n), n * (n + 1) // 2


def cross_mask(n: int, m: int) -> tuple[Bool[Tensor, "n m"], int]:
    """n queries of the decoder see all m tokens of the encoder, which is finished before the decoder starts."""
    return torch.ones(n, m, dtype=torch.bool), n * m


def prefix_mask(n: int, p: int) -> tuple[Bool[Tensor, "n n"], int]:
    """The first p tokens see each other both ways, the rest is causal (prefix LM: Raffel et al., 2020, section 3.2)."""
    i, j = positions(n, n)
    return (j <= i) | (j < p), n * (n + 1) // 2 + p * (p - 1) // 2


def sliding_window_mask(n: int, w: int) -> tuple[Bool[Tensor, "n n"], int]:
    """Causal, and w tokens wide: a token sees itself and the w − 1 before it (Mistral 7B: Jiang et al., 2023)."""
    i, j = positions(n, n)
    full = min(n, w)
    return (j <= i) & (i - j < w), n * full - full * (full - 1) // 2


def global_tokens_mask(n: int, r: int, g: int) -> tuple[Bool[Tensor, "n n"], int]:
    """A band of r tokens to either side; the first g see all and are seen by all (Longformer: Beltagy et al., 2020)."""
    i, j = positions(n, n)
    rest, reach = n - g, min(r, max(n - g - 1, 0))
    band = rest * (2 * reach + 1) - reach * (reach + 1)  # among the n − g tokens that are not global
    return ((i - j).abs() <= r) | (i < g) | (j < g), band + 2 * g * n - g * g


def packed_mask(lengths: tuple[int, ...]) -> tuple[Bool[Tensor, "n n"], int]:
    """Documents packed one after the other into one sequence: causal, and each document by itself."""
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    causal = causal_mask(len(document))
    return causal & (document[:, None] == document), sum(size * (size + 1) // 2 for size in lengths)


def which_positions() -> tuple[int, ...]:
    """Documents of 5 and 4 tokens in one sequence, causal, a window of 4: what query 7 sees."""
    documents, (causal, _) = packed_mask((5, 4))[0], sliding_window_mask(9, 4)
    return tuple((documents & causal)[7].nonzero().flatten().tolist())
