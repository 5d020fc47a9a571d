"""Right answers of train_reversal in other styles."""

import torch
import torch.nn.functional as F
from torch import nn

from autograder.alternatives.encoder_decoder.encoder_decoder import (
    AnnotatedModel,
    FullMaskModel,
    RecursiveModel,
    StackedModel,
)
from helpers.encoder_decoder.model import END, PAD, START


def shift_by_slices(target):
    """[START, …, END], then all but the last and all but the first."""
    whole = torch.zeros(len(target), target.shape[1] + 2, dtype=torch.long)
    whole[:, 0], whole[:, 1:-1] = START, target
    whole[torch.arange(len(target)), (target != PAD).sum(1) + 1] = END
    return whole[:, :-1], whole[:, 1:]


def shift_by_lists(target):
    rows = [[token for token in row if token != PAD] for row in target.tolist()]
    width = target.shape[1] + 1
    inputs = [[START, *row] + [PAD] * (width - 1 - len(row)) for row in rows]
    labels = [[*row, END] + [PAD] * (width - 1 - len(row)) for row in rows]
    return torch.tensor(inputs), torch.tensor(labels)


def shift_by_scatter(target):
    labels = F.pad(target, (0, 1), value=PAD)
    labels = labels.scatter(1, (target != PAD).sum(1, keepdim=True), END)
    return F.pad(target, (1, 0), value=START), labels


def match_by_tensors(written, target):
    _, labels = shift_by_scatter(target)
    width = max(written.shape[1], labels.shape[1])
    written, labels = (F.pad(t, (0, width - t.shape[1])) for t in (written, labels))
    behind = ((written == END).cumsum(1) - (written == END).long()) > 0
    return (written.masked_fill(behind, PAD) == labels).all(dim=1).float().mean()


def match_by_strings(written, target):
    right = 0
    for mine, theirs in zip(written.tolist(), target.tolist()):
        said = " ".join(map(str, mine)) + " "
        wanted = " ".join(str(token) for token in [*(t for t in theirs if t != PAD), END]) + " "
        right += said.startswith(wanted)
    return right / len(target)


def match_by_lists(written, target):
    hits = []
    for mine, theirs in zip(written.tolist(), target.tolist()):
        mine = mine[: mine.index(END)] if END in mine else None
        hits.append(mine == [token for token in theirs if token])
    return sum(hits) / len(hits)


def trained_with_adamw(sources, targets, words):
    torch.manual_seed(1)
    model = AnnotatedModel(words, words, 32, 2, 64, 1, 0.0)
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1e-4), []
    for source, target in zip(sources, targets):
        inputs, labels = shift_by_slices(target)
        loss = F.cross_entropy(model(source, inputs).transpose(1, 2), labels, ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss)
    return model, torch.stack(losses).detach()


def trained_with_a_schedule(sources, targets, words):
    torch.manual_seed(2)
    model = FullMaskModel(words, words, d=32, h=1, d_ff=64, layers=1, dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.012, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.012, total_steps=len(sources))
    losses = []
    for step in range(len(sources)):
        model.train()
        inputs, labels = shift_by_scatter(targets[step])
        log_p = model(sources[step], inputs).log_softmax(-1)
        picked = log_p.gather(-1, labels[..., None])[..., 0]
        loss = -(picked * (labels != PAD)).sum() / (labels != PAD).sum()
        model.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(float(loss))
    return model, losses


def trained_with_summed_loss(sources, targets, words):
    torch.manual_seed(3)
    model = StackedModel(words, words, 32, 2, 96, 1, 0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.008)
    losses = []
    for source, target in zip(sources, targets):
        inputs, labels = shift_by_lists(target)
        logits = model(source, inputs)
        loss = nn.CrossEntropyLoss(ignore_index=PAD)(logits.reshape(-1, words), labels.reshape(-1))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses += [loss.item()]
    return model, losses


def shift_by_windows(target):
    """Inputs and labels are two windows of one tensor: END stands in the inputs only where nothing is asked."""
    row = F.pad(target, (1, 1), value=PAD)
    row[:, 0] = START
    row[torch.arange(len(row)), (target != PAD).sum(dim=1) + 1] = END
    return row[:, :-1], row[:, 1:]


def match_where_asked(written, target):
    _, labels = shift_by_windows(target)
    width = labels.shape[1]
    written = F.pad(written, (0, max(0, width - written.shape[1])), value=PAD)[:, :width]
    return ((written == labels) | (labels == PAD)).all(dim=1).double().mean().item()


def trained_on_picked_labels(sources, targets, words):
    torch.manual_seed(5)
    model = RecursiveModel(words, words, 32, 2, 64, 1, 0.0)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)

    def one_step(source, target):
        inputs, labels = shift_by_windows(target)
        log_p, asked = model(source, inputs).log_softmax(-1), labels != PAD
        loss = -log_p.gather(-1, labels[..., None])[..., 0][asked].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.item()

    return model, [one_step(source, target) for source, target in zip(sources, targets)]


def shift_by_comparison(target):
    """END stands where the inputs have a word and the target has none."""
    shifted, labels = F.pad(target, (1, 0), value=START), F.pad(target, (0, 1), value=PAD)
    labels = torch.where((labels == PAD) & (shifted != PAD), END, labels)
    return torch.cat([torch.full_like(labels[:, :1], START), labels[:, :-1]], dim=1), labels


def match_where_a_label_is(written, target):
    _, labels = shift_by_comparison(target)
    n = labels.shape[1]
    written = F.pad(written, (0, max(0, n - written.shape[1])), value=PAD)[:, :n]
    return torch.logical_or(written == labels, labels == PAD).all(dim=1).double().mean().item()


def trained_in_a_comprehension(sources, targets, words):
    torch.manual_seed(4)
    model = RecursiveModel(words, words, 32, 2, 64, 1, 0.0).train()
    adam, criterion = torch.optim.Adam(model.parameters(), 1e-2), nn.CrossEntropyLoss(ignore_index=PAD)

    def one_step(source, target):
        inputs, labels = shift_by_comparison(target)
        model.zero_grad()
        loss = criterion(model(source, inputs).transpose(1, 2), labels)
        loss.backward()
        adam.step()
        return float(loss)

    return model, [one_step(source, target) for source, target in zip(sources, targets)]


train_reversal = {
    "windows of one tensor; log-softmax and gather": (shift_by_windows, match_where_asked, trained_on_picked_labels),
    "labels by comparison; a comprehension": (shift_by_comparison, match_where_a_label_is, trained_in_a_comprehension),
    "slices of the whole; tensors; AdamW with clipping": (shift_by_slices, match_by_tensors, trained_with_adamw),
    "padding and scatter; strings; one cycle": (shift_by_scatter, match_by_strings, trained_with_a_schedule),
    "lists; zero_grad at the end": (shift_by_lists, match_by_lists, trained_with_summed_loss),
}
