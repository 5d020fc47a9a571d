"""Right answers of train in other styles."""

import math
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn

from helpers.transformer_lm.training import small_model


def train_nano(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """nanoGPT: parameters by name, cross_entropy with ignore_index, set_to_none."""
    model = small_model() if model is None else model
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    groups = [
        {"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer, history = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95)), []
    for rate, (x, y) in zip(rates, batches):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        history.append(float(loss))
        if watch is not None:
            watch(len(history) - 1, history[-1])
    return history


def train_by_schedule(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """A LambdaLR, the loss by hand, clipping by hand."""
    model = small_model() if model is None else model
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": others, "weight_decay": 0}, {"params": matrices, "weight_decay": weight_decay}],
        lr=1,
        betas=(0.9, 0.95),
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rates[min(step, len(rates) - 1)])
    losses = torch.zeros(len(rates), dtype=torch.float64)
    for step, (_, (inputs, targets)) in enumerate(zip(rates, batches)):
        log_p = model(inputs).log_softmax(-1)
        loss = -log_p[targets != -100].gather(1, targets[targets != -100][:, None]).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        length = torch.sqrt(sum((g**2).sum() for g in gradients))
        for parameter, gradient in zip(model.parameters(), gradients):
            parameter.grad = gradient * min(1.0, clip / float(length))
        optimiser.step()
        schedule.step()
        losses[step] = loss.detach()
        if watch:
            watch(step, float(losses[step]))
    return losses.tolist()


def train_by_hand(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """AdamW itself written out."""
    model = small_model() if model is None else model
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    stream, losses = iter(batches), []
    for step, rate in enumerate(rates, start=1):
        inputs, targets = next(stream)
        real = targets.ne(-100)
        loss = F.cross_entropy(model(inputs)[real], targets[real])
        losses.append(loss.item())
        if watch is not None:
            watch(step - 1, losses[-1])
        gradients = torch.autograd.grad(loss, parameters)
        length = math.sqrt(sum(g.square().sum().item() for g in gradients))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second):
                g = g * (clip / length if length > clip else 1.0)
                m.lerp_(g, 0.1)
                v.lerp_(g * g, 0.05)
                p.mul_(1 - rate * weight_decay if p.dim() >= 2 else 1.0)
                p.sub_(rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.95**step)).sqrt() + 1e-8))
    return losses


def train_with_many_optimisers(batches, rates, weight_decay=0.1, clip=1.0, model=None, watch=None):
    """One AdamW for each parameter."""
    model = small_model() if model is None else model
    optimisers = [
        torch.optim.AdamW([p], betas=(0.9, 0.95), weight_decay=0.0 if p.ndim < 2 else weight_decay)
        for p in model.parameters()
    ]

    def one_step(inputs, targets, rate):
        model.zero_grad()
        asked = targets != -100
        loss = F.cross_entropy(model(inputs)[asked], targets[asked])
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
        for optimiser in optimisers:
            optimiser.param_groups[0].update(lr=rate)
            optimiser.step()
        return loss.item()

    losses = []
    for step, (inputs, targets) in enumerate(islice(batches, len(rates))):
        losses.append(one_step(inputs, targets, rates[step]))
        if watch is not None:
            watch(step, losses[step])
    return losses


train = {
    "an AdamW for each parameter, islice": train_with_many_optimisers,
    "AdamW written out": train_by_hand,
    "parameters by name (nanoGPT)": train_nano,
    "a schedule, clipping by hand": train_by_schedule,
}
