"""Right answers of masked_lm_objective in other styles."""

import torch


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
