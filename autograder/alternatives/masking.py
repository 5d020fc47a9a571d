"""Right answers of unit 03 in other styles: loops, einsum, comparisons of positions, other routes, other dtypes."""

import math

import torch
import torch.nn.functional as F


def causal_by_loops(n, m=None):
    m = n if m is None else m
    mask = torch.zeros(n, m, dtype=torch.bool)
    for i in range(n):
        mask[i, : m - n + i + 1] = True
    return mask


causal_mask = {
    "nested comprehension": lambda n, m=None: torch.tensor(
        [[j <= i + (n if m is None else m) - n for j in range(n if m is None else m)] for i in range(n)]
    ),
    "tril": lambda n, m=None: torch.ones(n, m or n, dtype=torch.bool).tril(diagonal=(m or n) - n),
    "row by row": causal_by_loops,
    "not triu": lambda n, m=None: ~torch.ones(n, m or n).triu((m or n) - n + 1).bool(),
    "the last rows of a square": lambda n, m=None: torch.tril(torch.ones(m or n, m or n)).bool()[-n:],
}


def softmax_of_finite_rows(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0)


def softmax_by_powers(scores, mask):
    hidden = torch.where(mask, scores, -math.inf)
    top = hidden.amax(-1, keepdim=True)
    powers = torch.exp(hidden - torch.where(top.isinf(), 0.0, top))
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


def softmax_by_rows(scores, mask):
    rows = []
    for row, allowed in zip(scores.flatten(0, -2), mask.expand(scores.shape).flatten(0, -2)):
        weights = torch.zeros_like(row)
        if allowed.any():
            weights = weights.masked_scatter(allowed, torch.softmax(row[allowed], dim=0))
        rows.append(weights)
    return torch.stack(rows).view(scores.shape)


masked_softmax = {
    "the lowest finite number, then 0": softmax_of_finite_rows,
    "powers, with safe maximum and sum": softmax_by_powers,
    "row by row, allowed keys only": softmax_by_rows,
    "in float64, torch.where": lambda scores, mask: torch.where(
        mask.any(-1, keepdim=True),
        torch.where(mask | ~mask.any(-1, keepdim=True), scores.double(), -math.inf).softmax(-1),
        0.0,
    ),
    "the NaN of empty rows chosen away": lambda scores, mask: torch.where(
        mask, scores.masked_fill(~mask, -math.inf).softmax(-1), torch.zeros_like(scores)
    ),
    "the NaN of empty rows wiped off": lambda scores, mask: torch.nan_to_num(
        scores.masked_fill(mask.logical_not(), -math.inf).softmax(-1)
    ),
    "a mask to be added": lambda scores, mask: (
        (
            scores
            + torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask & mask.any(-1, keepdim=True), -math.inf)
        ).softmax(-1)
        * mask
    ),
}


def renormalise_by_loop(scores, mask):
    weights, mask = scores.softmax(-1), mask.expand(scores.shape)
    kept = torch.where(mask, weights, 0.0)
    return kept / sum(kept.unbind(-1))[..., None], torch.where(mask, 0.0, weights).sum(-1)


def renormalise_with_a_product_of_ones(scores, mask):
    weights = torch.softmax(scores, -1)
    ones = torch.ones(scores.shape[-1], 1, dtype=scores.dtype)
    kept, gone = weights.masked_fill(~mask, 0), weights.masked_fill(mask, 0)
    return kept / (kept @ ones), (gone @ ones).squeeze(-1)


mask_then_renormalise = {
    "a sum over the keys one by one": renormalise_by_loop,
    "masked_fill and a product with ones": renormalise_with_a_product_of_ones,
    "guarded against 0/0": lambda scores, mask: (
        (lambda kept: kept / kept.sum(-1, keepdim=True).clamp_min(torch.finfo(kept.dtype).tiny))(
            scores.softmax(-1) * mask
        ),
        (scores.softmax(-1) * ~mask).sum(-1),
    ),
    "what is taken away, subtracted": lambda scores, mask: (
        lambda full, taken: ((full - taken) / (full - taken).sum(-1, True), taken.sum(-1))
    )(scores.softmax(-1), scores.softmax(-1).masked_fill(mask, 0)),
    "the lost share as 1 minus what is left": lambda scores, mask: (
        lambda kept: (kept / kept.sum(-1, keepdim=True), 1 - kept.sum(-1))
    )(torch.where(mask, scores.softmax(-1), 0.0)),
    "einsum": lambda scores, mask: (
        lambda w, a: (
            w * a / torch.einsum("...nm,...nm->...n", w, a)[..., None],
            torch.einsum("...nm,...nm->...n", w, 1 - a),
        )
    )(scores.softmax(-1), mask.to(scores.dtype).expand(scores.shape)),
}


def attention_with_added_mask(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    bias = torch.full((n, m), -math.inf, dtype=q.dtype).triu(m - n + 1)
    scores = torch.einsum("...nd,...md->...nm", q, k) * q.shape[-1] ** -0.5 + bias
    weights = F.softmax(scores, dim=-1)
    return scores, weights, torch.einsum("...nm,...mv->...nv", weights, v)


def attention_row_by_row(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    rows = []
    for i in range(n):
        seen = m - n + i + 1
        scores = (q[..., i : i + 1, :] @ k[..., :seen, :].mT)[..., 0, :] / math.sqrt(q.shape[-1])
        weights = scores.softmax(-1)
        output = (weights[..., None, :] @ v[..., :seen, :])[..., 0, :]
        rows.append((F.pad(scores, (0, m - seen), value=-math.inf), F.pad(weights, (0, m - seen)), output))
    return tuple(torch.stack(part, dim=-2) for part in zip(*rows))


def attention_in_float64(q, k, v):
    q, k, v = q.double(), k.double(), v.double()
    place = torch.arange(k.shape[-2])
    scores = torch.where(place[-q.shape[-2] :, None] >= place, (q / math.sqrt(q.shape[-1])) @ k.mT, -math.inf)
    return [scores, scores.softmax(-1), scores.softmax(-1) @ v]


causal_attention = {
    "a mask of −∞, added": attention_with_added_mask,
    "row by row, without a mask": attention_row_by_row,
    "in float64, torch.where": attention_in_float64,
}


def padding_by_loop(lengths, n, m):
    mask = torch.zeros(len(lengths), 1, n, m, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :, :length] = True
    return mask


padding_mask = {
    "a view, expanded": lambda lengths, n, m: (
        lengths[:, None, None, None].gt(torch.arange(m)).expand(lengths.shape[0], 1, n, m)
    ),
    "sequence by sequence": padding_by_loop,
    "lengths with three axes": lambda lengths, n, m: (torch.arange(m) < lengths.view(-1, 1, 1, 1)).repeat(1, 1, n, 1),
    "outer comparison": lambda lengths, n, m: torch.lt(
        torch.arange(m).expand(len(lengths), 1, n, m), lengths[:, None, None, None]
    ),
}


def combined_by_all(*masks):
    return torch.stack(torch.broadcast_tensors(*masks)).all(dim=0)


def combined_by_product(*masks):
    together = torch.tensor(True)
    for mask in masks:
        together = torch.logical_and(together, mask)
    return together


def combined_by_recursion(first, *rest):
    return first & combined_by_recursion(*rest) if rest else first


combine_masks = {
    "recursion on the rest": combined_by_recursion,
    "votes counted": lambda *masks: sum(mask.int() for mask in masks) == len(masks),
    "stacked, then all": combined_by_all,
    "logical_and from True": combined_by_product,
    "nothing hidden by any": lambda *masks: ~torch.stack(torch.broadcast_tensors(*(~mask for mask in masks))).any(0),
}


def detector_by_zeros(model, x):
    worst = 0.0
    for t in range(1, len(x)):
        probe = x.clone()
        probe[t:] = 0
        worst = max(worst, (model(probe)[:t] - model(x)[:t]).abs().max().item())
    return worst > 1e-5


def detector_by_prefixes(model, x):
    whole = model(x)
    return any((model(x[:t]) - whole[:t]).abs().max() > 1e-5 for t in range(1, len(x)))


def detector_by_influence(model, x):
    before, rows = model(x), []
    for j in range(len(x)):
        probe = x.clone()
        probe[j] = torch.randn_like(x[j])
        rows.append((model(probe) - before).abs().amax(-1))
    return (torch.stack(rows, dim=1).triu(1) > 1e-5).any()


def detector_by_assert(model, x):
    for t in range(len(x) - 1):
        probe = torch.cat([x[: t + 1], torch.randn(len(x) - t - 1, x.shape[1])])
        try:
            torch.testing.assert_close(model(probe)[: t + 1], model(x)[: t + 1], rtol=0, atol=1e-5)
        except AssertionError:
            return True
    return False


def detector_of_the_output_before_the_cut(model, x):
    before = model(x.clone()).clone()
    return any(
        bool((model(torch.cat((x[:t], torch.randn_like(x[t:])))) - before)[t - 1].abs().gt(1e-5).any())
        for _ in range(3)
        for t in range(1, x.size(0))
    )


def detector_from_the_last_cut(model, x):
    old, text = model(x).clone(), x.clone()
    for t in range(len(x) - 1, 0, -1):  # the tokens after t are new already
        text[t] = torch.randn_like(text[t])
        if float((model(text)[:t] - old[:t]).abs().max()) > 1e-5:
            return True
    return False


leaks_future = {
    "from the last cut to the first": detector_from_the_last_cut,
    "the output before the cut alone, all later tokens new": detector_of_the_output_before_the_cut,
    "the future set to zero": detector_by_zeros,
    "prefixes": detector_by_prefixes,
    "the upper triangle of the influence": detector_by_influence,
    "assert_close": detector_by_assert,
}


def targets_by_loops(tokens, lengths, end):
    inputs, targets = [], []
    for row, length in zip(tokens.tolist(), lengths.tolist()):
        inputs.append([end, *row])
        targets.append([*row[:length], end] + [-100] * (len(row) - length))
    return torch.tensor(inputs), torch.tensor(targets)


def targets_by_scatter(tokens, lengths, end):
    place = torch.arange(tokens.shape[1] + 1)
    targets = F.pad(tokens, (0, 1)).scatter(1, lengths[:, None], end)
    return F.pad(tokens, (1, 0), value=end), torch.where(place <= lengths[:, None], targets, -100)


def targets_by_index(tokens, lengths, end):
    inputs = torch.cat([torch.full((len(tokens), 1), end), tokens], dim=1)
    targets = torch.full_like(inputs, -100)
    targets[:, :-1] = tokens
    targets[torch.arange(targets.shape[1])[None] > lengths[:, None]] = -100
    targets[torch.arange(len(tokens)), lengths] = end
    return [inputs, targets]


shift_targets = {"row by row": targets_by_loops, "pad and scatter": targets_by_scatter, "by index": targets_by_index}


def loss_by_loops(logits, targets):
    losses = [
        torch.logsumexp(row, dim=0) - row[target]
        for text, wanted in zip(logits, targets)
        for row, target in zip(text, wanted.tolist())
        if target != -100
    ]
    return sum(losses) / len(losses)


def loss_of_kept_rows(logits, targets):
    kept = targets != -100
    rows = logits[kept].log_softmax(-1)
    return -rows[torch.arange(len(rows)), targets[kept]].mean()


def loss_by_one_hot(logits, targets):
    kept = targets != -100
    wanted = F.one_hot(targets.masked_fill(~kept, 0), logits.shape[-1]) * kept[..., None]
    return -(wanted * F.log_softmax(logits, -1)).sum() / kept.sum()


copy_without_mask = {
    "position by position": loss_by_loops,
    "kept rows only": loss_of_kept_rows,
    "one-hot": loss_by_one_hot,
}


def _behind(n):
    return torch.arange(n).unsqueeze(1) - torch.arange(n).unsqueeze(0)


def packed_by_blocks(lengths):
    mask = torch.block_diag(*(torch.ones(size, size).tril() for size in lengths)).bool()
    return mask, sum(size * (size + 1) for size in lengths) // 2


def packed_by_loop(lengths):
    mask, start, pairs = torch.zeros(sum(lengths), sum(lengths), dtype=torch.bool), 0, 0
    for size in lengths:
        mask[start : start + size, start : start + size] = torch.ones(size, size).tril().bool()
        start, pairs = start + size, pairs + size * (size + 1) // 2
    return mask, pairs


def prefix_by_assignment(n, p):
    mask = torch.ones(n, n).tril().bool()
    mask[:, :p] = True
    return mask, p * n + (n - p) * (n - p + 1) // 2


def window_by_rows(n, w):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - w + 1) : i + 1] = True
    return mask, sum(min(i + 1, w) for i in range(n))


def global_by_assignment(n, r, g):
    mask = _behind(n).abs() <= r
    mask[:g], mask[:, :g] = True, True
    hidden = max(n - g - r - 1, 0)
    return mask, n * n - hidden * (hidden + 1)


mask_zoo = {
    "assignments and blocks": (
        lambda n: (torch.full((n, n), True), n**2),
        lambda n: (torch.ones(n, n).tril() == 1, math.comb(n + 1, 2)),
        lambda n, m: (torch.full((n, m), True), m * n),
        prefix_by_assignment,
        window_by_rows,
        global_by_assignment,
        packed_by_blocks,
    ),
    "distances, sums in Python": (
        lambda n: (_behind(n) == _behind(n), math.prod((n, n))),
        lambda n: (_behind(n) >= 0, sum(range(1, n + 1))),
        lambda n, m: (torch.zeros(n, m, dtype=torch.bool).logical_not(), sum(m for _ in range(n))),
        lambda n, p: ((_behind(n) >= 0) | (torch.arange(n) < p)[None], sum(max(i + 1, p) for i in range(n))),
        lambda n, w: (
            torch.ones(n, n).tril().triu(1 - w).bool(),
            math.comb(n + 1, 2) - math.comb(max(n - w, 0) + 1, 2),
        ),
        lambda n, r, g: (
            (_behind(n).abs() <= r) | (torch.arange(n) < g)[None] | (torch.arange(n) < g)[:, None],
            sum(n if i < g else g + min(i + r, n - 1) - max(i - r, g) + 1 for i in range(n)),
        ),
        packed_by_loop,
    ),
}

why_before_softmax = {"the letter": lambda: "c", "computed": lambda: "abcd"[2]}
what_is_it_for = {"the letter": lambda: "b", "computed": lambda: "abcd"[1]}
which_positions = {"a list": lambda: [5, 6, 7], "a range": lambda: tuple(range(5, 8))}
