"""The course put to the test: wrong answers, right ones in other styles, hostile notebooks, a sample class."""
