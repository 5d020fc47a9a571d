"""training_run: the bill of a training run, from parameters, tokens and devices."""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.table_check import Table
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from ..training_run import training_run as reference
from .costs import in_row

__all__ = ["training_run"]

DAY = 86_400


@dataclass(frozen=True)
class Run:
    parameters: int
    tokens: int
    devices: int
    peak: float
    mfu: float


@dataclass(frozen=True)
class Bill:
    flops: Callable = lambda run: 6 * run.parameters * run.tokens
    days: Callable = lambda run, flops: flops / (run.devices * run.peak * run.mfu * DAY)
    bytes: Callable = lambda run: 16 * run.parameters
    chinchilla_tokens: Callable = lambda run: 20 * run.parameters


@composable
def bill(**changed: Callable) -> Callable:
    rows = Bill(**changed)

    def table(*sizes):
        run = Run(*sizes)
        flops = rows.flops(run)
        days, state, text = rows.days(run, flops), rows.bytes(run), rows.chinchilla_tokens(run)
        return {"flops": flops, "days": days, "bytes": state, "chinchilla_tokens": text}

    return table


def flops_each(each):
    """each: for a parameter and token."""
    return in_row("flops", bill(flops=lambda run: each * run.parameters * run.tokens))


def flops_alone(changed):
    """changed: (FLOPs, run) → other FLOPs; the days are right."""
    return in_row("flops", bill(flops=lambda run: changed(Bill().flops(run), run), days=days_of_right_flops))


def days_of_right_flops(run, flops):
    return reference(run.parameters, run.tokens, run.devices, run.peak, run.mfu)["days"]


def in_days(answer):
    """answer: (run, FLOPs) → days"""
    return in_row("days", bill(days=answer))


def bytes_each(each):
    """each: bytes of a parameter."""
    return in_row("bytes", bill(bytes=lambda run: each * run.parameters))


def in_tokens(answer):
    """answer: (run) → tokens"""
    return in_row("chinchilla_tokens", bill(chinchilla_tokens=answer))


def _own_days(rows, parameters, tokens, devices, peak, mfu):
    """The days that follow from the FLOPs in the same table."""
    return rows["flops"] / (devices * peak * mfu * DAY)


def a_run(label, parameters=7, tokens=3, devices=2, peak=10.0, mfu=0.5):
    return random_case(label, parameters=parameters, tokens=tokens, devices=devices, peak=peak, mfu=mfu)


training_run = Table(
    reference=reference,
    columns=("value",),
    follows={"days": _own_days},
    cases=[
        a_run("1 billion parameters, one A100", 10**9, 20 * 10**9, 1, 312e12, 0.4),
        a_run("a small model on 8 devices", 124_439_808, 10**10, 8, 65e12, 0.3),
        a_run("GPT-3's size", 175 * 10**9, 300 * 10**9, 1024, 125e12, 0.25),
        a_run("7 parameters, 3 tokens"),
        a_run("8 parameters, 3 tokens", parameters=8),
        a_run("7 parameters, 4 tokens", tokens=4),
        a_run("7 parameters, 3 tokens, 3 devices", devices=3),
        a_run("7 parameters, 3 tokens, slower", peak=5.0),
        a_run("7 parameters, 3 tokens, better used", mfu=0.7),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        forward_only=flops_each(2),
        multiply_adds=flops_each(3),
        four_flops=flops_each(4),
        recomputed=flops_each(8),
        times_mfu=flops_alone(lambda flops, run: flops * run.mfu),
        by_mfu=flops_alone(lambda flops, run: flops / run.mfu),
        at_the_peak=in_days(lambda run, flops: flops / (run.devices * run.peak * DAY)),
        days_times_mfu=in_days(lambda run, flops: flops / (run.devices * run.peak / run.mfu * DAY)),
        one_device=in_days(lambda run, flops: flops / (run.peak * run.mfu * DAY)),
        hours=in_days(lambda run, flops: flops / (run.devices * run.peak * run.mfu * 3600)),
        seconds=in_days(lambda run, flops: flops / (run.devices * run.peak * run.mfu)),
        minutes=in_days(lambda run, flops: flops / (run.devices * run.peak * run.mfu * 60)),
        whole_days=in_days(lambda run, flops: flops / (run.devices * run.peak * run.mfu * DAY) // 1),
        bytes_of_one_device=in_row("bytes", bill(bytes=lambda run: 16 * run.parameters / run.devices)),
        copy_on_every_device=in_row("bytes", bill(bytes=lambda run: 16 * run.parameters * run.devices)),
        weights_only=bytes_each(2),
        no_adam=bytes_each(4),
        one_average=bytes_each(12),
        no_gradients=bytes_each(14),
        numbers=bytes_each(5),
        all_in_float32=bytes_each(20),
        bits=bytes_each(128),
        parameters_for_each_token=in_tokens(lambda run: run.tokens / 20),
        this_runs_tokens=in_tokens(lambda run: run.tokens),
        of_this_runs_tokens=in_tokens(lambda run: 20 * run.tokens),
        for_this_budget=in_tokens(lambda run: (20 * run.parameters * run.tokens) ** 0.5),
        one_for_one=in_tokens(lambda run: run.parameters),
    ),
)
