"""How large what a student hands in, and what student code shows, may be. What is larger is refused or replaced by a
line that says so. The largest honest notebook of this course has 0.4 MB without pictures; with plots, 3 MB."""

FILE = 10_000_000
"""Bytes of a notebook."""
HANDED_IN = 50
"""Notebooks of one person in a download, archives unpacked."""
HANDED_IN_BYTES = 200_000_000
"""Bytes of them and of archives, as they unpack."""
CELLS = 2_000
"""Cells of a notebook."""
CODE = 150_000
"""Characters of a code cell: Python's own parser needs half a kilobyte of memory for each."""
MARKDOWN = 300_000
"""Characters of a markdown cell, pictures not counted. What takes long to render is found by trying."""
PICTURE = 5_333_332
"""Characters of one picture in a markdown cell: 4 MB."""
TEXT = 600_000
"""Characters of all cells together, pictures in markdown not counted."""

HTML = 100_000
"""Characters of one HTML or LaTeX output, and of all of a cell's together."""
DEPTH = 100
"""Tags within tags: what renders pages goes down one call for each."""
STREAM = 200_000
"""Characters of one printed or plain output."""
OUTPUTS = 200
"""Outputs of a cell."""
NOTEBOOK_OUTPUT = 10_000_000
"""Bytes of all outputs of a notebook together: each costs the grader eight of memory for a while."""
TIMESTAMP = 200
"""Bytes of timestamp.txt."""
