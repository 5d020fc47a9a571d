"""Right answers of greedy_decode in other styles."""

import torch

from helpers.encoder_decoder.model import END, PAD, START


def greedy_with_a_buffer(encode, step, source, longest):
    memory, cache = encode(source), None
    out = torch.zeros(len(source), longest, dtype=torch.long)
    token, done = torch.ones(len(source), 1, dtype=torch.long), torch.zeros(len(source), dtype=torch.bool)
    for place in range(longest):
        logits, cache = step(token, memory, cache)
        best = logits.argmax(-1)
        out[:, place] = torch.where(done, PAD, best)
        done |= best == END
        if bool(done.all()):
            return out[:, : place + 1]
        token = best[:, None]
    return out


def greedy_with_lists(encode, step, source, longest):
    memory, cache, rows = encode(source), None, [[] for _ in source]
    newest = [START] * len(rows)
    while len(rows[0]) < longest and not all(END in row for row in rows):
        logits, cache = step(torch.tensor(newest).reshape(-1, 1), memory, cache)
        newest = logits.max(dim=1).indices.tolist()
        for row, token in zip(rows, newest):
            row.append(PAD if END in row else token)
    return torch.tensor(rows)


def greedy_by_recursion(encode, step, source, longest):
    memory = encode(source)

    def rest(tokens, cache, ended, left):
        if not left or ended.all():
            return []
        logits, cache = step(tokens, memory, cache)
        tokens = torch.topk(logits, 1).indices * ~ended
        return [tokens, *rest(tokens, cache, ended | tokens.eq(END), left - 1)]

    start = torch.full((source.shape[0], 1), START)
    return torch.hstack(rest(start, None, torch.zeros_like(start).bool(), longest))


def greedy_unfinished_flags(encode, step, source, longest):
    """Hugging Face: unfinished_sequences is 1 or 0, and multiplies."""
    memory, cache = encode(source), None
    ids = torch.full((source.shape[0], 1), START)
    unfinished = torch.ones(source.shape[0], dtype=torch.long)
    while ids.shape[1] <= longest and unfinished.max() != 0:
        logits, cache = step(ids[:, -1:], memory, cache)
        following = torch.argmax(logits, dim=-1) * unfinished + PAD * (1 - unfinished)
        ids = torch.cat([ids, following[:, None]], dim=-1)
        unfinished = unfinished.mul(following.ne(END).long())
    return ids[:, 1:]


def greedy_with_a_while_and_a_set(encode, step, source, longest):
    memory, cache, columns, open_rows = encode(source), None, [], set(range(len(source)))
    newest = torch.full((len(source), 1), START)
    while open_rows and len(columns) < longest:
        logits, cache = step(newest, memory, cache)
        column = torch.tensor([int(logits[row].argmax()) if row in open_rows else PAD for row in range(len(source))])
        open_rows -= {row for row in open_rows if column[row] == END}
        columns.append(column)
        newest = column.unsqueeze(1)
    return torch.stack(columns, dim=1)


def greedy_that_grows_one_tensor(encode, step, source, longest):
    """START stays in it to the end. The logits are overwritten: they are its own."""
    memory, cache = encode(source), None
    text = torch.full((len(source), 1), START)
    alive = torch.ones_like(text, dtype=torch.bool)
    while alive.any() and text.shape[1] <= longest:
        logits, cache = step(text[:, -1:], memory, cache)
        logits -= logits.max()
        _, likeliest = logits.max(dim=-1, keepdim=True)
        text = torch.cat([text, torch.where(alive, likeliest, torch.full_like(likeliest, PAD))], dim=1)
        alive = alive & (likeliest != END)
    return text[:, 1:]


greedy_decode = {
    "one tensor that grows": greedy_that_grows_one_tensor,
    "a buffer that is filled": greedy_with_a_buffer,
    "lists of tokens": greedy_with_lists,
    "by recursion": greedy_by_recursion,
    "flags that multiply (Hugging Face)": greedy_unfinished_flags,
    "a set of open rows": greedy_with_a_while_and_a_set,
}
