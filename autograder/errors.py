"""The one exception that users see: a single line that says what is wrong and what to do."""


class CourseError(Exception):
    """A mistake the user can mend. Its text is one line; `attn` prints it without a traceback and exits with `code`."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


BAD_INPUT = 2
"""Exit status for an argument that names nothing usable: an unknown unit, a file that is no notebook."""
