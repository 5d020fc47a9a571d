"""Dates as Moodle writes them: in the words and the order of whoever downloaded the worksheet."""

import re
from datetime import datetime
from functools import cache

LANGUAGES = "en de fr es it nl pt ca pl sv da nb fi cs".split()
_TIME = re.compile(r"\b(\d{1,2})[:.h](\d\d)(?::\d\d)?(?:\s*([ap])\.?\s?m\b)?", re.IGNORECASE)


def read_date(text: str) -> datetime | None:
    """`Sunday, 22 November 2026, 10:15 AM`, `November 22, 2026, 10:15`, `Sonntag, 22. November 2026, 10:15`; None for
    what has no month in words, a day, a year and a time, each once. Raises nothing."""
    if len(times := _TIME.findall(text)) != 1:
        return None
    hour, minute, half = times[0]
    rest = _TIME.sub(" ", text)
    words = [months()[word] for word in re.findall(r"[^\W\d_]+", rest.casefold()) if word in months()]
    years, days = re.findall(r"\b\d{4}\b", rest), re.findall(r"\b\d{1,2}\b", rest)
    if not words or len(years) != 1 or len(days) != 1:
        return None
    try:
        found = datetime(int(years[0]), words[-1], int(days[0]), int(hour), int(minute))  # `mar. 3 nov.`: a day before
        return found if not half else datetime.combine(found, _of_twelve(hour, minute, half).time())
    except ValueError:
        return None


def _of_twelve(hour: str, minute: str, half: str) -> datetime:
    return datetime.strptime(f"{hour}:{minute} {half}m", "%I:%M %p")


@cache
def months() -> dict[str, int]:
    """The names of the months, in small letters, and their numbers."""
    from babel.dates import get_month_names  # only a Moodle download needs it, not every command

    return {
        name.casefold().rstrip("."): number
        for language in LANGUAGES
        for width in ("abbreviated", "wide")
        for context in ("format", "stand-alone")
        for number, name in get_month_names(width, context, language).items()
    }
