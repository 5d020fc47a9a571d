"""A notebook in, the same notebook with outputs out; a student's code runs in a sandbox, and scores are computed
elsewhere. See README.md."""
