"""Right answers of unit 05 in other styles: loops and NumPy, the Annotated Transformer, minGPT and nanoGPT, Hugging Face, x-transformers."""

import math
from itertools import accumulate, islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from helpers.transformer_lm.training import small_model

# ---------------------------------------------------------------------------------------------------------- positions


def digits_by_loop(n, d):
    table = torch.zeros(n, d)
    for t in range(n):
        rest = t
        for i in range(d):
            rest, table[t, i] = divmod(rest, 2)
    return table


def digits_by_format(n, d):
    return torch.tensor([[float(digit) for digit in format(t, f"0{d}b")[::-1][:d]] for t in range(n)])


def digits_by_halving(n, d):
    columns, rest = [], torch.arange(n)
    for _ in range(d):
        columns.append(rest.remainder(2))
        rest = rest.div(2, rounding_mode="floor")
    return torch.stack(columns, dim=1).to(torch.get_default_dtype())


binary_positions = {
    "halved again and again": digits_by_halving,
    "a loop with divmod": digits_by_loop,
    "Python's own formatting": digits_by_format,
    "bits shifted, as whole numbers": lambda n, d: torch.arange(n)[:, None] >> torch.arange(d) & 1,
    "NumPy": lambda n, d: torch.from_numpy((np.arange(n)[:, None] // 2.0 ** np.arange(d)) % 2),
}


def annotated_positions(n, d, base):
    """The Annotated Transformer: exp of logarithms, written into every second column."""
    table, where = torch.zeros(n, d), torch.arange(0, n).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d, 2) * -(math.log(base) / d))
    table[:, 0::2], table[:, 1::2] = torch.sin(where * rate), torch.cos(where * rate)
    return table


def positions_by_numpy(n, d, base):
    angle = np.arange(n)[:, None] / base ** (2 * (np.arange(d) // 2) / d)
    return torch.from_numpy(np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle)))


def positions_by_complex_hands(n, d, base):
    angle = torch.arange(n)[:, None] * torch.tensor([base ** (-2 * i / d) for i in range(d // 2)])
    hands = torch.polar(torch.ones_like(angle), angle)  # cos + i sin
    return torch.view_as_real(hands).flip(-1).flatten(1)


sinusoidal_positions = {
    "the hands of clocks as complex numbers": positions_by_complex_hands,
    "the Annotated Transformer": annotated_positions,
    "NumPy, one angle for each column": positions_by_numpy,
    "a loop over positions and pairs": lambda n, d, base: torch.tensor(
        [[f(t / base ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)] for t in range(n)]
    ),
    "sine of a shifted angle": lambda n, d, base: torch.sin(
        torch.outer(torch.arange(n).double(), base ** -(torch.arange(d) // 2 * 2 / d).double())
        + torch.arange(d) % 2 * (math.pi / 2)
    ),
}
frequencies_fall = {"a capital letter": lambda: "B", "in a list": lambda: ["b"]}


def shift_by_loop(k, d, base):
    m = torch.zeros(d, d)
    for i in range(0, d, 2):
        angle = k * base ** (-i / d)
        m[i, i] = m[i + 1, i + 1] = math.cos(angle)
        m[i, i + 1], m[i + 1, i] = -math.sin(angle), math.sin(angle)
    return m


def shift_by_exponential(k, d, base):
    generator = torch.zeros(d, d, dtype=torch.float64)
    for i in range(0, d, 2):
        generator[i + 1, i], generator[i, i + 1] = base ** (-i / d), -(base ** (-i / d))
    return torch.linalg.matrix_exp(k * generator)


def shift_by_kronecker(k, d, base):
    angle = k * base ** (-2 * torch.arange(d // 2).double() / d)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.double)
    m = torch.kron(angle.cos().diag(), torch.eye(2, dtype=torch.double)) + torch.kron(angle.sin().diag(), turn)
    return m.float()


shift_is_rotation = {
    "Kronecker products": shift_by_kronecker,
    "a loop over pairs": shift_by_loop,
    "the exponential of a generator": shift_by_exponential,
    "blocks": lambda k, d, base: torch.block_diag(
        *(
            torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            for a in (k * base ** (-2 * i / d) for i in range(d // 2))
        )
    ),
}


def rotary_by_complex(x, positions, base):
    """Llama's way: a pair is a complex number."""
    theta = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    turn = torch.polar(torch.ones((), dtype=torch.float64), positions[..., None] * theta)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


def rotary_by_rotated_copy(x, positions, base):
    """Hugging Face's and x-transformers' way: x cos + rotate(x) sin, with neighbours as pairs."""
    theta = base ** -(torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angle = (positions[..., None] * theta).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angle.cos().to(x.dtype) + partner * angle.sin().to(x.dtype)


def rotary_by_assignment(x, positions, base):
    out = torch.empty_like(x)
    for i in range(x.shape[-1] // 2):
        angle = positions.double() * base ** (-2 * i / x.shape[-1])
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        out[..., 2 * i] = x[..., 2 * i] * cos - x[..., 2 * i + 1] * sin
        out[..., 2 * i + 1] = x[..., 2 * i] * sin + x[..., 2 * i + 1] * cos
    return out


def rotary_by_matrices(x, positions, base):
    *_, d = x.shape
    phi = positions[..., None].double() * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    rows = [torch.stack([phi.cos(), -phi.sin()], -1), torch.stack([phi.sin(), phi.cos()], -1)]
    turn = torch.stack(rows, dim=-2).to(x.dtype)  # (…, n, d/2, 2, 2)
    return torch.einsum("...rc,...c->...r", turn, x.unflatten(-1, (d // 2, 2))).reshape(x.shape)


def rotary_in_single_precision(x, positions, base):
    """Angles in float32, as most models have them."""
    angles = positions[..., None] * (1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
    cos, sin = torch.cos(angles), torch.sin(angles)
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).reshape(x.shape).to(x.dtype)


def rotary_by_wide_complex(x, positions, base):
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    pair = torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    angle = positions.double().unsqueeze(-1) / base ** (2 * pair / x.shape[-1])
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).reshape(x.shape).to(x.dtype)


rotary_embedding = {
    "a matrix for each pair, einsum": rotary_by_matrices,
    "angles in float32": rotary_in_single_precision,
    "complex numbers (Llama)": rotary_by_complex,
    "complex numbers in float64, brought back to the dtype of x": rotary_by_wide_complex,
    "a rotated copy (Hugging Face)": rotary_by_rotated_copy,
    "a loop over pairs": rotary_by_assignment,
}

# ------------------------------------------------------------------------------------------------------------- layers


def norm_by_rows(x, weight, bias, eps):
    rows = [
        weight * (row - row.mean()) / (((row - row.mean()) ** 2).sum() / len(row) + eps).sqrt() + bias
        for row in x.reshape(-1, x.shape[-1])
    ]
    return torch.stack(rows).reshape(x.shape)


def norm_by_length(x, weight, bias, eps):
    d = x.size(-1)
    deviation = x - torch.einsum("...i->...", x)[..., None] / d
    spread = torch.linalg.vector_norm(deviation, dim=-1, keepdim=True) ** 2 / d
    return torch.addcmul(bias, deviation * (spread + eps).pow(-0.5), weight)


def norm_by_var_mean(x, weight, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0)
    scale = torch.rsqrt(variance + eps)[..., None]
    return torch.addcmul(bias, x - mean[..., None], weight * scale)


layer_norm = {
    "var_mean, and the gain in the scale": norm_by_var_mean,
    "var with unbiased=False": lambda x, w, b, eps: (
        w * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt() + b
    ),
    "var with correction=0 and rsqrt": lambda x, w, b, eps: (
        (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps) * w + b
    ),
    "row by row": norm_by_rows,
    "the length of the deviation, addcmul": norm_by_length,
}


def rms_by_dot_product(x, weight, eps):
    squares = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)  # (…, 1)
    return x * (squares / x.shape[-1] + eps).sqrt().reciprocal() * weight


rms_norm = {
    "each row's dot product with itself": rms_by_dot_product,
    "rsqrt (Llama)": lambda x, w, eps: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w,
    "the norm over √d (x-transformers)": lambda x, w, eps: (
        x / ((x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** 0.5) * w
    ),
    "einsum": lambda x, w, eps: torch.einsum(
        "...d,...,d->...d", x, (torch.einsum("...d,...d->...", x, x) / x.shape[-1] + eps) ** -0.5, w
    ),
}


def gate_and_up_in_one_product(x, w_gate, w_up, w_down):
    gate, up = (x @ torch.cat([w_gate, w_up], dim=1)).chunk(2, dim=-1)
    return F.linear(gate.sigmoid() * gate * up, w_down.mT)


def relu_by_where(x, w_1, b_1, w_2, b_2):
    inner = F.linear(x, w_1.T, b_1)
    return F.linear(torch.where(inner > 0, inner, torch.zeros_like(inner)), w_2.T, b_2)


def sigmoid_by_tanh(x, w_gate, w_up, w_down):
    gate, up = torch.matmul(x, torch.cat([w_gate, w_up], dim=1)).split(w_gate.shape[1], dim=-1)
    return torch.einsum("...f,...f,...f,fd->...d", gate, 0.5 + 0.5 * torch.tanh(gate / 2), up, w_down)


def sigmoid_by_cases(x, w_gate, w_up, w_down):
    """Nothing is raised to more than e^0."""
    gate = x @ w_gate
    small = torch.exp(-gate.abs())
    return ((torch.where(gate >= 0, 1.0, small) / (1 + small)) * gate * (x @ w_up)) @ w_down


feed_forward = {
    "relu as a product, and the sigmoid by cases": (
        lambda x, w_1, b_1, w_2, b_2: ((x @ w_1 + b_1) * (x @ w_1 + b_1 > 0)) @ w_2 + b_2,
        sigmoid_by_cases,
    ),
    "relu_, and the sigmoid from its logarithm": (
        lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1).relu_() @ w_2 + b_2,
        lambda x, w_gate, w_up, w_down: (F.logsigmoid(x @ w_gate).exp() * (x @ w_gate) * (x @ w_up)) @ w_down,
    ),
    "where, and the sigmoid as a tanh": (relu_by_where, sigmoid_by_tanh),
    "a threshold, and gate and up in one product": (
        lambda x, w_1, b_1, w_2, b_2: F.threshold(x @ w_1 + b_1, 0, 0) @ w_2 + b_2,
        gate_and_up_in_one_product,
    ),
    "F.linear and F.relu": (
        lambda x, w_1, b_1, w_2, b_2: F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2),
        lambda x, w_gate, w_up, w_down: F.linear(F.silu(F.linear(x, w_gate.T)) * F.linear(x, w_up.T), w_down.T),
    ),
    "clamp, and sigmoid written out": (
        lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1).clamp(min=0) @ w_2 + b_2,
        lambda x, w_gate, w_up, w_down: ((x @ w_gate) * torch.sigmoid(x @ w_gate) * (x @ w_up)) @ w_down,
    ),
    "einsum": (
        lambda x, w_1, b_1, w_2, b_2: (
            torch.einsum("...f,fd->...d", torch.einsum("...d,df->...f", x, w_1).add(b_1).relu(), w_2) + b_2
        ),
        lambda x, w_gate, w_up, w_down: torch.einsum("...f,fd->...d", F.silu(x @ w_gate) * (x @ w_up), w_down),
    ),
}


def stream_in_one_tensor(x, layers):
    out = x.new_empty(len(layers) + 1, *x.shape)
    out[0] = x
    for index, layer in enumerate(layers):
        x = x + layer(x)  # not out[index]: no layer reads from a tensor that is written to later
        out[index + 1] = x
    return out


def stream_as_a_sum(x, layers):
    states, total = [x], x
    for layer in layers:
        total = total + layer(total)
        states += [total]
    return torch.cat([state[None] for state in states])


def stream_by_recursion(x, layers):
    if len(layers) == 0:
        return x.unsqueeze(0)
    first, *others = layers
    return torch.cat([x[None], stream_by_recursion(x + first(x), others)], dim=0)


residual = {
    "one tensor filled": stream_in_one_tensor,
    "a running sum": stream_as_a_sum,
    "itertools": lambda x, layers: torch.stack(
        list(accumulate(layers, lambda stream, f: stream + f(stream), initial=x))
    ),
    "a recursion": stream_by_recursion,
}


def block_annotated(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    """The Annotated Transformer's sublayer connection."""

    def connect(x, norm, layer):
        return x + layer(norm(x)) if pre_norm else norm(x + layer(x))

    return connect(connect(x, norm_1, attention), norm_2, feed_forward)


def block_written_out(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        middle = x + attention(norm_1(x))
        return middle + feed_forward(norm_2(middle))
    middle = norm_1(x + attention(x))
    return norm_2(middle + feed_forward(middle))


def block_with_a_stored_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    """Hugging Face: the residual is kept in a variable."""
    for layer, norm in zip([attention, feed_forward], [norm_1, norm_2]):
        kept = x
        hidden = layer(norm(x) if pre_norm else x)
        x = kept + hidden
        x = x if pre_norm else norm(x)
    return x


def block_as_a_loop(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    same = lambda z: z
    for layer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        before, after = (norm, same) if pre_norm else (same, norm)
        x = after(torch.add(layer(before(x)), x))
    return x


def block_of_closures(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    def before(norm, f):
        return lambda stream: torch.add(f(norm(stream)), stream)

    def after(norm, f):
        return lambda stream: norm(torch.add(f(stream), stream))

    wrap = before if pre_norm else after
    return wrap(norm_2, feed_forward)(wrap(norm_1, attention)(x))


transformer_block = {
    "a closure for each half": block_of_closures,
    "a loop with what stands before and after": block_as_a_loop,
    "a sublayer connection (the Annotated Transformer)": block_annotated,
    "written out": block_written_out,
    "a stored residual (Hugging Face)": block_with_a_stored_residual,
}

# -------------------------------------------------------------------------------------------------------------- model


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
what_is_trained = {
    "capitals with commas": lambda: "A, C, E, G",
    "a list in another order": lambda: ["g", "e", "c", "a"],
}

# ----------------------------------------------------------------------------------------------------------- training


def loss_with_ignored(logits, tokens, lengths):
    """Hugging Face: shift, mark padding with −100, flatten."""
    labels = tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], -100)
    shifted, targets = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
    return F.cross_entropy(shifted.view(-1, shifted.size(-1)), targets.view(-1))


def loss_by_rows(logits, tokens, lengths):
    parts = [
        F.cross_entropy(row[: n - 1], text[1:n], reduction="sum")
        for row, text, n in zip(logits, tokens, lengths.tolist())
    ]
    return sum(parts) / (lengths - 1).sum()


def loss_by_logsumexp(logits, tokens, lengths):
    real = (torch.arange(tokens.shape[1] - 1) < lengths[:, None] - 1).to(logits.dtype)
    picked = torch.einsum("bnv,bnv->bn", logits[:, :-1], F.one_hot(tokens[:, 1:], logits.shape[-1]).to(logits.dtype))
    return ((logits[:, :-1].logsumexp(-1) - picked) * real).sum() / real.sum()


def loss_of_joined_texts(logits, tokens, lengths):
    pairs = [(row[: max(k - 1, 0)], text[1:k]) for row, text, k in zip(logits, tokens, lengths.tolist())]
    scores, targets = (torch.cat(part) for part in zip(*pairs))
    chosen = scores[torch.arange(len(targets)), targets]
    return (scores.logsumexp(dim=-1) - chosen).mean()


def loss_of_rolled_tokens(logits, tokens, lengths):
    place = torch.arange(tokens.shape[1]).expand_as(tokens)
    wanted = torch.where(place + 1 < lengths[:, None], tokens.roll(-1, dims=1), -100)
    return F.nll_loss(F.log_softmax(logits, dim=-1).movedim(-1, 1), wanted, ignore_index=-100)


next_token_loss = {
    "texts cut and joined": loss_of_joined_texts,
    "tokens rolled, nll_loss": loss_of_rolled_tokens,
    "−100 and cross_entropy (Hugging Face)": loss_with_ignored,
    "row by row": loss_by_rows,
    "logsumexp and one-hot": loss_by_logsumexp,
}


def rate_nano(step, steps, warm_up, peak, floor):
    """nanoGPT's, with its coefficient."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    coefficient = 0.5 * (1.0 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))
    return floor + coefficient * (peak - floor)


def rate_weighted(step, steps, warm_up, peak, floor):
    if step + 1 <= warm_up:
        return (step + 1) / warm_up * peak
    share = np.cos(np.pi / 2 * (step - warm_up) / (steps - warm_up)) ** 2
    return float(share * peak + (1 - share) * floor)


def rate_from_the_end(step, steps, warm_up, peak, floor):
    if step >= warm_up:
        share = math.sin(0.5 * math.pi * (steps - step) / (steps - warm_up)) ** 2
        return share * peak + (1 - share) * floor
    return (step + 1) * (peak / warm_up)


learning_rate = {
    "with a coefficient (nanoGPT)": rate_nano,
    "a weighted mean, cos²": rate_weighted,
    "counted from the end, sin²": rate_from_the_end,
}


def train_nano(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """nanoGPT: parameters by name, cross_entropy with ignore_index, set_to_none."""
    model = small_model() if model is None else model
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    groups = [
        {"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer, history = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95)), []
    for rate, (x, y) in zip(rates, batches):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        history.append(float(loss))
        if watch is not None:
            watch(len(history) - 1, history[-1])
    return history


def train_by_schedule(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """A LambdaLR, the loss by hand, clipping by hand."""
    model = small_model() if model is None else model
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": others, "weight_decay": 0}, {"params": matrices, "weight_decay": weight_decay}],
        lr=1,
        betas=(0.9, 0.95),
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rates[min(step, len(rates) - 1)])
    losses = torch.zeros(len(rates), dtype=torch.float64)
    for step, (_, (inputs, targets)) in enumerate(zip(rates, batches)):
        log_p = model(inputs).log_softmax(-1)
        loss = -log_p[targets != -100].gather(1, targets[targets != -100][:, None]).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        length = torch.sqrt(sum((g**2).sum() for g in gradients))
        for parameter, gradient in zip(model.parameters(), gradients):
            parameter.grad = gradient * min(1.0, clip / float(length))
        optimiser.step()
        schedule.step()
        losses[step] = loss.detach()
        if watch:
            watch(step, float(losses[step]))
    return losses.tolist()


def train_by_hand(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """AdamW itself written out."""
    model = small_model() if model is None else model
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    stream, losses = iter(batches), []
    for step, rate in enumerate(rates, start=1):
        inputs, targets = next(stream)
        real = targets.ne(-100)
        loss = F.cross_entropy(model(inputs)[real], targets[real])
        losses.append(loss.item())
        if watch is not None:
            watch(step - 1, losses[-1])
        gradients = torch.autograd.grad(loss, parameters)
        length = math.sqrt(sum(g.square().sum().item() for g in gradients))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second):
                g = g * (clip / length if length > clip else 1.0)
                m.lerp_(g, 0.1)
                v.lerp_(g * g, 0.05)
                p.mul_(1 - rate * weight_decay if p.dim() >= 2 else 1.0)
                p.sub_(rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.95**step)).sqrt() + 1e-8))
    return losses


def train_with_many_optimisers(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """One AdamW for each parameter."""
    model = small_model() if model is None else model
    optimisers = [
        torch.optim.AdamW([p], betas=(0.9, 0.95), weight_decay=0.0 if p.ndim < 2 else weight_decay)
        for p in model.parameters()
    ]

    def one_step(inputs, targets, rate):
        model.zero_grad()
        asked = targets != -100
        loss = F.cross_entropy(model(inputs)[asked], targets[asked])
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
        for optimiser in optimisers:
            optimiser.param_groups[0].update(lr=rate)
            optimiser.step()
        return loss.item()

    losses = []
    for step, (inputs, targets) in enumerate(islice(batches, len(rates))):
        losses.append(one_step(inputs, targets, rates[step]))
        if watch is not None:
            watch(step, losses[step])
    return losses


train = {
    "an AdamW for each parameter, islice": train_with_many_optimisers,
    "AdamW written out": train_by_hand,
    "parameters by name (nanoGPT)": train_nano,
    "a schedule, clipping by hand": train_by_schedule,
}

# ------------------------------------------------------------------------------------------------------------ writing


def hugging_face_probabilities(logits, temperature, top_k, top_p):
    """A chain of warpers that set logits to −∞."""
    if temperature == 0:
        return (logits == logits.max(-1, keepdim=True).values).to(logits.dtype)
    scores = logits / temperature
    if top_k is not None:
        scores = scores.masked_fill(
            scores < torch.topk(scores, min(top_k, scores.size(-1)))[0][..., -1, None], -float("inf")
        )
    if top_p is not None:
        sorted_scores, order = torch.sort(scores, descending=False)
        remove = sorted_scores.softmax(-1).cumsum(-1) <= 1 - top_p
        remove[..., -1:] = False
        scores = scores.masked_fill(remove.scatter(-1, order, remove), -float("inf"))
    return scores.softmax(-1)


def probabilities_by_rows(logits, temperature, top_k, top_p):
    rows = []
    for row in logits.reshape(-1, logits.shape[-1]).tolist():
        if temperature == 0:
            rows.append([float(i == row.index(max(row))) for i in range(len(row))])
            continue
        powers = [math.exp((value - max(row)) / temperature) for value in row]
        order = sorted(range(len(row)), key=lambda i: -powers[i])[: top_k or len(row)]
        mass, kept, total = 0.0, [], sum(powers[i] for i in order)
        for i in order:
            if top_p is None or mass < top_p:
                kept.append(i)
                mass += powers[i] / total
        share = sum(powers[i] for i in kept)
        rows.append([powers[i] / share if i in kept else 0.0 for i in range(len(row))])
    return torch.tensor(rows).view(logits.shape)


def x_transformers_probabilities(logits, temperature, top_k, top_p):
    if not temperature:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    p = torch.softmax(logits / temperature, dim=-1)
    if top_k is not None:
        value, index = p.topk(top_k, dim=-1)
        p = torch.zeros_like(p).scatter_(-1, index, value)
        p = p / p.sum(-1, keepdim=True)
    if top_p is not None:
        more_likely = (p[..., None, :] * (p[..., None, :] > p[..., :, None])).sum(-1)  # the mass before each token
        p = torch.where(more_likely < top_p, p, 0.0)
        p = p / p.sum(-1, keepdim=True)
    return p


def generate_nano(model, prompt, n, context, choose):
    idx = prompt
    for _ in range(n):
        cropped = idx if idx.size(1) <= context else idx[:, -context:]
        logits = model(cropped)
        idx = torch.cat((idx, choose(logits[:, -1, :]).unsqueeze(1)), dim=1)
    return idx[:, -n:]


def generate_into_a_buffer(model, prompt, n, context, choose):
    p, tokens = prompt.shape[1], torch.zeros(len(prompt), prompt.shape[1] + n, dtype=torch.long)
    tokens[:, :p] = prompt
    for end in range(p, p + n):
        tokens[:, end] = choose(model(tokens[:, max(0, end - context) : end])[:, -1])
    return tokens[:, p:]


def generate_as_lists(model, prompt, n, context, choose):
    rows = prompt.tolist()
    for _ in range(n):
        new = choose(model(torch.tensor([row[-context:] for row in rows]))[:, -1]).tolist()
        rows = [row + [token] for row, token in zip(rows, new)]
    return torch.tensor(rows)[:, prompt.shape[1] :]


def probabilities_by_rank(logits, temperature, top_k, top_p):
    """How many tokens stay is counted; rank 0 is the likeliest."""
    if temperature == 0:
        return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
    p = F.softmax(logits / temperature, dim=-1)
    rank = p.argsort(dim=-1, descending=True).argsort(dim=-1)

    def keep(p, how_many):
        p = torch.where(rank < how_many, p, 0.0)
        return p / p.sum(-1, keepdim=True)

    if top_k is not None:
        p = keep(p, top_k)
    if top_p is not None:
        held = torch.zeros_like(p).scatter(-1, rank, p).cumsum(-1)
        p = keep(p, (held < top_p).sum(-1, keepdim=True) + 1)
    return p


def generate_by_recursion(model, prompt, n, context, choose):
    if n == 0:
        return prompt[:, :0]
    new = choose(model(prompt[:, -context:])[:, -1]).unsqueeze(1)
    return torch.cat((new, generate_by_recursion(model, torch.cat((prompt, new), 1), n - 1, context, choose)), 1)


def probabilities_of_masked_scores(logits, temperature, top_k, top_p):
    """What is cut gets −∞, and one softmax at the end does the rest."""
    order = logits.argsort(dim=-1, descending=True)
    rank = order.argsort(dim=-1)
    if temperature == 0:
        return (rank == 0).to(logits.dtype)
    scores = logits / temperature
    if top_k is not None:
        scores = scores.masked_fill(rank >= top_k, -torch.inf)
    if top_p is not None:
        held = scores.softmax(dim=-1).gather(-1, order).cumsum(dim=-1)
        needed = 1 + (held[..., :-1] < top_p).sum(dim=-1, keepdim=True)
        scores = scores.masked_fill(rank >= needed, -torch.inf)
    return scores.softmax(dim=-1)


def generate_into_padding(model, prompt, n, context, choose):
    p = prompt.shape[1]
    text = F.pad(prompt, (0, n))
    for end in range(p, p + n):
        text[:, end] = choose(model(text[:, max(0, end - context) : end])[:, -1])
    return text[:, p:]


generate = {
    "scores masked by rank, a padded prompt": (probabilities_of_masked_scores, generate_into_padding),
    "ranks, a recursion": (probabilities_by_rank, generate_by_recursion),
    "warpers of logits (Hugging Face), nanoGPT's loop": (hugging_face_probabilities, generate_nano),
    "plain Python, a buffer": (probabilities_by_rows, generate_into_a_buffer),
    "scatter (x-transformers), lists": (x_transformers_probabilities, generate_as_lists),
}


def masked_by_loop(tokens, real, chance, other, mask_token):
    inputs, targets = tokens.clone(), torch.full_like(tokens, -100)
    for row in range(len(tokens)):
        for place in range(tokens.shape[1]):
            c = float(chance[row, place])
            if bool(real[row, place]) and c < 0.15:
                targets[row, place] = tokens[row, place]
                if c < 0.12:
                    inputs[row, place] = mask_token
                elif c < 0.135:
                    inputs[row, place] = other[row, place]
    return inputs, targets


def masked_by_indexing(tokens, real, chance, other, mask_token):
    """As Hugging Face's collator: labels first, then indices."""
    inputs, labels = tokens.clone(), tokens.clone()
    picked = (chance < 0.15).logical_and(real)
    labels[~picked] = -100
    inputs[picked & (chance < 0.12)] = mask_token
    swapped = picked & (chance >= 0.12) & (chance < 0.135)
    inputs[swapped] = other[swapped]
    return inputs, labels


def masked_by_buckets(tokens, real, chance, other, mask_token):
    edges = torch.tensor([0.12, 0.135, 0.15], dtype=chance.dtype)
    kind = torch.bucketize(chance, edges, right=True)  # 0 masked, 1 other, 2 stays, 3 not picked
    kind = torch.where(real, kind, 3)
    candidates = torch.stack([torch.full_like(tokens, mask_token), other, tokens, tokens])
    return candidates.gather(0, kind[None])[0], tokens.masked_fill(kind == 3, -100)


def masked_by_arithmetic(tokens, real, chance, other, mask_token):
    case = 3 - sum((chance < edge).to(tokens.dtype) for edge in (0.15, 0.135, 0.12))
    case = case.masked_fill(real.logical_not(), 3)
    inputs = (case == 0) * mask_token + (case == 1) * other + (case >= 2) * tokens
    return inputs, (case < 3) * tokens - 100 * (case == 3)


masked_lm_objective = {
    "four cases in whole numbers": masked_by_arithmetic,
    "buckets and gather": masked_by_buckets,
    "a loop over tokens": masked_by_loop,
    "indices of labels (Hugging Face)": masked_by_indexing,
    "where within where": lambda tokens, real, chance, other, mask_token: (
        torch.where(real & (chance < 0.12), mask_token, torch.where(real & (chance < 0.135), other, tokens)),
        torch.where(real & (chance < 0.15), tokens, -100),
    ),
}
