"""The MIME type under which a score says in JSON what a program may want to know of it."""

MIME = "application/vnd.attention-course.score+json"
