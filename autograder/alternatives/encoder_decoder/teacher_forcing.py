"""Right answers of teacher_forcing in other styles."""

import torch
import torch.nn.functional as F

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


def shift_by_windows(target):
    """Inputs and labels are two windows of one tensor: END stands in the inputs only where nothing is asked."""
    row = F.pad(target, (1, 1), value=PAD)
    row[:, 0] = START
    row[torch.arange(len(row)), (target != PAD).sum(dim=1) + 1] = END
    return row[:, :-1], row[:, 1:]


def shift_by_comparison(target):
    """END stands where the inputs have a word and the target has none."""
    shifted, labels = F.pad(target, (1, 0), value=START), F.pad(target, (0, 1), value=PAD)
    labels = torch.where((labels == PAD) & (shifted != PAD), END, labels)
    return torch.cat([torch.full_like(labels[:, :1], START), labels[:, :-1]], dim=1), labels


teacher_forcing = {
    "slices of the whole": shift_by_slices,
    "lists": shift_by_lists,
    "padding and scatter": shift_by_scatter,
    "windows of one tensor": shift_by_windows,
    "labels by comparison": shift_by_comparison,
}
