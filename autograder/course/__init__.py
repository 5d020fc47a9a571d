"""The course as files: where things lie, building notebooks from sources, linting, exercises, nbgrader's own steps."""
