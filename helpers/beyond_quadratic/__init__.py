"""Unit 10: attention that costs less than the square of the length."""
