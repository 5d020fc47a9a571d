"""Unit 01: recurrences, attention without a loop, schedules and the associative scan."""
