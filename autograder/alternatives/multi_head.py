"""Right answers of unit 04 in other styles."""

import math

import torch
import torch.nn.functional as F
from torch import nn

split_heads = {
    "view and permute": lambda x, h: x.view(x.shape[0], x.shape[1], h, x.shape[2] // h).permute(0, 2, 1, 3),
    "chunks, stacked": lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
    "copied head by head": lambda x, h: torch.cat(
        [x[:, None, :, i * (x.shape[-1] // h) : (i + 1) * (x.shape[-1] // h)] for i in range(h)], dim=1
    ),
    "windows that don't overlap": lambda x, h: x.unfold(2, x.shape[2] // h, x.shape[2] // h).permute(0, 2, 1, 3),
    "view and swapaxes": lambda x, h: x.view(*x.shape[:2], h, x.shape[2] // h).swapaxes(-2, -3),
}


def merge_into_place(x):
    b, h, n, d_h = x.shape
    result = torch.empty(b, n, h * d_h, dtype=x.dtype)
    for head in range(h):
        result[..., head * d_h : (head + 1) * d_h] = x[:, head]
    return result


merge_heads = {
    "contiguous and view": lambda x: x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1),
    "heads concatenated": lambda x: torch.cat(list(x.unbind(1)), dim=-1),
    "written into place": merge_into_place,
    "einsum and reshape": lambda x: torch.einsum("bhnk->bnhk", x).reshape(x.shape[0], x.shape[2], -1),
}


def loop_as_sum(x, memory, w_q, w_k, w_v, w_o, mask):
    output, d_h = torch.zeros_like(x), w_q.shape[-1]
    for i in range(len(w_q)):
        scores = (x @ w_q[i]) @ (memory @ w_k[i]).transpose(1, 2) / d_h**0.5
        weights = F.softmax(scores.where(mask, torch.tensor(float("-inf"), dtype=x.dtype)), dim=-1)
        output += weights @ (memory @ w_v[i]) @ w_o[i * d_h : (i + 1) * d_h]
    return output


def loop_replaced_by_einsum(x, memory, w_q, w_k, w_v, w_o, mask):
    q, k, v = (torch.einsum("bnd,hde->bhne", t, w) for t, w in ((x, w_q), (memory, w_k), (memory, w_v)))
    scores = torch.einsum("bhne,bhme->bhnm", q, k) / math.sqrt(w_q.shape[-1])
    weights = (scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf"))).softmax(-1)
    return torch.einsum("bhnm,bhme,hed->bnd", weights, v, w_o.view(len(w_q), -1, w_o.shape[1]))


def loop_over_batch_and_heads(x, memory, w_q, w_k, w_v, w_o, mask):
    rows = []
    for tokens, others in zip(x, memory):
        heads = []
        for q, k, v in zip(w_q, w_k, w_v):
            scores = ((tokens @ q) @ (others @ k).T / math.sqrt(q.shape[1])).masked_fill(~mask, -torch.inf)
            # Each row takes its own maximum: with one for all rows some would underflow.
            powers = torch.exp(scores - scores.amax(1, keepdim=True))
            heads.append(powers / powers.sum(1, keepdim=True) @ (others @ v))
        rows.append(torch.cat(heads, dim=1) @ w_o)
    return torch.stack(rows)


def loop_in_float64(x, memory, w_q, w_k, w_v, w_o, mask):
    heads = []
    for q, k, v in zip(w_q.double(), w_k.double(), w_v.double()):
        scores = (x.double() @ q) @ (memory.double() @ k).mT / math.sqrt(q.shape[-1])
        scores[..., ~mask] = -1e30
        heads.append(torch.softmax(scores, dim=-1) @ (memory.double() @ v))
    return torch.cat(heads, dim=-1) @ w_o.double()


def loop_by_einsum_with_an_additive_mask(x, memory, w_q, w_k, w_v, w_o, mask):
    hide = torch.zeros(mask.shape, dtype=x.dtype).masked_fill_(~mask, -math.inf)
    found = []
    for i in range(len(w_q)):
        q = torch.einsum("bnd,de->bne", x, w_q[i]) * w_q.shape[-1] ** -0.5
        k, v = (torch.einsum("bmd,de->bme", memory, w[i]) for w in (w_k, w_v))
        found.append(torch.einsum("bnm,bme->bne", (torch.einsum("bne,bme->bnm", q, k) + hide).softmax(dim=-1), v))
    return torch.einsum("bnf,fd->bnd", torch.cat(found, dim=2), w_o)


def one_head_by_exponentials(x, memory, w_q, w_k, w_v, mask):
    scores = torch.matmul(x @ w_q, (memory @ w_k).mT).div(math.sqrt(w_q.size(1)))
    scores = torch.where(mask, scores, -torch.inf)
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return (powers / powers.sum(dim=-1, keepdim=True)) @ (memory @ w_v)


def loop_as_sum_over_blocks(x, memory, w_q, w_k, w_v, w_o, mask):
    blocks = w_o.chunk(len(w_q), dim=0)
    return sum(one_head_by_exponentials(x, memory, *w, mask) @ block for *w, block in zip(w_q, w_k, w_v, blocks))


multi_head_loop = {
    "a sum of heads": loop_as_sum,
    "no loop: einsum": loop_replaced_by_einsum,
    "a loop over the batch too": loop_over_batch_and_heads,
    "in float64": loop_in_float64,
    "einsum and an additive mask": loop_by_einsum_with_an_additive_mask,
    "a sum over blocks of W_O, softmax by hand": loop_as_sum_over_blocks,
}


class FusedLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.heads = h
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d, d))

    def forward(self, x, memory=None, mask=None):
        source = memory if memory is not None else x
        q, k, v = (
            layer(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, t in ((self.w_q, x), (self.w_k, source), (self.w_v, source))
        )
        if mask is not None:
            mask = mask.unsqueeze(-3)
        return self.w_o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class EinsumLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.d_h = d // h
        self.w_q, self.w_k, self.w_v, self.w_o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.w_q(x).view(*x.shape[:2], -1, self.d_h)
        k = self.w_k(memory).view(*memory.shape[:2], -1, self.d_h)
        v = self.w_v(memory).view(*memory.shape[:2], -1, self.d_h)
        scores = torch.einsum("bnhe,bmhe->bhnm", q, k) * self.d_h**-0.5
        if mask is not None:
            mask = mask if mask.dim() == 3 else mask[None]
            scores = torch.where(mask[:, None], scores, -math.inf)
        return self.w_o(torch.einsum("bhnm,bmhe->bnhe", scores.softmax(-1), v).reshape(x.shape))


class LoopLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.d, self.h = d, h
        self.w_q = nn.Linear(d, d)
        self.w_k = nn.Linear(d, d)
        self.w_v = nn.Linear(d, d)
        self.w_o = nn.Linear(d, d)

    def forward(self, x, memory=None, mask=None):
        if memory is None:
            memory = x
        width, heads = self.d // self.h, []
        for i in range(self.h):
            part = slice(i * width, (i + 1) * width)
            q, k, v = self.w_q(x)[..., part], self.w_k(memory)[..., part], self.w_v(memory)[..., part]
            scores = q @ k.transpose(-2, -1) / math.sqrt(width)
            if mask is not None:
                scores = scores.masked_fill(mask.logical_not(), float("-inf"))
            heads.append(torch.softmax(scores, dim=-1) @ v)
        return self.w_o(torch.cat(heads, dim=-1))


class FoldedLayer(nn.Module):
    """Heads folded into the batch axis, as older code does."""

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.w_q, self.w_k, self.w_v, self.w_o = [nn.Linear(d, d) for _ in range(4)]

    def fold(self, t):
        return torch.cat(t.chunk(self.h, dim=-1), dim=0)  # (h·b, n, d_h)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = self.fold(self.w_q(x)), self.fold(self.w_k(memory)), self.fold(self.w_v(memory))
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        if mask is not None:
            full = mask.expand(x.shape[0], -1, -1).repeat(self.h, 1, 1)
            scores = scores + torch.zeros_like(scores).masked_fill(~full, float("-inf"))
        heads = torch.bmm(F.softmax(scores, dim=-1), v).chunk(self.h, dim=0)
        return self.w_o(torch.cat(heads, dim=-1))


class LayerOnSplitAxes(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.heads = h
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d, d))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = (
            w(t).unflatten(-1, (self.heads, -1)) for w, t in ((self.w_q, x), (self.w_k, memory), (self.w_v, memory))
        )
        scores = torch.einsum("bnhe,bmhe->bhnm", q, k) / q.size(-1) ** 0.5
        if mask is not None:
            scores = torch.where(mask[..., None, :, :], scores, -math.inf)
        return self.w_o(torch.einsum("bhnm,bmhe->bnhe", scores.softmax(dim=-1), v).flatten(-2))


class LayerThatCountsAxes(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        source = x if memory is None else memory
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q, k, v = (torch.stack(t.chunk(self.h, -1), 1) for t in (self.w_q(x), self.w_k(source), self.w_v(source)))
        return self.w_o(torch.cat(F.scaled_dot_product_attention(q, k, v, mask).unbind(1), -1))


class LayerOfBatchedProducts(nn.Module):
    """Heads folded into the batch axis; masks repeated, and added inside the product."""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.d_h = h, d // h
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        b, n, m = len(x), x.shape[1], memory.shape[1]

        def fold(y):
            return y.reshape(b, -1, self.h, self.d_h).transpose(1, 2).reshape(b * self.h, -1, self.d_h)

        q, k, v = fold(self.w_q(x)), fold(self.w_k(memory)), fold(self.w_v(memory))
        wall = q.new_zeros(b, n, m)
        if mask is not None:
            wall.masked_fill_(mask.logical_not(), -math.inf)
        wall = wall.repeat_interleave(self.h, dim=0)
        scores = torch.baddbmm(wall, q, k.transpose(1, 2), alpha=1 / math.sqrt(self.d_h))
        heads = torch.bmm(F.softmax(scores, dim=-1), v).view(b, self.h, n, self.d_h)
        return self.w_o(heads.permute(0, 2, 1, 3).reshape(b, n, self.h * self.d_h))


MultiHeadAttention = {
    "batched products on folded heads": LayerOfBatchedProducts,
    "PyTorch's fused attention": FusedLayer,
    "einsum without a transpose": EinsumLayer,
    "a loop over slices": LoopLayer,
    "heads folded into the batch": FoldedLayer,
    "einsum on split axes": LayerOnSplitAxes,
    "fused, the mask by its number of axes": LayerThatCountsAxes,
}


def parameters_counted(d, h, d_h):
    layers = [nn.Linear(d, h * d_h), nn.Linear(d, h * d_h), nn.Linear(d, h * d_h), nn.Linear(h * d_h, d)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


head_parameters = {
    "counted in modules": parameters_counted,
    "head by head": lambda d, h, d_h: sum(3 * (d * d_h + d_h) + d_h * d for _ in range(h)) + d,
}


def flops_counted(n, d, h, d_h):
    product = lambda a, b, c: 2 * a * b * c  # noqa: E731
    projections = 3 * product(n, d, h * d_h) + product(n, h * d_h, d)
    return projections + sum(product(n, d_h, n) + product(n, n, d_h) for _ in range(h))


head_flops = {"product by product": flops_counted, "one formula": lambda n, d, h, d_h: 4 * n * h * d_h * (2 * d + n)}


def parts_by_loop(heads, w_o):
    d_h = heads.shape[-1]
    parts = [heads[:, i] @ w_o[i * d_h : (i + 1) * d_h] for i in range(heads.shape[1])]
    return torch.stack(parts, dim=1), sum(parts)


def parts_by_einsum(heads, w_o):
    blocks = w_o.reshape(heads.shape[1], heads.shape[-1], -1)
    return torch.einsum("bhne,hed->bhnd", heads, blocks), torch.einsum("bhne,hed->bnd", heads, blocks)


def parts_by_silencing(heads, w_o):
    parts = []
    for i in range(heads.shape[1]):
        alone = torch.zeros_like(heads)
        alone[:, i] = heads[:, i]
        parts.append(alone.transpose(1, 2).flatten(2) @ w_o)
    return torch.stack(parts, dim=1), heads.transpose(1, 2).flatten(2) @ w_o


heads_as_sum = {
    "a loop over the heads": parts_by_loop,
    "einsum": parts_by_einsum,
    "all other heads set to zero": parts_by_silencing,
}


def grouped_by_view(q, k, v):
    grouped = q.unflatten(1, (k.shape[1], -1))  # (b, h_kv, size, n, d_h)
    scores = grouped @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1])
    return (torch.softmax(scores, dim=-1) @ v.unsqueeze(2)).flatten(1, 2)


def grouped_by_loop(q, k, v):
    size, heads = q.shape[1] // k.shape[1], []
    for i in range(q.shape[1]):
        scores = q[:, i] @ k[:, i // size].transpose(1, 2) / math.sqrt(q.shape[-1])
        heads.append(scores.softmax(-1) @ v[:, i // size])
    return torch.stack(heads, dim=1)


def grouped_by_expand(q, k, v):
    b, h_kv, m, d_h = k.shape
    size = q.shape[1] // h_kv
    k, v = (t[:, :, None].expand(b, h_kv, size, m, d_h).reshape(b, -1, m, d_h) for t in (k, v))
    return torch.einsum("bhnm,bhmd->bhnd", F.softmax(torch.einsum("bhnd,bhmd->bhnm", q, k) * d_h**-0.5, -1), v)


def grouped_by_rows(q, k, v):
    # The queries of a group stand below each other as if they were more tokens of one head.
    b, h, n, d_h = q.shape
    tall = q.reshape(b, k.shape[1], -1, d_h)
    return (torch.softmax(tall @ k.mT / math.sqrt(d_h), dim=-1) @ v).reshape(b, h, n, d_h)


grouped_query_attention = {
    "a view into groups": grouped_by_view,
    "a loop over the query heads": grouped_by_loop,
    "expand and einsum": grouped_by_expand,
    "groups as taller matrices": grouped_by_rows,
}


def previous_head_full_width(v, n):
    d = 2 * v + n
    w_q, w_k, w_v, w_o = (torch.zeros(d, d, dtype=torch.float64) for _ in range(4))
    for i in range(1, n):
        w_q[2 * v + i, 2 * v + i - 1] = 50 * math.sqrt(d)
    for j in range(n):
        w_k[2 * v + j, 2 * v + j] = 1
    for t in range(v):
        w_v[t, v + t] = w_o[v + t, v + t] = 1
    return w_q, w_k, w_v, w_o


def previous_head_shifted_keys(v, n):
    w_q, w_k = torch.zeros(2 * v + n, n), torch.zeros(2 * v + n, n)
    w_q[2 * v :] = 12 * math.sqrt(n) * torch.eye(n)
    w_k[2 * v : 2 * v + n - 1, 1:] = 3 * torch.eye(n - 1)  # position j answers to a query from j + 1
    w_v = torch.cat([torch.eye(v), torch.zeros(v + n, v)])
    w_o = torch.cat([torch.zeros(v, v), torch.eye(v), torch.zeros(v, n)], dim=1)
    return [w_q, w_k, w_v, w_o]


def previous_head_on_a_circle(v, n):
    # Positions as angles: a query turned back by one step meets the position before.
    angle = 2 * math.pi * torch.arange(n) / n
    w_q, w_k = torch.zeros(2 * v + n, 2), torch.zeros(2 * v + n, 2)
    step = 2 * math.pi / n
    sharp = 12 * math.sqrt(2) / (1 - math.cos(step))
    w_q[2 * v :] = sharp * torch.stack([torch.cos(angle - step), torch.sin(angle - step)], dim=1)
    w_k[2 * v :] = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    _, _, w_v, w_o = previous_head_shifted_keys(v, n)
    return w_q, w_k, w_v, w_o


def first_head_by_start_token(v, n):
    w_q, w_k = torch.zeros(2 * v + n, 1), torch.zeros(2 * v + n, 1)
    w_q[:v], w_k[0] = 5.0, 5.0
    return w_q, w_k


def first_head_by_slope(v, n):
    w_q, w_k = torch.zeros(2 * v + n, 2), torch.zeros(2 * v + n, 2)
    w_q[2 * v :, 0] = 15.0
    w_k[2 * v :, 0] = -torch.arange(n)
    return w_q, w_k


def first_head_as_full_matrices(v, n):
    d = 2 * v + n
    w_q, w_k = torch.zeros(d, d), torch.zeros(d, d)
    w_q[2 * v :, 2 * v] = 20 * math.sqrt(d)
    w_k[2 * v, 2 * v] = 1
    return w_q, w_k


def induction_full_width(v, n):
    d = 2 * v + n
    w_q, w_k, w_v = torch.zeros(d, d), torch.zeros(d, d), torch.zeros(d, d)
    for t in range(v):
        w_q[t, v + t] = 40 * math.sqrt(d)
        w_k[v + t, v + t] = w_v[t, t] = 1
    w_q[2 * v :, 2 * v] = 20 * math.sqrt(d)
    w_k[2 * v, 2 * v] = 1
    return w_q, w_k, w_v, torch.eye(d)


def induction_without_start(v, n):
    # The start token has no match to find, so v − 1 columns are enough, and it can ask for the rest too.
    w_q, w_k = torch.zeros(2 * v + n, v), torch.zeros(2 * v + n, v)
    w_q[1:v, 1:] = 45 * math.sqrt(v) * torch.eye(v - 1)
    w_k[v + 1 : 2 * v, 1:] = torch.eye(v - 1)
    w_q[:v, 0], w_k[0, 0] = 15 * math.sqrt(v), 1
    w_v = torch.cat([torch.eye(v), torch.zeros(v + n, v)])
    return w_q, w_k, w_v, w_v.T.contiguous()


def induction_by_penalty(v, n):
    # Instead of a reward for position 0, a reward for a match and a smaller penalty for every other position.
    w_q, w_k = torch.zeros(2 * v + n, v + 1), torch.zeros(2 * v + n, v + 1)
    w_q[:v, :v] = 50 * math.sqrt(v + 1) * torch.eye(v)
    w_k[v : 2 * v, :v] = torch.eye(v)
    w_q[2 * v :, v], w_k[2 * v + 1 :, v] = math.sqrt(v + 1), -20
    w_v = torch.cat([torch.eye(v), torch.zeros(v + n, v)])
    return w_q.double(), w_k.double(), w_v.double(), w_v.T.double()


two_hand_made_heads = {
    "d × d matrices, filled by loops": (previous_head_full_width, first_head_as_full_matrices, induction_full_width),
    "shifted keys; the start token; no column for it": (
        previous_head_shifted_keys,
        first_head_by_start_token,
        induction_without_start,
    ),
    "positions on a circle; a slope; a penalty": (previous_head_on_a_circle, first_head_by_slope, induction_by_penalty),
}


def bias_by_loops(n, h):
    bias = torch.full((h, n, n), float("-inf"))
    for k in range(h):
        for i in range(n):
            for j in range(i + 1):
                bias[k, i, j] = -(2 ** (-8 * (k + 1) / h)) * (i - j)
    return bias


def bias_by_outer_product(n, h):
    ratio = 2 ** (-8 / h)
    slopes = torch.tensor([ratio**k for k in range(1, h + 1)])
    places = torch.arange(n, dtype=slopes.dtype)
    distances = (places[:, None] - places[None]).clamp(min=0)
    return torch.einsum("h,ij->hij", slopes, -distances) + torch.full((n, n), -math.inf).triu(1)


def bias_in_float64(n, h):
    slopes = torch.logspace(-8 / h, -8, h, base=2, dtype=torch.float64)
    steps = torch.ones(n, n, dtype=torch.float64).tril(-1)
    distance = steps.flip(-1).cumsum(-1).flip(-1)  # how many keys lie between, the own token left out
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    return (-slopes[:, None, None] * distance).masked_fill(hidden, -math.inf).float()


def bias_by_running_product(n, h):
    slopes = torch.full((h,), 2.0 ** (-8.0 / h), dtype=torch.float64).cumprod(0).float()
    distance = torch.ones(n, n).tril(-1).flip(1).cumsum(1).flip(1)
    return torch.full((n, n), -torch.inf).triu(1) - slopes.reshape(-1, 1, 1) * distance


alibi_bias = {
    "three loops": bias_by_loops,
    "an outer product and a causal mask": bias_by_outer_product,
    "logspace and cumsum, in float64": bias_in_float64,
    "slopes by a running product": bias_by_running_product,
}
