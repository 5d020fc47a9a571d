"""A training step through a pipeline of devices as a film: forward, then backward, which takes twice as long."""

from dataclasses import dataclass

from helpers.board import Board
from helpers.film import film, play
from helpers.style import FAINT_KEY, FAINT_QUERY, KEY, MASKED, QUERY

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
    board, wide = Board(20, 1.25 * devices + 1.5), 17 / (3 * turn)  # a step, in cells of the board

    def frame(end: int) -> str:
        board.wipe()
        for device in range(devices):
            top = 0.3 + 1.25 * (devices - 1 - device)
            board.text(2.3, top + 0.55, f"device {device + 1}", ha="right", size=10)
            board.box(2.5, top, wide * end, 1.1, MASKED)
        for job in jobs:
            if job.start < end:
                _bar(board, job, 0.3 + 1.25 * (devices - 1 - job.device), wide, now=job.start + job.length == end)
        board.text(1.9, 1.25 * devices + 0.8, "step", ha="right", size=10)
        for step in range(0, 3 * turn + 1, 3):
            board.text(2.5 + wide * step, 1.25 * devices + 0.8, str(step))
        return _said(end, turn, jobs, devices, batches)

    described = (
        f"{devices} devices over the steps of one training step: {batches} micro-batches pass forward through all "
        "devices, then backward, the last one first; gray corners are idle time."
    )
    return film(board, frame, ends, described, milliseconds=900)


def _bar(board: Board, job: Job, top: float, wide: float, *, now: bool) -> None:
    dark, faint = (QUERY, FAINT_QUERY) if job.length == FORWARD else (KEY, FAINT_KEY)
    left, width = 2.5 + wide * job.start, wide * job.length - 0.05
    board.box(left, top, width, 1.1, dark if now else faint, str(job.batch + 1), size=10)


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
