"""Right answers of unit 01 in other styles: loops, einsum, in place, trees, formulas derived and counted."""

import math
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import nn


def rnn_in_place(x, w_x, w_h, bias):
    b, n, _ = x.shape
    states = x.new_zeros(b, n + 1, len(bias))
    for t in range(n):
        states[:, t + 1] = torch.tanh(x[:, t] @ w_x + states[:, t].clone() @ w_h + bias)
    return states[:, 1:]


def rnn_projected_first(x, w_x, w_h, bias):
    projected = torch.einsum("bnd,de->bne", x, w_x) + bias
    state, states = torch.zeros_like(projected[:, 0]), []
    for token in projected.unbind(dim=1):
        state = (token + state.mm(w_h)).tanh()
        states.append(state.unsqueeze(1))
    return torch.cat(states, dim=1)


def rnn_joined_weights(x, w_x, w_h, bias):
    weight, state, states = torch.cat([w_x, w_h]), torch.zeros(x.shape[0], w_h.shape[0], dtype=x.dtype), []
    for t in range(x.shape[1]):
        state = torch.tanh(torch.addmm(bias, torch.cat([x[:, t], state], dim=1), weight))
        states.append(state)
    return torch.stack(states).transpose(0, 1)


def rnn_encoder_accumulated(x, w_x, w_h, bias):
    weights = torch.cat([w_x, w_h])
    h0 = x.new_zeros(len(x), w_h.size(1))

    def cell(h, token):
        return torch.tanh(torch.addmm(bias, torch.cat([token, h], dim=-1), weights))

    return torch.stack(list(accumulate(x.unbind(1), cell, initial=h0))[1:], 1)


class Cell(nn.Module):
    def __init__(self, w_x, w_h, bias):
        super().__init__()
        self.w_x, self.w_h, self.bias = (w_x, w_h, bias)

    def forward(self, token, state=None):
        z = torch.einsum("bi,ij->bj", token, self.w_x) + self.bias
        if state is not None:
            z = z + torch.einsum("bi,ij->bj", state, self.w_h)
        return torch.tanh(z)


def rnn_encoder_of_cells(x, w_x, w_h, bias):
    cell, state, out = (Cell(w_x, w_h, bias), None, [])
    for token in x.transpose(0, 1):
        state = cell(token, state)
        out.append(state.unsqueeze(1))
    return torch.cat(out, dim=1)


def rnn_sentence_by_sentence(x, w_x, w_h, bias):
    sentences = []
    for sentence in x:
        state, states = torch.zeros_like(bias), []
        for token in sentence:
            state = torch.tanh(token @ w_x + state @ w_h + bias)
            states.append(state)
        sentences.append(torch.stack(states))
    return torch.stack(sentences)


rnn_encoder = {
    "in place": rnn_in_place,
    "inputs projected first, with einsum": rnn_projected_first,
    "both weights in one product": rnn_joined_weights,
    "accumulate, weights in one": rnn_encoder_accumulated,
    "a module for the cell": rnn_encoder_of_cells,
    "sentence by sentence, token by token": rnn_sentence_by_sentence,
}


def token_by_loop(q, k, v, i):
    scores = torch.tensor([float(torch.dot(q[i], key)) / math.sqrt(q.shape[1]) for key in k], dtype=v.dtype)
    output = torch.zeros(v.shape[1], dtype=v.dtype)
    for weight, value in zip(torch.softmax(scores, dim=0), v):
        output += weight * value
    return output


def token_in_python(q, k, v, i):
    scores = [sum(a * b for a, b in zip(q[i].tolist(), key)) / math.sqrt(len(q[i])) for key in k.tolist()]
    powers = [math.exp(score - max(scores)) for score in scores]
    return torch.tensor(
        [sum(p * row[j] for p, row in zip(powers, v.tolist())) / sum(powers) for j in range(v.shape[1])], dtype=v.dtype
    )


def token_online(q, k, v, i):
    top, total, output = torch.tensor(-torch.inf), 0.0, torch.zeros(v.shape[1], dtype=v.dtype)
    for key, value in zip(k, v):
        score = (q[i] * key).sum() / q.shape[1] ** 0.5
        new = torch.maximum(top, score)
        total = total * torch.exp(top - new) + torch.exp(score - new)
        output = output * torch.exp(top - new) + torch.exp(score - new) * value
        top = new
    return output / total


def all_with_own_softmax(q, k, v):
    scores = torch.einsum("nd,md->nm", q, k) / math.sqrt(q.shape[1])
    powers = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
    return torch.einsum("nm,mv->nv", powers / powers.sum(dim=1, keepdim=True), v)


def all_by_broadcasting(q, k, v):
    scores = (q[:, None, :] * k[None, :, :]).sum(dim=-1) * q.shape[1] ** -0.5
    return (torch.softmax(scores, dim=1)[:, :, None] * v[None]).sum(dim=1)


def all_by_vmap(q, k, v):
    return torch.vmap(lambda query: torch.softmax(k @ query / math.sqrt(len(query)), dim=0) @ v)(q)


def attention_one_token_turned(q, k, v, i):
    query = q[i] * k.shape[1] ** (-0.5)
    s = k.new_empty(k.shape[0])
    for j, key in enumerate(k):
        s[j] = torch.dot(key, query)
    log_alpha = s - s.logsumexp(0)
    c = torch.zeros_like(v[0])
    for j in range(len(s)):
        c.add_(log_alpha[j].exp() * v[j])
    return c


def attention_all_tokens_turned(q, k, v):
    table = k @ (q * q.shape[1] ** (-0.5)).T
    weights = torch.exp(table - torch.logsumexp(table, dim=0))
    return (v.T @ weights).T


def attention_one_token_mapped(q, k, v, i):
    scores = torch.tensor([], dtype=q.dtype, device=q.device)
    for j in range(len(k)):
        scores = torch.cat([scores, (k[j] @ q[i] / math.sqrt(len(q[i]))).reshape(1)])
    alpha, c = (F.softmax(scores, 0), torch.zeros_like(v[0]))
    for j in reversed(range(len(v))):
        c = torch.add(c, alpha[j] * v[j])
    return c


def attention_all_tokens_mapped(q, k, v):

    def one(row):
        return torch.softmax(k @ row / math.sqrt(row.shape[0]), dim=0) @ v

    return torch.vmap(one)(q)


attention_one_token = {
    "a loop over keys; einsum": (token_by_loop, all_with_own_softmax),
    "Python numbers; broadcasting": (token_in_python, all_by_broadcasting),
    "a running softmax; vmap": (token_online, all_by_vmap),
    "one row of the whole; float64": (
        lambda q, k, v, i: (torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=1) @ v)[i],
        lambda q, k, v: torch.softmax((q.double() @ k.double().T) / math.sqrt(q.shape[1]), dim=1) @ v.double(),
    ),
    "the table turned; logsumexp": (attention_one_token_turned, attention_all_tokens_turned),
    "a growing tensor; vmap": (attention_one_token_mapped, attention_all_tokens_mapped),
}


def longest_path_by_recursion(n, layers):
    grid = [[0] * n for _ in range(layers)]
    for layer in range(layers):
        for token in range(n):
            grid[layer][token] = 1 + max(grid[layer - 1][token] if layer else 0, grid[layer][token - 1] if token else 0)
    return grid[-1][-1]


critical_path = {
    "counted in the grid": (
        lambda n: sum(1 for _ in range(n)),
        longest_path_by_recursion,
        lambda n, layers: len(range(layers)),
        lambda n, layers: sum(layers for _ in range(n)),
    ),
    "as floats": (
        lambda n: float(n),
        lambda n, layers: float(layers + (n - 1)),
        lambda n, layers: float(layers),
        lambda n, layers: 1.0 * layers * n,
    ),
}


def rnn_schedule_by_loops(layers, n):
    steps = torch.zeros(layers, n, dtype=torch.long)
    for layer in range(layers):
        for token in range(n):
            below = steps[layer - 1, token] if layer > 0 else 0
            left = steps[layer, token - 1] if token > 0 else 0
            steps[layer, token] = max(below, left) + 1
    return steps


def writing_by_loops(layers, n):
    steps, step = torch.zeros(layers, n, dtype=torch.long), 0
    for token in range(n):
        for layer in range(layers):
            step += 1
            steps[layer, token] = step
    return steps


def rnn_schedule_in_int32(layers, n):
    ones = torch.ones(layers, n, dtype=torch.int32)
    return torch.cumsum(ones, 0, dtype=torch.int32) + torch.cumsum(ones, 1, dtype=torch.int32) - 1


def transformer_schedule_in_int32(layers, n):
    return torch.arange(1, layers + 1, dtype=torch.int32).view(-1, 1).expand(-1, n)


def writing_schedule_in_int32(layers, n):
    return torch.stack(torch.arange(1, n * layers + 1, dtype=torch.int32).split(layers), dim=1)


layers_in_sequence = {
    "cell by cell": (
        rnn_schedule_by_loops,
        lambda layers, n: torch.tensor([[layer + 1] * n for layer in range(layers)]),
        writing_by_loops,
    ),
    "sums and reshapes": (
        lambda layers, n: (torch.ones(layers, n).cumsum(0) + torch.ones(layers, n).cumsum(1) - 1).long(),
        lambda layers, n: torch.ones(layers, n, dtype=torch.long).cumsum(0),
        lambda layers, n: torch.arange(1, n * layers + 1).view(n, layers).T,
    ),
    "sums of int32": (rnn_schedule_in_int32, transformer_schedule_in_int32, writing_schedule_in_int32),
}


def chunk_row_by_row(q, k, v, start, stop):
    return torch.stack([torch.softmax(k @ q[row] / math.sqrt(q.shape[1]), dim=0) @ v for row in range(start, stop)])


def chunk_by_einsum(q, k, v, start, stop):
    scores = torch.einsum("cd,md->cm", q[start:stop] / math.sqrt(q.shape[1]), k)
    return torch.einsum("cm,mv->cv", scores.softmax(-1), v)


def chunk_with_narrow(q, k, v, start, stop):
    scores = q.narrow(0, start, stop - start).double() @ k.double().T
    return torch.softmax(scores / q.shape[1] ** 0.5, dim=-1) @ v.double()


def joined_in_place(task, n, size, order):
    output = None
    for chunk in order:
        start, stop = chunk * size, min((chunk + 1) * size, n)
        rows = task(start, stop)
        if output is None:
            output = rows.new_empty(n, rows.shape[1])
        output[start:stop] = rows
    return output


def joined_from_a_list(task, n, size, order):
    parts = [None] * math.ceil(n / size)
    for chunk in order:
        parts[chunk] = task(chunk * size, min(chunk * size + size, n))
    return torch.cat(parts)


def joined_by_sorting(task, n, size, order):
    done = [(chunk, task(size * chunk, min(n, size * chunk + size))) for chunk in order]
    return torch.cat([rows for _, rows in sorted(done, key=lambda pair: pair[0])], dim=0)


def attention_chunk_by_linear(q, k, v, start, stop):
    scores = F.linear(q.narrow(0, start, stop - start), k)
    scores.mul_(1 / math.sqrt(k.size(1)))
    scores = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    return scores @ v / scores.sum(dim=1, keepdim=True)


def chunked_attention_by_linear(task, n, size, order):
    starts = list(range(0, n, size))
    pairs = [(c, task(starts[c], n if c == len(starts) - 1 else starts[c + 1])) for c in order]
    return torch.cat([rows for _, rows in sorted(pairs, key=lambda pair: pair[0])])


chunked_attention = {
    "row by row; in place": (chunk_row_by_row, joined_in_place),
    "einsum; a list with holes": (chunk_by_einsum, joined_from_a_list),
    "float64; sorted afterwards": (chunk_with_narrow, joined_by_sorting),
    "F.linear; pairs sorted": (attention_chunk_by_linear, chunked_attention_by_linear),
}


def pipeline_simulated(layers, micro_batches):
    done, step, busy = [0] * layers, 0, 0
    while done[-1] < micro_batches:
        ready = [d for d in range(layers) if done[d] < (micro_batches if d == 0 else done[d - 1])]
        for d in ready:
            done[d] += 1
        busy, step = busy + len(ready), step + 1
    return step, 1 - busy / (step * layers)


pipeline_steps = {
    "simulated": pipeline_simulated,
    "the idle share as what is not busy": lambda layers, micro_batches: (
        layers + micro_batches - 1,
        1 - micro_batches / (layers + micro_batches - 1),
    ),
    "as tensors in a list": lambda layers, micro_batches: [
        torch.tensor(micro_batches + layers - 1),
        torch.tensor((layers - 1) / (micro_batches + layers - 1)),
    ],
}


def combine_in_place(first, second):
    result = second.clone()
    result[..., 0] *= first[..., 0]
    result[..., 1] += second[..., 0] * first[..., 1]
    return result


def combine_as_matrices(first, second):
    def matrix(step):  # (h, 1) ↦ (a h + b, 1) as a 2×2 matrix
        rows = torch.zeros(*step.shape[:-1], 2, 2, dtype=step.dtype)
        rows[..., 0, :] = step
        rows[..., 1, 1] = 1
        return rows

    return (matrix(second) @ matrix(first))[..., 0, :]


def combine_with_cat(first, second):
    a1, b1, a2, b2 = first[..., :1], first[..., 1:], second[..., :1], second[..., 1:]
    return torch.cat((a2 * a1, torch.addcmul(b2, a2, b1)), dim=-1)


def scan_by_halves(operator, elements):
    if len(elements) <= 1:
        return elements
    middle = len(elements) // 2
    left, right = scan_by_halves(operator, elements[:middle]), scan_by_halves(operator, elements[middle:])
    return torch.cat([left, operator(left[-1].expand_as(right), right)])


def scan_odd_even(operator, elements):
    n = len(elements)
    if n < 2:
        return elements
    pairs = operator(elements[: n - 1 : 2], elements[1::2])
    odd = scan_odd_even(operator, pairs)
    result = elements.clone()
    result[1::2] = odd
    if n > 2:
        result[2::2] = operator(odd[: (n - 1) // 2], elements[2::2])
    return result


def scan_of_lists(operator, elements):
    rows, reach = list(elements), 1
    while reach < len(rows):
        rows = [operator(rows[i - reach], rows[i]) if i >= reach else rows[i] for i in range(len(rows))]
        reach = reach + reach
    return torch.stack(rows)


def scan_in_place(operator, elements):
    rows = elements.clone()
    for power in range(math.ceil(math.log2(len(rows)))):
        reach = 2**power
        rows[reach:] = operator(rows[:-reach].clone(), rows[reach:].clone())
    return rows


def scan_of_blocks(operator, elements):
    # Sklansky's network: in every round the second half of each block takes in the last row of the first half.
    rows, place = elements.clone(), torch.arange(len(elements))
    block = 1
    while block < len(rows):
        later = (place // block) % 2 == 1
        last = (place // block) * block - 1
        rows[later] = operator(rows[last[later]], rows[later])
        block *= 2
    return rows


def scan_up_and_down(operator, elements):
    # Blelloch's tree: totals of 2, 4, 8 … elements on the way up, the missing prefixes on the way down.
    rows, n = elements.clone(), len(elements)
    reach = 1
    while 2 * reach <= n:
        later = torch.arange(2 * reach - 1, n, 2 * reach)
        rows[later] = operator(rows[later - reach], rows[later])
        reach *= 2
    while reach > 1:
        reach //= 2
        later = list(range(3 * reach - 1, n, 2 * reach))
        if later:
            rows[later] = operator(rows[[i - reach for i in later]], rows[later])
    return rows


def combine_by_halves(first, second):
    scale, shift = second.unbind(-1)
    a, b = first.unbind(-1)
    return torch.stack((a * scale, torch.addcmul(shift, scale, b)), -1)


def associative_scan_by_halves(operator, elements):
    n = elements.shape[0]
    if n < 2:
        return elements.clone()
    middle = (n + 1) // 2
    left, right = (associative_scan_by_halves(operator, part) for part in (elements[:middle], elements[middle:]))
    return torch.cat((left, operator(left[-1:].expand_as(right), right)))


def combine_of_trees(first, second):
    out = first * second[..., :1]
    out[..., 1] += second[..., 1]
    return out


def associative_scan_of_trees(operator, elements):
    n = elements.size(0)
    if n <= 1:
        return elements
    even = elements[: n - n % 2]
    odd_rows = associative_scan_of_trees(operator, operator(even[0::2], even[1::2]))
    out = elements.clone()
    out[1::2] = odd_rows
    if n > 2:
        others = elements[2::2]
        out[2::2] = operator(odd_rows[: len(others)], others)
    return out


associative_scan = {
    "in place; halves": (combine_in_place, scan_by_halves),
    "as matrices; odd and even": (combine_as_matrices, scan_odd_even),
    "addcmul; lists": (combine_with_cat, scan_of_lists),
    "in place; in place": (combine_in_place, scan_in_place),
    "as matrices; Sklansky": (combine_as_matrices, scan_of_blocks),
    "addcmul; Blelloch": (combine_with_cat, scan_up_and_down),
    "addcmul; halves, repeated rows": (combine_by_halves, associative_scan_by_halves),
    "in place of its own; a tree for any n": (combine_of_trees, associative_scan_of_trees),
}


def gflops_counted(m, k, n, seconds):
    multiplications = additions = m * k * n
    return (multiplications + additions) * 1e-9 / seconds


matmul_gflops = {
    "multiplications and additions": gflops_counted,
    "as a tensor": lambda m, k, n, seconds: torch.tensor(2.0) * m * k * n / (seconds * 1e9),
}

forward_passes = {"a list": lambda: [1, 128], "as floats": lambda: (1.0, 2.0**7)}
