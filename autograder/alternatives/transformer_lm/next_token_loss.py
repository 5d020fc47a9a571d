"""Right answers of next_token_loss in other styles."""

import torch
import torch.nn.functional as F


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
