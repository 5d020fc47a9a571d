"""Right answers of beam_search in other styles."""

import heapq
import math

import torch

from helpers.encoder_decoder.model import END, START


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
