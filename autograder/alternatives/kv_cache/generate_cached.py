"""Right answers of generate_cached in other styles."""

import torch


def generate_in_one_loop(model, prompt, n):
    tokens, cache, read = prompt, None, 0
    for _ in range(n):
        logits, cache = model(tokens[:, read:], read, cache)
        read = tokens.shape[1]
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1)[:, None]], 1)
    return tokens[:, -n:]


def generate_into_room(model, prompt, n):
    written = torch.empty(len(prompt), n, dtype=torch.long)
    new, start, cache = prompt, 0, None
    for place in range(n):
        logits, cache = model(new, start, cache)
        start += new.shape[1]
        written[:, place] = logits[:, -1].max(dim=-1).indices
        new = written[:, place : place + 1].clone()
    return written


def generate_until_there_are_enough(model, prompt, n):
    logits, cache = model(prompt, 0, None)
    out = [torch.topk(logits[:, -1], 1).indices]
    while len(out) < n:
        logits, cache = model(out[-1], prompt.shape[1] + len(out) - 1, cache)
        out.append(torch.topk(logits[:, -1], 1).indices)
    return torch.hstack(out)


def generate_by_recursion(model, prompt, n, start=0, cache=None):
    logits, cache = model(prompt, start, cache)
    token = torch.topk(logits[:, -1], 1).indices
    rest = [generate_by_recursion(model, token, n - 1, start + prompt.shape[1], cache)] if n > 1 else []
    return torch.hstack([token, *rest])


def generated_into_a_room(model, prompt, n):
    b, p = prompt.shape
    written = prompt.new_empty(b, n)
    tokens, cache = (prompt, None)
    for i in range(n):
        logits, cache = model(tokens, 0 if i == 0 else p + i - 1, cache)
        written[:, i] = torch.max(logits.select(1, -1), dim=-1).indices
        tokens = written.narrow(1, i, 1).clone()
    return written


generate_cached = {
    "one loop, reading what is new": generate_in_one_loop,
    "into a tensor made beforehand": generate_into_room,
    "until there are enough, by topk": generate_until_there_are_enough,
    "recursion": generate_by_recursion,
    "preallocated result, torch.max": generated_into_a_room,
}
