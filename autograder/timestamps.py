"""Moments as instructors write them and as gradebooks keep them: in UTC, to the second."""

import os
import time as clock
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable


def use_zone(name: str = "") -> str:
    """From now on this process takes a time without a zone for one of this zone; "" for this machine's. Returns what it
    is called. Raises CourseError."""
    if name:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise CourseError(
                f"There is no time zone '{printable(name)[:40]}': write one such as Europe/Berlin.", BAD_INPUT
            ) from None
        os.environ["TZ"] = name
        clock.tzset()
    return name or f"this machine's zone ({datetime.now().astimezone():UTC%z})"


def parse_deadline(text: str) -> datetime:
    """A deadline: `2026-11-30`, `2026-11-30 23:59`, with `+01:00`, `UTC` or `Europe/Berlin` behind it; else this
    machine's time. A day alone lasts to its end. Raises CourseError."""
    words = text.strip().split()
    try:
        zone = ZoneInfo(words.pop()) if len(words) > 1 and words[-1][0].isalpha() else None
        moment = datetime.fromisoformat(" ".join(words))
        if len(" ".join(words)) <= len("2026-11-30"):
            moment = datetime.combine(moment, time(23, 59, 59))
        if not 1990 < moment.year < 2200:
            raise ValueError
        return to_utc(moment.replace(tzinfo=zone) if zone else moment)
    except (ValueError, KeyError, OSError, OverflowError, IndexError):
        raise CourseError(
            f"'{printable(text)[:40]}' is no date: write one such as '2026-11-30 23:59' or '2026-11-30 23:59 UTC'.",
            BAD_INPUT,
        ) from None


def to_utc(moment: datetime) -> datetime:
    """The moment in UTC, to the second; without a time zone it is this machine's."""
    return moment.astimezone(UTC).replace(microsecond=0)


def from_gradebook(moment: datetime | None) -> datetime | None:
    """nbgrader keeps UTC and doesn't say so."""
    return moment and moment.replace(tzinfo=UTC)


def format_timestamp(moment: datetime | None) -> str:
    """As nbgrader's timestamp.txt has it; "" for none."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else ""


def parse_timestamp(text: str) -> datetime | None:
    """What `format_timestamp` wrote."""
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except ValueError:
        return None
