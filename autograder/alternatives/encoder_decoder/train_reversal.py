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
from autograder.alternatives.encoder_decoder.teacher_forcing import (
    shift_by_comparison,
    shift_by_lists,
    shift_by_scatter,
    shift_by_slices,
    shift_by_windows,
)
from helpers.encoder_decoder.model import PAD


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
    "log-softmax and gather": trained_on_picked_labels,
    "a comprehension": trained_in_a_comprehension,
    "AdamW with clipping": trained_with_adamw,
    "one cycle": trained_with_a_schedule,
    "zero_grad at the end": trained_with_summed_loss,
}
