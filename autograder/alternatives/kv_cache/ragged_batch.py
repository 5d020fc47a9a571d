"""Right answers of ragged_batch in other styles."""

import torch


def pad_by_lists(prompts):
    longest = max(map(len, prompts))
    tokens = torch.tensor([[7] * (longest - len(prompt)) + prompt.tolist() for prompt in prompts])
    lengths = torch.tensor([[len(prompt)] for prompt in prompts])
    return tokens, torch.arange(longest) >= longest - lengths


def pad_by_sequence(prompts):
    flipped = torch.nn.utils.rnn.pad_sequence([prompt.flip(0) for prompt in prompts], batch_first=True)
    real = torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(prompt), dtype=torch.bool) for prompt in prompts], batch_first=True
    )
    return flipped.flip(1), real.flip(1)


def rows_by_loops(real, n):
    b, m = real.shape
    positions, mask = torch.zeros(b, n, dtype=torch.long), torch.zeros(b, n, m, dtype=torch.bool)
    for row in range(b):
        for place in range(n):
            token = m - n + place
            positions[row, place] = max(0, int(real[row, : token + 1].sum()) - 1)
            mask[row, place, : token + 1] = real[row, : token + 1]
    return positions, mask


def rows_by_padding(real, n):
    m = real.shape[1]
    padding = (~real).sum(dim=1, keepdim=True)
    token = torch.arange(m - n, m)
    key = torch.arange(m)
    return token - padding, (key <= token[:, None]) & (key >= padding[:, :, None])


def padded_as_lists(prompts):
    m = max(p.numel() for p in prompts)
    rows = [[0] * (m - p.numel()) + p.tolist() for p in prompts]
    real = [[False] * (m - p.numel()) + [True] * p.numel() for p in prompts]
    return (torch.tensor(rows, dtype=prompts[0].dtype), torch.tensor(real))


def corner_of_the_whole_square(real, n):
    b, m = real.shape
    square = real.unsqueeze(1).expand(b, m, m).tril()
    seen = square.sum(dim=-1) - 1
    return (seen[:, m - n :], square[:, m - n :])


ragged_batch = {
    "lists; loops over rows and tokens": (pad_by_lists, rows_by_loops),
    "pad_sequence; the width of the padding": (pad_by_sequence, rows_by_padding),
    "lists, triangle of the whole square cut at the end": (padded_as_lists, corner_of_the_whole_square),
}
