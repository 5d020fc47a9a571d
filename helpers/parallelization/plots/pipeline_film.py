"""A training step through a pipeline of devices as a film: forward, then backward, which takes twice as long."""

from dataclasses import dataclass

import matplotlib.pyplot as plt

from helpers.film import film, play
from helpers.style import FAINT_KEY, FAINT_QUERY, KEY, MASKED, QUERY, ink

__all__ = ["pipeline_film"]

FORWARD, BACKWARD = 1, 2
"""Steps of a layer for a micro-batch: two products for every one of the forward pass."""


@dataclass(frozen=True)
class Job:
    """What a device does with a micro-batch, from step `start` on."""

    device: int
    batch: int
    start: int
    length: int


def schedule(devices: int, batches: int) -> list[Job]:
    """GPipe (Huang et al., 2019): all micro-batches forward, then all backward, the last one first."""
    turn = devices + batches - 1
    there = [Job(device, batch, device + batch, FORWARD) for device in range(devices) for batch in range(batches)]
    back = [
        Job(device, batch, turn + BACKWARD * (devices - 1 - device + batches - 1 - batch), BACKWARD)
        for device in range(devices)
        for batch in range(batches)
    ]
    return there + back


def pipeline_film(devices: int = 4, batches: int = 4) -> None:
    """Which device works on which micro-batch, forward and backward; what is idle, and what device 1 keeps."""
    play(_film(devices, batches))


def _film(devices: int, batches: int) -> str:
    jobs, turn = schedule(devices, batches), devices + batches - 1
    ends = [*range(1, turn + 1), *range(turn + BACKWARD, 3 * turn + 1, BACKWARD)]
    figure, axis = plt.subplots(figsize=(9.5, 2.3), layout="none")
    figure.subplots_adjust(left=0.1, right=0.98, top=0.97, bottom=0.21)

    def frame(end: int) -> str:
        axis.clear()
        axis.barh(range(devices), end, height=0.9, color=MASKED)
        for job in jobs:
            if job.start < end:
                _bar(axis, job, now=job.start + job.length == end)
        axis.set_yticks(range(devices), [f"device {device + 1}" for device in range(devices)], fontsize=10)
        axis.set(xlim=(0, 3 * turn), ylim=(-0.5, devices - 0.5), xlabel="step", xticks=range(0, 3 * turn + 1, 3))
        axis.spines[:].set_visible(False)
        return _said(end, turn, jobs, devices, batches)

    described = (
        f"{devices} devices over the steps of one training step: {batches} micro-batches pass forward through all "
        "devices, then backward, the last one first; gray corners are idle time."
    )
    return film(figure, frame, ends, described, milliseconds=900)


def _bar(axis, job: Job, *, now: bool) -> None:
    dark, faint = (QUERY, FAINT_QUERY) if job.length == FORWARD else (KEY, FAINT_KEY)
    colour = dark if now else faint
    axis.barh(job.device, job.length, left=job.start, height=0.9, color=colour, edgecolor="white")
    middle = job.start + job.length / 2
    axis.text(middle, job.device, job.batch + 1, ha="center", va="center", fontsize=10, color=ink(colour))


def _said(end: int, turn: int, jobs: list[Job], devices: int, batches: int) -> str:
    busy = sum(min(job.length, end - job.start) for job in jobs if job.start < end)
    there = sum(job.device == 0 and job.length == FORWARD and job.start < end for job in jobs)
    back = sum(job.device == 0 and job.length == BACKWARD and job.start + job.length <= end for job in jobs)
    idle = 1 - busy / (devices * end)
    if end == 3 * turn:
        return (
            f"Done in {end} steps: {idle:.0%} of all device time was idle, just as in the forward pass. Backward takes "
            "twice as long, so its bubble is twice as long as well."
        )
    way = "Forward (blue)" if end <= turn else "Backward (orange), the last micro-batch first"
    return (
        f"{way}. Step {end}: {idle:.0%} of the time so far was idle. Device 1 still keeps {there - back} of "
        f"{batches} micro-batches for the backward pass."
    )
