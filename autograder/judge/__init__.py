"""A notebook in, the same notebook with outputs out; a student's code runs in a sandbox, scores come from elsewhere.
See README.md."""
