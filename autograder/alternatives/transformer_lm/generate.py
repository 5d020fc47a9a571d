"""Right answers of generate in other styles."""

import math

import torch
import torch.nn.functional as F


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
