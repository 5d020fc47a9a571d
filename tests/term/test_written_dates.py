"""Dates in the words of the languages in which instructors download Moodle's worksheet."""

from datetime import datetime

import pytest
from babel.dates import format_datetime

from autograder.lms.written_dates import LANGUAGES, read_date


@pytest.mark.parametrize(
    "text",
    [
        "Sunday, 22 November 2026, 10:15 PM",
        "Sunday, November 22, 2026, 10:15 PM",
        "Sunday, 22 November 2026, 22:15",
        "22 Nov 2026, 10:15 p.m.",
        "Sonntag, 22. November 2026, 22:15",
        "dimanche 22 novembre 2026, 22h15",
        "domingo, 22 de noviembre de 2026, 22:15",
        "zondag, 22 november 2026, 22:15:30",
    ],
)
def test_the_styles_of_moodles_languages_are_read(text):
    assert read_date(text) == datetime(2026, 11, 22, 22, 15)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("style", ["EEEE, d MMMM y, HH:mm", "EEE d MMM y HH:mm"])
def test_every_day_of_every_month_is_read_in_every_language(language, style):
    for month in range(1, 13):
        for day in (3, 4, 5, 6, 7, 8, 9):  # every day of a week: `mar.` may be one, and a month
            moment = datetime(2026, month, day, 23, 59)
            assert read_date(format_datetime(moment, style, locale=language)) == moment


@pytest.mark.parametrize(
    "text", ["", "-", "22/11/26, 10:15", "2026-11-22 10:15", "31 February 2026, 10:15", "22 November 2026", "x" * 9999]
)
def test_what_may_mean_two_days_or_none_is_not_guessed(text):
    assert read_date(text) is None
