"""The pictures of the course: one function each, drawn from the same references that the checks use."""
